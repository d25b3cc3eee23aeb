//! What a process left may have been changed by anybody: a cache that goes on with it answers right
//! or not at all, and all its memory is accounted for.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use cellar_engine::{Cache, Config, DeleteOptions, SetOptions, StateDir, StateOptions};

const PAGE: usize = 4096;
const KEYS: usize = 600;
/// The state's file, once it is made: its length, and its pages that hold anything but values.
type Left = (u64, Vec<(u64, Vec<u8>)>);

static LEFT: Mutex<Option<Left>> = Mutex::new(None);

fn place() -> PathBuf {
    let name = format!("cellar-left-{}", std::process::id());
    PathBuf::from("/dev/shm").join(name)
}

fn open() -> Cache {
    let dir = StateDir::open(&place()).expect("the directory is this test's");
    let mut state = StateOptions::of(dir);
    // The clock stands at zero, where it did: nobody was away.
    state.clock_origin = 1;
    let config = Config {
        shards: Some(2),
        clock: std::sync::Arc::new(cellar_engine::ManualClock::default()),
        state: Some(state),
        ..Config::with_memory(2 << 20)
    };
    Cache::new(config).expect("there is room for it")
}

fn value(number: usize) -> Vec<u8> {
    format!("value of {number:0>50}").into_bytes()
}

/// Makes the state that inputs change.
fn make() -> Left {
    let cache = open();
    for number in 0..KEYS {
        let name = number.to_string();
        let key = cache.key(name.as_bytes()).expect("a short key");
        for number in [number + 1, number] {
            let stored = cache.set(key, &value(number), &SetOptions::default());
            stored.expect("there is room");
        }
        if number % 10 == 3 {
            let deleted = cache.delete(key, &DeleteOptions::default());
            deleted.expect("a delete never fails");
        }
    }
    cache.seal().expect("it outlives this process").leave();
    drop(cache);
    let file = File::open(place().join("cache")).expect("it was made");
    let bytes = file.metadata().expect("it is open").len();
    let mut pages = Vec::new();
    for at in (0..bytes).step_by(PAGE) {
        let mut page = vec![0; PAGE];
        file.read_exact_at(&mut page, at).expect("inside the file");
        if page.iter().any(|&byte| byte != 0) {
            pages.push((at, page));
        }
    }
    (bytes, pages)
}

/// Whether the page holds values, which are believed as memory is.
fn is_of_values(page: &[u8]) -> bool {
    page.windows(9).any(|bytes| bytes == b"value of ")
}

/// Changes what was left by the input: a page, a place in it and what is to stand there.
pub(crate) fn check(input: &[u8]) {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let (bytes, mut pages) = left.get_or_insert_with(make).clone();
    let beside: Vec<usize> = (0..pages.len())
        .filter(|&number| !is_of_values(&pages[number].1))
        .collect();
    for change in input.chunks_exact(4).take(64) {
        let page = beside[usize::from(change[0]) % beside.len()];
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % PAGE;
        pages[page].1[at] ^= change[3];
    }
    let path = place().join("cache");
    let file = File::options()
        .write(true)
        .open(&path)
        .expect("it was made");
    file.set_len(0).expect("it is this test's");
    file.set_len(bytes).expect("there is room");
    for (at, page) in &pages {
        file.write_all_at(page, *at).expect("there is room");
    }
    drop(file);
    let cache = open();
    for number in 0..KEYS {
        let name = number.to_string();
        let key = cache.key(name.as_bytes()).expect("a short key");
        let found = cache.get(key, |item| item.value.to_vec());
        if let Some(found) = found {
            assert_eq!(found, value(number), "{number}");
            assert_ne!(number % 10, 3, "{number} was deleted");
        }
        let _ = cache.set(key, b"another", &SetOptions::default());
    }
    cache.audit().expect("all memory is accounted for");
    drop(cache);
    if std::fs::metadata(&path).is_ok_and(|file| file.len() != bytes) {
        *left = None;
    }
}

/// Removes what the checks have made.
pub(crate) fn remove() {
    let _ = std::fs::remove_dir_all(place());
}

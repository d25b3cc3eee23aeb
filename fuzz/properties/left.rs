//! What a process left may have been changed by anybody: a cache that goes on with it answers right
//! or not at all, and all its memory is accounted for.
//!
//! The input's first byte says how it was left. By a kill: of the memory's file there is all, and
//! changes are made to its pages. By a clean stop, which has written down what is known of the
//! memory: changes are made to every file there is, and what nobody has touched is gone on with at
//! once. In pages of values nothing is changed, for these are believed as memory is.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cellar_engine::{Cache, Config, DeleteOptions, SetOptions, StateDir, StateOptions};
use cellar_shared::keyspace::names::{KnownNames, Names};

const PAGE: usize = 4096;
const KEYS: usize = 600;
/// Every tenth key is deleted.
const LIVE: usize = KEYS - KEYS / 10;
const CHANGES_MAX: usize = 64;
/// The files of a clean stop: what is known of the memory, the memory, what its numbers mean.
const FILES: [&str; 3] = ["sealed", "cache", "names"];
/// Bytes that are zeroed, swapped or taken over from elsewhere at once.
const PIECE: usize = 64;

/// What a killed process leaves.
#[derive(Clone)]
struct Left {
    memory_bytes: u64,
    /// The memory's pages that are not all zero.
    pages: Vec<(u64, Vec<u8>)>,
    names: Vec<u8>,
}

static LEFT: Mutex<Option<Left>> = Mutex::new(None);
/// What another server left, file by file, of its memory a page.
static OTHER: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let place = place("other");
    stop(&place);
    let files = FILES.map(|name| match name {
        "cache" => pages_of(&place).1.swap_remove(0).1,
        _ => std::fs::read(place.join(name)).expect("it was made"),
    });
    let _ = std::fs::remove_dir_all(place);
    files
});
/// Where the memory of a cache that has stopped has bytes, before the first that are of values.
static BESIDE: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let place = place("beside");
    stop(&place);
    let (_, pages) = pages_of(&place);
    let _ = std::fs::remove_dir_all(place);
    let beside = pages.iter().take_while(|(_, page)| !is_of_values(page));
    beside.map(|&(at, _)| at).collect()
});

fn place(name: &str) -> PathBuf {
    let name = format!("cellar-left-{}-{name}", std::process::id());
    PathBuf::from("/dev/shm").join(name)
}

/// What is noted beside every cache here.
fn known() -> KnownNames {
    KnownNames {
        databases: Some((17, vec![0, 1, 17])),
        types: vec!["image/png".to_owned(), "text/x-odd".to_owned()],
    }
}

/// Opens a cache as a server does: with names that can be believed, or anew.
fn open(place: &Path) -> Cache {
    let dir = StateDir::open(place).expect("the directory is this test's");
    let named = dir.id().map(|id| KnownNames::read(&dir, id));
    let mut state = StateOptions::of(dir);
    let dir = Arc::clone(&state.dir);
    // The clock stands at zero, where it did: nobody was away.
    state.clock_origin = 1;
    state.refused = named.clone().and_then(Result::err);
    let config = Config {
        shards: Some(2),
        clock: Arc::new(cellar_engine::ManualClock::default()),
        state: Some(state),
        ..Config::with_memory(2 << 20)
    };
    let cache = Cache::new(config).expect("there is room for it");
    if is_restored(&cache) {
        assert_eq!(named, Some(Ok(known())), "items mean what they meant");
    }
    let id = cache.state_id().expect("it outlives this process");
    let mut first = known();
    let last_type = first.types.pop().expect("there are some");
    let names = Names::begin(&dir, id, first).expect("there is room");
    names.note_type(&last_type);
    cache
}

fn is_restored(cache: &Cache) -> bool {
    let restored = cache.restored().expect("it outlives this process");
    restored.is_restored()
}

fn was_walked(cache: &Cache) -> bool {
    let restored = cache.restored().expect("it outlives this process");
    restored.was_walked
}

fn value(number: usize) -> Vec<u8> {
    format!("value of {number:0>50}").into_bytes()
}

/// Makes a cache anew and stops it.
fn stop(place: &Path) {
    let _ = std::fs::remove_dir_all(place);
    let cache = open(place);
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
    cache
        .checkpoint()
        .expect("it outlives this process")
        .leave();
}

/// The memory's length, and its pages that are not all zero.
fn pages_of(place: &Path) -> (u64, Vec<(u64, Vec<u8>)>) {
    let file = File::open(place.join("cache")).expect("it was made");
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

/// Whether the page holds values.
fn is_of_values(page: &[u8]) -> bool {
    page.windows(9).any(|bytes| bytes == b"value of ")
}

/// Reads every key, which is right or not there, then stores others and counts all; how many keys
/// were there.
fn use_all(cache: &Cache) -> usize {
    let mut there = 0;
    for number in 0..KEYS {
        let name = number.to_string();
        let key = cache.key(name.as_bytes()).expect("a short key");
        let found = cache.get(key, |item| item.value.to_vec());
        if let Some(found) = found {
            assert_eq!(found, value(number), "{number}");
            assert_ne!(number % 10, 3, "{number} was deleted");
            there += 1;
        }
        let _ = cache.set(key, b"another", &SetOptions::default());
    }
    cache.audit().expect("all memory is accounted for");
    there
}

/// Changes what was left as the input says.
pub(crate) fn check(input: &[u8]) {
    match input.split_first() {
        Some((how, changes)) if how % 2 == 1 => stopped(changes),
        Some((_, changes)) => killed(changes),
        None => {}
    }
}

/// A killed process's: a page of its memory, a place in it and what is to stand there.
fn killed(changes: &[u8]) {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let place = place("killed");
    let make = || {
        stop(&place);
        let (memory_bytes, pages) = pages_of(&place);
        Left {
            memory_bytes,
            pages,
            names: std::fs::read(place.join("names")).expect("it was made"),
        }
    };
    let Left {
        memory_bytes,
        mut pages,
        names,
    } = left.get_or_insert_with(make).clone();
    let beside: Vec<usize> = (0..pages.len())
        .filter(|&number| !is_of_values(&pages[number].1))
        .collect();
    for change in changes.chunks_exact(4).take(CHANGES_MAX) {
        let page = beside[usize::from(change[0]) % beside.len()];
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % PAGE;
        pages[page].1[at] ^= change[3];
    }
    let path = place.join("cache");
    let file = File::options()
        .write(true)
        .open(&path)
        .expect("it was made");
    file.set_len(0).expect("it is this test's");
    file.set_len(memory_bytes).expect("there is room");
    for (at, page) in &pages {
        file.write_all_at(page, *at).expect("there is room");
    }
    drop(file);
    std::fs::write(place.join("names"), names).expect("it is this test's");
    let cache = open(&place);
    assert!(!is_restored(&cache) || was_walked(&cache));
    use_all(&cache);
    drop(cache);
    if std::fs::metadata(&path).is_ok_and(|file| file.len() != memory_bytes) {
        *left = None;
    }
}

/// A stopped one's: a file, what is done to it, three bytes for the place, and what with.
fn stopped(changes: &[u8]) {
    let place = place("stopped");
    stop(&place);
    let bytes_of = |name: &str| std::fs::read(place.join(name)).ok();
    let [sealed, names] = ["sealed", "names"].map(bytes_of);
    let mut is_touched = false;
    for change in changes.chunks_exact(6).take(CHANGES_MAX) {
        let which = usize::from(change[0]) % FILES.len();
        let at = u32::from_le_bytes([change[2], change[3], change[4], 0]) as usize;
        is_touched |= FILES[which] == "cache";
        // Whoever has removed the file has nothing more to change in it.
        let _ = alter(&place, which, (change[1], at, change[5]));
    }
    let (is_sealed, is_named) = (bytes_of("sealed") == sealed, bytes_of("names") == names);
    let cache = open(&place);
    if is_restored(&cache) {
        assert_eq!(was_walked(&cache), is_touched || !is_sealed);
    }
    let there = use_all(&cache);
    if is_named && !is_touched {
        assert_eq!((is_restored(&cache), there), (true, LIVE));
    }
    let items = cache.stats().items;
    cache
        .checkpoint()
        .expect("it outlives this process")
        .leave();
    drop(cache);
    let cache = open(&place);
    assert!(is_restored(&cache) && !was_walked(&cache));
    assert_eq!(cache.stats().items, items);
    cache.audit().expect("all memory is accounted for");
}

/// Changes a file that a clean stop left.
fn alter(place: &Path, which: usize, (how, at, with): (u8, usize, u8)) -> std::io::Result<()> {
    let path = place.join(FILES[which]);
    let how = how % 8;
    if how == 7 {
        return std::fs::remove_file(path);
    }
    if FILES[which] != "cache" {
        let mut bytes = std::fs::read(&path)?;
        change(&mut bytes, &OTHER[which], (how, at, with));
        return std::fs::write(path, bytes);
    }
    let file = File::options().read(true).write(true).open(path)?;
    let bytes = file.metadata()?.len();
    match how {
        2 => return file.set_len(at as u64 * PIECE as u64 % bytes.max(1)),
        5 => return file.set_len(bytes + u64::from(with)),
        _ => {}
    }
    let mut page = vec![0; PAGE];
    let page_at = BESIDE[at / PAGE % BESIDE.len()];
    file.read_exact_at(&mut page, page_at)?;
    change(&mut page, &OTHER[which], (how, at, with));
    file.write_all_at(&page, page_at)
}

/// Changes bytes; `other` are another server's.
fn change(bytes: &mut Vec<u8>, other: &[u8], (how, at, with): (u8, usize, u8)) {
    if bytes.is_empty() {
        return;
    }
    let at = at % bytes.len();
    let end = (at + PIECE).min(bytes.len());
    match how {
        1 => bytes[at..end].fill(0),
        2 => bytes.truncate(at),
        3 => {
            let from = usize::from(with) * PIECE % bytes.len();
            let piece = bytes[at..end].to_vec();
            let len = piece.len().min(bytes.len() - from);
            bytes.copy_within(from..from + len, at);
            bytes[from..from + len].copy_from_slice(&piece[..len]);
        }
        4 => {
            let end = end.min(other.len());
            if at < end {
                bytes[at..end].copy_from_slice(&other[at..end]);
            }
        }
        5 => bytes.extend(std::iter::repeat_n(with, usize::from(with))),
        // Written again as it was.
        6 => {}
        _ => bytes[at] ^= with,
    }
}

/// Removes what the checks have made.
pub(crate) fn remove() {
    for name in ["killed", "stopped"] {
        let _ = std::fs::remove_dir_all(place(name));
    }
}

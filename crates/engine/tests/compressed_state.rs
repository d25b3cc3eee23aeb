//! Compressed values in memory that outlives the process: with their dictionaries they come back
//! after a clean stop, a kill and a takeover; without, they are gone and nothing else is.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_engine::{Cache, Config, Instant, ManualClock, SetOptions, StateDir, StateOptions};

use crate::support::random::Random;

const MEMORY_BYTES: usize = 16 << 20;
const DOCUMENTS: u64 = 40_000;
const OTHERS: u64 = 500;
/// Steps of training within which a dictionary is there.
const STEPS: usize = 2_000;

/// A directory in memory that is gone with the test.
struct Place {
    path: PathBuf,
    clock: Arc<ManualClock>,
}

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("cellar-compressed-{}-{name}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        let _ = std::fs::remove_dir_all(&path);
        let clock = Arc::new(ManualClock::starting_at(Instant(60_000)));
        Place { path, clock }
    }

    fn on(&self, dir: StateDir, change: impl FnOnce(&mut StateOptions)) -> Cache {
        self.sized(MEMORY_BYTES, dir, change)
    }

    fn sized(
        &self,
        memory_bytes: usize,
        dir: StateDir,
        change: impl FnOnce(&mut StateOptions),
    ) -> Cache {
        let mut state = StateOptions::of(dir);
        change(&mut state);
        let cache = Cache::new(Config {
            shards: Some(2),
            clock: Arc::<ManualClock>::clone(&self.clock),
            state: Some(state),
            ..Config::with_memory(memory_bytes)
        });
        let cache = cache.unwrap();
        cache.set_compress(true);
        cache
    }

    fn open(&self) -> Cache {
        self.on(StateDir::open(&self.path).unwrap(), |_| {})
    }

    /// Fills a cache and stops it; how many documents and other values it left.
    fn leave_filled(&self) -> (usize, usize) {
        let cache = self.open();
        fill(&cache);
        let before = there(&cache);
        cache.checkpoint().unwrap().leave();
        before
    }

    /// The dictionaries' files.
    fn dictionaries(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.path).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_one = |path: &PathBuf| path.to_string_lossy().contains("dictionary-");
        paths.filter(is_one).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn document(number: u64) -> Vec<u8> {
    let mut random = Random::from_seed(number + 1);
    let mut text = format!("{{\"id\":{number},\"type\":\"article\",\"author\":{{\"name\":");
    for _ in 0..4 + random.below(20) {
        let weight = random.below(100_000);
        text += &format!("{{\"tag\":\"latency\",\"weight\":{weight},\"active\":true}},");
    }
    (text + "null],\"visibility\":\"public\"}").into_bytes()
}

fn set(cache: &Cache, key: &str, value: &[u8]) {
    let key = cache.key(key.as_bytes()).unwrap();
    cache.set(key, value, &SetOptions::default()).unwrap();
}

/// A look that is no read: of compressed items, one read in 64 stores the item plain.
fn get(cache: &Cache, key: &str) -> Option<Vec<u8>> {
    let key = cache.key(key.as_bytes()).unwrap();
    cache.peek(key, |item| item.value.to_vec())
}

/// Stores documents, most of which are compressed then, and other values, which are not.
fn fill(cache: &Cache) {
    for number in 0..DOCUMENTS {
        set(cache, &format!("doc:{number}"), &document(number));
        if number == DOCUMENTS / 8 {
            let is_trained = || cache.train() && cache.stats().dictionaries > 0;
            assert!((0..STEPS).any(|_| is_trained()));
        }
    }
    for number in 0..OTHERS {
        set(cache, &format!("other:{number}"), &[number as u8; 100]);
    }
    assert!(cache.stats().compressed > DOCUMENTS / 2);
}

/// How many documents and other values are there, each as it was stored.
fn there(cache: &Cache) -> (usize, usize) {
    let documents = (0..DOCUMENTS).filter(|&number| {
        let found = get(cache, &format!("doc:{number}"));
        assert!(
            found.as_ref().is_none_or(|it| *it == document(number)),
            "{number}"
        );
        found.is_some()
    });
    let documents = documents.count();
    let others = (0..OTHERS).filter(|number| {
        let found = get(cache, &format!("other:{number}"));
        assert!(
            found.as_ref().is_none_or(|it| *it == [*number as u8; 100]),
            "{number}"
        );
        found.is_some()
    });
    (documents, others.count())
}

/// Stores documents until some were compressed; a family that is known needs no training for it.
fn compresses_on(cache: &Cache) -> bool {
    (0..DOCUMENTS).any(|number| {
        set(cache, &format!("doc:more-{number}"), &document(number));
        cache.stats().compressed > 0
    })
}

#[test]
fn compressed_values_come_back_after_a_stop_and_after_a_kill() {
    let place = Place::new("stop");
    let before = place.leave_filled();
    assert!(before.0 > DOCUMENTS as usize / 2 && before.1 == OTHERS as usize);
    for is_clean in [true, false, true, false] {
        let cache = place.open();
        let restored = cache.restored().unwrap();
        assert_eq!((restored.empty_because, restored.dropped), (None, 0));
        assert_eq!(cache.stats().dictionaries, 1);
        assert!(cache.families()[0].is_packed);
        cache.audit().unwrap();
        assert_eq!(there(&cache), before);
        if is_clean {
            cache.checkpoint().unwrap().leave();
        }
    }
    let cache = place.open();
    assert!(compresses_on(&cache));
    cache.audit().unwrap();
}

#[test]
fn compressed_values_come_back_into_less_memory_and_more() {
    let place = Place::new("resized");
    let before = place.leave_filled();
    let mut least = 0;
    // In half of the memory a dictionary would get no room; those that values need stay.
    for memory_bytes in [MEMORY_BYTES / 2, MEMORY_BYTES / 2, 2 * MEMORY_BYTES] {
        let dir = StateDir::open(&place.path).unwrap();
        let cache = place.sized(memory_bytes, dir, |_| {});
        assert_eq!(cache.restored().unwrap().empty_because, None);
        while cache.tick() {}
        cache.audit().unwrap();
        let (documents, _) = there(&cache);
        assert!(
            (before.0 / 4..=before.0).contains(&documents),
            "{documents} of {before:?}"
        );
        assert!(
            least == 0 || documents == least,
            "{documents} after {least}"
        );
        least = documents;
        cache.checkpoint().unwrap().leave();
    }
}

#[test]
fn compressed_values_go_to_a_process_that_takes_over() {
    let place = Place::new("takeover");
    let old = place.open();
    fill(&old);
    let before = there(&old);
    assert!(old.hand_over());
    assert!(!old.train());
    let memory = old.state_file().unwrap().try_clone_to_owned().unwrap();
    let new = place.on(
        StateDir::open_with(&place.path, Some(memory)).unwrap(),
        |_| {},
    );
    assert_eq!(there(&new), before);
    assert!(compresses_on(&new));
    new.audit().unwrap();
    drop(old);
}

#[test]
fn values_without_their_dictionary_are_gone_and_no_others() {
    for is_clean in [true, false] {
        for damage in ["removed", "cut short", "changed"] {
            let place = Place::new(&format!("missing-{is_clean}-{}", &damage[..3]));
            let cache = place.open();
            fill(&cache);
            let before = there(&cache);
            if is_clean {
                cache.checkpoint().unwrap().leave();
            }
            drop(cache);
            let [path] = &place.dictionaries()[..] else {
                panic!("there is one dictionary");
            };
            let file = std::fs::File::options().write(true).open(path).unwrap();
            match damage {
                "removed" => std::fs::remove_file(path).unwrap(),
                "cut short" => file.set_len(1_000).unwrap(),
                _ => file.write_all_at(b"other", 2_000).unwrap(),
            }
            let cache = place.open();
            assert_eq!(cache.restored().unwrap().empty_because, None);
            let (documents, others) = there(&cache);
            assert!(documents < before.0 / 2, "{documents} of {}", before.0);
            assert_eq!(others, before.1);
            assert!(cache.restored().unwrap().dropped > 1_000);
            assert_eq!(cache.stats().dictionaries, 0);
            cache.audit().unwrap();
        }
    }
}

#[test]
fn a_changed_byte_makes_no_wrong_value_and_ends_no_process() {
    for (is_clean, verify) in [(false, false), (true, true)] {
        let place = Place::new(&format!("flipped-{is_clean}"));
        let cache = place.open();
        fill(&cache);
        let before = there(&cache);
        match is_clean {
            true => cache.checkpoint().unwrap().leave(),
            // Checksums of what is full.
            false => while cache.tick() {},
        }
        drop(cache);
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true);
        let file = file.open(place.path.join("cache")).unwrap();
        let bytes = file.metadata().unwrap().len();
        let (mut random, mut flipped) = (Random::from_seed(9), 0);
        while flipped < 200 {
            let at = bytes / 2 + random.below(bytes / 2);
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            if byte[0] != 0 {
                file.write_all_at(&[byte[0] ^ 4], at).unwrap();
                flipped += 1;
            }
        }
        let cache = place.on(StateDir::open(&place.path).unwrap(), |it| {
            it.verify = verify
        });
        // Values that are not compressed are covered by checksums as well.
        let found = there(&cache);
        let least = before.0 - before.0 / 2;
        assert!(
            (least..before.0).contains(&found.0),
            "{found:?} of {before:?}"
        );
        cache.audit().unwrap();
    }
}

#[test]
fn a_dictionary_that_cannot_be_written_compresses_nothing() {
    let place = Place::new("unwritable");
    let cache = place.open();
    for number in 0..DOCUMENTS {
        set(&cache, &format!("doc:{number}"), &document(number));
    }
    // A folder where the file would be: no user may rename a file over it.
    std::fs::create_dir_all(place.path.join("dictionary-0/taken")).unwrap();
    for _ in 0..STEPS {
        cache.train();
    }
    let stats = cache.stats();
    assert_eq!((stats.dictionaries, stats.compressed), (0, 0));
    cache.audit().unwrap();
}

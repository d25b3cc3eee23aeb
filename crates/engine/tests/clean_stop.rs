//! What a clean stop leaves: with it the next process goes on at once, and without a doubt of it
//! only; and how a cache's memory goes to another process while this one still reads of it.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_engine::{
    Cache, Config, Deadline, Instant, ManualClock, SetOptions, Space, StateDir, StateOptions,
};

/// A directory in memory that is gone with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("cellar-clean-stop-{}-{name}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        let _ = std::fs::remove_dir_all(&path);
        Place(path)
    }

    fn file(&self, name: &str) -> std::fs::File {
        let mut options = std::fs::File::options();
        let options = options.read(true).write(true);
        options.open(self.0.join(name)).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const MEMORY: usize = 4 << 20;
/// Caches whose hits are added up.
const RUNS: i64 = 6;

/// How caches are made here.
struct Making {
    clock: Arc<ManualClock>,
    spaces: Option<Vec<Space>>,
}

impl Making {
    fn new() -> Making {
        Making {
            clock: Arc::new(ManualClock::starting_at(Instant(60_000))),
            spaces: None,
        }
    }

    fn on(&self, dir: StateDir) -> Cache {
        let mut state = StateOptions::of(dir);
        state.spaces.clone_from(&self.spaces);
        let config = Config {
            shards: Some(2),
            clock: Arc::<ManualClock>::clone(&self.clock),
            state: Some(state),
            ..Config::with_memory(MEMORY)
        };
        Cache::new(config).unwrap()
    }

    fn open(&self, place: &Place) -> Cache {
        self.on(StateDir::open(&place.0).unwrap())
    }
}

fn walked(cache: &Cache) -> bool {
    let restored = cache.restored().unwrap();
    assert_eq!(restored.empty_because, None);
    restored.was_walked
}

fn set_in(cache: &Cache, space: Space, number: u64) {
    let name = format!("key-{number}");
    let key = cache.key_in(space, name.as_bytes()).unwrap();
    let deadline = match number % 3 {
        0 => cache.now().plus_ms(1_000 + number * 10),
        _ => Deadline::NEVER,
    };
    let options = SetOptions {
        deadline,
        flags: number as u32 % 2,
        ..SetOptions::default()
    };
    let bytes = match number % 50 {
        0 => 60_000,
        _ => 20 + number as usize % 300,
    };
    let value = vec![number as u8; bytes];
    cache.set(key, &value, &options).unwrap();
}

fn get_in(cache: &Cache, space: Space, number: u64) -> Option<Vec<u8>> {
    let name = format!("key-{number}");
    let key = cache.key_in(space, name.as_bytes()).unwrap();
    cache.get(key, |item| item.value.to_vec())
}

/// Which of these keys a cache has.
fn there(cache: &Cache, keys: u64) -> Vec<u64> {
    let is_there = |number: &u64| {
        let value = get_in(cache, Space::MAIN, *number);
        let is_right = |value: &Vec<u8>| value.iter().all(|&byte| byte == *number as u8);
        assert!(value.as_ref().is_none_or(is_right), "{number}");
        value.is_some()
    };
    (0..keys).filter(is_there).collect()
}

/// A cache that has evicted, with some read more than once.
fn fill(cache: &Cache, keys: u64) {
    for number in 0..keys {
        set_in(cache, Space::MAIN, number);
        for again in 0..3 {
            get_in(cache, Space::MAIN, number / (again + 1));
        }
        if number % 64 == 0 {
            cache.tick();
        }
    }
}

#[test]
fn what_a_clean_stop_knows_is_gone_on_with_and_a_kill_leaves_none_of_it() {
    let (place, making) = (Place::new("clean"), Making::new());
    let cache = making.open(&place);
    fill(&cache, 20_000);
    assert!(cache.stats().evicted > 1_000);
    let before = there(&cache, 20_000);
    let stats = cache.stats();
    let name = format!("key-{}", before[0]);
    let held = cache.get_handle(cache.key(name.as_bytes()).unwrap());
    assert!(held.is_some());
    cache.checkpoint().unwrap().leave();
    drop((held, cache));
    for _ in 0..3 {
        let cache = making.open(&place);
        assert!(!walked(&cache) && !cache.is_read_before());
        let audit = cache.audit().unwrap();
        let again = cache.stats();
        assert_eq!(
            (audit.live_items, again.items, again.live_bytes),
            (before.len() as u64, stats.items, stats.live_bytes)
        );
        assert_eq!(there(&cache, 20_000), before);
        cache.checkpoint().unwrap().leave();
    }
    drop(making.open(&place));
    let cache = making.open(&place);
    assert!(walked(&cache) && !cache.restored().unwrap().was_clean_stop);
    assert_eq!(there(&cache, 20_000), before);
}

#[test]
fn a_cache_that_went_on_evicts_as_one_that_was_never_stopped() {
    let run = |stops: bool| {
        let (place, making) = (Place::new(&format!("order-{stops}")), Making::new());
        let mut cache = making.open(&place);
        let mut state = 1_u64;
        let mut hits = 0;
        for round in 0..60_000_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let draw = state >> 40;
            let number = draw % (1 + (draw >> 8) % 16_000);
            making.clock.advance_ms(round % 2);
            match get_in(&cache, Space::MAIN, number) {
                Some(_) => hits += 1,
                None => set_in(&cache, Space::MAIN, number),
            }
            if stops && round % 7_919 == 0 {
                cache.checkpoint().unwrap().leave();
                drop(cache);
                cache = making.open(&place);
                assert!(round == 0 || !walked(&cache));
            }
        }
        cache.audit().unwrap();
        hits
    };
    // The hash is another one each time, so hits vary by 500 a run; a walk at each stop makes 4,000
    // of difference.
    let sum = |stops: bool| (0..RUNS).map(|_| run(stops)).sum::<i64>();
    let (with, without) = (sum(true), sum(false));
    assert!(
        i64::abs_diff(with, without) < 1_200 * RUNS as u64,
        "{with} {without}"
    );
}

#[test]
fn spaces_that_nobody_names_any_more_and_what_ended_meanwhile_are_gone() {
    let (place, mut making) = (Place::new("spaces"), Making::new());
    let cache = making.open(&place);
    for number in 0..300 {
        for space in [Space::MAIN, Space(1), Space(2)] {
            set_in(&cache, space, number);
        }
    }
    cache.retire_space(Space(2));
    cache.checkpoint().unwrap().leave();
    drop(cache);
    making.clock.advance_ms(3_001);
    making.spaces = Some(vec![Space::MAIN]);
    let cache = making.open(&place);
    assert!(!walked(&cache));
    let found = |space| {
        let is_there = |number: &u64| get_in(&cache, space, *number).is_some();
        (0..300).filter(is_there).count()
    };
    assert_eq!(found(Space::MAIN), 300 - 67);
    assert_eq!(found(Space(1)) + found(Space(2)), 0);
    while cache.tick() {}
    cache.audit().unwrap();
}

#[test]
fn memory_that_anybody_has_touched_is_looked_at() {
    let (place, making) = (Place::new("touched"), Making::new());
    let cache = making.open(&place);
    fill(&cache, 2_000);
    let before = there(&cache, 2_000);
    cache.checkpoint().unwrap().leave();
    drop(cache);
    let saved = std::fs::read(place.0.join("sealed")).unwrap();
    let touch = |how: &dyn Fn()| {
        how();
        let cache = making.open(&place);
        assert!(walked(&cache));
        assert_eq!(there(&cache, 2_000), before);
        cache.audit().unwrap();
        cache.checkpoint().unwrap().leave();
        drop(cache);
    };
    let byte = |name: &str, at: u64, change: u8| {
        let (file, mut byte) = (place.file(name), [0]);
        let at = at.min(file.metadata().unwrap().len() - 1);
        file.read_exact_at(&mut byte, at).unwrap();
        byte[0] ^= change;
        file.write_all_at(&byte, at).unwrap();
    };
    // The same byte again; and one of a page that nothing lies in.
    touch(&|| byte("cache", 8_192, 0));
    touch(&|| byte("cache", 4_000, 1));
    touch(&|| {
        std::fs::copy(place.0.join("cache"), place.0.join("copy")).unwrap();
        std::fs::rename(place.0.join("copy"), place.0.join("cache")).unwrap();
    });
    touch(&|| std::fs::remove_file(place.0.join("sealed")).unwrap());
    touch(&|| std::fs::write(place.0.join("sealed"), &saved).unwrap());
    touch(&|| place.file("sealed").set_len(100).unwrap());
    // Longer than any memory; and what nobody has written anything into.
    touch(&|| place.file("sealed").set_len(1 << 40).unwrap());
    touch(&|| {
        std::fs::write(place.0.join("sealed"), []).unwrap();
        place.file("sealed").set_len(1 << 40).unwrap();
    });
    touch(&|| {
        std::fs::remove_file(place.0.join("sealed")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(place.0.join("sealed"))
            .status();
        assert!(made.unwrap().success());
    });
    let length = saved.len() as u64;
    for at in (0..96).step_by(7).chain((96..length).step_by(977)) {
        touch(&|| byte("sealed", at, 1 << (at % 8)));
    }
    let cache = making.open(&place);
    assert!(!walked(&cache));
    assert_eq!(there(&cache, 2_000), before);
}

#[test]
fn memory_goes_to_another_process_while_values_of_it_are_read() {
    let (place, making) = (Place::new("handed-over"), Making::new());
    let old = making.open(&place);
    fill(&old, 5_000);
    let held = there(&old, 5_000);
    let handles = held.iter().step_by(40).map(|&number| {
        let name = format!("key-{number}");
        let handle = old.get_handle(old.key(name.as_bytes()).unwrap()).unwrap();
        (number, handle)
    });
    let handles: Vec<_> = handles.collect();
    assert!(old.hand_over());
    assert!(!old.hand_over() && old.checkpoint().is_none() && !old.tick());
    let memory = old.state_file().unwrap().try_clone_to_owned().unwrap();
    assert!(StateDir::open(&place.0).is_err());
    let new = making.on(StateDir::open_with(&place.0, Some(memory)).unwrap());
    assert!(!walked(&new) && new.is_read_before());
    assert_eq!(there(&new, 5_000), held);
    let is_whole = || {
        let mut all = handles.iter();
        all.all(|(number, value)| value.iter().all(|&byte| byte == *number as u8))
    };
    // All that may leave does, and all that stays is written over.
    for round in 0..3 {
        for number in 0..10_000 {
            set_in(&new, Space::MAIN, number);
            set_in(&new, Space::MAIN, number);
        }
        new.tick();
        assert!(is_whole(), "{round}");
    }
    drop(handles);
    assert!(old.stats().items > 0 && !old.tick());
    new.release_read_before();
    assert!(!new.is_read_before());
    new.audit().unwrap();
    drop(old);
    assert!(StateDir::open(&place.0).is_err());
}

#[test]
fn memory_that_another_process_still_has_is_taken_as_it_is_or_not_at_all() {
    let (place, making) = (Place::new("whole"), Making::new());
    let old = making.open(&place);
    fill(&old, 3_000);
    let held = there(&old, 3_000);
    let inherited = || {
        let memory = old.state_file().unwrap().try_clone_to_owned().unwrap();
        StateDir::open_with(&place.0, Some(memory)).unwrap()
    };
    let refused = |memory: usize, why: &str| {
        let config = Config {
            clock: Arc::<ManualClock>::clone(&making.clock),
            state: Some(StateOptions::of(inherited())),
            ..Config::with_memory(memory)
        };
        let error = Cache::new(config).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    assert!(old.hand_over());
    refused(64 << 20, "but --memory is 67108864");
    std::fs::remove_file(place.0.join("sealed")).unwrap();
    refused(MEMORY, "the metadata of the clean stop is missing");
    old.take_back();
    assert_eq!(there(&old, 3_000), held);
    old.audit().unwrap();
}

#[test]
fn memory_that_nobody_came_to_use_is_taken_back() {
    let (place, making) = (Place::new("back"), Making::new());
    let old = making.open(&place);
    fill(&old, 3_000);
    let held = there(&old, 3_000);
    assert!(old.hand_over());
    let memory = old.state_file().unwrap().try_clone_to_owned().unwrap();
    let new = making.on(StateDir::open_with(&place.0, Some(memory)).unwrap());
    drop(new);
    old.take_back();
    assert_eq!(there(&old, 3_000), held);
    fill(&old, 6_000);
    let held = there(&old, 6_000);
    old.audit().unwrap();
    drop(old);
    let cache = making.open(&place);
    assert!(walked(&cache));
    assert_eq!(there(&cache, 6_000), held);
}

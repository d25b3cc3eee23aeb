//! A cache's memory outlives its process: what comes back, what does not, and what is refused.
//!
//! Here a cache is dropped between two operations, as by a process that is killed there; a process
//! that is killed amid one is in killed.rs beside this file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_engine::{
    Cache, Config, Counted, Deadline, DeleteOptions, End, Increment, Instant, Item, Kind,
    ManualClock, ScanCursor, SetOptions, Space, StateDir, StateOptions, Stored,
};

/// A directory in memory that is gone with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let name = format!("cellar-restart-{}-{name}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        let _ = std::fs::remove_dir_all(&path);
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const MEMORY: usize = 4 << 20;

/// How a cache is made here, with a clock that goes on where the last one was.
#[derive(Clone)]
struct Making {
    memory: usize,
    shards: Option<usize>,
    keep: Vec<usize>,
    spaces: Option<Vec<Space>>,
    /// Whether the cache is used before all items are checked.
    checks_later: bool,
    clock: Arc<ManualClock>,
}

impl Making {
    fn new() -> Making {
        Making {
            memory: MEMORY,
            shards: Some(2),
            keep: Vec::new(),
            spaces: None,
            checks_later: false,
            clock: Arc::new(ManualClock::starting_at(Instant(60_000))),
        }
    }

    fn config(&self, place: &Place) -> Config {
        let mut state = StateOptions::of(StateDir::open(&place.0).unwrap());
        state.spaces.clone_from(&self.spaces);
        state.verify = !self.checks_later;
        state.checks_later_above = self.checks_later.then_some(0);
        Config {
            shards: self.shards,
            keep: self.keep.clone(),
            clock: Arc::<ManualClock>::clone(&self.clock),
            state: Some(state),
            ..Config::with_memory(self.memory)
        }
    }

    fn open(&self, place: &Place) -> Cache {
        Cache::new(self.config(place)).unwrap()
    }
}

fn why_empty(cache: &Cache) -> Option<String> {
    cache.restored().unwrap().empty_because
}

fn set(cache: &Cache, key: &str, value: &[u8]) -> Stored {
    let key = cache.key(key.as_bytes()).unwrap();
    cache.set(key, value, &SetOptions::default()).unwrap()
}

fn get(cache: &Cache, key: &str) -> Option<Vec<u8>> {
    let key = cache.key(key.as_bytes()).unwrap();
    cache.get(key, |item| item.value.to_vec())
}

#[test]
fn values_that_grew_where_they_lie_come_back_and_grow_on() {
    let (place, making) = (Place::new("grown"), Making::new());
    let mut models = [100, 2_000, 300_000].map(|bytes| vec![7; bytes]);
    let grow = |cache: &Cache, models: &mut [Vec<u8>]| {
        for (model, name) in models.iter_mut().zip(["short", "middling", "long"]) {
            let key = cache.key(name.as_bytes()).unwrap();
            for piece in 0..30_u8 {
                let piece = [piece; 300];
                let options = SetOptions::default();
                cache.extend(key, End::Back, &piece, &options).unwrap();
                model.extend(piece);
            }
        }
    };
    let cache = making.open(&place);
    for (model, name) in models.iter().zip(["short", "middling", "long"]) {
        set(&cache, name, model);
    }
    grow(&cache, &mut models);
    drop(cache);
    for clean in [true, false, true] {
        let cache = making.open_after(&place, clean);
        for (model, name) in models.iter().zip(["short", "middling", "long"]) {
            assert!(get(&cache, name).as_ref() == Some(model), "{name}");
        }
        grow(&cache, &mut models);
        cache.audit().unwrap();
    }
}

#[test]
fn free_memory_of_a_file_stays_with_the_cache() {
    let (place, making) = (Place::new("free"), Making::new());
    let cache = making.open(&place);
    for number in 0..3_000 {
        set(&cache, &format!("{number}"), &[1; 1_000]);
    }
    let held = |cache: &Cache| {
        let stats = cache.stats();
        stats.live_bytes + stats.dead_bytes + stats.free_bytes
    };
    let before = held(&cache);
    for number in 0..3_000 {
        let key = format!("{number}");
        let key = cache.key(key.as_bytes()).unwrap();
        cache.delete(key, &DeleteOptions::default()).unwrap();
    }
    for _ in 0..30_000 {
        cache.tick();
        making.clock.advance_ms(1);
    }
    assert_eq!(cache.stats().items, 0);
    assert!(held(&cache) >= before, "{} of {before}", held(&cache));
}

#[test]
fn every_field_of_an_item_comes_back() {
    let (place, making) = (Place::new("fields"), Making::new());
    let cache = making.open(&place);
    assert_eq!(why_empty(&cache).as_deref(), Some("no state was found"));
    let key = |cache: &Cache, name: &'static str| cache.key(name.as_bytes()).unwrap();
    let options = SetOptions {
        deadline: cache.now().plus_ms(90_000),
        flags: 0xdead_beef,
        version: true,
        kind: Kind(3),
        ..SetOptions::default()
    };
    let stored = cache.set(key(&cache, "all"), b"of it", &options).unwrap();
    let Stored::Done { version } = stored else {
        panic!("{stored:?}");
    };
    set(&cache, "plain", b"as it is");
    set(&cache, "long", &vec![b'x'; 300_000]);
    set(&cache, "gone", b"soon");
    cache
        .delete(key(&cache, "gone"), &DeleteOptions::default())
        .unwrap();
    making.clock.advance_ms(10_000);
    drop(cache);
    let mut versions = vec![version];
    for clean in [true, false] {
        let cache = making.open_after(&place, clean);
        let restored = cache.restored().unwrap();
        assert_eq!((restored.items, restored.dropped), (3, 0), "{restored:?}");
        assert_eq!(restored.was_clean_stop, clean);
        let found = cache.get(key(&cache, "all"), |item| {
            assert_eq!(item.value, b"of it");
            (item.flags, item.kind, item.deadline)
        });
        let deadline = Deadline::at(Instant(150_000));
        assert_eq!(found, Some((0xdead_beef, Kind(3), deadline)));
        assert_eq!(get(&cache, "plain").unwrap(), b"as it is");
        assert_eq!(get(&cache, "long").unwrap(), vec![b'x'; 300_000]);
        assert_eq!(get(&cache, "gone"), None);
        let again = cache.set(key(&cache, "new"), b"", &options).unwrap();
        let Stored::Done { version: next } = again else {
            panic!("{again:?}");
        };
        assert!(!versions.contains(&next), "{next} of {versions:?}");
        versions.push(next);
        cache
            .delete(key(&cache, "new"), &DeleteOptions::default())
            .unwrap();
        cache.audit().unwrap();
    }
}

impl Making {
    /// What a process finds after one that came to its end, or was killed.
    fn open_after(&self, place: &Place, clean: bool) -> Cache {
        if clean {
            let cache = self.open(place);
            assert_eq!(why_empty(&cache), None);
            cache.checkpoint().unwrap().leave();
        }
        let cache = self.open(place);
        assert_eq!(why_empty(&cache), None);
        cache
    }
}

/// Random numbers of a kind that a seed makes again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }
}

/// What a cache that never evicts would hold: value, deadline in ms.
type Known = HashMap<(u32, u64), (Vec<u8>, Option<u64>)>;

struct Play {
    place: Place,
    making: Making,
    random: Random,
    known: Known,
    flush_at: Option<u64>,
    /// The spaces that there are, and the last number given out.
    spaces: Vec<Space>,
    last_space: u32,
    restored: u64,
}

impl Play {
    fn now(&self) -> u64 {
        use cellar_engine::Clock;
        self.making.clock.now().0
    }

    fn settle(&mut self) {
        let now = self.now();
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush_at = None;
            self.known.clear();
        }
        self.known.retain(|_, (_, at)| at.is_none_or(|at| at > now));
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each operation")]
    fn step(&mut self, cache: &Cache) {
        self.settle();
        let number = self.random.below(400);
        let at = self.random.below(self.spaces.len() as u64) as usize;
        let space = self.spaces[at];
        let name = format!("key-{number}");
        let key = cache.key_in(space, name.as_bytes()).unwrap();
        let id = (space.0, number);
        match self.random.below(40) {
            0..=14 => {
                let bytes = match self.random.below(60) {
                    0 => 100_000 + self.random.below(200_000),
                    1..=5 => 5_000 + self.random.below(3_000),
                    6..=20 => 40,
                    _ => self.random.below(300),
                };
                let value = vec![self.random.next() as u8; bytes as usize];
                let ttl = (self.random.below(2) == 0).then(|| 1 + self.random.below(40_000));
                let deadline = ttl.map_or(Deadline::NEVER, |ttl| cache.now().plus_ms(ttl));
                let options = SetOptions {
                    deadline,
                    version: self.random.below(8) == 0,
                    ..SetOptions::default()
                };
                match cache.set(key, &value, &options) {
                    Ok(_) => drop(
                        self.known
                            .insert(id, (value, deadline.instant().map(|at| at.0))),
                    ),
                    Err(_) => drop(self.known.remove(&id)),
                }
            }
            15..=18 => {
                cache.delete(key, &DeleteOptions::default()).unwrap();
                self.known.remove(&id);
            }
            19..=21 => {
                let increment = Increment {
                    initial: Some((5, Deadline::NEVER)),
                    ..Increment::by(7)
                };
                if let Ok(Counted::Number {
                    number, deadline, ..
                }) = cache.increment(key, &increment)
                {
                    let at = deadline.instant().map(|at| at.0);
                    self.known.insert(id, (number.to_string().into_bytes(), at));
                }
            }
            22..=23 => {
                let done = cache.extend(key, End::Back, b"tail", &SetOptions::default());
                match (done, self.known.get_mut(&id)) {
                    (Ok(Stored::Done { .. }), Some((value, _))) => value.extend(b"tail"),
                    (_, known) => assert!(known.is_none() || self.may_miss()),
                }
            }
            24..=25 => {
                let deadline = cache.now().plus_ms(1 + self.random.below(30_000));
                if cache.touch(key, deadline).unwrap_or(false) {
                    self.known.get_mut(&id).unwrap().1 = deadline.instant().map(|at| at.0);
                }
            }
            26 => self.making.clock.advance_ms(self.random.below(3_000)),
            27 if self.random.below(20) == 0 => {
                let at = self.now() + self.random.below(4_000);
                cache.flush_at(Instant(at));
                self.flush_at = Some(at);
                self.settle();
            }
            28 if self.random.below(20) == 0 && at > 0 => {
                cache.retire_space(space);
                self.known.retain(|(number, _), _| *number != space.0);
                self.last_space += 1;
                self.spaces[at] = Space(self.last_space);
            }
            29 if self.random.below(20) == 0 => {
                cache.flush_space(Space::MAIN);
                self.known.retain(|(number, _), _| *number != Space::MAIN.0);
            }
            30 => drop(cache.tick()),
            _ => {
                let found = cache.get(key, |item| item.value.to_vec());
                match (found, self.known.get(&id)) {
                    (Some(found), Some((value, _))) => assert!(found == *value, "{name}"),
                    (None, known) => assert!(known.is_none() || self.may_miss(), "{name}"),
                    (Some(_), None) => panic!("{name} came back"),
                }
            }
        }
    }

    /// Whether items leave for want of memory.
    fn may_miss(&self) -> bool {
        self.making.memory < 8 << 20
    }

    fn check_all(&mut self, cache: &Cache) {
        self.settle();
        for (&(space, number), (value, _)) in &self.known {
            let name = format!("key-{number}");
            let key = cache.key_in(Space(space), name.as_bytes()).unwrap();
            let found = cache.get(key, |item| item.value.to_vec());
            assert!(found.is_some() || self.may_miss(), "{name} is lost");
            assert!(
                found.is_none_or(|found| found == *value),
                "{name} is another"
            );
        }
    }

    fn run(mut self, rounds: usize) -> u64 {
        let mut cache = self.making.open(&self.place);
        for round in 0..rounds {
            for _ in 0..self.random.below(600) {
                self.step(&cache);
            }
            self.settle();
            // An audit checks all items: without it some are still unchecked at the next kill.
            let is_audited = !self.making.checks_later || self.random.below(3) == 0;
            let live = is_audited.then(|| cache.audit().unwrap().live_items);
            if self.random.below(2) == 0 {
                cache.checkpoint().unwrap().leave();
            }
            drop(cache);
            self.making.spaces = Some(self.spaces.clone());
            cache = self.making.open(&self.place);
            assert_eq!(why_empty(&cache), None);
            if let Some(live) = live {
                cache.check_left(1, || true);
                let restored = cache.restored().unwrap();
                // What a clean stop knew tells it to a quarter of a second, unless it is counted.
                let is_exact = restored.was_walked || !self.making.checks_later;
                assert!(!is_exact || restored.items == live, "round {round}");
                assert_eq!(restored.dropped, 0, "round {round}");
                self.restored += live;
                cache.audit().unwrap();
            }
            if round.is_multiple_of(8) {
                self.check_all(&cache);
            }
        }
        self.check_all(&cache);
        self.restored
    }
}

fn play(name: &str, seed: u64, memory: usize, checks_later: bool) -> u64 {
    let mut making = Making::new();
    (making.memory, making.checks_later) = (memory, checks_later);
    let play = Play {
        place: Place::new(name),
        making,
        random: Random(seed),
        known: Known::new(),
        flush_at: None,
        spaces: vec![Space::MAIN, Space(1), Space(2)],
        last_space: 2,
        restored: 0,
    };
    play.run(60)
}

#[test]
fn a_cache_that_is_gone_on_with_again_and_again_answers_as_one() {
    for seed in 1..=4 {
        let restored = play(&format!("roomy-{seed}"), seed, 64 << 20, seed % 2 == 0);
        assert!(restored > 2_000, "{restored}");
    }
}

#[test]
fn nothing_old_comes_back_of_a_cache_that_evicts() {
    for seed in 11..=14 {
        let restored = play(&format!("tight-{seed}"), seed, 1 << 20, seed % 2 == 0);
        assert!(restored > 300, "{restored}");
    }
}

/// A cache's directory as files, to be broken and put back.
struct Copy {
    from: PathBuf,
    /// The bytes of the file that are not zero, by pages.
    pages: Vec<(u64, Vec<u8>)>,
    len: u64,
}

const PAGE: usize = 4096;

impl Copy {
    fn of(place: &Place) -> Copy {
        let from = place.0.join("cache");
        let file = std::fs::File::open(&from).unwrap();
        let len = file.metadata().unwrap().len();
        let (mut pages, mut at) = (Vec::new(), 0);
        // Only what has memory is read: to read a hole of a mapping would take some.
        while let Ok(data) = next_data(&file, at) {
            let mut page = vec![0; PAGE];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut page, data).unwrap();
            pages.push((data, page));
            at = data + PAGE as u64;
        }
        Copy { from, pages, len }
    }

    /// The pages in which no byte of a value lies. In the arenas lie the values, of which there are
    /// no checks: memory is believed. A value may end in the page behind the one it begins in.
    fn without_values(&self) -> Vec<usize> {
        const BEGINNING: &[u8] = b"value of ";
        let begins_in = |number: usize| {
            let (at, page) = &self.pages[number];
            let next = self.pages.get(number + 1);
            let next = next.filter(|(next, _)| *next == at + PAGE as u64);
            let over = next.map_or(&[][..], |(_, page)| &page[..BEGINNING.len() - 1]);
            let bytes = [page, over].concat();
            bytes.windows(BEGINNING.len()).any(|part| part == BEGINNING)
        };
        let follows =
            |number: usize| self.pages[number - 1].0 + PAGE as u64 == self.pages[number].0;
        (0..self.pages.len())
            .filter(|&number| !begins_in(number))
            .filter(|&number| number == 0 || !(follows(number) && begins_in(number - 1)))
            .collect()
    }

    /// Writes the file as it was, but for what `break_it` does to its pages.
    fn put(&self, break_it: impl FnOnce(&mut Vec<(u64, Vec<u8>)>)) -> std::fs::File {
        let mut pages = self.pages.clone();
        break_it(&mut pages);
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(&self.from)
            .unwrap();
        file.set_len(0).unwrap();
        file.set_len(self.len).unwrap();
        for (at, page) in pages {
            std::os::unix::fs::FileExt::write_all_at(&file, &page, at).unwrap();
        }
        file
    }
}

/// Where the next bytes of a sparse file lie.
fn next_data(file: &std::fs::File, from: u64) -> std::io::Result<u64> {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open; the call changes its position alone.
    let at = unsafe { libc::lseek(file.as_raw_fd(), from as i64, libc::SEEK_DATA) };
    u64::try_from(at).map_err(|_| std::io::Error::last_os_error())
}

/// Values that tell their key and that they are whole.
fn told_value(number: u64) -> Vec<u8> {
    let mut value = format!("value of {number} ").into_bytes();
    value.resize(40 + number as usize % 200, number as u8);
    value
}

/// Whether a broken cache answers right or not at all; how many of its keys are there.
fn check_broken(cache: &Cache) -> usize {
    let mut found = 0;
    for number in 0..1_000 {
        if let Some(value) = get(cache, &format!("key-{number}")) {
            assert_eq!(value, told_value(number), "key-{number}");
            assert_ne!(number % 10, 3, "key-{number} was deleted");
            found += 1;
        }
        set(cache, &format!("new-{number}"), b"fresh");
    }
    cache.audit().unwrap();
    found
}

fn made(place: &Place, making: &Making) {
    let cache = making.open(place);
    for number in 0..1_000 {
        set(&cache, &format!("key-{number}"), &told_value(number + 1));
        set(&cache, &format!("key-{number}"), &told_value(number));
        if number % 10 == 3 {
            let key = format!("key-{number}");
            let key = cache.key(key.as_bytes()).unwrap();
            cache.delete(key, &DeleteOptions::default()).unwrap();
        }
    }
    cache.checkpoint().unwrap().leave();
}

#[test]
fn a_broken_file_is_never_believed() {
    let (place, making) = (Place::new("broken"), Making::new());
    made(&place, &making);
    let copy = Copy::of(&place);
    let beside = copy.without_values();
    let mut random = Random(4_711);
    let (mut restored, mut found) = (0, 0);
    for round in 0..400 {
        let file = copy.put(|pages| {
            for _ in 0..1 + round % 3 {
                let which = beside[random.below(beside.len() as u64) as usize];
                let at = random.below(PAGE as u64) as usize;
                match round % 4 {
                    // Where something stands a wrong bit does more.
                    0 | 1 => {
                        let page = &mut pages[which].1;
                        let at = (at..PAGE).find(|&at| page[at] != 0).unwrap_or(at);
                        page[at] ^= 1 << random.below(8);
                    }
                    2 => pages[which].1[at / 64 * 64..].fill(0),
                    _ => {
                        let other = beside[random.below(beside.len() as u64) as usize];
                        let page = pages[other].1.clone();
                        pages[which].1 = page;
                    }
                }
            }
        });
        drop(file);
        let cache = making.open(&place);
        restored += usize::from(why_empty(&cache).is_none());
        found += check_broken(&cache);
    }
    assert!(restored > 50, "{restored}");
    assert!(found > 10_000, "{found}");
}

#[test]
fn no_key_with_a_flipped_bit_is_restored() {
    const KEYS: u64 = 2_000;
    let name = |number: u64| format!("session:{number:05}");
    for clean in [true, false] {
        let (place, making) = (Place::new("flipped"), Making::new());
        let cache = making.open(&place);
        for number in 0..KEYS {
            set(&cache, &name(number), &told_value(number));
        }
        if clean {
            cache.checkpoint().unwrap().leave();
        } else {
            drop(cache);
        }
        let copy = Copy::of(&place);
        let (mut random, mut flipped) = (Random(77), 0);
        drop(copy.put(|pages| {
            for (_, page) in pages {
                let mut at = 0;
                while let Some(found) = find(&page[at..], b"session:") {
                    let key = at + found..at + found + name(0).len();
                    if key.end <= PAGE {
                        let byte = key.start + random.below(name(0).len() as u64) as usize;
                        page[byte] ^= 1 << random.below(8);
                        flipped += 1;
                    }
                    at = key.start + 1;
                }
            }
        }));
        let cache = making.open(&place);
        let restored = cache.restored().unwrap();
        assert!(flipped > KEYS * 9 / 10, "{flipped}");
        // After a clean stop a flipped bit costs all items of its block.
        if clean {
            assert!(restored.dropped >= flipped, "{restored:?}");
        } else {
            assert_eq!(restored.dropped, flipped);
        }
        assert_eq!(restored.items, KEYS - restored.dropped);
        for number in 0..KEYS {
            let found = get(&cache, &name(number));
            assert!(found.is_none_or(|found| found == told_value(number)));
        }
        cache.audit().unwrap();
    }
}

#[test]
fn no_value_whose_length_has_a_flipped_bit_is_restored() {
    const KEYS: u64 = 2_000;
    let name = |number: u64| format!("session:{number:05}");
    // Bytes that cannot be taken for free space or for a short item: those may hide a length that
    // has become smaller.
    let value = |number: u64| [64 + (number % 64) as u8; 40];
    let (place, making) = (Place::new("lengths"), Making::new());
    let cache = making.open(&place);
    for number in 0..KEYS {
        set(&cache, &name(number), &value(number));
    }
    drop(cache);
    let copy = Copy::of(&place);
    let (mut random, mut flipped) = (Random(78), 0);
    let mut is_whole = vec![true; KEYS as usize];
    drop(copy.put(|pages| {
        for (_, page) in pages {
            let mut at = 0;
            while let Some(found) = find(&page[at..], b"session:") {
                let key = at + found;
                at = key + 1;
                let digits = page.get(key + 8..key + 13);
                let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
                let number = digits.and_then(|digits| digits.parse::<usize>().ok());
                // The header is the lengths of key and value; the next item begins behind it.
                let length = key.checked_sub(1).filter(|&at| page[at] == 40);
                let next = page.get(key + 13 + 40).is_some_and(|&byte| byte == 13);
                if let (Some(number), Some(length), true) = (number, length, next) {
                    page[length] ^= 1 << random.below(7);
                    is_whole[number] = false;
                    flipped += 1;
                }
            }
        }
    }));
    let cache = making.open(&place);
    let restored = cache.restored().unwrap();
    assert!(flipped > KEYS / 8, "{flipped}");
    assert!(restored.dropped >= flipped, "{restored:?}");
    for number in 0..KEYS {
        let found = get(&cache, &name(number));
        let is_right = |found: &[u8]| found == value(number);
        assert!(found.as_deref().is_none_or(is_right), "{number}: {found:?}");
        assert!(is_whole[number as usize] || get(&cache, &name(number)).is_none());
    }
    cache.audit().unwrap();
}

/// What an item should be: value, flags, end.
type Told = (Vec<u8>, u32, Deadline);

/// Many items that differ in all that an item has.
fn told_items() -> HashMap<String, Told> {
    let item = |number: u64| {
        let deadline = match number % 4 {
            0 => Deadline::NEVER,
            _ => Deadline::at(Instant(1_000_000 + number * number * 1_001)),
        };
        let flags = [0, 7, 1 << 20, u32::MAX][number as usize / 4 % 4];
        let value = told_value(number);
        (format!("session:{number:05}"), (value, flags, deadline))
    };
    (0..2_000).map(item).collect()
}

impl Making {
    /// Has background maintenance do all that there is to do.
    fn rest(&self, cache: &Cache) {
        while cache.tick() {
            self.clock.advance_ms(2);
        }
    }
}

/// Stores many items, has `stop` end the process, and flips bits of any pages of the file; then no
/// item comes back that was never stored, and of those for which `is_told` holds none that is
/// another. How many items were dropped, and how many came back.
fn flip_bits(
    name: &str,
    stop: impl Fn(&Making, Cache),
    is_told: impl Fn(&str) -> bool,
) -> (u64, u64) {
    const ROUNDS: usize = 200;
    const FLIPS: usize = 10;
    let (place, making) = (Place::new(name), Making::new());
    let told = told_items();
    let cache = making.open(&place);
    let mut names: Vec<&String> = told.keys().collect();
    names.sort_unstable();
    for name in names {
        let (value, flags, deadline) = &told[name];
        let options = SetOptions {
            flags: *flags,
            deadline: *deadline,
            ..SetOptions::default()
        };
        let key = cache.key(name.as_bytes()).unwrap();
        cache.set(key, value, &options).unwrap();
    }
    stop(&making, cache);
    let copy = Copy::of(&place);
    let mut random = Random(79);
    let (mut dropped, mut restored) = (0, 0);
    for round in 0..ROUNDS {
        drop(copy.put(|pages| {
            for _ in 0..FLIPS {
                let page = random.below(pages.len() as u64) as usize;
                let at = random.below(PAGE as u64) as usize;
                pages[page].1[at] ^= 1 << random.below(8);
            }
        }));
        let mut config = making.config(&place);
        if let Some(state) = &mut config.state {
            state.verify = round % 2 == 0;
        }
        let cache = Cache::new(config).unwrap();
        let found = cache.restored().unwrap();
        dropped += found.dropped;
        restored += found.items;
        let mut cursor = Some(ScanCursor::START);
        while let Some(from) = cursor {
            cursor = cache.keys(from, |facts| {
                let name = String::from_utf8_lossy(facts.key).into_owned();
                let is_known = told.contains_key(&name) || name.starts_with("late:");
                assert!(is_known, "{name} was never stored");
            });
        }
        for (name, told) in told.iter().filter(|(name, _)| is_told(name)) {
            let key = cache.key(name.as_bytes()).unwrap();
            let read = |item: Item<'_>| (item.value.to_vec(), item.flags, item.deadline);
            let found = cache.get(key, read);
            assert!(found.is_none_or(|found| found == *told), "{name}");
        }
        cache.audit().unwrap();
    }
    (dropped, restored)
}

#[test]
fn after_a_clean_stop_no_item_with_a_flipped_bit_is_restored() {
    let stop = |_: &Making, cache: Cache| cache.checkpoint().unwrap().leave();
    let (dropped, restored) = flip_bits("bits-stop", stop, |_| true);
    assert!(
        dropped > 1_000 && restored > dropped,
        "{dropped}, {restored}"
    );
}

#[test]
fn after_a_kill_at_rest_no_item_with_a_flipped_bit_is_restored() {
    let kill = |making: &Making, cache: Cache| making.rest(&cache);
    let (dropped, restored) = flip_bits("bits-rest", kill, |_| true);
    assert!(
        dropped > 1_000 && restored > dropped,
        "{dropped}, {restored}"
    );
}

#[test]
fn after_a_kill_amid_writes_what_was_at_rest_is_restored_as_it_was_or_not_at_all() {
    let kill = |making: &Making, cache: Cache| {
        making.rest(&cache);
        for number in 0..500 {
            set(&cache, &format!("late:{number}"), &told_value(number));
        }
    };
    // What was written last shares its blocks with what was stored last before.
    let is_quiescent = |name: &str| name < "session:01000";
    let (dropped, restored) = flip_bits("bits-amid", kill, is_quiescent);
    assert!(
        dropped > 1_000 && restored > dropped,
        "{dropped}, {restored}"
    );
}

#[test]
fn items_that_change_after_their_checksums_were_made_come_back() {
    let (place, making) = (Place::new("after-sums"), Making::new());
    let cache = making.open(&place);
    let name = |number: u64| format!("key-{number}");
    for number in 0..1_000 {
        set(&cache, &name(number), &told_value(number));
    }
    set(&cache, "long", &vec![1; 300_000]);
    making.rest(&cache);
    // In place, moved, deleted, with another deadline, grown, and counted.
    for number in 0..1_000 {
        let key = name(number);
        let key = cache.key(key.as_bytes()).unwrap();
        match number % 5 {
            0 => drop(set(&cache, &name(number), &told_value(number + 200))),
            1 => drop(set(&cache, &name(number), &told_value(number + 1))),
            2 => drop(cache.delete(key, &DeleteOptions::default()).unwrap()),
            3 => drop(cache.touch(key, Deadline::at(Instant(900_000))).unwrap()),
            _ => drop(cache.extend(key, End::Back, b"more", &SetOptions::default())),
        }
    }
    set(&cache, "long", &vec![2; 300_000]);
    drop(cache);
    let cache = making.open(&place);
    assert_eq!(cache.restored().unwrap().dropped, 0);
    for number in 0..1_000 {
        let expected = match number % 5 {
            0 => Some(told_value(number + 200)),
            1 => Some(told_value(number + 1)),
            2 => None,
            3 => Some(told_value(number)),
            _ => Some([&told_value(number)[..], b"more"].concat()),
        };
        assert_eq!(get(&cache, &name(number)), expected, "{number}");
    }
    assert_eq!(get(&cache, "long").unwrap(), vec![2; 300_000]);
    cache.audit().unwrap();
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[test]
fn a_file_that_is_cut_short_swapped_or_of_another_layout_begins_empty() {
    let (place, making) = (Place::new("cut"), Making::new());
    made(&place, &making);
    let copy = Copy::of(&place);
    for len in [
        0,
        1,
        100,
        PAGE as u64,
        copy.len / 2,
        copy.len - 1,
        copy.len + 1,
    ] {
        copy.put(|_| {}).set_len(len).unwrap();
        let cache = making.open(&place);
        assert!(why_empty(&cache).is_some(), "{len}");
        assert_eq!(check_broken(&cache), 0);
    }
    let other = Place::new("other");
    made(&other, &making);
    let others = Copy::of(&other);
    // The second page on of another server's file belongs to other keys' hashes.
    drop(copy.put(|pages| {
        let from = others.pages.iter().filter(|(at, _)| *at > 0);
        let head = pages.iter().filter(|(at, _)| *at == 0);
        *pages = head.chain(from).cloned().collect();
    }));
    assert_eq!(check_broken(&making.open(&place)), 0);
    drop(copy.put(|pages| pages[0].1[8] = 9));
    let cache = making.open(&place);
    assert_eq!(
        why_empty(&cache).as_deref(),
        Some("the file has layout 9, this server needs 8")
    );
    drop(cache);
    drop(copy.put(|_| {}));
    assert_eq!(check_broken(&making.open(&place)), 900);
}

#[test]
fn what_was_left_outlives_a_start_that_is_refused_for_want_of_room() {
    let (place, mut making) = (Place::new("room"), Making::new());
    set(&making.open(&place), "key", b"value");
    making.memory = 1 << 40;
    let refused = Cache::new(making.config(&place)).unwrap_err().to_string();
    assert!(refused.contains("bytes of free space"), "{refused}");
    making.memory = MEMORY;
    assert_eq!(get(&making.open(&place), "key").unwrap(), b"value");
}

#[test]
fn a_kept_share_a_smaller_memory_and_other_threads_are_gone_on_with() {
    let (place, mut making) = (Place::new("shapes"), Making::new());
    making.keep = vec![1 << 20];
    let kept = Space::kept(0, 5);
    let cache = making.open(&place);
    let key = |cache: &Cache| cache.key_in(kept, b"kept").unwrap().hash();
    let before = key(&cache);
    let in_share = cache.key_in(kept, b"kept").unwrap();
    cache
        .set(in_share, b"here", &SetOptions::default())
        .unwrap();
    set(&cache, "there", b"too");
    drop(cache);
    making.memory = MEMORY / 2;
    making.shards = Some(8);
    let cache = making.open(&place);
    assert_eq!((why_empty(&cache), key(&cache)), (None, before));
    assert_eq!(cache.memory_bytes(), MEMORY / 2);
    let in_share = cache.key_in(kept, b"kept").unwrap();
    assert_eq!(
        cache.get(in_share, |item| item.value.to_vec()).unwrap(),
        b"here"
    );
    assert_eq!(get(&cache, "there").unwrap(), b"too");
    cache.audit().unwrap();
    drop(cache);
    making.memory = 3 * MEMORY;
    for number in [0, 1, 2] {
        let cache = making.open(&place);
        assert_eq!(
            (why_empty(&cache), cache.memory_bytes()),
            (None, 3 * MEMORY)
        );
        assert_eq!(get(&cache, "there").unwrap(), b"too");
        // As much as there is memory for now, and after one stop and one kill.
        for key in 0..30_000 {
            set(&cache, &format!("more-{number}-{key}"), &[7; 300]);
        }
        set(&cache, "there", b"too");
        let audit = cache.audit().unwrap();
        assert!(audit.live_items > 28_000, "{audit:?}");
        if number == 1 {
            cache.checkpoint().unwrap().leave();
        }
    }
    making.memory = 5 * MEMORY;
    assert!(
        why_empty(&making.open(&place))
            .unwrap()
            .contains("bytes of memory")
    );
}

#[test]
fn whoever_was_away_too_long_begins_empty() {
    let (place, making) = (Place::new("away"), Making::new());
    let cache = making.open(&place);
    set(&cache, "k", b"v");
    cache.tick();
    drop(cache);
    making.clock.advance_ms(59_000);
    let cache = making.open(&place);
    assert_eq!(
        (why_empty(&cache), cache.restored().unwrap().away_ms),
        (None, 59_000)
    );
    drop(cache);
    making.clock.advance_ms(60_001);
    let cache = making.open(&place);
    assert_eq!(
        why_empty(&cache).as_deref(),
        Some("no server ran for 60001 ms, which is more than 60000 ms")
    );
    assert_eq!(get(&cache, "k"), None);
}

#[test]
fn a_cache_continues_after_it_drops_its_checkpoint() {
    let (place, making) = (Place::new("dropped"), Making::new());
    let cache = making.open(&place);
    drop(cache.checkpoint().unwrap());
    set(&cache, "k", b"v");
    drop(cache);
    let cache = making.open(&place);
    assert!(!cache.restored().unwrap().was_clean_stop);
    assert_eq!(get(&cache, "k").unwrap(), b"v");
}

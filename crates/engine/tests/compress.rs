//! Compressed values: whatever is stored comes back byte for byte, more items fit into the same
//! memory, and what does not compress is left alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use cellar_engine::{
    Apply, Cache, Change, Config, Deadline, DeleteOptions, End, Handle, Increment, Kind, Lookup,
    SetOptions, Space, Splice, Stored,
};

use crate::support::cache::Timed;
use crate::support::random::Random;

const MEMORY_BYTES: usize = 16 << 20;
/// Steps of training within which a dictionary is there, if there is to be one.
const STEPS: usize = 2_000;

/// A document as services cache them, of 300 B to 2.5 KB.
fn document(random: &mut Random, number: u64, version: u64) -> Vec<u8> {
    let tags = [
        "cache",
        "memory",
        "network",
        "storage",
        "latency",
        "throughput",
    ];
    let mut text = format!(
        "{{\"id\":{number},\"version\":{version},\"type\":\"article\",\"author\":\
         {{\"name\":\"author {}\",\"mail\":\"{:x}@example.org\",\"active\":{}}},\"tags\":[",
        random.below(5_000),
        random.next(),
        random.below(2) == 0,
    );
    for _ in 0..random.below(40) {
        let tag = tags[random.below(6) as usize];
        text += &format!("{{\"tag\":\"{tag}\",\"weight\":{}}},", random.below(1_000));
    }
    text += "null],\"comments\":null,\"language\":\"en\",\"visibility\":\"public\"}";
    text.into_bytes()
}

/// Bytes that nothing compresses.
fn noise(random: &mut Random, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| random.next() as u8).collect()
}

fn cache() -> Timed {
    Timed::with(Config {
        shards: Some(2),
        seed: Some(5),
        ..Config::with_memory(MEMORY_BYTES)
    })
}

/// Trains until nothing is left to do at this moment, or some family has as many dictionaries.
fn train(timed: &Timed, dictionaries: u64) {
    for _ in 0..STEPS {
        timed.cache.train();
        if timed.cache.stats().dictionaries >= dictionaries {
            return;
        }
    }
}

/// So many steps of training.
fn steps(timed: &Timed, steps: usize) {
    for _ in 0..steps {
        timed.cache.train();
    }
}

/// Lets background maintenance run for so many milliseconds.
fn rest(timed: &Timed, ms: u64) {
    for _ in 0..ms / 10 {
        timed.clock.advance_ms(10);
        while timed.cache.tick() {
            timed.clock.advance_ms(1);
        }
    }
}

/// Stores documents under keys of a prefix, and reads none.
fn fill(timed: &Timed, prefix: &str, keys: std::ops::Range<u64>) -> HashMap<String, Vec<u8>> {
    let mut random = Random::from_seed(keys.start + 1);
    let mut stored = HashMap::new();
    for number in keys {
        let (key, value) = (
            format!("{prefix}:{number}"),
            document(&mut random, number, 0),
        );
        timed.set(&key, &value, None).unwrap();
        stored.insert(key, value);
    }
    stored
}

/// How many of the stored values are there; those are as they were stored.
fn check_all(timed: &Timed, stored: &HashMap<String, Vec<u8>>) -> usize {
    let there = stored.iter().filter(|(key, value)| {
        let found = timed.get(key);
        assert!(found.as_ref().is_none_or(|found| found == *value), "{key}");
        found.is_some()
    });
    there.count()
}

#[test]
fn more_documents_fit_into_the_same_memory() {
    let (plain, packed) = (cache(), cache());
    packed.cache.set_compress(true);
    let mut counts = Vec::new();
    for timed in [&plain, &packed] {
        let mut stored = fill(timed, "doc", 0..8_000);
        train(timed, 1);
        stored.extend(fill(timed, "doc", 8_000..80_000));
        counts.push(check_all(timed, &stored));
        timed.cache.audit().unwrap();
    }
    let stats = packed.cache.stats();
    assert_eq!(stats.dictionaries, 1);
    assert!(
        stats.compressed_gets > 0 && stats.compressed > 20_000,
        "{stats:?}"
    );
    assert!(counts[1] >= 2 * counts[0], "{counts:?}");
    let families = packed.cache.families();
    assert_eq!(families[0].prefix, b"doc");
    assert!(families[0].is_packed && families[0].packed_bytes * 2 < families[0].sample_bytes);
    let stats = plain.cache.stats();
    assert_eq!((stats.compressed, stats.dictionaries), (0, 0));
}

#[test]
fn maintenance_compresses_what_lies_there_when_memory_is_short() {
    let timed = cache();
    timed.cache.set_compress(true);
    let stored = fill(&timed, "doc", 0..18_000);
    train(&timed, 1);
    let before = timed.cache.stats();
    rest(&timed, 20_000);
    let after = timed.cache.stats();
    assert_eq!(before.items, after.items);
    assert!(
        after.live_bytes * 2 < before.live_bytes,
        "{before:?} {after:?}"
    );
    assert!(after.free_bytes > before.free_bytes);
    assert_eq!(check_all(&timed, &stored), after.items as usize);
    timed.cache.audit().unwrap();
}

#[test]
fn what_does_not_compress_is_left_alone() {
    let timed = cache();
    timed.cache.set_compress(true);
    let mut random = Random::from_seed(9);
    for number in 0..30_000 {
        let value = noise(&mut random, 900);
        timed.set(&format!("image:{number}"), &value, None).unwrap();
        if number % 1_000 == 999 {
            steps(&timed, 20);
        }
    }
    let stats = timed.cache.stats();
    assert_eq!((stats.dictionaries, stats.compressed), (0, 0), "{stats:?}");
    let families = timed.cache.families();
    assert_eq!(families.len(), 1, "it was looked at");
    assert!(!families[0].is_packed && families[0].sample_bytes > 0);
    timed.cache.audit().unwrap();
}

#[test]
fn an_item_that_is_read_often_is_stored_plain() {
    let timed = cache();
    timed.cache.set_compress(true);
    fill(&timed, "doc", 0..18_000);
    train(&timed, 1);
    rest(&timed, 20_000);
    let stored_bytes = |key: &str| {
        let key = timed.cache.key(key.as_bytes()).unwrap();
        timed
            .cache
            .facts(key, |facts| (facts.value_bytes, facts.stored_bytes))
    };
    let mut keys = (0..18_000).map(|number| format!("doc:{number}"));
    let is_packed = |key: &String| stored_bytes(key).is_some_and(|(plain, stored)| stored < plain);
    let key = keys.find(is_packed).unwrap();
    let value = timed.get(&key).unwrap();
    assert_eq!(stored_bytes(&key).unwrap().0, value.len());
    (0..130).for_each(|_| assert_eq!(timed.get(&key).unwrap(), value));
    assert!(!is_packed(&key));
    let reads = timed.cache.stats().compressed_gets;
    (0..130).for_each(|_| assert_eq!(timed.get(&key).unwrap(), value));
    assert_eq!(timed.cache.stats().compressed_gets, reads);
    assert!(timed.cache.stats().decompressed > 0);
    timed.cache.audit().unwrap();
}

/// Whether an item is stored compressed; `None` if there is none.
fn is_packed(timed: &Timed, key: &str) -> Option<bool> {
    let key = timed.cache.key(key.as_bytes()).unwrap();
    let cache = &timed.cache;
    cache.facts(key, |facts| facts.stored_bytes < facts.value_bytes)
}

/// Reads an item, and stores a document if there is none; whether there was.
fn read_through(timed: &Timed, number: u64) -> bool {
    let key = format!("doc:{number}");
    let is_hit = timed.get(&key).is_some();
    if !is_hit {
        let value = document(&mut Random::from_seed(number + 1), number, 0);
        timed.set(&key, &value, None).unwrap();
    }
    is_hit
}

#[test]
fn an_item_that_is_read_often_stays_plain_when_it_moves() {
    const HOT: u64 = 50;
    let timed = cache();
    timed.cache.set_compress(true);
    fill(&timed, "doc", 0..18_000);
    train(&timed, 1);
    let mut random = Random::from_seed(4);
    // Values that are never compressed make all others move. Between two moves, each of some
    // documents is read about 60 times.
    for request in 0..400_000 {
        let key = format!("image:{}", random.below(24_000));
        if timed.get(&key).is_none() {
            let value = noise(&mut random, 900);
            timed.set(&key, &value, None).unwrap();
        }
        if request % 10 == 0 {
            read_through(&timed, request / 10 % HOT);
        }
    }
    let stats = timed.cache.stats();
    assert!(stats.copied > 5 * stats.items, "all have moved: {stats:?}");
    let form = |number: u64| is_packed(&timed, &format!("doc:{number}"));
    let plain = (0..HOT).filter(|&number| form(number) == Some(false));
    let plain = plain.count();
    assert!(plain >= 40, "{plain} of {HOT}");
    timed.cache.audit().unwrap();
}

#[test]
fn far_fewer_reads_miss_under_a_skewed_load() {
    let (plain, packed) = (cache(), cache());
    packed.cache.set_compress(true);
    let keys = (5 * MEMORY_BYTES / 1_000) as f64;
    let mut misses = Vec::new();
    for timed in [&plain, &packed] {
        let mut random = Random::from_seed(21);
        let mut missed = 0;
        for request in 0..600_000 {
            if request % 500 == 0 && request < 300_000 {
                steps(timed, 4);
                rest(timed, 20);
            }
            // By Zipf's law with exponent 1.
            let part = random.below(1 << 40) as f64 / (1_u64 << 40) as f64;
            let is_hit = read_through(timed, keys.powf(part) as u64);
            missed += u64::from(!is_hit && request >= 300_000);
        }
        misses.push(missed);
    }
    assert!(misses[1] * 10 <= misses[0] * 6, "{misses:?}");
}

#[test]
fn a_dictionary_goes_when_nothing_needs_it() {
    let timed = cache();
    timed.cache.set_compress(true);
    let stored = fill(&timed, "doc", 0..18_000);
    train(&timed, 1);
    rest(&timed, 20_000);
    timed.cache.set_compress(false);
    (0..10).for_each(|_| assert!(!timed.cache.train()));
    assert_eq!(timed.cache.stats().dictionaries, 1, "items need it");
    check_all(&timed, &stored);
    timed.cache.flush();
    rest(&timed, 5_000);
    (0..10).for_each(|_| assert!(!timed.cache.train()));
    assert_eq!(timed.cache.stats().dictionaries, 0);
    timed.cache.audit().unwrap();
    let packed = timed.cache.stats().compressed;
    fill(&timed, "doc", 0..18_000);
    rest(&timed, 5_000);
    assert_eq!(timed.cache.stats().compressed, packed);
    timed.cache.audit().unwrap();
}

#[test]
fn a_family_that_changes_gets_another_dictionary() {
    let timed = cache();
    timed.cache.set_compress(true);
    let mut stored = fill(&timed, "doc", 0..18_000);
    train(&timed, 1);
    let mut random = Random::from_seed(77);
    for round in 0..4 {
        for number in 0..20_000_u64 {
            let key = format!("doc:{}", 100_000 + 20_000 * round + number);
            let row = format!("<li class=\"row-{round}\"><a href=\"/{number}\">{round} ",);
            let value = row.repeat(5 + random.below(20) as usize).into_bytes();
            timed.set(&key, &value, None).unwrap();
            stored.insert(key, value);
        }
        timed.clock.advance_ms(700_000);
        steps(&timed, 600);
        rest(&timed, 3_000);
        timed.cache.audit().unwrap();
    }
    assert!(check_all(&timed, &stored) > 20_000);
    let stats = timed.cache.stats();
    assert!((1..=3).contains(&stats.dictionaries), "{stats:?}");
}

#[test]
fn families_of_other_spaces_and_prefixes_have_dictionaries_of_their_own() {
    let timed = Timed::with(Config {
        shards: Some(1),
        seed: Some(6),
        ..Config::with_memory(64 << 20)
    });
    timed.cache.set_compress(true);
    let mut random = Random::from_seed(3);
    for number in 0..40_000_u64 {
        let value = document(&mut random, number, 1);
        let key = format!("{}:{number}", if number % 2 == 0 { "a" } else { "b" });
        let space = if number % 4 < 2 {
            Space::MAIN
        } else {
            Space(3)
        };
        let key = timed.cache.key_in(space, key.as_bytes()).unwrap();
        timed
            .cache
            .set(key, &value, &SetOptions::default())
            .unwrap();
    }
    train(&timed, 4);
    assert_eq!(timed.cache.stats().dictionaries, 4);
    timed.cache.audit().unwrap();
}

/// The prefixes whose values are compressed, in order.
fn compressed_prefixes(timed: &Timed) -> Vec<String> {
    let families = timed.cache.families().into_iter();
    let packed = families.filter(|family| family.is_packed);
    let mut prefixes: Vec<String> = packed
        .map(|family| String::from_utf8(family.prefix).unwrap())
        .collect();
    prefixes.sort();
    prefixes
}

#[test]
fn keys_of_a_private_prefix_share_no_dictionary_with_others() {
    // Room for several dictionaries.
    let timed = Timed::with(Config {
        shards: Some(2),
        seed: Some(5),
        ..Config::with_memory(4 * MEMORY_BYTES)
    });
    timed.cache.set_compress(true);
    let mut stored = fill(&timed, "app:a", 0..30_000);
    stored.extend(fill(&timed, "app:b", 0..30_000));
    train(&timed, 1);
    assert_eq!(compressed_prefixes(&timed), ["app"]);
    stored.extend(fill(&timed, "app:b", 30_000..60_000));
    assert!(timed.cache.stats().compressed > 1_000);
    let private = || [b"app:a:".as_slice().into()];
    timed.cache.set_private_prefixes(private());
    assert_eq!(
        compressed_prefixes(&timed),
        [""; 0],
        "it had values of both"
    );
    check_all(&timed, &stored);
    for round in 1..3 {
        stored.extend(fill(&timed, "app:a", round * 30_000..(round + 1) * 30_000));
        stored.extend(fill(&timed, "app:b", round * 30_000..(round + 1) * 30_000));
        steps(&timed, 600);
        // The same again changes nothing.
        timed.cache.set_private_prefixes(private());
    }
    assert_eq!(compressed_prefixes(&timed), ["app", "app:a:"]);
    assert!(check_all(&timed, &stored) > 30_000);
    timed.cache.audit().unwrap();
}

#[test]
fn a_prefix_without_values_loses_its_dictionary() {
    let timed = cache();
    timed.cache.set_compress(true);
    let stored = fill(&timed, "monday", 0..18_000);
    train(&timed, 1);
    rest(&timed, 20_000);
    timed.clock.advance_ms(1_300_000);
    steps(&timed, 10);
    assert_eq!(timed.cache.stats().dictionaries, 1, "items need it");
    check_all(&timed, &stored);
    timed.cache.flush();
    rest(&timed, 5_000);
    steps(&timed, 10);
    assert_eq!(
        timed.cache.stats().dictionaries,
        1,
        "there may be values again"
    );
    timed.clock.advance_ms(1_300_000);
    steps(&timed, 10);
    assert_eq!(timed.cache.stats().dictionaries, 0);
    timed.cache.audit().unwrap();
}

/// Random operations beside a map.
struct Pair {
    timed: Timed,
    random: Random,
    model: HashMap<String, Vec<u8>>,
    held: Vec<(Handle, Vec<u8>)>,
    version: u64,
}

impl Pair {
    fn new(seed: u64, config: Config) -> Pair {
        let timed = Timed::with(config);
        timed.cache.set_compress(true);
        Pair {
            timed,
            random: Random::from_seed(seed),
            model: HashMap::new(),
            held: Vec::new(),
            version: 0,
        }
    }

    fn key(&mut self) -> String {
        let family = ["doc", "page", "img"][self.random.below(3) as usize];
        format!("{family}:{}", self.random.below(12_000))
    }

    fn value(&mut self, key: &str) -> Vec<u8> {
        self.version += 1;
        let number = self.random.below(1_000);
        match (key.as_bytes()[0], self.random.below(20)) {
            (b'i', _) => {
                let bytes = self.random.below(3_000) as usize;
                noise(&mut self.random, bytes)
            }
            (_, 0) => self.version.to_string().into_bytes(),
            (_, 1) => document(&mut self.random, number, self.version).repeat(12),
            _ => document(&mut self.random, number, self.version),
        }
    }

    fn step(&mut self) {
        let key = self.key();
        let name = key.clone();
        let cached = self.timed.cache.key(name.as_bytes()).unwrap();
        match self.random.below(22) {
            0..=7 => {
                let value = self.value(&key);
                self.timed.set(&key, &value, None).unwrap();
                self.model.insert(key, value);
            }
            8..=13 => self.check(&key),
            14 => self.splice(key),
            15 => self.edit(key),
            16 => {
                let bytes = self.value("doc");
                let (end, options) = (End::Back, SetOptions::default());
                let stored = self
                    .timed
                    .cache
                    .extend(cached, end, &bytes, &options)
                    .unwrap();
                match stored {
                    Stored::Done { .. } => self.model.get_mut(&key).unwrap().extend(bytes),
                    _ => drop(self.model.remove(&key)),
                }
            }
            17 => {
                let lookup = Lookup {
                    version: true,
                    idle: true,
                    ..Lookup::default()
                };
                let read = |found: cellar_engine::Found<'_>| found.item.value.to_vec();
                let found = self.timed.cache.lookup(cached, &lookup, read).unwrap();
                self.follow(&key, found);
            }
            18 => {
                let deadline = Deadline::at(cellar_engine::Instant(1 << 45));
                if !self.timed.cache.touch(cached, deadline).unwrap() {
                    self.model.remove(&key);
                }
            }
            19 => {
                let stale = DeleteOptions {
                    mark_stale: true,
                    ..DeleteOptions::default()
                };
                self.timed.cache.delete(cached, &stale).unwrap();
                self.check(&key);
            }
            20 => self.pin(&key),
            _ => {
                let increment = Increment::by(3);
                let counted = self.timed.cache.increment(cached, &increment).unwrap();
                if let cellar_engine::Counted::Number { number, .. } = counted {
                    self.model
                        .insert(key.clone(), number.to_string().into_bytes());
                }
                self.check(&key);
            }
        }
    }

    /// What was found is what was stored, or nothing.
    fn follow(&mut self, key: &str, found: Option<Vec<u8>>) {
        match found {
            Some(found) => assert_eq!(Some(&found), self.model.get(key), "{key}"),
            None => drop(self.model.remove(key)),
        }
    }

    fn check(&mut self, key: &str) {
        let found = self.timed.get(key);
        self.follow(key, found);
    }

    fn pin(&mut self, key: &str) {
        let cached = self.timed.cache.key(key.as_bytes()).unwrap();
        let handle = self.timed.cache.get_handle(cached);
        self.follow(key, handle.as_ref().map(|handle| handle.to_vec()));
        if let Some(handle) = handle {
            let value = handle.to_vec();
            self.held.push((handle, value));
        }
        if self.held.len() > 5 {
            let (handle, value) = self.held.remove(0);
            assert_eq!(*handle, *value);
        }
    }

    /// Writes over a part of a value and makes it longer.
    fn splice(&mut self, key: String) {
        let (at, len) = (
            self.random.below(300) as usize,
            self.random.below(50) as usize,
        );
        let bytes = noise(&mut self.random, len);
        let cached = self.timed.cache.key(key.as_bytes()).unwrap();
        let mut scratch = Vec::new();
        let update = self
            .timed
            .cache
            .update(cached, &mut scratch, |item, scratch| {
                let old = item.map(|item| item.value.to_vec());
                scratch.extend_from_slice(&bytes);
                let parts = vec![Splice { at, from: 0, len }];
                let bytes_min = at + len;
                let deadline = Deadline::NEVER;
                (
                    old,
                    Change::Splice {
                        parts,
                        bytes_min,
                        deadline,
                    },
                )
            });
        let old = update.unwrap();
        self.follow(&key, old.clone());
        let mut value = old.unwrap_or_default();
        value.resize(value.len().max(at + len), 0);
        value[at..at + len].copy_from_slice(&bytes);
        self.model.insert(key, value);
    }

    /// Edits a value where it lies, as pages of collections are.
    fn edit(&mut self, key: String) {
        let cached = self.timed.cache.key(key.as_bytes()).unwrap();
        let byte = self.random.next() as u8;
        let mut scratch = Vec::new();
        let update = self
            .timed
            .cache
            .update(cached, &mut scratch, |item, scratch| {
                scratch.push(byte);
                let old = item.map(|item| item.value.to_vec());
                let apply = Apply(|value, bytes| {
                    let len = value.bytes().len();
                    value.resize(len + 1);
                    value.write(len, bytes);
                });
                let deadline = Deadline::NEVER;
                (
                    old,
                    Change::Edit {
                        more: 1,
                        deadline,
                        apply,
                    },
                )
            });
        let old = update.unwrap();
        self.follow(&key, old.clone());
        if let Some(mut value) = old {
            value.push(byte);
            self.model.insert(key, value);
        }
    }
}

/// Random operations with training and background maintenance amid them.
fn check(seed: u64, config: Config, steps: usize) {
    let mut pair = Pair::new(seed, config);
    for step in 0..steps {
        pair.step();
        if step % 200 == 0 {
            pair.timed.cache.train();
            pair.timed.clock.advance_ms(seed % 3 * 400_000 + 7);
            pair.timed.cache.tick();
        }
        if step % 20_000 == 0 {
            pair.timed.cache.audit().unwrap();
        }
    }
    let keys: Vec<String> = pair.model.keys().cloned().collect();
    keys.iter().for_each(|key| pair.check(key));
    pair.timed.cache.audit().unwrap();
    let stats = pair.timed.cache.stats();
    assert!(
        stats.compressed > 1_000 && stats.decompressed > 10,
        "{stats:?}"
    );
}

#[test]
fn whatever_is_stored_comes_back_under_eviction_and_retraining() {
    for (seed, shards) in [(1, 1), (2, 4), (3, 2)] {
        let config = Config {
            shards: Some(shards),
            seed: Some(seed),
            ..Config::with_memory(MEMORY_BYTES)
        };
        check(seed, config, 120_000);
    }
}

#[test]
fn threads_see_whole_values_while_dictionaries_change() {
    let cache = Cache::new(Config {
        shards: Some(2),
        ..Config::with_memory(MEMORY_BYTES)
    });
    let cache = cache.unwrap();
    cache.set_compress(true);
    let done = AtomicUsize::new(0);
    let value_of = |number: u64| document(&mut Random::from_seed(number + 1), number, 0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (cache, value_of, done) = (&cache, &value_of, &done);
            scope.spawn(move || {
                let mut random = Random::from_seed(thread + 40);
                for _ in 0..60_000 {
                    // Few of many keys are read often.
                    let most = 1 + random.below(30_000);
                    let number = random.below(most);
                    let name = format!("doc:{number}");
                    let key = cache.key(name.as_bytes()).unwrap();
                    let value = value_of(number);
                    let found = cache.get(key, |item| assert_eq!(item.value, value));
                    if found.is_none() {
                        cache.set(key, &value, &SetOptions::default()).unwrap();
                    }
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while done.load(Ordering::Relaxed) < 2 {
                cache.train();
                cache.tick();
                std::thread::yield_now();
            }
        });
        let cache = &cache;
        scope.spawn(move || {
            let mut cursor = Some(cellar_engine::ScanCursor::START);
            let mut seen = 0;
            for _ in 0..500 {
                let from = cursor.unwrap_or(cellar_engine::ScanCursor::START);
                cursor = cache.keys(from, |facts| {
                    seen += usize::from(facts.kind == Kind::STRING)
                });
            }
        });
    });
    cache.audit().unwrap();
}

#[test]
fn a_partition_of_which_nothing_leaves_holds_more_documents() {
    let mut counts = Vec::new();
    for is_on in [false, true] {
        let timed = Timed::with(Config {
            shards: Some(1),
            seed: Some(8),
            keep: vec![MEMORY_BYTES],
            ..Config::with_memory(2 * MEMORY_BYTES)
        });
        timed.cache.set_compress(is_on);
        let mut random = Random::from_seed(12);
        let mut stored = Vec::new();
        for number in 0..100_000 {
            let (name, value) = (format!("doc:{number}"), document(&mut random, number, 0));
            let key = timed
                .cache
                .key_in(Space::kept(0, 0), name.as_bytes())
                .unwrap();
            match timed.cache.set(key, &value, &SetOptions::default()) {
                Ok(_) => stored.push((name, value)),
                Err(_) => break,
            }
            if number == 8_000 {
                train(&timed, 1);
            }
        }
        for (name, value) in &stored {
            let key = timed
                .cache
                .key_in(Space::kept(0, 0), name.as_bytes())
                .unwrap();
            let is_same = timed.cache.get(key, |item| item.value == *value);
            assert_eq!(is_same, Some(true), "{name}");
        }
        timed.cache.audit().unwrap();
        counts.push(stored.len());
    }
    assert!(counts[1] >= 2 * counts[0], "{counts:?}");
}

#[test]
fn values_are_compressed_in_the_spaces_that_are_asked_for() {
    // Dictionaries take a 64th of the memory at most: here is room for two.
    let timed = Timed::with(Config {
        shards: Some(2),
        seed: Some(5),
        ..Config::with_memory(4 * MEMORY_BYTES)
    });
    timed.cache.set_compress(true);
    let mut random = Random::from_seed(9);
    let options = SetOptions::default();
    let mut fill = |space: u32| {
        for number in 0..4_000 {
            let (key, value) = (format!("doc:{number}"), document(&mut random, number, 0));
            let key = timed.cache.key_in(Space(space), key.as_bytes()).unwrap();
            timed.cache.set(key, &value, &options).unwrap();
        }
    };
    fill(0);
    fill(3);
    let spaces = |timed: &Timed| {
        let families = timed.cache.families().into_iter();
        let packed = families.filter(|family| family.is_packed);
        packed.map(|family| family.space.0).collect::<Vec<u32>>()
    };
    (0..STEPS).for_each(|_| _ = timed.cache.train_in(|space| space == Space(3)));
    assert_eq!(spaces(&timed), [3]);
    timed.cache.train_in(|space| space == Space(0));
    assert!(spaces(&timed).is_empty());
    train(&timed, 2);
    (0..STEPS).for_each(|_| _ = timed.cache.train());
    let mut both = spaces(&timed);
    both.sort_unstable();
    assert_eq!(both, [0, 3]);
    timed.cache.audit().unwrap();
}

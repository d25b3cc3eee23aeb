//! Compress's property: a value that is stored under keys whose values are compressed comes back
//! byte for byte, or not at all.
//!
//! The input's bytes make values: pieces of the documents that the dictionary was trained with,
//! runs of one byte, and bytes as they are. Documents that are stored behind them have them moved,
//! which is when a value is compressed. One cache serves all inputs, because a dictionary takes a
//! while to train.

use std::sync::{Arc, Mutex, PoisonError};

use cellar_engine::{Cache, Config, ManualClock, SetOptions};

/// The least memory that has room for a dictionary.
const MEMORY_BYTES: usize = 12 << 20;
/// Documents that are stored at first, and behind the values of an input: before these are read,
/// because a read of what was just stored does not keep it, and then until they have moved.
const DOCUMENTS: u64 = 40_000;
const AGEING: u64 = 1_000;
const PUSHING: u64 = 2_000;
/// One document in so many is read, and stays.
const READ_SHARE: u64 = 4;
/// Steps of training within which the dictionary is there.
const STEPS: usize = 4_000;
const VALUES_MAX: usize = 64;
/// Longer than a value may be to be compressed.
const VALUE_BYTES_MAX: usize = 17 << 10;

struct Trained {
    cache: Cache,
    documents: u64,
}

static TRAINED: Mutex<Option<Trained>> = Mutex::new(None);

fn document(number: u64) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut text = format!(
        "{{\"id\":{number},\"owner\":\"user{}\",\"tags\":[",
        mixed >> 52
    );
    for place in 0..mixed >> 60 {
        let weight = mixed >> (place + 20) & 255;
        text += &format!("{{\"tag\":\"latency\",\"weight\":{weight},\"active\":true}},");
    }
    (text + "null],\"language\":\"en\",\"visibility\":\"public\"}").into_bytes()
}

impl Trained {
    fn new() -> Trained {
        let config = Config {
            shards: Some(1),
            seed: Some(1),
            clock: Arc::new(ManualClock::default()),
            ..Config::with_memory(MEMORY_BYTES)
        };
        let cache = Cache::new(config).expect("a valid configuration");
        cache.set_compress(true);
        let mut trained = Trained {
            cache,
            documents: 0,
        };
        trained.push(DOCUMENTS);
        let is_there = |_| trained.cache.train() && trained.cache.stats().dictionaries == 1;
        assert!((0..STEPS).any(is_there), "the documents look alike");
        trained
    }

    fn set(&self, key: &str, value: &[u8]) {
        let key = self.cache.key(key.as_bytes()).expect("a short key");
        let stored = self.cache.set(key, value, &SetOptions::default());
        stored.expect("what is evicted makes room");
    }

    fn get(&self, key: &str) -> Option<Vec<u8>> {
        let key = self.cache.key(key.as_bytes()).expect("a short key");
        self.cache.get(key, |item| item.value.to_vec())
    }

    /// Stores so many further documents.
    fn push(&mut self, count: u64) {
        for number in self.documents..self.documents + count {
            self.set(&format!("doc:{number}"), &document(number));
            if number % READ_SHARE == 0 {
                self.get(&format!("doc:{}", number.saturating_sub(AGEING)));
            }
        }
        self.documents += count;
    }
}

/// The values that an input makes.
fn values_of(input: &[u8]) -> Vec<Vec<u8>> {
    let mut values = vec![Vec::new()];
    let mut left = input;
    while let [kind, length, rest @ ..] = left {
        left = rest;
        let length = usize::from(*length);
        let value = values.last_mut().expect("it begins with one");
        match kind % 8 {
            0..=2 => {
                let document = document(u64::from(*kind) << 8 | length as u64);
                value.extend(document.iter().skip(length).take(usize::from(*kind)));
            }
            3 => value.extend(std::iter::repeat_n(*kind, 64 * length)),
            4 => values.push(Vec::new()),
            _ => {
                let bytes = &left[..length.min(left.len())];
                value.extend(bytes);
                left = &left[bytes.len()..];
            }
        }
        if values.len() > VALUES_MAX {
            break;
        }
    }
    values
        .iter_mut()
        .for_each(|value| value.truncate(VALUE_BYTES_MAX));
    values
}

/// Stores what the input says, has it moved, and reads it back.
pub(crate) fn check(input: &[u8]) {
    let mut place = TRAINED.lock().unwrap_or_else(PoisonError::into_inner);
    let trained = place.get_or_insert_with(Trained::new);
    let values = values_of(input);
    let check = |trained: &Trained| {
        for (number, value) in values.iter().enumerate() {
            let found = trained.get(&format!("doc:input{number}"));
            assert!(found.is_none_or(|found| found == *value), "{number}");
        }
    };
    for (number, value) in values.iter().enumerate() {
        trained.set(&format!("doc:input{number}"), value);
    }
    let before = trained.cache.stats().compressed;
    trained.push(AGEING);
    (0..3).for_each(|_| check(trained));
    trained.push(PUSHING);
    check(trained);
    assert!(trained.cache.stats().compressed > before);
}

//! The loop of cxx/bench/hits.cpp in Rust: hits on one and two threads.
//!
//! hits ENTRIES READS SERVER
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on fails")]

use std::borrow::Borrow;
use std::hash::Hash;
use std::hint::black_box;
use std::sync::Arc;

use cellar_near::clock::{Clock, SystemClock};
use cellar_near::origin::{Redis, Remote};
use cellar_near::{Codec, Error, Local, Near};

type Value = [u8; 120];

/// Values as bytes, without conversion.
struct Bytes;

impl Codec<Value> for Bytes {
    fn encode(&self, value: &Value) -> Result<Vec<u8>, Error> {
        Ok(value.to_vec())
    }

    fn decode(&self, bytes: Vec<u8>) -> Result<Value, Error> {
        bytes
            .try_into()
            .map_err(|_| Error::Protocol("no value".into()))
    }
}

struct Load {
    entries: u64,
    reads: u64,
    /// Per thread.
    keys: Vec<Vec<u32>>,
}

/// xorshift64*, as in the C++ loop.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn zipf(entries: u64, reads: u64, seed: u64) -> Vec<u32> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=entries)
        .map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        })
        .collect();
    let mut random = Random(seed);
    (0..reads)
        .map(|_| {
            let drawn = random.next() * sum;
            let rank = sums.partition_point(|&one| one < drawn) as u64;
            let spread = rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11;
            u32::try_from(spread % entries).unwrap()
        })
        .collect()
}

fn value_of(key: u64) -> Value {
    let mut value = [0; 120];
    value[0] = key.to_le_bytes()[0];
    value
}

fn measure(name: &str, load: &Load, threads: usize, read: impl Fn(u32) -> u64 + Sync) {
    let clock = SystemClock::new();
    let rates = std::thread::scope(|scope| {
        let run = |number: usize| {
            let (clock, read) = (&clock, &read);
            scope.spawn(move || {
                let start = clock.now();
                let sum: u64 = load.keys[number].iter().map(|&key| read(key)).sum();
                black_box(sum);
                load.reads as f64 / (clock.now() - start).as_secs_f64()
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        let rates = running.into_iter().map(|thread| thread.join().unwrap());
        rates.sum::<f64>()
    });
    println!("{name}\t{threads}\t{rates:.0}");
}

fn run<K, Q>(name: &str, load: &Load, names: &[K])
where
    K: Hash + Eq + Clone + Send + Sync + Borrow<Q> + 'static,
    Q: Hash + Eq + ?Sized,
{
    let store: Local<K, Value> = Local::builder()
        .entries_max(load.entries + load.entries / 4)
        .build();
    for (key, name) in (0..).zip(names) {
        store.insert(name.clone(), Arc::new(value_of(key)));
    }
    for threads in [1, 2] {
        measure(name, load, threads, |key| {
            let held = store.get(names[key as usize].borrow());
            u64::from(held.unwrap()[0])
        });
    }
}

/// A hit through a function call, as in other languages; the compiler inlines the other loops.
type Get = fn(&Local<u64, Value>, u64) -> Option<Arc<Value>>;

fn run_called(load: &Load, names: &[u64]) {
    let store: Local<u64, Value> = Local::builder()
        .entries_max(load.entries + load.entries / 4)
        .build();
    for &name in names {
        store.insert(name, Arc::new(value_of(name)));
    }
    let get: Get = black_box(|store, key| store.get(&key));
    for threads in [1, 2] {
        measure("Rust store, numbers, by a call", load, threads, |key| {
            u64::from(get(&store, names[key as usize]).unwrap()[0])
        });
    }
}

fn run_near(load: &Load, server: &str, names: &[String]) {
    let origin = Remote::new(Redis::open(server).unwrap(), Bytes);
    let near = Near::<String, Value>::builder(origin);
    let near = near.entries_max(load.entries + load.entries / 4);
    let near = near.build_blocking().unwrap();
    for (key, name) in (0..).zip(names) {
        near.set(name, &value_of(key)).unwrap();
        near.get(name).unwrap();
    }
    for threads in [1, 2] {
        measure("Rust near cache, text", load, threads, |key| {
            let held = near.get(&names[key as usize]).unwrap();
            u64::from(held.unwrap()[0])
        });
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [entries, reads, server] = &words[..] else {
        panic!("hits ENTRIES READS SERVER")
    };
    let (entries, reads) = (entries.parse().unwrap(), reads.parse().unwrap());
    let keys = vec![zipf(entries, reads, 1), zipf(entries, reads, 2)];
    let load = Load {
        entries,
        reads,
        keys,
    };
    let numbers: Vec<u64> = (0..entries).collect();
    let texts: Vec<String> = numbers.iter().map(|key| format!("key:{key:010}")).collect();
    run::<u64, u64>("Rust store, numbers", &load, &numbers);
    run_called(&load, &numbers);
    let boxed: Vec<Box<str>> = texts.iter().map(|text| text.as_str().into()).collect();
    run::<Box<str>, str>("Rust store, text", &load, &boxed);
    if server != "none" {
        run_near(&load, server, &texts);
    }
}

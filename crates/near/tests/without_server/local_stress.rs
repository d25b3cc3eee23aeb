//! Many threads on one local store: every value is the key's own, and the sums are right at the
//! end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_near::{InsertOptions, Local, Policy};

const THREADS: u64 = 8;
const KEYS: u64 = 600;
const ROUNDS: u64 = 60_000;

/// A value that knows its key, and is counted as long as it lives.
struct Value {
    key: u64,
    version: u64,
    living: Arc<AtomicU64>,
}

impl Value {
    fn new(key: u64, version: u64, living: &Arc<AtomicU64>) -> Arc<Value> {
        living.fetch_add(1, Ordering::Relaxed);
        Arc::new(Value {
            key,
            version,
            living: Arc::clone(living),
        })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.living.fetch_sub(1, Ordering::Relaxed);
    }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn stress(policy: Policy, shards: usize) {
    let living = Arc::new(AtomicU64::new(0));
    let told = Arc::new(AtomicU64::new(0));
    let hears = Arc::clone(&told);
    let store: Local<u64, Value> = Local::builder()
        .entries_max(KEYS / 2)
        .shards(shards)
        .policy(policy)
        .on_evict(move |key, value: &Arc<Value>, _| {
            assert_eq!(*key, value.key);
            hears.fetch_add(1, Ordering::Relaxed);
        })
        .build();
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, living, reads) = (&store, &living, &reads);
            scope.spawn(move || {
                let mut state = thread + 1;
                for round in 0..ROUNDS {
                    let key = random(&mut state) % KEYS;
                    match random(&mut state) % 32 {
                        0..8 => store.insert(key, Value::new(key, round, living)),
                        8 => {
                            let short = InsertOptions::default().ttl(Duration::from_micros(50));
                            store.insert_with(key, Value::new(key, round, living), short);
                        }
                        9 => drop(store.remove(&key)),
                        10 if round % 500 == 0 => store.retain(|key, _| key % 3 != 0),
                        11 if round % 500 == 0 => store.clear(),
                        12 => store.reclaim(),
                        _ => {
                            reads.fetch_add(1, Ordering::Relaxed);
                            assert!(store.get(&key).is_none_or(|value| value.key == key));
                        }
                    }
                }
            });
        }
    });
    let stats = store.stats();
    assert_eq!(stats.hits + stats.misses, reads.into_inner());
    let left = stats.evictions + stats.expirations + stats.replacements + stats.removals;
    assert_eq!(stats.inserts, stats.entries + left);
    assert_eq!(told.load(Ordering::Relaxed), left);
    assert_eq!(living.load(Ordering::Relaxed), stats.entries);
    assert!(stats.entries <= KEYS / 2);
    drop(store);
    assert_eq!(living.load(Ordering::Relaxed), 0);
}

#[test]
fn values_are_never_mixed_up_or_lost_by_s3_fifo() {
    stress(Policy::S3Fifo, 1);
    stress(Policy::S3Fifo, 4);
}

#[test]
fn values_are_never_mixed_up_or_lost_by_lru() {
    stress(Policy::Lru, 2);
}

#[test]
fn what_a_writer_wrote_and_nobody_evicts_is_read_by_all_and_never_goes_back() {
    let living = Arc::new(AtomicU64::new(0));
    let store: Local<u64, Value> = Local::builder().entries_max(10_000).build();
    (0..KEYS).for_each(|key| store.insert(key, Value::new(key, 0, &living)));
    let grown = Mutex::new(HashMap::<u64, u64>::new());
    std::thread::scope(|scope| {
        let (store, living, grown) = (&store, &living, &grown);
        scope.spawn(move || {
            for version in 1..300 {
                (0..KEYS).for_each(|key| store.insert(key, Value::new(key, version, living)));
                // Other keys come and go, so that indexes grow and places are used again.
                let other = KEYS + version * 20;
                (other..other + 20).for_each(|key| store.insert(key, Value::new(key, 0, living)));
            }
        });
        for thread in 0..3 {
            scope.spawn(move || {
                let (mut seen, mut state) = (vec![0; KEYS as usize], thread + 1);
                for _ in 0..200_000 {
                    let key = random(&mut state) % KEYS;
                    let value = store.get(&key).expect("it is never removed");
                    assert!(value.key == key && value.version >= seen[key as usize]);
                    seen[key as usize] = value.version;
                }
                let best = seen.iter().max().copied().unwrap_or(0);
                grown.lock().unwrap().insert(thread, best);
            });
        }
    });
    assert_eq!(grown.lock().unwrap().len(), 3);
    assert!((0..KEYS).all(|key| store.get(&key).is_some_and(|value| value.version == 299)));
}

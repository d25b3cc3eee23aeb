//! How long a shard's lock is held by an operation, and how often it is found taken.
//!
//! The engine's shards stand here as it keeps them, each behind a mutex of its own, but that mutex
//! belongs to the measurement: so the engine needs no hook. Each shard is an engine of one shard,
//! whose own lock is always free then and counts as part of what is done under the outer one.
//! Every operation tries the lock first and counts a failure; one in many is timed while it holds
//! the lock, less what reading the clock takes. The memory has been used before, as that of a
//! server whose upkeep touches memory ahead of its use.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use cellar_engine::{Cache, Config, DeleteOptions, ManualClock, SetOptions};
use serde::Serialize;

use super::{ThreadsArgs, ZIPF_EXPONENT};
use crate::race::race;
use crate::refused;
use cellar_load::clock::{now_ns, seconds};
use cellar_load::error::Error;
use cellar_load::popularity::{Picker, Popularity};
use cellar_load::quantity::ByteRange;
use cellar_load::random::{Random, mix};
use cellar_load::record::Records;

/// One operation in so many is timed; a prime, so that nothing that repeats is always hit.
const TIMED_EVERY: usize = 61;
/// Pairs of readings that tell what the clock costs.
const CLOCK_PAIRS: usize = 10_000;
const TAIL_SHARE: f64 = 0.99;
/// The slowest timed operations are left out of the mean: interruptions of the thread.
const KEPT_SHARE: f64 = 0.995;

/// An operation on so many shards by so many threads.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LockUse {
    pub(super) operation: String,
    pub(super) threads: usize,
    pub(super) shards: usize,
    /// Time from having the lock to giving it back, without the slowest of 200.
    pub(super) held_ns_mean: f64,
    pub(super) held_ns_p99: f64,
    /// A thread's processor time for one operation, all in all.
    pub(super) operation_ns: f64,
    pub(super) operations_per_s: f64,
    /// Share of the operations that found the lock taken.
    pub(super) taken_share: f64,
}

/// How an operation gets at an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Insert,
    Read,
}

impl Access {
    pub(super) const ALL: [Access; 2] = [Access::Insert, Access::Read];

    pub(super) fn name(self) -> &'static str {
        match self {
            Access::Insert => "insert",
            Access::Read => "read",
        }
    }
}

/// A shard and the lock around it.
#[repr(align(128))]
struct Shard {
    gate: Mutex<()>,
    cache: Cache,
}

/// What one thread found.
struct LockSamples {
    held_ns: Vec<u64>,
    taken: usize,
}

/// All operations by all numbers of threads on all numbers of shards.
pub(super) fn measure(args: &ThreadsArgs) -> Result<Vec<LockUse>, Error> {
    let mut all = Vec::new();
    for &shards in &args.shards {
        for &threads in &args.threads {
            // Inserts fill the shards, reads find all that was inserted.
            let shards = build(args, shards, threads)?;
            shards.warm_up(args)?;
            for operation in Access::ALL {
                let held = run(args, &shards.0, threads, operation)?;
                eprintln!(
                    "{} on {} shards by {} threads: held {:.0} ns, found taken {:.3} %",
                    held.operation,
                    held.shards,
                    held.threads,
                    held.held_ns_mean,
                    held.taken_share * 100.0,
                );
                all.push(held);
            }
        }
    }
    Ok(all)
}

/// All shards.
struct Shards(Vec<Shard>);

fn build(args: &ThreadsArgs, shards: usize, threads: usize) -> Result<Shards, Error> {
    let memory_mib = usize::try_from(args.memory_mib).unwrap_or(usize::MAX >> 20);
    let config = || Config {
        threads,
        shards: Some(1),
        clock: Arc::new(ManualClock::default()),
        ..Config::with_memory((memory_mib << 20) / shards)
    };
    let shard = |_| {
        let cache = Cache::new(config()).map_err(refused)?;
        let gate = Mutex::new(());
        Ok(Shard { gate, cache })
    };
    let all = (0..shards).map(shard).collect::<Result<_, Error>>()?;
    Ok(Shards(all))
}

impl Shards {
    /// Stores all records and removes them one by one, so that what is measured works in memory
    /// that was used, with an index of the right size.
    fn warm_up(&self, args: &ThreadsArgs) -> Result<(), Error> {
        let records = records(args)?;
        let each: Vec<u32> = numbers(args, 1, 0, Access::Insert);
        operate(&self.0, &records, Access::Insert, &each);
        let mut key = Vec::new();
        for number in each {
            key.clear();
            records.push_key(&mut key, u64::from(number));
            let cache = &self.0[shard_of(number, self.0.len())].cache;
            let deleted = cache
                .key(&key)
                .and_then(|key| cache.delete(key, &DeleteOptions::default()));
            deleted.map_err(refused)?;
        }
        let left: u64 = self.0.iter().map(|it| it.cache.stats().items).sum();
        if left > 0 {
            return Err(Error::Wrong(format!("{left} removed items are left")));
        }
        Ok(())
    }
}

fn records(args: &ThreadsArgs) -> Result<Records, Error> {
    let value_bytes = ByteRange::fixed(args.value_bytes);
    Records::new(args.records, args.key_bytes, value_bytes).map_err(Error::Usage)
}

/// One operation by all threads at once.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "below 2^53 operations, and shares from 0 to 1"
)]
fn run(
    args: &ThreadsArgs,
    shards: &[Shard],
    threads: usize,
    operation: Access,
) -> Result<LockUse, Error> {
    let records = records(args)?;
    let numbers: Vec<Vec<u32>> = (0..threads)
        .map(|thread| numbers(args, threads, thread, operation))
        .collect();
    let raced = race(threads, |thread| {
        operate(shards, &records, operation, &numbers[thread])
    })?;
    let operations: usize = numbers.iter().map(Vec::len).sum();
    let taken: usize = raced.results.iter().map(|it| it.taken).sum();
    let mut held: Vec<u64> = raced
        .results
        .into_iter()
        .flat_map(|it| it.held_ns)
        .collect();
    held.sort_unstable();
    let clock_ns = clock_ns();
    let part = |share: f64| (held.len() as f64 * share).ceil() as usize;
    let kept = &held[..part(KEPT_SHARE)];
    let sum: u64 = kept.iter().sum();
    let tail = held[..part(TAIL_SHARE)].last().copied().unwrap_or(0) as f64;
    Ok(LockUse {
        operation: operation.name().to_owned(),
        threads,
        shards: shards.len(),
        held_ns_mean: (sum as f64 / kept.len().max(1) as f64 - clock_ns).max(1.0),
        held_ns_p99: (tail - clock_ns).max(1.0),
        operation_ns: raced.cpu_ns as f64 / operations as f64,
        operations_per_s: operations as f64 / seconds(raced.wall_ns),
        taken_share: taken as f64 / operations as f64,
    })
}

/// The records a thread asks for: new ones in turn, and then those by Zipf's law.
fn numbers(args: &ThreadsArgs, threads: usize, thread: usize, operation: Access) -> Vec<u32> {
    // Below 2^32, as the options were checked.
    let as_number = |number: u64| u32::try_from(number).unwrap_or(0);
    if operation == Access::Insert {
        let own = (thread as u64..args.records).step_by(threads);
        return own.map(as_number).collect();
    }
    let picker = Picker::new(Popularity::Zipf(ZIPF_EXPONENT), args.records);
    let mut random = Random::seeded(thread as u64 + 1);
    let drawn = (0..args.operations).map(|_| as_number(picker.pick(&mut random)));
    drawn.collect()
}

/// One thread's operations.
fn operate(shards: &[Shard], records: &Records, operation: Access, numbers: &[u32]) -> LockSamples {
    let mut found = LockSamples {
        held_ns: Vec::with_capacity(numbers.len() / TIMED_EVERY + 1),
        taken: 0,
    };
    let (mut key, mut value) = (Vec::new(), Vec::new());
    records.push_value(&mut value, 0, 1);
    let mut sink = vec![0; value.len()];
    let options = SetOptions::default();
    for (at, &number) in numbers.iter().enumerate() {
        key.clear();
        records.push_key(&mut key, u64::from(number));
        let shard = &shards[shard_of(number, shards.len())];
        let hashed = shard.cache.key(&key).expect("Records checked the length");
        let gate = match shard.gate.try_lock() {
            Ok(gate) => gate,
            Err(TryLockError::WouldBlock) => {
                found.taken += 1;
                shard.gate.lock().unwrap_or_else(PoisonError::into_inner)
            }
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let is_timed = at % TIMED_EVERY == 0;
        let begun_ns = if is_timed { now_ns() } else { 0 };
        match operation {
            Access::Insert => {
                let _ = black_box(shard.cache.set(hashed, &value, &options));
            }
            Access::Read => {
                shard.cache.get(hashed, |item| {
                    let bytes = item.value.len().min(sink.len());
                    sink[..bytes].copy_from_slice(&item.value[..bytes]);
                });
                black_box(&mut sink);
            }
        }
        if is_timed {
            found.held_ns.push(now_ns() - begun_ns);
        }
        drop(gate);
    }
    found
}

/// The shard of a record, by a hash of its number.
pub(super) fn shard_of(number: u32, shards: usize) -> usize {
    (mix(u64::from(number) + 1) % shards as u64) as usize
}

/// What two readings of the clock take when nothing is between them.
#[expect(clippy::cast_precision_loss, reason = "a handful of nanoseconds")]
fn clock_ns() -> f64 {
    let pairs = (0..CLOCK_PAIRS).map(|_| {
        let first = now_ns();
        now_ns() - first
    });
    let mut pairs: Vec<u64> = pairs.collect();
    pairs.sort_unstable();
    pairs[pairs.len() / 2] as f64
}

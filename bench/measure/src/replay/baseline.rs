//! Baselines: known policies, simulated over the same trace in the same bytes.
//!
//! Each item costs its key, its value and a fixed overhead; nothing else is counted. Expiry is
//! lazy: an expired item is never served, but its bytes stay until it is asked for, overwritten or
//! evicted, as in a cache that has no bulk expiry. An item larger than the whole cache is not
//! stored, and what its key held before is gone.

mod fifo;
mod s3fifo;
mod belady;

use clap::ValueEnum;
use serde::Serialize;

use self::belady::Belady;
use self::fifo::Fifo;
use self::s3fifo::S3Fifo;
use super::trace::{Row, Trace};

/// A policy to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Baseline {
    /// Evicts what was not used for the longest time
    Lru,
    /// Evicts what was stored first
    Fifo,
    /// A small queue for new items, a main one for used ones, and ghosts
    #[value(name = "s3fifo")]
    S3Fifo,
    /// Knows the future: evicts what is used again last
    Belady,
}

impl Baseline {
    /// Its name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Baseline::Lru => "lru",
            Baseline::Fifo => "fifo",
            Baseline::S3Fifo => "s3fifo",
            Baseline::Belady => "belady",
        }
    }
}

/// How a policy did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Gets that found their item.
    pub(crate) hits: u64,
    /// Gets that did not.
    pub(crate) misses: u64,
}

/// Plays `trace` against a policy in `memory_bytes`.
pub(crate) fn simulate(
    baseline: Baseline,
    trace: &Trace,
    memory_bytes: u64,
    overhead_bytes: u64,
) -> Tally {
    let contents = Contents::new(trace.keys.len(), memory_bytes, overhead_bytes);
    match baseline {
        Baseline::Lru => play(trace, contents, Fifo::new(true)),
        Baseline::Fifo => play(trace, contents, Fifo::new(false)),
        Baseline::S3Fifo => play(trace, contents, S3Fifo::new(memory_bytes)),
        Baseline::Belady => play(trace, contents, Belady::new(trace)),
    }
}

/// Which items a cache holds; all policies share it.
struct Contents {
    /// Bytes by key with overhead; zero if it is not held.
    bytes: Vec<u64>,
    deadline_ms: Vec<u64>,
    used_bytes: u64,
    memory_bytes: u64,
    overhead_bytes: u64,
}

impl Contents {
    fn new(keys: usize, memory_bytes: u64, overhead_bytes: u64) -> Contents {
        Contents {
            bytes: vec![0; keys],
            deadline_ms: vec![0; keys],
            used_bytes: 0,
            memory_bytes,
            overhead_bytes,
        }
    }

    fn is_held(&self, key: u32) -> bool {
        self.bytes[key as usize] > 0
    }

    fn is_live(&self, key: u32, now_ms: u64) -> bool {
        self.is_held(key) && self.deadline_ms[key as usize] > now_ms
    }

    fn remove(&mut self, key: u32) {
        self.used_bytes -= self.bytes[key as usize];
        self.bytes[key as usize] = 0;
    }

    fn insert(&mut self, key: u32, bytes: u64, deadline_ms: u64) {
        self.used_bytes = self.used_bytes - self.bytes[key as usize] + bytes;
        self.bytes[key as usize] = bytes;
        self.deadline_ms[key as usize] = deadline_ms;
    }

    /// Bytes of the item that `row` stores; never zero, even if nothing is charged for it.
    fn item_bytes(&self, trace: &Trace, row: Row) -> u64 {
        let key_bytes = trace.keys.get(row.key).len() as u64;
        key_bytes + u64::from(row.value_bytes) + self.overhead_bytes
    }
}

/// An order of eviction. `at` is the number of the row that is being played.
trait Policy {
    /// A get found the item.
    fn used(&mut self, key: u32, at: usize, contents: &Contents);
    /// The item was stored; it was not held before.
    fn stored(&mut self, key: u32, at: usize, contents: &Contents);
    /// The item was stored over an older one.
    fn overwritten(&mut self, key: u32, at: usize, contents: &Contents);
    /// The item leaves for another reason than eviction.
    fn removed(&mut self, key: u32);
    /// Takes the item that has to leave out of the order; there is at least one.
    fn evict(&mut self, now_ms: u64, contents: &Contents) -> u32;
}

fn play<P: Policy>(trace: &Trace, mut contents: Contents, mut policy: P) -> Tally {
    let mut tally = Tally::default();
    for (at, &row) in trace.rows.iter().enumerate() {
        if !row.is_set {
            if contents.is_live(row.key, row.at_ms) {
                tally.hits += 1;
                policy.used(row.key, at, &contents);
                continue;
            }
            tally.misses += 1;
        }
        store(trace, row, at, &mut contents, &mut policy);
    }
    tally
}

fn store<P: Policy>(trace: &Trace, row: Row, at: usize, contents: &mut Contents, policy: &mut P) {
    let bytes = contents.item_bytes(trace, row);
    let is_too_large = bytes > contents.memory_bytes;
    if contents.is_held(row.key) && (is_too_large || !contents.is_live(row.key, row.at_ms)) {
        policy.removed(row.key);
        contents.remove(row.key);
    }
    if is_too_large {
        return;
    }
    let is_over = contents.is_held(row.key);
    contents.insert(row.key, bytes, row.deadline_ms());
    if is_over {
        policy.overwritten(row.key, at, contents);
    } else {
        policy.stored(row.key, at, contents);
    }
    while contents.used_bytes > contents.memory_bytes {
        let victim = policy.evict(row.at_ms, contents);
        contents.remove(victim);
    }
}

#[cfg(test)]
mod tests;

//! Training: whether values are compressed, and the steps in which families of values get
//! dictionaries.
//!
//! A step holds the lock of the [`Families`]; what it has found is then shown to who asks for
//! statistics, and published to the shards.
//!
//! Why: docs/decisions/0084. Tests: tests/compress.rs.

mod families; // which families there are, and their dictionaries

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) use self::families::Families;
use super::dictionaries::SavedDictionaries;
use super::shards::Shards;
use crate::base::clock::{Instant, thread_cpu_ns};
use crate::base::space::Space;
use crate::compress::PrivatePrefixes;
use crate::interface::stats::{FamilyStats, Stats};
use crate::key::Hasher;
use crate::memory::Budget;
use crate::store::Store;

/// The training of a cache.
#[derive(Debug)]
pub(super) struct Training {
    // Relaxed: a step hears of a change a moment later, and nothing else hangs on it.
    is_on: AtomicBool,
    /// Processor time of all steps.
    spent_ns: AtomicU64,
    /// Held while a dictionary is made; who asks for figures has those of the last step.
    families: Mutex<Families>,
    shown: Mutex<Shown>,
}

/// What is told of the families after a step.
#[derive(Debug, Default)]
struct Shown {
    dictionaries: usize,
    bytes: usize,
    families: Vec<FamilyStats>,
}

impl Training {
    /// Nothing is known yet.
    pub(super) fn new(saved: Option<SavedDictionaries>) -> Training {
        Training::with(Families::new(saved))
    }

    /// With the dictionaries that were saved; see [`Families::restored`].
    pub(super) fn restored(
        saved: SavedDictionaries,
        stores: &mut [Store],
        hasher: &Hasher,
        budget: &Budget,
        now: Instant,
    ) -> Training {
        Training::with(Families::restored(saved, stores, hasher, budget, now))
    }

    fn with(families: Families) -> Training {
        Training {
            is_on: AtomicBool::default(),
            spent_ns: AtomicU64::default(),
            shown: Mutex::new(Shown::of(&families)),
            families: Mutex::new(families),
        }
    }

    /// Has values be compressed from here on, or no more.
    pub(super) fn set_on(&self, is_on: bool) {
        // Relaxed: as it says where it is declared.
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Whether values are compressed.
    pub(super) fn is_on(&self) -> bool {
        // Relaxed: as it says where it is declared.
        self.is_on.load(Ordering::Relaxed)
    }

    /// Makes no dictionary any more of values within and without one of these key prefixes.
    pub(super) fn set_private_prefixes(&self, shards: &Shards, private: PrivatePrefixes) {
        let mut families = self.lock();
        if families.set_private_prefixes(private) {
            self.publish(&mut families, shards);
        }
    }

    /// A piece of the search for families that are worth compressing, of the spaces for which
    /// `is_compressed` is true; whether more of it is waiting.
    pub(super) fn step(&self, shards: &Shards, is_compressed: &dyn Fn(Space) -> bool) -> bool {
        let before_ns = thread_cpu_ns();
        let is_waiting = self.run_step(shards, is_compressed);
        let spent_ns = thread_cpu_ns() - before_ns;
        // Relaxed: a figure to look at.
        self.spent_ns.fetch_add(spent_ns, Ordering::Relaxed);
        is_waiting
    }

    fn run_step(&self, shards: &Shards, is_compressed: &dyn Fn(Space) -> bool) -> bool {
        let mut families = self.lock();
        if shards.is_handed_over() {
            return false;
        }
        let is_waiting = match self.is_on() {
            true => families.step(shards, is_compressed),
            false => {
                families.leave_all(shards);
                false
            }
        };
        self.publish(&mut families, shards);
        is_waiting
    }

    /// Tells the shards of the dictionaries and the families that there are.
    fn publish(&self, families: &mut Families, shards: &Shards) {
        *self.shown() = Shown::of(families);
        if let Some(codecs) = families.take_codecs() {
            shards.each(|shard| shard.store.set_codecs(&codecs));
        }
    }

    /// Bytes of dictionaries and marks, which are part of the cache's memory.
    pub(super) fn bytes(&self) -> usize {
        self.shown().bytes
    }

    /// Adds how many dictionaries there are, and their bytes.
    pub(super) fn add_to(&self, stats: &mut Stats) {
        let shown = self.shown();
        stats.dictionaries = shown.dictionaries as u64;
        stats.dictionary_bytes = shown.bytes as u64;
        stats.overhead_bytes += shown.bytes as u64;
        // Relaxed: a figure to look at.
        stats.compression_ns += self.spent_ns.load(Ordering::Relaxed);
    }

    /// The families that were looked at.
    pub(super) fn families(&self) -> Vec<FamilyStats> {
        self.shown().families.clone()
    }

    /// Keeps a step of training from beginning.
    pub(super) fn lock(&self) -> MutexGuard<'_, Families> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    fn of(families: &Families) -> Shown {
        Shown {
            dictionaries: families.dictionaries(),
            bytes: families.bytes(),
            families: families.stats(),
        }
    }
}

//! Reasons: why a read missed.
//!
//! Sampled stores and deletes are remembered ([`History`]), so for a sampled miss it is known
//! whether the key was ever stored, and why it was removed. An item whose deadline has passed
//! counts as expired whatever removed it: more memory would not have preserved it. Of the others,
//! those that were not deleted were evicted.
//!
//! Why: docs/decisions/0011. Tests: tests/insight.rs.

use crate::base::serialize::{Deserializer, Serialize, Serializer};
use crate::insight::history::History;
use crate::insight::sample::{Action, Coarse, Event, part};
use crate::interface::stats::MissReasons;

/// Keys that are remembered for each sampled one in the cache, if so many are stored: the rate is
/// not lowered further.
const KEYS_PER_ITEM: f64 = 64.0;
/// Forgotten keys between two calls of [`Reasons::fit`] that lower the rate, and the part of the
/// rate that remains then, in percent.
const FORGOTTEN_MAX: u32 = 4;
const LOWER_PERCENT: u64 = 70;

/// Remembers what became of sampled keys, and counts.
#[derive(Debug)]
pub(crate) struct Reasons {
    history: History,
    below: u32,
    never_stored: f64,
    expired: f64,
    evicted: f64,
    deleted: f64,
}

impl Reasons {
    /// Reasons over a memory of `keys` keys.
    pub(crate) fn new(keys: usize, below: u32) -> Reasons {
        Reasons {
            history: History::of(keys),
            below,
            never_stored: 0.0,
            expired: 0.0,
            evicted: 0.0,
            deleted: 0.0,
        }
    }

    /// Writes down what became of keys.
    pub(crate) fn serialize(&self, out: &mut Serializer) {
        self.history.serialize(out);
        self.below.serialize(out);
    }

    /// Restores the records of keys of another process. Counts restart at zero.
    pub(crate) fn restore(&mut self, from: &mut Deserializer<'_>) -> Option<()> {
        let history = History::deserialize(from)?;
        if history.keys_max() != self.history.keys_max() {
            return None;
        }
        self.history = history;
        self.below = u32::deserialize(from)?;
        Some(())
    }

    /// Keys whose part lies below this are in the sample.
    pub(crate) fn below(&self) -> u32 {
        self.below
    }

    /// Lowers the rate to at most `below`.
    pub(crate) fn lower(&mut self, below: u32) {
        self.below = self.below.min(below);
    }

    /// Lowers the rate if sampled keys are being forgotten, but not below the rate that a cache of
    /// `items` needs.
    pub(crate) fn fit(&mut self, items: f64) {
        let floor = self.history.keys_max() as f64 / (items * KEYS_PER_ITEM).max(1.0);
        let is_above = f64::from(self.below) > floor * f64::from(u32::MAX);
        if self.history.take_forgotten() > FORGOTTEN_MAX && is_above {
            self.lower((u64::from(self.below) * LOWER_PERCENT / 100) as u32);
        }
    }

    /// Learns from a request.
    pub(crate) fn see(&mut self, event: &Event) {
        if part(event.hash) >= self.below {
            return;
        }
        match event.action {
            Action::Set | Action::Touch => {
                self.remember(event);
            }
            Action::Delete => self.history.delete(event.hash),
            Action::Hit => {
                if self.history.find(event.hash).is_none() {
                    self.remember(event);
                }
            }
            Action::Miss => {
                let weight = (f64::from(u32::MAX) + 1.0) / (f64::from(self.below) + 1.0);
                *self.count_for(event.hash, event.now) += weight;
            }
        }
    }

    fn remember(&mut self, event: &Event) {
        let Event { hash, deadline, .. } = *event;
        self.history.store(hash, self.below, deadline, event.now);
    }

    fn count_for(&mut self, hash: u64, now: Coarse) -> &mut f64 {
        match self.history.find(hash) {
            None => &mut self.never_stored,
            Some(fate) if fate.deadline <= now => &mut self.expired,
            Some(fate) if fate.is_deleted() => &mut self.deleted,
            Some(_) => &mut self.evicted,
        }
    }

    /// Everything was deleted.
    pub(crate) fn flush(&mut self) {
        self.history.flush();
    }

    /// The counts.
    pub(crate) fn counts(&self) -> MissReasons {
        MissReasons {
            never_stored: self.never_stored.round() as u64,
            expired: self.expired.round() as u64,
            evicted: self.evicted.round() as u64,
            deleted: self.deleted.round() as u64,
        }
    }
}

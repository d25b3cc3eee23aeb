//! Share: one log's part of the memory that all logs have in common.
//!
//! Keys spread evenly over the shards, so logs that hold equally much keep their items equally
//! long, as one log would. While memory lasts, each takes what it needs. When it is short, a log
//! that holds more than the mean takes no more than it has just released: the rest goes to logs
//! that hold less, and a log that holds much more releases some of it. Otherwise memory that one
//! log releases for a moment would go to the first one that asks, and some log would end with next
//! to nothing. Only a log with nothing left to evict may take all remaining memory.
//!
//! Large extents do not count: all logs share the cost of such an item.
//!
//! Why: docs/decisions/0008. Tests: at the end of this file.

use std::sync::Arc;

use crate::base::serialize::{Deserializer, Serialize, Serializer};
use crate::memory::{Budget, Pledge};

/// The budget is short when less than this part of all memory is left.
const SHORT_SHARE: usize = 8;
/// The last of the budget, this part of a log's share, is for logs that hold less than the mean.
const KEPT_SHARE: usize = 8;
/// Extents above so many segments do not count.
const COUNTED_SEGMENTS: usize = 4;
/// A log holds much more than the mean if it is more by this part of the mean.
const MUCH_SHARE: usize = 32;

/// The memory that one log holds.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    /// Logs that draw on the budget.
    sharers: usize,
    /// This log's part of all memory.
    bytes: usize,
    /// Bytes of the longest extent that counts. A later process may have another share, and has
    /// the same segments.
    counted_max: usize,
    /// Bytes of its segments and of extents that count.
    held: usize,
    /// Bytes that it has released and may take again, if no other log has taken them.
    given: usize,
    /// It may take all remaining memory, because it has nothing left to evict.
    in_need: bool,
}

impl Share {
    /// That of one log of `sharers`, in bytes, and the bytes of its segments.
    pub(super) fn new(
        budget: Arc<Budget>,
        sharers: usize,
        (bytes, segment_bytes): (usize, usize),
    ) -> Share {
        Share {
            budget,
            sharers,
            bytes,
            counted_max: COUNTED_SEGMENTS * segment_bytes,
            held: 0,
            given: 0,
            in_need: false,
        }
    }

    /// Serializes the memory that it holds.
    pub(super) fn serialize(&self, out: &mut Serializer) {
        (self.held, self.given).serialize(out);
    }

    /// Restores the memory that the log of another process held, and takes it from the budget.
    pub(super) fn restore(&mut self, from: &mut Deserializer<'_>) -> Option<()> {
        (self.held, self.given) = Serialize::deserialize(from)?;
        self.given = self.given.min(self.budget.left());
        self.budget.note_held(self.held);
        Some(())
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Logs that draw on the budget.
    pub(super) fn sharers(&self) -> usize {
        self.sharers
    }

    /// This log's part of all memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets whether this log may take all remaining memory, because it has nothing left to evict.
    pub(super) fn set_in_need(&mut self, in_need: bool) {
        self.in_need = in_need;
    }

    /// Takes memory for a segment or an extent, if there is enough and this log may have it.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        if !(self.may_have(bytes) && self.budget.take(bytes)) {
            return false;
        }
        self.given = self.given.saturating_sub(bytes);
        self.count(bytes);
        true
    }

    /// Takes memory by which an extent grows, if there is enough and this log may have it.
    pub(super) fn grow(&mut self, before: usize, after: usize) -> bool {
        let more = after - before;
        if !(self.may_have(more) && self.budget.take(more)) {
            return false;
        }
        self.given = self.given.saturating_sub(more);
        self.discount(before);
        self.count(after);
        true
    }

    /// Gives the memory back by which an extent has become shorter.
    pub(super) fn shrink(&mut self, before: usize, after: usize) {
        self.discount(before);
        self.count(after);
        self.give_piece(before - after);
    }

    /// Whether this log may take so much of the remaining memory. It may take again what it has
    /// just released: a log that compacts must not lose a segment with each that it empties. Beyond
    /// that, the last of the budget is for others.
    fn may_have(&self, bytes: usize) -> bool {
        bytes <= self.given || bytes + self.kept() <= self.budget.left()
    }

    /// Gives the memory of a segment or an extent back.
    pub(super) fn give(&mut self, bytes: usize) {
        self.give_piece(bytes);
        self.discount(bytes);
    }

    /// Releases memory that does not count in its share.
    pub(super) fn give_piece(&mut self, bytes: usize) {
        self.budget.give(bytes);
        // Others take from the budget without asking, so no more is its own than is there.
        self.given = (self.given + bytes).min(self.budget.left());
    }

    /// Pledges memory that this log may take, and that does not count in its share yet.
    pub(super) fn pledge(&mut self, bytes: usize, pledge: &mut Pledge) -> bool {
        if !(self.may_have(bytes) && pledge.take(bytes)) {
            return false;
        }
        self.given = self.given.saturating_sub(bytes);
        true
    }

    /// Counts an extent that is whole now, if it counts.
    pub(super) fn count(&mut self, bytes: usize) {
        if self.counts(bytes) {
            self.held += bytes;
            self.budget.note_held(bytes);
        }
    }

    /// Subtracts a segment or extent from its share.
    pub(super) fn discount(&mut self, bytes: usize) {
        if self.counts(bytes) {
            self.held -= bytes;
            self.budget.note_given(bytes);
        }
    }

    /// Whether little memory is left for all logs.
    pub(super) fn is_short(&self) -> bool {
        self.budget.left() / self.sharers < self.bytes / SHORT_SHARE
    }

    /// Bytes that this log may count on when all ask for more.
    pub(super) fn left(&self) -> usize {
        let (left, kept) = (self.budget.left(), self.kept());
        let own = if kept > 0 { self.given.min(left) } else { 0 };
        // A part of the rest only: all others may count on it at the same moment.
        own.max(left.saturating_sub(kept) / self.sharers)
    }

    /// Whether this log holds so much more than others that some of it should go to them.
    pub(super) fn is_much(&self) -> bool {
        let mean = self.mean();
        self.held > mean + mean / MUCH_SHARE
    }

    /// Bytes of the remaining memory that are reserved for logs which hold less.
    fn kept(&self) -> usize {
        if self.in_need || self.held <= self.mean() {
            0
        } else {
            self.bytes / KEPT_SHARE
        }
    }

    /// The mean memory of a log.
    fn mean(&self) -> usize {
        self.budget.held() / self.sharers
    }

    /// Bytes of its segments and of extents that count.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Whether a segment or extent of `bytes` counts.
    pub(super) fn counts(&self, bytes: usize) -> bool {
        bytes <= self.counted_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cache;
    use crate::interface::config::Config;
    use crate::interface::options::SetOptions;

    /// Two shares of `bytes` each in one budget.
    fn pair(bytes: usize) -> (Arc<Budget>, [Share; 2]) {
        let budget = Arc::new(Budget::new(2 * bytes));
        let share = || Share::new(Arc::clone(&budget), 2, (bytes, bytes / 32));
        (Arc::clone(&budget), [share(), share()])
    }

    #[cfg(not(miri))]
    fn cache_of(shards: usize, memory_bytes: usize) -> Cache {
        Cache::new(Config {
            shards: Some(shards),
            seed: Some(7),
            ..Config::with_memory(memory_bytes)
        })
        .unwrap()
    }

    #[test]
    fn while_memory_lasts_each_takes_what_it_needs() {
        let (budget, [mut one, _]) = pair(1000);
        while one.take(100) {}
        assert!(budget.left() >= 1000 / KEPT_SHARE && budget.left() < 1000 / KEPT_SHARE + 100);
        let alone = Arc::new(Budget::new(1000));
        let mut alone = Share::new(alone, 1, (1000, 30));
        assert!((0..10).all(|_| alone.take(100)) && !alone.take(100));
    }

    #[test]
    fn what_one_gives_back_for_a_moment_does_not_go_to_one_that_holds_more() {
        let (budget, [mut more, mut less]) = pair(1000);
        assert!((0..12).all(|_| more.take(100)) && (0..8).all(|_| less.take(100)));
        less.give(100);
        assert_eq!((more.left(), more.take(100), less.left()), (0, false, 50));
        assert!(less.take(100));
        more.give(100);
        assert!(more.left() == 100 && more.take(100) && !more.take(100));
        more.give(100);
        assert!(less.take(100), "it goes to one that holds less");
        assert!(!more.take(100) && budget.left() == 0);
        assert!(more.is_much() && !less.is_much());
    }

    #[test]
    fn a_large_extent_is_a_burden_for_all() {
        let (_, [mut one, mut other]) = pair(1000);
        assert!(one.take(600));
        assert!((0..6).all(|_| one.take(100) && other.take(100)));
        assert!(!one.is_much());
        one.give(100);
        assert!(one.take(100));
    }

    #[cfg(not(miri))]
    #[test]
    fn a_shard_of_which_nothing_can_leave_gets_all_that_is_left() {
        const MEMORY: usize = 8 << 20;
        let cache = cache_of(2, MEMORY);
        let names = (0..1_000).map(|number| number.to_string());
        let keys: Vec<String> = names
            .filter(|name| cache.key(name.as_bytes()).unwrap().hash() >> 63 == 0)
            .collect();
        let value = vec![b'v'; 60_000];
        let pin = |name: &String| {
            let key = cache.key(name.as_bytes()).unwrap();
            let stored = cache.set(key, &value, &SetOptions::default());
            stored.ok().and_then(|_| cache.get_handle(key))
        };
        let pinned: Vec<_> = keys.iter().map_while(pin).collect();
        let bytes = pinned.len() * 60_000;
        assert!(bytes > MEMORY * 96 / 100, "{bytes}");
    }

    #[cfg(not(miri))]
    #[test]
    fn shards_hold_equally_much_however_long_large_values_come_and_go() {
        const MEMORY: usize = 16 << 20;
        let cache = cache_of(4, MEMORY);
        let value = vec![b'x'; 40 << 10];
        let mut state = 1_u64;
        for _ in 0..100_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (draw, length) = (state >> 40, (state >> 16) % 39_000);
            // Low numbers come more often than high ones.
            let key = (draw % (1 + (draw >> 8) % 5_000)).to_string();
            let key = cache.key(key.as_bytes()).unwrap();
            if cache.get(key, |_| ()).is_none() {
                let value = &value[..1_000 + length as usize];
                cache.set(key, value, &SetOptions::default()).unwrap();
            }
        }
        assert!(cache.stats().evicted > 10_000);
        let mut held = Vec::new();
        cache.each_shard(|shard| held.push(shard.store.log().resident_bytes()));
        let mean = held.iter().sum::<usize>() / held.len();
        assert!(mean > MEMORY / 4 * 9 / 10, "{held:?}");
        let is_even = |bytes: &usize| bytes.abs_diff(mean) < mean / 16;
        assert!(held.iter().all(is_even), "{held:?}");
    }
}

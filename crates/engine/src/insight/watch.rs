//! Watch: a shard's records of requests for the insights.
//!
//! Every read is counted; one in some 128 also for its key's heat. Requests for sampled keys go to
//! a buffer, and from there to the insights whenever enough has gathered and no other thread holds
//! them. All of it happens under the shard's lock; nothing waits, except for the lock of the list
//! of hot keys, in which lock-free reads count too ([`HotList`]).
//!
//! Why: docs/decisions/0011. Tests: at the end of this file, and tests/insight.rs.

use std::sync::{Arc, Mutex};

use crate::base::clock::{Deadline, Instant};
use crate::insight::Insight;
use crate::insight::hot::HotList;
use crate::insight::sample::{Action, Coarse, Event, Sampler, part};
use crate::key::Key;

/// The sampled facts of one shard. It is small: fields that most requests do not touch are in
/// `More`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Watch {
    /// Keys whose part lies below are in the sample.
    below: u32,
    /// Reads until the next that counts for its key's heat.
    until_counted: u32,
    misses: u64,
    more: Box<More>,
}

#[derive(Debug)]
struct More {
    sampler: Sampler,
    hot: Arc<HotList>,
    insight: Arc<Mutex<Insight>>,
    /// Reads before the present gap, and the gap's length.
    gets: u64,
    gap: u32,
}

impl Watch {
    /// Nothing noted yet.
    pub(crate) fn new(insight: Arc<Mutex<Insight>>, below: u32, hot: Arc<HotList>) -> Watch {
        let gap = hot.lock().gap();
        let more = Box::new(More {
            sampler: Sampler::new(),
            hot,
            insight,
            gets: 0,
            gap,
        });
        Watch {
            below,
            until_counted: more.gap,
            misses: 0,
            more,
        }
    }

    /// Keys whose part lies below are in the sample.
    #[inline]
    pub(crate) fn below(&self) -> u32 {
        self.below
    }

    /// Counts a read.
    #[inline]
    pub(crate) fn count_get(&mut self, key: Key<'_>, now: Instant) {
        self.until_counted -= 1;
        if self.until_counted == 0 {
            self.count_heat(key, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_heat(&mut self, key: Key<'_>, now: Instant) {
        let more = &mut *self.more;
        more.gets += u64::from(more.gap);
        let mut hot = more.hot.lock();
        hot.count(key, now);
        more.gap = hot.gap();
        self.until_counted = more.gap;
    }

    /// Counts and notes that a read found nothing.
    #[inline]
    pub(crate) fn note_miss(&mut self, key: Key<'_>, now: Instant) {
        self.misses += 1;
        self.note(key.hash(), Action::Miss, (0, Deadline::NEVER), now);
    }

    /// Records a request for a key of this hash; `item` is the present item: its bytes and its
    /// deadline.
    #[inline]
    pub(crate) fn note(
        &mut self,
        hash: u64,
        action: Action,
        item: (usize, Deadline),
        now: Instant,
    ) {
        if part(hash) < self.below {
            self.sample(hash, action, item, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn sample(&mut self, hash: u64, action: Action, item: (usize, Deadline), now: Instant) {
        let (bytes, deadline) = item;
        self.more.sampler.note(Event {
            hash,
            action,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            deadline: Coarse::deadline(deadline),
            now: Coarse::moment(now),
        });
        if self.more.sampler.is_worth_taking() {
            self.try_hand_over();
        }
    }

    /// Passes the records to the insights, unless another thread holds them.
    pub(crate) fn try_hand_over(&mut self) {
        let insight = Arc::clone(&self.more.insight);
        if let Ok(mut insight) = insight.try_lock() {
            self.hand_over(&mut insight);
        }
    }

    /// Passes the records to the insights, whose lock the caller holds.
    pub(crate) fn hand_over(&mut self, insight: &mut Insight) {
        self.more.sampler.take(insight.batch());
        insight.see_batch();
        self.below = insight.below();
    }

    /// Reads so far, and how many of them missed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let in_gap = self.more.gap - self.until_counted;
        (self.more.gets + u64::from(in_gap), self.misses)
    }

    /// Sampled requests that were dropped because other threads held the insights.
    pub(crate) fn dropped(&self) -> u64 {
        self.more.sampler.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::space::Space;
    use crate::insight::hot::Hot;
    use crate::insight::simulation::Capacity;
    use crate::key::Hasher;
    use crate::memory::Budget;

    const NOW: Instant = Instant(1_000);

    fn insight() -> Arc<Mutex<Insight>> {
        let capacity = |bytes| Capacity {
            bytes,
            segment_bytes: 16 << 10,
        };
        let budget = Arc::new(Budget::new(1 << 20));
        Arc::new(Mutex::new(Insight::new(1 << 20, capacity, &budget, NOW)))
    }

    fn hot() -> Arc<HotList> {
        Arc::new(HotList::new(Hot::new(4, 1, NOW)))
    }

    #[test]
    fn while_somebody_is_at_work_on_the_insights_requests_are_dropped_and_none_waits() {
        let insight = insight();
        let mut watch = Watch::new(Arc::clone(&insight), u32::MAX, hot());
        let hasher = Hasher::with_seed(1);
        let key = hasher.key(Space::MAIN, b"key").unwrap();
        let at_work = insight.lock().unwrap();
        for _ in 0..1_000 {
            watch.count_get(key, NOW);
            watch.note_miss(key, NOW);
        }
        drop(at_work);
        assert_eq!((watch.counts(), watch.dropped()), ((1_000, 1_000), 936));
        watch.note_miss(key, NOW);
        assert_eq!(insight.lock().unwrap().reasons().never_stored, 64);
    }

    #[test]
    fn a_lowered_rate_reaches_the_shard_with_the_next_batch() {
        let insight = insight();
        let mut watch = Watch::new(Arc::clone(&insight), u32::MAX, hot());
        let hasher = Hasher::with_seed(1);
        for number in 0..100_000_u32 {
            let bytes = number.to_le_bytes();
            let key = hasher.key(Space::MAIN, &bytes).unwrap();
            watch.note(key.hash(), Action::Set, (100, Deadline::NEVER), NOW);
        }
        assert!(watch.below < u32::MAX / 8);
        assert!(watch.dropped() == 0 && watch.below >= insight.lock().unwrap().below());
    }
}

//! The metadata of one entry: its deadline and its mark.
//!
//! Deadline and mark are one atomic word, so that a hit marks the entry under a shared lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;

/// A key, and the location of its value.
#[derive(Debug)]
pub(super) struct StoredEntry<K, P> {
    pub(super) key: K,
    pub(super) value: P,
    /// The deadline, and in the lowest bits the mark.
    // Relaxed: the deadline changes only under the slot's exclusive lock, and a mark may be lost.
    life: AtomicU64,
}

const _: () = assert!(
    size_of::<Option<StoredEntry<u64, Arc<u64>>>>() == 24,
    "an entry is its key and two words"
);

/// The moment at which an entry is gone: nanoseconds of the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deadline(u64);

impl Deadline {
    /// It lives until it is evicted or removed.
    pub(super) const NEVER: Deadline = Deadline(u64::MAX >> MARK_BITS);

    /// The moment `ttl` after `now`; never, if that is more than 146 years after the clock's start.
    pub(super) fn after(now: Duration, ttl: Duration) -> Deadline {
        Deadline(nanoseconds(now.saturating_add(ttl)))
    }

    /// Whether there is one at all.
    #[inline]
    pub(super) fn exists(self) -> bool {
        self != Deadline::NEVER
    }

    /// Whether it has expired by this clock, which is read as cheaply as possible. Not inlined: it
    /// would spread the read of an entry that has none over more registers.
    #[inline(never)]
    pub(super) fn is_over(self, clock: &dyn Clock) -> bool {
        let surely_alive = self.0 > nanoseconds(clock.lately()).saturating_add(SECOND_NS);
        !surely_alive && self.has_passed(clock.now())
    }

    /// Whether it has expired; at the deadline itself, it has.
    #[inline]
    pub(super) fn has_passed(self, now: Duration) -> bool {
        self.exists() && self.0 <= nanoseconds(now)
    }
}

#[inline]
fn nanoseconds(moment: Duration) -> u64 {
    let whole = moment.as_secs().checked_mul(SECOND_NS);
    let all = whole.and_then(|whole| whole.checked_add(u64::from(moment.subsec_nanos())));
    all.unwrap_or(u64::MAX).min(Deadline::NEVER.0)
}

const SECOND_NS: u64 = 1_000_000_000;
const MARK_BITS: u32 = 2;
/// The highest mark: further hits do not raise it.
const MARK_MAX: u64 = (1 << MARK_BITS) - 1;

impl<K, P> StoredEntry<K, P> {
    /// An entry that has not been read.
    pub(super) fn new(key: K, value: P, deadline: Deadline) -> StoredEntry<K, P> {
        StoredEntry {
            key,
            value,
            life: AtomicU64::new(deadline.0 << MARK_BITS),
        }
    }

    /// Puts another value in the place of this one, whose mark stays; returns the old one.
    pub(super) fn replace(&mut self, value: P, deadline: Deadline) -> (P, Deadline) {
        let before = self.deadline();
        let life = self.life.get_mut();
        *life = deadline.0 << MARK_BITS | *life & MARK_MAX;
        (std::mem::replace(&mut self.value, value), before)
    }

    /// When it is gone.
    #[inline]
    pub(super) fn deadline(&self) -> Deadline {
        // Relaxed: the deadline changes only under the slot's exclusive lock.
        Deadline(self.life.load(Ordering::Relaxed) >> MARK_BITS)
    }

    /// Marks a hit. Of two hits at the same moment one may be lost.
    #[inline]
    pub(super) fn mark(&self) {
        let life = self.life.load(Ordering::Relaxed);
        if life & MARK_MAX != MARK_MAX {
            self.life.store(life + 1, Ordering::Relaxed);
        }
    }

    /// The mark, which is replaced by the result of `next`.
    pub(super) fn take_mark(&self, next: impl FnOnce(u64) -> u64) -> u64 {
        let life = self.life.load(Ordering::Relaxed);
        let mark = life & MARK_MAX;
        if mark != 0 {
            let life = life - mark + next(mark);
            self.life.store(life, Ordering::Relaxed);
        }
        mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_deadline_passes_at_its_nanosecond_and_never_does_not() {
        let deadline = Deadline::after(SECOND, SECOND);
        assert!(!deadline.has_passed(2 * SECOND - Duration::from_nanos(1)));
        assert!(deadline.has_passed(2 * SECOND));
        assert!(!Deadline::after(SECOND, Duration::MAX).exists());
        assert!(!Deadline::NEVER.has_passed(Duration::MAX));
    }

    #[test]
    fn marks_are_counted_to_three_and_survive_another_value() {
        let mut entry = StoredEntry::new(1, Arc::new('a'), Deadline::NEVER);
        (0..9).for_each(|_| entry.mark());
        let deadline = Deadline::after(SECOND, SECOND);
        assert_eq!(
            entry.replace(Arc::new('b'), deadline),
            (Arc::new('a'), Deadline::NEVER)
        );
        assert_eq!(entry.deadline(), deadline);
        assert_eq!(entry.take_mark(|mark| mark - 1), 3);
        assert_eq!(entry.take_mark(|_| 0), 2);
        assert_eq!(entry.take_mark(|_| 0), 0);
        assert_eq!(entry.deadline(), deadline);
    }
}

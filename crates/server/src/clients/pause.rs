//! Pause: requests that wait until an operator lets them run, or the time is over (CLIENT PAUSE).
//!
//! An event loop looks once a batch whether there is a pause, and then at each request whether it
//! waits. One that does stays in its connection's buffer with all behind it, and nothing more is
//! read: the client's own sending stops. The pause covers all protocols, for there is one cache.
//!
//! Invariant: when CLIENT PAUSE is answered, no loop runs anything that has to wait: it is set
//! while no other loop executes.
//! Tests: below, tests/pause.rs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cellar_engine::Instant;

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// What may change something.
    Writes,
    /// All requests that are about keys, channels or the server.
    All,
}

/// What a request is to a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It never waits: it is about the connection alone, or ends the pause.
    None,
    /// It changes nothing.
    Reads,
    /// It may change something.
    Writes,
}

impl Paused {
    /// Whether a request waits.
    #[must_use]
    pub fn holds(self, effect: Effect) -> bool {
        match effect {
            Effect::None => false,
            Effect::Reads => self == Paused::All,
            Effect::Writes => true,
        }
    }
}

/// The longest pause, in milliseconds: what fits beside the bit that says which requests wait.
const MS_MAX: u64 = u64::MAX >> 2;

/// The pause in force, if there is one.
#[derive(Debug, Default)]
pub struct Pause {
    /// When it ends, in engine milliseconds, and in the lowest bit whether all requests wait; zero
    /// for none.
    // Relaxed: it is set while no other loop executes, and the exclusive lock orders that.
    word: AtomicU64,
    /// Connections that wait.
    // Relaxed: a figure to look at.
    held: AtomicUsize,
}

impl Pause {
    /// What waits now.
    #[inline]
    #[must_use]
    pub fn in_force(&self, now: Instant) -> Option<Paused> {
        // Relaxed: see where it is declared.
        let word = self.word.load(Ordering::Relaxed);
        if word == 0 || word >> 1 <= now.0 {
            return None;
        }
        Some(if word & 1 == 1 {
            Paused::All
        } else {
            Paused::Writes
        })
    }

    /// Milliseconds until it ends; zero without one.
    #[must_use]
    pub fn left_ms(&self, now: Instant) -> u64 {
        (self.word.load(Ordering::Relaxed) >> 1).saturating_sub(now.0)
    }

    /// A number that no other pause has that ends at another time, or holds others.
    #[must_use]
    pub fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// Begins a pause of so many milliseconds; of two, the stricter holds until the later ends.
    pub fn begin(&self, paused: Paused, ms: u64, now: Instant) {
        let before = self.in_force(now);
        let until_ms = now.0.saturating_add(ms).min(MS_MAX);
        let until_ms = until_ms.max(before.map_or(0, |_| now.0 + self.left_ms(now)));
        let all = before.max(Some(paused)) == Some(Paused::All);
        let word = until_ms << 1 | u64::from(all);
        self.word.store(word, Ordering::Relaxed);
    }

    /// Ends it.
    pub fn end(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// Notes that so many connections more wait.
    pub fn note_held(&self, count: usize) {
        self.held.fetch_add(count, Ordering::Relaxed);
    }

    /// Notes that so many wait no longer.
    pub fn note_released(&self, count: usize) {
        self.held.fetch_sub(count, Ordering::Relaxed);
    }

    /// Connections that wait.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_pauses_the_stricter_holds_until_the_later_ends() {
        let pause = Pause::default();
        assert_eq!(pause.in_force(Instant(0)), None);
        pause.begin(Paused::Writes, 100, Instant(50));
        assert_eq!(pause.in_force(Instant(149)), Some(Paused::Writes));
        assert_eq!(pause.in_force(Instant(150)), None);
        pause.begin(Paused::All, 10, Instant(100));
        assert_eq!(pause.in_force(Instant(149)), Some(Paused::All));
        pause.begin(Paused::Writes, 200, Instant(100));
        assert_eq!(pause.in_force(Instant(299)), Some(Paused::All));
        assert_eq!(pause.left_ms(Instant(200)), 100);
        pause.begin(Paused::Writes, 10, Instant(300));
        assert_eq!(pause.in_force(Instant(305)), Some(Paused::Writes));
        pause.begin(Paused::All, u64::MAX, Instant(305));
        assert!(pause.left_ms(Instant(305)) > 1 << 60);
        pause.end();
        assert_eq!(pause.in_force(Instant(305)), None);
    }

    #[test]
    fn what_only_reads_waits_for_pauses_of_all() {
        for (effect, by_writes, by_all) in [
            (Effect::None, false, false),
            (Effect::Reads, false, true),
            (Effect::Writes, true, true),
        ] {
            assert_eq!(Paused::Writes.holds(effect), by_writes);
            assert_eq!(Paused::All.holds(effect), by_all);
        }
    }
}

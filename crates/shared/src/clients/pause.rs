//! Pause: requests that wait until an operator resumes them or the pause expires (CLIENT PAUSE).
//!
//! An event loop checks once per batch whether a pause is in force, and then for each request
//! whether it is affected. An affected request stays in its connection's buffer with all behind it,
//! and nothing more is read, so the client's sends block. The pause covers all protocols, because
//! they share one cache.
//!
//! Invariant: when CLIENT PAUSE is answered, no loop executes an affected request: the pause is set
//! while no other loop executes.
//! Tests: below, server/tests/pause.rs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cellar_engine::Instant;

/// The requests that a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// Requests that may change data.
    Writes,
    /// All requests that are about keys, channels or the server.
    All,
}

/// The effect of a request, as far as a pause is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Never held back: it concerns the connection alone, or ends the pause.
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

/// The pause in force, if any.
#[derive(Debug, Default)]
pub struct Pause {
    /// When it ends, in engine milliseconds, and in the lowest bit whether all requests wait; zero
    /// for none.
    // Relaxed: it is set while no other loop executes, and the exclusive lock orders that.
    word: AtomicU64,
    /// Number of waiting connections.
    // Relaxed: only reported.
    held: AtomicUsize,
}

impl Pause {
    /// The requests held back now.
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

    /// A number that differs between pauses with another end or other affected requests.
    #[must_use]
    pub fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// Begins a pause of so many milliseconds; of two pauses, the stricter applies until the later
    /// ends.
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

    /// Counts so many more waiting connections.
    pub fn note_held(&self, count: usize) {
        self.held.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts so many fewer waiting connections.
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

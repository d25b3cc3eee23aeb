//! Latency events: slow events and their times, for LATENCY.
//!
//! Off until CONFIG SET latency-monitor-threshold sets a time. For each kind of event the slowest
//! one of a second is kept, for the last [`SAMPLES_MAX`] seconds that had one.
//!
//! Source: redis.io/docs/latest/operate/oss_and_stack/management/optimization/latency-monitor.
//! Tests: below, server/tests/resp_times.rs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Most seconds that are kept of a kind.
const SAMPLES_MAX: usize = 160;

/// A kind of slow event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyEvent {
    /// A command whose time depends on stored data or arguments.
    Command,
    /// One of constant time.
    FastCommand,
    /// An iteration of an event loop, with all requests that it served.
    Turn,
}

/// All kinds, in the order of [`LatencyEvent`].
pub const EVENTS: [LatencyEvent; 3] = [
    LatencyEvent::Command,
    LatencyEvent::FastCommand,
    LatencyEvent::Turn,
];

impl LatencyEvent {
    /// Its name in LATENCY.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LatencyEvent::Command => "command",
            LatencyEvent::FastCommand => "fast-command",
            LatencyEvent::Turn => "event-loop-turn",
        }
    }

    /// The kind with this name, in any case.
    #[must_use]
    pub fn find(name: &[u8]) -> Option<LatencyEvent> {
        let mut all = EVENTS.into_iter();
        all.find(|event| event.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The slowest event of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySample {
    /// The second.
    pub unix_s: u64,
    /// How long the event took, in milliseconds.
    pub ms: u64,
}

/// The history of one kind of event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistory {
    /// The oldest first.
    pub samples: VecDeque<LatencySample>,
    /// The longest of all times, in milliseconds.
    pub most_ms: u64,
}

/// The histories of all kinds.
#[derive(Debug, Default)]
pub struct LatencyEvents {
    // Relaxed: a setting that orders nothing.
    threshold_ms: AtomicU64,
    histories: Mutex<[LatencyHistory; EVENTS.len()]>,
}

impl LatencyEvents {
    /// The shortest time that is recorded, in milliseconds; zero if nothing is.
    #[inline]
    #[must_use]
    pub fn threshold_ms(&self) -> u64 {
        // Relaxed: a setting that orders nothing.
        self.threshold_ms.load(Ordering::Relaxed)
    }

    /// Changes it.
    pub fn set_threshold_ms(&self, ms: u64) {
        self.threshold_ms.store(ms, Ordering::Relaxed);
    }

    /// Records an event if it was slow enough; `unix_s` returns the time.
    #[inline]
    pub fn note(&self, event: LatencyEvent, us: u64, unix_s: impl FnOnce() -> u64) {
        let (ms, threshold_ms) = (us / 1_000, self.threshold_ms());
        if threshold_ms > 0 && ms >= threshold_ms {
            self.keep(event, ms, unix_s());
        }
    }

    #[cold]
    fn keep(&self, event: LatencyEvent, ms: u64, unix_s: u64) {
        let mut histories = self.histories.lock();
        let history = &mut histories[event as usize];
        history.most_ms = history.most_ms.max(ms);
        match history.samples.back_mut() {
            Some(last) if last.unix_s == unix_s => last.ms = last.ms.max(ms),
            _ => {
                if history.samples.len() == SAMPLES_MAX {
                    history.samples.pop_front();
                }
                history.samples.push_back(LatencySample { unix_s, ms });
            }
        }
    }

    /// The history of a kind.
    #[must_use]
    pub fn history(&self, event: LatencyEvent) -> LatencyHistory {
        self.histories.lock()[event as usize].clone()
    }

    /// Clears the history of a kind; returns whether it had entries.
    pub fn forget(&self, event: LatencyEvent) -> bool {
        let history = std::mem::take(&mut self.histories.lock()[event as usize]);
        !history.samples.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_until_a_threshold_is_named() {
        let events = LatencyEvents::default();
        events.note(LatencyEvent::Command, 9_000_000, || 1);
        assert_eq!(
            events.history(LatencyEvent::Command),
            LatencyHistory::default()
        );
        events.set_threshold_ms(5);
        events.note(LatencyEvent::Command, 4_999, || 1);
        assert!(!events.forget(LatencyEvent::Command));
        events.note(LatencyEvent::Command, 5_000, || 1);
        assert!(events.forget(LatencyEvent::Command));
        assert!(!events.forget(LatencyEvent::Command));
    }

    #[test]
    fn the_slowest_of_a_second_is_kept_and_of_seconds_the_last() {
        let events = LatencyEvents::default();
        events.set_threshold_ms(1);
        for unix_s in 0..2 * SAMPLES_MAX as u64 {
            for ms in [3, 1_000 - unix_s, 2] {
                events.note(LatencyEvent::Turn, ms * 1_000, || unix_s);
            }
        }
        let history = events.history(LatencyEvent::Turn);
        assert_eq!(
            (history.samples.len(), history.most_ms),
            (SAMPLES_MAX, 1_000)
        );
        let last = history.samples.back().unwrap();
        assert_eq!((last.unix_s, last.ms), (319, 681));
        assert_eq!(
            LatencyEvent::find(b"FAST-command"),
            Some(LatencyEvent::FastCommand)
        );
    }
}

//! Stall: detects a stalled event loop.
//!
//! Time is the sum of the intervals between checks, so neither a stopped process nor a sleeping
//! machine looks like a hanging loop. Nor does a loop that waits for others while they progress:
//! many scripts, each within its limit, may block it for long.

use std::sync::Arc;

use cellar_shared::clients::client;
use cellar_shared::clients::exclusive_lock::ExclusiveLock;
use cellar_shared::observe::counters::Counters;
use cellar_shared::observe::counters::pulse::Began;

use super::reporter::{News, Reporter, Stall};

/// Duration of an iteration from which on it is logged.
const STALL_MS: u64 = 1_000;

/// The observations of all loops.
pub(super) struct Stalls {
    loops: Vec<WatchedLoop>,
    /// The stall after which the process ends; 0 = never.
    patience_ms: u64,
}

/// The observations of one loop.
struct WatchedLoop {
    counters: Arc<Counters>,
    turn: Option<u64>,
    stood_ms: u64,
    /// The part of it that other loops did not cause.
    hangs_ms: u64,
    /// The number of exclusive holds by others when it was seen to wait for them.
    waited_at: Option<u64>,
}

impl Stalls {
    pub(super) fn new(counters: Vec<Arc<Counters>>, patience_ms: u64) -> Stalls {
        let of_loop = |counters| WatchedLoop {
            counters,
            turn: None,
            stood_ms: 0,
            hangs_ms: 0,
            waited_at: None,
        };
        Stalls {
            loops: counters.into_iter().map(of_loop).collect(),
            patience_ms,
        }
    }

    /// Checks each loop, `ms` after the last check; ends the process if required.
    pub(super) fn look(
        &mut self,
        ms: u64,
        exclusive_lock: &ExclusiveLock,
        reporter: &mut Reporter,
    ) {
        let patience_ms = self.patience_ms;
        let mut is_over = false;
        for (index, seen) in self.loops.iter_mut().enumerate() {
            let stood_ms = seen.look(ms, exclusive_lock.waits_at(index));
            if stood_ms < STALL_MS {
                if seen.told_ms() > 0 {
                    let stood_ms = seen.told_ms();
                    reporter.note(News::GoesOn { index, stood_ms });
                    seen.counters.pulse.note_stalled_ms(0);
                }
                continue;
            }
            if seen.told_ms() == 0 {
                seen.counters.pulse.note_stall();
                reporter.note(News::Stands(seen.stall(index)));
            }
            seen.counters.pulse.note_stalled_ms(stood_ms);
            is_over |= patience_ms > 0 && seen.hangs_ms >= patience_ms;
        }
        if is_over {
            for (index, seen) in self.loops.iter().enumerate() {
                if seen.told_ms() > 0 {
                    reporter.note(News::Hangs(seen.stall(index)));
                }
            }
            reporter.log_last();
            std::process::abort();
        }
    }
}

impl WatchedLoop {
    /// How long the current iteration has been observed; `waits_at` is the result of
    /// [`ExclusiveLock::waits_at`].
    fn look(&mut self, ms: u64, waits_at: Option<u64>) -> u64 {
        let turn = self.counters.pulse.turn();
        if turn.is_some() && turn == self.turn {
            self.stood_ms += ms;
            self.hangs_ms += ms;
        } else {
            self.turn = turn;
            self.stood_ms = 0;
            self.hangs_ms = 0;
        }
        if waits_at.is_some() && waits_at != self.waited_at {
            self.hangs_ms = 0;
        }
        self.waited_at = waits_at;
        self.stood_ms
    }

    /// How long it was stalled at the last check; zero if that was not logged.
    fn told_ms(&self) -> u64 {
        self.counters.pulse.stalled_ms()
    }

    fn stall(&self, index: usize) -> Stall {
        let began = match self.counters.pulse.began() {
            Began::Nothing => "nothing".to_owned(),
            Began::Memcached => "a request over memcached's protocol".to_owned(),
            Began::Http => "a request over HTTP".to_owned(),
            Began::Resp(verb) => client::command_name(verb).unwrap_or_default(),
        };
        Stall {
            index,
            stood_ms: self.stood_ms,
            began,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalls(loops: usize) -> (Vec<Arc<Counters>>, Stalls) {
        let counters: Vec<Arc<Counters>> = (0..loops).map(|_| Arc::default()).collect();
        (counters.clone(), Stalls::new(counters, 0))
    }

    #[test]
    fn a_turn_that_does_not_end_is_a_stall_and_is_counted_once() {
        let (counters, mut stalls) = stalls(2);
        let mut reporter = Reporter::default();
        counters[1].pulse.beat();
        for _ in 0..50 {
            stalls.look(100, &ExclusiveLock::new(2), &mut reporter);
        }
        assert_eq!(counters[1].pulse.stalls(), 1);
        assert_eq!(counters[1].pulse.stalled_ms(), 4_900);
        assert_eq!(counters[0].pulse.stalls(), 0);
        counters[1].pulse.beat();
        stalls.look(100, &ExclusiveLock::new(2), &mut reporter);
        assert_eq!(counters[1].pulse.stalled_ms(), 0);
        counters[1].pulse.beat();
        for _ in 0..50 {
            stalls.look(100, &ExclusiveLock::new(2), &mut reporter);
        }
        assert_eq!(counters[1].pulse.stalls(), 2);
    }

    #[test]
    fn a_loop_that_waits_for_others_hangs_only_if_they_do() {
        let counters = Arc::new(Counters::default());
        let mut stalls = Stalls::new(vec![Arc::clone(&counters)], 0);
        counters.pulse.beat();
        let seen = &mut stalls.loops[0];
        // Other loops hold the lock exclusively, one every five seconds.
        for look in 0..600 {
            seen.look(100, Some(look / 50));
            assert!(seen.hangs_ms < 5_000, "{look}");
        }
        assert_eq!(seen.stood_ms, 59_900);
        // No further exclusive hold begins.
        for look in 1..=100 {
            seen.look(100, Some(11));
            assert_eq!(seen.hangs_ms, 4_900 + 100 * look);
        }
        // It holds the lock itself, in the same iteration; then it waits again.
        seen.look(100, Some(12));
        for look in 1..=100 {
            seen.look(100, None);
            assert_eq!(seen.hangs_ms, 100 * look);
        }
        counters.pulse.beat();
        assert_eq!(seen.look(100, None), 0);
        assert_eq!(seen.hangs_ms, 0);
    }

    #[test]
    fn a_loop_that_waits_or_goes_on_is_none() {
        let (counters, mut stalls) = stalls(2);
        let mut reporter = Reporter::default();
        for _ in 0..100 {
            // One is busy all the time, the other waits for sockets.
            counters[0].pulse.beat();
            counters[0].pulse.beat();
            stalls.look(900, &ExclusiveLock::new(2), &mut reporter);
        }
        for counters in counters {
            assert_eq!(
                (counters.pulse.stalls(), counters.pulse.stalled_ms()),
                (0, 0)
            );
        }
    }
}

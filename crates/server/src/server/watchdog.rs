//! Watchdog: a background thread that waits for no other thread, and monitors.
//!
//! It monitors the event loops: a stalled loop is logged, counted, and after `--watchdog` ends the
//! process ([`stall`]). It monitors the stop: a stopping server ends, whatever its loops do. It
//! monitors the wall clock: when the clock is set, all Unix times follow ([`alarm`]).
//!
//! Invariant: it takes no lock that a request holds, and another thread writes its log lines, so
//! that nothing that stops a loop stops it.
//! Why: docs/decisions/0028. Tests: tests/watchdog.rs, tests/wall_clock.rs.

mod alarm;
mod thread;
mod reporter;
mod stall;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use cellar_shared::state::State;
use cellar_system::clock::Stopwatch;
use cellar_system::poller::{Interest, Poller, Waker};
use cellar_system::signals::IMPATIENT_STATUS;
use signal_hook::low_level;

use self::alarm::Alarm;
use self::reporter::{News, Reporter};
use self::stall::Stalls;

/// Time between two looks.
const LOOK_MS: u32 = 100;
/// Most time that one look counts for: a machine or a process that stood still as a whole is no
/// loop that does.
const LOOK_MS_MAX: u64 = 2 * LOOK_MS as u64;
/// How long a stopping server may take beyond --lame-duck, a script and its drain.
const STOP_GRACE_MS: u64 = 1_000;
/// Token of the alarm.
const ALARM_TOKEN: u64 = 0;
/// Token of the end.
const STOP_TOKEN: u64 = 1;

/// The running thread.
#[derive(Debug)]
pub(crate) struct Watchdog {
    stop: Waker,
    thread: JoinHandle<()>,
}

/// The state of the thread, and the events that wake it.
struct Lookout {
    state: Arc<State>,
    poller: Poller,
    alarm: Option<Alarm>,
    /// Whether a signal asked the server to stop.
    told: Arc<AtomicBool>,
    stopping_ms: u64,
    stalls: Stalls,
    reporter: Reporter,
}

impl Watchdog {
    /// Starts the thread; `told` is set when a signal asked the server to stop.
    ///
    /// # Errors
    /// The system's, when it is out of threads or files.
    pub(crate) fn start(state: Arc<State>, told: Arc<AtomicBool>) -> std::io::Result<Watchdog> {
        let stop = Waker::new()?;
        let lookout = Lookout::new(state, told, &stop)?;
        let thread = Builder::new().name("cellar-watchdog".to_owned());
        let thread = thread.spawn(move || lookout.run())?;
        Ok(Watchdog { stop, thread })
    }

    /// Stops the thread and waits for its end.
    pub(crate) fn stop(self) {
        self.stop.wake();
        // A panic has ended the whole process already.
        let _ = self.thread.join();
    }
}

impl Lookout {
    fn new(state: Arc<State>, told: Arc<AtomicBool>, stop: &Waker) -> std::io::Result<Lookout> {
        let poller = Poller::new()?;
        poller.add(stop, STOP_TOKEN, Interest::Level)?;
        let alarm = Alarm::set().ok();
        if let Some(alarm) = &alarm {
            poller.add(alarm, ALARM_TOKEN, Interest::Level)?;
        }
        Ok(Lookout {
            stalls: Stalls::new(state.statistics.loops.clone(), state.settings.watchdog_ms),
            state,
            poller,
            alarm,
            told,
            stopping_ms: 0,
            reporter: Reporter::default(),
        })
    }

    fn run(mut self) {
        let mut since = Stopwatch::start();
        loop {
            let count = self.poller.wait(LOOK_MS);
            let count = count.expect("waiting for a file that is open does not fail");
            if (0..count).any(|index| self.poller.ready(index).token == STOP_TOKEN) {
                return;
            }
            if let Some(alarm) = self.alarm.as_ref().filter(|_| count > 0) {
                alarm.quiet();
            }
            if let Some(by_ms) = self.state.wall.follow() {
                self.reporter.note(News::ClockSet { by_ms });
            }
            let ms = (since.us() / 1_000).min(LOOK_MS_MAX);
            if ms > 0 {
                since = Stopwatch::start();
                self.stalls
                    .look(ms, &self.state.exclusive_lock, &mut self.reporter);
                self.look_at_the_stop(ms);
            }
            self.reporter.tell();
        }
    }

    /// Ends a process that should stop and does not.
    fn look_at_the_stop(&mut self, ms: u64) {
        // Relaxed: flags that order nothing.
        let is_told = self.told.load(Ordering::Relaxed);
        if !is_told && !self.state.run.is_draining() {
            return;
        }
        self.stopping_ms += ms;
        let settings = &self.state.settings;
        let patience_ms = settings
            .drain_timeout_ms
            .saturating_add(settings.lame_duck_ms)
            .saturating_add(settings.script_time_ms)
            .saturating_add(STOP_GRACE_MS);
        if self.stopping_ms > patience_ms {
            self.reporter.note(News::Stuck {
                stopping_ms: self.stopping_ms,
            });
            self.reporter.log_last();
            low_level::exit(IMPATIENT_STATUS);
        }
    }
}

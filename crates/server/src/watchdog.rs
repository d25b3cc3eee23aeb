//! Watchdog: a thread that serves nobody, waits for nobody, and looks.
//!
//! At the wall clock: it goes with each step of it, at once if the system has an alarm for that
//! ([`alarm`]), else with its next look.
//!
//! Invariant: it takes no lock that a request holds, so nothing that stops those stops it.
//! Why: docs/decisions/0028. Tests: tests/wall_clock.rs.

mod alarm;

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use self::alarm::Alarm;
use crate::clock::WallClock;
use crate::poller::{Interest, Poller, Waker};
use crate::state::State;

/// Time between two looks.
const LOOK_MS: u32 = 100;
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

/// What the thread looks at, and by what it is woken.
struct Lookout {
    state: Arc<State>,
    poller: Poller,
    alarm: Option<Alarm>,
}

impl Watchdog {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, when it is out of threads or files.
    pub(crate) fn start(state: Arc<State>) -> std::io::Result<Watchdog> {
        let stop = Waker::new()?;
        let lookout = Lookout::new(state, &stop)?;
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
    fn new(state: Arc<State>, stop: &Waker) -> std::io::Result<Lookout> {
        let poller = Poller::new()?;
        poller.add(stop, STOP_TOKEN, Interest::Level)?;
        let alarm = Alarm::set().ok();
        if let Some(alarm) = &alarm {
            poller.add(alarm, ALARM_TOKEN, Interest::Level)?;
        }
        Ok(Lookout {
            state,
            poller,
            alarm,
        })
    }

    fn run(mut self) {
        loop {
            let count = self.poller.wait(LOOK_MS);
            let count = count.expect("waiting for a file that is open does not fail");
            if (0..count).any(|index| self.poller.ready(index).token == STOP_TOKEN) {
                return;
            }
            if let Some(alarm) = self.alarm.as_ref().filter(|_| count > 0) {
                alarm.quiet();
            }
            follow(&self.state.wall);
        }
    }
}

/// Goes with the wall clock.
fn follow(wall: &WallClock) {
    if let Some(by_ms) = wall.follow() {
        tracing::warn!(
            by_ms,
            "the wall clock was set: Unix times go by the new one, time that is left stays"
        );
    }
}

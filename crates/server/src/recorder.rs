//! Recorder: who keeps the history, on a thread that serves nobody.
//!
//! Once a second it reads all counts. The event loops have nothing to do with it; a shard is locked
//! for as long as its sums take.
//!
//! Tests: tests/history.rs.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::clock::LoopClock;
use crate::counters::load::LoadTotals;
use crate::history::events::EventKind;
use crate::history::{LoopSnapshot, STEP_MS, Snapshot};
use crate::state::State;

/// The running thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, when it is out of threads.
    pub(crate) fn start(state: Arc<State>, clock: LoopClock) -> io::Result<Recorder> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name("cellar-recorder".to_owned());
        let thread = thread.spawn(move || run(&state, &clock, &stopped))?;
        Ok(Recorder { stop, thread })
    }

    /// Stops the thread and waits for its end.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // A panic has ended the whole process already.
        let _ = self.thread.join();
    }
}

fn run(state: &State, clock: &LoopClock, stopped: &Receiver<()>) {
    let version = env!("CARGO_PKG_VERSION");
    let now = clock.refresh();
    state.history.tell(EventKind::Started, now.0, version);
    let mut pause = Duration::ZERO;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let now = clock.refresh();
        state.history.note(snapshot(state, now.0));
        // Rows lie a whole number of steps from the start.
        pause = Duration::from_millis(STEP_MS - clock.us() / 1_000 % STEP_MS);
    }
}

fn snapshot(state: &State, at_ms: u64) -> Snapshot {
    let loads: Vec<LoadTotals> = state.counters.iter().map(|one| one.load.read()).collect();
    let mut load = LoadTotals::default();
    loads.iter().for_each(|one| load.add(one));
    let one = |load: &LoadTotals| LoopSnapshot {
        busy_us: load.busy_us,
        requests: load.requests(),
    };
    Snapshot {
        at_ms,
        load,
        loops: loads.iter().map(one).collect(),
        totals: state.totals(),
        engine: state.cache.stats(),
        stalls: state.counters.iter().map(|one| one.pulse.stalls()).sum(),
    }
}

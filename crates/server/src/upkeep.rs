//! Upkeep: what the cache needs besides requests, on a thread that serves nobody.
//!
//! Dead segments are emptied, memory goes back to the system if the settings say so, and memory in
//! full use goes to huge pages, while the event loops go on; the engine says at which pace.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::clock::LoopClock;
use crate::state::State;

/// What clients hold less than at the peak when the heap is asked to give memory back.
const HEAP_BYTES_MIN: usize = 16 << 20;

/// The running thread.
#[derive(Debug)]
pub(crate) struct Upkeep {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Upkeep {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, when it is out of threads.
    pub(crate) fn start(state: Arc<State>, clock: LoopClock) -> std::io::Result<Upkeep> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name("cellar-upkeep".to_owned());
        let thread = thread.spawn(move || run(&state, &clock, &stopped))?;
        Ok(Upkeep { stop, thread })
    }

    /// Stops the thread and waits for its end.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // A panic has ended the whole process already.
        let _ = self.thread.join();
    }
}

fn run(state: &State, clock: &LoopClock, stopped: &Receiver<()>) {
    let mut upkeep = cellar_engine::Upkeep::default();
    let mut pause = Duration::ZERO;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        clock.refresh();
        if !state.upkeep_rests.load(Ordering::Relaxed) {
            pause = upkeep.step(&state.cache);
        }
        state.observer.tracking.push_due(state.cache.now().0);
        state.observer.tracking.broadcast();
        if state.budget.has_fallen(HEAP_BYTES_MIN) {
            cellar_engine::release_heap();
        }
    }
}

//! Checker: checks the items of a killed server while this one serves.
//!
//! The engine's threads do it, in half of their time. An item that a request needs first is checked
//! by that request.
//!
//! Why: docs/decisions/0085. Page: docs/guide/restart.md. Tests: tests/restart.rs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use cellar_shared::state::State;
use cellar_system::clock::Stopwatch;

/// How often the progress of the check is logged.
const PROGRESS_MS: u64 = 1_000;

/// Threads that check the items of a killed server while this one serves.
pub(crate) struct Checker {
    is_stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Checker {
    /// Starts the threads, if any items are to be checked.
    ///
    /// # Errors
    /// The system's, when it is out of threads.
    pub(crate) fn start(state: &Arc<State>) -> io::Result<Option<Checker>> {
        if !state.cache.has_unchecked() {
            return Ok(None);
        }
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (stopped, state) = (Arc::clone(&is_stopped), Arc::clone(state));
        let thread = Builder::new()
            .name("cellar-check".to_owned())
            .spawn(move || check(&state, &stopped))?;
        Ok(Some(Checker { is_stopped, thread }))
    }

    /// Stops the threads and waits for them to end; the remaining items stay unchecked.
    pub(crate) fn stop(self) {
        // Relaxed: a flag that orders nothing.
        self.is_stopped.store(true, Ordering::Relaxed);
        // A thread that panicked has already been reported.
        let _ = self.thread.join();
    }
}

/// Checks all items, and logs the progress.
fn check(state: &State, is_stopped: &AtomicBool) {
    let stopwatch = Stopwatch::start();
    let told_ms = AtomicU64::new(0);
    let goes_on = || {
        // Relaxed: only one thread logs, no matter which.
        let order = Ordering::Relaxed;
        let (now_ms, before_ms) = (stopwatch.us() / 1_000, told_ms.load(order));
        let is_due = now_ms >= before_ms + PROGRESS_MS
            && told_ms
                .compare_exchange(before_ms, now_ms, order, order)
                .is_ok();
        if let Some(restored) = state.cache.restored().filter(|_| is_due) {
            let checked = restored.segment_bytes - restored.unchecked_bytes;
            let percent = checked * 100 / restored.segment_bytes.max(1);
            tracing::info!(
                percent,
                items = restored.items,
                "--state: items are checked"
            );
        }
        // Relaxed: a flag that orders nothing.
        !is_stopped.load(Ordering::Relaxed)
    };
    if state.cache.check_beside(state.settings.threads, goes_on)
        && let Some(restored) = state.cache.restored()
    {
        tracing::info!(
            items = restored.items,
            bytes = restored.bytes,
            dropped = restored.dropped,
            took_ms = stopwatch.us() / 1_000,
            "--state: all items of the killed server are checked"
        );
    }
}

//! The thread on which a blocking cache's connections and timers live.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::{EnterGuard, Handle};
use tokio::sync::oneshot;

use crate::read_through::error::Error;
use crate::read_through::lane;

/// Helpers of that thread, for addresses to be looked up and void entries to be swept.
const HELPERS_MAX: usize = 4;

/// A runtime on a thread of its own; ends with it when it is dropped.
#[derive(Debug)]
pub(super) struct Background {
    runtime: Handle,
    /// By which lanes know its threads.
    number: u64,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread.
    pub(super) fn start() -> Result<Background, Error> {
        let failed = |error: std::io::Error| Error::Thread(Arc::from(error.to_string()));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(HELPERS_MAX)
            .thread_name("cellar-near-aid")
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let number = lane::new_background();
        let run = move || {
            lane::stay(number);
            // Err means that the sender is gone, which is the same wish.
            let _ = runtime.block_on(stopped);
            // Not waited for: a helper may look up an address for seconds.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("cellar-near".into());
        Ok(Background {
            runtime: handle,
            number,
            stop: Some(stop),
            thread: Some(thread.spawn(run).map_err(failed)?),
        })
    }

    /// Its number, by which lanes know the threads that wait for it.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Makes it the runtime in which the caller spawns tasks.
    pub(super) fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Err means that the thread has ended.
            let _ = stop.send(());
        }
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The last handle may be dropped by one of its own tasks.
        if thread.thread().id() != std::thread::current().id() {
            // Err means that it panicked, which was already reported.
            let _ = thread.join();
        }
    }
}

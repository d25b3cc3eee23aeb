//! Ticker: a thread that serves nobody and does a little from time to time.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The running thread; it goes on no longer than until this is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Ticker {
    /// Starts a thread of this name that calls `tick` after `first`, and then as often as it says.
    ///
    /// # Errors
    /// The system's, when it is out of threads.
    pub(crate) fn start(
        name: &str,
        first: Duration,
        mut tick: impl FnMut() -> Duration + Send + 'static,
    ) -> io::Result<Ticker> {
        let (stop, stopped) = channel::<()>();
        let run = move || {
            let mut pause = first;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = tick();
            }
        };
        let thread = Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Ticker { stop, thread })
    }

    /// Stops the thread and waits for its end.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // A panic has ended the whole process already.
        let _ = self.thread.join();
    }
}

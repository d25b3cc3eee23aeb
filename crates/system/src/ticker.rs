//! Ticker: a background thread that does a little work periodically.

use std::io;
use std::num::NonZeroU64;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::thread::set_current_timer_slack;

/// How much later than asked for the system may end a pause: Linux' own 50 us would double the
/// shortest ones.
const SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// A message to the thread.
#[derive(Debug)]
enum Bidding {
    Tick,
    /// Tick, and report that it is done.
    TickFor(Sender<()>),
    Stop,
}

/// Makes the thread tick before its time.
#[derive(Clone, Debug)]
pub struct Nudge(Sender<Bidding>);

impl Nudge {
    /// Makes the thread tick now; nothing if it has ended.
    pub fn nudge(&self) {
        // Whether the thread still runs is its owner's affair.
        let _ = self.0.send(Bidding::Tick);
    }
}

/// The running thread; it ends when this and all its nudges are dropped.
#[derive(Debug)]
pub struct Ticker {
    orders: Sender<Bidding>,
    thread: JoinHandle<()>,
}

impl Ticker {
    /// Starts a thread of this name that calls `tick` after `first`, and then as often as it says.
    ///
    /// # Errors
    /// The system's, when it is out of threads.
    pub fn start(
        name: &str,
        first: Duration,
        mut tick: impl FnMut() -> Duration + Send + 'static,
    ) -> io::Result<Ticker> {
        let (orders, received) = channel();
        let run = move || {
            // If it is refused, pauses are a little longer.
            let _ = set_current_timer_slack(Some(SLACK_NS));
            let mut pause = first;
            loop {
                let done = match received.recv_timeout(pause) {
                    Ok(Bidding::Tick) | Err(RecvTimeoutError::Timeout) => None,
                    Ok(Bidding::TickFor(done)) => Some(done),
                    Ok(Bidding::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                };
                pause = tick();
                if let Some(done) = done {
                    // A caller that has ended needs no report.
                    let _ = done.send(());
                }
            }
        };
        let thread = Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Ticker { orders, thread })
    }

    /// A handle that wakes the thread.
    pub fn nudge(&self) -> Nudge {
        Nudge(self.orders.clone())
    }

    /// Makes the thread tick now and waits until it has.
    pub fn tick_now(&self) {
        let (done, is_done) = channel();
        // A thread that has ended drops the sender, which ends the wait.
        let _ = self.orders.send(Bidding::TickFor(done));
        let _ = is_done.recv();
    }

    /// Stops the thread and waits for its end.
    pub fn stop(self) {
        // It fails only if the thread has ended.
        let _ = self.orders.send(Bidding::Stop);
        // A panic has ended the whole process already.
        let _ = self.thread.join();
    }
}

//! Reporter: writes the watchdog's log lines on their own thread, past the log's queue.
//!
//! A log that is not read blocks its writers, and may be the reason for a stalled event loop. News
//! queue while such a thread is busy, the newest [`NEWS_MAX`] of them.

use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

use cellar_config::logging;

use super::thread;

/// Most news that wait.
const NEWS_MAX: usize = 256;
/// Time limit for logging the last news before the process ends.
const LAST_MS: u64 = 5_000;

/// A stalled loop.
#[derive(Debug)]
pub(super) struct Stall {
    /// The loop.
    pub(super) index: usize,
    /// For how long, in milliseconds.
    pub(super) stood_ms: u64,
    /// The command that it began last.
    pub(super) began: String,
}

/// An event to log.
#[derive(Debug)]
pub(super) enum News {
    /// The wall clock was set.
    ClockSet {
        /// By how many milliseconds.
        by_ms: i64,
    },
    /// An event loop is stalled.
    Stands(Stall),
    /// It has resumed.
    GoesOn {
        /// The loop.
        index: usize,
        /// For how long it was stalled, in milliseconds.
        stood_ms: u64,
    },
    /// It has been stalled for longer than `--watchdog`.
    Hangs(Stall),
    /// The server should stop, and does not.
    Stuck {
        /// How long ago, in milliseconds.
        stopping_ms: u64,
    },
}

/// The queued news, and the thread that logs.
#[derive(Debug, Default)]
pub(super) struct Reporter {
    waiting: Vec<News>,
    teller: Option<JoinHandle<()>>,
}

impl Reporter {
    /// Adds to the queue.
    pub(super) fn note(&mut self, news: News) {
        if self.waiting.len() >= NEWS_MAX {
            self.waiting.remove(0);
        }
        self.waiting.push(news);
    }

    /// Logs the queued news, unless earlier ones are still being logged.
    pub(super) fn tell(&mut self) {
        let is_busy = self.teller.as_ref().is_some_and(|one| !one.is_finished());
        if self.waiting.is_empty() || is_busy {
            return;
        }
        let news = std::mem::take(&mut self.waiting);
        let teller = Builder::new().name("cellar-reporter".to_owned());
        // Without a thread the news are lost: nothing may wait for a log here.
        let started = teller.spawn(move || {
            logging::straight(|| news.iter().for_each(News::write));
        });
        self.teller = started.ok();
    }

    /// Logs the queued news before the process ends, within a time limit.
    pub(super) fn log_last(&mut self) {
        for _ in 0..LAST_MS / 10 {
            self.tell();
            let is_told = self.teller.as_ref().is_none_or(JoinHandle::is_finished);
            if is_told && self.waiting.is_empty() {
                break;
            }
            sleep(Duration::from_millis(10));
        }
        // The queued log lines of other threads, as far as the log is read.
        logging::finish();
    }
}

impl News {
    fn write(&self) {
        match self {
            News::ClockSet { by_ms } => tracing::warn!(
                by_ms,
                "the system clock was set: Unix times follow it, remaining TTLs do not change"
            ),
            News::Stands(stall) => tracing::warn!(
                thread = stall.index,
                stood_ms = stall.stood_ms,
                began_last = stall.began,
                system = thread::facts(stall.index),
                "an event loop is blocked: its clients wait"
            ),
            News::GoesOn { index, stood_ms } => {
                tracing::warn!(
                    thread = index,
                    stood_ms,
                    "the event loop is no longer blocked"
                );
            }
            News::Hangs(stall) => tracing::error!(
                thread = stall.index,
                stood_ms = stall.stood_ms,
                began_last = stall.began,
                system = thread::facts(stall.index),
                "an event loop is blocked for longer than --watchdog: aborting"
            ),
            News::Stuck { stopping_ms } => tracing::error!(
                stopping_ms,
                "an event loop is blocked during shutdown: exiting without a drain"
            ),
        }
    }
}

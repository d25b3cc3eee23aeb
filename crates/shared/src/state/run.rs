//! Run: one run of the server: its name, its start, and whether it ends.
//!
//! A server that stops first reports on `/readyz` that it is stopping, and still serves. Then it
//! drains: connections end after the requests they have sent.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};

use cellar_engine::Instant;

/// One run of the server.
#[derive(Debug)]
pub struct Run {
    /// A unique name of it.
    pub id: String,
    /// The engine's time at the start, which continues that of an earlier server.
    pub started: Instant,
    leaving: AtomicBool,
    draining: AtomicBool,
}

impl Default for Run {
    fn default() -> Run {
        Run {
            id: id(),
            started: Instant(0),
            leaving: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }
}

impl Run {
    /// Whether the server is stopping; it may still serve for a while.
    #[inline]
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        // Relaxed: a flag that orders nothing.
        self.leaving.load(Ordering::Relaxed)
    }

    /// Whether it drains.
    #[inline]
    #[must_use]
    pub fn is_draining(&self) -> bool {
        // Relaxed: a flag that orders nothing.
        self.draining.load(Ordering::Relaxed)
    }

    /// Records that the server is stopping, or that it goes on after a restart that failed.
    pub fn set_leaving(&self, is_leaving: bool) {
        // Relaxed: a flag that orders nothing.
        self.leaving.store(is_leaving, Ordering::Relaxed);
    }

    /// Records that it drains, and so is stopping.
    pub fn begin_drain(&self) {
        self.set_leaving(true);
        // Relaxed: the loops are told through their mailboxes afterwards.
        self.draining.store(true, Ordering::Relaxed);
    }
}

/// Forty hexadecimal digits at random.
fn id() -> String {
    let draw = |place: u8| RandomState::new().hash_one(place);
    let mut id: String = (0..3)
        .map(|place| format!("{:016x}", draw(place)))
        .collect();
    id.truncate(40);
    id
}

//! Transfers: the cache's memory held by values that are being received or sent now.
//!
//! Page: docs/design/connections.md. Tests: server/tests/large_values.rs.

use std::sync::atomic::{AtomicU64, Ordering};

/// The divisor for the share of the cache's memory that values in transfer may hold before slow
/// clients get shorter time-outs.
const MEMORY_SHARE: u64 = 4;

/// The sum over all connections, in bytes.
// Relaxed: a sum that orders nothing.
#[derive(Debug, Default)]
pub struct Transfers(AtomicU64);

impl Transfers {
    /// Records that a connection's transfers went from `before` to `after` bytes.
    #[inline]
    pub fn note(&self, before: usize, after: usize) {
        // Relaxed: a sum that orders nothing; wrapping arithmetic keeps it exact.
        let change = (after as u64).wrapping_sub(before as u64);
        if change != 0 {
            self.0.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// The bytes now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        // Relaxed: only reported.
        self.0.load(Ordering::Relaxed)
    }

    /// Whether they are so much of a cache of this size that slow clients have to be closed.
    #[must_use]
    pub fn fill(&self, memory_bytes: usize) -> bool {
        self.bytes() > memory_bytes as u64 / MEMORY_SHARE
    }
}

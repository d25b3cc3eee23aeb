//! Youth: which segments of the small queue were opened so lately that uses of their items do not
//! count, and how large that queue is to be.
//!
//! Why: docs/decisions/0055, 0065. Tests: tests/evict.rs.

use super::Log;
use crate::policy::young_bytes;
use crate::segment::{Queue, Stream};

impl Log {
    /// Begins the youth of a segment that was just opened, and ends that of older ones.
    pub(super) fn age(&mut self, stream: Stream, opened: u32) {
        let is_young = stream == Stream::from(Queue::Small);
        self.arena.set_young(opened, is_young);
        // It may have been emptied before its youth was over.
        self.young.retain(|&number| number != opened);
        if !is_young {
            return;
        }
        self.young.push_back(opened);
        let queue_bytes = self.queue_bytes.iter().sum();
        let young_bytes = young_bytes(queue_bytes, self.small.percent());
        let young_max = young_bytes >> self.arena.segment_shift();
        while self.young.len() > young_max {
            if let Some(grown) = self.young.pop_front() {
                self.arena.set_young(grown, false);
            }
        }
    }

    /// Logs that draw on the same budget.
    pub(crate) fn sharers(&self) -> usize {
        self.share.sharers()
    }

    /// How much of memory the small queue may have, in percent.
    pub(crate) fn small_percent(&self) -> usize {
        self.small.percent()
    }
}

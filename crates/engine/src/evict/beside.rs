//! Beside: how upkeep moves live items out of a segment while nobody waits for its memory.
//!
//! Why: docs/decisions/0034. Tests: tests/overdue.rs.

use super::{Allowance, Reclaimer, SCAN_MS};
use crate::clock::Instant;
use crate::expire::flow_of;
use crate::segment::{Queue, Stream};
use crate::store::{Located, Store};

impl Reclaimer {
    /// Moves a live item of upkeep's victim to those of its queue that have as long to live, while
    /// there is room; whether there was. If not, upkeep rests: nobody needs what it would win.
    pub(super) fn move_beside_requests(
        &mut self,
        store: &mut Store,
        located: &Located,
        (queue, frequency): (Queue, u8),
        allowance: &mut Allowance,
        now: Instant,
    ) -> bool {
        let flow = flow_of(&located.layout, store.segment(located.segment), now);
        let is_moved = store.move_to(located, Stream { queue, flow }, frequency, now);
        if is_moved {
            let bytes = located.layout.total_bytes();
            allowance.copy_bytes = allowance.copy_bytes.saturating_sub(bytes);
        } else {
            self.nothing_dead_until = Instant(now.0 + SCAN_MS);
        }
        is_moved
    }
}

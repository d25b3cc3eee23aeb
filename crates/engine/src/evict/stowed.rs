//! Stowed: what a shard's reclaimer knows, as a clean stop leaves it for the next process: what is
//! being emptied, which keys have left.
//!
//! Why: docs/decisions/0058. Tests: tests/sealed.rs.

use super::{Newest, Purpose, Reclaimer, Victim};
use crate::stow::{stow, stow_cases};

stow_cases!(Purpose { 0 => Compact, 1 => Expire, 2 => Evict, 3 => Pack });
stow_cases!(Newest { 0 => Stays, 1 => MayLeave });
stow!(Victim {
    segment,
    cursor,
    purpose,
    dead_ppm
});
stow!(Reclaimer {
    victim,
    ghosts,
    ghosts_wanted,
    newest,
    surveyed,
    evicted_at,
    is_tidying,
    nothing_dead_until,
    reclaim_at,
    pack_at,
    may_pack,
    waits_for_room,
    offered,
});

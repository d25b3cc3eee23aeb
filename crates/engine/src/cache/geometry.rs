//! Geometry: into how many shards and segments a memory is divided, and what of it holds items.
//!
//! Why: docs/decisions/0006, 0008, and 0011 for the capacity.

use super::cell::ShardCell;
use super::{INDEX_HEADROOM, ITEM_BYTES_MIN};
use crate::deadlines::timer_wheel::WHEEL_BYTES;
use crate::index::Index;
use crate::insight::Insight;
use crate::insight::hot::Hot;
use crate::insight::simulation::Capacity;
use crate::interface::config::Config;
use crate::log::TABLE_ENTRY_BYTES;
use crate::log::metadata::metadata_bytes;
use crate::log::segment::HISTOGRAM_BYTES;
use crate::memory::Region;
use crate::memory::table::OFFSETS;
use crate::state::header_bytes;

/// Least memory a shard is worth having for.
const SHARD_BYTES_MIN: usize = 4 << 20;
/// Shards for each thread, so that two threads seldom meet.
const SHARDS_PER_THREAD: usize = 4;
const SHARDS_MAX: usize = 1024;
/// Segments a shard's share of memory is cut into, unless they get too small or too large.
const SEGMENTS_PER_SHARD: usize = 256;
/// A shard pays for its timer wheel if that takes no more than such a part of its memory.
const WHEEL_SHARE: usize = 64;
/// Segments of a shard that are free or half full at any time, about.
const SEGMENTS_NOT_FULL: usize = 5;
/// Bytes of bookkeeping for a segment, with its unused end. Half of a histogram: in a cache all
/// segments have one, or none.
const SEGMENT_COST_BYTES: usize = TABLE_ENTRY_BYTES + HISTOGRAM_BYTES / 2 + 64;
const SEGMENT_SHIFT_MIN: u32 = 9;
const SEGMENT_SHIFT_MAX: u32 = 20;
/// Address range of a shard's log, as a multiple of its share of memory, so that extents find
/// neighbouring free segments.
const RANGE_PER_SHARE: usize = if cfg!(miri) { 2 } else { 8 };
/// Segments of a shard that hold no items when live ones are evicted: the reserve, the emptied part
/// of the victim, and the rest of the two open ones.
const IDLE_SEGMENTS: usize = 5;
/// Most read keys that all shards together list, and one at least and at most.
const HOT_KEYS: usize = 2048;
const HOT_KEYS_MIN: usize = 4;
const HOT_KEYS_MAX: usize = 32;

/// How a memory is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) shards: usize,
    /// Memory of one shard, in bytes.
    pub(super) share: usize,
    pub(super) segment_shift: u32,
    /// Addresses of one shard's log, in bytes.
    pub(super) reach: usize,
    /// Items that one shard's index has addresses for.
    pub(super) index_items: usize,
    /// Bytes that are taken before the first item comes.
    pub(super) fixed_bytes: usize,
}

impl Geometry {
    /// The geometry of a cache of `memory` bytes that is configured like `config` otherwise.
    pub(super) fn of(config: &Config, memory: usize) -> Geometry {
        let shards = shard_count(config, memory);
        let has_state = config.state.is_some();
        let header = if has_state { header_bytes() } else { 0 };
        let shape = config.shape_bytes.map(|bytes| bytes - config.kept_bytes());
        let other_bytes = Insight::bytes(memory).1 + header;
        Geometry::divided(memory, shape, shards, has_state, other_bytes)
    }

    /// The geometry of one shard with `memory` bytes of its own.
    pub(super) fn alone(config: &Config, memory: usize) -> Geometry {
        Geometry::divided(memory, None, 1, config.state.is_some(), 0)
    }

    /// The geometries of all shards: first those that share the memory, then those of no-eviction
    /// partitions.
    pub(super) fn all(config: &Config) -> Vec<Geometry> {
        let sharing = config.memory_bytes.saturating_sub(config.kept_bytes());
        let shared = Geometry::of(config, sharing);
        let own = config
            .keep
            .iter()
            .map(|&bytes| Geometry::alone(config, bytes));
        std::iter::repeat_n(shared, shared.shards)
            .chain(own)
            .collect()
    }

    /// The geometry of `memory` bytes in so many shards, divided as `shape` bytes would be.
    fn divided(
        memory: usize,
        shape: Option<usize>,
        shards: usize,
        has_state: bool,
        other_bytes: usize,
    ) -> Geometry {
        let share = memory / shards;
        let shape = shape.unwrap_or(memory);
        let shape_share = shape / shards;
        let segment_shift = segment_shift(shape_share);
        // Room for many extents beside each other, and for the largest value in any shard.
        let reach = (shape_share * RANGE_PER_SHARE).max(shape.min(2 * Config::VALUE_BYTES_LIMIT));
        let reach = reach.min(OFFSETS as usize);
        // A cache of some KiB does not pay for the wheel, as it does not pay for a thread's stack.
        let wheel_bytes = if share < WHEEL_SHARE * WHEEL_BYTES {
            0
        } else {
            WHEEL_BYTES
        };
        let metadata_bytes = if has_state {
            metadata_bytes(share, segment_shift)
        } else {
            0
        };
        let shard_bytes = size_of::<ShardCell>() + wheel_bytes + metadata_bytes;
        let fixed_bytes = shards * shard_bytes + other_bytes;
        Geometry {
            shards,
            share,
            segment_shift,
            reach,
            index_items: shape_share / ITEM_BYTES_MIN * INDEX_HEADROOM,
            fixed_bytes,
        }
    }

    /// Addresses that a cache configured like this reserves, in bytes.
    pub(super) fn address_bytes(config: &Config) -> usize {
        let all = Geometry::all(config).into_iter();
        let bytes = all.map(|geometry| {
            let index = Index::address_bytes(geometry.index_items);
            Region::address_bytes(geometry.reach) + index
        });
        bytes.sum()
    }

    /// The capacity that a full cache has for items, their index slots and ghosts.
    pub(super) fn capacity(&self) -> Capacity {
        let idle = self.shards * (IDLE_SEGMENTS << self.segment_shift);
        let memory = self.shards * self.share;
        Capacity {
            bytes: memory.saturating_sub(self.fixed_bytes + idle),
            segment_bytes: 1 << self.segment_shift,
        }
    }

    /// How many of its most read keys a shard lists.
    pub(super) fn hot_keys(&self) -> usize {
        (HOT_KEYS / self.shards).clamp(HOT_KEYS_MIN, HOT_KEYS_MAX)
    }
}

const _: () = assert!(
    Hot::bytes_for(HOT_KEYS_MAX) * (HOT_KEYS / HOT_KEYS_MAX) <= 1 << 20,
    "the lists of the most read keys take at most 1 MiB in up to 64 shards"
);

/// log2 of the bytes in a segment for a shard of `share` bytes: [`SEGMENTS_PER_SHARD`] segments,
/// or fewer where their bookkeeping would cost more than the segments that are not full.
fn segment_shift(share: usize) -> u32 {
    let waste = |shift: &u32| {
        let segment = 1 << shift;
        SEGMENTS_NOT_FULL * segment + share / segment * SEGMENT_COST_BYTES
    };
    let cheapest = (SEGMENT_SHIFT_MIN..=SEGMENT_SHIFT_MAX).min_by_key(waste);
    let wanted = (share / SEGMENTS_PER_SHARD).max(1).next_power_of_two();
    let wanted = wanted.ilog2().max(cheapest.unwrap_or(SEGMENT_SHIFT_MIN));
    wanted.clamp(SEGMENT_SHIFT_MIN, SEGMENT_SHIFT_MAX)
}

/// The configured number of shards, or as many as the threads want and the memory allows.
fn shard_count(config: &Config, memory: usize) -> usize {
    let wanted = (config.threads.max(1) * SHARDS_PER_THREAD).next_power_of_two();
    let afforded = (memory / SHARD_BYTES_MIN).max(1);
    let chosen = wanted.min(1 << afforded.ilog2());
    // A shard's slots reach a bounded range, so much memory needs more shards.
    let needed = (memory / (OFFSETS as usize / RANGE_PER_SHARE)).next_power_of_two();
    config
        .shards
        .unwrap_or(chosen.max(needed))
        .next_power_of_two()
        .clamp(1, SHARDS_MAX)
}

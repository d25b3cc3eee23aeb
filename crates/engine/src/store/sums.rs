//! Sums: checksums of a store's segments, where its memory outlives the process.
//!
//! Each block of memory has one, so that a wrong bit costs the items of one block. They cover
//! headers, keys and values alike. A write clears the checksums of its blocks
//! ([`Metadata::clear_sums`](crate::log::metadata::Metadata::clear_sums)); background maintenance
//! and a clean stop compute missing ones.
//!
//! Why: docs/decisions/0081. Tests: tests/restart.rs.

use std::ops::Range;

use crate::log::Log;
use crate::log::metadata::BLOCK_SHIFT;
use crate::log::segment::Use;

/// Bytes of memory that one checksum covers.
const BLOCK_BYTES: usize = 1 << BLOCK_SHIFT;

/// Where checksums are made next.
#[derive(Debug, Default)]
pub(super) struct Sums {
    segment: usize,
    block: usize,
}

/// The work that one call may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SumBudget {
    /// Segments and blocks that are looked at.
    pub(crate) looks: usize,
    /// Checksums that are made, each of which takes the reading of a block.
    pub(crate) sums: usize,
}

/// Which blocks of a segment do not agree with their checksums.
#[derive(Debug, Default)]
pub(super) struct Damage {
    first: usize,
    wrong: Vec<bool>,
}

impl SumBudget {
    /// As much as there is to do.
    pub(crate) const ALL: SumBudget = SumBudget {
        looks: usize::MAX,
        sums: usize::MAX,
    };
}

impl Damage {
    /// Whether any byte between two offsets of the segment may be another than it was.
    pub(super) fn touches(&self, from: usize, end: usize) -> bool {
        let blocks = blocks(from, end);
        let wrong = self.wrong.get(blocks.start - self.first..);
        wrong.is_some_and(|wrong| wrong.iter().take(blocks.len()).any(|&wrong| wrong))
    }
}

impl Sums {
    /// Computes missing checksums of a log, from where the last call ended; returns whether it
    /// reached the last segment. Segments that are written or read without the lock get theirs
    /// later.
    pub(super) fn make(&mut self, log: &Log, budget: &mut SumBudget) -> bool {
        // Segments of less than a block, which only caches of some KiB have, share blocks.
        while log.segment_bytes() >= BLOCK_BYTES && self.segment < log.table_len() {
            let number = self.segment as u32;
            let segment = log.segment(number);
            let is_used = matches!(segment.used, Use::Open | Use::Sealed);
            if is_used && !log.is_pinned(number) {
                let start = log.start_of(number);
                let end = start + segment.written_bytes();
                for block in blocks(start, end).skip(self.block) {
                    if budget.looks == 0 || budget.sums == 0 {
                        return false;
                    }
                    budget.looks -= 1;
                    self.block += 1;
                    if log.metadata().sum(block) == 0 {
                        budget.sums -= 1;
                        log.metadata().set_sum(block, sum_of(log, block));
                    }
                }
            }
            budget.looks = budget.looks.saturating_sub(1);
            *self = Sums {
                segment: self.segment + 1,
                block: 0,
            };
        }
        *self = Sums::default();
        true
    }
}

/// Whether all blocks of a log that have a checksum agree with it. Cost: a look at every byte.
pub(super) fn agree(log: &Log) -> bool {
    log.in_use().all(|number| {
        let damage = damage(log, number, log.segment(number).written_bytes());
        !damage.wrong.contains(&true)
    })
}

/// Checks the first `bytes` of a segment against its checksums, and clears those that do not match.
pub(super) fn damage(log: &Log, number: u32, bytes: usize) -> Damage {
    let start = log.start_of(number);
    let blocks = blocks(start, start + bytes);
    let first = blocks.start;
    let metadata = log.metadata();
    let is_wrong = |block| {
        let sum = metadata.sum(block);
        let is_wrong = sum != 0 && sum != sum_of(log, block);
        if is_wrong {
            metadata.set_sum(block, 0);
        }
        is_wrong
    };
    Damage {
        first,
        wrong: blocks.map(is_wrong).collect(),
    }
}

/// The checksum of a block as it is now.
fn sum_of(log: &Log, block: usize) -> u32 {
    let bytes = log.bytes(block << BLOCK_SHIFT, BLOCK_BYTES);
    // Zero says that there is none.
    (rapidhash::v3::rapidhash_v3(bytes) as u32).max(1)
}

/// The blocks that bytes between two offsets lie in.
fn blocks(from: usize, end: usize) -> Range<usize> {
    from >> BLOCK_SHIFT..end.div_ceil(BLOCK_BYTES)
}

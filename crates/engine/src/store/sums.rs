//! Sums: checksums of what lies in a store's segments, as a clean stop leaves them.
//!
//! One stands for each block of a segment, so that a wrong bit costs the items of one block. They
//! cover headers, keys and values alike. Nothing keeps them while a cache is used, so a process
//! that is killed leaves none.
//!
//! Why: docs/decisions/0077. Tests: tests/restart.rs.

use super::Store;
use crate::stow::stow;

/// Bytes of a segment that one checksum stands for; the last block ends with what was written.
const BLOCK_BYTES: usize = 4 << 10;

/// The checksums of one segment.
#[derive(Debug)]
pub(crate) struct SegmentSums {
    segment: u32,
    written_bytes: usize,
    sums: Vec<u32>,
}

stow!(SegmentSums {
    segment,
    written_bytes,
    sums
});

/// Which blocks of a segment do not agree with their checksums.
#[derive(Debug)]
pub(super) struct Damage {
    start: usize,
    wrong: Vec<bool>,
}

impl Damage {
    /// Whether any byte between two offsets of the segment may be another than it was.
    pub(super) fn touches(&self, from: usize, end: usize) -> bool {
        let first = (from - self.start) / BLOCK_BYTES;
        let behind = (end - self.start).div_ceil(BLOCK_BYTES);
        let blocks = self.wrong.get(first..behind);
        blocks.is_none_or(|blocks| blocks.contains(&true))
    }
}

impl Store {
    /// Checksums of all segments that may hold items, by their numbers. Cost: a look at every byte.
    pub(crate) fn sums(&self) -> Vec<SegmentSums> {
        let sums = self.segments().map(|(number, segment)| {
            let written_bytes = segment.written_bytes();
            SegmentSums {
                segment: number,
                written_bytes,
                sums: self.block_sums(number, written_bytes).collect(),
            }
        });
        let mut sums: Vec<SegmentSums> = sums.collect();
        sums.sort_unstable_by_key(|sums| sums.segment);
        sums
    }

    /// Whether all segments hold what they held when these were made.
    pub(crate) fn agrees_with(&self, sums: &[SegmentSums]) -> bool {
        self.segments().all(|(number, segment)| {
            let damage = self.damage(number, segment.room_bytes(), sums);
            !damage.wrong.contains(&true)
        })
    }

    /// What of a segment of so many bytes does not agree with the checksums of its store.
    pub(super) fn damage(&self, number: u32, room_bytes: usize, sums: &[SegmentSums]) -> Damage {
        let start = self.log.start_of(number);
        let found = sums.binary_search_by_key(&number, |sums| sums.segment);
        let sums = found.ok().map(|at| &sums[at]);
        let wrong = match sums.filter(|sums| sums.written_bytes <= room_bytes) {
            Some(one) => {
                let found = self.block_sums(number, one.written_bytes);
                found.zip(&one.sums).map(|(a, b)| a != *b).collect()
            }
            None => Vec::new(),
        };
        Damage { start, wrong }
    }

    fn block_sums(&self, segment: u32, written_bytes: usize) -> impl Iterator<Item = u32> + '_ {
        let start = self.log.start_of(segment);
        let written = self.log.bytes(start, written_bytes);
        let blocks = written.chunks(BLOCK_BYTES);
        blocks.map(|block| rapidhash::v3::rapidhash_v3(block) as u32)
    }
}

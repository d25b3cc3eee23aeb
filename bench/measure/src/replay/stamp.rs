//! Stamps: values that show which request stored them, so that a wrong hit is found.
//!
//! A value begins with a tag of its key and of the row that stored it, as far as it is long enough;
//! the rest is filler. Kept for each key: the row and the length of what was stored last.

use super::trace::{Row, Trace};
use cellar_load::mix;

const TAG_BYTES: usize = 8;
/// Instead of a row: nothing is stored.
const NOTHING: u32 = u32::MAX;
/// Instead of a row: it is not known what is stored.
const UNKNOWN: u32 = u32::MAX - 1;

/// What is stored under each key of a trace.
pub(super) struct Stamps {
    filler: Vec<u8>,
    last: Vec<Last>,
}

#[derive(Clone, Copy)]
struct Last {
    row: u32,
    value_bytes: u32,
}

impl Stamps {
    /// Nothing is stored; longer values than `value_bytes_max` are cut, for they will be refused.
    pub(super) fn new(trace: &Trace, value_bytes_max: usize) -> Stamps {
        let bytes = trace.value_bytes_max().min(value_bytes_max);
        let nothing = Last {
            row: NOTHING,
            value_bytes: 0,
        };
        Stamps {
            filler: (0..bytes.max(TAG_BYTES)).map(|n| (n % 251) as u8).collect(),
            last: vec![nothing; trace.keys.len()],
        }
    }

    /// The value that the row with this number stores, which is noted.
    #[inline]
    pub(super) fn stamp(&mut self, number: u32, row: Row) -> &[u8] {
        self.last[row.key as usize] = Last {
            row: number,
            value_bytes: row.value_bytes,
        };
        let bytes = (row.value_bytes as usize).min(self.filler.len());
        let value = &mut self.filler[..bytes];
        let tag = tag(row.key, number);
        let tag_bytes = bytes.min(TAG_BYTES);
        value[..tag_bytes].copy_from_slice(&tag[..tag_bytes]);
        value
    }

    /// Notes that nothing is stored under the key.
    pub(super) fn clear(&mut self, key: u32) {
        self.last[key as usize].row = NOTHING;
    }

    /// Notes that anything may be stored under the key.
    pub(super) fn distrust(&mut self, key: u32) {
        self.last[key as usize].row = UNKNOWN;
    }

    /// Whether something is stored under the key, as far as one can know.
    pub(super) fn is_stored(&self, key: u32) -> bool {
        self.last[key as usize].row != NOTHING
    }

    /// Whether a value has the length and the beginning of what was stored last.
    #[inline]
    pub(super) fn is_last(&self, key: u32, value: &[u8]) -> bool {
        let last = self.last[key as usize];
        match last.row {
            NOTHING => false,
            UNKNOWN => true,
            row => {
                let tag_bytes = value.len().min(TAG_BYTES);
                value.len() == last.value_bytes as usize
                    && value[..tag_bytes] == tag(key, row)[..tag_bytes]
            }
        }
    }
}

/// What a value begins with.
fn tag(key: u32, row: u32) -> [u8; TAG_BYTES] {
    mix(u64::from(key) << 32 | u64::from(row)).to_le_bytes()
}

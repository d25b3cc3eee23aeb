//! Stamps: values that show which request stored them, so that a wrong hit is found.
//!
//! A value begins with a tag of its key and of the row that stored it, as far as it is long enough;
//! the rest is filler, or a piece of a text that the key chooses. Kept for each key: the row and
//! the length of what was stored last.

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
    /// Places in the filler at which a value may begin.
    starts: u64,
    value: Vec<u8>,
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
        let bytes = trace.value_bytes_max().min(value_bytes_max).max(TAG_BYTES);
        let filler = (0..bytes).map(|n| (n % 251) as u8).collect();
        Stamps::filled(trace, filler, 1)
    }

    /// The same with values that are pieces of a text.
    pub(super) fn of_text(trace: &Trace, text: &[u8]) -> Stamps {
        let mut filler = text.to_vec();
        let bytes = trace.value_bytes_max().max(TAG_BYTES);
        filler.extend(text.iter().cycle().take(bytes));
        Stamps::filled(trace, filler, text.len() as u64)
    }

    fn filled(trace: &Trace, filler: Vec<u8>, starts: u64) -> Stamps {
        let nothing = Last {
            row: NOTHING,
            value_bytes: 0,
        };
        Stamps {
            filler,
            starts,
            value: Vec::new(),
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
        let start = (mix(u64::from(row.key)) % self.starts) as usize;
        let filler = &self.filler[start..];
        let bytes = (row.value_bytes as usize).min(filler.len());
        self.value.clear();
        self.value.extend_from_slice(&filler[..bytes]);
        let tag = tag(row.key, number);
        let tag_bytes = bytes.min(TAG_BYTES);
        self.value[..tag_bytes].copy_from_slice(&tag[..tag_bytes]);
        &self.value
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

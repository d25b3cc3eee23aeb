//! Writer: dumps in forms that every Redis since 4.0 reads; hashes with deadlines of fields in the
//! one that Redis 7.4 has for them.

use super::bytes::push_length;
use super::{Checksum, FOOTER_BYTES, Holds, checksum};

/// The version of the format that has scores of 8 bytes, and the one with deadlines of fields.
pub const VERSION: u16 = 8;
const VERSION_WITH_DEADLINES: u16 = 12;
/// Most bytes before the first entry: form, deadline, number of entries.
const HEAD_BYTES_MAX: usize = 1 + 8 + 9;
const STRING_FORM: u8 = 0;
const DEADLINES_FORM: u8 = 24;

/// A dump that is being made.
pub struct DumpWriter {
    bytes: Vec<u8>,
    checksum: Checksum,
    /// Bytes that are in the checksum.
    summed: usize,
    holds: Holds,
    /// The first deadline of a field, if one has a deadline.
    first_ms: Option<u64>,
}

/// The bytes before a string of this length.
#[must_use]
pub fn head_of_string(length: usize) -> Vec<u8> {
    let mut head = vec![STRING_FORM];
    push_length(&mut head, length as u64);
    head
}

/// The footer behind a value with this checksum.
#[must_use]
pub fn footer(mut sum: Checksum, version: u16) -> [u8; FOOTER_BYTES] {
    sum.update(&version.to_le_bytes());
    let mut footer = [0; FOOTER_BYTES];
    footer[..2].copy_from_slice(&version.to_le_bytes());
    footer[2..].copy_from_slice(&sum.finalize().to_le_bytes());
    footer
}

impl DumpWriter {
    /// A collection of so many entries; `first_ms` is the earliest deadline of a field.
    #[must_use]
    pub fn of(holds: Holds, count: usize, first_ms: Option<u64>) -> DumpWriter {
        let mut out = Vec::new();
        out.push(match (holds, first_ms) {
            (Holds::List, _) => 1,
            (Holds::Set, _) => 2,
            (Holds::SortedSet, _) => 5,
            (Holds::Hash, None) => 4,
            (Holds::Hash, Some(_)) => DEADLINES_FORM,
        });
        if let Some(ms) = first_ms {
            out.extend_from_slice(&ms.to_le_bytes());
        }
        push_length(&mut out, count as u64);
        DumpWriter {
            bytes: out,
            checksum: checksum(),
            summed: 0,
            holds,
            first_ms,
        }
    }

    /// Adds an entry.
    pub fn push(&mut self, name: &[u8], value: &[u8], score: f64, expires_ms: u64) {
        let out = &mut self.bytes;
        if let Some(first_ms) = self.first_ms {
            let after = (expires_ms > 0).then(|| expires_ms.saturating_sub(first_ms) + 1);
            push_length(out, after.unwrap_or(0));
        }
        push_length(out, name.len() as u64);
        out.extend_from_slice(name);
        match self.holds {
            Holds::List | Holds::Set => {}
            Holds::SortedSet => out.extend_from_slice(&score.to_le_bytes()),
            Holds::Hash => {
                push_length(out, value.len() as u64);
                out.extend_from_slice(value);
            }
        }
    }

    /// Adds the bytes since the last call to the checksum.
    pub fn sum(&mut self) {
        self.checksum.update(&self.bytes[self.summed..]);
        self.summed = self.bytes.len();
    }

    /// The dump.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.sum();
        let version = if self.first_ms.is_some() {
            VERSION_WITH_DEADLINES
        } else {
            VERSION
        };
        self.bytes
            .extend_from_slice(&footer(self.checksum, version));
        self.bytes
    }

    /// Reserves memory for entries of so many bytes in all.
    pub fn reserve(&mut self, bytes: usize) {
        let all = bytes + FOOTER_BYTES + HEAD_BYTES_MAX;
        self.bytes.reserve(all.saturating_sub(self.bytes.len()));
    }

    /// Bytes that it has.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DumpEntry, DumpReader, OpenedDump, open};
    use super::*;

    fn read(mut reader: DumpReader) -> Vec<DumpEntry> {
        let (mut entries, mut entry) = (Vec::new(), DumpEntry::default());
        while reader.next(&mut entry).unwrap() {
            entries.push(entry.clone());
        }
        entries
    }

    #[test]
    fn what_is_written_is_read() {
        for (holds, first_ms) in [
            (Holds::List, None),
            (Holds::Set, None),
            (Holds::SortedSet, None),
            (Holds::Hash, None),
            (Holds::Hash, Some(1_000)),
        ] {
            let mut writer = DumpWriter::of(holds, 300, first_ms);
            for number in 0..300_u64 {
                let name = "n".repeat(number as usize);
                let expires_ms = if first_ms.is_some() && number % 2 == 0 {
                    1_000 + number
                } else {
                    0
                };
                writer.push(name.as_bytes(), b"value", number as f64, expires_ms);
                writer.sum();
            }
            let mut dump = writer.finish();
            let Ok(OpenedDump::Entries(reader)) = open(&mut dump, 1 << 20) else {
                panic!("{holds:?}")
            };
            assert_eq!(reader.holds, holds);
            let entries = read(reader);
            assert_eq!(entries.len(), 300);
            assert_eq!(entries[299].name.len(), 299);
            if first_ms.is_some() {
                assert_eq!((entries[2].expires_ms, entries[3].expires_ms), (1_002, 0));
            }
        }
    }
}

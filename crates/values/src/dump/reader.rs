//! Reader: the entries of a dump, in any of its forms.

use super::bytes::{DumpCursor, DumpText, number_of};
use super::packed::{Pack, PackLayout};
use super::{BadDump, DumpEntry, FOOTER_BYTES, Holds};

/// Milliseconds that a field's deadline can be, as in Valkey.
const EXPIRES_MS_MAX: u64 = i64::MAX as u64;

/// An opened dump, by the type of its value.
#[derive(Debug)]
pub enum OpenedDump {
    /// A string: where its bytes are, and how long it is if they are compressed.
    Text(std::ops::Range<usize>, Option<usize>),
    /// A string that is an integer.
    Integer(i64),
    /// A collection.
    Entries(DumpReader),
}

/// How the entries of a collection are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DumpForm {
    /// One string each; a hash has two.
    Strings,
    /// Members with scores in digits, and in 8 bytes.
    WrittenScores,
    Scores,
    /// Fields with a deadline each, relative to the time at the start.
    Deadlines(u64),
    /// One string that has all.
    Pack(PackLayout),
    /// Strings with some entries each; before each is its layout, if there is more than one.
    Packs(PackLayout, bool),
}

/// A collection of which entries are read one by one.
#[derive(Debug)]
pub struct DumpReader {
    /// The type of its value.
    pub holds: Holds,
    form: DumpForm,
    /// Fields of packed hashes have deadlines.
    has_deadlines: bool,
    bytes: Vec<u8>,
    at: usize,
    /// Entries, or strings with entries, that were not begun.
    left: u64,
    pack: Option<Pack>,
    /// The longest entry that is read.
    bytes_max: usize,
}

fn form_of(kind: u8) -> Result<(Holds, DumpForm), BadDump> {
    use DumpForm::{Pack, Packs, Scores, Strings, WrittenScores};
    Ok(match kind {
        1 => (Holds::List, Strings),
        2 => (Holds::Set, Strings),
        3 => (Holds::SortedSet, WrittenScores),
        4 => (Holds::Hash, Strings),
        5 => (Holds::SortedSet, Scores),
        9 => (Holds::Hash, Pack(PackLayout::Zipmap)),
        10 => (Holds::List, Pack(PackLayout::Ziplist)),
        11 => (Holds::Set, Pack(PackLayout::Intset)),
        12 => (Holds::SortedSet, Pack(PackLayout::Ziplist)),
        13 => (Holds::Hash, Pack(PackLayout::Ziplist)),
        14 => (Holds::List, Packs(PackLayout::Ziplist, false)),
        16 | 25 => (Holds::Hash, Pack(PackLayout::Listpack)),
        17 => (Holds::SortedSet, Pack(PackLayout::Listpack)),
        18 => (Holds::List, Packs(PackLayout::Listpack, true)),
        20 => (Holds::Set, Pack(PackLayout::Listpack)),
        24 => (Holds::Hash, DumpForm::Deadlines(0)),
        _ => return Err(BadDump),
    })
}

/// Opens a dump whose checksum is right; no entry is longer than `bytes_max`. The bytes of a
/// collection are taken, those of a string stay.
///
/// # Errors
/// If its form is not supported.
pub fn open(bytes: &mut Vec<u8>, bytes_max: usize) -> Result<OpenedDump, BadDump> {
    let end = bytes.len().checked_sub(FOOTER_BYTES).ok_or(BadDump)?;
    bytes.truncate(end);
    let mut cursor = DumpCursor { bytes, at: 0 };
    let kind = cursor.byte()?;
    if kind == 0 {
        let text = cursor.text()?;
        if cursor.at != end {
            return Err(BadDump);
        }
        return Ok(match text {
            DumpText::Plain(text) => OpenedDump::Text(end - text.len()..end, None),
            DumpText::Packed(packed, length) => {
                OpenedDump::Text(end - packed.len()..end, Some(length))
            }
            DumpText::Integer(number) => OpenedDump::Integer(number),
        });
    }
    let (holds, mut form) = form_of(kind)?;
    let has_deadlines = kind == 25;
    if has_deadlines || kind == 24 {
        let first_ms = cursor.low_first(8)?;
        if kind == 24 {
            form = DumpForm::Deadlines(first_ms);
        }
    }
    let left = match form {
        DumpForm::Pack(_) => 1,
        _ => cursor.length()?,
    };
    let at = cursor.at;
    Ok(OpenedDump::Entries(DumpReader {
        holds,
        form,
        has_deadlines,
        bytes: std::mem::take(bytes),
        at,
        left,
        pack: None,
        bytes_max,
    }))
}

impl DumpReader {
    /// Reads the next entry; whether there was one.
    ///
    /// # Errors
    /// If the dump contradicts itself.
    pub fn next(&mut self, entry: &mut DumpEntry) -> Result<bool, BadDump> {
        entry.expires_ms = 0;
        if matches!(self.form, DumpForm::Pack(_) | DumpForm::Packs(..)) {
            return self.next_packed(entry);
        }
        let Some(left) = self.left.checked_sub(1) else {
            return self.is_read();
        };
        self.left = left;
        let bytes_max = self.bytes_max;
        let mut cursor = DumpCursor {
            bytes: &self.bytes,
            at: self.at,
        };
        if let DumpForm::Deadlines(first_ms) = self.form {
            let ms = match cursor.length()? {
                0 => 0,
                after => first_ms.checked_add(after - 1).ok_or(BadDump)?,
            };
            entry.expires_ms = expiring(ms)?;
        }
        entry.name = cursor.string(bytes_max)?;
        match self.form {
            DumpForm::Scores => entry.score = cursor.double()?,
            DumpForm::WrittenScores => entry.score = cursor.written_double()?,
            _ if self.holds == Holds::Hash => entry.value = cursor.string(bytes_max)?,
            _ => {}
        }
        self.at = cursor.at;
        Ok(true)
    }

    /// At the end nothing may follow.
    fn is_read(&self) -> Result<bool, BadDump> {
        if self.at == self.bytes.len() {
            Ok(false)
        } else {
            Err(BadDump)
        }
    }

    fn next_packed(&mut self, entry: &mut DumpEntry) -> Result<bool, BadDump> {
        loop {
            if let Some(pack) = &mut self.pack {
                if pack.next(&mut entry.name)? {
                    break;
                }
                self.pack = None;
            }
            let Some(left) = self.left.checked_sub(1) else {
                return self.is_read();
            };
            self.left = left;
            self.pack = Some(self.next_pack()?);
        }
        let Some(pack) = &mut self.pack else {
            return Err(BadDump);
        };
        if matches!(self.holds, Holds::Hash | Holds::SortedSet) && !pack.next(&mut entry.value)? {
            return Err(BadDump);
        }
        if self.holds == Holds::SortedSet {
            entry.score = number_of(&entry.value)?;
        }
        if self.has_deadlines {
            let mut text = Vec::new();
            let is_there = pack.next(&mut text)?;
            let ms = std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse().ok());
            entry.expires_ms = expiring(ms.filter(|_| is_there).ok_or(BadDump)?)?;
        }
        Ok(true)
    }

    /// The next string with entries.
    fn next_pack(&mut self) -> Result<Pack, BadDump> {
        let mut cursor = DumpCursor {
            bytes: &self.bytes,
            at: self.at,
        };
        let layout = match self.form {
            DumpForm::Pack(layout) | DumpForm::Packs(layout, false) => layout,
            DumpForm::Packs(layout, true) => match cursor.length()? {
                1 => PackLayout::Whole,
                2 => layout,
                _ => return Err(BadDump),
            },
            _ => return Err(BadDump),
        };
        // The overhead of its layout is less than the bytes of its entries, or small.
        let bytes_max = self.bytes_max.saturating_mul(2).saturating_add(64);
        let bytes = cursor.string(bytes_max)?;
        let at = cursor.at;
        self.at = at;
        Pack::of(layout, bytes)
    }
}

/// A deadline that may be one.
fn expiring(ms: u64) -> Result<u64, BadDump> {
    if ms <= EXPIRES_MS_MAX {
        Ok(ms)
    } else {
        Err(BadDump)
    }
}

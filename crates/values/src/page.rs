//! Page: the bytes of a node, a sorted row of entries.
//!
//! ```text
//! [width 1][entries 4][begin of each entry, width bytes]... [entry]...
//! entry  [key bytes 1-5][payload bytes 1-5][key][payload]
//! ```
//!
//! Begins count from the first entry and are 2 bytes wide, or 4 in a page with more than 64 KiB of
//! entries. Lengths are little-endian base-128 numbers. Keys are different and ascend as bytes.
//!
//! Tests: at the end of this file.

use std::ops::Range;

const HEAD_BYTES: usize = 5;
/// Bytes of entries from which on their begins are wide.
const WIDE_FROM: usize = 1 << 16;

/// An entry: its key, and what is kept under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What the entries are sorted by.
    pub key: &'a [u8],
    /// The bytes under the key.
    pub payload: &'a [u8],
}

impl Entry<'_> {
    /// Bytes that it takes in a page.
    fn bytes(&self) -> usize {
        let (key, payload) = (self.key.len(), self.payload.len());
        number_bytes(key) + number_bytes(payload) + key + payload
    }
}

/// A page that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    begins: &'a [u8],
    entries: &'a [u8],
    width: usize,
}

impl<'a> Page<'a> {
    /// The page in bytes that [`Page::with`] made.
    ///
    /// # Panics
    /// If they are shorter than their head says.
    pub(crate) fn of(bytes: &'a [u8]) -> Page<'a> {
        let width = usize::from(bytes[0]);
        let len = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize;
        let (begins, entries) = bytes[HEAD_BYTES..].split_at(len * width);
        Page {
            begins,
            entries,
            width,
        }
    }

    /// A page without entries.
    pub(crate) fn empty() -> Page<'static> {
        Page {
            begins: &[],
            entries: &[],
            width: 2,
        }
    }

    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        self.begins.len() / self.width
    }

    /// Bytes of the page.
    pub(crate) fn bytes(&self) -> usize {
        HEAD_BYTES + self.begins.len() + self.entries.len()
    }

    /// Where an entry begins; the one behind the last begins at the end.
    fn begin(&self, at: usize) -> usize {
        match self.begins.get(at * self.width..(at + 1) * self.width) {
            Some([low, high]) => usize::from(u16::from_le_bytes([*low, *high])),
            Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => self.entries.len(),
        }
    }

    /// An entry.
    pub(crate) fn entry(&self, at: usize) -> Entry<'a> {
        let bytes = &self.entries[self.begin(at)..];
        let (key_bytes, bytes) = read_number(bytes);
        let (payload_bytes, bytes) = read_number(bytes);
        let (key, bytes) = bytes.split_at(key_bytes);
        Entry {
            key,
            payload: &bytes[..payload_bytes],
        }
    }

    /// Where the payload of an entry begins in the page's bytes.
    pub(crate) fn payload_at(&self, at: usize) -> usize {
        let entry = self.entry(at);
        let begin = entry.payload.as_ptr() as usize - self.entries.as_ptr() as usize;
        HEAD_BYTES + self.begins.len() + begin
    }

    /// Where the entry with a key is, or would be.
    pub(crate) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.entry(middle).key.cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The bytes of a page that has other entries where this one has those in `replaced`.
    pub(crate) fn with(&self, replaced: Range<usize>, entries: &[Entry<'_>]) -> Vec<u8> {
        let (before, after) = (self.begin(replaced.start), self.begin(replaced.end));
        let lengths = entries.iter().map(Entry::bytes);
        let added: usize = lengths.clone().sum();
        let len = self.len() - replaced.len() + entries.len();
        let mut page = begin_page(len, self.entries.len() - (after - before) + added);
        (0..replaced.start).for_each(|at| page.begin(self.begin(at)));
        let mut begin = before;
        for bytes in lengths {
            page.begin(begin);
            begin += bytes;
        }
        (replaced.end..self.len()).for_each(|at| page.begin(self.begin(at) - after + begin));
        let mut page = page.bytes;
        page.extend_from_slice(&self.entries[..before]);
        for entry in entries {
            write_number(entry.key.len(), &mut page);
            write_number(entry.payload.len(), &mut page);
            page.extend_from_slice(entry.key);
            page.extend_from_slice(entry.payload);
        }
        page.extend_from_slice(&self.entries[after..]);
        page
    }

    /// The bytes of a page of some of the entries.
    pub(crate) fn part(&self, range: Range<usize>) -> Vec<u8> {
        let (start, end) = (self.begin(range.start), self.begin(range.end));
        let mut page = begin_page(range.len(), end - start);
        range.for_each(|at| page.begin(self.begin(at) - start));
        page.bytes.extend_from_slice(&self.entries[start..end]);
        page.bytes
    }

    /// The bytes of a page of the entries of this one and of those of another, which are behind.
    pub(crate) fn joined(&self, other: &Page<'_>) -> Vec<u8> {
        let (len, bytes) = (self.len() + other.len(), self.entries.len());
        let mut page = begin_page(len, bytes + other.entries.len());
        (0..self.len()).for_each(|at| page.begin(self.begin(at)));
        (0..other.len()).for_each(|at| page.begin(bytes + other.begin(at)));
        page.bytes.extend_from_slice(self.entries);
        page.bytes.extend_from_slice(other.entries);
        page.bytes
    }

    /// Where a page is cut in two: about in the middle of its bytes, or behind all that was there
    /// before the entry at `added` if that is the last one.
    ///
    /// # Panics
    /// If it has fewer than two entries.
    pub(crate) fn cut(&self, added: Option<usize>) -> usize {
        assert!(self.len() > 1, "one entry is not cut");
        if added == Some(self.len() - 1) {
            return self.len() - 1;
        }
        let half = self.entries.len() / 2;
        let middle = (1..self.len() - 1).find(|&at| self.begin(at + 1) > half);
        middle.unwrap_or(self.len() - 1)
    }
}

/// A page of which the begins are written.
struct Begun {
    bytes: Vec<u8>,
    width: usize,
}

impl Begun {
    /// Notes where the next entry begins.
    fn begin(&mut self, at: usize) {
        let at = (at as u32).to_le_bytes();
        self.bytes.extend_from_slice(&at[..self.width]);
    }
}

/// Begins a page of so many entries, which take so many bytes.
fn begin_page(len: usize, entries_bytes: usize) -> Begun {
    let width = if entries_bytes < WIDE_FROM { 2 } else { 4 };
    let mut bytes = Vec::with_capacity(HEAD_BYTES + len * width + entries_bytes);
    bytes.push(width as u8);
    bytes.extend_from_slice(&(len as u32).to_le_bytes());
    Begun { bytes, width }
}

/// A number, and the bytes behind it.
fn read_number(bytes: &[u8]) -> (usize, &[u8]) {
    let (mut number, mut shift, mut at) = (0, 0, 0);
    loop {
        let byte = bytes[at];
        number |= usize::from(byte & 0x7f) << shift;
        (shift, at) = (shift + 7, at + 1);
        if byte < 0x80 {
            return (number, &bytes[at..]);
        }
    }
}

/// Bytes that [`write_number`] writes.
fn number_bytes(number: usize) -> usize {
    let bits = usize::BITS - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

fn write_number(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(key: &'a [u8], payload: &'a [u8]) -> Entry<'a> {
        Entry { key, payload }
    }

    #[test]
    fn entries_are_found_replaced_cut_and_joined() {
        let long = vec![7; 70_000];
        for payload in [&b"x"[..], &long] {
            let first = Page::empty().with(0..0, &[entry(b"b", payload), entry(b"d", b"")]);
            let bytes = Page::of(&first).with(1..1, &[entry(b"c", b"3")]);
            let page = Page::of(&bytes);
            assert_eq!((page.len(), page.bytes()), (3, bytes.len()));
            assert_eq!(page.find(b"c"), Ok(1));
            assert_eq!((page.find(b"a"), page.find(b"e")), (Err(0), Err(3)));
            assert_eq!(page.entry(0), entry(b"b", payload));
            let at = page.payload_at(1);
            assert_eq!(&bytes[at..=at], b"3");
            let (left, right) = (page.part(0..1), page.part(1..3));
            assert_eq!(Page::of(&right).entry(0), entry(b"c", b"3"));
            assert_eq!(Page::of(&left).joined(&Page::of(&right)), bytes);
            assert_eq!(page.with(1..2, &[]), first);
        }
    }
}

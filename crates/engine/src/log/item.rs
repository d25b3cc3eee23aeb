//! Item: the binary layout of an item.
//!
//! ```text
//! plain     [key bytes 1][value bytes 1-5][deadline 0|3|4|5][key][value]
//! extended  [255][fields 1][key bytes 1|2][value bytes 1-5][deadline][fields...][key][value]
//! packed    [254]... an extended item whose value is compressed, see `compress.rs`
//! hole      [252][hole bytes 1-5]...          hole of one byte  [251]
//! draft     [253][draft bytes 1-5]...         a value still being received
//! ```
//!
//! Lengths are little-endian base-128 numbers. A deadline is milliseconds from the base of the
//! item's segment, which says how wide it is; all ones means never. Rare fields (flags, version,
//! lease, access, own deadline, space) take bytes only in items that have them. Removed items
//! become holes. Invariant: a segment is a gapless row of items and holes up to its written bytes.
//! Tests: at the end of this file.

mod layout;
mod plausible; // whether untrusted bytes are an item

pub(crate) use self::layout::{Layout, Patch};
pub(crate) use self::plausible::{is_plausible, plausible_bytes};

use crate::base::clock::{Deadline, Instant};
use crate::base::space::{Kind, Space};
use crate::deadlines::deadline_encoding::{DeadlineEncoding, never};
use crate::key::Key;
use crate::memory::arena::Arena;

/// Longest key of a plain item.
const PLAIN_KEY_BYTES_MAX: usize = 250;
const HOLE_OF_ONE: u8 = 251;
const HOLE: u8 = 252;
const DRAFT: u8 = 253;
const PACKED: u8 = 254;
const EXTENDED: u8 = 255;

const FIELD_FLAGS_8: u8 = 1;
const FIELD_FLAGS_32: u8 = 1 << 1;
const FIELD_VERSION: u8 = 1 << 2;
const FIELD_LEASE: u8 = 1 << 3;
const FIELD_ACCESS: u8 = 1 << 4;
const FIELD_DEADLINE: u8 = 1 << 5;
const FIELD_KEY_16: u8 = 1 << 6;
/// Space and kind, for items of which not both are the default.
const FIELD_SPACE: u8 = 1 << 7;

/// Beside the fields of a layout: the value is compressed.
const PACKED_VALUE: u16 = 1 << 8;

/// Bytes of the fields, indexed by bit; the key's wide length is no field behind the deadline.
const FIELD_BYTES: [usize; 8] = [1, 4, 8, 8, 4, 8, 0, 5];

/// Bytes of all fields of a set, for every set.
const FIELDS_BYTES: [usize; 256] = {
    let mut bytes = [0; 256];
    let mut fields = 1;
    while fields < bytes.len() {
        // One field less is a set that was summed up before.
        bytes[fields] =
            bytes[fields & (fields - 1)] + FIELD_BYTES[fields.trailing_zeros() as usize];
        fields += 1;
    }
    bytes
};

/// Bytes of the length of a value that is edited, so that the header stays as long as it is while
/// the value grows and shrinks.
const PADDED_LENGTH_BYTES: usize = 5;
/// Longest string that has such a length once a part of it was written: it marks the string as
/// changed. For longer strings the mark is not needed.
pub(crate) const MARKED_BYTES_MAX: usize = 64;

/// Bytes of the longest header.
pub(crate) const HEADER_BYTES_MAX: usize = 48;

/// Bit of a lease word that marks the value stale; the others hold the end of the lease in ms.
const LEASE_STALE: u64 = 1 << 63;

/// Lease state of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseState {
    /// The value was marked stale.
    pub(crate) stale: bool,
    /// The moment at which a given lease ends, in ms; zero if none was given.
    pub(crate) until_ms: u64,
}

impl LeaseState {
    /// Whether a client holds the lease at `now`.
    pub(crate) fn is_taken(self, now: Instant) -> bool {
        self.until_ms > now.0
    }

    fn is_default(self) -> bool {
        self == LeaseState::default()
    }

    fn to_word(self) -> u64 {
        let stale = if self.stale { LEASE_STALE } else { 0 };
        stale | (self.until_ms & !LEASE_STALE)
    }

    fn from_word(word: u64) -> LeaseState {
        LeaseState {
            stale: word & LEASE_STALE != 0,
            until_ms: word & !LEASE_STALE,
        }
    }
}

/// Everything about an item but the bytes of its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) key_bytes: usize,
    /// Bytes of the value as it is stored.
    pub(crate) value_bytes: usize,
    pub(crate) deadline: Deadline,
    pub(crate) flags: u32,
    pub(crate) version: Option<u64>,
    pub(crate) lease: LeaseState,
    /// Second of the last access, for items that record it.
    pub(crate) access_s: Option<u32>,
    pub(crate) space: Space,
    pub(crate) kind: Kind,
    /// The value will be edited: its length is written in as many bytes as any length needs.
    pub(crate) is_edited: bool,
    /// The value is compressed.
    pub(crate) is_packed: bool,
}

/// A header, ready to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// Longer than any header, because numbers are written eight bytes at once.
    bytes: [u8; HEADER_BYTES_MAX + 8],
    len: usize,
}

impl Header {
    /// The header's bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    #[inline]
    fn push_le(&mut self, number: u64, width: usize) {
        self.bytes[self.len..self.len + 8].copy_from_slice(&number.to_le_bytes());
        self.len += width;
    }

    #[inline]
    fn push_base_128(&mut self, mut number: usize, bytes: usize) {
        for _ in 1..bytes {
            self.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.push(number as u8);
    }
}

/// Bytes that [`Header::push_base_128`] writes.
#[inline]
fn base_128_bytes(number: usize) -> usize {
    let bits = usize::BITS - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Bytes that an extended item with these fields has for the length of its key.
#[inline]
fn key_length_bytes(fields: u8) -> usize {
    if fields & FIELD_KEY_16 == 0 { 1 } else { 2 }
}

impl Spec {
    /// An item with none of the rare fields.
    #[inline]
    pub(crate) fn plain(key_bytes: usize, value_bytes: usize, deadline: Deadline) -> Spec {
        Spec {
            key_bytes,
            value_bytes,
            deadline,
            flags: 0,
            version: None,
            lease: LeaseState::default(),
            access_s: None,
            space: Space::MAIN,
            kind: Kind::STRING,
            is_edited: false,
            is_packed: false,
        }
    }

    /// A string under `key` with none of the rare fields.
    #[inline]
    pub(crate) fn of_key(key: Key<'_>, value_bytes: usize, deadline: Deadline) -> Spec {
        Spec {
            space: key.space(),
            ..Spec::plain(key.bytes().len(), value_bytes, deadline)
        }
    }

    fn has_space_field(&self) -> bool {
        self.space != Space::MAIN || self.kind != Kind::STRING
    }

    /// Encodes the header for a segment with `encoding`.
    #[inline(never)]
    pub(crate) fn header(&self, encoding: DeadlineEncoding) -> Header {
        let mut header = Header {
            bytes: [0; HEADER_BYTES_MAX + 8],
            len: 0,
        };
        let deadline = encoding.encode(self.deadline);
        let fields = self.fields(deadline.is_none());
        if fields == 0 && !self.is_packed {
            header.push(self.key_bytes as u8);
        } else {
            header.push(if self.is_packed { PACKED } else { EXTENDED });
            header.push(fields);
            header.push_le(self.key_bytes as u64, key_length_bytes(fields));
        }
        header.push_base_128(self.value_bytes, self.length_bytes());
        if let Some(number) = deadline {
            header.push_le(number, usize::from(encoding.width));
        }
        if fields != 0 {
            self.push_fields(fields, &mut header);
        }
        header
    }

    /// The header as a number of that many bytes, little end first, if it is a plain one that fits
    /// into eight bytes, as most are.
    #[inline(always)]
    pub(crate) fn short_header(&self, encoding: DeadlineEncoding) -> Option<(u64, usize)> {
        let is_plain = self.flags | self.space.0 | u32::from(self.kind.0) == 0
            && self.version.is_none()
            && self.lease.is_default()
            && self.access_s.is_none()
            && !(self.is_edited | self.is_packed);
        // An empty key has no short header either.
        let has_long_key = self.key_bytes.wrapping_sub(1) >= PLAIN_KEY_BYTES_MAX;
        if !is_plain || has_long_key || self.value_bytes >= 1 << 14 {
            return None;
        }
        let deadline = encoding.encode(self.deadline)?;
        let value_bytes = self.value_bytes as u64;
        let (length, length_bytes) = if value_bytes < 0x80 {
            (value_bytes, 1)
        } else {
            (value_bytes & 0x7f | 0x80 | value_bytes >> 7 << 8, 2)
        };
        let word = self.key_bytes as u64 | length << 8 | deadline << (8 + 8 * length_bytes);
        Some((word, 1 + length_bytes + usize::from(encoding.width)))
    }

    /// Bytes of the whole item in a segment with `encoding`.
    #[inline]
    pub(crate) fn total_bytes(&self, encoding: DeadlineEncoding) -> usize {
        let header_bytes = match self.short_header(encoding) {
            Some((_, bytes)) => bytes,
            None => self.long_header_bytes(encoding),
        };
        header_bytes + self.key_bytes + self.value_bytes
    }

    /// Bytes of the header that [`Spec::header`] makes.
    fn long_header_bytes(&self, encoding: DeadlineEncoding) -> usize {
        let own_deadline = encoding.encode(self.deadline).is_none();
        let fields = self.fields(own_deadline);
        let begin = match (fields, self.is_packed) {
            (0, false) => 1,
            _ => 2 + key_length_bytes(fields),
        };
        let width = if own_deadline { 0 } else { encoding.width };
        let fields_bytes = FIELDS_BYTES[usize::from(fields)];
        begin + self.length_bytes() + usize::from(width) + fields_bytes
    }

    /// Bytes of the value's length in a header.
    #[inline]
    fn length_bytes(&self) -> usize {
        match self.is_edited {
            true => PADDED_LENGTH_BYTES,
            false => base_128_bytes(self.value_bytes),
        }
    }

    fn fields(&self, own_deadline: bool) -> u8 {
        let mut fields = match self.flags {
            0 => 0,
            1..=255 => FIELD_FLAGS_8,
            _ => FIELD_FLAGS_32,
        };
        if self.version.is_some() {
            fields |= FIELD_VERSION;
        }
        if !self.lease.is_default() {
            fields |= FIELD_LEASE;
        }
        if self.access_s.is_some() {
            fields |= FIELD_ACCESS;
        }
        if own_deadline {
            fields |= FIELD_DEADLINE;
        }
        if self.has_space_field() {
            fields |= FIELD_SPACE;
        }
        // An empty key, too, so that a hole's header never reaches into the value.
        let is_odd = self.key_bytes == 0 || self.key_bytes > PLAIN_KEY_BYTES_MAX;
        // A changed string gets an extended header, so that readers of plain headers need not check
        // the mark.
        if self.key_bytes > 255 || (fields == 0 && (is_odd || self.is_edited)) {
            fields |= FIELD_KEY_16;
        }
        fields
    }

    fn push_fields(&self, fields: u8, header: &mut Header) {
        let mut rest = fields;
        while rest != 0 {
            let field = rest & rest.wrapping_neg();
            rest ^= field;
            let word = match field {
                FIELD_FLAGS_8 | FIELD_FLAGS_32 => u64::from(self.flags),
                FIELD_VERSION => self.version.unwrap_or(0),
                FIELD_LEASE => self.lease.to_word(),
                FIELD_ACCESS => u64::from(self.access_s.unwrap_or(0)),
                FIELD_DEADLINE => self.deadline.instant().map_or(u64::MAX, |at| at.0),
                FIELD_SPACE => u64::from(self.kind.0) | u64::from(self.space.0) << 8,
                // The key's wide length was written before.
                _ => continue,
            };
            header.push_le(word, FIELDS_BYTES[usize::from(field)]);
        }
    }
}

/// An entry at an offset in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// Reclaimable bytes, with their length.
    Hole(usize),
    /// Space for a value that is still being received, with its length.
    Draft(usize),
    /// An item.
    Item(Layout),
}

impl Entry {
    /// Bytes to the next entry.
    pub(crate) fn total_bytes(&self) -> usize {
        match self {
            Entry::Hole(bytes) | Entry::Draft(bytes) => *bytes,
            Entry::Item(layout) => layout.total_bytes(),
        }
    }
}

/// Reads the entry at `offset`, which lies in a segment with `encoding`.
#[inline(always)]
pub(crate) fn read(arena: &Arena, offset: usize, encoding: DeadlineEncoding) -> Entry {
    // Nearly all headers end within eight bytes: one load has them whole.
    match read_short(arena.first_bytes(offset), offset, encoding) {
        Some(layout) => Entry::Item(layout),
        None => read_slowly(arena, offset, encoding),
    }
}

/// The layout of an item at `offset` that begins with `first_bytes`, if its header ends with these.
#[inline]
pub(crate) fn read_short(
    first_bytes: u64,
    offset: usize,
    encoding: DeadlineEncoding,
) -> Option<Layout> {
    let key_bytes = (first_bytes & 0xff) as usize;
    let is_short = first_bytes & 0x8000 == 0;
    if key_bytes > PLAIN_KEY_BYTES_MAX || (!is_short && first_bytes & 0x80_0000 != 0) {
        return None;
    }
    let (value_bytes, length_bytes) = if is_short {
        (first_bytes >> 8 & 0x7f, 1)
    } else {
        (first_bytes >> 8 & 0x7f | (first_bytes >> 16 & 0x7f) << 7, 2)
    };
    let deadline_at = offset + 1 + length_bytes;
    let number = first_bytes >> (8 + 8 * length_bytes) & never(encoding.width);
    let key_at = deadline_at + usize::from(encoding.width);
    Some(Layout {
        offset,
        key_at,
        key_word: key_bytes as u64,
        value_bytes: value_bytes as usize,
        deadline: encoding.decode(number),
        fields: 0,
        deadline_at,
        fields_at: key_at,
    })
}

/// Layout and flags of an item at `offset` that begins with these sixteen bytes, if flags are the
/// only rare field that it has and its header ends with these.
#[inline]
pub(crate) fn read_flagged(
    first_bytes: u128,
    offset: usize,
    encoding: DeadlineEncoding,
) -> Option<(Layout, u32)> {
    let [first, fields, key_bytes, length, more, ..] = first_bytes.to_le_bytes();
    let flags_bytes = match fields {
        FIELD_FLAGS_8 => 1,
        FIELD_FLAGS_32 => 4,
        _ => return None,
    };
    let is_short = length < 0x80;
    if first != EXTENDED || (!is_short && more >= 0x80) {
        return None;
    }
    let (value_bytes, deadline_from) = if is_short {
        (usize::from(length), 4)
    } else {
        (usize::from(length & 0x7f) | usize::from(more) << 7, 5)
    };
    let fields_from = deadline_from + usize::from(encoding.width);
    let bytes_from = |from: usize| first_bytes >> (8 * from);
    let flags = bytes_from(fields_from) as u32 & (u32::MAX >> (32 - 8 * flags_bytes));
    let layout = Layout {
        offset,
        key_at: offset + fields_from + flags_bytes,
        key_word: u64::from(key_bytes),
        value_bytes,
        deadline: encoding.decode(bytes_from(deadline_from) as u64 & never(encoding.width)),
        fields: u16::from(fields),
        deadline_at: offset + deadline_from,
        fields_at: offset + fields_from,
    };
    Some((layout, flags))
}

/// Reads any entry, byte by byte.
#[inline(never)]
fn read_slowly(arena: &Arena, offset: usize, encoding: DeadlineEncoding) -> Entry {
    let first = arena.byte(offset);
    if usize::from(first) <= PLAIN_KEY_BYTES_MAX {
        let (value_bytes, at) = read_base_128(arena, offset + 1);
        let number = read_le(arena, at, usize::from(encoding.width));
        let key_at = at + usize::from(encoding.width);
        return Entry::Item(Layout {
            offset,
            key_at,
            key_word: u64::from(first),
            value_bytes,
            deadline: encoding.decode(number),
            fields: 0,
            deadline_at: at,
            fields_at: key_at,
        });
    }
    match first {
        HOLE_OF_ONE => Entry::Hole(1),
        HOLE => Entry::Hole(read_base_128(arena, offset + 1).0),
        DRAFT => Entry::Draft(read_base_128(arena, offset + 1).0),
        EXTENDED => Entry::Item(read_extended(arena, offset, encoding)),
        PACKED => Entry::Item(read_packed(arena, offset, encoding)),
        other => unreachable!("no entry begins with {other}"),
    }
}

#[inline(never)]
fn read_packed(arena: &Arena, offset: usize, encoding: DeadlineEncoding) -> Layout {
    let mut layout = read_extended(arena, offset, encoding);
    layout.fields |= PACKED_VALUE;
    layout
}

#[inline(never)]
fn read_extended(arena: &Arena, offset: usize, encoding: DeadlineEncoding) -> Layout {
    let first_bytes = arena.first_bytes(offset);
    let [_, fields, key_bytes, ..] = first_bytes.to_le_bytes();
    let key_width = key_length_bytes(fields);
    let length_at = offset + 2 + key_width;
    let (key_bytes, (value_bytes, deadline_at)) = if key_width == 1 {
        // The value's length ends within eight bytes.
        let (value_bytes, length_bytes) = base_128_in(first_bytes >> 24);
        (
            u64::from(key_bytes),
            (value_bytes, length_at + length_bytes),
        )
    } else {
        let key_bytes = read_le(arena, offset + 2, key_width);
        (key_bytes, read_base_128(arena, length_at))
    };
    let own_deadline = fields & FIELD_DEADLINE != 0;
    let width = if own_deadline {
        0
    } else {
        usize::from(encoding.width)
    };
    let fields_at = deadline_at + width;
    let key_at = fields_at + FIELDS_BYTES[usize::from(fields)];
    // The last field lies right before the key.
    let space = match fields & FIELD_SPACE {
        0 => 0,
        _ => u64::from(arena.word(key_at - 4)),
    };
    let mut layout = Layout {
        offset,
        key_at,
        key_word: key_bytes | space << 32,
        value_bytes,
        deadline: Deadline::NEVER,
        fields: u16::from(fields),
        deadline_at,
        fields_at,
    };
    layout.deadline = match layout.field_at(FIELD_DEADLINE) {
        Some(at) => match read_le(arena, at, 8) {
            u64::MAX => Deadline::NEVER,
            number => Deadline::at(Instant(number)),
        },
        None => encoding.decode(read_le(arena, deadline_at, width)),
    };
    layout
}

/// The base-128 number that five bytes begin with, little end first, and how many it has.
#[inline]
fn base_128_in(bytes: u64) -> (usize, usize) {
    // The last byte is the first one without its top bit.
    let len = (!bytes & 0x80_8080_8080).trailing_zeros() as usize / 8 + 1;
    assert!(len <= 5, "a length has at most five bytes");
    let bytes = bytes & (u64::MAX >> (64 - 8 * len)) & 0x7f_7f7f_7f7f;
    let part = |number: usize| (bytes >> (8 * number) & 0x7f) << (7 * number);
    let number = part(0) | part(1) | part(2) | part(3) | part(4);
    (number as usize, len)
}

#[inline]
fn read_base_128(arena: &Arena, at: usize) -> (usize, usize) {
    let first = arena.byte(at);
    if first < 0x80 {
        return (usize::from(first), at + 1);
    }
    let mut number = usize::from(first & 0x7f);
    for step in 1..5 {
        let byte = arena.byte(at + step);
        number |= usize::from(byte & 0x7f) << (7 * step);
        if byte < 0x80 {
            return (number, at + step + 1);
        }
    }
    unreachable!("a length has at most five bytes")
}

#[inline]
fn read_le(arena: &Arena, at: usize, width: usize) -> u64 {
    let mut number = 0;
    for step in 0..width {
        number |= u64::from(arena.byte(at + step)) << (8 * step);
    }
    number
}

/// The header of a hole or a draft.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GapHeader {
    bytes: [u8; 8],
    len: usize,
}

impl GapHeader {
    fn new(mark: u8, bytes: usize) -> GapHeader {
        let (mut word, mut rest, mut len) = (u64::from(mark), bytes as u64, 1);
        while rest >= 0x80 {
            word |= (rest & 0x7f | 0x80) << (8 * len);
            rest >>= 7;
            len += 1;
        }
        GapHeader {
            bytes: (word | rest << (8 * len)).to_le_bytes(),
            len: len + 1,
        }
    }

    /// The header's bytes as a number, little end first, with zeros behind them.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        u64::from_le_bytes(self.bytes)
    }

    /// The header's bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The header of a draft of `bytes` bytes.
pub(crate) fn draft(bytes: usize) -> GapHeader {
    GapHeader::new(DRAFT, bytes)
}

/// The header of a hole of `bytes` bytes.
pub(crate) fn hole(bytes: usize) -> GapHeader {
    match bytes {
        1 => GapHeader {
            bytes: u64::from(HOLE_OF_ONE).to_le_bytes(),
            len: 1,
        },
        _ => GapHeader::new(HOLE, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Spec = Spec {
        key_bytes: 16,
        value_bytes: 32,
        deadline: Deadline::NEVER,
        flags: 0,
        version: None,
        lease: LeaseState {
            stale: false,
            until_ms: 0,
        },
        access_s: None,
        space: Space::MAIN,
        kind: Kind::STRING,
        is_edited: false,
        is_packed: false,
    };

    fn check_round_trip(spec: Spec, encoding: DeadlineEncoding) -> usize {
        let arena = Arena::reserve(1, 20, Instant(0), None).unwrap();
        let header = spec.header(encoding);
        // SAFETY: only this test uses the arena.
        unsafe { arena.write(100, header.bytes()) };
        let Entry::Item(layout) = read(&arena, 100, encoding) else {
            panic!("not an item")
        };
        assert_eq!(layout.spec(&arena), spec, "{encoding:?}");
        assert_eq!(layout.total_bytes(), spec.total_bytes(encoding));
        check_sixteen_bytes(&arena, &spec, encoding);
        assert!(header.bytes().len() <= HEADER_BYTES_MAX);
        // A handle may read the value while the item becomes a hole.
        assert!(hole(layout.total_bytes()).bytes().len() <= layout.value_at() - 100);
        header.bytes().len()
    }

    /// Checks that a reader of the first sixteen bytes sees the same item, or detects that they do
    /// not suffice.
    fn check_sixteen_bytes(arena: &Arena, spec: &Spec, encoding: DeadlineEncoding) {
        let (first, more) = (arena.first_bytes(100), arena.first_bytes(108));
        let both = u128::from(first) | u128::from(more) << 64;
        let short = read_short(first, 100, encoding).map(|layout| (layout, 0));
        let seen = short.or_else(|| read_flagged(both, 100, encoding));
        let keys = if spec.flags == 0 { 1..=250 } else { 0..=255 };
        let is_told = Spec { flags: 0, ..*spec }
            == Spec::plain(spec.key_bytes, spec.value_bytes, spec.deadline)
            && keys.contains(&spec.key_bytes)
            && spec.value_bytes < 1 << 14
            && !spec.is_packed
            && encoding.encode(spec.deadline).is_some();
        assert_eq!(seen.is_some(), is_told, "{spec:?} {encoding:?}");
        if let Some((layout, flags)) = seen {
            assert_eq!((layout.spec(arena), flags), (*spec, spec.flags));
        }
    }

    #[test]
    fn a_small_item_with_a_deadline_has_a_header_of_five_bytes() {
        let encoding = DeadlineEncoding::new(1_000, 3);
        let spec = Spec {
            deadline: Instant(5_000).plus_ms(0),
            ..PLAIN
        };
        assert_eq!(check_round_trip(spec, encoding), 5);
        assert_eq!(check_round_trip(PLAIN, DeadlineEncoding::new(1_000, 0)), 2);
    }

    #[test]
    fn every_combination_of_fields_is_read_back() {
        for bits in 0..1_024_u32 {
            let spec = Spec {
                key_bytes: [16, 250, 251, 255, 256, 65_535, 0][bits as usize % 7],
                value_bytes: [0, 127, 128, 16_384, 512 << 20][bits as usize % 5],
                flags: [0, 7, 70_000][bits as usize % 3],
                version: (bits & 1 != 0).then_some(u64::MAX - 3),
                lease: LeaseState {
                    stale: bits & 2 != 0,
                    until_ms: u64::from(bits & 4) * 1_000,
                },
                access_s: (bits & 8 != 0).then_some(77),
                space: [Space::MAIN, Space(3), Space(u32::MAX)][(bits >> 6) as usize % 3],
                kind: Kind([0, 5][(bits >> 8) as usize % 2]),
                deadline: [
                    Deadline::NEVER,
                    Deadline::at(Instant(9_000)),
                    Deadline::FARTHEST,
                ][(bits >> 4) as usize % 3],
                is_edited: false,
                is_packed: bits >> 9 == 1,
            };
            for width in DeadlineEncoding::WIDTHS {
                check_round_trip(spec, DeadlineEncoding::new(4_000, width));
            }
        }
    }

    #[test]
    fn a_short_string_that_is_edited_is_read_back_as_one() {
        for key_bytes in [0, 16, 251, 256] {
            for value_bytes in [0, 1, MARKED_BYTES_MAX] {
                for deadline in [Deadline::NEVER, Deadline::at(Instant(9_000))] {
                    let spec = Spec {
                        key_bytes,
                        value_bytes,
                        deadline,
                        is_edited: true,
                        ..PLAIN
                    };
                    for width in DeadlineEncoding::WIDTHS {
                        check_round_trip(spec, DeadlineEncoding::new(4_000, width));
                    }
                }
            }
        }
    }

    #[test]
    fn a_deadline_that_does_not_fit_the_segment_is_kept_exactly() {
        let encoding = DeadlineEncoding::new(0, 3);
        for ms in [0, (1 << 24) - 2, (1 << 24) - 1, 1 << 24, 1 << 40] {
            check_round_trip(
                Spec {
                    deadline: Deadline::at(Instant(ms)),
                    ..PLAIN
                },
                encoding,
            );
        }
    }

    #[test]
    fn holes_of_any_size_are_read_back() {
        let arena = Arena::reserve(1, 20, Instant(0), None).unwrap();
        let encoding = DeadlineEncoding::new(0, 0);
        for bytes in [1, 2, 3, 127, 128, 129, 16_383, 1 << 20, 512 << 20] {
            // SAFETY: only this test uses the arena.
            unsafe { arena.write(0, hole(bytes).bytes()) };
            assert!(hole(bytes).bytes().len() <= bytes);
            assert_eq!(read(&arena, 0, encoding).total_bytes(), bytes);
        }
    }
}

//! Packed list: elements one after the other, with free space before and behind them.
//!
//! | part | bytes |
//! |---|---|
//! | how many elements; where the first begins; where the last ends | 4 each |
//! | free room, elements, free room | |
//! | an element: its length as a varint, its bytes, the length of both backwards | |
//!
//! The list can be walked from either end. A push writes into the free space, and a pop changes
//! only the head. A list without free space is laid out again with half as much again on that side,
//! one that is mostly free space without any; so an element costs a constant number of copies of
//! its bytes. Short lists have no free space.
//!
//! Why: docs/decisions/0044. Tests: at the end of list.rs.

use std::ops::Range;

use cellar_engine::Splice;

use crate::bytes::{Varint, varint};
use crate::edit::Edit as PagesEdit;
use crate::entry::Form;
use crate::page::Tree;

/// Bytes before the first element or its free space.
pub(crate) const HEAD_BYTES: usize = 12;
/// A value up to this length has no free space when it is laid out: a copy of it costs little.
pub(crate) const TIGHT_BYTES_MAX: usize = 256;
/// A value that uses less than this part of its length is mostly free space.
const USED_SHARE_MIN: usize = 4;

/// A packed list has no more bytes of elements, unless it has few elements.
const PACKED_BYTES_MAX: usize = 8 << 10;
pub(crate) const FEW_ELEMENTS_MAX: usize = 16;
const FEW_BYTES_MAX: usize = 64 << 10;

/// The entry forms of the trees of a list in pages.
pub(crate) const FORMS: [Form; 2] = [Form::ELEMENTS, Form::ELEMENTS];

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first element is there.
    Left,
    /// The last element is there.
    Right,
}

/// The change to a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Nothing.
    Keep,
    /// It has no elements.
    Remove,
    /// Its value is in the scratch buffer.
    Store,
    /// Parts of its value are.
    Splice([Splice; 2]),
    /// Operations on its pages are; the value may become longer by so many bytes.
    Pages(usize),
}

/// A short list.
#[derive(Clone, Copy, Debug)]
pub struct PackedList<'a> {
    pub(crate) value: &'a [u8],
    pub(crate) count: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<'a> PackedList<'a> {
    /// The element that begins at a place, and where the next one does.
    pub(crate) fn element(&self, at: usize) -> (&'a [u8], usize) {
        let (len, from) = varint(self.value, at);
        let end = from + len;
        (&self.value[from..end], end + back_bytes(end - at))
    }

    /// Where the element begins that ends at a place.
    pub(crate) fn before(&self, end: usize) -> usize {
        let (mut number, mut shift, mut at) = (0, 0, end);
        loop {
            at -= 1;
            let byte = self.value[at];
            number |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return at - number;
            }
        }
    }

    /// The elements and where they begin, from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a [u8], Range<usize>)> + use<'a> {
        let list = *self;
        let mut at = self.start;
        std::iter::from_fn(move || {
            (at < list.end).then(|| {
                let (element, next) = list.element(at);
                (element, std::mem::replace(&mut at, next)..next)
            })
        })
    }

    /// The same from the last on.
    pub(crate) fn iter_back(&self) -> impl Iterator<Item = (&'a [u8], Range<usize>)> {
        let list = *self;
        let mut end = self.end;
        std::iter::from_fn(move || {
            (end > list.start).then(|| {
                let at = list.before(end);
                (list.element(at).0, at..std::mem::replace(&mut end, at))
            })
        })
    }

    /// Where the element with a number begins, or the last one ends; counted from the nearer end.
    pub(crate) fn place(&self, index: usize) -> usize {
        if index <= self.count / 2 {
            (0..index).fold(self.start, |at, _| self.element(at).1)
        } else {
            (index..self.count).fold(self.end, |end, _| self.before(end))
        }
    }

    /// The element at an end, and where it lies.
    pub(crate) fn at_end(&self, side: Side) -> Option<Range<usize>> {
        let number = match side {
            Side::Left => 0,
            Side::Right => self.count.checked_sub(1)?,
        };
        (self.count > 0).then(|| {
            let at = self.place(number);
            at..self.element(at).1
        })
    }

    pub(crate) fn push(&self, side: Side, elements: &[&[u8]], scratch: &mut Vec<u8>) -> Edit {
        scratch.extend_from_slice(&[0; HEAD_BYTES]);
        match side {
            Side::Left => elements
                .iter()
                .rev()
                .for_each(|element| append(element, scratch)),
            Side::Right => elements.iter().for_each(|element| append(element, scratch)),
        }
        let added = scratch.len() - HEAD_BYTES;
        let count = self.count + elements.len();
        let (left, right) = (self.start - HEAD_BYTES, self.value.len() - self.end);
        let room = if side == Side::Left { left } else { right };
        if room >= added && self.count > 0 {
            let (start, end, at) = match side {
                Side::Left => (self.start - added, self.end, self.start - added),
                Side::Right => (self.start, self.end + added, self.end),
            };
            write_head(scratch, count, start, end);
            let splice = |at, from, len| Splice { at, from, len };
            return Edit::Splice([splice(0, 0, HEAD_BYTES), splice(at, HEAD_BYTES, added)]);
        }
        let used = self.end - self.start + added;
        let own = used / 2;
        let rooms = match side {
            Side::Left => (own, right.min(used / 4)),
            Side::Right => (left.min(used / 4), own),
        };
        let block = scratch.split_off(HEAD_BYTES);
        let old = &self.value[self.start..self.end];
        let parts = match side {
            Side::Left => [&*block, old, &[]],
            Side::Right => [old, &*block, &[]],
        };
        lay_out(&parts, count, rooms, scratch)
    }

    /// Takes elements away at both ends, all but those with numbers in a range.
    pub(crate) fn keep(&self, range: Range<usize>, scratch: &mut Vec<u8>) -> Edit {
        if range.len() == self.count {
            return Edit::Keep;
        }
        if range.is_empty() {
            return Edit::Remove;
        }
        let (start, end) = (self.place(range.start), self.place(range.end));
        let used = end - start;
        if self.value.len() > TIGHT_BYTES_MAX.max(used * USED_SHARE_MIN) {
            let parts = [&self.value[start..end], &[], &[]];
            let rooms = (used / 4, used / 4);
            return lay_out(&parts, range.len(), rooms, scratch);
        }
        scratch.extend_from_slice(&[0; HEAD_BYTES]);
        write_head(scratch, range.len(), start, end);
        let head = Splice {
            at: 0,
            from: 0,
            len: HEAD_BYTES,
        };
        Edit::Splice([head, Splice::default()])
    }

    /// Writes the list unchanged: a command that took an element and put it back has changed the
    /// key.
    pub(crate) fn rewrite(&self, scratch: &mut Vec<u8>) -> Edit {
        scratch.extend_from_slice(&self.value[..HEAD_BYTES]);
        let head = Splice {
            at: 0,
            from: 0,
            len: HEAD_BYTES,
        };
        Edit::Splice([head, Splice::default()])
    }

    /// Moves the element at one end to the other; one that is alone has nowhere to go.
    pub(crate) fn rotate(&self, from: Side, scratch: &mut Vec<u8>) -> Edit {
        let Some(place) = self.at_end(from).filter(|_| self.count > 1) else {
            return Edit::Keep;
        };
        let block = &self.value[place.clone()];
        let (start, end) = match from {
            Side::Left => (place.end, self.end),
            Side::Right => (self.start, place.start),
        };
        let (left, right) = (start - HEAD_BYTES, self.value.len() - end);
        let moved = match from {
            Side::Left => (right >= block.len()).then(|| (start, end + block.len(), end)),
            Side::Right => left
                .checked_sub(block.len())
                .map(|room| (HEAD_BYTES + room, end, HEAD_BYTES + room)),
        };
        if let Some((start, end, at)) = moved {
            scratch.extend_from_slice(&[0; HEAD_BYTES]);
            write_head(scratch, self.count, start, end);
            scratch.extend_from_slice(block);
            let splice = |at, from, len| Splice { at, from, len };
            return Edit::Splice([
                splice(0, 0, HEAD_BYTES),
                splice(at, HEAD_BYTES, block.len()),
            ]);
        }
        let (rest, used) = (&self.value[start..end], self.end - self.start);
        let (parts, rooms) = match from {
            Side::Left => ([rest, block, &[]], (left.min(used / 4), used / 2)),
            Side::Right => ([block, rest, &[]], (used / 2, right.min(used / 4))),
        };
        lay_out(&parts, self.count, rooms, scratch)
    }

    /// Puts an element, or none, in the place of an old one.
    pub(crate) fn replace(
        &self,
        place: Range<usize>,
        element: Option<&[u8]>,
        scratch: &mut Vec<u8>,
    ) -> Edit {
        let mut block = Vec::new();
        if let Some(element) = element {
            append(element, &mut block);
        }
        if block.len() == place.len() {
            scratch.append(&mut block);
            let splice = Splice {
                at: place.start,
                from: 0,
                len: place.len(),
            };
            return Edit::Splice([splice, Splice::default()]);
        }
        let count = self.count + usize::from(element.is_some()) - usize::from(!place.is_empty());
        let (before, after) = (
            &self.value[self.start..place.start],
            &self.value[place.end..self.end],
        );
        let parts = [before, &*block, after];
        lay_out(&parts, count, self.rooms(), scratch)
    }

    /// Removes the elements that equal this one: `count` from the first on, from the last on if it
    /// is negative, all if it is zero. Returns how many those were.
    pub(crate) fn remove(
        &self,
        count: i64,
        element: &[u8],
        scratch: &mut Vec<u8>,
    ) -> (usize, Edit) {
        let mut left = match usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) {
            0 => usize::MAX,
            most => most,
        };
        let mut at = self.start;
        if count < 0 {
            // From here on they are so many, or all.
            let mut found = self.iter_back().filter(|(found, _)| *found == element);
            at = found
                .nth(left - 1)
                .map_or(self.start, |(_, place)| place.start);
        }
        let mut kept = Vec::with_capacity(self.end - self.start);
        let (mut from, mut removed) = (self.start, 0);
        while left > 0 && at < self.end {
            let (found, next) = self.element(at);
            if found == element {
                kept.extend_from_slice(&self.value[from..at]);
                (from, removed, left) = (next, removed + 1, left - 1);
            }
            at = next;
        }
        if removed == 0 {
            return (0, Edit::Keep);
        }
        if removed == self.count {
            return (removed, Edit::Remove);
        }
        kept.extend_from_slice(&self.value[from..self.end]);
        let parts = [&*kept, &[], &[]];
        let count = self.count - removed;
        let edit = lay_out(&parts, count, self.rooms(), scratch);
        (removed, edit)
    }

    /// The free space on both sides.
    pub(crate) fn rooms(&self) -> (usize, usize) {
        let used = (self.end - self.start) / 4;
        let (left, right) = (self.start - HEAD_BYTES, self.value.len() - self.end);
        (left.min(used), right.min(used))
    }
}

/// Appends an element.
pub(crate) fn append(element: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(&Varint::of(element.len()));
    out.extend_from_slice(element);
    let back = out.len();
    out.extend_from_slice(&Varint::of(back - from));
    out[back..].reverse();
}

/// Bytes of a length that is read backwards.
pub(crate) fn back_bytes(mut number: usize) -> usize {
    let mut bytes = 1;
    while number >= 0x80 {
        (number, bytes) = (number >> 7, bytes + 1);
    }
    bytes
}

pub(crate) fn write_head(scratch: &mut [u8], count: usize, start: usize, end: usize) {
    // A value is shorter than 4 GiB.
    for (place, number) in [count, start, end].into_iter().enumerate() {
        scratch[place * 4..place * 4 + 4].copy_from_slice(&(number as u32).to_le_bytes());
    }
}

/// Makes a value in pages of these elements.
pub(crate) fn make_pages(parts: &[&[u8]; 3], scratch: &mut Vec<u8>) {
    let mut value = Vec::new();
    let mut edit = PagesEdit::create(&mut value, FORMS, 0);
    for &part in parts {
        let list = PackedList {
            value: part,
            count: 0,
            start: 0,
            end: part.len(),
        };
        for (element, _) in list.iter() {
            let end = edit.view().end(Tree::First);
            edit.insert_element(end, element);
        }
    }
    *scratch = value;
}

/// Makes a value of these elements, with as much free room as there may be.
pub(crate) fn lay_out(
    parts: &[&[u8]; 3],
    count: usize,
    rooms: (usize, usize),
    scratch: &mut Vec<u8>,
) -> Edit {
    let used: usize = parts.iter().map(|part| part.len()).sum();
    let has_few = count <= FEW_ELEMENTS_MAX && used <= FEW_BYTES_MAX;
    if used > PACKED_BYTES_MAX && !has_few {
        make_pages(parts, scratch);
        return Edit::Store;
    }
    let (left, right) = if HEAD_BYTES + used <= TIGHT_BYTES_MAX {
        (0, 0)
    } else {
        rooms
    };
    scratch.clear();
    scratch.reserve_exact(HEAD_BYTES + left + used + right);
    scratch.resize(HEAD_BYTES + left, 0);
    parts
        .iter()
        .for_each(|part| scratch.extend_from_slice(part));
    scratch.resize(scratch.len() + right, 0);
    write_head(scratch, count, HEAD_BYTES + left, HEAD_BYTES + left + used);
    Edit::Store
}

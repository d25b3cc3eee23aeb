//! List: elements one behind the other, with free room before and behind them.
//!
//! | part | bytes |
//! |---|---|
//! | how many elements; where the first begins; where the last ends | 4 each |
//! | free room, elements, free room | |
//! | an element: its length as a varint, its bytes, the length of both backwards | |
//!
//! An element is walked over from either end. What comes to an end is written into the free room,
//! and what goes is left there: only the head changes. A list that has no room is laid out anew
//! with half as much again on that side, one that is mostly room without; so an element costs a
//! constant number of copies of its bytes. Short lists have no room.
//!
//! Why: docs/decisions/0044. Tests: at the end of this file, tests/resp_lists.rs.

use std::ops::Range;

use cellar_engine::{Change, Deadline, Splice};

use super::LIST;
use super::bytes::{push_varint, set_u32, u32_at, varint};

/// Bytes before the first element or its free room.
const HEAD_BYTES: usize = 12;
/// A value up to this length has no free room when it is laid out: a copy of it costs little.
const TIGHT_BYTES_MAX: usize = 256;
/// What is mostly room has less than this part of its length in use.
const USED_SHARE_MIN: usize = 4;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first element is there.
    Left,
    /// The last element is there.
    Right,
}

/// A list in the bytes of a value.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    value: &'a [u8],
    count: usize,
    start: usize,
    end: usize,
}

/// What becomes of a list.
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
}

impl Edit {
    /// What the cache is to do, for a key that goes at `deadline`.
    #[must_use]
    pub fn change(self, deadline: Deadline) -> Change {
        match self {
            Edit::Keep => Change::Keep,
            Edit::Remove => Change::Remove,
            Edit::Splice(splices) => Change::splice(splices.to_vec()),
            Edit::Store => Change::Store {
                kind: LIST,
                deadline,
                flags: 0,
            },
        }
    }
}

impl<'a> List<'a> {
    /// The list in the bytes of a value.
    #[must_use]
    pub fn view(value: &'a [u8]) -> List<'a> {
        List {
            value,
            count: u32_at(value, 0) as usize,
            start: u32_at(value, 1) as usize,
            end: u32_at(value, 2) as usize,
        }
    }

    /// One without elements, which no value holds.
    #[must_use]
    pub fn empty() -> List<'static> {
        List {
            value: &[0; HEAD_BYTES],
            count: 0,
            start: HEAD_BYTES,
            end: HEAD_BYTES,
        }
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none; of a value that is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Where the first element begins.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Where the last element ends.
    #[must_use]
    pub fn end(&self) -> usize {
        self.end
    }

    /// The element that begins at a place, and where the next one does.
    #[must_use]
    pub fn element(&self, at: usize) -> (&'a [u8], usize) {
        let (len, from) = varint(self.value, at);
        let end = from + len;
        (&self.value[from..end], end + back_bytes(end - at))
    }

    /// Where the element begins that ends at a place.
    #[must_use]
    pub fn before(&self, end: usize) -> usize {
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
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Range<usize>)> {
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
    pub fn iter_back(&self) -> impl Iterator<Item = (&'a [u8], Range<usize>)> {
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
    #[must_use]
    pub fn place(&self, index: usize) -> usize {
        if index <= self.count / 2 {
            (0..index).fold(self.start, |at, _| self.element(at).1)
        } else {
            (index..self.count).fold(self.end, |end, _| self.before(end))
        }
    }

    /// The element with a number that may count from the end, and where it lies.
    #[must_use]
    pub fn at(&self, index: i64) -> Option<(&'a [u8], Range<usize>)> {
        let at = self.place(self.number(index)?);
        let (element, end) = self.element(at);
        Some((element, at..end))
    }

    fn number(&self, index: i64) -> Option<usize> {
        let from_end = i64::try_from(self.count).ok()?;
        let index = if index < 0 {
            index.checked_add(from_end)?
        } else {
            index
        };
        let index = usize::try_from(index).ok()?;
        (index < self.count).then_some(index)
    }

    /// The numbers from one to another that may both count from the end, as far as they are there.
    #[must_use]
    pub fn range(&self, first: i64, last: i64) -> Range<usize> {
        let count = i64::try_from(self.count).unwrap_or(i64::MAX);
        let number = |index: i64| {
            if index < 0 {
                index.saturating_add(count)
            } else {
                index
            }
        };
        let (first, last) = (number(first).max(0), number(last).min(count - 1));
        if first > last {
            return 0..0;
        }
        // Both lie between zero and the number of elements.
        first as usize..last as usize + 1
    }

    /// Adds elements at an end, one after the other; `bytes_max` is the longest value.
    pub fn push(
        &self,
        side: Side,
        elements: &[&[u8]],
        bytes_max: usize,
        scratch: &mut Vec<u8>,
    ) -> Edit {
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
        lay_out(&parts, count, rooms, bytes_max, scratch)
    }

    /// Takes elements away at both ends, all but those with numbers in a range.
    pub fn keep(&self, range: Range<usize>, scratch: &mut Vec<u8>) -> Edit {
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
            return lay_out(&parts, range.len(), rooms, self.value.len(), scratch);
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

    /// Writes the list as it is: what took an element and put it back has changed the key.
    pub fn rewrite(&self, scratch: &mut Vec<u8>) -> Edit {
        scratch.extend_from_slice(&self.value[..HEAD_BYTES]);
        let head = Splice {
            at: 0,
            from: 0,
            len: HEAD_BYTES,
        };
        Edit::Splice([head, Splice::default()])
    }

    /// Moves the element at one end to the other; one that is alone has nowhere to go.
    pub fn rotate(&self, from: Side, bytes_max: usize, scratch: &mut Vec<u8>) -> Edit {
        let found = self.at(if from == Side::Left { 0 } else { -1 });
        let Some((_, place)) = found.filter(|_| self.count > 1) else {
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
        lay_out(&parts, self.count, rooms, bytes_max, scratch)
    }

    /// Puts an element, or none, in the place of what lies there.
    pub fn replace(
        &self,
        place: Range<usize>,
        element: Option<&[u8]>,
        bytes_max: usize,
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
        lay_out(&parts, count, self.rooms(), bytes_max, scratch)
    }

    /// Removes the elements that equal this one: so many from the first on, from the last on if the
    /// number is negative, all if it is zero. How many those were.
    pub fn remove(&self, count: i64, element: &[u8], scratch: &mut Vec<u8>) -> (usize, Edit) {
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
        let edit = lay_out(&parts, count, self.rooms(), self.value.len(), scratch);
        (removed, edit)
    }

    /// The free room on both sides.
    fn rooms(&self) -> (usize, usize) {
        let used = (self.end - self.start) / 4;
        let (left, right) = (self.start - HEAD_BYTES, self.value.len() - self.end);
        (left.min(used), right.min(used))
    }
}

/// Appends an element.
fn append(element: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    push_varint(out, element.len());
    out.extend_from_slice(element);
    let back = out.len();
    push_varint(out, back - from);
    out[back..].reverse();
}

/// Bytes of a length that is read backwards.
fn back_bytes(mut number: usize) -> usize {
    let mut bytes = 1;
    while number >= 0x80 {
        (number, bytes) = (number >> 7, bytes + 1);
    }
    bytes
}

fn write_head(scratch: &mut [u8], count: usize, start: usize, end: usize) {
    // A value is shorter than 4 GiB.
    for (place, number) in [count, start, end].into_iter().enumerate() {
        set_u32(scratch, place, number as u32);
    }
}

/// Makes a value of these elements, with as much free room as there may be.
fn lay_out(
    parts: &[&[u8]; 3],
    count: usize,
    rooms: (usize, usize),
    bytes_max: usize,
    scratch: &mut Vec<u8>,
) -> Edit {
    let used: usize = parts.iter().map(|part| part.len()).sum();
    let free = bytes_max.saturating_sub(HEAD_BYTES + used);
    let (left, right) = if HEAD_BYTES + used <= TIGHT_BYTES_MAX {
        (0, 0)
    } else {
        (rooms.0.min(free / 2), rooms.1.min(free / 2))
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const BYTES_MAX: usize = 1 << 20;

    /// A value that edits are applied to; how many bytes that copied.
    #[derive(Default)]
    struct Kept(Vec<u8>);

    impl Kept {
        fn list(&self) -> List<'_> {
            if self.0.is_empty() {
                List::empty()
            } else {
                List::view(&self.0)
            }
        }

        fn apply(&mut self, edit: Edit, scratch: Vec<u8>) -> usize {
            match edit {
                Edit::Keep => return 0,
                Edit::Remove => self.0.clear(),
                Edit::Store => self.0 = scratch,
                Edit::Splice(splices) => {
                    for Splice { at, from, len } in splices {
                        self.0[at..at + len].copy_from_slice(&scratch[from..from + len]);
                    }
                    return splices.iter().map(|splice| splice.len).sum();
                }
            }
            self.0.len()
        }

        fn push(&mut self, side: Side, element: &[u8]) -> usize {
            let mut scratch = Vec::new();
            let edit = self.list().push(side, &[element], BYTES_MAX, &mut scratch);
            self.apply(edit, scratch)
        }

        fn keep(&mut self, range: Range<usize>) -> usize {
            let mut scratch = Vec::new();
            let edit = self.list().keep(range, &mut scratch);
            self.apply(edit, scratch)
        }
    }

    #[test]
    fn a_list_is_what_a_deque_is() {
        let (mut kept, mut deque) = (Kept::default(), VecDeque::<Vec<u8>>::new());
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..30_000_u32 {
            let len = *random
                .choice(&[0, 1, 5, 126, 127, 128, 130, 17_000])
                .unwrap();
            let len = if round % 50 == 0 { len } else { len.min(5) };
            let element = vec![random.u8(b'a'..b'd'); len];
            let (mut scratch, count) = (Vec::new(), deque.len());
            match random.u8(..13) {
                0..=3 => {
                    kept.push(Side::Right, &element);
                    deque.push_back(element);
                }
                4..=6 => {
                    kept.push(Side::Left, &element);
                    deque.push_front(element);
                }
                7 if count > 0 => {
                    kept.keep(1..count);
                    deque.pop_front();
                }
                8 if count > 0 => {
                    kept.keep(0..count - 1);
                    deque.pop_back();
                }
                9 if count > 0 => {
                    let index = random.usize(..count);
                    let list = kept.list();
                    let (_, place) = list.at(index as i64 - count as i64).unwrap();
                    let edit = list.replace(place, Some(&element), BYTES_MAX, &mut scratch);
                    kept.apply(edit, scratch);
                    deque[index] = element;
                }
                10 if count > 0 => {
                    let index = random.usize(..=count);
                    let list = kept.list();
                    let at = list.place(index);
                    let edit = list.replace(at..at, Some(&element), BYTES_MAX, &mut scratch);
                    kept.apply(edit, scratch);
                    deque.insert(index, element);
                }
                12 if count > 0 => {
                    let side = *random.choice(&[Side::Left, Side::Right]).unwrap();
                    let edit = kept.list().rotate(side, BYTES_MAX, &mut scratch);
                    kept.apply(edit, scratch);
                    match side {
                        Side::Left => deque.rotate_left(1),
                        Side::Right => deque.rotate_right(1),
                    }
                }
                _ if count > 400 => {
                    let (removed, edit) = kept.list().remove(0, &element, &mut scratch);
                    kept.apply(edit, scratch);
                    deque.retain(|one| *one != element);
                    assert_eq!(removed, count - deque.len());
                }
                _ => {}
            }
            assert_eq!(kept.list().len(), deque.len());
            if round % 64 == 0 {
                assert!(kept.list().iter().map(|(one, _)| one).eq(deque.iter()));
                assert!(
                    kept.list()
                        .iter_back()
                        .map(|(one, _)| one)
                        .eq(deque.iter().rev())
                );
            }
        }
    }

    #[test]
    fn what_comes_and_goes_at_the_ends_copies_little() {
        const COUNT: usize = 60_000;
        for (into, out) in [(Side::Right, Side::Left), (Side::Left, Side::Left)] {
            let mut kept = Kept::default();
            let mut copied: usize = (0..COUNT).map(|_| kept.push(into, b"twelve bytes")).sum();
            // As a queue, at this length.
            for _ in 0..COUNT {
                copied += kept.push(into, b"twelve bytes");
                let count = kept.list().len();
                copied += kept.keep(if out == Side::Left {
                    1..count
                } else {
                    0..count - 1
                });
            }
            while kept.list().len() > 1 {
                let count = kept.list().len();
                copied += kept.keep(1..count);
            }
            assert!(copied < COUNT * 4 * 14 * 8, "{copied}");
            assert!(kept.0.len() <= TIGHT_BYTES_MAX, "room is given back");
        }
    }
}

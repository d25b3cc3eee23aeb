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
//! That is a packed list. A longer one is made of pages: see the crate's documentation.
//!
//! Why: docs/decisions/0044, 0074. Tests: at the end of this file, tests/resp_lists.rs.

use std::borrow::Cow;
use std::ops::Range;

use cellar_engine::{Apply, Change, Deadline, Splice, ValueBytes};

use crate::bytes::{push_varint, u32_at, u64_at, varint};
use crate::collection::LIST;
use crate::edit::Edit as PagesEdit;
use crate::entry::Form;
use crate::plan::Plan;
use crate::view::{Spot, Tree, View, is_paged};

/// Bytes before the first element or its free room.
const HEAD_BYTES: usize = 12;
/// A value up to this length has no free room when it is laid out: a copy of it costs little.
const TIGHT_BYTES_MAX: usize = 256;
/// What is mostly room has less than this part of its length in use.
const USED_SHARE_MIN: usize = 4;

/// A packed list has no more bytes of elements, unless it has few elements.
const PACKED_BYTES_MAX: usize = 8 << 10;
const FEW_ELEMENTS_MAX: usize = 16;
const FEW_BYTES_MAX: usize = 64 << 10;
/// A list in pages that has few elements of so few bytes is packed again.
const REPACKED_BYTES_MAX: usize = 2 << 10;

const FORMS: [Form; 2] = [Form::ELEMENTS, Form::ELEMENTS];

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
pub enum List<'a> {
    /// A short one.
    Packed(PackedList<'a>),
    /// A long one.
    Paged(View<'a>),
}

/// A short list.
#[derive(Clone, Copy, Debug)]
pub struct PackedList<'a> {
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
    /// Operations on its pages are; the value may become longer by so many bytes.
    Pages(usize),
}

impl Edit {
    /// What the cache is to do, for a key that goes at `deadline`.
    #[must_use]
    pub fn change(self, deadline: Deadline) -> Change {
        match self {
            Edit::Keep => Change::Keep,
            Edit::Remove => Change::Remove,
            Edit::Splice(splices) => Change::splice(splices.to_vec()),
            Edit::Pages(more) => Change::Edit {
                more,
                deadline,
                apply: Apply(apply),
            },
            Edit::Store => Change::Store {
                kind: LIST,
                deadline,
                flags: 0,
            },
        }
    }
}

/// What happens to the elements of a list in pages.
///
/// ```text
/// operation  [kind 1][number of an element 8][bytes, or how many elements 8][bytes]
/// ```
#[derive(Clone, Copy)]
enum Op<'a> {
    Insert(usize, &'a [u8]),
    Replace(usize, &'a [u8]),
    Remove(usize, usize),
}

impl<'a> Op<'a> {
    fn write(self, out: &mut Vec<u8>) {
        let (kind, number, count, bytes) = match self {
            Op::Insert(number, bytes) => (0, number, bytes.len(), bytes),
            Op::Replace(number, bytes) => (1, number, bytes.len(), bytes),
            Op::Remove(number, count) => (2, number, count, &[][..]),
        };
        out.push(kind);
        out.extend_from_slice(&(number as u64).to_le_bytes());
        out.extend_from_slice(&(count as u64).to_le_bytes());
        out.extend_from_slice(bytes);
    }

    fn read(bytes: &'a [u8]) -> (Op<'a>, &'a [u8]) {
        let (number, count) = (u64_at(bytes, 1) as usize, u64_at(bytes, 9) as usize);
        let rest = &bytes[17..];
        match bytes[0] {
            0 => (Op::Insert(number, &rest[..count]), &rest[count..]),
            1 => (Op::Replace(number, &rest[..count]), &rest[count..]),
            _ => (Op::Remove(number, count), rest),
        }
    }
}

/// Applies all operations in `ops` to a list in pages.
fn apply(value: &mut dyn ValueBytes, ops: &[u8]) {
    let mut edit = PagesEdit::of(value, FORMS);
    let mut rest = ops;
    while !rest.is_empty() {
        let (op, behind) = Op::read(rest);
        rest = behind;
        match op {
            Op::Insert(number, element) => {
                let spot = edit.view().insertion(number);
                edit.insert_element(spot, element);
            }
            Op::Replace(number, element) => {
                let spot = edit.view().at(Tree::First, number);
                edit.replace_element(spot, element);
            }
            Op::Remove(number, count) => edit.take_ranks(number, count),
        }
    }
}

impl<'a> List<'a> {
    /// The list in the bytes of a value. Cost: none that depends on its length.
    #[must_use]
    pub fn view(value: &'a [u8]) -> List<'a> {
        if is_paged(value) {
            return List::Paged(View::of(value, FORMS));
        }
        List::Packed(PackedList {
            value,
            count: u32_at(value, 0) as usize,
            start: u32_at(value, 4) as usize,
            end: u32_at(value, 8) as usize,
        })
    }

    /// One without elements, which no value holds.
    #[must_use]
    pub fn empty() -> List<'static> {
        List::Packed(PackedList {
            value: &[0; HEAD_BYTES],
            count: 0,
            start: HEAD_BYTES,
            end: HEAD_BYTES,
        })
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            List::Packed(list) => list.count,
            List::Paged(view) => view.len(Tree::First),
        }
    }

    /// Whether there are none; of a value that is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of the element with a number, for [`List::element`]. Cost: O(log n).
    #[must_use]
    pub fn place(&self, number: usize) -> usize {
        match self {
            List::Packed(list) => list.place(number),
            List::Paged(view) => view.at(Tree::First, number).to_number(),
        }
    }

    /// The element at a place, and the next one's place; none behind the last.
    #[must_use]
    pub fn element(&self, place: usize) -> Option<(Cow<'a, [u8]>, usize)> {
        match self {
            List::Packed(list) => (place < list.end).then(|| {
                let (element, next) = list.element(place);
                (Cow::Borrowed(element), next)
            }),
            List::Paged(view) => {
                let spot = view.settled(Spot::of_number(place))?;
                let element = view.bytes_of(view.entry(spot).text());
                Some((element, view.next(spot).to_number()))
            }
        }
    }

    /// The elements from the first on.
    pub fn iter(&self) -> impl Iterator<Item = Cow<'a, [u8]>> + use<'a> {
        let list = *self;
        let mut place = list.place(0);
        std::iter::from_fn(move || {
            let (element, next) = list.element(place)?;
            place = next;
            Some(element)
        })
    }

    /// The elements from the last on.
    pub fn iter_back(&self) -> impl Iterator<Item = Cow<'a, [u8]>> + use<'a> {
        let list = *self;
        let mut place = match list {
            List::Packed(list) => list.end,
            List::Paged(view) => view.end(Tree::First).to_number(),
        };
        std::iter::from_fn(move || match list {
            List::Packed(list) => (place > list.start).then(|| {
                place = list.before(place);
                Cow::Borrowed(list.element(place).0)
            }),
            List::Paged(view) => {
                let spot = view.before(Spot::of_number(place))?;
                place = spot.to_number();
                Some(view.bytes_of(view.entry(spot).text()))
            }
        })
    }

    /// The element with a number. Cost: O(log n).
    #[must_use]
    pub fn get(&self, number: usize) -> Option<Cow<'a, [u8]>> {
        if number >= self.len() {
            return None;
        }
        Some(self.element(self.place(number))?.0)
    }

    /// The number of the element with a number that may count from the end.
    #[must_use]
    pub fn number(&self, index: i64) -> Option<usize> {
        let from_end = i64::try_from(self.len()).ok()?;
        let index = if index < 0 {
            index.checked_add(from_end)?
        } else {
            index
        };
        let index = usize::try_from(index).ok()?;
        (index < self.len()).then_some(index)
    }

    /// The numbers from one to another that may both count from the end, as far as they are there.
    #[must_use]
    pub fn range(&self, first: i64, last: i64) -> Range<usize> {
        let count = i64::try_from(self.len()).unwrap_or(i64::MAX);
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

    /// Adds elements at an end, one after the other.
    pub fn push(&self, side: Side, elements: &[&[u8]], scratch: &mut Vec<u8>) -> Edit {
        let view = match self {
            List::Packed(list) => return list.push(side, elements, scratch),
            List::Paged(view) => view,
        };
        let count = self.len();
        let number = |place: usize| if side == Side::Left { 0 } else { count + place };
        let ops = elements.iter().enumerate();
        self.edit(
            view,
            ops.map(|(place, &element)| Op::Insert(number(place), element)),
            scratch,
        )
    }

    /// Takes elements away at both ends, all but those with numbers in a range.
    pub fn keep(&self, range: Range<usize>, scratch: &mut Vec<u8>) -> Edit {
        let view = match self {
            List::Packed(list) => return list.keep(range, scratch),
            List::Paged(view) => view,
        };
        let count = self.len();
        if range.len() == count {
            return Edit::Keep;
        }
        if range.is_empty() {
            return Edit::Remove;
        }
        if range.len() <= FEW_ELEMENTS_MAX {
            let mut place = self.place(range.start);
            let mut kept = Vec::new();
            for _ in range.clone() {
                let Some((element, next)) = self.element(place) else {
                    break;
                };
                if kept.len() + element.len() <= REPACKED_BYTES_MAX {
                    append(&element, &mut kept);
                } else {
                    kept.clear();
                    break;
                }
                place = next;
            }
            if !kept.is_empty() {
                return lay_out(&[&kept, &[], &[]], range.len(), (0, 0), scratch);
            }
        }
        let ops = [
            Op::Remove(range.end, count - range.end),
            Op::Remove(0, range.start),
        ];
        self.edit(view, ops.into_iter(), scratch)
    }

    /// Writes the list as it is: what took an element and put it back has changed the key.
    pub fn rewrite(&self, scratch: &mut Vec<u8>) -> Edit {
        match self {
            List::Packed(list) => list.rewrite(scratch),
            List::Paged(_) => Edit::Pages(0),
        }
    }

    /// Moves the element at one end to the other; one that is alone has nowhere to go.
    pub fn rotate(&self, from: Side, scratch: &mut Vec<u8>) -> Edit {
        let view = match self {
            List::Packed(list) => return list.rotate(from, scratch),
            List::Paged(view) => view,
        };
        let last = self.len() - 1;
        let (taken, put) = match from {
            Side::Left => (0, last),
            Side::Right => (last, 0),
        };
        let Some(element) = self.get(taken).filter(|_| last > 0) else {
            return Edit::Keep;
        };
        let ops = [Op::Remove(taken, 1), Op::Insert(put, &element)];
        self.edit(view, ops.into_iter(), scratch)
    }

    /// Puts an element in the place of the one with a number.
    pub fn set(&self, number: usize, element: &[u8], scratch: &mut Vec<u8>) -> Edit {
        match self {
            List::Packed(list) => {
                let at = list.place(number);
                list.replace(at..list.element(at).1, Some(element), scratch)
            }
            List::Paged(view) => {
                self.edit(view, std::iter::once(Op::Replace(number, element)), scratch)
            }
        }
    }

    /// Adds an element before the one with a number, or behind the last.
    pub fn insert(&self, number: usize, element: &[u8], scratch: &mut Vec<u8>) -> Edit {
        match self {
            List::Packed(list) => {
                let at = list.place(number);
                list.replace(at..at, Some(element), scratch)
            }
            List::Paged(view) => {
                self.edit(view, std::iter::once(Op::Insert(number, element)), scratch)
            }
        }
    }

    /// Removes the elements that equal this one: so many from the first on, from the last on if the
    /// number is negative, all if it is zero. How many those were.
    pub fn remove(&self, count: i64, element: &[u8], scratch: &mut Vec<u8>) -> (usize, Edit) {
        let view = match self {
            List::Packed(list) => return list.remove(count, element, scratch),
            List::Paged(view) => view,
        };
        let most = match usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) {
            0 => usize::MAX,
            most => most,
        };
        let is_it = |one: Cow<'_, [u8]>| *one == *element;
        let len = self.len();
        // The last ones first, so that the numbers of the others stay.
        let found: Vec<usize> = if count < 0 {
            let all = (0..len).rev().zip(self.iter_back());
            let all = all.filter_map(|(number, one)| is_it(one).then_some(number));
            all.take(most).collect()
        } else {
            let all = (0..len).zip(self.iter());
            let all = all.filter_map(|(number, one)| is_it(one).then_some(number));
            let mut found: Vec<usize> = all.take(most).collect();
            found.reverse();
            found
        };
        if found.is_empty() {
            return (0, Edit::Keep);
        }
        if found.len() == len {
            return (len, Edit::Remove);
        }
        let ops = found.iter().map(|&number| Op::Remove(number, 1));
        (found.len(), self.edit(view, ops, scratch))
    }

    /// Has operations applied to pages.
    fn edit<'o>(
        &self,
        view: &View<'_>,
        ops: impl Iterator<Item = Op<'o>>,
        scratch: &mut Vec<u8>,
    ) -> Edit {
        let mut plan = Plan::default();
        for op in ops {
            if let Op::Insert(number, element) | Op::Replace(number, element) = op {
                let replaces = matches!(op, Op::Replace(..));
                let spot = match replaces {
                    true => view.at(Tree::First, number),
                    false => view.insertion(number.min(self.len())),
                };
                plan.add(view, (Tree::First, spot, replaces), [element, &[]], false);
            }
            op.write(scratch);
        }
        Edit::Pages(plan.bytes(view))
    }
}

impl<'a> PackedList<'a> {
    /// The element that begins at a place, and where the next one does.
    fn element(&self, at: usize) -> (&'a [u8], usize) {
        let (len, from) = varint(self.value, at);
        let end = from + len;
        (&self.value[from..end], end + back_bytes(end - at))
    }

    /// Where the element begins that ends at a place.
    fn before(&self, end: usize) -> usize {
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
    fn iter(&self) -> impl Iterator<Item = (&'a [u8], Range<usize>)> {
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
    fn iter_back(&self) -> impl Iterator<Item = (&'a [u8], Range<usize>)> {
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
    fn place(&self, index: usize) -> usize {
        if index <= self.count / 2 {
            (0..index).fold(self.start, |at, _| self.element(at).1)
        } else {
            (index..self.count).fold(self.end, |end, _| self.before(end))
        }
    }

    /// The element at an end, and where it lies.
    fn at_end(&self, side: Side) -> Option<Range<usize>> {
        let number = match side {
            Side::Left => 0,
            Side::Right => self.count.checked_sub(1)?,
        };
        (self.count > 0).then(|| {
            let at = self.place(number);
            at..self.element(at).1
        })
    }

    fn push(&self, side: Side, elements: &[&[u8]], scratch: &mut Vec<u8>) -> Edit {
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
    fn keep(&self, range: Range<usize>, scratch: &mut Vec<u8>) -> Edit {
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

    /// Writes the list as it is: what took an element and put it back has changed the key.
    fn rewrite(&self, scratch: &mut Vec<u8>) -> Edit {
        scratch.extend_from_slice(&self.value[..HEAD_BYTES]);
        let head = Splice {
            at: 0,
            from: 0,
            len: HEAD_BYTES,
        };
        Edit::Splice([head, Splice::default()])
    }

    /// Moves the element at one end to the other; one that is alone has nowhere to go.
    fn rotate(&self, from: Side, scratch: &mut Vec<u8>) -> Edit {
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

    /// Puts an element, or none, in the place of what lies there.
    fn replace(&self, place: Range<usize>, element: Option<&[u8]>, scratch: &mut Vec<u8>) -> Edit {
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

    /// Removes the elements that equal this one: so many from the first on, from the last on if the
    /// number is negative, all if it is zero. How many those were.
    fn remove(&self, count: i64, element: &[u8], scratch: &mut Vec<u8>) -> (usize, Edit) {
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
        scratch[place * 4..place * 4 + 4].copy_from_slice(&(number as u32).to_le_bytes());
    }
}

/// Makes a value in pages of these elements.
fn make_pages(parts: &[&[u8]; 3], scratch: &mut Vec<u8>) {
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
fn lay_out(parts: &[&[u8]; 3], count: usize, rooms: (usize, usize), scratch: &mut Vec<u8>) -> Edit {
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

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
                Edit::Pages(more) => {
                    let before = self.0.len();
                    apply(&mut self.0, &scratch);
                    assert!(self.0.len() <= before + more, "as much as was foreseen");
                    if fastrand::u16(..512) == 0 {
                        View::of(&self.0, FORMS).check().unwrap();
                    }
                    return scratch.len();
                }
            }
            self.0.len()
        }

        fn push(&mut self, side: Side, element: &[u8]) -> usize {
            let mut scratch = Vec::new();
            let edit = self.list().push(side, &[element], &mut scratch);
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
                    let number = list.number(index as i64 - count as i64).unwrap();
                    let edit = list.set(number, &element, &mut scratch);
                    kept.apply(edit, scratch);
                    deque[index] = element;
                }
                10 if count > 0 => {
                    let index = random.usize(..=count);
                    let list = kept.list();
                    let edit = list.insert(index, &element, &mut scratch);
                    kept.apply(edit, scratch);
                    deque.insert(index, element);
                }
                12 if count > 0 => {
                    let side = *random.choice(&[Side::Left, Side::Right]).unwrap();
                    let edit = kept.list().rotate(side, &mut scratch);
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
                assert!(kept.list().iter().eq(deque.iter().map(|one| &one[..])));
                assert!(
                    kept.list()
                        .iter_back()
                        .eq(deque.iter().rev().map(|one| &one[..]))
                );
            }
        }
    }

    #[test]
    fn what_comes_and_goes_at_the_ends_copies_little() {
        const COUNT: usize = 10_000;
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

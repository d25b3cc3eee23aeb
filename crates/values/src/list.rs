//! List: elements in an order of their own, put in and taken out at both ends and between.
//!
//! A short list is packed; one that has become longer is made of pages.
//!
//! Why: docs/decisions/0044, 0074. Tests: at the end of this file, tests/model.rs.

use std::borrow::Cow;
use std::ops::Range;

use cellar_engine::{Apply, Change, Deadline, ValueBytes};

use crate::bytes::{u32_at, u64_at};
use crate::collection::LIST;
use crate::edit::Edit as PagesEdit;
pub use crate::packed_list::{Edit, PackedList, Side};
use crate::packed_list::{FEW_ELEMENTS_MAX, FORMS, HEAD_BYTES, append, lay_out};
use crate::page::Tree;
use crate::plan::Plan;
use crate::view::{Spot, View, is_paged};

/// A list in pages that has few elements of so few bytes is packed again.
const REPACKED_BYTES_MAX: usize = 2 << 10;

/// A list in the bytes of a value.
#[derive(Clone, Copy, Debug)]
pub enum List<'a> {
    /// A short one.
    Packed(PackedList<'a>),
    /// A long one.
    Paged(View<'a>),
}

impl Edit {
    /// The change that the cache is to make, for a key that expires at `deadline`.
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

/// An operation on the elements of a list in pages.
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
                let (entry, next) = view.entry_at(Tree::First, place)?;
                Some((view.bytes_of(entry.text()), next))
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

    /// The numbers of the elements that equal this one, from the first on. Cost: a comparison for
    /// each element.
    pub fn numbers_of<'b>(&self, element: &'b [u8]) -> impl Iterator<Item = usize> + use<'a, 'b> {
        let (packed, paged) = match *self {
            List::Packed(list) => (Some(list), None),
            List::Paged(view) => (None, Some(view.ranks_of(Tree::First, element))),
        };
        let packed = packed.into_iter().flat_map(|list| list.iter().enumerate());
        let packed = packed.filter(move |(_, (one, _))| *one == element);
        let packed = packed.map(|(number, _)| number);
        packed.chain(paged.into_iter().flatten())
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

    /// Writes the list unchanged: a command that took an element and put it back has changed the
    /// key.
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

    /// Removes the elements that equal this one: `count` from the first on, from the last on if it
    /// is negative, all if it is zero. Returns how many those were.
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
            let mut found: Vec<usize> = self.numbers_of(element).take(most).collect();
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
        let mut plan = match ops.size_hint() {
            (_, Some(1)) => Plan::single(),
            _ => Plan::default(),
        };
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use cellar_engine::Splice;

    use super::*;
    use crate::packed_list::TIGHT_BYTES_MAX;

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

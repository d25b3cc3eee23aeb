//! Pending: operations of one command on a value in pages, which it sees before they are applied.
//!
//! ```text
//! operation  [kind 1][0, or 1 with a tail, or 2 with a keyed spot as well][tail 8]
//!            [member bytes 4][second bytes 4][place 22][keyed 8][member][second]
//! place      [page 4][index + 1, or 0 if it is not there, 4][end 4][child 2][hash 8], of the first
//! keyed      [page 4][index 2][child 2], of an operation that is alone
//! ```

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;

use smallvec::SmallVec;

use crate::bytes::{put, u16_at, u32_at, u64_at};
use crate::digest::hash;
use crate::entry::SHORT_BYTES;
use crate::page::Tree;
use crate::plan::Plan;
use crate::table::Place;
use crate::view::{Spot, View};

const FRONT_BYTES: usize = 48;
/// Offset of the place.
const PLACE_AT: usize = 18;
/// Offset of the spot in the second tree.
const KEYED_AT: usize = 40;
/// The second byte of an operation that has one.
const HAS_KEYED: u8 = 2;
/// Number of operations from which on a table finds them.
const TABLE_FROM: usize = 16;

/// An operation on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    /// Stores it, with these texts and this tail.
    Put = 0,
    /// It is not there.
    Remove = 1,
    /// It has this tail, or none, and else stays as it is.
    SetTail = 2,
    /// Of the second tree those from the rank in `tail` on are removed, as many as `second` says.
    RemoveRange = 3,
}

/// An operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op<'a> {
    pub(crate) kind: OpKind,
    pub(crate) member: &'a [u8],
    pub(crate) second: &'a [u8],
    pub(crate) tail: Option<u64>,
    /// How many members it adds; removed ones are negative.
    pub(crate) added: isize,
    /// Where its member is in the value before anything is changed.
    pub(crate) place: Option<Place>,
    /// Where the member will be in the second tree, or where the first that is removed is, if it is
    /// known and the second tree is as it was.
    pub(crate) keyed: Option<Spot>,
}

impl<'a> Op<'a> {
    pub(crate) fn put(
        member: &'a [u8],
        second: &'a [u8],
        tail: Option<u64>,
        is_new: bool,
    ) -> Op<'a> {
        Op {
            kind: OpKind::Put,
            member,
            second,
            tail,
            added: is_new.into(),
            place: None,
            keyed: None,
        }
    }

    pub(crate) fn remove(member: &'a [u8]) -> Op<'a> {
        Op {
            kind: OpKind::Remove,
            member,
            second: &[],
            tail: None,
            added: -1,
            place: None,
            keyed: None,
        }
    }

    /// Writes the bytes of the operation before its texts over zeros.
    fn write_front(&self, front: &mut [u8; FRONT_BYTES]) {
        (front[0], front[1]) = (self.kind as u8, self.tail.is_some().into());
        put(front, 2, self.tail.unwrap_or(0).to_le_bytes());
        put(front, 10, (self.member.len() as u32).to_le_bytes());
        put(front, 14, (self.second.len() as u32).to_le_bytes());
        if let Some(place) = &self.place {
            write_place(place, &mut front[PLACE_AT..]);
        }
        if let Some(spot) = self.keyed {
            write_keyed(spot, front);
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut front = [0; FRONT_BYTES];
        self.write_front(&mut front);
        out.extend_from_slice(&front);
        out.extend_from_slice(self.member);
        out.extend_from_slice(self.second);
    }

    /// Where the member is, for the operation that comes first.
    pub(crate) fn place_in(&self, view: &View<'_>) -> Place {
        self.place.unwrap_or_else(|| view.find(self.member))
    }

    /// The operation that these bytes begin with, and those behind it.
    pub(crate) fn read(bytes: &'a [u8]) -> (Op<'a>, &'a [u8]) {
        let (member, second) = (u32_at(bytes, 10) as usize, u32_at(bytes, 14) as usize);
        let (texts, rest) = bytes[FRONT_BYTES..].split_at(member + second);
        let op = Op {
            kind: match bytes[0] {
                0 => OpKind::Put,
                1 => OpKind::Remove,
                2 => OpKind::SetTail,
                _ => OpKind::RemoveRange,
            },
            member: &texts[..member],
            second: &texts[member..],
            tail: (bytes[1] != 0).then(|| u64_at(bytes, 2)),
            added: 0,
            place: read_place(&bytes[PLACE_AT..KEYED_AT]),
            keyed: (bytes[1] == HAS_KEYED).then(|| read_keyed(&bytes[KEYED_AT..])),
        };
        (op, rest)
    }
}

fn write_place(place: &Place, out: &mut [u8]) {
    let Spot { page, index, child } = place.end;
    let found = place.found.map_or(0, |spot| spot.index as u32 + 1);
    put(out, 0, page.to_le_bytes());
    put(out, 4, found.to_le_bytes());
    put(out, 8, (index as u32 + 1).to_le_bytes());
    put(out, 12, child.to_le_bytes());
    put(out, 14, place.hash.to_le_bytes());
}

fn read_place(bytes: &[u8]) -> Option<Place> {
    let (page, end) = (u32_at(bytes, 0), u32_at(bytes, 8) as usize);
    let spot = |number: usize| Spot {
        page,
        index: number - 1,
        child: u16_at(bytes, 12) as u16,
    };
    let found = u32_at(bytes, 4) as usize;
    (end > 0).then(|| Place {
        found: (found > 0).then(|| spot(found)),
        end: spot(end),
        hash: u64_at(bytes, 14),
    })
}

/// Writes a spot into the front of an operation.
fn write_keyed(spot: Spot, front: &mut [u8]) {
    front[1] = HAS_KEYED;
    put(front, KEYED_AT, spot.page.to_le_bytes());
    put(front, KEYED_AT + 4, (spot.index as u16).to_le_bytes());
    put(front, KEYED_AT + 6, spot.child.to_le_bytes());
}

fn read_keyed(bytes: &[u8]) -> Spot {
    Spot {
        page: u32_at(bytes, 0),
        index: u16_at(bytes, 4),
        child: u16_at(bytes, 6) as u16,
    }
}

/// Pending operations, the last one of each member.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    bytes: SmallVec<[u8; SHORT_BYTES]>,
    /// Where each operation lies.
    ops: SmallVec<[Range<usize>; 1]>,
    /// Which operation a member has, once there are many.
    table: Option<HashMap<Box<[u8]>, usize>>,
    added: isize,
    /// Whether any operation sets the tail of a member.
    has_tails: bool,
    /// Whether any operation may need pages: one that does not remove a member.
    may_grow: bool,
    /// The place of the last lookup among the stored members: usually that member is changed next.
    looked_up: Cell<Option<Place>>,
}

impl Pending {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Whether they take more than constant time.
    pub(crate) fn is_heavy(&self) -> bool {
        self.ops.len() >= TABLE_FROM || self.added.unsigned_abs() >= TABLE_FROM
    }

    pub(crate) fn added(&self) -> isize {
        self.added
    }

    /// Whether any operation sets the tail of a member.
    pub(crate) fn has_tails(&self) -> bool {
        self.has_tails
    }

    /// The operations.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Op<'_>> {
        self.ops
            .iter()
            .map(|op| Op::read(&self.bytes[op.clone()]).0)
    }

    fn place_of(&self, member: &[u8]) -> Option<usize> {
        if self.ops.len() >= TABLE_FROM {
            return self.table.as_ref()?.get(member).copied();
        }
        let is_it = |op: &Range<usize>| Op::read(&self.bytes[op.clone()]).0.member == member;
        self.ops.iter().position(is_it)
    }

    /// The operation on a member.
    pub(crate) fn find(&self, member: &[u8]) -> Option<Op<'_>> {
        let place = self.place_of(member)?;
        Some(Op::read(&self.bytes[self.ops[place].clone()]).0)
    }

    /// Adds an operation; it takes the place of one on the same member.
    pub(crate) fn push(&mut self, op: &Op<'_>) {
        let place = match op.kind {
            OpKind::RemoveRange => None,
            _ => self.place_of(op.member),
        };
        let start = self.bytes.len();
        match place.and_then(|place| self.find_at(place)) {
            // The texts of the member come from the `Put` before.
            Some(before) if op.kind == OpKind::SetTail && before.kind == OpKind::Put => {
                let mut bytes = Vec::new();
                Op {
                    tail: op.tail,
                    ..before
                }
                .write(&mut bytes);
                self.bytes.extend_from_slice(&bytes);
            }
            _ => self.append(op),
        }
        let range = start..self.bytes.len();
        self.added += op.added;
        self.has_tails |= op.tail.is_some();
        self.may_grow |= matches!(op.kind, OpKind::Put | OpKind::SetTail);
        match place {
            Some(place) => self.ops[place] = range,
            None => {
                self.ops.push(range);
                self.note_in_table(op.member);
            }
        }
    }

    fn append(&mut self, op: &Op<'_>) {
        let mut bytes = [0; SHORT_BYTES];
        let (front, texts) = bytes.split_first_chunk_mut().expect("a front is short");
        op.write_front(front);
        let (member, second) = (op.member.len(), op.second.len());
        if self.bytes.is_empty() && member + second <= texts.len() {
            texts[..member].copy_from_slice(op.member);
            texts[member..member + second].copy_from_slice(op.second);
            self.bytes = SmallVec::from_buf_and_len(bytes, FRONT_BYTES + member + second);
            return;
        }
        self.bytes.extend_from_slice(front);
        self.bytes.extend_from_slice(op.member);
        self.bytes.extend_from_slice(op.second);
    }

    fn find_at(&self, place: usize) -> Option<Op<'_>> {
        let range = self.ops.get(place)?;
        Some(Op::read(&self.bytes[range.clone()]).0)
    }

    fn note_in_table(&mut self, member: &[u8]) {
        let count = self.ops.len();
        if count == TABLE_FROM {
            let members = self.iter().map(|op| Box::from(op.member)).zip(0..);
            self.table = Some(members.collect());
        } else if let Some(table) = &mut self.table {
            table.insert(member.into(), count - 1);
        }
    }

    /// Looks a member up among the stored ones.
    pub(crate) fn look_up(&self, view: &View<'_>, member: &[u8]) -> Place {
        let place = self.place_of_stored(view, member);
        self.looked_up.set(Some(place));
        place
    }

    /// Finds a member among the stored ones; uses the result of the last look-up if it is the same.
    pub(crate) fn place_of_stored(&self, view: &View<'_>, member: &[u8]) -> Place {
        let hash = hash(view.seed(), member);
        let last = self.looked_up.get().filter(|place| place.hash == hash);
        last.unwrap_or_else(|| view.find_hashed(member, hash))
    }

    /// Bytes that the operations need behind the value's end, where tails have these keys in the
    /// second tree.
    pub(crate) fn bytes(&mut self, view: &View<'_>, key_of: fn(u64) -> [u8; 8]) -> usize {
        match self.may_grow {
            true => self.plan(view, key_of).bytes(view),
            false => 0,
        }
    }

    fn plan(&mut self, view: &View<'_>, key_of: fn(u64) -> [u8; 8]) -> Plan {
        let mut keyed = None;
        let mut plan = match self.ops.len() {
            1 => Plan::single(),
            _ => Plan::default(),
        };
        for op in self.iter() {
            if !matches!(op.kind, OpKind::Put | OpKind::SetTail) {
                plan.remove();
                continue;
            }
            let stored = || self.place_of_stored(view, op.member);
            let place = op.place.unwrap_or_else(stored);
            if place
                .found
                .is_some_and(|spot| view.entry(spot).tail().is_some())
            {
                // Its entry in the second tree is removed.
                plan.remove();
            }
            match (op.kind, place.found) {
                (OpKind::SetTail, Some(spot)) => {
                    let is_longer = op.tail.is_some() && view.entry(spot).tail().is_none();
                    plan.lengthen(view, Tree::First, spot, if is_longer { 8 } else { 0 });
                }
                _ => {
                    let at = (Tree::First, place.spot(), place.found.is_some());
                    plan.add(view, at, [op.member, op.second], op.tail.is_some());
                }
            }
            if let Some(tail) = op.tail {
                let spot = view.spot_of(key_of(tail), op.member);
                let at = (Tree::Second, spot, false);
                plan.add(view, at, [op.member, &[]], false);
                keyed = Some(spot);
            }
        }
        if let ([op], Some(spot)) = (&self.ops[..], keyed) {
            // Where the change of the first tree frees pages, the type does not use it.
            write_keyed(spot, &mut self.bytes[op.start..]);
        }
        plan
    }

    /// Appends the operations.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for op in &self.ops {
            out.extend_from_slice(&self.bytes[op.clone()]);
        }
    }
}

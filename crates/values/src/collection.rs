//! Collection: the forms and changes that hashes, sets and sorted sets have in common.
//!
//! A small value is packed: entries one after the other, which a change rewrites. A larger one is
//! made of pages, and a change is a list of operations that are applied in place. A command sees
//! the value with its own operations at once, so that it may still fail and change nothing. A newly
//! made collection is in pages of its own.

use cellar_engine::{Apply, Change, Deadline, Instant, Kind};

use crate::edit::Edit;
use crate::entry::Form;
use crate::packed::{Packed, Shape};
use crate::page::Tree;
use crate::pending::{Op, OpKind, Pending};
use crate::table::Place;
use crate::view::{IS_TIMED_AT, View, is_paged};

/// A hash.
pub const HASH: Kind = Kind(1);
/// A set.
pub const SET: Kind = Kind(2);
/// A sorted set.
pub const SORTED_SET: Kind = Kind(3);
/// A list.
pub const LIST: Kind = Kind(4);

/// Most members of a packed collection, and most bytes.
pub(crate) const PACKED_MEMBERS_MAX: usize = 128;
const PACKED_BYTES_MAX: usize = 3 << 10;
/// Members that may be longer: pages would take more memory than they are worth.
const FEW_MEMBERS_MAX: usize = 16;
const FEW_BYTES_MAX: usize = 64 << 10;
/// A collection in pages is packed again when it has so few members and no more bytes than these.
const REPACKED_MEMBERS_MAX: usize = 32;
const REPACKED_BYTES_MAX: usize = 8 << 10;

/// Whether so many members of so many bytes in all are packed.
pub(crate) fn is_packed(members: usize, bytes: usize) -> bool {
    let is_small = members <= PACKED_MEMBERS_MAX && bytes <= PACKED_BYTES_MAX;
    is_small || members <= FEW_MEMBERS_MAX && bytes <= FEW_BYTES_MAX
}

/// Makes the cache store the contents of the scratch buffer.
pub(crate) fn store(kind: Kind, deadline: Deadline) -> Change {
    Change::Store {
        kind,
        deadline,
        flags: 0,
    }
}

/// A collection that a command changes.
pub trait Collection<'v>: Sized {
    /// The type of the value, as Redis defines it.
    const KIND: Kind;

    /// A collection without members, which expires at `deadline`.
    fn empty(deadline: Deadline, now: Instant) -> Self;

    /// The collection in the bytes of a value; members that have expired at `now` are left out.
    fn open(value: &'v [u8], deadline: Deadline, now: Instant) -> Self;

    /// Whether it is other than it was.
    fn is_changed(&self) -> bool;

    /// Takes the names of members that were left out because they had expired.
    fn take_expired(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Whether it has no members.
    fn is_empty(&self) -> bool;

    /// When the first of its members expires.
    fn next_deadline(&self) -> Deadline {
        Deadline::NEVER
    }

    /// Whether the change takes more than constant time.
    fn is_heavy(&self) -> bool;

    /// The change that the cache is to make; its bytes are put into the scratch buffer.
    fn finish(self, scratch: &mut Vec<u8>) -> Change;
}

/// Drops members that have expired at `now`; returns the change for the cache, and the dropped
/// members. A large collection may keep some.
pub fn without_expired<'v, C: Collection<'v>>(
    value: &'v [u8],
    deadline: Deadline,
    now: Instant,
    scratch: &mut Vec<u8>,
) -> (Vec<Vec<u8>>, Change) {
    let mut collection = C::open(value, deadline, now);
    let expired = collection.take_expired();
    let change = if expired.is_empty() {
        Change::Keep
    } else if collection.is_empty() {
        Change::Remove
    } else {
        collection.finish(scratch)
    };
    (expired, change)
}

/// A kind of collection, independent of the value that contains it.
pub trait Family {
    /// One of it in a value.
    type Of<'v>: Collection<'v>;
}

/// A collection whose members may have deadlines: a hash or a set.
pub trait Expiring {
    /// The deadline of a member that is there. Cost: O(log n).
    fn deadline(&self, member: &[u8]) -> Option<Deadline>;

    /// Gives a member another deadline, if it is there. Cost: O(log n).
    fn retime(&mut self, member: &[u8], deadline: Deadline);

    /// Removes a member; whether it was there. Cost: O(log n).
    fn remove(&mut self, member: &[u8]) -> bool;
}

/// Members of a shape, in one of the forms that they have.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives for one command, and a box would be an allocation for each"
)]
#[derive(Debug)]
pub(crate) enum Members<'v, S> {
    Packed(Packed<'v, S>),
    /// Pages in the cache, and the pending operations.
    Paged(View<'v>, Pending),
    /// Pages of its own.
    Built(Vec<u8>),
}

/// A member as a command sees it.
pub(crate) struct Seen {
    /// The tail behind its texts, if the member exists.
    pub(crate) tail: Option<Option<u64>>,
    /// The position that it has or would have in the pages, if no operation is pending for it.
    pub(crate) place: Option<Place>,
}

/// How a type applies an operation, and the entry forms of its trees.
pub(crate) trait Rules: Shape {
    const FORMS: [Form; 2];
    const APPLY: Apply;

    /// The entry forms of the trees of a value in pages.
    fn forms(_value: &[u8]) -> [Form; 2] {
        Self::FORMS
    }

    /// The key of a tail in the second tree.
    fn key_of(tail: u64) -> [u8; 8];

    fn apply(edit: &mut Edit<'_, dyn cellar_engine::ValueBytes + '_>, op: &Op<'_>);
}

impl<'v, S: Rules> Members<'v, S> {
    pub(crate) fn empty() -> Members<'v, S> {
        Members::Packed(Packed::empty())
    }

    /// The members in the bytes of a value, or of the part of it that has them.
    pub(crate) fn read(value: &'v [u8], packed: &'v [u8]) -> Members<'v, S> {
        if is_paged(value) {
            return Members::Paged(View::of(value, S::forms(value)), Pending::default());
        }
        Members::Packed(Packed::read(packed))
    }

    /// The pages, if it is made of some.
    pub(crate) fn view(&self) -> Option<View<'_>> {
        match self {
            Members::Packed(_) => None,
            Members::Paged(view, _) => Some(*view),
            Members::Built(value) => Some(View::of(value, S::forms(value))),
        }
    }

    /// The pending operations, if there may be some.
    pub(crate) fn pending(&self) -> Option<&Pending> {
        match self {
            Members::Paged(_, pending) => Some(pending),
            _ => None,
        }
    }

    /// Looks a member up in the pages, if there are some; pending operations are ignored.
    pub(crate) fn look_up(&self, member: &[u8]) -> Option<Place> {
        match self {
            Members::Packed(_) => None,
            Members::Paged(view, pending) => Some(pending.look_up(view, member)),
            Members::Built(_) => self.view().map(|view| view.find(member)),
        }
    }

    /// Where a member is, or would be, in the pages, if nothing is pending for it.
    pub(crate) fn place_of(&self, member: &[u8]) -> Option<Place> {
        match self.pending().and_then(|pending| pending.find(member)) {
            None => self.look_up(member),
            Some(_) => None,
        }
    }

    /// A member of a collection that is not packed, after the pending operations.
    pub(crate) fn seen(&self, member: &[u8]) -> Seen {
        if let Some(op) = self.pending().and_then(|pending| pending.find(member)) {
            return Seen {
                tail: (op.kind != OpKind::Remove).then_some(op.tail),
                place: None,
            };
        }
        let place = self.look_up(member);
        let found = place.and_then(|place| place.found);
        let tail = found.zip(self.view());
        Seen {
            tail: tail.map(|(spot, view)| view.entry(spot).tail()),
            place,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Members::Packed(packed) => packed.len(),
            Members::Paged(view, pending) => {
                view.len(Tree::First).saturating_add_signed(pending.added())
            }
            Members::Built(_) => self.view().map_or(0, |view| view.len(Tree::First)),
        }
    }

    /// Whether the change takes more than constant time.
    pub(crate) fn is_heavy(&self) -> bool {
        match self {
            Members::Packed(_) => false,
            Members::Paged(_, pending) => pending.is_heavy(),
            Members::Built(_) => true,
        }
    }

    /// Applies an operation to a collection that is not packed.
    pub(crate) fn apply(&mut self, op: &Op<'_>) {
        match self {
            Members::Packed(_) => {}
            Members::Paged(_, pending) if op.kind == OpKind::RemoveRange => pending.push(op),
            Members::Paged(view, pending) => {
                let place = op.place.unwrap_or_else(|| pending.look_up(view, op.member));
                pending.push(&Op {
                    place: Some(place),
                    ..*op
                });
            }
            Members::Built(value) => {
                let forms = S::forms(value);
                let value: &mut dyn cellar_engine::ValueBytes = value;
                S::apply(&mut Edit::of(value, forms), op);
            }
        }
    }

    /// Removes a member that is there, at this place if it is known.
    pub(crate) fn remove(&mut self, member: &[u8], place: Option<Place>) {
        let Members::Packed(packed) = self else {
            return self.apply(&Op {
                place,
                ..Op::remove(member)
            });
        };
        if let Some(at) = packed.find(member).map(|entry| entry.at) {
            packed.remove(at);
        }
    }

    /// Has pages of its own, of these forms, if the members have become too many or too long to be
    /// packed.
    pub(crate) fn unpack_if_large(
        &mut self,
        more: usize,
        forms: [Form; 2],
        op_of: impl Fn(&mut Vec<u8>, &crate::packed::Entry<'_>),
    ) {
        let Members::Packed(packed) = &*self else {
            return;
        };
        if is_packed(packed.len() + 1, packed.bytes() + more) {
            return;
        }
        let mut value = Vec::new();
        Edit::create(&mut value, forms, fastrand::u64(..));
        let mut op = Vec::new();
        for entry in packed.iter() {
            op.clear();
            op_of(&mut op, &entry);
            let (op, _) = Op::read(&op);
            let value: &mut dyn cellar_engine::ValueBytes = &mut value;
            S::apply(&mut Edit::of(value, forms), &op);
        }
        *self = Members::Built(value);
    }

    /// The bytes of pages that are to be packed again, with the pending operations; `None` if they
    /// are not.
    pub(crate) fn bytes_to_repack(&self) -> Option<Vec<u8>> {
        let Members::Paged(view, pending) = self else {
            return None;
        };
        if self.len() > REPACKED_MEMBERS_MAX || view.bytes.len() > REPACKED_BYTES_MAX {
            return None;
        }
        let (mut copy, mut ops) = (view.bytes.to_vec(), Vec::new());
        // The value itself may not say it yet.
        copy[IS_TIMED_AT] |= u8::from(view.forms != S::FORMS);
        pending.write(&mut ops);
        apply_all::<S>(&mut copy, &ops);
        Some(copy)
    }

    /// The change that the cache is to make for members that are not packed.
    pub(crate) fn finish_paged(
        &mut self,
        kind: Kind,
        deadline: Deadline,
        scratch: &mut Vec<u8>,
    ) -> Change {
        match self {
            Members::Paged(view, pending) => {
                let more = pending.bytes(view, S::key_of);
                pending.write(scratch);
                Change::Edit {
                    more,
                    deadline,
                    apply: S::APPLY,
                }
            }
            Members::Built(value) => {
                *scratch = std::mem::take(value);
                store(kind, deadline)
            }
            Members::Packed(packed) => {
                packed.write(scratch);
                store(kind, deadline)
            }
        }
    }
}

/// Applies all operations in `ops` to a value.
pub(crate) fn apply_all<S: Rules>(value: &mut dyn cellar_engine::ValueBytes, ops: &[u8]) {
    let mut rest = ops;
    while !rest.is_empty() {
        let (mut op, behind) = Op::read(rest);
        if rest.len() < ops.len() {
            // Operations before it may have moved the member.
            (op.place, op.keyed) = (None, None);
        }
        let forms = S::forms(value.bytes());
        S::apply(&mut Edit::of(value, forms), &op);
        rest = behind;
    }
}

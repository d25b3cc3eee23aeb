//! Set: members without anything else.

use std::borrow::Cow;

use cellar_engine::{Apply, Change, Deadline, Instant, Kind, ValueBytes};

use crate::collection::{Collection, Family, Members, Rules, SET, apply_all, store};
use crate::digest::Hasher;
use crate::edit::Edit;
use crate::entry::Form;
use crate::packed::{Packed, Shape};
use crate::pending::{Op, OpKind};
use crate::view::{Tree, View, is_paged};

/// Nothing belongs to a member.
#[derive(Debug)]
pub(crate) struct Bare;

impl Shape for Bare {
    fn payload_bytes(_bytes: &[u8]) -> usize {
        0
    }
}

impl Rules for Bare {
    const FORMS: [Form; 2] = [Form::MEMBERS, Form::KEYED];
    const APPLY: Apply = Apply(apply_all::<Bare>);

    fn key_of(_tail: u64) -> [u8; 8] {
        [0; 8]
    }

    fn apply(edit: &mut Edit<'_, dyn ValueBytes + '_>, op: &Op<'_>) {
        let place = op.place_in(&edit.view());
        match (op.kind, place.found) {
            (OpKind::Put, None) => edit.put_sure(&place, [op.member, &[]], None),
            (OpKind::Remove, Some(spot)) => edit.take(Tree::First, spot),
            _ => {}
        }
    }
}

/// Sets, for what changes one.
#[derive(Debug)]
pub struct Sets;

impl Family for Sets {
    type Of<'v> = Set<'v>;
}

/// A set.
#[derive(Debug)]
pub struct Set<'v> {
    own: Deadline,
    is_changed: bool,
    pub(crate) members: Members<'v, Bare>,
}

/// A stored set for many look-ups, with the hash function that they share.
#[derive(Clone, Copy, Debug)]
pub struct Lookups<'v> {
    value: &'v [u8],
    /// None for a packed set.
    hasher: Option<Hasher>,
}

impl<'v> Lookups<'v> {
    /// Prepares look-ups in the set that a value contains.
    #[must_use]
    pub fn of(value: &'v [u8]) -> Lookups<'v> {
        let hasher = is_paged(value).then(|| Hasher::of(View::of(value, Bare::FORMS).seed()));
        Lookups { value, hasher }
    }

    /// Whether the set has a member. Cost: O(log n).
    #[must_use]
    pub fn has(&self, member: &[u8]) -> bool {
        let Some(hasher) = &self.hasher else {
            return Packed::<Bare>::read(self.value).find(member).is_some();
        };
        let view = View::of(self.value, Bare::FORMS);
        view.find_hashed(member, hasher.hash(member))
            .found
            .is_some()
    }
}

impl<'v> Set<'v> {
    /// The set in the bytes of a value. Cost: none that depends on its length.
    #[must_use]
    pub fn view(value: &'v [u8]) -> Set<'v> {
        Set {
            own: Deadline::NEVER,
            is_changed: false,
            members: Members::read(value, value),
        }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none; of a value that is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has a member. Cost: O(log n).
    #[inline]
    #[must_use]
    pub fn has(&self, member: &[u8]) -> bool {
        if let Some(op) = self
            .members
            .pending()
            .and_then(|pending| pending.find(member))
        {
            return op.kind == OpKind::Put;
        }
        match &self.members {
            Members::Packed(packed) => packed.find(member).is_some(),
            members => members
                .look_up(member)
                .is_some_and(|place| place.found.is_some()),
        }
    }

    /// All members, without what is pending.
    pub fn iter(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.iter_from(0).map(|(member, _)| member)
    }

    /// The members from a place on, each with the place behind it; the first place is zero.
    pub fn iter_from(&self, at: usize) -> impl Iterator<Item = (Cow<'_, [u8]>, usize)> {
        let mut at = at;
        std::iter::from_fn(move || {
            let (member, next) = self.member_at(at)?;
            at = next;
            Some((member, next))
        })
    }

    /// The member at a position and the position after it; the first position is zero. Cost: does
    /// not depend on the number of members.
    #[must_use]
    pub fn member_at(&self, at: usize) -> Option<(Cow<'_, [u8]>, usize)> {
        if let Members::Packed(packed) = &self.members {
            return (at < packed.bytes()).then(|| {
                let entry = packed.entry(at);
                (Cow::Borrowed(entry.member), entry.end)
            });
        }
        let view = self.members.view()?;
        let (entry, next) = view.entry_at(Tree::First, at)?;
        Some((view.bytes_of(entry.text()), next))
    }

    /// Shows about `count` members whose hashes are not before `cursor`, and says where to go on;
    /// zero at the end. A small set is shown at once.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&[u8])) -> u64 {
        match (&self.members, self.members.view()) {
            (Members::Packed(packed), _) => {
                packed.iter().for_each(|entry| show(entry.member));
                0
            }
            (_, Some(view)) => view.scan(cursor, count, |entry| {
                show(&view.bytes_of(entry.text()));
            }),
            (_, None) => 0,
        }
    }

    /// The member of a rank in the order of [`Set::iter`]. Cost: O(log n).
    #[must_use]
    pub fn nth(&self, rank: usize) -> Option<Cow<'_, [u8]>> {
        if let Members::Packed(packed) = &self.members {
            return packed
                .iter()
                .nth(rank)
                .map(|entry| Cow::Borrowed(entry.member));
        }
        let view = self.members.view()?;
        let spot = view.settled(view.at(Tree::First, rank))?;
        Some(view.bytes_of(view.entry(spot).text()))
    }

    /// Some member, each as likely as the others.
    #[must_use]
    pub fn random(&self) -> Option<Cow<'_, [u8]>> {
        let len = self.len();
        if len == 0 {
            None
        } else {
            self.nth(fastrand::usize(..len))
        }
    }

    /// Whether all members are integers.
    #[must_use]
    pub fn is_of_integers(&self) -> bool {
        self.iter().all(|member| is_integer(&member))
    }

    /// Adds a member; whether it is new.
    pub fn add(&mut self, member: &[u8]) -> bool {
        let built = self.members.look_up_built(member);
        let is_there = match built {
            Some(place) => place.found.is_some(),
            None => self.has(member),
        };
        if is_there {
            return false;
        }
        self.is_changed = true;
        let more = member.len();
        self.members.unpack_if_large(more, |out, entry| {
            Op::put(entry.member, &[], None, true).write(out);
        });
        match &mut self.members {
            Members::Packed(packed) => packed.push(member, &[&[]; 3]),
            members => members.apply(&Op {
                place: built,
                ..Op::put(member, &[], None, true)
            }),
        }
        true
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        if !self.has(member) {
            return false;
        }
        self.is_changed = true;
        self.members.remove(member);
        true
    }

    /// Takes out so many members, any as likely as the others, or all there are, and shows each.
    /// Nothing else is pending.
    pub fn pop_some(&mut self, count: usize, mut show: impl FnMut(&[u8])) {
        let len = self.len();
        let mut ranks = fastrand::choose_multiple(0..len, count.min(len));
        ranks.sort_unstable();
        let popped: Vec<Vec<u8>> = if ranks.len() == len {
            self.iter().map(Cow::into_owned).collect()
        } else {
            let members = ranks.iter().filter_map(|&rank| self.nth(rank));
            members.map(Cow::into_owned).collect()
        };
        for member in popped {
            show(&member);
            self.remove(&member);
        }
    }
}

/// Whether a text is an integer of 64 bits as it would be written.
#[must_use]
pub fn is_integer(text: &[u8]) -> bool {
    let number: Option<i64> = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    number.is_some_and(|number| itoa::Buffer::new().format(number).as_bytes() == text)
}

impl<'v> Collection<'v> for Set<'v> {
    const KIND: Kind = SET;

    fn empty(deadline: Deadline, _now: Instant) -> Set<'v> {
        Set {
            own: deadline,
            is_changed: false,
            members: Members::empty(),
        }
    }

    fn open(value: &'v [u8], deadline: Deadline, _now: Instant) -> Set<'v> {
        Set {
            own: deadline,
            ..Set::view(value)
        }
    }

    fn is_changed(&self) -> bool {
        self.is_changed
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_heavy(&self) -> bool {
        self.members.is_heavy()
    }

    fn finish(self, scratch: &mut Vec<u8>) -> Change {
        if let Some(copy) = self.members.bytes_to_repack() {
            let copy = View::of(&copy, Bare::FORMS);
            let mut packed: Packed<'_, Bare> = Packed::empty();
            for entry in copy.iter(Tree::First) {
                packed.push(&copy.bytes_of(entry.text()), &[&[]; 3]);
            }
            packed.write(scratch);
            return store(SET, self.own);
        }
        self.members.finish_paged(SET, self.own, scratch)
    }
}

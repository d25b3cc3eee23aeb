//! Set: members without anything else, or with a deadline.
//!
//! A small set of integers has them as numbers ([`Integers`]).
//!
//! A set whose members never had deadlines has nothing beside them. The first deadline makes a hash
//! without values of it: a small one is written anew, and pages stay as they are. A small set of
//! whose deadlines none is left becomes a plain set again.

use std::borrow::Cow;

use cellar_engine::{Apply, Change, Deadline, Instant, Kind, ValueBytes};

use crate::collection::{
    Collection, Expiring, Family, HASH, Members, Rules, SET, apply_all, store,
};
use crate::digest::Hasher;
use crate::edit::Edit;
use crate::entry::Form;
use crate::field::Fields;
use crate::hash::{Hash, OWN_AT, raw};
use crate::integers::{self, Integers, Member};
use crate::packed::{Packed, Shape};
use crate::page::Tree;
use crate::pending::{Op, OpKind};
use crate::table::Place;
use crate::view::{IS_TIMED_AT, View, is_paged};

/// Nothing belongs to a member.
#[derive(Debug)]
pub(crate) struct Bare;

impl Shape for Bare {
    fn payload_bytes(_bytes: &[u8], _is_short: bool) -> usize {
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

/// A set, as it is at a moment.
#[derive(Debug)]
pub struct Set<'v> {
    /// The key's own deadline.
    own: Deadline,
    now: Instant,
    is_changed: bool,
    held: Held<'v>,
}

/// How a set has its members.
#[derive(Debug)]
enum Held<'v> {
    Plain(Members<'v, Bare>),
    /// Few members, all of them integers.
    Integers(Integers<'v>),
    /// Fields of a hash, without values: the members may have deadlines.
    Timed(Hash<'v>),
}

impl<'v> Held<'v> {
    /// The members of a value that never had deadlines.
    #[inline]
    fn untimed(value: &'v [u8]) -> Held<'v> {
        match value[0] {
            integers::FORM => Held::Integers(Integers::read(value)),
            _ => Held::Plain(Members::read(value, value)),
        }
    }
}

/// Whether members of the set that a value contains may have deadlines: such a set is a hash
/// without values.
#[must_use]
pub fn is_timed(value: &[u8]) -> bool {
    match value.first() {
        Some(_) if is_paged(value) => value[IS_TIMED_AT] == 1,
        first => first == Some(&1),
    }
}

/// Whether fields or members of a value may have deadlines: then it is a hash, or like one.
#[must_use]
pub fn has_member_deadlines(kind: Kind, value: &[u8]) -> bool {
    kind == HASH || kind == SET && is_timed(value)
}

/// A stored set for many look-ups, with the hash function that they share.
#[derive(Clone, Copy, Debug)]
pub struct Lookups<'v> {
    value: &'v [u8],
    now: Instant,
    /// None for a packed set, and for one whose members may have deadlines.
    hasher: Option<Hasher>,
}

impl<'v> Lookups<'v> {
    /// Prepares look-ups in the set that a value contains, as it is at `now`.
    #[must_use]
    pub fn of(value: &'v [u8], now: Instant) -> Lookups<'v> {
        let is_plain = is_paged(value) && !is_timed(value);
        let hasher = is_plain.then(|| Hasher::of(View::of(value, Bare::FORMS).seed()));
        Lookups { value, now, hasher }
    }

    /// Whether the set has a member. Cost: O(log n).
    #[must_use]
    pub fn has(&self, member: &[u8]) -> bool {
        let Some(hasher) = &self.hasher else {
            return Set::view(self.value, self.now).has(member);
        };
        let view = View::of(self.value, Bare::FORMS);
        view.find_hashed(member, hasher.hash(member))
            .found
            .is_some()
    }
}

/// Where a member of a set was found.
#[derive(Clone, Copy, Debug)]
pub struct Found(Option<Place>);

impl<'v> Set<'v> {
    /// The set in the bytes of a value, as it is at `now`. Cost: none that depends on its length.
    #[must_use]
    pub fn view(value: &'v [u8], now: Instant) -> Set<'v> {
        let held = if is_timed(value) {
            Held::Timed(Hash::view(value, now))
        } else {
            Held::untimed(value)
        };
        Set {
            own: Deadline::NEVER,
            now,
            is_changed: false,
            held,
        }
    }

    /// A set with these members, which no key has yet.
    pub(crate) fn of_members(members: Members<'v, Bare>) -> Set<'v> {
        let integers = match &members {
            Members::Packed(packed) => Integers::of(packed.iter().map(|entry| entry.member)),
            _ => None,
        };
        Set::of(integers.map_or(Held::Plain(members), Held::Integers))
    }

    fn of(held: Held<'v>) -> Set<'v> {
        Set {
            own: Deadline::NEVER,
            now: Instant(0),
            is_changed: false,
            held,
        }
    }

    /// Whether the bytes of a stored set can be those of another one: it is large, and its members
    /// never had deadlines.
    #[must_use]
    pub fn can_be_copied(value: &[u8]) -> bool {
        is_paged(value) && !is_timed(value)
    }

    /// A set that no key has yet, in a copy of the bytes of one that [can be copied]. Cost: none
    /// that depends on its length.
    ///
    /// [can be copied]: Set::can_be_copied
    #[must_use]
    pub fn of_copy(value: Vec<u8>) -> Set<'static> {
        Set::of_members(Members::Built(value))
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.held {
            Held::Plain(members) => members.len(),
            Held::Integers(integers) => integers.len(),
            Held::Timed(hash) => hash.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has a member. Cost: O(log n).
    #[inline]
    #[must_use]
    pub fn has(&self, member: &[u8]) -> bool {
        let members = match &self.held {
            Held::Plain(members) => members,
            Held::Integers(integers) => return integers.has(member),
            Held::Timed(hash) => return hash.deadline(member).is_some(),
        };
        if let Some(op) = members.pending().and_then(|pending| pending.find(member)) {
            return op.kind == OpKind::Put;
        }
        match members {
            Members::Packed(packed) => packed.find(member).is_some(),
            members => members
                .look_up(member)
                .is_some_and(|place| place.found.is_some()),
        }
    }

    /// The deadline of a member that is there. Cost: O(log n).
    #[must_use]
    pub fn deadline(&self, member: &[u8]) -> Option<Deadline> {
        match &self.held {
            Held::Timed(hash) => hash.deadline(member),
            _ => self.has(member).then_some(Deadline::NEVER),
        }
    }

    /// All members, without what is pending.
    pub fn iter(&self) -> impl Iterator<Item = Member<'_>> {
        self.iter_from(0).map(|(member, _)| member)
    }

    /// The members from a place on, each with the place behind it; the first place is zero.
    pub fn iter_from(&self, at: usize) -> impl Iterator<Item = (Member<'_>, usize)> {
        let mut at = at;
        std::iter::from_fn(move || {
            let (member, next) = self.member_at(at)?;
            at = next;
            Some((member, next))
        })
    }

    /// The member at a position and the position after it; the first position is zero. Cost: does
    /// not depend on the number of members, but on how many expired ones stand there.
    #[must_use]
    pub fn member_at(&self, at: usize) -> Option<(Member<'_>, usize)> {
        let members = match &self.held {
            Held::Plain(members) => members,
            Held::Integers(integers) => return Some((integers.nth(at)?, at + 1)),
            Held::Timed(hash) => {
                let (field, next) = hash.iter_from(at).next()?;
                return Some((field.name.into(), next));
            }
        };
        if let Members::Packed(packed) = members {
            return (at < packed.bytes()).then(|| {
                let entry = packed.entry(at);
                (entry.member.into(), entry.end)
            });
        }
        let view = members.view()?;
        let (entry, next) = view.entry_at(Tree::First, at)?;
        Some((view.bytes_of(entry.text()).into(), next))
    }

    /// Shows about `count` members whose hashes are not before `cursor`, and says where to go on;
    /// zero at the end. A small set is shown at once.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&[u8])) -> u64 {
        let members = match &self.held {
            Held::Plain(members) => members,
            Held::Integers(integers) => {
                integers.iter().for_each(|member| show(&member));
                return 0;
            }
            Held::Timed(hash) => return hash.scan(cursor, count, |field| show(&field.name)),
        };
        match (members, members.view()) {
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

    /// The member of a rank in the order of [`Set::iter`]. Cost: O(log n), more if members have
    /// expired that are still stored.
    #[must_use]
    pub fn nth(&self, rank: usize) -> Option<Member<'_>> {
        let members = match &self.held {
            Held::Plain(members) => members,
            Held::Integers(integers) => return integers.nth(rank),
            Held::Timed(hash) => return hash.nth(rank).map(|field| field.name.into()),
        };
        if let Members::Packed(packed) = members {
            return packed.iter().nth(rank).map(|entry| entry.member.into());
        }
        let view = members.view()?;
        let spot = view.settled(view.at(Tree::First, rank))?;
        Some(view.bytes_of(view.entry(spot).text()).into())
    }

    /// Some member, each as likely as the others.
    #[must_use]
    pub fn random(&self) -> Option<Member<'_>> {
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
        match &self.held {
            Held::Integers(_) => true,
            _ => self.iter().all(|member| is_integer(&member)),
        }
    }

    /// Adds a member; whether it is new. One that is there keeps its deadline.
    pub fn add(&mut self, member: &[u8]) -> bool {
        if let Held::Integers(integers) = &mut self.held {
            if let Some(is_new) = integers.add(member) {
                self.is_changed |= is_new;
                return is_new;
            }
            self.held = Held::Plain(texts(integers));
        }
        let (is_there, place) = self.seen(member);
        if is_there {
            return false;
        }
        self.is_changed = true;
        let members = match &mut self.held {
            Held::Plain(members) => members,
            Held::Timed(hash) => return hash.set(member, &[], Deadline::NEVER),
            Held::Integers(_) => unreachable!("they have become texts"),
        };
        members.unpack_if_large(member.len(), Bare::FORMS, |out, entry| {
            Op::put(entry.member, &[], None, true).write(out);
        });
        match members {
            Members::Packed(packed) => packed.push(member, &[&[]; 3]),
            members => members.apply(&Op {
                place,
                ..Op::put(member, &[], None, true)
            }),
        }
        true
    }

    /// Whether a member is there, and where it is, or would be, in pages, if nothing is pending for
    /// it.
    fn seen(&self, member: &[u8]) -> (bool, Option<Place>) {
        let place = match &self.held {
            Held::Plain(members) => members.place_of(member),
            _ => None,
        };
        match place {
            Some(found) => (found.found.is_some(), place),
            None => (self.has(member), None),
        }
    }

    /// Adds a member with this deadline, or gives it to one that is there.
    pub fn put(&mut self, member: &[u8], deadline: Deadline) {
        if deadline == Deadline::NEVER && !matches!(self.held, Held::Timed(_)) {
            self.add(member);
            return;
        }
        self.is_changed = true;
        self.as_timed().set(member, &[], deadline);
    }

    /// Gives a member that is there another deadline.
    pub fn retime(&mut self, member: &[u8], deadline: Deadline) {
        if self.deadline(member).is_none_or(|old| old == deadline) {
            return;
        }
        self.is_changed = true;
        self.as_timed().retime(member, deadline);
    }

    /// A copy of few members, or of those that are in no value yet.
    fn copied(&self) -> Hash<'v> {
        let mut hash = Hash::empty(self.own, self.now).of_set();
        for member in self.iter() {
            hash.set(&member, &[], Deadline::NEVER);
        }
        hash
    }

    /// The set as a hash without values, which it becomes if it is none.
    fn as_timed(&mut self) -> &mut Hash<'v> {
        let hash = match &mut self.held {
            Held::Timed(_) => None,
            Held::Plain(Members::Paged(view, pending)) => {
                let pages = (*view, std::mem::take(pending));
                Some(Hash::of_pages(pages, self.own, self.now))
            }
            _ => Some(self.copied()),
        };
        if let Some(hash) = hash {
            self.held = Held::Timed(hash);
        }
        match &mut self.held {
            Held::Timed(hash) => hash,
            _ => unreachable!("it has become one"),
        }
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        if let Held::Integers(integers) = &mut self.held {
            let was_there = integers.remove(member);
            self.is_changed |= was_there;
            return was_there;
        }
        let (is_there, place) = self.seen(member);
        if !is_there {
            return false;
        }
        self.is_changed = true;
        match &mut self.held {
            Held::Plain(members) => members.remove(member, place),
            Held::Timed(hash) => _ = hash.remove(member),
            Held::Integers(_) => unreachable!("removed above"),
        }
        true
    }

    /// Where a member is; none if it is not there. It can be removed with less work after that
    /// ([`Set::remove_found`]).
    #[must_use]
    pub fn find(&self, member: &[u8]) -> Option<Found> {
        let (is_there, place) = self.seen(member);
        is_there.then_some(Found(place))
    }

    /// Removes a member that was found in the same set before; whether it was there. One that is
    /// not where it was is looked up.
    pub fn remove_found(&mut self, member: &[u8], found: Found) -> bool {
        if let (Held::Plain(Members::Paged(view, pending)), Some(place)) = (&mut self.held, found.0)
            && pending.is_empty()
            && view.is_at(place, member)
        {
            self.is_changed = true;
            pending.push(&Op {
                place: Some(place),
                ..Op::remove(member)
            });
            return true;
        }
        self.remove(member)
    }

    /// Takes out so many members, any as likely as the others, or all there are, and shows each.
    /// Nothing else is pending.
    pub fn pop_some(&mut self, count: usize, mut show: impl FnMut(&[u8])) {
        let len = self.len();
        let mut ranks = fastrand::choose_multiple(0..len, count.min(len));
        ranks.sort_unstable();
        let popped: Vec<Vec<u8>> = if ranks.len() == len {
            self.iter().map(Member::into_owned).collect()
        } else {
            let members = ranks.iter().filter_map(|&rank| self.nth(rank));
            members.map(Member::into_owned).collect()
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
    integers::integer(text).is_some()
}

impl Expiring for Set<'_> {
    fn deadline(&self, member: &[u8]) -> Option<Deadline> {
        Set::deadline(self, member)
    }

    fn retime(&mut self, member: &[u8], deadline: Deadline) {
        Set::retime(self, member, deadline);
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        Set::remove(self, member)
    }
}

impl<'v> Collection<'v> for Set<'v> {
    const KIND: Kind = SET;

    fn empty(deadline: Deadline, now: Instant) -> Set<'v> {
        Set {
            own: deadline,
            now,
            ..Set::of(Held::Integers(Integers::empty()))
        }
    }

    fn open(value: &'v [u8], deadline: Deadline, now: Instant) -> Set<'v> {
        let held = if is_timed(value) {
            Held::Timed(Hash::open(value, deadline, now).of_set())
        } else {
            Held::untimed(value)
        };
        Set {
            own: deadline,
            now,
            is_changed: false,
            held,
        }
    }

    fn is_changed(&self) -> bool {
        self.is_changed
    }

    fn take_expired(&mut self) -> Vec<Vec<u8>> {
        match &mut self.held {
            Held::Timed(hash) => hash.take_expired(),
            _ => Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn next_deadline(&self) -> Deadline {
        match &self.held {
            Held::Timed(hash) => hash.next_deadline(),
            _ => Deadline::NEVER,
        }
    }

    fn is_heavy(&self) -> bool {
        match &self.held {
            Held::Plain(members) => members.is_heavy(),
            Held::Integers(_) => false,
            Held::Timed(hash) => hash.is_heavy(),
        }
    }

    fn finish(mut self, scratch: &mut Vec<u8>) -> Change {
        let members = match self.held {
            Held::Plain(ref mut members) => members,
            Held::Integers(integers) => {
                integers.write(scratch);
                return store(SET, self.own);
            }
            Held::Timed(hash) => return finish_timed(hash, scratch),
        };
        if let Some(copy) = members.bytes_to_repack() {
            let copy = View::of(&copy, Bare::FORMS);
            let members = copy.iter(Tree::First);
            pack(members.map(|entry| copy.bytes_of(entry.text())), scratch);
            return store(SET, self.own);
        }
        members.finish_paged(SET, self.own, scratch)
    }
}

/// Makes pages those of a set whose members may have deadlines, with the key's own deadline, which
/// comes first, and applies operations.
const APPLY_TIMED: Apply = Apply(|value, bytes| {
    let (own, ops) = bytes.split_at(8);
    value.write(OWN_AT, own);
    value.write(IS_TIMED_AT, &[1]);
    apply_all::<Fields>(value, ops);
});

/// Writes a set of few members without deadlines.
fn pack<'m>(members: impl Iterator<Item = Cow<'m, [u8]>>, scratch: &mut Vec<u8>) {
    let members: Vec<Cow<'m, [u8]>> = members.collect();
    if let Some(integers) = Integers::of(members.iter().map(|member| &**member)) {
        return integers.write(scratch);
    }
    let mut packed: Packed<'_, Bare> = Packed::empty();
    for member in members {
        packed.push(&member, &[&[]; 3]);
    }
    packed.write(scratch);
}

/// The same members as texts.
fn texts(integers: &Integers<'_>) -> Members<'static, Bare> {
    let mut packed = Packed::empty();
    for member in integers.iter() {
        packed.push(&member, &[&[]; 3]);
    }
    Members::Packed(packed)
}

/// What the cache is to do with a set that is a hash.
fn finish_timed(hash: Hash<'_>, scratch: &mut Vec<u8>) -> Change {
    let own = raw(hash.own()).to_le_bytes();
    let deadline = match hash.finish(scratch) {
        Change::Store { deadline, .. } => deadline,
        Change::Edit { more, deadline, .. } => {
            scratch.splice(0..0, own);
            return Change::Edit {
                more,
                deadline,
                apply: APPLY_TIMED,
            };
        }
        other => return other,
    };
    if !is_timed(scratch) {
        let untimed = std::mem::take(scratch);
        let hash = Hash::view(&untimed, Instant(0));
        pack(hash.iter().map(|field| field.name), scratch);
    }
    store(SET, deadline)
}

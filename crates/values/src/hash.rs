//! Hash: fields with values, some of which have a deadline.
//!
//! | part of a packed one | bytes |
//! |---|---|
//! | 0; or 1 if a field has a deadline | 1 |
//! | the key's own deadline, the earliest of a field | 8 + 8, in the second case only |
//! | members | |
//!
//! A payload: varint of twice the value's length, plus one with a deadline; the value; the
//! deadline in 8 bytes.
//!
//! A field whose deadline has passed is invisible to readers; the next change drops it. If each
//! field has a deadline, the item expires with the last of them or at the key's own deadline,
//! whichever comes first.

mod stored; // facts that are read from a stored value

use std::borrow::Cow;

use cellar_engine::{Apply, Change, Deadline, Instant, Kind};

pub use self::stored::{
    expired_with, first_deadline, first_living, item_deadline, names, own_deadline,
    own_deadline_place,
};
use crate::collection::{Collection, Expiring, Family, HASH, Members, Rules, Seen, store};
use crate::entry::Form;
pub use crate::field::{Field, raw};
use crate::field::{
    Fields, SET_FORMS, Wrapping, deadline_at, deadline_of, deadline_of_key, first_of,
    packed_deadline, retime, span_of, tail_of,
};
use crate::packed::Packed;
use crate::page::Tree;
use crate::pending::{Op, OpKind, Pending};
use crate::table::Place;
use crate::view::{IS_TIMED_AT, Spot, View, WORDS_AT, is_paged};

/// Bytes before the members of a packed hash with deadlines.
const TIMES_BYTES: usize = 17;
/// Where the head keeps the key's own deadline.
pub(crate) const OWN_AT: usize = WORDS_AT;
/// Puts a deadline in bytes where a hash in pages keeps the key's own one.
pub const SET_OWN_DEADLINE: Apply = Apply(|value, raw| value.write(OWN_AT, raw));

/// Fields that one change drops because they have expired, of a hash in pages.
pub const DROPPED_MAX: usize = 512;

/// Hashes, for code that changes one.
#[derive(Debug)]
pub struct Hashes;

impl Family for Hashes {
    type Of<'v> = Hash<'v>;
}

/// A hash, as it is at a moment.
#[derive(Debug)]
pub struct Hash<'v> {
    /// The key's own deadline.
    own: Deadline,
    /// No field's deadline is earlier; never, if no field has one. Of a packed one.
    earliest: Deadline,
    now: Instant,
    is_changed: bool,
    /// Fields that were dropped when it was opened: they had expired.
    expired: usize,
    /// Their names, until they are taken.
    expired_names: Vec<Vec<u8>>,
    /// Whether no other field that is stored has expired.
    is_purged: bool,
    /// The entry forms of its trees, once it has some: a set's members have no values.
    forms: [Form; 2],
    members: Members<'v, Fields>,
}

impl<'v> Hash<'v> {
    /// The hash in the bytes of a value. Cost: none that depends on its length.
    #[must_use]
    pub fn view(value: &'v [u8], now: Instant) -> Hash<'v> {
        Hash::read(value, Deadline::NEVER, now)
    }

    fn read(value: &'v [u8], deadline: Deadline, now: Instant) -> Hash<'v> {
        let (own, earliest, start) = match value[0] {
            _ if is_paged(value) => (deadline_at(value, OWN_AT), Deadline::NEVER, 0),
            1 => (deadline_at(value, 1), deadline_at(value, 9), TIMES_BYTES),
            _ => (deadline, Deadline::NEVER, 1),
        };
        Hash {
            own,
            earliest,
            now,
            is_changed: false,
            expired: 0,
            expired_names: Vec::new(),
            is_purged: false,
            forms: Fields::FORMS,
            members: Members::read(value, &value[start..]),
        }
    }

    /// The same as the members of a set, which have no values.
    pub(crate) fn of_set(self) -> Hash<'v> {
        Hash {
            forms: SET_FORMS,
            ..self
        }
    }

    /// Members of a set in pages, with its pending operations, which get deadlines now.
    pub(crate) fn of_pages(
        (view, pending): (View<'v>, Pending),
        own: Deadline,
        now: Instant,
    ) -> Hash<'v> {
        let hash = Hash {
            members: Members::Paged(view, pending),
            ..Hash::empty(own, now)
        };
        hash.of_set()
    }

    /// The key's own deadline.
    pub(crate) fn own(&self) -> Deadline {
        self.own
    }

    fn is_over(&self, deadline: Deadline) -> bool {
        deadline.has_passed(self.now)
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        if let Some(view) = self.members.view() {
            if self.is_purged || view.is_empty(Tree::Second) {
                return self.members.len();
            }
            let over = view.rank(self.first_living(&view));
            // The removals of members that were dropped when it was opened are pending.
            return self.members.len() - over.saturating_sub(self.expired);
        }
        if self.is_over(self.earliest) {
            return self.iter().count();
        }
        self.members.len()
    }

    /// Where the fields begin in the second tree that have not expired.
    fn first_living<'a>(&self, view: &View<'a>) -> Spot {
        match view.iter(Tree::Second).next() {
            Some(first) if self.is_over(deadline_of_key(first)) => {
                view.partition_point_by_key(|key| self.is_over(Deadline::at(Instant(key))))
            }
            _ => view.first(Tree::Second),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A field. Cost: O(log n).
    #[inline]
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        let field = self.stored(name)?;
        (!self.is_over(field.deadline)).then_some(field)
    }

    /// A field, expired or not.
    fn stored(&self, name: &[u8]) -> Option<Field<'_>> {
        if let Members::Packed(packed) = &self.members {
            return packed.find(name).map(Field::of);
        }
        let view = self.members.view()?;
        let found = || {
            let spot = self.members.look_up(name)?.found?;
            Some(Field::of_paged(&view, view.entry(spot)))
        };
        let Some(op) = self
            .members
            .pending()
            .and_then(|pending| pending.find(name))
        else {
            return found();
        };
        match op.kind {
            OpKind::Put => Some(Field {
                name: Cow::Owned(name.to_vec()),
                value: Cow::Borrowed(op.second),
                deadline: deadline_of(op.tail),
            }),
            OpKind::SetTail => found().map(|field| Field {
                deadline: deadline_of(op.tail),
                ..field
            }),
            _ => None,
        }
    }

    /// The deadline of a field that is there. Cost: O(log n).
    #[must_use]
    pub fn deadline(&self, name: &[u8]) -> Option<Deadline> {
        let deadline = self.stored_deadline(name)?;
        (!self.is_over(deadline)).then_some(deadline)
    }

    /// The deadline of a field, expired or not; its value is not looked at.
    fn stored_deadline(&self, name: &[u8]) -> Option<Deadline> {
        self.seen(name).0
    }

    /// The same, and where the field is, or would be, in pages, if nothing is pending for it.
    fn seen(&self, name: &[u8]) -> (Option<Deadline>, Option<Place>) {
        if let Members::Packed(packed) = &self.members {
            let found = packed.find(name);
            return (found.map(|entry| packed_deadline(&entry)), None);
        }
        let Seen { tail, place } = self.members.seen(name);
        (tail.map(deadline_of), place)
    }

    /// All fields, without pending operations.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        self.iter_from(0).map(|(field, _)| field)
    }

    /// The fields from a place on, each with the place behind it; the first place is zero.
    pub fn iter_from(&self, at: usize) -> impl Iterator<Item = (Field<'_>, usize)> {
        let mut at = at;
        let all = std::iter::from_fn(move || {
            let (field, next) = self.field_at(at)?;
            at = next;
            Some((field, next))
        });
        all.filter(|(field, _)| !self.is_over(field.deadline))
    }

    /// The names of the fields from a place on, each with the place behind it; the first place is
    /// zero. Where no field has a deadline only the names are read.
    pub fn names_from(&self, at: usize) -> impl Iterator<Item = (Cow<'_, [u8]>, usize)> {
        let untimed = self.members.view();
        let untimed = untimed.filter(|view| view.is_empty(Tree::Second));
        let mut at = at;
        std::iter::from_fn(move || {
            let (name, next) = match &untimed {
                Some(view) => {
                    let (entry, next) = view.entry_at(Tree::First, at)?;
                    (view.bytes_of(entry.text()), next)
                }
                None => {
                    let (field, next) = self.iter_from(at).next()?;
                    (field.name, next)
                }
            };
            at = next;
            Some((name, next))
        })
    }

    /// The field at a place, expired or not, and the place behind it.
    fn field_at(&self, at: usize) -> Option<(Field<'_>, usize)> {
        if let Members::Packed(packed) = &self.members {
            return (at < packed.bytes()).then(|| {
                let entry = packed.entry(at);
                (Field::of(entry), entry.end)
            });
        }
        let view = self.members.view()?;
        let (entry, next) = view.entry_at(Tree::First, at)?;
        Some((Field::of_paged(&view, entry), next))
    }

    /// When the next field expires; never if none has a deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Deadline {
        if let Some(view) = self.members.view() {
            let mut next = Deadline::NEVER;
            if !view.is_empty(Tree::Second) {
                let mut left = view.iter_from(self.first_living(&view));
                next = left
                    .next()
                    .map_or(next, |(_, entry)| deadline_of_key(entry));
            }
            if let Some(pending) = self.members.pending().filter(|some| some.has_tails()) {
                let tails = pending.iter().map(|op| deadline_of(op.tail));
                next = tails.fold(next, Deadline::min);
            }
            return next;
        }
        if !self.is_over(self.earliest) {
            return self.earliest;
        }
        let deadlines = self.iter().map(|field| field.deadline);
        deadlines.min().unwrap_or(Deadline::NEVER)
    }

    /// Shows about `count` fields whose hashes are not before `cursor`, and returns the next
    /// cursor; zero at the end. A small hash is shown in one call.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(Field<'_>)) -> u64 {
        let mut show = |field: Field<'_>| {
            if !self.is_over(field.deadline) {
                show(field);
            }
        };
        match (&self.members, self.members.view()) {
            (Members::Packed(packed), _) => {
                packed.iter().for_each(|entry| show(Field::of(entry)));
                0
            }
            (_, Some(view)) => {
                view.scan(cursor, count, |entry| show(Field::of_paged(&view, entry)))
            }
            (_, None) => 0,
        }
    }

    /// The field of a rank in the order of [`Hash::iter`], or one behind it if that has expired.
    #[must_use]
    pub fn nth(&self, rank: usize) -> Option<Field<'_>> {
        if self.is_over(self.first_stored()) || matches!(self.members, Members::Packed(_)) {
            return self.iter().nth(rank);
        }
        let view = self.members.view()?;
        let spot = view.settled(view.at(Tree::First, rank))?;
        Some(Field::of_paged(&view, view.entry(spot)))
    }

    /// The first deadline of a field, expired or not.
    fn first_stored(&self) -> Deadline {
        match self.members.view() {
            Some(view) if view.is_empty(Tree::Second) => Deadline::NEVER,
            Some(view) => first_of(&view),
            None => self.earliest,
        }
    }

    /// Some field, each as likely as the others.
    #[must_use]
    pub fn random(&self) -> Option<Field<'_>> {
        let len = self.len();
        if len == 0 {
            None
        } else {
            self.nth(fastrand::usize(..len))
        }
    }

    /// Stores a field; whether it is new.
    pub fn set(&mut self, name: &[u8], value: &[u8], deadline: Deadline) -> bool {
        self.is_changed = true;
        self.unpack_if_large(name.len() + value.len() + 16);
        let old = if let Members::Packed(packed) = &mut self.members {
            let payload = Wrapping::of(value, deadline);
            self.earliest = self.earliest.min(deadline);
            let found = packed.find(name);
            let found = found.map(|entry| (entry.at, packed_deadline(&entry)));
            match found {
                Some((at, _)) => packed.replace(at, &payload.around(value)),
                None => packed.push(name, &payload.around(value)),
            }
            found.map(|(_, deadline)| deadline)
        } else {
            let (old, place) = self.seen(name);
            self.members.apply(&Op {
                place,
                ..Op::put(name, value, tail_of(deadline), old.is_none())
            });
            old
        };
        old.is_none_or(|deadline| self.is_over(deadline))
    }

    fn unpack_if_large(&mut self, more: usize) {
        let was_packed = matches!(self.members, Members::Packed(_));
        self.members
            .unpack_if_large(more, self.forms, |out, entry| {
                let field = Field::of(*entry);
                Op::put(entry.member, &field.value, tail_of(field.deadline), true).write(out);
            });
        if was_packed && let Members::Built(value) = &mut self.members {
            value[OWN_AT..OWN_AT + 8].copy_from_slice(&raw(self.own).to_le_bytes());
            value[IS_TIMED_AT] = u8::from(self.forms == SET_FORMS);
        }
    }

    /// Gives a field that is there another deadline.
    pub fn retime(&mut self, name: &[u8], deadline: Deadline) {
        if let Members::Packed(packed) = &mut self.members {
            let Some(entry) = packed.find(name) else {
                return;
            };
            let old = packed_deadline(&entry);
            if old != deadline {
                let payload = entry.end - entry.payload.len()..entry.end;
                retime(packed, (payload, old != Deadline::NEVER), deadline);
                self.is_changed = true;
                self.earliest = self.earliest.min(deadline);
            }
            return;
        }
        if self.stored_deadline(name).is_none_or(|old| old == deadline) {
            return;
        }
        self.is_changed = true;
        self.members.apply(&Op {
            kind: OpKind::SetTail,
            member: name,
            second: &[],
            tail: tail_of(deadline),
            added: 0,
            place: None,
            keyed: None,
        });
    }

    /// Removes a field; whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let (deadline, place) = self.seen(name);
        if deadline.is_none_or(|deadline| self.is_over(deadline)) {
            return false;
        }
        self.is_changed = true;
        self.members.remove(name, place);
        true
    }

    /// Drops expired fields, as many as one change may.
    fn purge(&mut self) {
        if !self.is_over(self.first_stored()) {
            self.is_purged = true;
            return;
        }
        let over: Vec<Vec<u8>> = match (&self.members, self.members.view()) {
            (_, Some(view)) => {
                let entries = view.iter(Tree::Second).take(DROPPED_MAX);
                let over = entries.take_while(|entry| self.is_over(deadline_of_key(*entry)));
                over.map(|entry| view.bytes_of(entry.text()).into_owned())
                    .collect()
            }
            (Members::Packed(packed), None) => {
                let fields = packed.iter().map(Field::of);
                let over = fields.filter(|field| self.is_over(field.deadline));
                over.map(|field| field.name.into_owned()).collect()
            }
            _ => Vec::new(),
        };
        self.expired = over.len();
        self.is_purged = over.len() < DROPPED_MAX;
        for name in &over {
            self.members.remove(name, None);
        }
        self.expired_names = over;
        if let Members::Packed(packed) = &self.members {
            self.earliest = span_of(packed).0;
        }
    }

    /// The deadline of the item.
    fn item_deadline(&self) -> Deadline {
        match &self.members {
            Members::Packed(_) if self.earliest == Deadline::NEVER => self.own,
            Members::Packed(packed) => self.own.min(span_of(packed).1),
            Members::Paged(view, pending)
                if view.is_empty(Tree::Second) && !pending.has_tails() =>
            {
                self.own
            }
            Members::Paged(view, pending) => {
                let is_timed = |name: &[u8]| {
                    let place = pending.place_of_stored(view, name);
                    place.found.and_then(|spot| view.entry(spot).tail())
                };
                let mut timed = view.len(Tree::Second) as isize;
                let mut latest = Deadline::PASSED;
                for op in pending.iter() {
                    timed +=
                        isize::from(op.tail.is_some()) - isize::from(is_timed(op.member).is_some());
                    latest = op
                        .tail
                        .map_or(latest, |tail| latest.max(deadline_of(Some(tail))));
                }
                if timed < self.members.len() as isize {
                    return self.own;
                }
                let mut stored = view.iter_back(view.end(Tree::Second));
                let kept =
                    stored.find(|(_, entry)| pending.find(&view.bytes_of(entry.text())).is_none());
                let kept = kept.map(|(_, entry)| deadline_of_key(entry));
                self.own.min(kept.map_or(latest, |kept| kept.max(latest)))
            }
            Members::Built(value) => item_deadline(value, self.own),
        }
    }

    /// Its packed form, with the pending operations applied.
    fn repacked(&self) -> Option<Packed<'static, Fields>> {
        let copy = self.members.bytes_to_repack()?;
        let copy = View::of(&copy, Fields::forms(&copy));
        let mut packed = Packed::empty();
        for entry in copy.iter(Tree::First) {
            let field = Field::of_paged(&copy, entry);
            let payload = Wrapping::of(&field.value, field.deadline);
            packed.push(&field.name, &payload.around(&field.value));
        }
        Some(packed)
    }
}

impl Expiring for Hash<'_> {
    fn deadline(&self, member: &[u8]) -> Option<Deadline> {
        Hash::deadline(self, member)
    }

    fn retime(&mut self, member: &[u8], deadline: Deadline) {
        Hash::retime(self, member, deadline);
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        Hash::remove(self, member)
    }
}

impl<'v> Collection<'v> for Hash<'v> {
    const KIND: Kind = HASH;

    fn empty(deadline: Deadline, now: Instant) -> Hash<'v> {
        Hash {
            own: deadline,
            earliest: Deadline::NEVER,
            now,
            is_changed: false,
            expired: 0,
            expired_names: Vec::new(),
            is_purged: true,
            forms: Fields::FORMS,
            members: Members::empty(),
        }
    }

    fn open(value: &'v [u8], deadline: Deadline, now: Instant) -> Hash<'v> {
        let mut hash = Hash::read(value, deadline, now);
        hash.purge();
        hash
    }

    fn is_changed(&self) -> bool {
        self.is_changed
    }

    fn take_expired(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.expired_names)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn next_deadline(&self) -> Deadline {
        Hash::next_deadline(self)
    }

    fn is_heavy(&self) -> bool {
        self.members.is_heavy()
    }

    fn finish(mut self, scratch: &mut Vec<u8>) -> Change {
        let repacked = self.repacked();
        let packed = match (&repacked, &self.members) {
            (Some(packed), _) => packed,
            (None, Members::Packed(packed)) => packed,
            _ => {
                let deadline = self.item_deadline();
                return self.members.finish_paged(HASH, deadline, scratch);
            }
        };
        let (earliest, latest) = match &repacked {
            // No field has a deadline.
            None if self.earliest == Deadline::NEVER => (Deadline::NEVER, Deadline::NEVER),
            _ => span_of(packed),
        };
        scratch.push(u8::from(earliest != Deadline::NEVER));
        if earliest != Deadline::NEVER {
            scratch.extend_from_slice(&raw(self.own).to_le_bytes());
            scratch.extend_from_slice(&raw(earliest).to_le_bytes());
        }
        packed.write(scratch);
        store(HASH, self.own.min(latest))
    }
}

//! Hash: fields with values, some of which have a deadline.
//!
//! | part | bytes |
//! |---|---|
//! | 0; or 1 if a field has a deadline | 1 |
//! | the key's own deadline, the earliest of a field | 8 + 8, in the second case only |
//! | [`Members`] | |
//!
//! A payload: varint of twice the value's length, plus one with a deadline; the value; the
//! deadline in 8 bytes.
//!
//! A field whose deadline has passed is not there for any reader; the next change drops its bytes.
//! If each field has a deadline, the item goes with the last of them or at the key's own deadline,
//! whichever comes first; the own one is kept in the value for then.

use std::ops::Range;

use cellar_engine::{Deadline, Instant, Kind};

use super::Collection;
use super::bytes::{push_varint, u64_at, varint};
use super::members::{Entry, Members, Shape};
use super::spare;

/// Bytes before the members of a hash with deadlines.
const TIMES_BYTES: usize = 17;
/// [`Deadline::NEVER`] in a value.
const NEVER: u64 = u64::MAX;

/// A value, and its deadline if it has one.
#[derive(Debug)]
pub struct Fields;

impl Shape for Fields {
    fn payload_bytes(bytes: &[u8]) -> usize {
        let (head, start) = varint(bytes, 0);
        start + head / 2 + if head % 2 == 1 { 8 } else { 0 }
    }
}

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// When it goes.
    pub deadline: Deadline,
    at: usize,
}

impl<'a> Field<'a> {
    /// Its place for [`Hash::retime`], until the next change.
    pub fn at(&self) -> usize {
        self.at
    }

    fn of(entry: Entry<'a>) -> Field<'a> {
        let (head, start) = varint(entry.payload, 0);
        let end = start + head / 2;
        let deadline = if head % 2 == 1 {
            deadline_at(entry.payload, end)
        } else {
            Deadline::NEVER
        };
        Field {
            name: entry.member,
            value: &entry.payload[start..end],
            deadline,
            at: entry.at,
        }
    }
}

/// A hash, as it is at a moment.
#[derive(Debug)]
pub struct Hash<B = Vec<u8>> {
    /// The key's own deadline.
    own: Deadline,
    /// No field's deadline is earlier; never, if no field has one.
    earliest: Deadline,
    now: Instant,
    is_changed: bool,
    /// Fields that were dropped when it was opened: they had expired.
    expired: usize,
    members: Members<Fields, B>,
}

impl<'a> Hash<&'a [u8]> {
    /// The hash in the bytes of a value.
    pub fn view(value: &'a [u8], now: Instant) -> Hash<&'a [u8]> {
        Hash::read(value, Deadline::NEVER, now, |part| part)
    }
}

impl<B: AsRef<[u8]>> Hash<B> {
    fn read<'a>(
        value: &'a [u8],
        deadline: Deadline,
        now: Instant,
        part: impl Fn(&'a [u8]) -> B,
    ) -> Hash<B> {
        let is_timed = value[0] == 1;
        let start = if is_timed { TIMES_BYTES } else { 1 };
        Hash {
            own: if is_timed {
                deadline_at(value, 1)
            } else {
                deadline
            },
            earliest: if is_timed {
                deadline_at(value, 9)
            } else {
                Deadline::NEVER
            },
            now,
            is_changed: false,
            expired: 0,
            members: Members::read(&value[start..], part),
        }
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        if self.earliest.has_passed(self.now) {
            return self.iter().count();
        }
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A field.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        let field = self.members.find(name).map(Field::of);
        field.filter(|field| !field.deadline.has_passed(self.now))
    }

    /// A field's place for [`Hash::retime`], until the next change, and its deadline.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<(usize, Deadline)> {
        self.get(name).map(|field| (field.at, field.deadline))
    }

    /// All fields.
    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        let fields = self.members.iter().map(Field::of);
        fields.filter(|field| !field.deadline.has_passed(self.now))
    }

    /// The fields from a place on, each with the place behind it; the first place is zero.
    pub fn iter_from(&self, at: usize) -> impl Iterator<Item = (Field<'_>, usize)> {
        let entries = self.members.iter_from(at);
        let fields = entries.map(|entry| (Field::of(entry), entry.end));
        fields.filter(|(field, _)| !field.deadline.has_passed(self.now))
    }

    /// When the next field goes; never if none has a deadline.
    pub fn next_deadline(&self) -> Deadline {
        if !self.earliest.has_passed(self.now) {
            return self.earliest;
        }
        let deadlines = self.iter().map(|field| field.deadline);
        deadlines.min().unwrap_or(Deadline::NEVER)
    }

    /// As [`Members::scan`].
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(Field<'_>)) -> u64 {
        self.members.scan(cursor, count, |entry| {
            let field = Field::of(entry);
            if !field.deadline.has_passed(self.now) {
                show(field);
            }
        })
    }

    /// Some field, each as likely as the others.
    pub fn random(&self) -> Option<Field<'_>> {
        if self.earliest.has_passed(self.now) {
            let count = self.iter().count();
            return (count > 0).then(|| self.iter().nth(fastrand::usize(..count)))?;
        }
        (!self.members.is_empty()).then(|| Field::of(self.members.random()))
    }
}

impl Hash {
    /// Stores a field; whether it is new.
    pub fn set(&mut self, name: &[u8], value: &[u8], deadline: Deadline) -> bool {
        let payload = payload_of(value, deadline);
        self.earliest = self.earliest.min(deadline);
        self.is_changed = true;
        let old = self.members.find(name).map(|entry| entry.at);
        match old {
            Some(at) => self.members.replace(at, &payload),
            None => _ = self.members.insert(name, &payload),
        }
        old.is_none()
    }

    /// Gives a field that has been [found](Hash::find) another deadline.
    pub fn retime(&mut self, at: usize, deadline: Deadline) {
        let field = Field::of(self.members.entry(at));
        if field.deadline != deadline {
            let payload = payload_of(field.value, deadline);
            self.earliest = self.earliest.min(deadline);
            self.is_changed = true;
            self.members.replace(at, &payload);
        }
    }

    /// Removes a field; whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(at) = self.get(name).map(|field| field.at) else {
            return false;
        };
        self.members.remove(at);
        self.is_changed = true;
        true
    }

    /// Drops what has expired.
    fn purge(&mut self) {
        if !self.earliest.has_passed(self.now) {
            return;
        }
        let fields = self.members.iter().map(Field::of);
        let over = fields.filter(|field| field.deadline.has_passed(self.now));
        let over: Vec<usize> = over.map(|field| field.at).collect();
        self.expired = over.len();
        for at in over {
            self.members.remove(at);
        }
        self.earliest = self.earliest_of_all();
    }

    fn earliest_of_all(&self) -> Deadline {
        self.span_of_all().0
    }

    /// The earliest deadline of a field, and the latest.
    fn span_of_all(&self) -> (Deadline, Deadline) {
        let mut deadlines = self.members.iter().map(|entry| Field::of(entry).deadline);
        let first = deadlines.next().unwrap_or(Deadline::NEVER);
        deadlines.fold((first, first), |(earliest, latest), deadline| {
            (earliest.min(deadline), latest.max(deadline))
        })
    }
}

impl Collection for Hash {
    const KIND: Kind = super::HASH;

    fn empty(deadline: Deadline, now: Instant) -> Hash {
        Hash {
            own: deadline,
            earliest: Deadline::NEVER,
            now,
            is_changed: false,
            expired: 0,
            members: Members::empty(),
        }
    }

    fn open(value: &[u8], deadline: Deadline, now: Instant) -> Hash {
        let mut hash = Hash::read(value, deadline, now, spare::copy_of);
        hash.purge();
        hash
    }

    fn is_changed(&self) -> bool {
        self.is_changed
    }

    fn expired(&self) -> usize {
        self.expired
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn is_longer_than(&self, bytes: usize) -> bool {
        self.members.is_longer_than(bytes)
    }

    fn write(mut self, out: &mut Vec<u8>) -> Deadline {
        self.members.tidy();
        let mut latest = Deadline::NEVER;
        if self.earliest != Deadline::NEVER {
            (self.earliest, latest) = self.span_of_all();
        }
        if self.earliest == Deadline::NEVER {
            out.push(0);
            self.members.write(out);
            self.members.end();
            return self.own;
        }
        out.push(1);
        out.extend_from_slice(&raw(self.own).to_le_bytes());
        out.extend_from_slice(&raw(self.earliest).to_le_bytes());
        self.members.write(out);
        self.members.end();
        self.own.min(latest)
    }
}

fn payload_of(value: &[u8], deadline: Deadline) -> Vec<u8> {
    let is_timed = deadline != Deadline::NEVER;
    let mut payload = Vec::with_capacity(value.len() + 16);
    push_varint(&mut payload, value.len() * 2 + usize::from(is_timed));
    payload.extend_from_slice(value);
    if is_timed {
        payload.extend_from_slice(&raw(deadline).to_le_bytes());
    }
    payload
}

/// The key's own deadline, where the item's one may be that of its last field.
pub(crate) fn own_deadline(value: &[u8], deadline: Deadline) -> Deadline {
    match value.first() {
        Some(1) => deadline_at(value, 1),
        _ => deadline,
    }
}

/// When the first field goes of a hash that was just stored.
pub(crate) fn first_deadline(value: &[u8]) -> Deadline {
    match value.first() {
        Some(1) => deadline_at(value, 9),
        _ => Deadline::NEVER,
    }
}

/// How many fields go with a hash that has expired: all, if it goes with the last of them, and none
/// if it goes by the key's own deadline.
pub(crate) fn expired_with(value: &[u8], item: Deadline) -> usize {
    if own_deadline(value, item) == item {
        return 0;
    }
    Hash::view(value, Instant(0)).members.len()
}

/// Drops the fields that have expired at `now`: appends the bytes of what is left, unless that is
/// nothing, and returns how many were dropped and when the item goes.
pub(crate) fn without_expired(
    value: &[u8],
    deadline: Deadline,
    now: Instant,
    out: &mut Vec<u8>,
) -> (usize, Deadline) {
    let hash = Hash::open(value, deadline, now);
    let expired = hash.expired;
    if hash.is_empty() {
        return (expired, deadline);
    }
    (expired, hash.write(out))
}

/// Where in the value the key's own deadline stands, if it does.
pub(crate) fn own_deadline_place(value: &[u8]) -> Option<Range<usize>> {
    (value.first() == Some(&1)).then_some(1..9)
}

/// The item's deadline once the key's own one is `own`.
pub(crate) fn item_deadline(value: &[u8], own: Deadline) -> Deadline {
    if value.first() != Some(&1) {
        return own;
    }
    let members: Members<Fields, &[u8]> = Members::read(&value[TIMES_BYTES..], |part| part);
    let deadlines = members.iter().map(|entry| Field::of(entry).deadline);
    own.min(deadlines.max().unwrap_or(Deadline::NEVER))
}

/// A deadline as bytes that [`own_deadline_place`] takes.
pub(crate) fn raw(deadline: Deadline) -> u64 {
    deadline.instant().map_or(NEVER, |at| at.0)
}

fn deadline_at(bytes: &[u8], at: usize) -> Deadline {
    match u64_at(bytes, at) {
        NEVER => Deadline::NEVER,
        ms => Deadline::at(Instant(ms)),
    }
}

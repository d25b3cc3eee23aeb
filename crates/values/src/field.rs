//! Field: one of a hash, packed or in pages, and how its deadline is written.

use std::borrow::Cow;
use std::ops::Range;

use cellar_engine::{Apply, Deadline, Instant, ValueBytes};

use crate::bytes::{Varint, u64_at, varint};
use crate::collection::{Rules, apply_all};
use crate::edit::Edit;
use crate::entry::{self, Form};
use crate::packed::{self, Packed, Shape};
use crate::page::Tree;
use crate::pending::{Op, OpKind};
use crate::view::{IS_TIMED_AT, View};

/// [`Deadline::NEVER`] in a value.
const NEVER: u64 = u64::MAX;
/// The trees of a set whose members may have deadlines: fields without values.
pub(crate) const SET_FORMS: [Form; 2] = [Form::MEMBERS, Form::KEYED];

/// A value, and its deadline if it has one.
#[derive(Debug)]
pub(crate) struct Fields;

impl Shape for Fields {
    #[inline]
    fn payload_bytes(bytes: &[u8], _is_short: bool) -> usize {
        let (head, start) = varint(bytes, 0);
        start + head / 2 + if head % 2 == 1 { 8 } else { 0 }
    }
}

impl Rules for Fields {
    const FORMS: [Form; 2] = [Form::FIELDS, Form::KEYED];
    const APPLY: Apply = Apply(apply_all::<Fields>);

    fn forms(value: &[u8]) -> [Form; 2] {
        match value[IS_TIMED_AT] {
            1 => SET_FORMS,
            _ => Fields::FORMS,
        }
    }

    fn key_of(tail: u64) -> [u8; 8] {
        tail.to_be_bytes()
    }

    fn apply(edit: &mut Edit<'_, dyn ValueBytes + '_>, op: &Op<'_>) {
        let place = op.place_in(&edit.view());
        let is_timed = op.tail.is_some() || !edit.view().is_empty(Tree::Second);
        let old = place.found.filter(|_| is_timed);
        let old = old.and_then(|spot| edit.view().entry(spot).tail());
        match (op.kind, place.found) {
            (OpKind::Put, _) => edit.put_sure(&place, [op.member, op.second], op.tail),
            (OpKind::Remove, Some(spot)) => edit.take(Tree::First, spot),
            (OpKind::SetTail, Some(spot)) => {
                let _ = edit.replace_tail(Tree::First, spot, op.tail);
            }
            _ => return,
        }
        // Long texts that were freed may have moved pages.
        let keeps_pages = op.kind == OpKind::SetTail || place.found.is_none();
        let keyed = op.keyed.filter(|_| keeps_pages);
        match (old.map(Fields::key_of), op.tail.map(Fields::key_of)) {
            (Some(old), Some(new)) if old != new => edit.rekey(old, new, keyed, op.member),
            (Some(old), None) => edit.take_keyed(old, op.member),
            (None, Some(new)) => edit.add_keyed_at(keyed, new, op.member),
            _ => {}
        }
    }
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: Cow<'a, [u8]>,
    /// Its value.
    pub value: Cow<'a, [u8]>,
    /// When it expires.
    pub deadline: Deadline,
}

impl<'a> Field<'a> {
    #[inline]
    pub(crate) fn of(entry: packed::Entry<'a>) -> Field<'a> {
        let (head, start) = varint(entry.payload, 0);
        let end = start + head / 2;
        let deadline = if head % 2 == 1 {
            deadline_at(entry.payload, end)
        } else {
            Deadline::NEVER
        };
        Field {
            name: Cow::Borrowed(entry.member),
            value: Cow::Borrowed(&entry.payload[start..end]),
            deadline,
        }
    }

    #[inline]
    pub(crate) fn of_paged(view: &View<'a>, entry: entry::Entry<'a>) -> Field<'a> {
        let (name, value, tail) = entry.parts();
        Field {
            name: view.bytes_of(name),
            value: value.map_or(Cow::Borrowed(&[]), |value| view.bytes_of(value)),
            deadline: deadline_of(tail),
        }
    }
}

/// The bytes before and after a value in a packed entry: its length and its deadline, if any.
pub(crate) struct Wrapping {
    head: Varint,
    deadline: [u8; 8],
    is_timed: bool,
}

impl Wrapping {
    pub(crate) fn of(value: &[u8], deadline: Deadline) -> Wrapping {
        let is_timed = deadline != Deadline::NEVER;
        Wrapping {
            head: Varint::of(value.len() * 2 + usize::from(is_timed)),
            deadline: raw(deadline).to_le_bytes(),
            is_timed,
        }
    }

    /// The payload in parts: length, value, deadline.
    pub(crate) fn around<'a>(&'a self, value: &'a [u8]) -> [&'a [u8]; 3] {
        let deadline = if self.is_timed {
            &self.deadline[..]
        } else {
            &[]
        };
        [&self.head, value, deadline]
    }
}

/// The deadline of a packed field: the end of its payload, if its first bit says so.
#[inline]
pub(crate) fn packed_deadline(entry: &packed::Entry<'_>) -> Deadline {
    let payload = entry.payload;
    match payload[0] & 1 {
        1 => deadline_at(payload, payload.len() - 8),
        _ => Deadline::NEVER,
    }
}

/// Gives a packed field another deadline; its value stays where it is.
pub(crate) fn retime(
    packed: &mut Packed<'_, Fields>,
    (payload, is_timed): (Range<usize>, bool),
    deadline: Deadline,
) {
    let kept = payload.len() - if is_timed { 8 } else { 0 };
    let wrapping = Wrapping::of(&[], deadline);
    // The lowest bit of the number that comes first says whether a deadline follows.
    let first = packed.byte(payload.start) & !1 | u8::from(wrapping.is_timed);
    let [_, _, end] = wrapping.around(&[]);
    packed.replace_end(payload, kept, first, end);
}

/// The deadline of an entry of the second tree.
pub(crate) fn deadline_of_key(entry: entry::Entry<'_>) -> Deadline {
    let key = entry.lead().try_into().expect("a key has eight bytes");
    Deadline::at(Instant(u64::from_be_bytes(key)))
}

pub(crate) fn deadline_of(tail: Option<u64>) -> Deadline {
    tail.map_or(Deadline::NEVER, |ms| Deadline::at(Instant(ms)))
}

pub(crate) fn tail_of(deadline: Deadline) -> Option<u64> {
    deadline.instant().map(|at| at.0)
}

/// A deadline as bytes that [`crate::hash::own_deadline_place`] takes.
#[must_use]
pub fn raw(deadline: Deadline) -> u64 {
    deadline.instant().map_or(NEVER, |at| at.0)
}

pub(crate) fn deadline_at(bytes: &[u8], at: usize) -> Deadline {
    match u64_at(bytes, at) {
        NEVER => Deadline::NEVER,
        ms => Deadline::at(Instant(ms)),
    }
}

/// The earliest deadline of a field, and the latest.
pub(crate) fn span_of(packed: &Packed<'_, Fields>) -> (Deadline, Deadline) {
    let mut deadlines = packed.iter().map(|entry| packed_deadline(&entry));
    let first = deadlines.next().unwrap_or(Deadline::NEVER);
    deadlines.fold((first, first), |(earliest, latest), deadline| {
        (earliest.min(deadline), latest.max(deadline))
    })
}

/// The first deadline of a field in pages.
pub(crate) fn first_of(view: &View<'_>) -> Deadline {
    let first = view.iter(Tree::Second).next();
    first.map_or(Deadline::NEVER, deadline_of_key)
}

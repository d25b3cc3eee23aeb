//! Stored: deadlines and names that are read from a stored value, without opening it for a change.
//!
//! Of a hash, and of a set whose members may have deadlines.

use std::ops::Range;

use cellar_engine::{Deadline, Instant};

use super::{Hash, OWN_AT, TIMES_BYTES};
use crate::collection::Rules;
use crate::field::{Fields, deadline_at, deadline_of_key, first_of, span_of};
use crate::packed::Packed;
use crate::page::Tree;
use crate::view::{View, is_paged};

/// The key's own deadline, where the item's one may be that of its last field.
#[must_use]
pub fn own_deadline(value: &[u8], deadline: Deadline) -> Deadline {
    match own_deadline_place(value) {
        Some(place) => deadline_at(value, place.start),
        None => deadline,
    }
}

/// When the first field expires, expired or not.
#[must_use]
pub fn first_deadline(value: &[u8]) -> Deadline {
    match value.first() {
        Some(_) if is_paged(value) => first_of(&View::of(value, Fields::forms(value))),
        Some(1) => deadline_at(value, 9),
        _ => Deadline::NEVER,
    }
}

/// When the first field expires that has not expired yet at `now`. Cost: O(log n).
#[must_use]
pub fn first_living(value: &[u8], now: Instant) -> Deadline {
    Hash::view(value, now).next_deadline()
}

/// How many fields expire with an expired hash: all, if it expires with the last of them, and none
/// if it expires by the key's own deadline.
#[must_use]
pub fn expired_with(value: &[u8], item: Deadline) -> usize {
    if own_deadline(value, item) == item {
        return 0;
    }
    Hash::view(value, Instant(0)).members.len()
}

/// The names of all fields, expired or not.
pub fn names(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let (hash, mut at) = (Hash::view(value, Instant(0)), 0);
    std::iter::from_fn(move || {
        let (field, next) = hash.field_at(at)?;
        at = next;
        Some(field.name.into_owned())
    })
}

/// The offset in the value of the key's own deadline, if it is stored.
#[must_use]
pub fn own_deadline_place(value: &[u8]) -> Option<Range<usize>> {
    match value.first() {
        Some(_) if is_paged(value) => Some(OWN_AT..OWN_AT + 8),
        Some(1) => Some(1..9),
        _ => None,
    }
}

/// The item's deadline once the key's own one is `own`.
#[must_use]
pub fn item_deadline(value: &[u8], own: Deadline) -> Deadline {
    if is_paged(value) {
        let view = View::of(value, Fields::forms(value));
        if view.len(Tree::Second) < view.len(Tree::First) {
            return own;
        }
        let last = view.before(view.end(Tree::Second));
        return last.map_or(own, |last| own.min(deadline_of_key(view.entry(last))));
    }
    if value.first() != Some(&1) {
        return own;
    }
    own.min(span_of(&Packed::read(&value[TIMES_BYTES..])).1)
}

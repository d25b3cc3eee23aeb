//! Elements: those of a list, set or sorted set, each with a position that leads to the next.

use std::borrow::Cow;

use cellar_engine::{Handle, Instant, Kind};

use cellar_values::{LIST, List, SET, SORTED_SET, Set, SortedSet};

/// A value that has elements.
pub(super) enum Elements<'a> {
    List(List<'a>),
    Set(Set<'a>),
    Sorted(SortedSet<'a>),
}

/// Whether values of a kind have elements.
pub(super) fn has_elements(kind: Kind) -> bool {
    matches!(kind, LIST | SET | SORTED_SET)
}

/// Whether elements of a kind are unordered.
pub(super) fn is_set(kind: Kind) -> bool {
    kind == SET
}

impl<'a> Elements<'a> {
    /// The elements that a value has at a moment.
    pub(super) fn of(value: &'a Handle, now: Instant) -> Elements<'a> {
        match value.kind() {
            LIST => Elements::List(List::view(value)),
            SET => Elements::Set(Set::view(value, now)),
            _ => Elements::Sorted(SortedSet::view(value)),
        }
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        match self {
            Elements::List(list) => list.len(),
            Elements::Set(set) => set.len(),
            Elements::Sorted(set) => set.len(),
        }
    }

    /// The element at a position, and the next one's position. The first position is zero; none
    /// after the last element.
    pub(super) fn at(&self, place: usize) -> Option<(Cow<'_, [u8]>, usize)> {
        match self {
            Elements::List(list) => {
                let place = if place == 0 { list.place(0) } else { place };
                list.element(place)
            }
            Elements::Set(set) => {
                let (member, next) = set.member_at(place)?;
                Some((member.into_cow(), next))
            }
            Elements::Sorted(set) => {
                let (member, _, next) = set.member_at(place)?;
                Some((member, next))
            }
        }
    }
}

//! Copied: a result that begins as a copy of a stored collection, from which it differs little.
//!
//! A union with small sets, or a difference from them, is a copy of the large set that is changed:
//! copying its bytes takes a fraction of the time that looking at its members takes. The members of
//! the small sets are gathered first. Then each step copies some bytes, or changes some members.

use cellar_engine::Handle;

use crate::resp::call::steps::{Progress, STEP_ITEMS};
use crate::resp::collections::gathered::{Gathered, Place};

/// A collection with fewer members is never copied.
const MEMBERS_MIN: usize = 256;
/// The other collections have at most this part of the members and bytes of the copied one, as a
/// divisor.
const CHANGED_SHARE: usize = 4;
/// Bytes that one step copies: an eighth of a millisecond, about.
const COPIED_BYTES: usize = 256 << 10;
/// Members that one step changes, each in about a microsecond, and their bytes.
const CHANGES: usize = STEP_ITEMS / 8;
const CHANGED_BYTES: usize = COPIED_BYTES;

/// The members of collections, and the bytes of their values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub(super) members: usize,
    pub(super) bytes: usize,
}

impl Extent {
    /// The extent of several collections together.
    pub(super) fn sum(extents: impl Iterator<Item = Extent>) -> Extent {
        extents.fold(Extent::default(), |all, one| Extent {
            members: all.members + one.members,
            bytes: all.bytes + one.bytes,
        })
    }

    /// Whether a copy of a collection with this extent should be changed, rather than a result
    /// built anew, if all collections together have the extent `all`.
    pub(super) fn should_be_copied(self, all: Extent) -> bool {
        self.members >= MEMBERS_MIN
            && all.members - self.members <= self.members / CHANGED_SHARE
            && all.bytes - self.bytes <= self.bytes / CHANGED_SHARE
    }
}

/// A copy of a collection, and the work that is left on it.
pub(super) struct Copied<C> {
    source: Handle,
    /// What is copied so far; empty once there is a collection.
    bytes: Vec<u8>,
    collection: Option<Box<C>>,
    /// The next member to be changed.
    at: Place,
}

impl<C> Copied<C> {
    /// Begins a copy of these bytes.
    pub(super) fn of(source: Handle) -> Copied<C> {
        Copied {
            source,
            bytes: Vec::new(),
            collection: None,
            at: Place::default(),
        }
    }

    /// Whether several steps copy the bytes. The second one allocates the memory of the whole copy:
    /// unlike the first, it runs where the memory of a command is counted and bounded.
    pub(super) fn is_large(&self) -> bool {
        self.source.len() > COPIED_BYTES
    }

    /// Copies some bytes, or changes some of the gathered members.
    pub(super) fn step<T>(
        &mut self,
        gathered: &Gathered<T>,
        of_copy: fn(Vec<u8>) -> C,
        mut change: impl FnMut(&mut C, &[u8], &T),
    ) -> Progress {
        if self.collection.is_none() {
            self.copy();
            if self.bytes.len() < self.source.len() {
                return Progress::More;
            }
        }
        let bytes = &mut self.bytes;
        let whole = || Box::new(of_copy(std::mem::take(bytes)));
        let collection = self.collection.get_or_insert_with(whole);
        let (mut changes, mut bytes) = (0, 0);
        for (member, value, next) in gathered.iter_valued(self.at) {
            if changes == CHANGES || bytes >= CHANGED_BYTES {
                return Progress::More;
            }
            change(collection, member, value);
            (self.at, changes) = (next, changes + 1);
            bytes += member.len();
        }
        Progress::Last
    }

    fn copy(&mut self) {
        let rest = &self.source[self.bytes.len()..];
        let part = &rest[..rest.len().min(COPIED_BYTES)];
        let is_first = self.bytes.is_empty();
        self.bytes
            .reserve_exact(if is_first { part.len() } else { rest.len() });
        self.bytes.extend_from_slice(part);
    }

    /// The changed copy, once the bytes are copied.
    pub(super) fn collection(&self) -> Option<&C> {
        self.collection.as_deref()
    }

    /// The same, for good.
    pub(super) fn into_collection(self) -> Option<C> {
        self.collection.map(|collection| *collection)
    }
}

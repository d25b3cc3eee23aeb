//! Copied: the bytes of a stored collection, for a result that differs from it in few members.
//!
//! A union with small sets, or a difference from them, is a copy of the large set that is changed:
//! to copy its bytes takes a fraction of the time that it takes to look at its members.

use cellar_engine::Handle;

use crate::execute::resp::call::steps::STEP_ITEMS;

/// With fewer members a collection is made anew.
const MEMBERS_MIN: usize = 256;
/// A copy is changed in one of so many members at most, and these have at most that part of its
/// bytes.
const CHANGED_SHARE: usize = 4;
/// Bytes that one step copies: an eighth of a millisecond, about.
const COPIED_BYTES: usize = 256 << 10;
/// Members that one step changes: to look one up and to change it takes about a microsecond.
pub(super) const CHANGES: usize = STEP_ITEMS / 8;
/// Bytes of members after which a step changes no more of them.
pub(super) const CHANGED_BYTES: usize = COPIED_BYTES;

/// Members of a collection, and the bytes of its value.
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
}

/// A copy that is being made.
pub(super) struct Copied {
    source: Handle,
    bytes: Vec<u8>,
}

impl Copied {
    /// Whether a result is better made of a copy of a collection that has this extent, if it may
    /// differ from it in the members of others that have that one.
    pub(super) fn is_better(copied: Extent, others: Extent) -> bool {
        copied.members >= MEMBERS_MIN
            && others.members <= copied.members / CHANGED_SHARE
            && others.bytes <= copied.bytes / CHANGED_SHARE
    }

    /// A copy of these bytes, of which none is there yet.
    pub(super) fn of(source: Handle) -> Copied {
        Copied {
            bytes: Vec::new(),
            source,
        }
    }

    /// Whether more than one step copies it. Memory for the whole copy is allocated by the second
    /// step: by then what a command gathers is bounded.
    pub(super) fn is_large(&self) -> bool {
        self.source.len() > COPIED_BYTES
    }

    /// Copies some bytes more; all of them once they are there. Nothing is asked after that.
    pub(super) fn step(&mut self) -> Option<Vec<u8>> {
        let rest = &self.source[self.bytes.len()..];
        let part = &rest[..rest.len().min(COPIED_BYTES)];
        let is_first = self.bytes.is_empty();
        self.bytes
            .reserve_exact(if is_first { part.len() } else { rest.len() });
        self.bytes.extend_from_slice(part);
        let is_whole = self.bytes.len() == self.source.len();
        is_whole.then(|| std::mem::take(&mut self.bytes))
    }
}

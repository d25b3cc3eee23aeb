//! Collections: hashes, sets, sorted sets and lists, each the bytes of one value.
//!
//! A command that reads works on the bytes as they lie in the cache; one that writes takes them
//! apart, changes the parts and puts them together again ([`Collection`]), so it costs a copy of
//! the collection; a [`list`] is changed in place. [`members`] is what the others have in common:
//! entries one behind the other, and from some size on a table over them, so that finding one
//! member costs the same in large ones.
//!
//! A collection is one value: the longest value that the server takes is its bound. An empty
//! collection does not exist. Cost: a look-up some slots of the table, or at most 128 entries; a
//! change three copies of all bytes, so members by the ten thousand want few changes at a time.
//!
//! Tests: tests/collections.rs.

pub(crate) mod spare; // long buffers that are used again
mod bytes;
pub mod members;
pub mod hash;
pub mod list;
pub mod set;
pub mod sorted_set;

pub use hash::Hash;
pub use list::List;
pub use set::Set;
pub use sorted_set::SortedSet;

use cellar_engine::{Deadline, Instant, Kind};

/// A hash.
pub const HASH: Kind = Kind(1);
/// A set.
pub const SET: Kind = Kind(2);
/// A sorted set.
pub const SORTED_SET: Kind = Kind(3);
/// A list.
pub const LIST: Kind = Kind(4);

/// A collection that can be changed.
pub trait Collection: Sized {
    /// What the value is to Redis.
    const KIND: Kind;

    /// One without members, which is to go at `deadline`.
    fn empty(deadline: Deadline, now: Instant) -> Self;

    /// Takes the bytes of a value apart; what has expired in it at `now` is left out.
    fn open(value: &[u8], deadline: Deadline, now: Instant) -> Self;

    /// Whether it is other than it was.
    fn is_changed(&self) -> bool;

    /// How many of its members were left out because they had expired.
    fn expired(&self) -> usize {
        0
    }

    /// Whether it has no members.
    fn is_empty(&self) -> bool;

    /// Whether it has come to more bytes than these, or to many more that it would drop.
    fn is_longer_than(&self, bytes: usize) -> bool;

    /// Appends the bytes of the value; when the item goes.
    fn write(self, out: &mut Vec<u8>) -> Deadline;
}

//! Space: which of several key spaces an item belongs to, and what kind of value it holds.
//!
//! The same bytes are different keys in different spaces. The main space and the plain kind cost
//! nothing; all others cost an item 5 bytes and the 2 of an extended header (item.rs).
//!
//! Why: docs/decisions/0015. Tests: tests/space.rs.

/// A key space. Numbers are the caller's choice; one that was retired is not used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(pub u32);

impl Space {
    /// The space of [`Cache::key`](crate::Cache::key).
    pub const MAIN: Space = Space(0);
}

/// What a value is to its protocol. The engine keeps it and compares nothing but
/// [`Kind::STRING`]: only strings are extended at an end, counted up or looked up for a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// Bytes without further meaning.
    pub const STRING: Kind = Kind(0);
}

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
    /// Most shares of memory that may have spaces of their own.
    pub const SHARES_MAX: usize = 8;
    /// Spaces from here on have a share of memory, whose number is above [`Space::NUMBERS`].
    const KEPT_FROM: u32 = 1 << 31;
    const SHARE_SHIFT: u32 = 28;
    /// How many spaces a share has.
    pub const NUMBERS: u32 = 1 << Space::SHARE_SHIFT;

    /// Space `number` of a share of memory of its own, of [`Config::keep`](crate::Config::keep).
    ///
    /// # Panics
    /// If there cannot be such a share.
    #[must_use]
    pub const fn kept(share: usize, number: u32) -> Space {
        assert!(share < Space::SHARES_MAX, "more shares than there may be");
        let share = (share as u32) << Space::SHARE_SHIFT;
        Space(Space::KEPT_FROM | share | (number % Space::NUMBERS))
    }

    /// The share of memory that the space lies in; `None` for what all others have in common.
    #[inline]
    #[must_use]
    pub const fn share(self) -> Option<usize> {
        if self.0 < Space::KEPT_FROM {
            return None;
        }
        Some(((self.0 - Space::KEPT_FROM) >> Space::SHARE_SHIFT) as usize)
    }
}

/// The type of a value, as its protocol defines it. The engine stores it and compares it only with
/// [`Kind::STRING`]: only strings are extended at an end, counted up or looked up for a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// Bytes without further meaning.
    pub const STRING: Kind = Kind(0);
}

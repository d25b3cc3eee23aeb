//! Digest: the secret hash of a member, by which it is found, and tags, which are parts of it.

use std::cell::Cell;
use std::fmt;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// How many seeds a thread knows the secrets of.
const SEEDS: usize = 32;

/// Bits by which tags of a leaf's range differ at most: the order needs one bit less than a tag
/// has.
const TAG_RANGE_BITS: u32 = 14;
/// Bits of these that a leaf may lose by splits before its tags are made anew. The fewer are left,
/// the more look-ups compare another member.
const TAG_BITS_LOST_MAX: u8 = 2;

thread_local! {
    /// The secrets of the last seeds, each at the remainder of its seed: to make them takes as long
    /// as to hash a short member.
    static LAST: [Cell<(u64, RapidSecrets)>; SEEDS] =
        const { [const { Cell::new((0, RapidSecrets::seed(0))) }; SEEDS] };
}

/// The hash of a member in a value with this seed.
#[inline]
pub(crate) fn hash(seed: u64, member: &[u8]) -> u64 {
    Hasher::of(seed).hash(member)
}

/// Hashes members of a value by its secret seed.
#[derive(Clone, Copy)]
pub struct Hasher {
    seed: u64,
    secrets: RapidSecrets,
}

impl fmt::Debug for Hasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secrets are not printed.
        formatter.write_str("Hasher")
    }
}

impl Hasher {
    /// The hasher of a value with this seed.
    #[inline]
    #[must_use]
    pub fn of(seed: u64) -> Hasher {
        let (known, secrets) = LAST.with(|last| last[seed as usize % SEEDS].get());
        match known == seed {
            true => Hasher { seed, secrets },
            false => Hasher::remembered(seed),
        }
    }

    /// A hasher whose secrets this thread knows from now on.
    #[cold]
    fn remembered(seed: u64) -> Hasher {
        let secrets = RapidSecrets::seed(seed);
        LAST.with(|last| last[seed as usize % SEEDS].set((seed, secrets)));
        Hasher { seed, secrets }
    }

    /// The seed.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The hash of a member. Cost: a pass over its bytes.
    #[inline]
    #[must_use]
    pub fn hash(&self, member: &[u8]) -> u64 {
        rapidhash_v3_seeded(member, &self.secrets)
    }
}

/// The tag of a hash, by the shift of its leaf.
#[inline]
pub(crate) fn tag(hash: u64, shift: u8) -> u16 {
    (hash >> (shift & 63)) as u16
}

/// The least shift by which the tags of a range of hashes have their order.
pub(crate) fn least_shift((least, most): (u64, u64)) -> u8 {
    let bits = u64::BITS - (most - least).leading_zeros();
    bits.saturating_sub(TAG_RANGE_BITS) as u8
}

/// The shift for a leaf of a range of hashes that had another range before: the same, if it is good
/// enough.
pub(crate) fn shift_for(range: (u64, u64), before: u8) -> u8 {
    let least = least_shift(range);
    match (least..=least + TAG_BITS_LOST_MAX).contains(&before) {
        true => before,
        false => least,
    }
}

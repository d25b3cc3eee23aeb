//! Digest: the secret hash of a member, by which it is found.

use std::cell::Cell;
use std::fmt;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// How many seeds a thread knows the secrets of.
const SEEDS: usize = 8;

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

//! Digest: the secret hash of a member, by which it is found.

use std::cell::Cell;
use std::fmt;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

thread_local! {
    /// The secrets of the last seed: to make them takes as long as to hash a short member.
    static LAST: Cell<(u64, RapidSecrets)> = const { Cell::new((0, RapidSecrets::seed(0))) };
}

/// The hash of a member in a value with this seed.
#[inline]
pub(crate) fn hash(seed: u64, member: &[u8]) -> u64 {
    Hasher::of(seed).hash(member)
}

/// Hashes many members of a value.
#[derive(Clone, Copy)]
pub(crate) struct Hasher(RapidSecrets);

impl fmt::Debug for Hasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secrets are not printed.
        formatter.write_str("Hasher")
    }
}

impl Hasher {
    /// The hasher of a value with this seed.
    #[inline]
    pub(crate) fn of(seed: u64) -> Hasher {
        let (last, secrets) = LAST.get();
        if last == seed {
            return Hasher(secrets);
        }
        let secrets = RapidSecrets::seed(seed);
        LAST.set((seed, secrets));
        Hasher(secrets)
    }

    #[inline]
    pub(crate) fn hash(&self, member: &[u8]) -> u64 {
        rapidhash_v3_seeded(member, &self.0)
    }
}

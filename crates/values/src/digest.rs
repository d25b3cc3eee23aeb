//! Digest: the secret hash of a member, by which it is found.

use std::cell::Cell;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

thread_local! {
    /// The secrets of the last seed: to make them takes as long as to hash a short member.
    static LAST: Cell<(u64, RapidSecrets)> = const { Cell::new((0, RapidSecrets::seed(0))) };
}

/// The hash of a member in a value with this seed.
#[inline]
pub(crate) fn hash(seed: u64, member: &[u8]) -> u64 {
    let (last, secrets) = LAST.get();
    let secrets = match last == seed {
        true => secrets,
        false => {
            let secrets = RapidSecrets::seed(seed);
            LAST.set((seed, secrets));
            secrets
        }
    };
    rapidhash_v3_seeded(member, &secrets)
}

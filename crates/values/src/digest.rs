//! Digest: the secret hash of a member, by which it is found.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// The hash of a member in a value with this seed.
#[inline]
pub(crate) fn hash(seed: u64, member: &[u8]) -> u64 {
    rapidhash_v3_seeded(member, &RapidSecrets::seed(seed))
}

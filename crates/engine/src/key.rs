//! Keys: bytes together with their hash, computed once per request.
//!
//! The hash is keyed with a random seed per cache, so a client cannot choose keys that collide. A
//! space other than the main one is mixed into it.

use crate::base::error::Error;
use crate::base::space::Space;
use crate::memory::table::Candidate;

/// Longest key in bytes; memcached's protocol allows 1 to 250, the engine allows more for other
/// protocols.
pub const KEY_BYTES_MAX: usize = 65_535;

/// A key in its space, and its hash; made by [`Cache::key`](crate::Cache::key) and
/// [`Cache::key_in`](crate::Cache::key_in), cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    bytes: &'k [u8],
    hash: u64,
    space: Space,
    hinted: Option<Candidate>,
}

impl<'k> Key<'k> {
    /// The same key, whose item [`Cache::hint_item`](crate::Cache::hint_item) has found there: a
    /// read or a store need not search the index if it still lies there.
    #[inline]
    #[must_use]
    pub fn hinted_at(self, hinted: Option<Candidate>) -> Key<'k> {
        Key { hinted, ..self }
    }

    /// Where the item probably lies, if that was looked for.
    #[inline]
    pub(crate) fn hinted(self) -> Option<Candidate> {
        self.hinted
    }

    /// The key's bytes.
    #[must_use]
    pub fn bytes(self) -> &'k [u8] {
        self.bytes
    }

    /// The key's hash under the seed of the cache that made it.
    #[must_use]
    pub fn hash(self) -> u64 {
        self.hash
    }

    /// The key's length, and its space above it.
    #[inline]
    pub(crate) fn word(self) -> u64 {
        self.bytes.len() as u64 | u64::from(self.space.0) << 32
    }

    /// The space the key lies in.
    #[must_use]
    pub fn space(self) -> Space {
        self.space
    }
}

/// Makes keys: holds one cache's hash seed.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    secrets: rapidhash::v3::RapidSecrets,
}

impl Hasher {
    /// A hasher with the given seed.
    pub(crate) fn with_seed(seed: u64) -> Hasher {
        Hasher {
            secrets: rapidhash::v3::RapidSecrets::seed(seed),
        }
    }

    /// Checks the length and hashes the key.
    ///
    /// # Errors
    /// [`Error::KeyLength`] for an over-long key.
    #[inline]
    pub(crate) fn key<'k>(&self, space: Space, bytes: &'k [u8]) -> Result<Key<'k>, Error> {
        if bytes.len() > KEY_BYTES_MAX {
            return Err(Error::KeyLength {
                bytes: bytes.len(),
                max: KEY_BYTES_MAX,
            });
        }
        Ok(self.known(space, bytes))
    }

    /// The key of bytes that are known to be one.
    #[inline]
    pub(crate) fn known<'k>(&self, space: Space, bytes: &'k [u8]) -> Key<'k> {
        let hash = self.hash(bytes);
        let hash = if space == Space::MAIN {
            hash
        } else {
            mix(hash, space)
        };
        Key {
            bytes,
            hash,
            space,
            hinted: None,
        }
    }

    /// The hash of bytes in the main space.
    #[inline]
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        rapidhash::v3::rapidhash_v3_seeded(bytes, &self.secrets)
    }
}

/// Another hash for each space, all of whose bits depend on both.
fn mix(hash: u64, space: Space) -> u64 {
    let mut mixed = hash ^ u64::from(space.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A seed that differs from process to process, from the standard library's random state.
pub(crate) fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish()
}

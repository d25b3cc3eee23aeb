//! Keys: bytes together with their hash, computed once per request.
//!
//! The hash is keyed with a random seed per cache, so nobody outside can choose keys that collide.

use crate::error::Error;

/// Longest key in bytes; memcached's protocol allows 250, the engine leaves room for others.
pub const KEY_BYTES_MAX: usize = 65_535;

/// A key and its hash; made by [`Cache::key`](crate::Cache::key), cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    bytes: &'k [u8],
    hash: u64,
}

impl<'k> Key<'k> {
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
    /// [`Error::KeyLength`] for an empty or over-long key.
    #[inline]
    pub(crate) fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>, Error> {
        if bytes.is_empty() || bytes.len() > KEY_BYTES_MAX {
            return Err(Error::KeyLength {
                bytes: bytes.len(),
                max: KEY_BYTES_MAX,
            });
        }
        Ok(Key {
            bytes,
            hash: self.hash(bytes),
        })
    }

    /// The hash of bytes that are known to be a key.
    #[inline]
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        rapidhash::v3::rapidhash_v3_seeded(bytes, &self.secrets)
    }
}

/// A seed that differs from process to process, from the standard library's random state.
pub(crate) fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish()
}

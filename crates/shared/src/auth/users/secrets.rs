//! Secrets: hashes of passwords, and a cache of right passwords.
//!
//! A hash is an argon2id string in PHC format and takes tens of milliseconds to compare. The cache
//! stores a MAC of a right password, the user's name and the hash, with a random key of this
//! process: the table reveals nothing.

use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Block, Params, PasswordHasher, Version};
use blake2::Blake2sMac256;
use blake2::digest::{KeyInit, Mac};
use cellar_config::error::Error;
use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroize;

use crate::auth::login_limiter::is_same;

/// Longest password.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// Most memory that a hash may take, in KiB; a line of the file decides how much the server takes.
const HASH_KIB_MAX: u32 = 256 << 10;
/// The same in bytes: of a thread that compares.
pub const HASH_BYTES_MAX: usize = (HASH_KIB_MAX as usize) << 10;
/// Memory of a hash made by [`hash`].
pub const OWN_HASH_BYTES: usize = (Params::DEFAULT_M_COST as usize) << 10;
/// Most rounds and lanes of one.
const ROUNDS_MAX: u32 = 64;
/// Sets of remembered MACs.
const SETS: usize = 1 << 10;
/// MACs in a set.
const WAYS: usize = 4;

/// A MAC.
pub(super) type Mac256 = [u8; 32];

/// The hash of a password, in the file's format.
///
/// # Errors
/// A message if its length is out of range, or if hashing fails.
pub fn hash(password: &[u8]) -> Result<String, String> {
    if !(1..=PASSWORD_BYTES_MAX).contains(&password.len()) {
        return Err(format!("a password has 1 to {PASSWORD_BYTES_MAX} bytes"));
    }
    let hash: Result<PasswordHash, _> = Argon2::default().hash_password(password);
    hash.map(|hash| hash.to_string())
        .map_err(|error| error.to_string())
}

/// Checks that a text is a hash that can be compared with.
pub(super) fn check(text: &str) -> Result<(), String> {
    const NO_HASH: &str = "write the hash that `cellar hash-password` prints: $argon2id$...";
    let hash = PasswordHash::new(text).map_err(|_| NO_HASH.to_owned())?;
    let algorithm = Algorithm::try_from(hash.algorithm.as_str());
    if algorithm != Ok(Algorithm::Argon2id) || hash.salt.is_none() || hash.hash.is_none() {
        return Err(NO_HASH.to_owned());
    }
    let params = Params::try_from(&hash).map_err(|_| NO_HASH.to_owned())?;
    let is_small = params.m_cost() <= HASH_KIB_MAX;
    if is_small && params.t_cost() <= ROUNDS_MAX && params.p_cost() <= ROUNDS_MAX {
        return Ok(());
    }
    Err(format!(
        "the hash asks for more than {HASH_KIB_MAX} KiB, or more than {ROUNDS_MAX} rounds or lanes"
    ))
}

/// Compares passwords with hashes, one after the other, in memory that it reuses: a third of the
/// time of a hash goes into getting fresh memory.
#[derive(Default)]
pub struct PasswordChecker {
    blocks: Vec<Block>,
}

impl PasswordChecker {
    /// Whether a password is that of a hash; tens of milliseconds. `false` for a text that
    /// [`check`] refuses.
    pub(super) fn is_right(&mut self, password: &[u8], hash: &str) -> bool {
        self.hash_as(password, hash)
            .is_some_and(|(own, other)| is_same(&own, &other))
    }

    /// A password's hash with the salt and the parameters of another hash, and that hash.
    fn hash_as(&mut self, password: &[u8], hash: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        let hash = PasswordHash::new(hash).ok()?;
        let params = Params::try_from(&hash).ok()?;
        let algorithm = Algorithm::try_from(hash.algorithm.as_str()).ok()?;
        let version = hash.version.map(Version::try_from).transpose().ok()?;
        let other = hash.hash.as_ref()?.as_bytes().to_vec();
        let blocks = params.block_count();
        if self.blocks.len() != blocks {
            self.rest();
            self.blocks = vec![Block::new(); blocks];
        }
        let argon2 = Argon2::new(algorithm, version.unwrap_or_default(), params);
        let mut own = vec![0; other.len()];
        let salt = hash.salt.as_ref()?;
        argon2
            .hash_password_into_with_memory(password, salt, &mut own, &mut self.blocks)
            .ok()?;
        Some((own, other))
    }

    /// Clears and frees the memory.
    pub fn rest(&mut self) {
        self.blocks.zeroize();
        self.blocks = Vec::new();
    }
}

/// Passwords that were right.
pub(super) struct Remembered {
    key: Mac256,
    sets: Mutex<Box<[[Mac256; WAYS]]>>,
}

impl std::fmt::Debug for Remembered {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Remembered").finish_non_exhaustive()
    }
}

impl Remembered {
    /// An empty cache, with a new random key.
    pub(super) fn new() -> Result<Remembered, Error> {
        let mut key = Mac256::default();
        let drawn = getrandom(&mut key, GetRandomFlags::empty());
        drawn.map_err(Error::system("drawing a key"))?;
        Ok(Remembered {
            key,
            sets: Mutex::new(vec![[Mac256::default(); WAYS]; SETS].into_boxed_slice()),
        })
    }

    /// The MAC of a user's password and one of the user's hashes.
    pub(super) fn digest(&self, name: &[u8], password: &[u8], hash: &str) -> Mac256 {
        let mut mac = Blake2sMac256::new_from_slice(&self.key).expect("keys have 1 to 32 bytes");
        // Lengths first, so that no two different sets of parts are the same bytes.
        for part in [name, password, hash.as_bytes()] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// Whether it was cached, compared in constant time.
    pub(super) fn has(&self, digest: &Mac256) -> bool {
        let sets = self.sets.lock();
        let ways = &sets[set_of(digest)];
        ways.iter()
            .fold(false, |found, way| found | is_same(digest, way))
    }

    /// Adds it to the cache, in the place of another of its set if that is full.
    pub(super) fn add(&self, digest: &Mac256) {
        let mut sets = self.sets.lock();
        let ways = &mut sets[set_of(digest)];
        if !ways.contains(digest) {
            ways.rotate_right(1);
            ways[0] = *digest;
        }
    }

    /// The MACs of a user's password with each of its hashes.
    pub(super) fn digests(&self, name: &[u8], password: &[u8], hashes: &[Arc<str>]) -> Vec<Mac256> {
        let digest = |hash: &Arc<str>| self.digest(name, password, hash);
        hashes.iter().map(digest).collect()
    }
}

fn set_of(digest: &Mac256) -> usize {
    usize::from(u16::from_le_bytes([digest[0], digest[1]])) % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_right_for_its_password_alone() {
        let text = hash(b"open sesame").unwrap();
        assert!(text.starts_with("$argon2id$v=19$") && check(&text) == Ok(()));
        let mut checker = PasswordChecker::default();
        let mut is_right = |password: &[u8]| checker.is_right(password, &text);
        assert!(is_right(b"open sesame") && !is_right(b"open sesam"));
        assert!(
            is_right(b"open sesame"),
            "what was computed before changes nothing"
        );
        assert_ne!(
            hash(b"open sesame").unwrap(),
            text,
            "each has a salt of its own"
        );
        assert!(hash(b"").is_err() && hash(&[b'x'; 1_025]).is_err());
    }

    #[test]
    fn hashes_with_any_parameters_are_compared_one_after_the_other() {
        let mut checker = PasswordChecker::default();
        let parameters = [
            (19_456, 2, 1),
            (64, 3, 1),
            (128, 1, 4),
            (64, 3, 1),
            (19_456, 2, 1),
        ];
        for (number, (kib, rounds, lanes)) in parameters.into_iter().enumerate() {
            for bytes in [16, 32, 64] {
                let params = Params::new(kib, rounds, lanes, Some(bytes)).unwrap();
                let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
                let password = format!("pw {number}");
                let text = argon2
                    .hash_password(password.as_bytes())
                    .unwrap()
                    .to_string();
                assert_eq!(check(&text), Ok(()));
                assert!(checker.is_right(password.as_bytes(), &text), "{text}");
                assert!(!checker.is_right(b"pw", &text), "{text}");
            }
        }
        assert_eq!(checker.blocks.capacity(), 19_456);
        assert!(!checker.is_right(b"pw", "$argon2id$"));
        checker.rest();
        assert!(checker.blocks.is_empty());
    }

    #[test]
    fn what_was_right_is_known_again_for_its_user_and_hash() {
        let remembered = Remembered::new().unwrap();
        let right = remembered.digest(b"ann", b"secret", "$h");
        assert!(!remembered.has(&right));
        remembered.add(&right);
        assert!(remembered.has(&right));
        for (name, password, hash) in [
            ("bob", "secret", "$h"),
            ("ann", "secre", "t$h"),
            ("anns", "ecret", "$h"),
            ("ann", "secret", "$i"),
        ] {
            let other = remembered.digest(name.as_bytes(), password.as_bytes(), hash);
            assert!(!remembered.has(&other));
        }
        let other = Remembered::new().unwrap();
        assert_ne!(
            other.digest(b"ann", b"secret", "$h"),
            right,
            "each process has its key"
        );
        for number in 0..100_000_u64 {
            remembered.add(&remembered.digest(b"u", &number.to_le_bytes(), ""));
        }
        assert!(!remembered.has(&right), "the table stays as large as it is");
    }
}

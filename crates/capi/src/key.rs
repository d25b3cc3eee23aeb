//! The keys of a store: bytes or numbers.
//!
//! A key of at most 22 bytes lies in the entry itself, so that comparing it reads nothing else.
#![allow(unsafe_code, reason = "a key's bytes are behind a pointer from C")]

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};

use cellar_near::Key;

use crate::border::{Failure, bytes};

/// Longest key of a local store, in bytes. Servers allow less.
pub const CELLAR_KEY_BYTES_MAX: usize = 65_536;

/// A key: bytes, or a number if the store was opened for numbers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KeyIn {
    /// The bytes; null if the key is a number, or empty.
    pub data: *const u8,
    /// The number of bytes; or the number itself.
    pub length: u64,
}

/// Bytes that a key of an entry has room for.
const SHORT_MAX: usize = 22;

/// A key of bytes.
#[derive(Clone, Debug)]
pub(crate) enum BytesKey {
    Short(u8, [u8; SHORT_MAX]),
    Long(Box<[u8]>),
}

const _: () = assert!(size_of::<BytesKey>() == 24, "three words");

impl BytesKey {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            BytesKey::Short(length, bytes) => &bytes[..usize::from(*length).min(SHORT_MAX)],
            BytesKey::Long(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for BytesKey {
    fn from(bytes: &[u8]) -> BytesKey {
        let mut short = [0; SHORT_MAX];
        match (short.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(bytes);
                BytesKey::Short(length, short)
            }
            _ => BytesKey::Long(bytes.into()),
        }
    }
}

impl PartialEq for BytesKey {
    fn eq(&self, other: &BytesKey) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for BytesKey {}

impl Hash for BytesKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

/// Bytes of a key that is looked up: a type of its own, because only such have an owned form.
#[repr(transparent)]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sought([u8]);

impl Sought {
    pub(crate) fn of(bytes: &[u8]) -> &Sought {
        // SAFETY: `Sought` is `[u8]` with another name (`repr(transparent)`), so a reference to one
        // is a reference to the other, of the same length and life.
        unsafe { &*(std::ptr::from_ref(bytes) as *const Sought) }
    }
}

impl Hash for Sought {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Borrow<Sought> for BytesKey {
    #[inline]
    fn borrow(&self) -> &Sought {
        Sought::of(self.as_bytes())
    }
}

impl ToOwned for Sought {
    type Owned = BytesKey;

    fn to_owned(&self) -> BytesKey {
        BytesKey::from(&self.0)
    }
}

impl Key for BytesKey {
    fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn from_bytes(bytes: &[u8]) -> Option<BytesKey> {
        Some(BytesKey::from(bytes))
    }
}

/// A type of keys that a store can have.
pub(crate) trait StoreKey:
    Hash + Eq + Clone + Send + Sync + Borrow<Self::Look> + 'static
{
    /// The borrowed form by which it is looked up.
    type Look: Hash + Eq + ToOwned<Owned = Self> + ?Sized;

    /// The key that C names.
    ///
    /// # Safety
    /// If `key` has bytes, they live and are not changed while it is borrowed.
    unsafe fn look(key: &KeyIn) -> Result<&Self::Look, Failure>;

    /// The weight of a key, in addition to its value's.
    fn weight(look: &Self::Look) -> usize;
}

impl StoreKey for BytesKey {
    type Look = Sought;

    #[inline]
    unsafe fn look(key: &KeyIn) -> Result<&Sought, Failure> {
        let length = usize::try_from(key.length).unwrap_or(usize::MAX);
        // SAFETY: as the caller promises.
        let bytes = unsafe { bytes(key.data, length, CELLAR_KEY_BYTES_MAX) }?;
        Ok(Sought::of(bytes))
    }

    fn weight(look: &Sought) -> usize {
        look.0.len()
    }
}

impl StoreKey for u64 {
    type Look = u64;

    #[inline]
    unsafe fn look(key: &KeyIn) -> Result<&u64, Failure> {
        match key.data.is_null() {
            true => Ok(&key.length),
            false => Err(Failure::argument("this store's keys are numbers")),
        }
    }

    fn weight(_look: &u64) -> usize {
        size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, RandomState};

    #[test]
    fn keys_of_every_length_are_their_bytes() {
        let hasher = RandomState::new();
        let all = [7; 60];
        for length in 0..all.len() {
            let bytes = &all[..length];
            let key = BytesKey::from(bytes);
            assert_eq!(key.as_bytes(), bytes);
            assert_eq!(matches!(key, BytesKey::Short(..)), length <= SHORT_MAX);
            let sought = Sought::of(bytes);
            assert_eq!(hasher.hash_one(&key), hasher.hash_one(sought));
            assert_eq!(Borrow::<Sought>::borrow(&key), sought);
            assert_eq!(sought.to_owned(), key);
            assert_eq!(<BytesKey as Key>::from_bytes(bytes), Some(key));
            assert_eq!(<BytesKey as StoreKey>::weight(sought), length);
        }
    }
}

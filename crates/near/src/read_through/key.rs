//! Keys: typed in the process, bytes at the origin, and back again.

use std::hash::Hash;
use std::sync::Arc;

/// A key that the origin sees as bytes.
///
/// `Self::from_bytes(bytes of key) == Some(key)` must hold for every key: invalidations arrive as
/// bytes, and one that cannot be parsed would not drop the local copy.
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {
    /// Appends the bytes under which the origin knows the key.
    fn append_to(&self, out: &mut Vec<u8>);

    /// The key with these bytes; `None` if there is none.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

/// Keys that are text.
macro_rules! text_keys {
    ($($name:ty),*) => {$(
        impl Key for $name {
            fn append_to(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.as_bytes());
            }

            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                std::str::from_utf8(bytes).ok().map(Self::from)
            }
        }
    )*};
}
text_keys!(String, Box<str>, Arc<str>);

/// Keys that are bytes.
macro_rules! byte_keys {
    ($($name:ty),*) => {$(
        impl Key for $name {
            fn append_to(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self);
            }

            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                Some(Self::from(bytes))
            }
        }
    )*};
}
byte_keys!(Vec<u8>, Box<[u8]>, Arc<[u8]>);

/// Keys that are whole numbers, in decimal.
macro_rules! number_keys {
    ($($name:ty),*) => {$(
        impl Key for $name {
            fn append_to(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.to_string().as_bytes());
            }

            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                std::str::from_utf8(bytes).ok()?.parse().ok()
            }
        }
    )*};
}
number_keys!(u32, u64, i32, i64, u128);

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: impl Key + std::fmt::Debug, expected: &[u8]) {
        let mut bytes = Vec::new();
        key.append_to(&mut bytes);
        assert_eq!(bytes, expected);
        assert_eq!(Key::from_bytes(&bytes), Some(key));
    }

    #[test]
    fn every_kind_of_key_comes_back_from_its_bytes() {
        check(String::from("user:7"), b"user:7");
        check(Arc::<str>::from("ä"), "ä".as_bytes());
        check(vec![0, 255, 13, 10], &[0, 255, 13, 10]);
        check(u64::MAX, b"18446744073709551615");
        check(-7_i64, b"-7");
    }

    #[test]
    fn bytes_of_another_type_are_no_key() {
        assert_eq!(u64::from_bytes(b"user:7"), None);
        assert_eq!(String::from_bytes(&[0xff]), None);
    }
}

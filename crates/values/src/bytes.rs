//! Bytes: a value that can be changed where it lies.

/// The bytes of one value.
pub trait Bytes {
    /// All of them.
    fn bytes(&self) -> &[u8];

    /// Writes over some of them.
    ///
    /// # Panics
    /// If they reach beyond the end.
    fn write(&mut self, at: usize, bytes: &[u8]);

    /// Makes the value this long. What is added has any content until it is written.
    ///
    /// # Panics
    /// If the value has no space for so many bytes: see [`Plan`](crate::Plan).
    fn resize(&mut self, len: usize);
}

impl Bytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn resize(&mut self, len: usize) {
        self.resize(len, 0);
    }
}

/// The number of 16 bits at `at`, little end first.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// The number of 32 bits at `at`.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(four)
}

/// The number of 64 bits at `at`.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes[at..at + 8].try_into().expect("eight bytes");
    u64::from_le_bytes(eight)
}

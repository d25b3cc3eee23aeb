//! Bytes: numbers within a value. None of these panics on bytes that were written by the others.

/// Appends a number in groups of seven bits, the lowest first; the last one lacks the top bit.
#[inline]
pub(super) fn push_varint(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads what [`push_varint`] wrote at `at`, and where it ends.
#[inline]
pub(super) fn varint(bytes: &[u8], at: usize) -> (usize, usize) {
    let first = bytes[at];
    if first < 0x80 {
        return (usize::from(first), at + 1);
    }
    let (mut number, mut shift, mut at) = (usize::from(first & 0x7f), 7, at + 1);
    loop {
        let byte = bytes[at];
        number |= usize::from(byte & 0x7f) << shift;
        (shift, at) = (shift + 7, at + 1);
        if byte < 0x80 {
            return (number, at);
        }
    }
}

/// The number of 32 bits at place `index` of an array of them.
#[inline]
pub(super) fn u32_at(array: &[u8], index: usize) -> u32 {
    let bytes = &array[index * 4..index * 4 + 4];
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

/// Sets the number of 32 bits at place `index` of an array of them.
#[inline]
pub(super) fn set_u32(array: &mut [u8], index: usize, number: u32) {
    array[index * 4..index * 4 + 4].copy_from_slice(&number.to_le_bytes());
}

/// Keeps those numbers of an array of them, of 32 bits each, that are to stay, in their order.
pub(super) fn retain_u32(array: &mut Vec<u8>, mut stays: impl FnMut(u32) -> bool) {
    let mut count = 0;
    for index in 0..array.len() / 4 {
        let number = u32_at(array, index);
        if stays(number) {
            set_u32(array, count, number);
            count += 1;
        }
    }
    array.truncate(count * 4);
}

/// The number of 64 bits at `at`.
#[inline]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::{push_varint, varint};

    #[test]
    fn a_number_is_read_as_it_was_written() {
        for number in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 1 << 28, u32::MAX as usize] {
            let mut bytes = vec![9];
            push_varint(&mut bytes, number);
            assert_eq!(varint(&bytes, 1), (number, bytes.len()));
        }
    }
}

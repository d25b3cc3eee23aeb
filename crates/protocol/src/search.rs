//! Search: the position of a byte that is near as a rule, looked for in words.
//!
//! A word of eight bytes takes a handful of instructions, fewer than the call of a search that is
//! made for long texts; that one goes on behind the first [`NEAR_BYTES_MAX`].

use memchr::memchr;

/// So far a byte is looked for in words.
const NEAR_BYTES_MAX: usize = 64;
/// One in each byte of a word.
pub(crate) const ONES: u64 = u64::from_ne_bytes([1; WORD_BYTES]);
pub(crate) const WORD_BYTES: usize = size_of::<u64>();

/// The highest bit of each byte of a word that is `wanted`; above the first one perhaps of others.
#[inline]
fn equal(word: u64, wanted: u8) -> u64 {
    let differs = word ^ (ONES * u64::from(wanted));
    differs.wrapping_sub(ONES) & !differs & (ONES << 7)
}

/// The position of the first such byte.
#[inline]
#[must_use]
pub fn position(wanted: u8, text: &[u8]) -> Option<usize> {
    let near = &text[..text.len().min(NEAR_BYTES_MAX)];
    let (words, rest) = near.as_chunks::<WORD_BYTES>();
    let mut at = 0;
    for word in words {
        let equal = equal(u64::from_le_bytes(*word), wanted);
        if equal != 0 {
            return Some(at + equal.trailing_zeros() as usize / 8);
        }
        at += WORD_BYTES;
    }
    match rest.iter().position(|byte| *byte == wanted) {
        Some(found) => Some(at + found),
        None if near.len() == text.len() => None,
        None => memchr(wanted, &text[near.len()..]).map(|found| near.len() + found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_wherever_it_is() {
        for len in (0..100).chain([1_000]) {
            let mut text = vec![b'x'; len];
            assert_eq!(position(b'?', &text), None);
            for at in 0..len {
                text[at] = b'?';
                assert_eq!(position(b'?', &text), Some(at), "{len}");
                // What follows does not matter.
                if let Some(next) = text.get_mut(at + 1) {
                    *next = b'?' ^ 1;
                    assert_eq!(position(b'?', &text), Some(at), "{len}");
                    text[at + 1] = b'x';
                }
                text[at] = b'?' - 1;
                assert_eq!(position(b'?', &text), None, "{len}");
                text[at] = b'x';
            }
        }
    }
}

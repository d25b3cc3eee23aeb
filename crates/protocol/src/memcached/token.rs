//! Tokens: the words of a command line, separated by spaces and by nothing else.

use crate::search::{ONES, WORD_BYTES, position};

/// Most tokens of one line that are parsed; the rest is ignored.
///
/// Source: MCMC_PARSER_MAX_TOKENS of memcached 1.6.45, less its end mark.
pub const TOKENS_MAX: usize = 23;

/// How many of the first bytes are no space and no control character, if another one follows them
/// and they are at most `most`.
#[inline]
pub(super) fn visible(text: &[u8], most: usize) -> Option<usize> {
    let near = &text[..text.len().min(most + 1)];
    let (words, rest) = near.as_chunks::<WORD_BYTES>();
    let mut at = 0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        // The highest bit of each byte below the first visible one; above the first perhaps of
        // others.
        let low = word.wrapping_sub(ONES * u64::from(b'!')) & !word & (ONES << 7);
        if low != 0 {
            return Some(at + low.trailing_zeros() as usize / 8);
        }
        at += WORD_BYTES;
    }
    let found = rest.iter().position(|byte| *byte < b'!')?;
    Some(at + found)
}

/// The position of the first space, or the length if there is none.
#[inline]
fn first_space(text: &[u8]) -> usize {
    position(b' ', text).unwrap_or(text.len())
}

/// The tokens of a line, from the left.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Tokens<'a> {
    /// The tokens of `line`, which has no line end.
    #[inline]
    #[must_use]
    pub fn of(line: &'a [u8]) -> Tokens<'a> {
        Tokens {
            rest: line,
            left: TOKENS_MAX,
        }
    }

    /// The same with `taken` tokens less to come: they stood before `rest`.
    #[inline]
    #[must_use]
    pub fn after(self, taken: usize) -> Tokens<'a> {
        Tokens {
            left: self.left.saturating_sub(taken),
            ..self
        }
    }

    /// The unread rest.
    #[inline]
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.left == 0 {
            return None;
        }
        while let [b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return None;
        }
        self.left -= 1;
        let end = first_space(self.rest);
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

/// Every word of a text, however many there are: the keys of a read.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// The words of `text`.
    #[inline]
    #[must_use]
    pub fn of(text: &'a [u8]) -> Words<'a> {
        Words(text)
    }

    /// The unread rest.
    #[inline]
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let mut tokens = Tokens::of(self.0);
        let word = tokens.next();
        self.0 = tokens.rest;
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_bytes_is_found_wherever_it_is() {
        for len in 0..200 {
            // Bytes that differ from the wanted one by a bit, or by a borrow from below.
            let mut text: Vec<u8> = (0..len).map(|at| [b'!', 0xa0, 0x1f, 0][at % 4]).collect();
            assert_eq!(position(b' ', &text), None, "{len}");
            for at in (0..len).rev() {
                text[at] = b' ';
                assert_eq!(position(b' ', &text), Some(at), "{at} of {len}");
            }
        }
    }

    #[test]
    fn what_is_visible_ends_at_spaces_and_controls() {
        for len in 0..40 {
            let mut text = vec![0xa0; len];
            assert_eq!(visible(&text, 100), None, "{len}");
            for at in 0..len {
                for (end, is_end) in [(b' ', true), (b'\n', true), (0, true), (b'!', false)] {
                    text[at] = end;
                    let expected = is_end.then_some(at);
                    assert_eq!(visible(&text, 100), expected, "{end} at {at} of {len}");
                    assert_eq!(visible(&text, at), expected);
                    assert_eq!(
                        visible(&text, at.saturating_sub(1)),
                        expected.filter(|_| at == 0)
                    );
                }
                text[at] = 0xa0;
            }
        }
    }

    #[test]
    fn only_spaces_separate() {
        let tokens: Vec<&[u8]> = Tokens::of(b"  a\tb  c ").collect();
        assert_eq!(tokens, [b"a\tb".as_slice(), b"c"]);
        assert_eq!(Tokens::of(b"   ").next(), None);
    }

    #[test]
    fn tokens_end_at_their_limit_and_words_do_not() {
        let line = b"a ".repeat(100);
        assert_eq!(Tokens::of(&line).count(), TOKENS_MAX);
        assert_eq!(Words::of(&line).count(), 100);
    }
}

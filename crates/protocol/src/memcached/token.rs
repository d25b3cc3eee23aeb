//! Tokens: the words of a command line, separated by spaces and by nothing else.

use memchr::memchr;

/// Most tokens of one line that anybody looks at; what follows is ignored.
///
/// Source: MCMC_PARSER_MAX_TOKENS of memcached 1.6.45, less its end mark.
pub const TOKENS_MAX: usize = 23;

/// Up to this length the end of a token is found faster byte by byte.
const SHORT_TOKEN_BYTES_MAX: usize = 16;

/// The position of the first space, or the length if there is none.
#[inline]
fn first_space(text: &[u8]) -> usize {
    let near = &text[..text.len().min(SHORT_TOKEN_BYTES_MAX)];
    if let Some(at) = near.iter().position(|byte| *byte == b' ') {
        return at;
    }
    let far = &text[near.len()..];
    near.len()
        + if far.is_empty() {
            0
        } else {
            memchr(b' ', far).unwrap_or(far.len())
        }
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

    /// What is not read yet.
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

    /// What is not read yet.
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

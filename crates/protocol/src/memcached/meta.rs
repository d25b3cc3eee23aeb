//! Meta commands: a key and single-letter flags, some with an argument.
//!
//! Flags are checked once, when the line is decoded, and read again where they are used: a request
//! stays small, and a command with few flags pays for few. Answers repeat flags in request order.
//!
//! Source: memcached doc/protocol.txt, "Meta Commands"; order of checks as 1.6.45 makes them.

use super::base64::{self, KeyBuffer};
use super::refusal::{BAD_FORMAT, Refused};
use super::token::Tokens;
use super::{KEY_BYTES_MAX, number};

/// Most tokens of a meta command: command, key and flags together.
const META_TOKENS_MAX: usize = 20;
/// Longest opaque flag, its letter included.
const OPAQUE_BYTES_MAX: usize = 32;

const DUPLICATE_FLAG: &str = "CLIENT_ERROR duplicate flag";
const INVALID_FLAG: &str = "CLIENT_ERROR invalid flag";
const TOO_MANY_FLAGS: &str = "CLIENT_ERROR options flags are too long";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const BAD_KEY: &str = "CLIENT_ERROR error decoding key";
const BAD_INITIAL: &str = "CLIENT_ERROR invalid numeric initial value";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta value";
const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long";

/// Key and flags of a meta command.
#[derive(Clone, Copy, Debug)]
pub struct Meta<'a> {
    key: &'a [u8],
    flags: &'a [u8],
    seen: u64,
}

/// A [`Meta`] that owns its text: kept while a large value is received.
#[derive(Clone, Debug)]
pub struct OwnedMeta {
    key: Box<[u8]>,
    flags: Box<[u8]>,
    seen: u64,
}

impl OwnedMeta {
    /// The borrowed form.
    #[must_use]
    pub fn borrow(&self) -> Meta<'_> {
        Meta {
            key: &self.key,
            flags: &self.flags,
            seen: self.seen,
        }
    }
}

/// The bit of a flag letter; flags start with a character between `A` and `z`.
#[inline]
const fn bit(flag: u8) -> u64 {
    1 << (flag.wrapping_sub(b'A') & 63)
}

/// The bits of some flag letters.
#[inline(always)]
const fn bits(letters: &[u8]) -> u64 {
    let (mut all, mut position) = (0, 0);
    while position < letters.len() {
        all |= bit(letters[position]);
        position += 1;
    }
    all
}

/// Whether a token is allowed in the position of flags.
#[inline]
fn starts_like_a_flag(token: &[u8]) -> bool {
    token
        .first()
        .is_some_and(|&byte| (b'A'..=b'z').contains(&byte) || byte.is_ascii_digit())
}

impl<'a> Meta<'a> {
    /// A key and the flags at the beginning of a text, each a letter without argument, behind one
    /// space and different from all before; and the rest.
    #[inline]
    pub(crate) fn plain(key: &'a [u8], text: &'a [u8]) -> Option<(Meta<'a>, &'a [u8])> {
        const BARE: u64 = bits(b"cfhklqstuvx");
        let (mut rest, mut seen) = (text, 0);
        while let [b' ', flag, next @ ..] = rest {
            if !flag.is_ascii_lowercase() || BARE & !seen & bit(*flag) == 0 {
                return None;
            }
            seen |= bit(*flag);
            rest = next;
        }
        let flags = &text[..text.len() - rest.len()];
        Some((Meta { key, flags, seen }, rest))
    }

    /// Reads key and flags; `tokens` is positioned at the first flag, `taken` tokens are consumed.
    ///
    /// # Errors
    /// The outer error is a line that cannot be read at all, so that a value behind it is not
    /// known either; the inner one is a line whose flags are wrong.
    #[inline]
    pub(crate) fn parse(
        key: &'a [u8],
        tokens: Tokens<'a>,
        taken: usize,
    ) -> Result<Result<Meta<'a>, Refused>, Refused> {
        let mut meta = Meta {
            key,
            flags: tokens.rest(),
            seen: 0,
        };
        let mut count = taken;
        let mut checked = Ok(());
        let mut told = None;
        for token in tokens {
            if !starts_like_a_flag(token) {
                return Err(Refused::line(BAD_FORMAT));
            }
            count += 1;
            if checked.is_ok() {
                checked = meta.check_flag(token, &mut told);
            }
        }
        if key.len() > KEY_BYTES_MAX {
            return Ok(Err(Refused::line(BAD_FORMAT)));
        }
        if count > META_TOKENS_MAX {
            return Ok(Err(Refused::line(TOO_MANY_FLAGS)));
        }
        let wrong_argument = told.map_or(Ok(()), |line| Err(Refused::line(line)));
        Ok(checked.and(wrong_argument).map(|()| meta))
    }

    /// Reads the key of `me`, which looks at no flag but b.
    ///
    /// # Errors
    /// A key that is too long, or no base64 although b says so.
    pub(crate) fn parse_debug(key: &'a [u8], mut tokens: Tokens<'a>) -> Result<Meta<'a>, Refused> {
        let flags = tokens.rest();
        let known = tokens.clone().all(starts_like_a_flag) && key.len() <= KEY_BYTES_MAX;
        let seen = if tokens.any(|token| token == b"b") {
            bit(b'b')
        } else {
            0
        };
        let meta = Meta { key, flags, seen };
        let readable = !meta.is_base64() || base64::decode(key, &mut [0; KEY_BYTES_MAX]).is_some();
        if known && readable {
            Ok(meta)
        } else {
            Err(Refused::line(BAD_FORMAT))
        }
    }

    /// Records one flag; `told` is the error line of the last wrong argument.
    #[inline]
    fn check_flag(&mut self, token: &[u8], told: &mut Option<&'static str>) -> Result<(), Refused> {
        let (flag, argument) = (token[0], &token[1..]);
        if self.has(flag) {
            return Err(Refused::line(DUPLICATE_FLAG));
        }
        let wrong = match flag {
            b'I' | b'L' | b'M' | b'O' | b'P' | b'c' | b'f' | b'h' | b'k' | b'l' | b'q' | b's'
            | b't' | b'u' | b'v' | b'x' => None,
            b'N' | b'T' | b'R' => wrong(number::strict_i32, argument, BAD_TOKEN),
            b'C' | b'E' => wrong(number::strict_u64, argument, BAD_TOKEN),
            // It has no error line of its own: an earlier one stays.
            b'F' => wrong(number::strict_u32, argument, told.unwrap_or(BAD_FORMAT)),
            b'J' => wrong(number::strict_u64, argument, BAD_INITIAL),
            b'D' => wrong(number::strict_u64, argument, BAD_DELTA),
            b'b' => self.check_base64(),
            _ => return Err(Refused::line(INVALID_FLAG)),
        };
        if wrong.is_some() {
            *told = wrong;
        }
        self.seen |= bit(flag);
        Ok(())
    }

    #[cold]
    fn check_base64(&self) -> Option<&'static str> {
        base64::decode(self.key, &mut [0; KEY_BYTES_MAX])
            .is_none()
            .then_some(BAD_KEY)
    }

    /// Checks the opaque token's length, which is checked after the flags themselves.
    #[inline]
    pub(crate) fn check_opaque(&self) -> Result<(), Refused> {
        if self.has(b'O')
            && self
                .argument(b'O')
                .is_some_and(|o| o.len() >= OPAQUE_BYTES_MAX)
        {
            return Err(Refused::line(LONG_OPAQUE));
        }
        Ok(())
    }

    /// The key as sent, which is base64 if [`Meta::is_base64`].
    #[inline]
    #[must_use]
    pub fn key_text(&self) -> &'a [u8] {
        self.key
    }

    /// Whether the key was sent as base64 (flag b).
    #[inline]
    #[must_use]
    pub fn is_base64(&self) -> bool {
        self.has(b'b')
    }

    /// The key's bytes; `buffer` is used if base64 must be undone.
    ///
    /// # Panics
    /// Never for a decoded request: its key was checked.
    #[inline]
    #[must_use]
    pub fn key_bytes<'b>(&self, buffer: &'b mut KeyBuffer) -> &'b [u8]
    where
        'a: 'b,
    {
        if self.is_base64() {
            base64::decode(self.key, buffer).expect("the key was checked when the line was decoded")
        } else {
            self.key
        }
    }

    /// Whether the flag is there.
    #[inline]
    #[must_use]
    pub fn has(&self, flag: u8) -> bool {
        flag >= b'A' && self.seen & bit(flag) != 0
    }

    /// Whether there is no flag but some of `letters`.
    #[inline(always)]
    #[must_use]
    pub fn has_only(&self, letters: &[u8]) -> bool {
        self.seen & !bits(letters) == 0
    }

    /// The flags in request order, each a letter with its argument.
    #[inline]
    pub fn flags(&self) -> Tokens<'a> {
        Tokens::of(self.flags)
    }

    /// The argument after the letter of a flag that is present.
    #[inline]
    #[must_use]
    pub fn argument(&self, flag: u8) -> Option<&'a [u8]> {
        if !self.has(flag) {
            return None;
        }
        self.flags()
            .find(|token| token[0] == flag)
            .map(|token| &token[1..])
    }

    /// The number of a flag that takes one: C, D, E, F, J.
    #[inline]
    #[must_use]
    pub fn number(&self, flag: u8) -> Option<u64> {
        self.argument(flag).and_then(number::strict_u64)
    }

    /// The time of a flag that takes one: N, R, T.
    #[inline]
    #[must_use]
    pub fn time(&self, flag: u8) -> Option<i32> {
        self.argument(flag).and_then(number::strict_i32)
    }

    /// The letter behind M; a space if there is none.
    #[inline]
    #[must_use]
    pub(crate) fn mode(&self) -> Option<u8> {
        self.argument(b'M')
            .map(|argument| argument.first().copied().unwrap_or(b' '))
    }

    /// Whether flag `a` comes before flag `b`; false if either is missing.
    #[must_use]
    pub fn is_before(&self, a: u8, b: u8) -> bool {
        self.has(a)
            && self.has(b)
            && self
                .flags()
                .map(|token| token[0])
                .find(|flag| [a, b].contains(flag))
                == Some(a)
    }

    /// A copy that outlives the line.
    #[must_use]
    pub fn to_owned(&self) -> OwnedMeta {
        OwnedMeta {
            key: self.key.into(),
            flags: self.flags.into(),
            seen: self.seen,
        }
    }
}

/// `line` if the argument is missing or refused by `parse`.
fn wrong<N>(
    parse: impl Fn(&[u8]) -> Option<N>,
    argument: &[u8],
    line: &'static str,
) -> Option<&'static str> {
    (argument.is_empty() || parse(argument).is_none()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[u8]) -> Result<Meta<'_>, &'static str> {
        match Meta::parse(b"YQ==", Tokens::of(flags), 2) {
            Ok(Ok(meta)) => Ok(meta),
            Ok(Err(refused)) | Err(refused) => Err(refused.line),
        }
    }

    #[test]
    fn flags_are_found_with_their_arguments() {
        let meta = parse(b"b t T30 Oabc C7 k").unwrap();
        let mut buffer = [0; KEY_BYTES_MAX];
        assert_eq!(meta.key_bytes(&mut buffer), b"a");
        assert_eq!(meta.time(b'T'), Some(30));
        assert_eq!(meta.number(b'C'), Some(7));
        assert_eq!(meta.argument(b'O'), Some(b"abc".as_slice()));
        assert!(meta.is_before(b't', b'T') && !meta.is_before(b'T', b't'));
        assert!(!meta.is_before(b't', b'N'));
        assert!(meta.has_only(b"bCkOtT") && !meta.has_only(b"bCkOt"));
        let letters: Vec<u8> = meta.flags().map(|token| token[0]).collect();
        assert_eq!(letters, b"btTOCk");
    }

    #[test]
    fn the_last_wrong_argument_is_told_and_unknown_flags_come_first() {
        assert_eq!(parse(b"T N").unwrap_err(), BAD_TOKEN);
        assert_eq!(parse(b"Tx J").unwrap_err(), BAD_INITIAL);
        assert_eq!(parse(b"J Fx").unwrap_err(), BAD_INITIAL);
        assert_eq!(parse(b"F").unwrap_err(), BAD_FORMAT);
        assert_eq!(parse(b"Dz z").unwrap_err(), INVALID_FLAG);
        assert_eq!(parse(b"S100").unwrap_err(), INVALID_FLAG);
        assert_eq!(parse(b"k k").unwrap_err(), DUPLICATE_FLAG);
        assert_eq!(parse(b"7").unwrap_err(), INVALID_FLAG);
        assert_eq!(parse(b"?").unwrap_err(), BAD_FORMAT);
        assert_eq!(parse(&b"k ".repeat(19)).unwrap_err(), TOO_MANY_FLAGS);
    }

    #[test]
    fn an_opaque_token_has_at_most_32_bytes_with_its_letter() {
        let fits = [b"O".as_slice(), &[b'x'; 31]].concat();
        assert!(parse(&fits).unwrap().check_opaque().is_ok());
        let long = [b"O".as_slice(), &[b'x'; 32]].concat();
        assert_eq!(
            parse(&long).unwrap().check_opaque().unwrap_err().line,
            LONG_OPAQUE
        );
    }
}

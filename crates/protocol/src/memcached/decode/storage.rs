//! Storage command lines: the line before a value.
//!
//! If a line has a valid length but another error, its value is discarded with it; without a valid
//! length the line is discarded alone, and its value is read as commands.

use super::super::KEY_BYTES_MAX;
use super::super::meta::Meta;
use super::super::number;
use super::super::refusal::{BAD_FORMAT, Refused};
use super::super::request::{Storage, Store, Verb};
use super::super::token::Tokens;
use super::{Line, Parsed, wants_silence};

/// Longest value that a line may announce.
const VALUE_BYTES_MAX: i32 = i32::MAX - 2;
/// Digits of the longest number that [`plain_set`] reads.
const DIGITS_MAX: usize = 10;

/// The length of a value; strict, and never negative.
#[inline]
fn value_bytes(token: &[u8]) -> Result<usize, Refused> {
    number::strict_i32(token)
        .filter(|bytes| *bytes <= VALUE_BYTES_MAX)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or(Refused::line(BAD_FORMAT))
}

/// Parses the text behind `set` and a key in its usual form: flags, exptime and bytes, each after
/// one space, with digits on which all of memcached's number parsers agree; and the rest of the
/// line. `None` for any other form, which [`classic`] parses.
#[inline]
pub(super) fn plain_set<'a>(key: &'a [u8], text: &'a [u8]) -> Option<(Line<'a>, &'a [u8])> {
    let (flags, rest) = plain_number(text)?;
    let (exptime, rest) = plain_number(rest)?;
    let (bytes, rest) = plain_number(rest)?;
    let is_right = i32::try_from(bytes).is_ok_and(|it| it <= VALUE_BYTES_MAX);
    let store = Store {
        verb: Verb::Set,
        key,
        flags,
        exptime: exptime.cast_signed(),
        version: 0,
        noreply: false,
        value: b"",
    };
    let line = Line::Valued(Storage::Classic(store), bytes as usize);
    is_right.then_some((line, rest))
}

/// The number behind one space, and the rest after its digits.
#[inline]
fn plain_number(text: &[u8]) -> Option<(u32, &[u8])> {
    let [b' ', text @ ..] = text else {
        return None;
    };
    // Flags and times mostly have one digit.
    if let [digit @ b'0'..=b'9', b' ', ..] = text {
        return Some((u32::from(digit - b'0'), &text[1..]));
    }
    let (mut number, mut digits) = (0_u64, 0);
    for &byte in text.iter().take(DIGITS_MAX + 1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number * 10 + u64::from(digit);
        digits += 1;
    }
    let number = u32::try_from(number).ok()?;
    (digits > 0).then(|| (number, &text[digits..]))
}

/// set, add, replace, append, prepend, cas: key, flags, exptime, bytes, version of cas, noreply.
#[inline]
pub(super) fn classic(mut tokens: Tokens<'_>, verb: Verb) -> Parsed<'_> {
    let (Some(key), Some(flags), Some(exptime), Some(bytes)) =
        (tokens.next(), tokens.next(), tokens.next(), tokens.next())
    else {
        return Err(Refused::line(BAD_FORMAT));
    };
    let bytes = value_bytes(bytes)?;
    let noreply = wants_silence(tokens);
    let refused = Refused::line(BAD_FORMAT)
        .swallowing_value(bytes)
        .unless(noreply);
    if key.len() > KEY_BYTES_MAX {
        return Err(refused);
    }
    let flags = number::lenient_u32(flags).ok_or(refused)?;
    let exptime = number::lenient_i32(exptime).ok_or(refused)?;
    let version = match verb {
        Verb::Cas => tokens.next().and_then(number::strict_u64).ok_or(refused)?,
        _ => 0,
    };
    let store = Store {
        verb,
        key,
        flags,
        exptime,
        version,
        noreply,
        value: b"",
    };
    Ok(Line::Valued(Storage::Classic(store), bytes))
}

/// ms: key, bytes, flags.
#[inline]
pub(super) fn meta_set(mut tokens: Tokens<'_>) -> Parsed<'_> {
    let (Some(key), Some(bytes)) = (tokens.next(), tokens.next()) else {
        return Err(Refused::line(BAD_FORMAT));
    };
    let flags = Meta::parse(key, tokens, 3)?;
    let bytes = value_bytes(bytes)?;
    let checked = flags.and_then(|meta| {
        let verb = verb(&meta)?;
        meta.check_opaque()?;
        Ok(Storage::Meta { meta, verb })
    });
    match checked {
        Ok(storage) => Ok(Line::Valued(storage, bytes)),
        Err(refused) => Err(refused.swallowing_value(bytes)),
    }
}

/// The mode of ms: flag M, where C makes a conditional store of set and replace.
#[inline]
fn verb(meta: &Meta<'_>) -> Result<Verb, Refused> {
    let verb = match meta.mode() {
        None | Some(b'S') => Verb::Set,
        Some(b'E') => Verb::Add,
        Some(b'A') => Verb::Append,
        Some(b'P') => Verb::Prepend,
        Some(b'R') => Verb::Replace,
        Some(_) => return Err(Refused::line("CLIENT_ERROR invalid mode for ms M token")),
    };
    Ok(
        if meta.has(b'C') && matches!(verb, Verb::Set | Verb::Replace) {
            Verb::Cas
        } else {
            verb
        },
    )
}

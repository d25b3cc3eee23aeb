//! Decoding: where a request ends, and its command.
//!
//! [`decode`] has no state: the caller passes all unused bytes and drops `used` bytes after each
//! result. Values over [`Limits::value_bytes_max`] are never buffered; [`Decoded::Upload`] reports
//! them, and the caller receives them elsewhere.
//!
//! Invariant: the decoding of a request depends on its own bytes only, not on how they arrived or
//! on later bytes, and `used` never exceeds the input.
//! Tests: tests/decode.rs; conformance/memcached; fuzz/properties/decode.rs.

use memchr::memchr;

use super::KEY_BYTES_MAX;
use super::meta::Meta;
use super::number;
use super::refusal::{BAD_DATA, BAD_EXPTIME, BAD_FORMAT, LINE_TOO_LONG, Refused, UNKNOWN};
use super::request::{Get, Request, Storage, Store, Verb};
use super::token::{Tokens, Words, visible};
use crate::search::position;

mod admin;
mod storage;

/// Longest command line without its newline; only reads may be longer.
pub const LINE_BYTES_MAX: usize = 2048;
/// Shortest command line, newline included, that is looked at.
const LINE_BYTES_MIN: usize = 4;
/// First byte of every request in the binary protocol, and of none in text.
const BINARY_MARK: u8 = 0x80;

/// Limits on the input that a decoder buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest value that is buffered; longer ones are [`Decoded::Upload`].
    pub value_bytes_max: usize,
    /// Longest line of a read with many keys.
    pub keys_line_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            value_bytes_max: 16 << 10,
            keys_line_bytes_max: 1 << 20,
        }
    }
}

impl Limits {
    /// Bytes of input after which [`decode`] is sure to have an answer.
    #[must_use]
    pub fn input_bytes_max(&self) -> usize {
        self.keys_line_bytes_max
            .max(LINE_BYTES_MAX + 1 + self.value_bytes_max + 2)
            + 1
    }
}

/// The result of decoding the start of the input.
#[derive(Clone, Copy, Debug)]
pub enum Decoded<'a> {
    /// No complete request: more bytes are needed.
    Incomplete,
    /// A request.
    Request {
        /// The request.
        request: Request<'a>,
        /// Its length.
        used: usize,
    },
    /// The command line of a storage command with a long value.
    Upload {
        /// The storage command.
        storage: Storage<'a>,
        /// Length of the command line.
        used: usize,
        /// Length of the value, which follows the line and is followed by a line end.
        value_bytes: usize,
    },
    /// Bytes that are not an executable request.
    Refused(Refused),
}

/// A parsed command line, before its value is read.
enum Line<'a> {
    /// The line is the whole request.
    Whole(Request<'a>),
    /// A value of this many bytes and a line end follow.
    Valued(Storage<'a>, usize),
}

type Parsed<'a> = Result<Line<'a>, Refused>;

/// Decodes the first request of `input`.
#[inline]
#[must_use]
pub fn decode<'a>(input: &'a [u8], limits: &Limits) -> Decoded<'a> {
    match plain(input) {
        Some((Line::Whole(request), used)) => return Decoded::Request { request, used },
        Some((Line::Valued(storage, value_bytes), used)) => {
            return with_value(input, storage, used, value_bytes, limits);
        }
        None => {}
    }
    decode_any(input, limits)
}

/// The most frequent lines in their usual form, read in one way through: get of one key, set, and
/// mg with flags that take no argument; one space between words, and a line end of two bytes. Also
/// the line's length. None of any other form, nor of one that is not whole.
#[inline]
fn plain(input: &[u8]) -> Option<(Line<'_>, usize)> {
    let (line, used) = match input {
        [b'g', b'e', b't', b' ', rest @ ..] => {
            let (first, end) = plain_key(rest)?;
            let get = Get {
                first,
                keys: first,
                with_version: false,
                touch: None,
            };
            (Line::Whole(Request::Get(get)), input.len() - end.len())
        }
        [b's', b'e', b't', b' ', rest @ ..] => {
            let (key, rest) = plain_key(rest)?;
            let (line, end) = storage::plain_set(key, rest)?;
            (line, input.len() - end.len())
        }
        [b'm', b'g', b' ', rest @ ..] => {
            let (key, rest) = plain_key(rest)?;
            let (meta, end) = Meta::plain(key, rest)?;
            (Line::Whole(Request::MetaGet(meta)), input.len() - end.len())
        }
        _ => return None,
    };
    input[used..]
        .starts_with(b"\r\n")
        .then_some((line, used + 2))
}

/// The key at the beginning of a text, and the rest.
#[inline]
fn plain_key(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let bytes = visible(text, KEY_BYTES_MAX)?;
    (bytes > 0).then(|| text.split_at(bytes))
}

/// The same of a request of any form.
fn decode_any<'a>(input: &'a [u8], limits: &Limits) -> Decoded<'a> {
    let Some(newline) = position(b'\n', input) else {
        return endless(input, limits);
    };
    let used = newline + 1;
    if newline > LINE_BYTES_MAX
        && let Err(refused) = allow_long_line(&input[..used], limits)
    {
        return refuse(input, used, refused);
    }
    let line = match &input[..newline] {
        [line @ .., b'\r'] => line,
        line => line,
    };
    let parsed = if used < LINE_BYTES_MIN {
        Err(Refused::line(BAD_FORMAT))
    } else {
        parse(line)
    };
    match parsed {
        Ok(Line::Whole(request)) => Decoded::Request { request, used },
        Ok(Line::Valued(storage, value_bytes)) => {
            with_value(input, storage, used, value_bytes, limits)
        }
        Err(refused) => refuse(input, used, refused),
    }
}

/// Whether [`decode`] would still call `input` incomplete, given that it did so for the first
/// `looked_at` bytes, a line without its end. Costs a look at the bytes behind them.
#[must_use]
pub fn is_still_incomplete(input: &[u8], looked_at: usize, limits: &Limits) -> bool {
    input.len() <= limits.keys_line_bytes_max
        && memchr(b'\n', input.get(looked_at..).unwrap_or_default()).is_none()
}

/// Refuses the first `used` bytes.
///
/// The binary protocol's mark ends a connection that speaks text: its client waits for an answer
/// that never comes.
#[cold]
fn refuse<'a>(input: &[u8], used: usize, refused: Refused) -> Decoded<'a> {
    Decoded::Refused(if input.first() == Some(&BINARY_MARK) {
        Refused {
            close: true,
            used,
            ..Refused::line(UNKNOWN)
        }
    } else {
        Refused { used, ..refused }
    })
}

/// Decides on input that has no newline yet.
#[cold]
fn endless<'a>(input: &'a [u8], limits: &Limits) -> Decoded<'a> {
    if input.first() == Some(&BINARY_MARK) {
        return refuse(input, input.len(), Refused::line(UNKNOWN));
    }
    match allow_long_line(input, limits) {
        Err(refused) if input.len() > LINE_BYTES_MAX => refuse(input, input.len(), refused),
        _ => Decoded::Incomplete,
    }
}

/// Lets reads have long lines; other long lines end the connection, as memcached ends it.
#[cold]
fn allow_long_line(line: &[u8], limits: &Limits) -> Result<(), Refused> {
    let is_read = [b"get ".as_slice(), b"gets ", b"gat ", b"gats "]
        .iter()
        .any(|command| line.starts_with(command));
    if !is_read {
        return Err(Refused::hang_up());
    }
    if line.len() > limits.keys_line_bytes_max {
        return Err(Refused {
            close: true,
            ..Refused::line(LINE_TOO_LONG)
        });
    }
    Ok(())
}

/// Adds the value to a storage command.
#[inline]
fn with_value<'a>(
    input: &'a [u8],
    storage: Storage<'a>,
    used: usize,
    value_bytes: usize,
    limits: &Limits,
) -> Decoded<'a> {
    if value_bytes > limits.value_bytes_max {
        return Decoded::Upload {
            storage,
            used,
            value_bytes,
        };
    }
    let Some(block) = input.get(used..used + value_bytes + 2) else {
        return Decoded::Incomplete;
    };
    let used = used + block.len();
    let [value @ .., b'\r', b'\n'] = block else {
        let noreply = matches!(storage, Storage::Classic(Store { noreply: true, .. }));
        return Decoded::Refused(Refused {
            used,
            ..Refused::line(BAD_DATA).unless(noreply)
        });
    };
    Decoded::Request {
        request: storage.with_value(value),
        used,
    }
}

/// Reads a command line without its line end.
#[inline]
fn parse(line: &[u8]) -> Parsed<'_> {
    // The most frequent commands first.
    match line {
        [b'g', b'e', b't', b' ', keys @ ..] => return get(keys, false, None),
        [b's', b'e', b't', b' ', rest @ ..] => {
            return storage::classic(Tokens::of(rest).after(1), Verb::Set);
        }
        [b'm', letter, b' ', rest @ ..] => {
            let tokens = Tokens::of(rest).after(1);
            match letter {
                b'g' => return meta(tokens).map(|meta| Line::Whole(Request::MetaGet(meta))),
                b's' => return storage::meta_set(tokens),
                b'd' => return meta(tokens).map(|meta| Line::Whole(Request::MetaDelete(meta))),
                b'a' => return meta_arithmetic(tokens),
                b'e' => return meta_debug(tokens),
                _ => {}
            }
        }
        _ => {}
    }
    let command = memchr(b' ', line).map_or(line, |end| &line[..end]);
    let tokens = Tokens::of(&line[command.len()..]).after(1);
    match command {
        b"mn" => Ok(Line::Whole(Request::MetaNoop)),
        b"mg" | b"ms" | b"md" | b"ma" | b"me" | b"get" | b"set" => Err(Refused::line(BAD_FORMAT)),
        b"gets" => get(tokens.rest(), true, None),
        b"gat" => get_and_touch(tokens, false),
        b"gats" => get_and_touch(tokens, true),
        b"add" => storage::classic(tokens, Verb::Add),
        b"replace" => storage::classic(tokens, Verb::Replace),
        b"append" => storage::classic(tokens, Verb::Append),
        b"prepend" => storage::classic(tokens, Verb::Prepend),
        b"cas" => storage::classic(tokens, Verb::Cas),
        b"delete" => delete(tokens),
        b"incr" => count(tokens, false),
        b"decr" => count(tokens, true),
        b"touch" => touch(tokens),
        b"quit" => Ok(Line::Whole(Request::Quit)),
        b"version" => Ok(Line::Whole(Request::Version)),
        b"config" if { tokens }.eq([b"get".as_slice(), b"cluster"]) => {
            Ok(Line::Whole(Request::Cluster))
        }
        b"stats" => admin::stats(tokens).map(Line::Whole),
        b"watch" => Err(Refused::line("CLIENT_ERROR watch commands not allowed")),
        _ => admin::other(line).map(Line::Whole),
    }
}

/// Whether the last token asks for silence.
fn wants_silence(mut tokens: Tokens<'_>) -> bool {
    tokens.by_ref().last() == Some(b"noreply")
}

/// get and gets, and gat and gats after their exptime.
#[inline]
fn get(keys: &[u8], with_version: bool, touch: Option<i32>) -> Parsed<'_> {
    let mut keys = keys;
    while let [b' ', rest @ ..] = keys {
        keys = rest;
    }
    let first = Tokens::of(keys).next().ok_or(Refused::line(BAD_FORMAT))?;
    let all_fit = first.len() <= KEY_BYTES_MAX
        && (first.len() == keys.len() || Words::of(keys).all(|key| key.len() <= KEY_BYTES_MAX));
    if !all_fit {
        return Err(Refused::line(BAD_FORMAT));
    }
    Ok(Line::Whole(Request::Get(Get {
        first,
        keys,
        with_version,
        touch,
    })))
}

fn get_and_touch(mut tokens: Tokens<'_>, with_version: bool) -> Parsed<'_> {
    let exptime = tokens.next().ok_or(Refused::line(BAD_FORMAT))?;
    let keys = tokens.rest();
    if tokens.next().is_none() {
        return Err(Refused::line(BAD_FORMAT));
    }
    let exptime = number::strict_i32(exptime).ok_or(Refused::line(BAD_EXPTIME))?;
    get(keys, with_version, Some(exptime))
}

/// delete; a second argument other than 0 and noreply is refused, as before 1.6.45.
fn delete(mut tokens: Tokens<'_>) -> Parsed<'_> {
    let key = tokens.next().ok_or(Refused::line(BAD_FORMAT))?;
    let noreply = wants_silence(tokens);
    let rest = { tokens }.count();
    let hold_is_zero = tokens.next() == Some(b"0");
    let valid =
        rest == 0 || rest == 1 && (hold_is_zero || noreply) || rest == 2 && hold_is_zero && noreply;
    let line = if valid {
        BAD_FORMAT
    } else {
        "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"
    };
    if !valid || key.len() > KEY_BYTES_MAX {
        return Err(Refused::line(line).unless(noreply));
    }
    Ok(Line::Whole(Request::Delete { key, noreply }))
}

fn count(mut tokens: Tokens<'_>, subtract: bool) -> Parsed<'_> {
    let (Some(key), Some(delta)) = (tokens.next(), tokens.next()) else {
        return Err(Refused::line(BAD_FORMAT));
    };
    let noreply = delta == b"noreply" || wants_silence(tokens);
    if key.len() > KEY_BYTES_MAX {
        return Err(Refused::line(BAD_FORMAT).unless(noreply));
    }
    let delta = number::strict_u64(delta)
        .ok_or(Refused::line("CLIENT_ERROR invalid numeric delta argument").unless(noreply))?;
    Ok(Line::Whole(Request::Count {
        key,
        delta,
        subtract,
        noreply,
    }))
}

fn touch(mut tokens: Tokens<'_>) -> Parsed<'_> {
    let (Some(key), Some(exptime)) = (tokens.next(), tokens.next()) else {
        return Err(Refused::line(BAD_FORMAT));
    };
    let noreply = exptime == b"noreply" || wants_silence(tokens);
    if key.len() > KEY_BYTES_MAX {
        return Err(Refused::line(BAD_FORMAT).unless(noreply));
    }
    let exptime = number::strict_i32(exptime).ok_or(Refused::line(BAD_EXPTIME).unless(noreply))?;
    Ok(Line::Whole(Request::Touch {
        key,
        exptime,
        noreply,
    }))
}

/// Key and flags of mg and md.
#[inline]
fn meta(mut tokens: Tokens<'_>) -> Result<Meta<'_>, Refused> {
    let key = tokens.next().ok_or(Refused::line(BAD_FORMAT))?;
    let meta = Meta::parse(key, tokens, 2)??;
    meta.check_opaque()?;
    Ok(meta)
}

fn meta_arithmetic(mut tokens: Tokens<'_>) -> Parsed<'_> {
    let key = tokens.next().ok_or(Refused::line(BAD_FORMAT))?;
    let meta = Meta::parse(key, tokens, 2)?
        .map_err(|_| Refused::line("CLIENT_ERROR invalid or duplicate flag"))?;
    let subtract = match meta.mode() {
        None | Some(b'I' | b'+') => false,
        Some(b'D' | b'-') => true,
        Some(_) => return Err(Refused::line("CLIENT_ERROR invalid mode for ma M token")),
    };
    meta.check_opaque()?;
    Ok(Line::Whole(Request::MetaArithmetic { meta, subtract }))
}

fn meta_debug(mut tokens: Tokens<'_>) -> Parsed<'_> {
    let key = tokens.next().ok_or(Refused::line(BAD_FORMAT))?;
    Meta::parse_debug(key, tokens).map(|meta| Line::Whole(Request::MetaDebug(meta)))
}

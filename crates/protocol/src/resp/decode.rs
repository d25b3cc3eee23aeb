//! Decoding: where a request ends, and its command.
//!
//! The caller passes all unused bytes to [`decode`] and drops `used` bytes after each result. A
//! request is an array of bulk strings, or a line of words (decode/inline.rs). After
//! [`Decoded::Incomplete`] the caller passes the same bytes and more, with the [`Scan`] of that
//! result: scanned bytes are skipped, so that bytes that arrive one by one cost no more. Values of
//! SET over [`Limits::value_bytes_max`] are never buffered: [`Decoded::Upload`].
//!
//! Invariant: the decoding of a request depends on its own bytes only, not on how they arrived or
//! on later bytes, and `used` never exceeds the input.
//! Tests: tests/resp_decode.rs, tests/hostile.rs; fuzz/properties/resp.rs.

use memchr::memchr;

use super::command;
use super::number::parse_integer;
use super::request::{ARGS_INLINE, Args, Request};

mod inline;

pub use inline::unquoted_words;

/// The number of arguments up to which a request is decoded without an allocation, as a digit.
const ARGS_INLINE_DIGIT: u8 = b'0' + ARGS_INLINE as u8;
const _: () = assert!(ARGS_INLINE < 10);

/// The line end behind a bulk string.
const LINE_END: &[u8] = b"\r\n";
/// The shortest bulk string: an empty one.
const BULK_BYTES_MIN: usize = 6;

/// Most arguments of a command, unless [`Limits::args_max`] says another number.
pub const ARGS_MAX: usize = 1 << 20;
/// Most arguments behind a value of SET that is [`Decoded::Upload`]; SET has no use for more.
pub const TAIL_ARGS_MAX: usize = 16;

/// Limits on the input that a decoder accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest bulk string; a longer one ends the connection.
    pub bulk_bytes_max: usize,
    /// Most arguments of an array; more end the connection.
    pub args_max: usize,
    /// Longest array, values of SET that are [`Decoded::Upload`] not counted; a longer one ends the
    /// connection as soon as that is known. At least 10,000: the usual requests are not measured.
    pub command_bytes_max: usize,
    /// Longest line of words, and longest line with a length.
    pub inline_bytes_max: usize,
    /// Longest value of SET that is waited for if `uploads` is set.
    pub value_bytes_max: usize,
    /// Whether longer values of SET are [`Decoded::Upload`].
    pub uploads: bool,
    /// Whether the peer has yet to authenticate: the errors say so.
    pub unauthenticated: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bulk_bytes_max: 512 << 20,
            args_max: ARGS_MAX,
            command_bytes_max: 1 << 30,
            inline_bytes_max: 64 << 10,
            value_bytes_max: 16 << 10,
            uploads: true,
            unauthenticated: false,
        }
    }
}

impl Limits {
    /// The limits of a connection that has yet to authenticate.
    #[must_use]
    pub fn unauthenticated(self) -> Limits {
        Limits {
            bulk_bytes_max: 16 << 10,
            args_max: 10,
            uploads: false,
            unauthenticated: true,
            ..self
        }
    }

    /// From this length on a bulk string needs a second look.
    #[inline]
    fn plain_bytes_max(&self) -> usize {
        self.bulk_bytes_max.min(self.value_bytes_max)
    }
}

/// How far an incomplete request was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Where the next argument begins.
    pub at: usize,
    /// How many arguments are missing; 0 if their number is not known.
    pub left: usize,
}

/// The result of decoding the start of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// No complete request: more bytes are needed.
    Incomplete(Scan),
    /// An empty line or an empty array, which are not answered.
    Nothing {
        /// Its length.
        used: usize,
    },
    /// A request.
    Request {
        /// The request.
        request: Request<'a>,
        /// Its length.
        used: usize,
    },
    /// A line of words with quotes, as the array that asks the same: [`Decoded::unquoted`].
    Quoted {
        /// The array.
        frame: Vec<u8>,
        /// The line's length.
        used: usize,
    },
    /// SET with a long value.
    Upload {
        /// The key.
        key: &'a [u8],
        /// Length of the value, which begins behind the used bytes and is followed by a line end.
        value_bytes: usize,
        /// Length of everything before the value.
        used: usize,
        /// How many arguments follow the value's line end: [`decode_tail`].
        args_left: usize,
    },
    /// Nothing that could be executed: the connection has to be ended after the message.
    Refused {
        /// The error, its code first.
        message: Vec<u8>,
        /// All of the input.
        used: usize,
    },
}

impl Decoded<'_> {
    /// The request of [`Decoded::Quoted`]'s frame.
    ///
    /// # Panics
    /// If the frame is not one that [`decode`] made.
    #[must_use]
    pub fn unquoted(frame: &[u8]) -> Request<'_> {
        let limits = Limits {
            bulk_bytes_max: frame.len(),
            args_max: frame.len(),
            uploads: false,
            ..Limits::default()
        };
        match decode(frame, Scan::default(), &limits) {
            Decoded::Request { request, .. } => request,
            other => panic!("a frame of our own is {other:?}"),
        }
    }
}

/// The arguments that follow an uploaded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail<'a> {
    /// Some are missing.
    Incomplete,
    /// All of them.
    Args {
        /// The arguments.
        args: Args<'a>,
        /// Their length.
        used: usize,
    },
    /// As [`Decoded::Refused`].
    Refused {
        /// The error, its code first.
        message: Vec<u8>,
    },
}

/// Why the peer's bytes cannot be a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    ArrayLength,
    ArrayLengthUnauthenticated,
    ArrayLengthEndless,
    BulkLength,
    BulkLengthUnauthenticated,
    BulkLengthEndless,
    NoBulk(u8),
    LineEndless,
    Quotes,
    LineEnd,
    CommandLength(usize),
}

impl Fault {
    #[cold]
    fn message(self) -> Vec<u8> {
        let text = match self {
            Fault::ArrayLength => "invalid multibulk length",
            Fault::ArrayLengthUnauthenticated => "unauthenticated multibulk length",
            Fault::ArrayLengthEndless => "too big mbulk count string",
            Fault::BulkLength => "invalid bulk length",
            Fault::BulkLengthUnauthenticated => "unauthenticated bulk length",
            Fault::BulkLengthEndless => "too big bulk count string",
            Fault::NoBulk(_) => "expected '$', got '",
            Fault::LineEndless => "too big inline request",
            Fault::Quotes => "unbalanced quotes in request",
            Fault::LineEnd => "invalid CRLF in request",
            Fault::CommandLength(_) => "too big command, bytes at most: ",
        };
        let mut message = format!("ERR Protocol error: {text}").into_bytes();
        match self {
            Fault::NoBulk(b'\r' | b'\n') => message.extend_from_slice(b" '"),
            Fault::NoBulk(byte) => message.extend_from_slice(&[byte, b'\'']),
            Fault::CommandLength(max) => message.extend_from_slice(max.to_string().as_bytes()),
            _ => {}
        }
        message
    }

    #[cold]
    fn refuse(self, input: &[u8]) -> Decoded<'_> {
        Decoded::Refused {
            message: self.message(),
            used: input.len(),
        }
    }
}

/// A line with a length: the length, and the line's own length with its end.
type LengthLine = Result<Option<(usize, usize)>, Fault>;

/// Decodes the first request of `input`.
///
/// `scan` is that of the last [`Decoded::Incomplete`] on the same bytes, else the default.
#[inline]
#[must_use]
pub fn decode<'a>(input: &'a [u8], scan: Scan, limits: &Limits) -> Decoded<'a> {
    match input.first() {
        Some(b'*') if scan.left == 0 => array(input, limits),
        Some(b'*') => resume(input, scan, limits),
        Some(_) => inline::decode(input, limits),
        None => Decoded::Incomplete(Scan::default()),
    }
}

/// The two requests that come most, in their plainest form: whole, and without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain<'a> {
    /// GET.
    Get {
        /// The key.
        key: &'a [u8],
        /// The request's length.
        used: usize,
    },
    /// SET.
    Set {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// The request's length.
        used: usize,
    },
}

/// The beginnings of plain requests as words, without the length of the key; letters in capitals.
const TWO_WORDS: u64 = u64::from_le_bytes(*b"*2\r\n$3\r\n");
const THREE_WORDS: u64 = u64::from_le_bytes(*b"*3\r\n$3\r\n");
const GET: u64 = u64::from_le_bytes(*b"GET\r\n\0\0\0");
const SET: u64 = u64::from_le_bytes(*b"SET\r\n\0\0\0");
/// Converts letters to upper case, and clears the bytes after the name.
const NAME: u64 = u64::from_le_bytes([0xdf, 0xdf, 0xdf, 0xff, 0xff, 0, 0, 0]);
/// Bytes before the length of the key.
const HEAD_BYTES: usize = 13;

/// Decodes the first request of `input` if it is a plain one; others go to [`decode`].
///
/// It takes a third of the time of [`decode`], with the same result.
#[inline(always)]
#[must_use]
pub fn decode_plain<'a>(input: &'a [u8], limits: &Limits) -> Option<Plain<'a>> {
    // No plain request is shorter than two words.
    let words: &[u8; 16] = input.first_chunk()?;
    let (words, _) = words.as_chunks();
    let (begin, name) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
    let is_get = begin == TWO_WORDS && name & NAME == GET;
    if !is_get && (begin != THREE_WORDS || name & NAME != SET) || limits.args_max < 3 {
        return None;
    }
    let bytes_max = limits.plain_bytes_max();
    let key = short_bulk(&input[HEAD_BYTES..], bytes_max)?;
    let used = HEAD_BYTES + key.used;
    if is_get {
        return Some(Plain::Get {
            key: key.bytes,
            used,
        });
    }
    let value = short_bulk(&input[used..], bytes_max)?;
    Some(Plain::Set {
        key: key.bytes,
        value: value.bytes,
        used: used + value.used,
    })
}

/// Decodes the `count` arguments that follow the line end of an uploaded value.
#[must_use]
pub fn decode_tail<'a>(input: &'a [u8], count: usize, limits: &Limits) -> Tail<'a> {
    let mut args = Args::new();
    let mut at = 0;
    while args.len() < count {
        match bulk_head(&input[at..], limits) {
            Ok(Some((length, head))) if at + head + length + 2 > limits.command_bytes_max => {
                let message = Fault::CommandLength(limits.command_bytes_max).message();
                return Tail::Refused { message };
            }
            Ok(Some((length, head))) if input.len() - at >= head + length + 2 => {
                let end = at + head + length;
                if !input[end..].starts_with(LINE_END) {
                    let message = Fault::LineEnd.message();
                    return Tail::Refused { message };
                }
                args.push(&input[at + head..end]);
                at = end + LINE_END.len();
            }
            Ok(_) => return Tail::Incomplete,
            Err(fault) => {
                return Tail::Refused {
                    message: fault.message(),
                };
            }
        }
    }
    Tail::Args { args, used: at }
}

/// An array from its first byte on: the usual requests, else [`any_array`].
#[inline]
fn array<'a>(input: &'a [u8], limits: &Limits) -> Decoded<'a> {
    let [_, digit @ b'1'..=ARGS_INLINE_DIGIT, b'\r', _, ..] = *input else {
        return any_array(input, limits);
    };
    let count = usize::from(digit - b'0');
    let mut slots = [b"".as_slice(); ARGS_INLINE];
    let mut used = 4;
    for slot in &mut slots[..count] {
        let Some(arg) = short_bulk(&input[used..], limits.plain_bytes_max()) else {
            return any_array(input, limits);
        };
        *slot = arg.bytes;
        used += arg.used;
    }
    if count > limits.args_max {
        return any_array(input, limits);
    }
    Decoded::Request {
        request: Request {
            command: command::of(&slots[..count]),
            args: Args::from_buf_and_len(slots, count),
        },
        used,
    }
}

/// A whole bulk string at the beginning of an input, and its length with head and line end.
struct Bulk<'a> {
    bytes: &'a [u8],
    used: usize,
}

/// A whole bulk string of at most 999 bytes.
#[inline]
fn short_bulk(input: &[u8], bytes_max: usize) -> Option<Bulk<'_>> {
    let value = |digit: u8| u32::from(digit.wrapping_sub(b'0'));
    // So no form is missed. Of two digits most are.
    let (length, head) = match *input.first_chunk::<BULK_BYTES_MIN>()? {
        [b'$', a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', _, _] => (value(a) * 10 + value(b), 5),
        [
            b'$',
            a @ b'1'..=b'9',
            b @ b'0'..=b'9',
            c @ b'0'..=b'9',
            b'\r',
            _,
        ] => (value(a) * 100 + value(b) * 10 + value(c), 6),
        [b'$', a @ b'0'..=b'9', b'\r', _, _, _] => (value(a), 4),
        _ => return None,
    };
    let length = length as usize;
    // With the line end, which is looked at and left out.
    let line = input.get(head..head + length + LINE_END.len())?;
    let [bytes @ .., b'\r', b'\n'] = line else {
        return None;
    };
    let used = head + line.len();
    (length <= bytes_max).then_some(Bulk { bytes, used })
}

/// The same at an offset of a command of any length, which must not become too long with it.
#[inline]
fn short_bulk_at<'a>(at: usize, input: &'a [u8], limits: &Limits) -> Option<Bulk<'a>> {
    let arg = short_bulk(input.get(at..)?, limits.plain_bytes_max())?;
    (at + arg.used <= limits.command_bytes_max).then_some(arg)
}

/// An array of any length with arguments of any length, whole or not.
fn any_array<'a>(input: &'a [u8], limits: &Limits) -> Decoded<'a> {
    let (count, mut at) = match array_head(input, limits) {
        Ok(Some((0, used))) => return Decoded::Nothing { used },
        Ok(Some(head)) => head,
        Ok(None) => return Decoded::Incomplete(Scan::default()),
        Err(fault) => return fault.refuse(input),
    };
    // No more than the input can hold, whatever the length in its head.
    let mut args = Args::with_capacity(count.min((input.len() - at) / BULK_BYTES_MIN));
    while args.len() < count {
        if let Some(arg) = short_bulk_at(at, input, limits) {
            args.push(arg.bytes);
            at += arg.used;
            continue;
        }
        let (length, head) = match bulk_head(&input[at..], limits) {
            Ok(Some(head)) => head,
            Ok(None) => return incomplete(at, count - args.len()),
            Err(fault) => return fault.refuse(input),
        };
        let start = at + head;
        if length > limits.plain_bytes_max() && is_upload(&args, count, length, limits) {
            return Decoded::Upload {
                key: args[1],
                value_bytes: length,
                used: start,
                args_left: count - 3,
            };
        }
        let end = start + length + 2;
        if end > limits.command_bytes_max {
            return Fault::CommandLength(limits.command_bytes_max).refuse(input);
        }
        if end > input.len() {
            return incomplete(at, count - args.len());
        }
        if !input[start + length..].starts_with(LINE_END) {
            return Fault::LineEnd.refuse(input);
        }
        args.push(&input[start..start + length]);
        at = end;
    }
    Decoded::Request {
        request: Request::of(args),
        used: at,
    }
}

#[cold]
fn incomplete<'a>(at: usize, left: usize) -> Decoded<'a> {
    Decoded::Incomplete(Scan { at, left })
}

/// Whether the argument after these, of this length, is a value that is not waited for.
#[cold]
fn is_upload(args: &[&[u8]], count: usize, length: usize, limits: &Limits) -> bool {
    limits.uploads
        && count <= 3 + TAIL_ARGS_MAX
        && length > limits.value_bytes_max
        && matches!(args, [name, _] if name.eq_ignore_ascii_case(b"set"))
}

/// An array that was incomplete before: nothing is collected until it is whole.
#[cold]
fn resume<'a>(input: &'a [u8], scan: Scan, limits: &Limits) -> Decoded<'a> {
    let Scan { mut at, mut left } = scan;
    while left > 0 {
        if let Some(arg) = short_bulk(
            input.get(at..).unwrap_or_default(),
            limits.plain_bytes_max(),
        ) && at + arg.used <= limits.command_bytes_max
        {
            (at, left) = (at + arg.used, left - 1);
            continue;
        }
        let (length, head) = match bulk_head(input.get(at..).unwrap_or_default(), limits) {
            Ok(Some(head)) => head,
            Ok(None) => return incomplete(at, left),
            Err(fault) => return fault.refuse(input),
        };
        let is_third =
            || matches!(array_head(input, limits), Ok(Some((count, _))) if count == left + 2);
        if length > limits.value_bytes_max && is_third() {
            break;
        }
        let end = at + head + length + 2;
        if end > limits.command_bytes_max {
            return Fault::CommandLength(limits.command_bytes_max).refuse(input);
        }
        if end > input.len() {
            return incomplete(at, left);
        }
        if !input[end - LINE_END.len()..].starts_with(LINE_END) {
            return Fault::LineEnd.refuse(input);
        }
        (at, left) = (end, left - 1);
    }
    array(input, limits)
}

/// The number of arguments; 0 for an empty array.
fn array_head(input: &[u8], limits: &Limits) -> LengthLine {
    let Some((text, used)) = line(input, limits, Fault::ArrayLengthEndless)? else {
        return Ok(None);
    };
    let count = parse_integer(&text[1..]).ok_or(Fault::ArrayLength)?;
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    match (count > limits.args_max, limits.unauthenticated) {
        (true, true) => Err(Fault::ArrayLengthUnauthenticated),
        (true, false) => Err(Fault::ArrayLength),
        (false, _) => Ok(Some((count, used))),
    }
}

/// The length of a bulk string.
fn bulk_head(input: &[u8], limits: &Limits) -> LengthLine {
    let Some((text, used)) = line(input, limits, Fault::BulkLengthEndless)? else {
        return Ok(None);
    };
    let [b'$', digits @ ..] = text else {
        return Err(Fault::NoBulk(input[0]));
    };
    let length = parse_integer(digits).and_then(|length| usize::try_from(length).ok());
    let length = length.ok_or(Fault::BulkLength)?;
    match (length > limits.bulk_bytes_max, limits.unauthenticated) {
        (true, true) => Err(Fault::BulkLengthUnauthenticated),
        (true, false) => Err(Fault::BulkLength),
        (false, _) => Ok(Some((length, used))),
    }
}

/// The text before the first carriage return, and the length with it and the byte behind it.
fn line<'a>(
    input: &'a [u8],
    limits: &Limits,
    endless: Fault,
) -> Result<Option<(&'a [u8], usize)>, Fault> {
    let max = limits.inline_bytes_max;
    let looked_at = &input[..input.len().min(max.saturating_add(1))];
    match memchr(b'\r', looked_at) {
        Some(end) if end + 1 < input.len() => Ok(Some((&input[..end], end + 2))),
        None if input.len() > max => Err(endless),
        _ => Ok(None),
    }
}

//! Decode: bytes that arrived become a request, or the reason why they are none.
//!
//! A head that is there at once is read at first sight, a plain one in one pass; else its end is
//! looked for line by line, each byte once ([`Scan`]), and it is read as a whole. Lines end
//! with exactly `\r\n`; there is one `Host`, and at most one statement about the length of the
//! body. Whatever else is refused, and nothing behind it is read.
//!
//! Source: RFC 9112, sections 2.2, 3, 5 and 6. Tests: tests/http_decode.rs.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig};

use super::plain;
use super::request::{Mark, Marks, Method, Request};
use super::status::Status;
use super::target::{Target, letters_digits_and};
use crate::search::position;

/// Longest request line. A key of the greatest length fits into it, each byte as a percent code.
pub const REQUEST_LINE_BYTES_MAX: usize = 200 << 10;
/// Most bytes of all header fields together.
pub const FIELDS_BYTES_MAX: usize = 16 << 10;
/// Most header fields.
pub const FIELDS_MAX: usize = 64;
/// A head up to this length is read at first sight, without a search for its end.
const SHORT_HEAD_BYTES_MAX: usize = 4 << 10;

/// Limits on the input that the decoder buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest body that is buffered; the caller receives the bytes of a longer one itself.
    pub body_bytes_max: usize,
}

/// How far an incomplete head was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Where its first line without an end begins.
    line: u32,
    /// Length of the request line with its end; zero while that is not there.
    first_line: u32,
}

/// How the end of an incomplete body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A word that programs can parse.
    Bytes(u64),
    /// By chunks.
    Chunks,
}

/// Why bytes are no request; the connection ends behind the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status of the response.
    pub status: Status,
    /// A word for programs.
    pub code: &'static str,
    /// A sentence for people.
    pub message: &'static str,
}

/// The result of decoding the start of the input.
#[derive(Debug)]
pub enum Decoded<'a> {
    /// More bytes are needed.
    Incomplete(Scan),
    /// A blank line before a request.
    Nothing {
        /// Its length.
        used: usize,
    },
    /// A request with its whole body.
    Request {
        /// The request.
        request: Request<'a>,
        /// Its length.
        used: usize,
    },
    /// The head of a request whose body is still to be received.
    Head {
        /// The request.
        request: Request<'a>,
        /// Length of the head.
        used: usize,
        /// Where the body ends.
        body: Body,
    },
    /// No request.
    Refused(Refused),
}

const fn bad(message: &'static str) -> Refused {
    Refused {
        status: Status::BAD_REQUEST,
        code: "bad_request",
        message,
    }
}

const LINE_END: Refused = bad("a line ends with something other than CR LF");
const URI_TOO_LONG: Refused = Refused {
    status: Status::URI_TOO_LONG,
    code: "uri_too_long",
    message: "the request line is too long",
};
const FIELDS_TOO_LARGE: Refused = Refused {
    status: Status::FIELDS_TOO_LARGE,
    code: "fields_too_large",
    message: "there are more than 64 header fields or 16 KiB of them",
};

/// Decodes the request at the beginning of `input`, of which `scan` was looked at before.
#[inline]
#[must_use]
pub fn decode<'a>(input: &'a [u8], scan: Scan, limits: &Limits) -> Decoded<'a> {
    match input {
        [] | [b'\r'] => return Decoded::Incomplete(scan),
        [b'\r', b'\n', ..] => return Decoded::Nothing { used: 2 },
        // Bytes that cannot begin a request are rejected at once.
        [first, ..] if !first.is_ascii_alphabetic() => {
            return Decoded::Refused(bad("the request does not begin with a method"));
        }
        _ => {}
    }
    let (mut request, body) = match whole_head(input, scan) {
        Ok(HeadSoFar::Read(request, body)) => (request, body),
        Ok(HeadSoFar::Part(scan)) => return Decoded::Incomplete(scan),
        Err(refused) => return Decoded::Refused(refused),
    };
    let used = request.head.len();
    let Some(body) = body else {
        return Decoded::Request { request, used };
    };
    let whole = match body {
        Body::Bytes(bytes) => usize::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes <= limits.body_bytes_max)
            // A client that waits for `100 Continue` must get it, whether it has sent its body or
            // not.
            .filter(|_| !request.marks.has(Mark::Expect)),
        Body::Chunks => None,
    };
    match whole.map(|bytes| input.get(used..used + bytes)) {
        Some(Some(received)) => {
            request.body = received;
            let used = used + received.len();
            Decoded::Request { request, used }
        }
        Some(None) => Decoded::Incomplete(scan),
        None => Decoded::Head {
            request,
            used,
            body,
        },
    }
}

/// A head as far as it was read.
enum HeadSoFar<'a> {
    /// All of it, and where the body ends, if there is one.
    Read(Request<'a>, Option<Body>),
    Part(Scan),
}

/// Reads the head at the beginning of `input` if it is whole.
#[inline]
fn whole_head(input: &[u8], scan: Scan) -> Result<HeadSoFar<'_>, Refused> {
    // Where nothing was looked at before, the whole head is probably there.
    let short = &input[..input.len().min(SHORT_HEAD_BYTES_MAX)];
    if scan == Scan::default() {
        if let Some((request, body)) = plain_head(short) {
            return Ok(HeadSoFar::Read(request, body));
        }
        if let Some(whole) = parsed_head(short)? {
            return Ok(whole);
        }
    }
    Ok(match find_head(input, scan)? {
        Found::Whole(bytes) => {
            let (request, body) = read_head(&input[..bytes])?;
            HeadSoFar::Read(request, body)
        }
        Found::Part(scan) => HeadSoFar::Part(scan),
    })
}

/// Reads a complete plain head; `None` for any other, and for one that has to be rejected.
#[inline]
fn plain_head(input: &[u8]) -> Option<(Request<'_>, Option<Body>)> {
    let (method, text, mut at) = plain::request_line(input)?;
    if position(b'#', text).is_some() {
        return None;
    }
    let target = Target::of_path(text);
    let mut facts = Facts::default();
    for _ in 0..=FIELDS_MAX {
        let rest = &input[at..];
        if rest.starts_with(b"\r\n") {
            let body = facts.finish().ok()?;
            let head = &input[..at + 2];
            return Some((facts.request(method, target, head), body));
        }
        let (name, value, bytes) = plain::field(rest)?;
        facts.note(name, value).ok()?;
        at += bytes;
    }
    None
}

/// Reads a head that is whole, and whose lines end as nearly all do.
#[inline(never)]
fn parsed_head(short: &[u8]) -> Result<Option<HeadSoFar<'_>>, Refused> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    if let Ok((parsed, bytes)) = parse(short, &mut fields)
        && ends_lines_plainly(&parsed, &short[..bytes])
    {
        let (request, body) = understand(&parsed, &short[..bytes])?;
        return Ok(Some(HeadSoFar::Read(request, body)));
    }
    Ok(None)
}

enum Found {
    /// The head has this many bytes.
    Whole(usize),
    Part(Scan),
}

/// Looks for the blank line.
#[inline]
fn find_head(input: &[u8], mut scan: Scan) -> Result<Found, Refused> {
    loop {
        let begin = scan.line as usize;
        let first_line = scan.first_line as usize;
        let Some(rest) = input.get(begin..) else {
            return Ok(Found::Part(scan));
        };
        let Some(length) = memchr::memchr(b'\n', rest) else {
            return match first_line {
                0 if input.len() > REQUEST_LINE_BYTES_MAX => Err(URI_TOO_LONG),
                1.. if input.len() - first_line > FIELDS_BYTES_MAX => Err(FIELDS_TOO_LARGE),
                _ => Ok(Found::Part(scan)),
            };
        };
        let end = begin + length + 1;
        if length == 0 || rest[length - 1] != b'\r' {
            return Err(LINE_END);
        }
        if first_line == 0 {
            if end > REQUEST_LINE_BYTES_MAX {
                return Err(URI_TOO_LONG);
            }
            scan.first_line = narrow(end);
        } else if end - first_line > FIELDS_BYTES_MAX {
            return Err(FIELDS_TOO_LARGE);
        }
        if length == 1 {
            return Ok(Found::Whole(end));
        }
        scan.line = narrow(end);
    }
}

/// A place in a head, whose length has a bound.
fn narrow(place: usize) -> u32 {
    u32::try_from(place).expect("a head is shorter than 4 GiB")
}

/// Space for the fields of a head.
type Fields<'a> = [MaybeUninit<Header<'a>>; FIELDS_MAX];

/// Parses a head at the beginning of `input`; its length. `Err(None)` if it is not whole.
#[inline]
fn parse<'f, 'a>(
    input: &'a [u8],
    fields: &'f mut Fields<'a>,
) -> Result<(httparse::Request<'f, 'a>, usize), Option<httparse::Error>> {
    let mut parsed = httparse::Request::new(&mut []);
    let config = ParserConfig::default();
    match config.parse_request_with_uninit_headers(&mut parsed, input, fields) {
        Ok(httparse::Status::Complete(bytes)) => Ok((parsed, bytes)),
        Ok(httparse::Status::Partial) => Err(None),
        Err(error) => Err(Some(error)),
    }
}

/// Whether each line ends with `\r\n` right behind the parsed text, as nearly all do; the parser
/// accepts more.
#[inline]
fn ends_lines_plainly(parsed: &httparse::Request<'_, '_>, head: &[u8]) -> bool {
    const VERSION: &str = " HTTP/1.1";
    let ends_line_behind = |part: &[u8], more: usize| {
        // A part that does not lie in the head ends nowhere in it.
        let end = part.as_ptr_range().end.addr();
        let end = end.wrapping_sub(head.as_ptr().addr()).wrapping_add(more);
        matches!(head.get(end..), Some([b'\r', b'\n', ..]))
    };
    let mut fields = parsed.headers.iter();
    fields.all(|field| ends_line_behind(field.value, 0))
        && ends_line_behind(parsed.path.unwrap_or_default().as_bytes(), VERSION.len())
        && head.ends_with(b"\r\n\r\n")
}

/// Reads a head that ends with its blank line.
#[inline]
fn read_head(head: &[u8]) -> Result<(Request<'_>, Option<Body>), Refused> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    match parse(head, &mut fields) {
        Ok((parsed, bytes)) if bytes == head.len() => understand(&parsed, head),
        Ok(_) | Err(None) => Err(bad("the head does not end with a blank line")),
        Err(Some(error)) => Err(refusal(error, head)),
    }
}

/// Interprets a parsed head, and finds where its body ends.
#[inline]
fn understand<'a>(
    parsed: &httparse::Request<'_, 'a>,
    head: &'a [u8],
) -> Result<(Request<'a>, Option<Body>), Refused> {
    let (Some(name), Some(path), Some(version)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(bad("the request line is not complete"));
    };
    let method = Method::of(name).ok_or(Refused {
        status: Status::NOT_IMPLEMENTED,
        code: "not_implemented",
        message: "unknown method",
    })?;
    let target = Target::of(path).ok_or(bad("the request target is neither a path nor a URL"))?;
    if memchr::memchr(b'#', path.as_bytes()).is_some() {
        return Err(bad("the request target has a fragment"));
    }
    let mut facts = Facts::default();
    if version == 0 {
        facts.marks.insert(Mark::Old);
    }
    if !path.starts_with(['/', '*']) {
        facts.marks.insert(Mark::WholeAddress);
    }
    for field in parsed.headers.iter() {
        facts.note(field.name.as_bytes(), field.value)?;
    }
    let body = facts.finish()?;
    Ok((facts.request(method, target, head), body))
}

/// The response to a parser's error.
#[cold]
fn refusal(error: httparse::Error, head: &[u8]) -> Refused {
    use httparse::Error;
    match error {
        Error::TooManyHeaders => FIELDS_TOO_LARGE,
        Error::Version if names_a_version(head) => Refused {
            status: Status::VERSION_NOT_SUPPORTED,
            code: "version_not_supported",
            message: "the server supports HTTP/1.1 and HTTP/1.0 only",
        },
        Error::HeaderName => bad("a header field's name is not followed by its colon"),
        Error::HeaderValue => bad("a header field contains an invalid byte"),
        Error::NewLine => LINE_END,
        _ => bad("the request line is malformed"),
    }
}

/// Whether the request line ends with a well-formed version.
fn names_a_version(head: &[u8]) -> bool {
    let end = memchr::memchr(b'\r', head).unwrap_or(head.len());
    let line = &head[..end];
    matches!(
        line,
        [.., b' ', b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit()
    )
}

/// The facts that the header fields state about the whole request.
#[derive(Default)]
struct Facts<'a> {
    marks: Marks,
    host: Option<&'a [u8]>,
    length: Option<u64>,
    asks_to_stay: bool,
}

impl<'a> Facts<'a> {
    /// The request that they are of, without its body.
    #[inline]
    fn request(&self, method: Method, target: Target<'a>, head: &'a [u8]) -> Request<'a> {
        Request {
            method,
            target,
            marks: self.marks,
            host: self.host,
            body: &[],
            head,
        }
    }

    /// Notes a field if it plays a part.
    #[inline]
    fn note(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), Refused> {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        let mark = match name.len() {
            3 if is("age") => Mark::Age,
            4 if is("host") => {
                check_host(value)?;
                self.host = Some(value);
                Mark::Host
            }
            6 if is("expect") => return self.expect(value),
            6 if is("origin") => Mark::Origin,
            8 if is("if-match") => Mark::IfMatch,
            10 if is("connection") => return self.connection(value),
            11 if is("cache-lease") => Mark::CacheLease,
            12 if is("content-type") => {
                if value.eq_ignore_ascii_case(b"application/json") {
                    self.marks.insert(Mark::Json);
                }
                Mark::ContentType
            }
            13 if is("authorization") => Mark::Authorization,
            13 if is("cache-control") => Mark::CacheControl,
            13 if is("if-none-match") => Mark::IfNoneMatch,
            14 if is("content-length") => {
                self.length = Some(length_of(value)?);
                Mark::ContentLength
            }
            14 if is("sec-fetch-site") => {
                // A page on another port of the same machine is of the same site, but not ours.
                if !matches!(value, b"same-origin" | b"none") {
                    self.marks.insert(Mark::CrossSite);
                }
                return Ok(());
            }
            16 if is("content-encoding") => Mark::ContentEncoding,
            17 if is("transfer-encoding") => {
                check_coding(value)?;
                Mark::TransferEncoding
            }
            _ => return Ok(()),
        };
        let is_list = matches!(mark, Mark::CacheControl | Mark::IfMatch | Mark::IfNoneMatch);
        if !self.marks.insert(mark) && !is_list {
            return Err(bad("a header field occurs twice"));
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) -> Result<(), Refused> {
        for token in value.split(|byte| *byte == b',') {
            let token = token.trim_ascii();
            if token.eq_ignore_ascii_case(b"close") {
                self.marks.insert(Mark::Close);
            } else if token.eq_ignore_ascii_case(b"keep-alive") {
                self.asks_to_stay = true;
            }
        }
        Ok(())
    }

    #[cold]
    fn expect(&mut self, value: &[u8]) -> Result<(), Refused> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Refused {
                status: Status::EXPECTATION_FAILED,
                code: "expectation_failed",
                message: "the server supports no expectation but 100-continue",
            });
        }
        self.marks.insert(Mark::Expect);
        Ok(())
    }

    /// Checks the conditions that depend on all fields; returns where the body ends, if there is
    /// one.
    #[inline]
    fn finish(&mut self) -> Result<Option<Body>, Refused> {
        let marks = &mut self.marks;
        if marks.has(Mark::Old) {
            if marks.has(Mark::TransferEncoding) {
                return Err(bad("HTTP/1.0 has no transfer codings"));
            }
            let stays = self.asks_to_stay && !marks.has(Mark::Close);
            marks.insert(if stays { Mark::KeepAlive } else { Mark::Close });
        } else if !marks.has(Mark::Host) {
            return Err(bad("the Host field is missing"));
        }
        if marks.has(Mark::TransferEncoding) {
            if marks.has(Mark::ContentLength) {
                return Err(bad("the body has both a length and a transfer coding"));
            }
            return Ok(Some(Body::Chunks));
        }
        Ok(self.length.filter(|bytes| *bytes > 0).map(Body::Bytes))
    }
}

/// The number in a Content-Length: digits and nothing else.
#[inline]
fn length_of(value: &[u8]) -> Result<u64, Refused> {
    const WRONG: Refused = bad("Content-Length is not one decimal number");
    if value.is_empty() {
        return Err(WRONG);
    }
    let mut length = 0_u64;
    for byte in value {
        if !byte.is_ascii_digit() {
            return Err(WRONG);
        }
        let longer = length.checked_mul(10);
        let longer = longer.and_then(|length| length.checked_add(u64::from(byte - b'0')));
        length = longer.ok_or(Refused {
            status: Status::CONTENT_TOO_LARGE,
            code: "content_too_large",
            message: "Content-Length is too large",
        })?;
    }
    Ok(length)
}

#[cold]
fn check_coding(value: &[u8]) -> Result<(), Refused> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    Err(Refused {
        status: Status::NOT_IMPLEMENTED,
        code: "not_implemented",
        message: "the server supports no transfer coding but chunked",
    })
}

/// Bytes that are allowed in a Host field.
const OF_HOST: [bool; 256] = letters_digits_and(b"-._~:[]%!$&'()*+,;=");

/// Checks that a Host field could name a host.
#[inline]
fn check_host(value: &[u8]) -> Result<(), Refused> {
    if value.iter().all(|byte| OF_HOST[usize::from(*byte)]) {
        Ok(())
    } else {
        Err(bad("the Host field is not a host name"))
    }
}

//! A request as a line of words, as people type it.
//!
//! Words are separated by blanks. In double quotes a backslash begins an escape (`\n`, `\r`, `\t`,
//! `\b`, `\a`, `\xff`, any other byte for itself), in single quotes only before a single quote. A
//! closing quote ends the word.
//!
//! Source: sdssplitargs in Redis's sds.c.

use memchr::{memchr, memchr2};

use super::super::request::{Args, Request, write_frame};
use super::{Decoded, Fault, Limits, Scan};

/// Decodes the line at the beginning of `input`.
#[cold]
pub(super) fn decode<'a>(input: &'a [u8], limits: &Limits) -> Decoded<'a> {
    let max = limits.inline_bytes_max;
    let looked_at = &input[..input.len().min(max.saturating_add(1))];
    let Some(newline) = memchr(b'\n', looked_at) else {
        return if input.len() > max {
            Fault::LineEndless.refuse(input)
        } else {
            Decoded::Incomplete(Scan::default())
        };
    };
    let used = newline + 1;
    let line = &input[..newline];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if memchr2(b'"', b'\'', line).is_some() {
        return quoted(input, line, used);
    }
    let args: Args<'a> = InlineWords(line).collect();
    if args.is_empty() {
        return Decoded::Nothing { used };
    }
    Decoded::Request {
        request: Request::of(args),
        used,
    }
}

fn quoted<'a>(input: &'a [u8], line: &[u8], used: usize) -> Decoded<'a> {
    let Some(words) = unquoted_words(line) else {
        return Fault::Quotes.refuse(input);
    };
    let mut frame = Vec::new();
    write_frame(&words, &mut frame);
    Decoded::Quoted { frame, used }
}

/// The words of a line, without their quotes; `None` if a quote is not closed, or is closed in the
/// middle of a word.
#[must_use]
pub fn unquoted_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = after_blanks(line);
    while !rest.is_empty() {
        let mut word = Vec::new();
        rest = after_blanks(unquote(rest, &mut word)?);
        words.push(word);
    }
    Some(words)
}

/// The words of a line without quotes.
struct InlineWords<'a>(&'a [u8]);

impl<'a> Iterator for InlineWords<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let line = after_blanks(self.0);
        let end = line.iter().position(|byte| ends_word(*byte));
        let (word, rest) = line.split_at(end.unwrap_or(line.len()));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// The blanks that end a word; more bytes than these are skipped before one.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

fn is_blank(byte: u8) -> bool {
    ends_word(byte) || matches!(byte, 0x0b | 0x0c)
}

fn after_blanks(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !is_blank(*byte));
    &line[start.unwrap_or(line.len())..]
}

/// Appends the first word to `word` and returns the rest; `None` if a quote is not closed, or is
/// closed in the middle of a word.
fn unquote<'a>(line: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = line;
    loop {
        rest = match rest {
            [] => return Some(rest),
            [byte, ..] if ends_word(*byte) => return Some(rest),
            [b'"', inner @ ..] => return closed(double_quoted(inner, word)?),
            [b'\'', inner @ ..] => return closed(single_quoted(inner, word)?),
            [byte, more @ ..] => {
                word.push(*byte);
                more
            }
        };
    }
}

/// The text after a closing quote, which has to begin with a blank or be empty.
fn closed(rest: &[u8]) -> Option<&[u8]> {
    rest.first()
        .is_none_or(|byte| is_blank(*byte))
        .then_some(rest)
}

/// Appends the text in double quotes and returns the rest behind them.
fn double_quoted<'a>(line: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = line;
    loop {
        let (byte, more) = match rest {
            [] => return None,
            [b'"', more @ ..] => return Some(more),
            [b'\\', b'x', high, low, more @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex(*high) << 4 | hex(*low), more)
            }
            [b'\\', escaped, more @ ..] => (unescape(*escaped), more),
            [byte, more @ ..] => (*byte, more),
        };
        word.push(byte);
        rest = more;
    }
}

/// Appends the text in single quotes and returns the rest behind them.
fn single_quoted<'a>(line: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = line;
    loop {
        let (byte, more) = match rest {
            [] => return None,
            [b'\'', more @ ..] => return Some(more),
            [b'\\', b'\'', more @ ..] => (b'\'', more),
            [byte, more @ ..] => (*byte, more),
        };
        word.push(byte);
        rest = more;
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit.to_ascii_lowercase() - b'a' + 10,
    }
}

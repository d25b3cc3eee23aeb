//! Values: parses replies, RESP2 and RESP3, for code that runs commands on behalf of clients.
//!
//! [`read`] takes one value off the front; of an aggregate only its head, and the values inside it
//! follow. Nothing is copied and nothing recurses.

use super::number;

/// A reply, or the head of one that has values inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A status.
    Simple(&'a [u8]),
    /// An error, its code first.
    Error(&'a [u8]),
    /// A whole number.
    Integer(i64),
    /// Bytes.
    Bulk(&'a [u8]),
    /// Nothing, of either version.
    Null,
    /// A number with decimals.
    Double(f64),
    /// Yes or no.
    Boolean(bool),
    /// A whole number of any length, as digits.
    BigNumber(&'a [u8]),
    /// Text with the three letters of its format.
    Verbatim {
        /// The three letters.
        format: &'a [u8],
        /// The text.
        text: &'a [u8],
    },
    /// So many values follow.
    Array(usize),
    /// So many pairs follow.
    Map(usize),
    /// So many different values follow.
    Set(usize),
    /// So many values follow that answer no request.
    Push(usize),
}

/// Takes one value, or the head of an aggregate, off the front of `input`.
///
/// `None` if `input` does not begin with a whole one.
pub fn read<'a>(input: &mut &'a [u8]) -> Option<Value<'a>> {
    let (&mark, rest) = input.split_first()?;
    let end = memchr::memchr(b'\r', rest)?;
    let (line, rest) = (&rest[..end], rest[end..].strip_prefix(b"\r\n")?);
    *input = rest;
    let count = || usize::try_from(number::parse_integer(line)?).ok();
    let aggregate = |head: fn(usize) -> Value<'a>| match line {
        b"-1" => Some(Value::Null),
        _ => count().map(head),
    };
    match mark {
        b'+' => Some(Value::Simple(line)),
        b'-' => Some(Value::Error(line)),
        b':' => number::parse_integer(line).map(Value::Integer),
        b'$' if line == b"-1" => Some(Value::Null),
        b'$' => take(input, count()?).map(Value::Bulk),
        b'=' => {
            let (format, text) = take(input, count()?)?.split_at_checked(3)?;
            let text = text.strip_prefix(b":")?;
            Some(Value::Verbatim { format, text })
        }
        b'_' => Some(Value::Null),
        b'#' => Some(Value::Boolean(line == b"t")),
        b',' => number::parse_float(line).map(Value::Double),
        b'(' => Some(Value::BigNumber(line)),
        b'*' => aggregate(Value::Array),
        b'%' => aggregate(Value::Map),
        b'~' => aggregate(Value::Set),
        b'>' => aggregate(Value::Push),
        _ => None,
    }
}

/// Takes bytes and the line end behind them.
fn take<'a>(input: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(bytes)?;
    *input = rest.strip_prefix(b"\r\n")?;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_nothing_is_left() {
        for (bytes, value) in [
            (&b"+OK\r\n"[..], Value::Simple(b"OK")),
            (b"-ERR no\r\n", Value::Error(b"ERR no")),
            (b":-12\r\n", Value::Integer(-12)),
            (b"$4\r\na\r\nb\r\n", Value::Bulk(b"a\r\nb")),
            (b"$-1\r\n", Value::Null),
            (b"*-1\r\n", Value::Null),
            (b"_\r\n", Value::Null),
            (b",1.5\r\n", Value::Double(1.5)),
            (b"#t\r\n", Value::Boolean(true)),
            (b"(123\r\n", Value::BigNumber(b"123")),
            (b"*2\r\n", Value::Array(2)),
            (b"%1\r\n", Value::Map(1)),
            (b"~0\r\n", Value::Set(0)),
            (b">3\r\n", Value::Push(3)),
        ] {
            let mut input = bytes;
            assert_eq!(read(&mut input), Some(value));
            assert_eq!(input, b"");
        }
        let verbatim = Value::Verbatim {
            format: b"txt",
            text: b"hi",
        };
        assert_eq!(read(&mut &b"=6\r\ntxt:hi\r\n"[..]), Some(verbatim));
    }

    #[test]
    fn what_is_cut_off_or_no_reply_is_none() {
        for bytes in [
            &b""[..],
            b"+OK",
            b"$3\r\nab",
            b"$3\r\nabc",
            b"?\r\n",
            b":x\r\n",
        ] {
            assert_eq!(read(&mut &bytes[..]), None, "{bytes:?}");
        }
    }
}

//! A decoded request: its arguments, its row in the table, its keys.

use smallvec::SmallVec;

use super::command::{self, Command, Keys};

/// The arguments of a request; up to five need no memory of their own.
pub type Args<'a> = SmallVec<[&'a [u8]; ARGS_INLINE]>;

/// So many arguments need no memory: SET with a deadline has five.
pub const ARGS_INLINE: usize = 5;

/// Names by which a browser that was led here is known; no command is called like that.
const HTTP_NAMES: [&[u8]; 7] = [
    b"post", b"put", b"head", b"options", b"patch", b"delete", b"host:",
];

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The table's row of the command, or of its subcommand if it has one; `None` for an unknown
    /// name. If the second word is no known subcommand, it is the row of the command.
    pub command: Option<&'static Command>,
    /// The name as it was sent, and its arguments; never empty.
    pub args: Args<'a>,
}

impl<'a> Request<'a> {
    /// The request with these arguments, the name first.
    #[inline]
    #[must_use]
    pub fn of(args: Args<'a>) -> Request<'a> {
        Request {
            command: command::of(&args),
            args,
        }
    }

    /// Whether it is the first line of an HTTP request or one of its headers: the connection has to
    /// be ended without looking at anything that follows.
    #[must_use]
    pub fn is_http(&self) -> bool {
        let name = self.args.first().copied().unwrap_or_default();
        HTTP_NAMES
            .iter()
            .any(|http| http.eq_ignore_ascii_case(name))
    }

    /// Its keys in the order of the arguments; none where it is malformed.
    #[inline]
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8]> {
        let places = self.key_places();
        places.filter_map(|place| self.args.get(place).copied())
    }

    /// The places of its keys among the arguments.
    #[inline]
    pub fn key_places(&self) -> impl Iterator<Item = usize> + use<> {
        let keys = self.command.map_or(Keys::NONE, |command| command.keys);
        key_places(keys, &self.args)
    }

    /// Appends the request as an array of bulk strings, as [`super::decode`] reads it.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_frame(&self.args, out);
    }
}

/// The places of the keys of a command among these arguments; none where they are malformed.
#[inline]
pub fn key_places(keys: Keys, args: &[&[u8]]) -> impl Iterator<Item = usize> + use<> {
    let (first, end) = if keys.count == 0 {
        span(keys, args.len())
    } else {
        counted(keys, args)
    };
    let before = (keys.count > 0 && keys.first > 0).then_some(1);
    let places = (first..end).step_by(usize::from(keys.step.unsigned_abs()).max(1));
    let all = before.into_iter().chain(places);
    all.chain(stored_place(keys, args))
}

/// Appends these arguments as an array of bulk strings.
pub fn write_frame(args: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    out.push(b'*');
    out.extend_from_slice(digits.format(args.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    for arg in args.iter().map(AsRef::as_ref) {
        out.push(b'$');
        out.extend_from_slice(digits.format(arg.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// First and end position of keys at fixed positions.
#[inline]
fn span(keys: Keys, args: usize) -> (usize, usize) {
    let last = if keys.last < 0 {
        args.saturating_sub(usize::from(keys.last.unsigned_abs()))
    } else {
        usize::from(keys.last.unsigned_abs()).min(args.saturating_sub(1))
    };
    match keys.first {
        0 => (0, 0),
        first => (usize::from(first.unsigned_abs()), last + 1),
    }
}

/// The place of the key behind the last STORE among the options.
///
/// Options that have arguments of their own are stepped over as the commands do it.
#[must_use]
pub fn stored_place(keys: Keys, args: &[&[u8]]) -> Option<usize> {
    if keys.options == 0 {
        return None;
    }
    let (mut at, mut found) = (usize::from(keys.options), None);
    while let Some(name) = args.get(at) {
        let is = |names: &[&str]| {
            let mut names = names.iter();
            names.any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
        };
        if is(&["STORE", "STOREDIST"]) && at + 1 < args.len() {
            found = Some(at + 1);
            at += 1;
        } else if is(&["COUNT", "BY", "GET"]) {
            at += 1;
        } else if is(&["LIMIT"]) {
            at += 2;
        }
        at += 1;
    }
    found
}

/// First place and end of keys whose number is an argument.
fn counted(keys: Keys, args: &[&[u8]]) -> (usize, usize) {
    let first = usize::from(keys.count) + 1;
    let number = args.get(usize::from(keys.count));
    let number = number.and_then(|text| super::number::parse_integer(text));
    let number = number.and_then(|number| usize::try_from(number).ok());
    let end = number.and_then(|number| {
        let length = number.checked_mul(usize::from(keys.step.unsigned_abs()))?;
        first.checked_add(length).filter(|end| *end <= args.len())
    });
    end.map_or((0, 0), |end| (first, end))
}

#[cfg(test)]
mod tests {
    use super::{Args, Request};

    fn keys(words: &str) -> String {
        let args: Args<'_> = words.split(' ').map(str::as_bytes).collect();
        let request = Request::of(args);
        let keys: Vec<_> = request.keys().map(String::from_utf8_lossy).collect();
        keys.join(" ")
    }

    #[test]
    fn the_keys_are_where_the_table_says() {
        for (words, expected) in [
            ("GET a", "a"),
            ("SET a b EX 3", "a"),
            ("MGET a b c", "a b c"),
            ("MSET a 1 b 2", "a b"),
            ("RENAME a b", "a b"),
            ("COPY a b REPLACE", "a b"),
            ("OBJECT ENCODING a", "a"),
            ("MEMORY USAGE a SAMPLES 5", "a"),
            ("OBJECT HELP", ""),
            ("EVAL return 2 a b c", "a b"),
            ("EVALSHA x 0 a", ""),
            ("SINTERCARD 2 a b LIMIT 1", "a b"),
            ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b"),
            ("ZMPOP 2 a b MIN", "a b"),
            ("BITOP OR d a b", "d a b"),
            ("SORT a BY store GET store LIMIT store store", "a"),
            ("SORT a LIMIT 0 1 STORE b DESC", "a b"),
            ("SORT_RO a STORE b", "a"),
            ("GEORADIUS a 1 2 3 km", "a"),
            ("GEORADIUS a 1 2 3 km COUNT STORE STORE b", "a b"),
            ("GEORADIUS a 1 2 3 km STORE b STOREDIST c", "a c"),
            ("GEORADIUS a 1 2 3 km ASC STORE", "a"),
            ("GEORADIUSBYMEMBER a store 3 km StoreDist b", "a b"),
            ("MSETEX 2 a 1 b 2 EX 9", "a b"),
            ("PING", ""),
            ("NONSENSE a", ""),
        ] {
            assert_eq!(keys(words), expected, "{words}");
        }
    }

    #[test]
    fn a_malformed_request_has_no_keys_that_are_not_there() {
        for words in [
            "GET",
            "MGET",
            "EVAL return",
            "EVAL return x a",
            "EVAL return -1 a",
            "EVAL return 2 a",
            "MSETEX 2 a 1 b",
            "SINTERCARD 9223372036854775807 a",
            "MSETEX 9223372036854775807 a 1",
        ] {
            assert_eq!(keys(words), "", "{words}");
        }
        assert_eq!(keys("ZUNIONSTORE d 3 a b"), "d");
        assert_eq!(keys("RENAME a"), "a");
        assert_eq!(keys("MSET a 1 b"), "a b");
    }

    #[test]
    fn a_request_is_written_as_it_is_read() {
        let request = Request::of([b"ECHO".as_slice(), b"", b"\r\n"].into_iter().collect());
        let mut out = Vec::new();
        request.write(&mut out);
        assert_eq!(out, b"*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$2\r\n\r\n\r\n");
    }
}

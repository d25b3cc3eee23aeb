//! The RESP decoder's property: the same requests, however the bytes arrive.

use cellar_protocol::resp::{
    Decoded, Limits, Plain, Request, Scan, Tail, Verb, decode, decode_plain, decode_tail,
};

/// Positions at which longer inputs are cut.
const CUTS_MAX: usize = 24;
/// Inputs up to this length also arrive byte by byte.
const TRICKLE_BYTES_MAX: usize = 600;

/// Small limits, so that small inputs reach them.
const LIMITS: Limits = Limits {
    bulk_bytes_max: 1_500,
    args_max: 40,
    command_bytes_max: 10_000,
    inline_bytes_max: 60,
    value_bytes_max: 20,
    uploads: true,
    unauthenticated: false,
};

/// What is found in a stream, as text.
#[derive(Default)]
struct Reader {
    found: Vec<String>,
    scan: Scan,
    /// Bytes of an uploaded value and its line end that are still to come.
    skip: usize,
    /// How many arguments follow the value.
    args_left: Option<usize>,
    closed: bool,
}

impl Reader {
    /// Reads what is whole; returns how many bytes were used.
    fn read(&mut self, input: &[u8]) -> usize {
        let mut used = 0;
        while !self.closed {
            let Some(more) = self.step(&input[used..]) else {
                break;
            };
            assert!(more <= input.len() - used, "{more} after {used}");
            used += more;
        }
        used
    }

    /// Takes one thing from `input`; `None` if it has to wait.
    fn step(&mut self, input: &[u8]) -> Option<usize> {
        if self.skip > 0 {
            let skipped = self.skip.min(input.len());
            self.skip -= skipped;
            return (skipped > 0).then_some(skipped);
        }
        if let Some(count) = self.args_left {
            return self.tail(input, count);
        }
        // A server tries this one first, whatever it knows of the bytes.
        let scan = match decode_plain(input, &LIMITS) {
            Some(plain) => {
                check_plain(&plain, input);
                Scan::default()
            }
            None => self.scan,
        };
        let (text, used) = match decode(input, scan, &LIMITS) {
            Decoded::Incomplete(scan) => {
                assert!(scan.at <= input.len() && scan.left <= LIMITS.args_max);
                self.scan = scan;
                return None;
            }
            Decoded::Nothing { used } => ("nothing".to_owned(), used),
            Decoded::Request { request, used } => (text_of(&request), used),
            Decoded::Quoted { frame, used } => (text_of(&Decoded::unquoted(&frame)), used),
            Decoded::Upload {
                key,
                value_bytes,
                used,
                args_left,
            } => {
                assert!(value_bytes > LIMITS.value_bytes_max);
                self.skip = value_bytes + 2;
                self.args_left = Some(args_left);
                let key = key.escape_ascii();
                (format!("{value_bytes} to {key}, {args_left} left"), used)
            }
            Decoded::Refused { message, used } => {
                self.closed = true;
                (message.escape_ascii().to_string(), used)
            }
        };
        assert!(used > 0, "{text}");
        self.scan = Scan::default();
        self.found.push(text);
        Some(used)
    }

    fn tail(&mut self, input: &[u8], count: usize) -> Option<usize> {
        match decode_tail(input, count, &LIMITS) {
            Tail::Incomplete => None,
            Tail::Args { args, used } => {
                assert_eq!(args.len(), count);
                self.args_left = None;
                self.found.push(format!("{args:?}"));
                Some(used)
            }
            Tail::Refused { message } => {
                self.closed = true;
                self.found.push(message.escape_ascii().to_string());
                None
            }
        }
    }
}

/// What is found in a hurry is what is found at leisure.
fn check_plain(plain: &Plain<'_>, input: &[u8]) {
    let Decoded::Request { request, used } = decode(input, Scan::default(), &LIMITS) else {
        panic!("it is a request");
    };
    let verb = request.command.map(|row| row.verb);
    match *plain {
        Plain::Get { key, used: all } => {
            assert_eq!((verb, all), (Some(Verb::Get), used));
            assert_eq!(request.args[1..], [key]);
        }
        Plain::Set {
            key,
            value,
            used: all,
        } => {
            assert_eq!((verb, all), (Some(Verb::Set), used));
            assert_eq!(request.args[1..], [key, value]);
        }
    }
}

/// A request as text; its keys are among its arguments, and written it is the same request.
fn text_of(request: &Request<'_>) -> String {
    assert!(!request.args.is_empty());
    assert!(request.keys().all(|key| request.args.contains(&key)));
    let mut frame = Vec::new();
    request.write(&mut frame);
    let again = Decoded::unquoted(&frame);
    assert_eq!(again.args, request.args);
    assert_eq!(again.command, request.command);
    format!(
        "{:?} {:?}",
        request.command.map(|row| row.verb),
        request.args
    )
}

fn read_in_pieces(data: &[u8], ends: impl IntoIterator<Item = usize>) -> Vec<String> {
    let mut reader = Reader::default();
    let mut used = 0;
    for end in ends.into_iter().chain([data.len()]) {
        if end > used {
            used += reader.read(&data[used..end]);
        }
    }
    reader.found
}

/// Checks the property for one input.
pub(crate) fn check(data: &[u8]) {
    let whole = read_in_pieces(data, []);
    let step = (data.len() / CUTS_MAX).max(1);
    for cut in (0..data.len()).step_by(step) {
        assert_eq!(read_in_pieces(data, [cut]), whole, "cut at {cut}");
    }
    if data.len() <= TRICKLE_BYTES_MAX {
        assert_eq!(read_in_pieces(data, 1..data.len()), whole, "byte by byte");
    }
}

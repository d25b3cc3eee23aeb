//! The HTTP decoder's property: the same requests and bodies, however the bytes arrive.

use cellar_protocol::http::{Body, Chunks, Decoded, Fed, Kept, Limits, Scan, decode};

/// Positions at which longer inputs are cut.
const CUTS_MAX: usize = 24;
/// Inputs up to this length also arrive byte by byte.
const TRICKLE_BYTES_MAX: usize = 600;
/// Longest chunked body.
const BODY_BYTES_MAX: usize = 300;

/// Small limits, so that small inputs reach them.
const LIMITS: Limits = Limits { body_bytes_max: 20 };

/// What of a body is still to come.
enum Rest {
    Bytes(u64),
    Chunks(Chunks, Vec<u8>),
}

/// What is found in a stream, as text.
#[derive(Default)]
struct Reader {
    found: Vec<String>,
    scan: Scan,
    rest: Option<Rest>,
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
        if let Some(rest) = self.rest.take() {
            return self.body(rest, input);
        }
        let (text, used) = match decode(input, self.scan, &LIMITS) {
            Decoded::Incomplete(scan) => {
                self.scan = scan;
                return None;
            }
            Decoded::Nothing { used } => ("nothing".to_owned(), used),
            Decoded::Request { request, used } => {
                assert!(request.body.len() <= LIMITS.body_bytes_max);
                (format!("{request:?}"), used)
            }
            Decoded::Head {
                request,
                used,
                body,
            } => {
                let kept = Kept::of(&request);
                let again = kept.with_body(&[]);
                assert_eq!(format!("{again:?}"), format!("{request:?}"));
                self.rest = Some(match body {
                    Body::Bytes(bytes) => Rest::Bytes(bytes),
                    Body::Chunks => Rest::Chunks(Chunks::default(), Vec::new()),
                });
                (format!("{request:?} {body:?}"), used)
            }
            Decoded::Refused(refused) => {
                self.closed = true;
                (format!("{refused:?}"), input.len())
            }
        };
        assert!(used > 0, "{text}");
        self.scan = Scan::default();
        self.found.push(text);
        Some(used)
    }

    fn body(&mut self, rest: Rest, input: &[u8]) -> Option<usize> {
        match rest {
            Rest::Bytes(0) => Some(0),
            Rest::Bytes(_) if input.is_empty() => {
                self.rest = Some(rest);
                None
            }
            Rest::Bytes(bytes) => {
                let skipped = bytes.min(input.len() as u64);
                self.rest = Some(Rest::Bytes(bytes - skipped));
                Some(skipped as usize)
            }
            Rest::Chunks(mut chunks, mut body) => {
                let fed = chunks.feed(input, &mut body, BODY_BYTES_MAX);
                assert!(body.len() <= BODY_BYTES_MAX);
                match fed {
                    Fed::More => {
                        self.rest = Some(Rest::Chunks(chunks, body));
                        (!input.is_empty()).then_some(input.len())
                    }
                    Fed::Done(used) => {
                        self.found.push(body.escape_ascii().to_string());
                        Some(used)
                    }
                    Fed::TooLarge | Fed::Malformed => {
                        self.closed = true;
                        self.found.push(format!("{fed:?}"));
                        Some(input.len())
                    }
                }
            }
        }
    }
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

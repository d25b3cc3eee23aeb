//! The decoder's property: the same requests, however the bytes arrive.

use cellar_protocol::memcached::{Decoded, KEY_BYTES_MAX, Limits, decode};

/// Positions at which longer inputs are cut.
const CUTS_MAX: usize = 24;

/// Small limits, so that small inputs reach them.
const LIMITS: Limits = Limits {
    value_bytes_max: 20,
    keys_line_bytes_max: 3_000,
};

/// What is found in a stream, as text.
#[derive(Default)]
struct Reader {
    found: Vec<String>,
    skip: usize,
    closed: bool,
}

impl Reader {
    /// Reads what is whole; returns how many bytes were used.
    fn read(&mut self, input: &[u8]) -> usize {
        let mut used = 0;
        while !self.closed {
            let rest = &input[used..];
            if self.skip > 0 {
                let skipped = self.skip.min(rest.len());
                (self.skip, used) = (self.skip - skipped, used + skipped);
                if self.skip > 0 {
                    break;
                }
                continue;
            }
            let (text, more) = match decode(rest, &LIMITS) {
                Decoded::Incomplete => {
                    assert!(rest.len() < LIMITS.input_bytes_max(), "it waits for ever");
                    break;
                }
                Decoded::Request { request, used } => {
                    let key = request.plain_key();
                    assert!(key.is_none_or(|key| (1..=KEY_BYTES_MAX).contains(&key.len())));
                    (format!("{request:?}"), used)
                }
                Decoded::Upload {
                    storage,
                    used,
                    value_bytes,
                } => {
                    assert!(value_bytes > LIMITS.value_bytes_max);
                    self.skip = value_bytes + 2;
                    (format!("{storage:?} of {value_bytes}"), used)
                }
                Decoded::Refused(refused) => {
                    self.skip = refused.swallow;
                    self.closed = refused.close;
                    let (line, swallow, close) = (refused.line, refused.swallow, refused.close);
                    (format!("{line} {swallow} {close}"), refused.used)
                }
            };
            assert!(
                more > 0 && more <= rest.len(),
                "{more} of {} bytes: {text}",
                rest.len()
            );
            self.found.push(text);
            used += more;
        }
        used
    }
}

fn read_cut(data: &[u8], cut: usize) -> Vec<String> {
    let mut reader = Reader::default();
    let used = reader.read(&data[..cut]);
    reader.read(&data[used..]);
    reader.found
}

/// Checks the property for one input.
pub(crate) fn check(data: &[u8]) {
    let whole = read_cut(data, data.len());
    let step = (data.len() / CUTS_MAX).max(1);
    for cut in (0..data.len()).step_by(step) {
        assert_eq!(read_cut(data, cut), whole, "cut at {cut}");
    }
}

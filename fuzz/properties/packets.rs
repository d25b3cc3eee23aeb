//! The binary decoder's property: the same packets, however the bytes arrive.

use cellar_protocol::memcached::KEY_BYTES_MAX;
use cellar_protocol::memcached::binary::{HEAD_BYTES, PacketDecoded, decode};

/// Positions at which longer inputs are cut.
const CUTS_MAX: usize = 24;
/// Longest value that is waited for: small, so that small inputs reach it.
const VALUE_BYTES_MAX: usize = 20;
/// Bytes after which there is an answer.
const INPUT_BYTES_MAX: usize = HEAD_BYTES + 20 + KEY_BYTES_MAX + VALUE_BYTES_MAX;

/// What is found in a stream, as text.
#[derive(Default)]
struct Found {
    found: Vec<String>,
    skip: usize,
    closed: bool,
}

impl Found {
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
            let (text, more) = match decode(rest, VALUE_BYTES_MAX) {
                PacketDecoded::Incomplete => {
                    assert!(rest.len() < INPUT_BYTES_MAX, "it waits for ever");
                    break;
                }
                PacketDecoded::Packet { packet, used } => {
                    let key = packet.item_key();
                    assert!(key.is_none_or(|key| (1..=KEY_BYTES_MAX).contains(&key.len())));
                    (format!("{packet:?}"), used)
                }
                PacketDecoded::Upload {
                    packet,
                    used,
                    value_bytes,
                } => {
                    assert!(value_bytes > VALUE_BYTES_MAX);
                    self.skip = value_bytes;
                    (format!("{packet:?} of {value_bytes}"), used)
                }
                PacketDecoded::Refused(refused) => {
                    (self.skip, self.closed) = (refused.swallow, refused.close);
                    let text = format!("{:?} {} {}", refused.answer, self.skip, self.closed);
                    (text, refused.used)
                }
            };
            assert!(more > 0 && more <= rest.len(), "{more} bytes: {text}");
            self.found.push(text);
            used += more;
        }
        used
    }
}

fn read_cut(data: &[u8], cut: usize) -> Vec<String> {
    let mut reader = Found::default();
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

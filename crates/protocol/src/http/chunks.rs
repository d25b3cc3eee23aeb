//! Chunks: decodes a body of unknown length as it arrives.
//!
//! Extensions and trailer fields are skipped, within [`LINE_BYTES_MAX`] for all of them in a row; a
//! trailer line is a name, a colon right behind it and a value; line ends are exactly `\r\n`.
//! Source: RFC 9112, sections 5 and 7.1.

/// Longest line of a chunk's size with its extensions, and longest trailer section.
pub const LINE_BYTES_MAX: usize = 4_096;
/// Most digits of a chunk's size.
const SIZE_DIGITS_MAX: u8 = 15;

/// The position of the next byte in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a chunk's size, after this many digits.
    Size { size: usize, digits: u8 },
    /// In the extensions of a chunk of this size.
    Extension { size: usize },
    /// Before the line feed of a size line.
    SizeEnd { size: usize },
    /// In a chunk of which this many bytes are missing.
    Data { left: usize },
    /// Before the line end of a chunk.
    DataReturn,
    /// Before the line feed of a chunk.
    DataFeed,
    /// At the beginning of a trailer line, or of the last line.
    Trailer,
    /// In the name of a trailer field.
    TrailerName,
    /// In its value.
    TrailerValue,
    /// Before the line feed of a trailer line.
    TrailerFeed,
    /// Before the last line feed.
    LastFeed,
    /// Behind the body.
    Done,
}

/// A body that is being taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    place: Place,
    /// Bytes of the present line, or of all trailer lines.
    line_bytes: usize,
}

/// The result of feeding bytes to the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// All bytes were used and more have to follow.
    More,
    /// The body is complete; this many bytes were used.
    Done(usize),
    /// The body would be longer than allowed.
    TooLarge,
    /// These bytes are no chunks.
    Malformed,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks {
            place: Place::Size { size: 0, digits: 0 },
            line_bytes: 0,
        }
    }
}

impl Chunks {
    /// Appends the content in `input` to `body`, which may grow to `bytes_max`.
    pub fn feed(&mut self, input: &[u8], body: &mut Vec<u8>, bytes_max: usize) -> Fed {
        let mut at = 0;
        while at < input.len() {
            if let Place::Data { left } = self.place {
                let bytes = left.min(input.len() - at);
                if bytes > bytes_max.saturating_sub(body.len()) {
                    return Fed::TooLarge;
                }
                body.extend_from_slice(&input[at..at + bytes]);
                at += bytes;
                self.place = match left - bytes {
                    0 => Place::DataReturn,
                    left => Place::Data { left },
                };
                continue;
            }
            self.line_bytes += 1;
            if self.line_bytes > LINE_BYTES_MAX {
                return Fed::Malformed;
            }
            let Some(next) = self.after(input[at]) else {
                return Fed::Malformed;
            };
            at += 1;
            match next {
                Place::Done => {
                    self.place = Place::Done;
                    return Fed::Done(at);
                }
                Place::Data { left } if left > bytes_max.saturating_sub(body.len()) => {
                    return Fed::TooLarge;
                }
                Place::Data { .. } | Place::Size { digits: 0, .. } => self.line_bytes = 0,
                _ => {}
            }
            self.place = next;
        }
        Fed::More
    }

    /// The position after `byte`; `None` if `byte` is not allowed at this position.
    fn after(&self, byte: u8) -> Option<Place> {
        match (self.place, byte) {
            (Place::Size { size, digits }, byte) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16)? as usize;
                (digits < SIZE_DIGITS_MAX).then_some(Place::Size {
                    size: size << 4 | digit,
                    digits: digits + 1,
                })
            }
            (Place::Size { size, digits: 1.. }, b'\r') => Some(Place::SizeEnd { size }),
            (Place::Size { size, digits: 1.. }, b';') => Some(Place::Extension { size }),
            (Place::Extension { size }, b'\r') => Some(Place::SizeEnd { size }),
            (Place::Extension { size }, byte) if is_text(byte) => Some(Place::Extension { size }),
            (Place::SizeEnd { size: 0 }, b'\n') => Some(Place::Trailer),
            (Place::SizeEnd { size }, b'\n') => Some(Place::Data { left: size }),
            (Place::DataReturn, b'\r') => Some(Place::DataFeed),
            (Place::DataFeed, b'\n') => Some(Place::Size { size: 0, digits: 0 }),
            (Place::Trailer, b'\r') => Some(Place::LastFeed),
            (Place::Trailer | Place::TrailerName, byte) if is_name(byte) => {
                Some(Place::TrailerName)
            }
            (Place::TrailerName, b':') => Some(Place::TrailerValue),
            (Place::TrailerValue, b'\r') => Some(Place::TrailerFeed),
            (Place::TrailerValue, byte) if is_text(byte) => Some(Place::TrailerValue),
            (Place::TrailerFeed, b'\n') => Some(Place::Trailer),
            (Place::LastFeed, b'\n') => Some(Place::Done),
            _ => None,
        }
    }
}

/// Whether a byte is allowed in an extension or a trailer field.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Whether a byte is allowed in the name of a field: `tchar` of RFC 9110, section 5.6.2.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 100;

    /// Feeds `input` in two pieces, cut at `cut`.
    fn feed(input: &[u8], cut: usize) -> (Fed, Vec<u8>) {
        let mut chunks = Chunks::default();
        let mut body = Vec::new();
        match chunks.feed(&input[..cut], &mut body, MAX) {
            Fed::More => {}
            other => return (other, body),
        }
        let fed = match chunks.feed(&input[cut..], &mut body, MAX) {
            Fed::Done(used) => Fed::Done(cut + used),
            other => other,
        };
        (fed, body)
    }

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        let input = b"5\r\nhello\r\n01;name=\"v\"\r\n \r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET";
        for cut in 0..input.len() - 3 {
            let (fed, body) = feed(input, cut);
            assert_eq!(fed, Fed::Done(input.len() - 3), "{cut}");
            assert_eq!(body, b"hello 0123456789", "{cut}");
        }
    }

    #[test]
    fn what_readers_could_disagree_about_is_refused() {
        for input in [
            &b"\r\n"[..],
            b"g\r\n",
            b"-1\r\n",
            b"+1\r\n",
            b"0x5\r\n",
            b" 5\r\n",
            b"5 \r\n",
            b"5\nhello",
            b"5\r\rhello",
            b"5\r\nhellox",
            b"5\r\nhello\n",
            b"1000000000000000\r\n",
            b"0\r\n\n",
            b"0\r\nX: y\n\r\n",
            b"0\r\n a\r\n\r\n",
            b"0\r\na\r\n\r\n",
            b"0\r\na : b\r\n\r\n",
            b"0\r\n: b\r\n\r\n",
            b"0\r\nX: y\r\n folded\r\n\r\n",
            b"5;\n\r\nhello",
            b"5;\x00\r\nhello",
        ] {
            for cut in 0..input.len() {
                assert_eq!(feed(input, cut).0, Fed::Malformed, "{input:?} {cut}");
            }
        }
    }

    #[test]
    fn sizes_lines_and_trailers_are_bounded() {
        assert_eq!(feed(b"65\r\n", 0).0, Fed::TooLarge);
        assert_eq!(feed(b"fffffffffffffff\r\n", 0).0, Fed::TooLarge);
        let mut long = b"1;".to_vec();
        long.resize(LINE_BYTES_MAX + 1, b'x');
        assert_eq!(feed(&long, 0).0, Fed::Malformed);
        let trailers = [b"0\r\n".as_slice(), &b"A: b\r\n".repeat(1_000)].concat();
        assert_eq!(feed(&trailers, 0).0, Fed::Malformed);
    }
}

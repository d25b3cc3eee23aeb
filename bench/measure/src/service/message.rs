//! Messages: what the service keeps, `{"id","content"}`, each a function of its number.
//!
//! An id is the number with its bits spread, in hexadecimal digits. The content is text of letters
//! and digits; every eighth ends with characters that JSON escapes, so that a server has to undo
//! that to give the content back. Nothing has to be remembered to check what was read. Requests
//! have the fields that a plain client sends and no more.

use std::io::Write;

use cellar_load::{ByteRange, Error, mix};

/// Length of every id.
pub(super) const ID_BYTES: usize = 16;
/// Every message whose number is a multiple of this has the ending.
const ENDING_EVERY: u64 = 8;
/// The ending, and how it is written in JSON.
const ENDING: &str = "\"end\"\n\u{e9}";
const ENDING_JSON: &str = "\\\"end\\\"\\n\\u00e9";
/// Shortest message: the ending and a little text.
const BYTES_MIN: usize = 100;
const BYTES_MAX: usize = 8 << 10;
/// What the text consists of: six bits each.
const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
const LETTERS_OF_A_WORD: usize = 10;

const BEGIN: &str = "{\"id\":\"";
const MIDDLE: &str = "\",\"content\":\"";
const FRAME_BYTES: usize = BEGIN.len() + ID_BYTES + MIDDLE.len() + "\"}".len();

/// All messages of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    bytes: ByteRange,
}

impl Messages {
    /// Messages that are so long as JSON of an id and a content.
    /// [`Error::Usage`] if such lengths are too short for the content, or too long.
    pub(super) fn new(bytes: ByteRange) -> Result<Messages, Error> {
        if bytes.low < BYTES_MIN || bytes.high > BYTES_MAX {
            return Err(Error::Usage(format!(
                "--message-bytes is {BYTES_MIN} to {BYTES_MAX}"
            )));
        }
        Ok(Messages { bytes })
    }

    /// The mean length of a content, but for its endings.
    pub(super) fn content_bytes_mean(self) -> usize {
        usize::midpoint(self.bytes.low, self.bytes.high) - FRAME_BYTES
    }

    /// Appends the id of a message.
    pub(super) fn push_id(self, out: &mut Vec<u8>, number: u64) {
        // Writing to a vector cannot fail.
        let _ = write!(out, "{:0ID_BYTES$x}", mix(number));
    }

    /// Appends the content of a message.
    pub(super) fn push_content(self, out: &mut Vec<u8>, number: u64) {
        self.push_text(out, number);
        if has_ending(number) {
            out.extend_from_slice(ENDING.as_bytes());
        }
    }

    /// Appends a message as JSON.
    pub(super) fn push_json(self, out: &mut Vec<u8>, number: u64) {
        out.extend_from_slice(BEGIN.as_bytes());
        self.push_id(out, number);
        out.extend_from_slice(MIDDLE.as_bytes());
        self.push_text(out, number);
        if has_ending(number) {
            out.extend_from_slice(ENDING_JSON.as_bytes());
        }
        out.extend_from_slice(b"\"}");
    }

    /// Appends a request about a message; `scratch` is overwritten.
    pub(super) fn push_request(
        self,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        method: Method,
        number: u64,
    ) {
        scratch.clear();
        out.extend_from_slice(method.line());
        if method == Method::Get {
            self.push_id(out, number);
        }
        out.extend_from_slice(COMMON.as_bytes());
        if method == Method::Post {
            self.push_json(scratch, number);
            let bytes = scratch.len();
            // Writing to a vector cannot fail.
            let _ = write!(
                out,
                "Content-Type: application/json\r\nContent-Length: {bytes}\r\n"
            );
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(scratch);
    }

    /// Whether this is the content of a message; `scratch` is overwritten.
    pub(super) fn is_content(self, scratch: &mut Vec<u8>, number: u64, found: &[u8]) -> bool {
        scratch.clear();
        self.push_content(scratch, number);
        scratch == found
    }

    /// Appends the content without its ending.
    fn push_text(self, out: &mut Vec<u8>, number: u64) {
        let ByteRange { low, high } = self.bytes;
        let spread = (high - low) as u64 + 1;
        // Below the spread, which came from a usize.
        let bytes = low + (mix(number ^ 0x4C45_4E47) % spread) as usize - FRAME_BYTES;
        let bytes = if has_ending(number) {
            bytes - ENDING_JSON.len()
        } else {
            bytes
        };
        let end = out.len() + bytes;
        let seed = mix(number);
        for word in 1.. {
            let letters = mix(seed ^ word);
            let letter = |place: usize| LETTERS[(letters >> (6 * place) & 63) as usize];
            let left = end - out.len();
            out.extend((0..LETTERS_OF_A_WORD.min(left)).map(letter));
            if out.len() == end {
                return;
            }
        }
    }
}

fn has_ending(number: u64) -> bool {
    number.is_multiple_of(ENDING_EVERY)
}

const COMMON: &str = " HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: cellar-bench\r\n";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Reads a message.
    Get,
    /// Stores a message.
    Post,
    /// Asks whether the server is well, which has nothing to do with messages.
    Health,
}

impl Method {
    /// What a request begins with.
    fn line(self) -> &'static [u8] {
        match self {
            Method::Get => b"GET /v1/cache/",
            Method::Post => b"POST /v1/cache",
            Method::Health => b"GET /healthz",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Messages {
        Messages::new("350..500".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_message_is_json_of_its_id_and_content_and_as_long_as_asked() {
        let mut lengths = Vec::new();
        for number in 0..2000 {
            let (mut json, mut content, mut id) = (Vec::new(), Vec::new(), Vec::new());
            messages().push_json(&mut json, number);
            messages().push_content(&mut content, number);
            messages().push_id(&mut id, number);
            let read: serde_json::Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(read["id"].as_str().unwrap().as_bytes(), id);
            assert_eq!(read["content"].as_str().unwrap().as_bytes(), content);
            lengths.push(json.len());
        }
        assert_eq!(lengths.iter().min(), Some(&350));
        assert_eq!(lengths.iter().max(), Some(&500));
    }

    #[test]
    fn only_the_content_of_the_same_number_is_right() {
        let mut scratch = Vec::new();
        for number in [0, 1, 8, 1 << 40] {
            let mut content = Vec::new();
            messages().push_content(&mut content, number);
            assert!(messages().is_content(&mut scratch, number, &content));
            assert!(!messages().is_content(&mut scratch, number + 1, &content));
            let last = content.len() - 1;
            assert!(!messages().is_content(&mut scratch, number, &content[..last]));
            content[last / 2] ^= 1;
            assert!(!messages().is_content(&mut scratch, number, &content));
        }
    }

    #[test]
    fn messages_too_short_for_their_frame_are_refused() {
        assert!(Messages::new("20..500".parse().unwrap()).is_err());
    }

    fn request(method: Method) -> String {
        let messages = Messages::new("100..100".parse().unwrap()).unwrap();
        let mut out = Vec::new();
        messages.push_request(&mut out, &mut Vec::new(), method, 1);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_name_the_message_and_the_length_of_their_body() {
        let get = request(Method::Get);
        assert!(get.starts_with("GET /v1/cache/") && get.ends_with("\r\n\r\n"));
        assert!(request(Method::Health).starts_with("GET /healthz HTTP/1.1\r\n"));
        let post = request(Method::Post);
        let (head, body) = post.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/cache HTTP/1.1\r\n"), "{head}");
        assert!(head.ends_with("\r\nContent-Length: 100"), "{head}");
        assert_eq!(body.len(), 100);
    }
}

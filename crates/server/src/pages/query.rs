//! Query: what a page is asked about, and how keys and values are written for people and browsers.

use std::fmt::Write;

use cellar_protocol::http::target::{Target, decode_percent, encode_percent};

/// The parameters of a query, as they were sent.
pub(super) fn parameters(query: &str) -> Vec<(&str, &str)> {
    Target { path: "", query }.parameters().collect()
}

/// The bytes that a parameter stands for; `None` if a percent code in it is none.
pub(super) fn decode(value: &str) -> Option<Vec<u8>> {
    Some(decode_percent(value.as_bytes())?.into_owned())
}

/// Bytes as they can stand in a query.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    encode_percent(&mut out, bytes);
    String::from_utf8(out).expect("percent codes are ASCII")
}

/// Bytes for people: text as it is, other bytes as `%XX`. What was meant cannot always be told
/// from it; [`encode`] can be undone.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_shown_by_their_codes() {
        assert_eq!(text_of(b"a\xff\x00b%"), "a%FF\0b%");
        assert_eq!(text_of("h\u{e9}".as_bytes()), "h\u{e9}");
        assert_eq!(encode(b"a\xff %"), "a%FF%20%25");
        assert_eq!(decode("a%FF%20%25").unwrap(), b"a\xff %");
        assert_eq!(decode("%F"), None);
    }
}

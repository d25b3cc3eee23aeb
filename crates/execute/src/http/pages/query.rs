//! Query: parameters of a page, and the encoding of keys and values for people and browsers.

use std::fmt::Write;

use cellar_protocol::http::target::{Target, decode_percent, encode_percent};

/// The parameters of a query, as they were sent.
pub(super) fn parameters(query: &str) -> Vec<(&str, &str)> {
    Target::of_parts("", query).parameters().collect()
}

/// Decodes a parameter; `None` if a percent code in it is invalid.
pub(super) fn decode(value: &str) -> Option<Vec<u8>> {
    Some(decode_percent(value.as_bytes())?.into_owned())
}

/// Encodes bytes for a query.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    encode_percent(&mut out, bytes);
    String::from_utf8(out).expect("percent codes are ASCII")
}

/// Bytes as readable text: valid text as it is; other bytes, and characters that move adjacent
/// text, as `%XX`. The result can be ambiguous; [`encode`] is reversible.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_moving(character) {
                let mut buffer = [0; 4];
                push_codes(&mut text, character.encode_utf8(&mut buffer).as_bytes());
            } else {
                text.push(character);
            }
        }
        push_codes(&mut text, chunk.invalid());
    }
    text
}

fn push_codes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "%{byte:02X}");
    }
}

/// Whether a character controls a terminal, ends a line or changes the text direction, so that one
/// key could look like another, or like the words around it.
///
/// Source: Unicode Standard Annex 9, section 2; Annex 14, class BK.
fn is_moving(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_shown_by_their_codes() {
        assert_eq!(text_of(b"a\xff\x00b%"), "a%FF%00b%");
        assert_eq!(text_of("h\u{e9}\u{1f600}".as_bytes()), "h\u{e9}\u{1f600}");
        assert_eq!(text_of("a\u{202e}b".as_bytes()), "a%E2%80%AEb");
        assert_eq!(text_of(b"a\x1b[2J\r\n\x7f"), "a%1B[2J%0D%0A%7F");
        assert_eq!(text_of("\u{2066}\u{85}".as_bytes()), "%E2%81%A6%C2%85");
        assert_eq!(encode(b"a\xff %"), "a%FF%20%25");
        assert_eq!(decode("a%FF%20%25").unwrap(), b"a\xff %");
        assert_eq!(decode("%F"), None);
    }
}

//! Printable: text of a client as people are shown it.

/// A client's text, escaped for a log line: it stays one line, and control characters have no
/// effect. Characters that are not printable are escaped, and so is the backslash.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\'' => shown.push(character),
            other => shown.extend(other.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_client_stays_one_line() {
        for (text, shown) in [
            ("plain 'text', \"\u{e4}\"", "plain 'text', \"\u{e4}\""),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\u{1b}[2J\u{0}\u{7f}", "\\u{1b}[2J\\0\\u{7f}"),
            ("\u{2028}\u{85}\u{202e}", "\\u{2028}\\u{85}\\u{202e}"),
            ("\\n", "\\\\n"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}

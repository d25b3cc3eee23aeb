//! ETags: identify the value that a client has seen.
//!
//! The tag of a value below [`PINNED_VALUE_BYTES_MIN`] is a hash of its bytes and its type: that
//! costs no memory, and the same value has the same tag on every server. The tag of a larger one is
//! its version, which the engine assigns to all values of that size. Versions also work for smaller
//! values: a client that got one with a lease may use it.
//!
//! Source: RFC 9110, section 8.8.3. Why: docs/decisions/0020.

use std::sync::LazyLock;

use cellar_engine::Item;
use cellar_net::output::PINNED_VALUE_BYTES_MIN;
use cellar_protocol::http::reply::Head;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// Start of the field with a tag.
const NAME: &[u8; 6] = b"ETag: ";
/// Digits of a hash.
const HASH_DIGITS: usize = 16;

static SECRETS: LazyLock<RapidSecrets> = LazyLock::new(|| RapidSecrets::seed(0x6365_6c6c_6172));

/// The content of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// The hash of a value and its flags.
    Content(u64),
    /// The version of an item.
    Version(u64),
}

/// The sixteen hexadecimal digits of a number.
#[inline]
fn hex(number: u64) -> [u8; HASH_DIGITS] {
    // Each half of a byte becomes a byte of its own, and eight of them digits at once.
    let digits = |half: u32| {
        let spread = u64::from(half);
        let spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
        let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
        let spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        // One for each digit that is a letter.
        let letters = (spread + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
        spread + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'9' - 1)
    };
    let (high, low) = (digits((number >> 32) as u32), digits(number as u32));
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

impl Tag {
    /// The tag of a small value.
    #[inline]
    pub(super) fn of_content(value: &[u8], flags: u32) -> Tag {
        let hash = rapidhash_v3_seeded(value, &SECRETS);
        // An odd factor: no two flags have the same product.
        Tag::Content(hash ^ u64::from(flags).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Parses a tag of a request, with its quotes; `None` for one that this server never gave.
    pub(super) fn parse(text: &[u8]) -> Option<Tag> {
        let inner = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let inner = std::str::from_utf8(inner).ok()?;
        if let Some(digits) = inner.strip_prefix('v') {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            return is_number.then(|| digits.parse().ok().map(Tag::Version))?;
        }
        let is_hash = inner.len() == HASH_DIGITS
            && inner
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hash.then(|| u64::from_str_radix(inner, 16).ok().map(Tag::Content))?
    }

    /// Appends the field with this tag.
    #[inline]
    pub(super) fn write(self, head: &mut Head<'_>) {
        match self {
            Tag::Content(hash) => {
                const BEGIN: usize = NAME.len() + 1;
                let mut field = *b"ETag: \"................\"\r\n";
                field[BEGIN..BEGIN + HASH_DIGITS].copy_from_slice(&hex(hash));
                head.raw(&field);
            }
            Tag::Version(version) => {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(version).as_bytes();
                head.raw(NAME).raw(b"\"v").raw(digits).raw(b"\"\r\n");
            }
        }
    }

    /// Whether it is the tag of an item of this version.
    pub(super) fn is_of(self, item: &Item<'_>, version: u64) -> bool {
        match self {
            Tag::Version(named) => named == version,
            Tag::Content(_) if item.value.len() >= PINNED_VALUE_BYTES_MIN => false,
            Tag::Content(_) => self == Tag::of_content(item.value, item.flags),
        }
    }
}

#[cfg(test)]
mod tests {
    use cellar_protocol::http::Status;
    use cellar_protocol::http::reply::{DATE_BYTES, Stay};

    use super::*;

    /// The field as it stands in a response.
    fn field(tag: Tag) -> String {
        let mut out = Vec::new();
        let mut head = Head::begin(&mut out, Status::OK, Stay::Silent, &[b' '; DATE_BYTES]);
        tag.write(&mut head);
        let text = String::from_utf8(out).unwrap();
        text[text.find("ETag").unwrap()..].to_owned()
    }

    #[test]
    fn a_tag_reads_as_it_is_written() {
        for tag in [
            Tag::Content(0),
            Tag::Content(0x0123_4567_89ab_cdef),
            Tag::Version(0),
            Tag::Version(u64::MAX),
        ] {
            let field = field(tag);
            let text = field.as_bytes().strip_prefix(NAME).unwrap();
            let text = text.strip_suffix(b"\r\n").unwrap();
            assert_eq!(Tag::parse(text), Some(tag));
        }
        let digits = 0xfedc_ba98_7654_3210;
        for (tag, text) in [
            (Tag::Content(255), "ETag: \"00000000000000ff\"\r\n"),
            (Tag::Content(digits), "ETag: \"fedcba9876543210\"\r\n"),
            (Tag::Version(7), "ETag: \"v7\"\r\n"),
        ] {
            assert_eq!(field(tag), text);
        }
    }

    #[test]
    fn what_is_no_tag_of_ours_is_none() {
        for text in [
            "",
            "\"",
            "\"\"",
            "v1",
            "\"v\"",
            "\"v+1\"",
            "\"v18446744073709551616\"",
            "\"00ff\"",
            "\"00000000000000FF\"",
            "\"00000000000000f\u{e9}\"",
            "W/\"v1\"",
            "\"+000000000000001\"",
        ] {
            assert_eq!(Tag::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_tag_depends_on_value_and_type() {
        let tag = Tag::of_content(b"value", 32);
        assert_eq!(tag, Tag::of_content(b"value", 32));
        assert_ne!(tag, Tag::of_content(b"value", 64));
        assert_ne!(tag, Tag::of_content(b"valuf", 32));
    }
}

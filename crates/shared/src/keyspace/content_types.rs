//! Content types: the Content-Type of HTTP values, stored in a value's flags.
//!
//! A value has 32 bits of flags whose meaning only its clients know; memcached clients use the
//! lowest bits. HTTP stores the Content-Type of a value in bits that they do not use:
//!
//! ```text
//! 0              none was given, or application/octet-stream
//! 1..=7 << 5     one of COMMON; such flags cost an item 3 bytes
//! 1..   << 16    one that was seen since the start, by its number; 6 bytes
//! ```
//!
//! Any other flags belong to another protocol, and the value is bytes. Why: docs/decisions/0020.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::keyspace::names::Names;

/// The type of a value without a given one.
pub const BYTES: &str = "application/octet-stream";
/// Types with short flags, each at its number less one.
const COMMON: [&str; 7] = [
    JSON,
    TEXT,
    "text/plain",
    "text/html; charset=utf-8",
    "application/json; charset=utf-8",
    "application/xml",
    "application/x-protobuf",
];
/// The header fields of common types, as clients see them.
const BYTES_FIELD: &str = "Content-Type: application/octet-stream\r\n";
const COMMON_FIELDS: [&str; 7] = [
    "Content-Type: application/json\r\n",
    "Content-Type: text/plain; charset=utf-8\r\n",
    "Content-Type: text/plain\r\n",
    "Content-Type: text/html; charset=utf-8\r\n",
    "Content-Type: application/json; charset=utf-8\r\n",
    "Content-Type: application/xml\r\n",
    "Content-Type: application/x-protobuf\r\n",
];
/// The type of values in JSON messages that are not strings.
pub const JSON: &str = "application/json";
/// The type of values in JSON messages that are strings.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// Lowest bit of the numbers of common types.
const COMMON_SHIFT: u32 = 5;
/// Where the numbers of other types begin.
const SEEN_SHIFT: u32 = 16;
/// Most other types that are remembered.
pub const SEEN_MAX: usize = 1_000;
/// Longest type that is remembered.
pub const TYPE_BYTES_MAX: usize = 128;

/// Flags of [`JSON`].
pub const JSON_FLAGS: u32 = 1 << COMMON_SHIFT;
/// Flags of [`TEXT`].
pub const TEXT_FLAGS: u32 = 2 << COMMON_SHIFT;

/// Whether a browser executes no content of values with these flags.
#[inline]
#[must_use]
pub fn is_inert(flags: u32) -> bool {
    matches!(flags >> COMMON_SHIFT, 0..=3 | 5)
}

/// Whether values with these flags are JSON.
#[must_use]
pub fn is_json(flags: u32) -> bool {
    flags == JSON_FLAGS || flags == 5 << COMMON_SHIFT
}

/// The types that are not common, in the order of their first use.
#[derive(Debug, Default)]
pub struct ContentTypes {
    seen: RwLock<SeenTypes>,
    /// The file that they are recorded in, if they outlive the process.
    names: Option<Arc<Names>>,
}

#[derive(Debug, Default)]
struct SeenTypes {
    /// Each at its number less one.
    types: Vec<Box<str>>,
    flags: HashMap<Box<str>, u32>,
}

/// Why a type cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// It is not a type and subtype of visible characters, or too long.
    Malformed,
    /// Too many were seen before it.
    TooMany,
}

impl ContentTypes {
    /// The types that an earlier server has seen, in the order of their numbers; new ones are
    /// written to the file.
    #[must_use]
    pub fn noted_in(names: Arc<Names>, seen: &[String]) -> ContentTypes {
        let types = ContentTypes::default();
        for text in seen {
            // Too many cannot have been noted.
            let _ = types.flags(text.as_bytes());
        }
        ContentTypes {
            names: Some(names),
            ..types
        }
    }

    /// The flags for a type.
    ///
    /// # Errors
    /// [`Unknown`] for one that cannot be stored.
    pub fn flags(&self, content_type: &[u8]) -> Result<u32, Unknown> {
        if content_type == BYTES.as_bytes() {
            return Ok(0);
        }
        let common = COMMON
            .iter()
            .zip(1_u32..)
            .find(|(common, _)| common.as_bytes() == content_type);
        if let Some((_, number)) = common {
            return Ok(number << COMMON_SHIFT);
        }
        let text = checked(content_type).ok_or(Unknown::Malformed)?;
        {
            let seen = self.seen.read();
            if let Some(flags) = seen.flags.get(text) {
                return Ok(*flags);
            }
        }
        let mut seen = self.seen.write();
        if let Some(flags) = seen.flags.get(text) {
            return Ok(*flags);
        }
        if seen.types.len() >= SEEN_MAX {
            return Err(Unknown::TooMany);
        }
        if let Some(names) = &self.names {
            names.note_type(text);
        }
        seen.types.push(text.into());
        // At most SEEN_MAX exist.
        let number = seen.types.len() as u32;
        seen.flags.insert(text.into(), number << SEEN_SHIFT);
        Ok(number << SEEN_SHIFT)
    }

    /// The header field of the type that flags stand for, with its line end; none for a type that
    /// is not common.
    #[inline]
    #[must_use]
    pub fn common_field(flags: u32) -> Option<&'static str> {
        let number = (flags >> COMMON_SHIFT) as usize;
        match number {
            _ if number << COMMON_SHIFT != flags as usize => None,
            0 => Some(BYTES_FIELD),
            number => COMMON_FIELDS.get(number - 1).copied(),
        }
    }

    /// Calls `read` with the type that flags stand for.
    #[inline]
    pub fn with<R>(&self, flags: u32, read: impl FnOnce(&str) -> R) -> R {
        if flags == 0 {
            return read(BYTES);
        }
        let number = (flags >> COMMON_SHIFT) as usize;
        if number << COMMON_SHIFT == flags as usize && number <= COMMON.len() {
            return read(COMMON[number - 1]);
        }
        let number = (flags >> SEEN_SHIFT) as usize;
        if number << SEEN_SHIFT != flags as usize {
            return read(BYTES);
        }
        let seen = self.seen.read();
        read(seen.types.get(number - 1).map_or(BYTES, |text| text))
    }
}

/// The text of a type that may be given out again: a type, a subtype, visible characters.
fn checked(content_type: &[u8]) -> Option<&str> {
    let is_visible = |byte: &u8| matches!(byte, b' '..=b'~');
    let is_token = |part: &str| {
        let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !part.is_empty() && part.bytes().all(may_stand)
    };
    if content_type.len() > TYPE_BYTES_MAX || !content_type.iter().all(is_visible) {
        return None;
    }
    let text = std::str::from_utf8(content_type).ok()?;
    let (kind, rest) = text.split_once('/')?;
    let subtype = rest.split(';').next()?.trim_end();
    (is_token(kind) && is_token(subtype)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(types: &ContentTypes, flags: u32) -> String {
        types.with(flags, str::to_owned)
    }

    #[test]
    fn every_type_comes_back_as_it_was_given() {
        let types = ContentTypes::default();
        for text in COMMON
            .into_iter()
            .chain([BYTES, "image/png", "a/b; c=\"d e\"", "image/png"])
        {
            let flags = types.flags(text.as_bytes()).unwrap();
            assert_eq!(shown(&types, flags), text);
        }
        assert_eq!(types.flags(b"image/png"), types.flags(b"image/png"));
        assert_eq!(types.flags(JSON.as_bytes()), Ok(JSON_FLAGS));
        assert_eq!(types.flags(TEXT.as_bytes()), Ok(TEXT_FLAGS));
    }

    #[test]
    fn the_field_of_a_common_type_tells_of_it() {
        let types = ContentTypes::default();
        types.flags(b"image/png").unwrap();
        for flags in (0..0x100_u32).chain([1 << SEEN_SHIFT, u32::MAX]) {
            if let Some(field) = ContentTypes::common_field(flags) {
                let expected = format!("Content-Type: {}\r\n", shown(&types, flags));
                assert_eq!(field, expected);
            }
        }
        let common = COMMON
            .iter()
            .zip(1_u32..)
            .map(|(_, number)| number << COMMON_SHIFT);
        assert!(
            common
                .into_iter()
                .chain([0])
                .all(|flags| { ContentTypes::common_field(flags).is_some() })
        );
    }

    #[test]
    fn flags_leave_memcached_s_lowest_bits_alone_and_foreign_flags_mean_bytes() {
        let types = ContentTypes::default();
        for text in COMMON.into_iter().chain(["image/png", "image/gif"]) {
            assert_eq!(
                types.flags(text.as_bytes()).unwrap() & 0b1_1111,
                0,
                "{text}"
            );
        }
        for flags in [
            1,
            2,
            16,
            0x21,
            0x100,
            0xffff,
            3 << SEEN_SHIFT,
            1 << SEEN_SHIFT | 1,
            u32::MAX,
        ] {
            assert_eq!(shown(&types, flags), BYTES, "{flags}");
        }
    }

    #[test]
    fn what_is_no_type_or_one_too_many_is_refused() {
        let types = ContentTypes::default();
        for text in [
            "",
            "text",
            "/",
            "text/",
            "/plain",
            "te xt/plain",
            "text/plain\t",
            "text/\u{e4}",
        ] {
            assert_eq!(
                types.flags(text.as_bytes()),
                Err(Unknown::Malformed),
                "{text}"
            );
        }
        let long = format!("text/{}", "x".repeat(TYPE_BYTES_MAX));
        assert_eq!(types.flags(long.as_bytes()), Err(Unknown::Malformed));
        for number in 0..SEEN_MAX {
            assert!(types.flags(format!("x/{number}").as_bytes()).is_ok());
        }
        assert_eq!(types.flags(b"x/more"), Err(Unknown::TooMany));
        assert!(types.flags(b"x/0").is_ok());
    }
}

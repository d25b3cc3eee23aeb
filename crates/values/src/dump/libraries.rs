//! Libraries of functions as FUNCTION DUMP writes them: for each a byte and its source as a string,
//! then version and checksum as behind a value.

use super::bytes::{DumpCursor, push_length};
use super::{FOOTER_BYTES, checksum, footer, is_readable};

/// The version of the format that has libraries first.
const LIBRARIES_VERSION: u16 = 10;
/// The opcode before a library.
const LIBRARY: u8 = 245;

/// Why bytes are no libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLibraries {
    /// They are no dump.
    Checksum,
    /// They hold something else.
    Other,
    /// A source is cut off, or there are too many.
    Broken,
}

/// The dump of these sources.
#[must_use]
pub fn write_libraries<'a>(sources: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for source in sources {
        out.push(LIBRARY);
        push_length(&mut out, source.len() as u64);
        out.extend_from_slice(source);
    }
    let mut sum = checksum();
    sum.update(&out);
    out.extend_from_slice(&footer(sum, LIBRARIES_VERSION));
    out
}

/// The sources in a dump: at most `count_max`, of `bytes_max` together.
///
/// # Errors
/// [`BadLibraries`].
pub fn read_libraries(
    dump: &[u8],
    count_max: usize,
    bytes_max: usize,
) -> Result<Vec<Vec<u8>>, BadLibraries> {
    let end = dump.len().checked_sub(FOOTER_BYTES);
    let end = end.ok_or(BadLibraries::Checksum)?;
    let version = u16::from_le_bytes([dump[end], dump[end + 1]]);
    let mut sum = checksum();
    sum.update(&dump[..end]);
    if !is_readable(version) || footer(sum, version)[..] != dump[end..] {
        return Err(BadLibraries::Checksum);
    }
    let mut cursor = DumpCursor {
        bytes: &dump[..end],
        at: 0,
    };
    let (mut sources, mut left) = (Vec::new(), bytes_max);
    while cursor.at < end {
        if cursor.byte() != Ok(LIBRARY) {
            return Err(BadLibraries::Other);
        }
        let source = cursor.string(left).map_err(|_| BadLibraries::Broken)?;
        left -= source.len();
        if sources.len() == count_max {
            return Err(BadLibraries::Broken);
        }
        sources.push(source);
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &[u8] = b"#!lua name=l1\nredis.register_function(\"f\",function() return 1 end)";

    #[test]
    fn libraries_are_written_as_redis_writes_them() {
        let dump = write_libraries([SOURCE].into_iter());
        let head = [&b"\xf5\x40\x42"[..], SOURCE].concat();
        assert_eq!(&dump[..head.len()], head);
        assert_eq!(&dump[head.len()..], b"\n\0\xeamV\xe9:\x85\xc4\x82");
        assert_eq!(read_libraries(&dump, 1, 99), Ok(vec![SOURCE.to_vec()]));
        let none = write_libraries([].into_iter());
        assert_eq!(none, b"\n\0]\x9b\\@\x0f\x7f\xa2\xda");
        assert_eq!(read_libraries(&none, 0, 0), Ok(Vec::new()));
    }

    #[test]
    fn what_is_cut_changed_too_long_or_something_else_is_refused() {
        let dump = write_libraries([SOURCE, b"x"].into_iter());
        for length in 0..dump.len() {
            let cut = read_libraries(&dump[..length], 9, 999);
            assert_eq!(cut, Err(BadLibraries::Checksum));
            let mut changed = dump.clone();
            changed[length] ^= 1;
            assert!(read_libraries(&changed, 9, 999).is_err());
        }
        assert_eq!(read_libraries(&dump, 1, 999), Err(BadLibraries::Broken));
        assert_eq!(read_libraries(&dump, 2, 66), Err(BadLibraries::Broken));
        assert!(read_libraries(&dump, 2, 67).is_ok());
        let with_footer = |bytes: &[u8]| {
            let mut sum = checksum();
            sum.update(bytes);
            [bytes, &footer(sum, LIBRARIES_VERSION)].concat()
        };
        for (bytes, problem) in [
            (&b"\0\x01b"[..], BadLibraries::Other),
            (b"\xf5", BadLibraries::Broken),
            (b"\xf5\x05abc", BadLibraries::Broken),
            (
                b"\xf5\x81\xff\xff\xff\xff\xff\xff\xff\xff",
                BadLibraries::Broken,
            ),
            (b"\xf5\xc3\x04\x85\0a\xa0\0", BadLibraries::Broken),
        ] {
            assert_eq!(read_libraries(&with_footer(bytes), 9, 999), Err(problem));
        }
    }
}

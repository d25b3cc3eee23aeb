//! Packed: entries of small collections that Redis keeps in one string, in five layouts.

use super::BadDump;
use super::bytes::DumpCursor;

/// How entries lie in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackLayout {
    /// 4 bytes of length, 2 of the number of entries; entries, each with its length behind it; 255.
    Listpack,
    /// 4 bytes of length, 4 where the last entry is, 2 of the number of entries; entries, each with
    /// the length of the one before it; 255.
    Ziplist,
    /// 4 bytes for the width of an integer, 4 of their number; integers.
    Intset,
    /// A byte of the number of fields; fields and values by turns; 255.
    Zipmap,
    /// The whole string is the one entry.
    Whole,
}

/// The byte that ends a list of entries.
const END: u8 = 255;

/// A string with entries, and the first that was not read.
#[derive(Debug)]
pub(super) struct Pack {
    layout: PackLayout,
    bytes: Vec<u8>,
    at: usize,
    /// The width of integers; whether a value comes next in a map.
    width: usize,
    is_value: bool,
}

impl Pack {
    /// The entries of a string.
    pub(super) fn of(layout: PackLayout, bytes: Vec<u8>) -> Result<Pack, BadDump> {
        let length = bytes.len() as u64;
        let mut head = DumpCursor {
            bytes: &bytes,
            at: 0,
        };
        let mut width = 0;
        let is_right = match layout {
            PackLayout::Listpack => head.low_first(4)? == length && head.take(2).is_ok(),
            PackLayout::Ziplist => head.low_first(4)? == length && head.take(6).is_ok(),
            PackLayout::Intset => {
                width = head.low_first(4)?;
                let count = head.low_first(4)?;
                matches!(width, 2 | 4 | 8) && width * count == length - 8
            }
            PackLayout::Zipmap => head.take(1).is_ok(),
            PackLayout::Whole => true,
        };
        let at = head.at;
        let pack = Pack {
            layout,
            bytes,
            at,
            // It is at most 8.
            width: width as usize,
            is_value: false,
        };
        is_right.then_some(pack).ok_or(BadDump)
    }

    fn cursor(&self) -> DumpCursor<'_> {
        DumpCursor {
            bytes: &self.bytes,
            at: self.at,
        }
    }

    /// The next entry, written to `out`; whether there was one.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, BadDump> {
        let mut cursor = self.cursor();
        out.clear();
        let is_over = match self.layout {
            PackLayout::Whole if self.is_value => true,
            PackLayout::Whole => {
                self.is_value = true;
                std::mem::swap(&mut self.bytes, out);
                return Ok(true);
            }
            PackLayout::Intset => self.at == self.bytes.len(),
            _ => self.bytes.get(self.at) == Some(&END),
        };
        if is_over {
            let is_whole = matches!(self.layout, PackLayout::Intset | PackLayout::Whole);
            let is_last = is_whole || self.at + 1 == self.bytes.len();
            return if is_last { Ok(false) } else { Err(BadDump) };
        }
        match self.layout {
            PackLayout::Listpack => listpack_entry(&mut cursor, out)?,
            PackLayout::Ziplist => ziplist_entry(&mut cursor, out)?,
            PackLayout::Zipmap => zipmap_entry(&mut cursor, self.is_value, out)?,
            _ => push_integer(out, cursor.signed(self.width)?),
        }
        let at = cursor.at;
        self.is_value = !self.is_value;
        self.at = at;
        Ok(true)
    }
}

fn push_integer(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn listpack_entry(cursor: &mut DumpCursor<'_>, out: &mut Vec<u8>) -> Result<(), BadDump> {
    let start = cursor.at;
    let first = cursor.byte()?;
    let low = |bits: u8| usize::from(first & ((1 << bits) - 1));
    let length = match first {
        0..0x80 => {
            push_integer(out, i64::from(first));
            None
        }
        0x80..0xc0 => Some(low(6)),
        0xc0..0xe0 => {
            let number = (low(5) << 8 | usize::from(cursor.byte()?)) as i64;
            push_integer(
                out,
                if number < 4_096 {
                    number
                } else {
                    number - 8_192
                },
            );
            None
        }
        0xe0..0xf0 => Some(low(4) << 8 | usize::from(cursor.byte()?)),
        0xf0 => Some(cursor.low_first(4)? as usize),
        0xf1..=0xf4 => {
            let width = [2, 3, 4, 8][usize::from(first - 0xf1)];
            push_integer(out, cursor.signed(width)?);
            None
        }
        _ => return Err(BadDump),
    };
    if let Some(length) = length {
        out.extend_from_slice(cursor.take(length)?);
    }
    let behind = match cursor.at - start {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    cursor.take(behind).map(|_| ())
}

fn ziplist_entry(cursor: &mut DumpCursor<'_>, out: &mut Vec<u8>) -> Result<(), BadDump> {
    match cursor.byte()? {
        END => return Err(BadDump),
        254 => _ = cursor.take(4)?,
        _ => {}
    }
    let first = cursor.byte()?;
    let length = match first {
        0..0x40 => usize::from(first),
        0x40..0x80 => usize::from(first & 0x3f) << 8 | usize::from(cursor.byte()?),
        0x80 => cursor.high_first(4)? as usize,
        0xf1..=0xfd => {
            push_integer(out, i64::from(first & 0x0f) - 1);
            return Ok(());
        }
        _ => {
            let width = match first {
                0xc0 => 2,
                0xd0 => 4,
                0xe0 => 8,
                0xf0 => 3,
                0xfe => 1,
                _ => return Err(BadDump),
            };
            push_integer(out, cursor.signed(width)?);
            return Ok(());
        }
    };
    out.extend_from_slice(cursor.take(length)?);
    Ok(())
}

fn zipmap_entry(
    cursor: &mut DumpCursor<'_>,
    is_value: bool,
    out: &mut Vec<u8>,
) -> Result<(), BadDump> {
    let length = match cursor.byte()? {
        END => return Err(BadDump),
        254 => cursor.low_first(4)? as usize,
        length => usize::from(length),
    };
    let free = if is_value { cursor.byte()? } else { 0 };
    out.extend_from_slice(cursor.take(length)?);
    cursor.take(usize::from(free)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries(layout: PackLayout, bytes: &[u8]) -> Result<Vec<String>, BadDump> {
        let mut pack = Pack::of(layout, bytes.to_vec())?;
        let (mut entries, mut out) = (Vec::new(), Vec::new());
        while pack.next(&mut out)? {
            entries.push(String::from_utf8_lossy(&out).into_owned());
        }
        Ok(entries)
    }

    #[test]
    fn entries_of_each_layout_are_read() {
        for (layout, bytes, expected) in [
            (
                PackLayout::Listpack,
                &b"\x15\0\0\0\x04\0\x83abc\x04\x05\x01\xdf\xff\x02\xf1\x00\x80\x03\xff"[..],
                &["abc", "5", "-1", "-32768"][..],
            ),
            (
                PackLayout::Ziplist,
                b"\x15\0\0\0\x0a\0\0\0\x04\0\0\x03abc\x05\xf1\x02\xfe\xff\xff",
                &["abc", "0", "-1"],
            ),
            (
                PackLayout::Intset,
                b"\x02\0\0\0\x02\0\0\0\xff\xff\x03\x00",
                &["-1", "3"],
            ),
            (
                PackLayout::Zipmap,
                b"\x01\x01a\x02\x01bc?\xff",
                &["a", "bc"],
            ),
        ] {
            assert_eq!(entries(layout, bytes).unwrap(), expected, "{layout:?}");
            for end in 0..bytes.len() {
                assert!(entries(layout, &bytes[..end]).is_err(), "{layout:?} {end}");
            }
        }
    }

    const LAYOUTS: [PackLayout; 4] = [
        PackLayout::Listpack,
        PackLayout::Ziplist,
        PackLayout::Intset,
        PackLayout::Zipmap,
    ];

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            is_fit in any::<bool>(),
        ) {
            let mut bytes = bytes;
            if is_fit && bytes.len() > 12 {
                let length = (bytes.len() as u32).to_le_bytes();
                bytes[..4].copy_from_slice(&length);
                *bytes.last_mut().unwrap() = END;
            }
            for layout in LAYOUTS {
                let _ = entries(layout, &bytes);
            }
        }
    }
}

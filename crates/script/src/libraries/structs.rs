//! Structs: the library `struct`, which packs values into bytes by a format and takes them out.
//!
//! Source: redis.io/docs/latest/develop/interact/programmability/lua-api, "Struct library"; answers
//! and errors of redis-server 7.

use mlua::{LuaString, MultiValue, Result, Value};

use crate::given::{Given, cut};

/// Largest size of an integer.
const INTEGER_BYTES_MAX: usize = 32;
/// The alignment that `!` without a number asks for.
const ALIGN_DEFAULT: usize = 8;
/// Most values on Lua's stack: arguments and results.
const STACK_VALUES_MAX: usize = 7_900;

/// A format that is read from its beginning.
struct Layout<'f> {
    rest: &'f [u8],
    is_big: bool,
    align: usize,
}

/// One item of a format.
struct PackedItem {
    option: u8,
    /// Its bytes; zero for items without a size of their own.
    size: usize,
    /// Bytes before it, so that it is aligned.
    padding: usize,
}

/// An error in a format.
enum Fault {
    /// This text.
    Text(String),
    /// An unknown option.
    Option(u8),
}

impl Fault {
    fn raise<R>(self, given: &Given<'_>) -> Result<R> {
        match self {
            Fault::Text(text) => given.fail(text),
            Fault::Option(option) => given.wrong(
                1,
                [b"invalid format option '", &[option][..], b"'"].concat(),
            ),
        }
    }
}

impl<'f> Layout<'f> {
    /// A format ends at its first zero byte.
    fn new(format: &'f [u8]) -> Layout<'f> {
        let end = format.iter().position(|&byte| byte == 0);
        Layout {
            rest: &format[..end.unwrap_or(format.len())],
            is_big: false,
            align: 1,
        }
    }

    /// The next item, of a structure that has `position` bytes before it.
    fn next(&mut self, position: usize) -> std::result::Result<Option<PackedItem>, Fault> {
        let Some((&option, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        let size = self.size_of(option)?;
        let padding = if size == 0 || option == b'c' {
            0
        } else {
            let unit = size.min(self.align);
            unit.wrapping_sub(position & (unit - 1)) & (unit - 1)
        };
        Ok(Some(PackedItem {
            option,
            size,
            padding,
        }))
    }

    fn size_of(&mut self, option: u8) -> std::result::Result<usize, Fault> {
        Ok(match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.digits(1)?,
            b'i' | b'I' => match self.digits(4)? {
                size @ 0..=INTEGER_BYTES_MAX => size,
                size => {
                    return Err(Fault::Text(format!(
                        "integral size {size} is larger than limit of {INTEGER_BYTES_MAX}"
                    )));
                }
            },
            _ => 0,
        })
    }

    /// The number at this place of the format.
    fn digits(&mut self, default: usize) -> std::result::Result<usize, Fault> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit());
        let (digits, rest) = self.rest.split_at(count.count());
        self.rest = rest;
        if digits.is_empty() {
            return Ok(default);
        }
        let number = digits.iter().try_fold(0_i32, |number, digit| {
            number.checked_mul(10)?.checked_add(i32::from(digit - b'0'))
        });
        let number = number.and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| Fault::Text("integral size overflow".to_owned()))
    }

    /// Parses an option that is no item but changes the layout of items.
    fn control(&mut self, option: u8) -> std::result::Result<(), Fault> {
        match option {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let align = self.digits(ALIGN_DEFAULT)?;
                if !align.is_power_of_two() {
                    let text = format!("alignment {align} is not a power of 2");
                    return Err(Fault::Text(text));
                }
                self.align = align;
            }
            _ => return Err(Fault::Option(option)),
        }
        Ok(())
    }

    /// Bytes of a number in this format's order, or back.
    fn order<const N: usize>(&self, mut bytes: [u8; N]) -> [u8; N] {
        if self.is_big {
            bytes.reverse();
        }
        bytes
    }
}

/// `struct.pack(format, ...)`
pub(super) fn pack(given: &Given<'_>) -> Result<LuaString> {
    let format = given.text(1)?;
    let format = format.as_bytes();
    let mut layout = Layout::new(&format);
    let (mut out, mut place) = (Vec::new(), 2);
    loop {
        given.tick()?;
        let item = match layout.next(out.len()) {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(fault) => return fault.raise(given),
        };
        out.resize(out.len() + item.padding, 0);
        match item.option {
            b'x' => out.push(0),
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                put_integer(number_at(given, place)?, item.size, layout.is_big, &mut out);
                place += 1;
            }
            b'f' => {
                let number = number_at(given, place)? as f32;
                out.extend_from_slice(&layout.order(number.to_le_bytes()));
                place += 1;
            }
            b'd' => {
                let number = number_at(given, place)?;
                out.extend_from_slice(&layout.order(number.to_le_bytes()));
                place += 1;
            }
            b'c' | b's' => {
                if place > given.values.len() {
                    return given.wrong(place, "string expected, got nil");
                }
                let text = given.text(place)?;
                place += 1;
                put_text(given, &item, &text.as_bytes(), place, &mut out)?;
            }
            option => {
                if let Err(fault) = layout.control(option) {
                    return fault.raise(given);
                }
            }
        }
        given.shared.check_room(given.lua, out.len())?;
    }
    given.string(out)
}

/// The number to pack; one that is missing is nil.
fn number_at(given: &Given<'_>, place: usize) -> Result<f64> {
    if place > given.values.len() {
        return given.wrong(place, "number expected, got nil");
    }
    given.number(place)
}

/// A text of this item; `next` is the place behind its argument, which is the one that Redis names.
fn put_text(
    given: &Given<'_>,
    item: &PackedItem,
    text: &[u8],
    next: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let size = if item.size == 0 {
        text.len()
    } else {
        item.size
    };
    let Some(text) = text.get(..size) else {
        return given.wrong(next, "string too short");
    };
    given.shared.check_room(given.lua, out.len() + size)?;
    out.extend_from_slice(text);
    if item.option == b's' {
        out.push(0);
    }
    Ok(())
}

/// The low bytes of a number; those beyond its 64 bits are zero.
fn put_integer(number: f64, size: usize, is_big: bool, out: &mut Vec<u8>) {
    let mut bytes = [0; INTEGER_BYTES_MAX];
    bytes[..8].copy_from_slice(&bits_of(number).to_le_bytes());
    let bytes = &mut bytes[..size];
    if is_big {
        bytes.reverse();
    }
    out.extend_from_slice(bytes);
}

/// A number as an integer of 64 bits, as the processors have it that Redis runs on.
fn bits_of(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number >= HALF {
        cut(number - HALF).cast_unsigned() ^ (1 << 63)
    } else {
        cut(number).cast_unsigned()
    }
}

/// `struct.unpack(format, bytes[, position])`
pub(super) fn unpack(given: &Given<'_>) -> Result<MultiValue> {
    let (format, data) = (given.text(1)?, given.text(2)?);
    let (format, data) = (format.as_bytes(), data.as_bytes());
    let first = given.integer_or(3, 1)?;
    if first == 0 {
        return given.wrong(3, "offset must be 1 or greater");
    }
    // A negative position wraps to far behind the end.
    let mut position = first.wrapping_sub(1) as usize;
    let mut layout = Layout::new(&format);
    let mut values = Vec::new();
    loop {
        given.tick()?;
        let item = match layout.next(position) {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(fault) => return fault.raise(given),
        };
        position = position.wrapping_add(item.padding);
        let Some(rest) = data.get(position..).filter(|rest| rest.len() >= item.size) else {
            return given.wrong(2, "data string too short");
        };
        if given.values.len() + values.len() + 2 > STACK_VALUES_MAX {
            return given.fail("stack overflow (too many results)");
        }
        position += take(given, &mut layout, &item, rest, &mut values)?;
    }
    values.push(Value::Number(position.wrapping_add(1).cast_signed() as f64));
    Ok(MultiValue::from_vec(values))
}

/// Takes the value of one item from the beginning of `rest`; how many bytes it had.
fn take(
    given: &Given<'_>,
    layout: &mut Layout<'_>,
    item: &PackedItem,
    rest: &[u8],
    values: &mut Vec<Value>,
) -> Result<usize> {
    let text = |bytes: &[u8]| given.string(bytes).map(Value::String);
    match item.option {
        b'x' => {}
        b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
            let is_signed = item.option.is_ascii_lowercase();
            let number = integer(&rest[..item.size], layout.is_big, is_signed);
            values.push(Value::Number(number));
        }
        b'f' => {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&rest[..4]);
            values.push(Value::Number(f64::from(f32::from_le_bytes(
                layout.order(bytes),
            ))));
        }
        b'd' => {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&rest[..8]);
            values.push(Value::Number(f64::from_le_bytes(layout.order(bytes))));
        }
        b'c' if item.size == 0 => return take_counted(given, rest, values),
        b'c' => values.push(text(&rest[..item.size])?),
        b's' => {
            let Some(end) = memchr::memchr(0, rest) else {
                return given.fail("unfinished string in data");
            };
            values.push(text(&rest[..end])?);
            return Ok(end + 1);
        }
        option => {
            if let Err(fault) = layout.control(option) {
                return fault.raise(given);
            }
        }
    }
    Ok(item.size)
}

/// Takes a text whose length is the value before it.
fn take_counted(given: &Given<'_>, rest: &[u8], values: &mut Vec<Value>) -> Result<usize> {
    let last = values.last().cloned();
    let last = last.map(|last| given.lua.coerce_number(last)).transpose()?;
    let Some(size) = last.flatten() else {
        return given.fail("format 'c0' needs a previous size");
    };
    values.pop();
    let size = usize::try_from(cut(size)).ok();
    let Some(text) = size.and_then(|size| rest.get(..size)) else {
        return given.wrong(2, "data string too short");
    };
    values.push(Value::String(given.string(text)?));
    Ok(text.len())
}

/// The number that bytes encode: their low 64 bits.
fn integer(bytes: &[u8], is_big: bool, is_signed: bool) -> f64 {
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    let number = if is_big {
        bytes.iter().fold(0, add)
    } else {
        bytes.iter().rev().fold(0, add)
    };
    if !is_signed {
        return number as f64;
    }
    let sign = (bytes.len() * 8).wrapping_sub(1) & 63;
    let mask = u64::MAX << sign;
    let number = if number & mask == 0 {
        number
    } else {
        number | mask
    };
    number.cast_signed() as f64
}

/// `struct.size(format)`
pub(super) fn size(given: &Given<'_>) -> Result<f64> {
    let format = given.text(1)?;
    let format = format.as_bytes();
    let mut layout = Layout::new(&format);
    let mut position = 0;
    loop {
        given.tick()?;
        let item = match layout.next(position) {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(position as f64),
            Err(fault) => return fault.raise(given),
        };
        match item.option {
            b's' => return given.wrong(1, "option 's' has no fixed size"),
            b'c' if item.size == 0 => return given.wrong(1, "option 'c0' has no fixed size"),
            option if option.is_ascii_alphanumeric() => {}
            option => {
                if let Err(fault) = layout.control(option) {
                    return fault.raise(given);
                }
            }
        }
        position += item.padding + item.size;
    }
}

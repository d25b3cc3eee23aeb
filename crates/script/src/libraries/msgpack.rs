//! MessagePack: the library `cmsgpack`.
//!
//! Source: github.com/msgpack/msgpack/blob/master/spec.md; answers and errors of redis-server 7,
//! which packs values nested too deeply, and values without an encoding, as nil.

use mlua::{LuaString, MultiValue, Result, Table, Value};

use crate::given::{Given, cut};
use crate::shared::Raised;

/// Deepest nesting of tables that is packed.
const PACKED_DEPTH_MAX: usize = 16;
/// Deepest nesting that is unpacked.
const UNPACKED_DEPTH_MAX: usize = 1_000;
/// Most values that are answered at once.
const ANSWERED_MAX: usize = 7_900;
/// Why there are not more.
const TOO_MANY: &str =
    "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";

/// `cmsgpack.pack(...)`
pub(super) fn pack(given: &Given<'_>) -> Result<LuaString> {
    if given.values.is_empty() {
        return given.wrong(0, "MessagePack pack needs input.");
    }
    let mut packer = Packer {
        given,
        out: Vec::new(),
    };
    for value in given.values {
        packer.value(value, 0)?;
    }
    given.string(packer.out)
}

struct Packer<'a> {
    given: &'a Given<'a>,
    out: Vec<u8>,
}

impl Packer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<()> {
        self.given.tick()?;
        self.given
            .shared
            .check_room(self.given.lua, self.out.len())?;
        match value {
            Value::Boolean(yes) => self.out.push(0xc2 | u8::from(*yes)),
            Value::Integer(number) => self.integer(*number),
            Value::Number(number) => self.number(*number),
            Value::String(text) => self.text(&text.as_bytes())?,
            Value::Table(table) if depth < PACKED_DEPTH_MAX => self.table(table, depth + 1)?,
            _ => self.out.push(0xc0),
        }
        Ok(())
    }

    fn number(&mut self, number: f64) {
        let whole = cut(number);
        if whole as f64 == number {
            return self.integer(whole);
        }
        let short = number as f32;
        if f64::from(short) == number {
            self.out.push(0xca);
            self.out.extend_from_slice(&short.to_be_bytes());
        } else {
            self.out.push(0xcb);
            self.out.extend_from_slice(&number.to_be_bytes());
        }
    }

    fn integer(&mut self, number: i64) {
        let bytes = number.to_be_bytes();
        let (first, from) = match number {
            -32..=0x7f => return self.out.push(bytes[7]),
            0x80..=0xff => (0xcc, 7),
            0x100..=0xffff => (0xcd, 6),
            0x1_0000..=0xffff_ffff => (0xce, 4),
            0x1_0000_0000.. => (0xcf, 0),
            -0x80..=-33 => (0xd0, 7),
            -0x8000..=-0x81 => (0xd1, 6),
            -0x8000_0000..=-0x8001 => (0xd2, 4),
            _ => (0xd3, 0),
        };
        self.out.push(first);
        self.out.extend_from_slice(&bytes[from..]);
    }

    fn text(&mut self, text: &[u8]) -> Result<()> {
        match text.len() {
            bytes @ 0..32 => self.out.push(0xa0 | bytes as u8),
            bytes @ 32..=0xff => self.out.extend_from_slice(&[0xd9, bytes as u8]),
            bytes => self.count(0xda, bytes),
        }
        let room = self.out.len() + text.len();
        self.given.shared.check_room(self.given.lua, room)?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    /// A count of two bytes, or one of four behind the next code.
    fn count(&mut self, code: u8, count: usize) {
        match u16::try_from(count) {
            Ok(count) => {
                self.out.push(code);
                self.out.extend_from_slice(&count.to_be_bytes());
            }
            Err(_) => {
                self.out.push(code + 1);
                self.out.extend_from_slice(&(count as u32).to_be_bytes());
            }
        }
    }

    /// The same, for counts that fit into the code itself.
    fn short_count(&mut self, short: u8, code: u8, count: usize) {
        if count < 16 {
            self.out.push(short | count as u8);
        } else {
            self.count(code, count);
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<()> {
        let (count, is_array) = self.shape(table)?;
        if is_array {
            self.short_count(0x90, 0xdc, count);
            for place in 1..=count {
                self.value(&table.raw_get(place)?, depth)?;
            }
            return Ok(());
        }
        self.short_count(0x80, 0xde, count);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.value(&key, depth)?;
            self.value(&value, depth)?;
        }
        Ok(())
    }

    /// How many values a table has, and whether their keys are 1, 2, 3 and so on.
    fn shape(&self, table: &Table) -> Result<(usize, bool)> {
        let (mut count, mut last, mut is_array) = (0, 0, true);
        for pair in table.pairs::<Value, Value>() {
            self.given.tick()?;
            match pair?.0 {
                Value::Integer(place @ 1..=0x7fff_ffff) => last = last.max(place as usize),
                _ => is_array = false,
            }
            count += 1;
        }
        Ok((count, is_array && last == count))
    }
}

/// `cmsgpack.unpack(bytes)`
pub(super) fn unpack(given: &Given<'_>) -> Result<MultiValue> {
    unpack_some(given, 0, 0)
}

/// `cmsgpack.unpack_one(bytes[, offset])`
pub(super) fn unpack_one(given: &Given<'_>) -> Result<MultiValue> {
    let offset = given.integer_or(2, 0)?;
    unpack_some(given, 1, offset)
}

/// `cmsgpack.unpack_limit(bytes, limit[, offset])`
pub(super) fn unpack_limit(given: &Given<'_>) -> Result<MultiValue> {
    let limit = cut(given.number(2)?);
    let offset = given.integer_or(3, 0)?;
    unpack_some(given, limit, offset)
}

/// Up to `limit` values from an offset on, and where the next begins; without either, all values
/// and nothing else.
fn unpack_some(given: &Given<'_>, limit: i64, offset: i64) -> Result<MultiValue> {
    let data = given.text(1)?;
    let data = data.as_bytes();
    let bytes = data.len();
    // Redis prints the low half of the offset, and the length where it means the limit.
    let shown = offset as i32;
    let (Ok(most), Ok(from)) = (usize::try_from(limit), usize::try_from(offset)) else {
        return given.fail(format!(
            "Invalid request to unpack with offset of {shown} and limit of {bytes}."
        ));
    };
    let Some(rest) = data.get(from..) else {
        return given.fail(format!(
            "Start offset {shown} greater than input length {bytes}."
        ));
    };
    let takes_all = most == 0 && from == 0;
    let mut reader = Unpacker { given, rest };
    let mut values = Vec::new();
    while !reader.rest.is_empty() && (takes_all || values.len() < most) {
        if values.len() >= ANSWERED_MAX {
            return given.fail(TOO_MANY);
        }
        values.push(reader.value(0)?);
    }
    if !takes_all {
        let next = data.len() - reader.rest.len();
        let next = if reader.rest.is_empty() {
            -1.0
        } else {
            next as f64
        };
        values.insert(0, Value::Number(next));
    }
    Ok(MultiValue::from_vec(values))
}

struct Unpacker<'a> {
    given: &'a Given<'a>,
    rest: &'a [u8],
}

impl<'a> Unpacker<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return self.given.fail("Missing bytes in input.");
        };
        self.rest = rest;
        Ok(taken)
    }

    /// An unsigned number of this many bytes.
    fn unsigned(&mut self, bytes: usize) -> Result<u64> {
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Ok(self.bytes(bytes)?.iter().fold(0, add))
    }

    fn signed(&mut self, bytes: usize) -> Result<f64> {
        let unused = 64 - 8 * bytes as u32;
        let number = self.unsigned(bytes)? << unused;
        Ok((number.cast_signed() >> unused) as f64)
    }

    fn length(&mut self, bytes: usize) -> Result<usize> {
        Ok(self.unsigned(bytes)? as usize)
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        self.given.tick()?;
        if depth > UNPACKED_DEPTH_MAX {
            return self.given.fail(TOO_MANY);
        }
        let code = self.bytes(1)?[0];
        Ok(match code {
            0x00..=0x7f => Value::Number(f64::from(code)),
            0x80..=0x8f => self.map(usize::from(code & 15), depth)?,
            0x90..=0x9f => self.array(usize::from(code & 15), depth)?,
            0xa0..=0xbf => self.text(usize::from(code & 31))?,
            0xc0 => Value::Nil,
            0xc2 | 0xc3 => Value::Boolean(code == 0xc3),
            0xca => {
                let bits = self.unsigned(4)? as u32;
                Value::Number(f64::from(f32::from_bits(bits)))
            }
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xce => Value::Number(self.unsigned(1 << (code - 0xcc))? as f64),
            // Redis reads eight bytes as a signed number, whatever their code.
            0xcf => Value::Number(self.signed(8)?),
            0xd0..=0xd3 => Value::Number(self.signed(1 << (code - 0xd0))?),
            0xd9..=0xdb => {
                let bytes = self.length(1 << (code - 0xd9))?;
                self.text(bytes)?
            }
            0xdc | 0xdd => {
                let count = self.length(if code == 0xdc { 2 } else { 4 })?;
                self.array(count, depth)?
            }
            0xde | 0xdf => {
                let count = self.length(if code == 0xde { 2 } else { 4 })?;
                self.map(count, depth)?
            }
            0xe0.. => Value::Number(f64::from(code.cast_signed())),
            _ => return self.given.fail("Bad data format in input."),
        })
    }

    fn text(&mut self, bytes: usize) -> Result<Value> {
        let text = self.bytes(bytes)?;
        Ok(Value::String(self.given.string(text)?))
    }

    fn array(&mut self, count: usize, depth: usize) -> Result<Value> {
        let table = self.given.lua.create_table()?;
        for place in 1..=count {
            table.raw_set(place, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> Result<Value> {
        let table = self.given.lua.create_table()?;
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            let problem = match key {
                Value::Nil => "table index is nil",
                Value::Number(number) if number.is_nan() => "table index is NaN",
                _ => {
                    table.raw_set(key, value)?;
                    continue;
                }
            };
            let raised = Raised::Text(problem.as_bytes().to_vec());
            return Err(self.given.shared.raise(raised));
        }
        Ok(Value::Table(table))
    }
}

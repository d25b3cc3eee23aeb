//! JSON: what scripts call cjson, in its form of numbers, escapes and tables.
//!
//! Source: lua-cjson 2.1 as in Redis: 14 digits, sparse arrays refused, empty tables as objects.

use mlua::{Function, Lua, Table, Value};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

use super::limit::Limit;

/// Deepest nesting; the reader of JSON has about the same.
const DEPTH_MAX: usize = 120;
/// An array with more places than this may be sparse only so far.
const SPARSE_SAFE_MAX: usize = 10;
/// Places for each value from which an array is too sparse.
const SPARSE_RATIO: usize = 2;
/// Longest text that is made of a value.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Bytes of a string that are written at a time.
const PIECE_BYTES: usize = 4_096;

/// A value as JSON, or why it cannot be.
pub(super) fn encode(value: &Value, format: &Function, limit: &Limit) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    Encoder { format, limit }.value(value, 0, &mut out)?;
    Ok(out)
}

struct Encoder<'a> {
    format: &'a Function,
    limit: &'a Limit,
}

impl Encoder<'_> {
    fn value(&self, value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
        self.go_on(out)?;
        match value {
            Value::Nil | Value::LightUserData(_) => out.extend_from_slice(b"null"),
            Value::Boolean(true) => out.extend_from_slice(b"true"),
            Value::Boolean(false) => out.extend_from_slice(b"false"),
            Value::Integer(number) => self.number(*number as f64, out)?,
            Value::Number(number) => self.number(*number, out)?,
            Value::String(text) => self.string(&text.as_bytes(), out)?,
            Value::Table(table) if depth < DEPTH_MAX => self.table(table, depth + 1, out)?,
            Value::Table(_) => {
                let depth = depth + 1;
                return Err(format!("Cannot serialise, excessive nesting ({depth})"));
            }
            other => {
                let name = other.type_name();
                return Err(format!("Cannot serialise {name}: type not supported"));
            }
        }
        Ok(())
    }

    /// Whether there is room and time for more.
    fn go_on(&self, out: &[u8]) -> Result<(), String> {
        if out.len() > TEXT_BYTES_MAX {
            return Err("Cannot serialise, the text is too long".to_owned());
        }
        self.limit.tick().map_err(|error| error.to_string())
    }

    fn string(&self, text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.push(b'"');
        for piece in text.chunks(PIECE_BYTES) {
            self.go_on(out)?;
            escape(piece, out);
        }
        out.push(b'"');
        Ok(())
    }

    fn number(&self, number: f64, out: &mut Vec<u8>) -> Result<(), String> {
        if !number.is_finite() {
            return Err("Cannot serialise number: must not be NaN or Inf".to_owned());
        }
        let text = self.format.call::<mlua::LuaString>(("%.14g", number));
        out.extend_from_slice(&text.map_err(|_| "not enough memory")?.as_bytes());
        Ok(())
    }

    fn table(&self, table: &Table, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
        match self.places(table)? {
            0 => self.object(table, depth, out),
            places => self.array(table, places, depth, out),
        }
    }

    fn array(
        &self,
        table: &Table,
        places: usize,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        out.push(b'[');
        for place in 1..=places {
            if place > 1 {
                out.push(b',');
            }
            let value = table.raw_get(place).map_err(|_| "not enough memory")?;
            self.value(&value, depth, out)?;
        }
        out.push(b']');
        Ok(())
    }

    fn object(&self, table: &Table, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
        out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|_| "not enough memory")?;
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            match &key {
                Value::String(text) => self.string(&text.as_bytes(), out)?,
                Value::Integer(_) | Value::Number(_) => {
                    out.push(b'"');
                    self.value(&key, depth, out)?;
                    out.push(b'"');
                }
                _ => {
                    let text = "Cannot serialise table: table key must be a number or string";
                    return Err(text.to_owned());
                }
            }
            out.push(b':');
            self.value(&value, depth, out)?;
        }
        out.push(b'}');
        Ok(())
    }

    /// The places of a table that is an array; zero for one that is an object or empty.
    fn places(&self, table: &Table) -> Result<usize, String> {
        let (mut count, mut last) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            self.limit.tick().map_err(|error| error.to_string())?;
            let (key, _) = pair.map_err(|_| "not enough memory")?;
            let Value::Integer(place) = key else {
                return Ok(0);
            };
            match usize::try_from(place) {
                Ok(place) if place > 0 => last = last.max(place),
                _ => return Ok(0),
            }
            count += 1;
        }
        if last > SPARSE_SAFE_MAX && last > count * SPARSE_RATIO {
            return Err("Cannot serialise table: excessively sparse array".to_owned());
        }
        Ok(last)
    }
}

/// A string's bytes between its quotes; those that are no UTF-8 stay as they are.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' | b'/' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..32 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

/// The value that JSON text stands for, or why it is none.
pub(super) fn decode(lua: &Lua, text: &[u8], limit: &Limit) -> Result<Value, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Decoder { lua, limit }.deserialize(&mut deserializer);
    let value = value.map_err(|error| error.to_string())?;
    deserializer.end().map_err(|error| error.to_string())?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Decoder<'a> {
    lua: &'a Lua,
    limit: &'a Limit,
}

impl<'de> DeserializeSeed<'de> for Decoder<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        self.limit.tick().map_err(D::Error::custom)?;
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Decoder<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::NULL)
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Value, E> {
        Ok(Value::Boolean(yes))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        let text = self.lua.create_string(text).map_err(E::custom)?;
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Value, A::Error> {
        let table = self.lua.create_table().map_err(A::Error::custom)?;
        let mut place = 0;
        while let Some(value) = values.next_element_seed(self)? {
            place += 1;
            table.raw_set(place, value).map_err(A::Error::custom)?;
        }
        Ok(Value::Table(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let table = self.lua.create_table().map_err(A::Error::custom)?;
        while let Some(key) = pairs.next_key_seed(self)? {
            let value = pairs.next_value_seed(self)?;
            table.raw_set(key, value).map_err(A::Error::custom)?;
        }
        Ok(Value::Table(table))
    }
}

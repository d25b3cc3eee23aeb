//! Encode: JSON of values. What is nested lies on a list of its own, not on the thread's stack.

use mlua::{Function, LuaString, Result, Table, Value};

use crate::choices::{Choices, NESTING_MAX};
use crate::given::{Given, cut, kind_of};

/// Longest text that is made of a value.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Bytes of a string that are written at a time.
const PIECE_BYTES: usize = 4_096;

/// What encoding takes from Lua: `string.format` and `next`.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) format: Function,
    pub(crate) next: Function,
}

/// A table of which a part is written.
enum OpenTable {
    Array {
        table: Table,
        place: i64,
        places: i64,
    },
    Object {
        table: Table,
        key: Value,
    },
}

/// `cjson.encode(value)`
pub(crate) fn encode(given: &Given<'_>, choices: Choices, tools: &Tools) -> Result<LuaString> {
    let [value] = given.values else {
        return given.wrong(1, "expected 1 argument");
    };
    let mut encoder = Encoder {
        given,
        choices,
        tools,
        levels: Vec::new(),
        out: Vec::new(),
    };
    encoder.value(value)?;
    while let Some(level) = encoder.levels.pop() {
        encoder.go_on(level)?;
    }
    given.string(encoder.out)
}

struct Encoder<'a> {
    given: &'a Given<'a>,
    choices: Choices,
    tools: &'a Tools,
    levels: Vec<OpenTable>,
    out: Vec<u8>,
}

impl Encoder<'_> {
    /// Writes the next value of a table, or its end.
    fn go_on(&mut self, level: OpenTable) -> Result<()> {
        match level {
            OpenTable::Array { place, places, .. } if place > places => self.out.push(b']'),
            OpenTable::Array {
                table,
                place,
                places,
            } => {
                if place > 1 {
                    self.out.push(b',');
                }
                let value = table.raw_get::<Value>(place)?;
                let place = place + 1;
                self.levels.push(OpenTable::Array {
                    table,
                    place,
                    places,
                });
                self.value(&value)?;
            }
            OpenTable::Object { table, key } => {
                let is_first = key.is_nil();
                let (key, value) = self.tools.next.call::<(Value, Value)>((&table, key))?;
                if key.is_nil() {
                    self.out.push(b'}');
                    return Ok(());
                }
                if !is_first {
                    self.out.push(b',');
                }
                self.key(&key)?;
                self.levels.push(OpenTable::Object { table, key });
                self.value(&value)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, value: &Value) -> Result<()> {
        self.check()?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(null) if null.0.is_null() => {
                self.out.extend_from_slice(b"null");
            }
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Table(table) => self.table(table)?,
            other => return self.refuse(other, "type not supported"),
        }
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Result<()> {
        match key {
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Integer(_) | Value::Number(_) => {
                self.out.push(b'"');
                self.value(key)?;
                self.out.push(b'"');
            }
            other => return self.refuse(other, "table key must be a number or string"),
        }
        self.out.push(b':');
        Ok(())
    }

    fn refuse<R>(&self, value: &Value, reason: &str) -> Result<R> {
        let kind = kind_of(value);
        self.given
            .fail(format!("Cannot serialise {kind}: {reason}"))
    }

    /// Whether there is room and time for more.
    fn check(&self) -> Result<()> {
        if self.out.len() > TEXT_BYTES_MAX {
            return self.given.fail("Cannot serialise, the text is too long");
        }
        self.given.tick()
    }

    fn string(&mut self, text: &[u8]) -> Result<()> {
        self.out.push(b'"');
        for piece in text.chunks(PIECE_BYTES) {
            self.check()?;
            escape(piece, &mut self.out);
        }
        self.out.push(b'"');
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<()> {
        let text: &[u8] = match self.choices.encodes_invalid {
            _ if number.is_finite() => {
                let form = format!("%.{}g", self.choices.digits);
                let text = self.tools.format.call::<LuaString>((form, number))?;
                self.out.extend_from_slice(&text.as_bytes());
                return Ok(());
            }
            0 => return self.refuse(&Value::Number(number), "must not be NaN or Inf"),
            1 if number.is_nan() => b"nan",
            1 if number > 0.0 => b"inf",
            1 => b"-inf",
            _ => b"null",
        };
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn table(&mut self, table: &Table) -> Result<()> {
        let depth = self.levels.len() + 1;
        let most = self.choices.encode_depth_max.min(NESTING_MAX);
        if depth > usize::try_from(most).unwrap_or(0) {
            let text = format!("Cannot serialise, excessive nesting depth ({depth})");
            return self.given.fail(text);
        }
        let table = table.clone();
        let places = self.places(&table)?;
        if places > 0 {
            self.out.push(b'[');
            self.levels.push(OpenTable::Array {
                table,
                place: 1,
                places,
            });
        } else {
            self.out.push(b'{');
            let key = Value::Nil;
            self.levels.push(OpenTable::Object { table, key });
        }
        Ok(())
    }

    /// The places of a table that is an array; zero for one that is an object or empty.
    fn places(&self, table: &Table) -> Result<i64> {
        let (mut count, mut last) = (0_i64, 0_i32);
        for pair in table.pairs::<Value, Value>() {
            self.given.tick()?;
            let place = match pair?.0 {
                Value::Integer(place @ 1..) => place as f64,
                Value::Number(place) if place >= 1.0 && place.floor() == place => place,
                _ => return Ok(0),
            };
            if place > f64::from(last) {
                // One that is too large makes an object of it, as it does in Redis.
                last = i32::try_from(cut(place)).unwrap_or(i32::MIN);
            }
            count += 1;
        }
        let last = i64::from(last);
        let (ratio, safe) = (self.choices.sparse_ratio, self.choices.sparse_safe);
        let is_sparse =
            ratio > 0 && last > count.saturating_mul(i64::from(ratio)) && last > i64::from(safe);
        if is_sparse && !self.choices.converts_sparse {
            return self.refuse(&Value::Table(table.clone()), "excessively sparse array");
        }
        Ok(if is_sparse { 0 } else { last })
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

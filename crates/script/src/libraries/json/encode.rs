//! Encode: JSON of values. Nested values are on a list of their own, not on the thread's stack.

use std::borrow::Borrow;
use std::io::Write;

use mlua::{Error, Function, LuaString, Result, Table, Value};

use crate::choices::{Choices, NESTING_MAX};
use crate::given::{Given, cut, kind_of};

/// Longest text that is made of a value.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Bytes of a string that are written at a time.
const PIECE_BYTES: usize = 4_096;
/// Most pairs that a table is read with at once, and most that are read and not written yet: each
/// takes up to two of the 8,000 places that Lua has for values outside of it.
const PAIRS_MAX: usize = 64;
const WAITING_PAIRS_MAX: usize = 1_024;
/// Pairs that there is space for at first.
const PAIRS_FIRST: usize = 8;
/// Integers below this have so few digits that the shortest form has them all.
const SHORT_DIGITS: i32 = 14;
const SHORT_INTEGER: f64 = 1e14;

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
    /// All pairs of a small table, and whether they are the places of an array.
    Pairs {
        pairs: std::vec::IntoIter<(Value, Value)>,
        is_array: bool,
        is_first: bool,
    },
}

/// `cjson.encode(value)`
pub(crate) fn encode(given: &Given<'_>, choices: Choices, next: &Function) -> Result<LuaString> {
    let [value] = given.values else {
        return given.wrong(1, "expected 1 argument");
    };
    let mut encoder = Encoder {
        given,
        choices,
        next,
        levels: Vec::new(),
        waiting_pairs: 0,
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
    /// Lua's `next`.
    next: &'a Function,
    levels: Vec<OpenTable>,
    /// Pairs that are read and not written yet.
    waiting_pairs: usize,
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
                let (key, value) = self.next.call::<(Value, Value)>((&table, key))?;
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
            OpenTable::Pairs {
                mut pairs,
                is_array,
                is_first,
            } => {
                let Some((key, value)) = pairs.next() else {
                    self.out.push(if is_array { b']' } else { b'}' });
                    return Ok(());
                };
                self.waiting_pairs -= 1;
                if !is_first {
                    self.out.push(b',');
                }
                if !is_array {
                    self.key(&key)?;
                }
                self.levels.push(OpenTable::Pairs {
                    pairs,
                    is_array,
                    is_first: false,
                });
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
            _ if self.is_short_integer(number) => {
                let _ = write!(self.out, "{}", number as i64);
                return Ok(());
            }
            _ if number.is_finite() => {
                let digits = usize::try_from(self.choices.digits).unwrap_or(1).max(1);
                super::number::write(number, digits, &mut self.out);
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
        let pairs = self.pairs(&table)?;
        let keys = pairs.as_ref().map(|pairs| pairs.iter().map(|(key, _)| key));
        let places = match keys {
            Some(keys) => self.places(&table, keys.map(Ok))?,
            None => {
                let pairs = table.pairs::<Value, Value>();
                self.places(&table, pairs.map(|pair| pair.map(|(key, _)| key)))?
            }
        };
        let is_array = places > 0;
        if let Some(pairs) = pairs.filter(|pairs| !is_array || are_places(pairs, places)) {
            self.out.push(if is_array { b'[' } else { b'{' });
            self.waiting_pairs += pairs.len();
            self.levels.push(OpenTable::Pairs {
                pairs: pairs.into_iter(),
                is_array,
                is_first: true,
            });
        } else if is_array {
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

    /// Whether the digits of a number are the text that its form makes.
    fn is_short_integer(&self, number: f64) -> bool {
        let is_integer = number.abs() < SHORT_INTEGER && number.trunc() == number;
        // Zero may have a sign.
        is_integer
            && self.choices.digits >= SHORT_DIGITS
            && number.to_bits() != (-0.0_f64).to_bits()
    }

    /// All pairs of a table, if they are few and few others wait.
    fn pairs(&self, table: &Table) -> Result<Option<Vec<(Value, Value)>>> {
        let most = PAIRS_MAX.min(WAITING_PAIRS_MAX - self.waiting_pairs);
        let (mut pairs, mut are_many) = (Vec::with_capacity(most.min(PAIRS_FIRST)), false);
        let read = table.for_each(|key: Value, value: Value| {
            if pairs.len() == most {
                are_many = true;
                return Err(Error::RuntimeError(String::new()));
            }
            pairs.push((key, value));
            Ok(())
        });
        if are_many {
            return Ok(None);
        }
        read.map(|()| Some(pairs))
    }

    /// The places of a table with these keys that is an array; zero for one that is an object or
    /// empty.
    fn places<K: Borrow<Value>>(
        &self,
        table: &Table,
        keys: impl Iterator<Item = Result<K>>,
    ) -> Result<i64> {
        let (mut count, mut last) = (0_i64, 0_i32);
        for key in keys {
            self.given.tick()?;
            let place = match key?.borrow() {
                Value::Integer(place @ 1..) => *place as f64,
                Value::Number(place) if *place >= 1.0 && place.floor() == *place => *place,
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

/// Whether pairs are those of all positions from the first one on, in order.
fn are_places(pairs: &[(Value, Value)], places: i64) -> bool {
    let mut keys = pairs.iter().zip(1..);
    let are_in_order = keys.all(|((key, _), place)| match key {
        Value::Integer(key) => *key == place,
        Value::Number(key) => *key == place as f64,
        _ => false,
    });
    are_in_order && usize::try_from(places) == Ok(pairs.len())
}

/// A string's bytes between its quotes; invalid UTF-8 stays unchanged.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| !matches!(byte, 0..32 | 127 | b'"' | b'\\' | b'/');
    let mut rest = text;
    loop {
        let plain = rest.iter().take_while(|byte| is_plain(byte)).count();
        out.extend_from_slice(&rest[..plain]);
        let Some(&byte) = rest.get(plain) else {
            return;
        };
        rest = &rest[plain + 1..];
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..32 | 127 => _ = write!(out, "\\u{byte:04x}"),
            _ => out.extend_from_slice(&[b'\\', byte]),
        }
    }
}

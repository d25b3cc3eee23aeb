//! Conversions between Lua's values and replies, by Redis's rules.
//!
//! | reply | Lua |
//! |---|---|
//! | integer, bulk string | number (cut to an integer on the way back), string |
//! | array | table from 1; the first nil ends it on the way back |
//! | status, error | `{ok=...}`, `{err=...}` |
//! | null | false (RESP2), nil (RESP3) |
//! | true, false | 1 and null (RESP2), itself (RESP3) |
//! | double, map, set, big number, verbatim | `{double=...}`, `{map=...}`, ... |
//!
//! Source: redis.io/docs/latest/develop/interact/programmability/lua-api, "Data type conversion".

use std::rc::Rc;

use cellar_protocol::resp::value::{self, Value as Part};
use cellar_protocol::resp::{Proto, Reply};
use mlua::{Either, Error, IntoLua, Lua, Result, Table, Value};

use super::given::cut;
use super::limit::Limit;
use super::shared::Shared;
use crate::shared::SCRIPT_REPLY_BYTES_MAX;

/// The field of an error that was counted where it happened, by Redis's name for it.
pub(super) const COUNTED: &str = "ignore_error_stats_update";

/// Deepest nesting of a reply, in both directions.
const DEPTH_MAX: usize = 128;

/// The result of a script.
#[derive(Debug)]
pub struct Answer {
    pub(super) value: Value,
    /// Writing it is part of the script's run.
    pub(super) shared: Rc<Shared>,
    /// The version that the script chose.
    pub(super) proto: Proto,
}

impl Answer {
    /// Appends the answer to replies in the client's version; `None` if it is too deep or long, or
    /// the script's time limit is reached, and then the reply is incomplete. Errors in it are
    /// passed to `note`, with whether they are counted already.
    pub fn write(&self, reply: &mut Reply<'_>, note: &dyn Fn(&[u8], bool)) -> Option<()> {
        let end = reply.out.len() + SCRIPT_REPLY_BYTES_MAX;
        let writer = ReplyWriter {
            proto: self.proto,
            limit: &self.shared.limit,
            end,
            note,
        };
        writer.value(&self.value, 0, reply)
    }
}

struct ReplyWriter<'a> {
    proto: Proto,
    limit: &'a Limit,
    /// Bytes that the replies may have.
    end: usize,
    note: &'a dyn Fn(&[u8], bool),
}

impl ReplyWriter<'_> {
    fn value(&self, value: &Value, depth: usize, reply: &mut Reply<'_>) -> Option<()> {
        if depth > DEPTH_MAX || reply.out.len() > self.end {
            return None;
        }
        self.limit.tick().ok()?;
        match value {
            Value::String(text) => reply.bulk(&*text.as_bytes()),
            Value::Integer(number) => reply.integer(*number),
            Value::Number(number) => reply.integer(cut(*number)),
            Value::Boolean(yes) if self.proto == Proto::V3 => reply.boolean(*yes),
            Value::Boolean(true) => reply.integer(1),
            Value::Table(table) => self.table(table, depth, reply)?,
            _ => reply.null(),
        }
        Some(())
    }

    fn table(&self, table: &Table, depth: usize, reply: &mut Reply<'_>) -> Option<()> {
        let field = |name: &str| table.raw_get::<Value>(name).ok();
        if let Value::String(text) = field("err")? {
            let is_counted = matches!(field(COUNTED)?, Value::Boolean(true));
            (self.note)(&text.as_bytes(), is_counted);
            reply.error(&*text.as_bytes());
        } else if let Value::String(text) = field("ok")? {
            let text = text.to_string_lossy().replace(['\r', '\n'], " ");
            reply.simple(&text);
        } else if let Some(number) = number_of(&field("double")?) {
            reply.double(number);
        } else if let Value::Table(map) = field("map")? {
            self.pairs(&map, depth, reply)?;
        } else if let Value::Table(set) = field("set")? {
            self.keys(&set, depth, reply)?;
        } else if let Value::String(digits) = field("big_number")? {
            big_number(&digits.as_bytes(), reply);
        } else if let Value::Table(verbatim) = field("verbatim_string")? {
            let text = verbatim.raw_get::<mlua::LuaString>("string").ok()?;
            reply.verbatim(&text.to_string_lossy());
        } else {
            self.array(table, depth, reply)?;
        }
        Some(())
    }

    fn array(&self, table: &Table, depth: usize, reply: &mut Reply<'_>) -> Option<()> {
        let start = reply.out.len();
        let mut count = 0;
        loop {
            let value = table.raw_get::<Value>(count + 1).ok()?;
            if value.is_nil() {
                reply.array_around(start, count);
                return Some(());
            }
            self.value(&value, depth + 1, reply)?;
            count += 1;
        }
    }

    fn pairs(&self, map: &Table, depth: usize, reply: &mut Reply<'_>) -> Option<()> {
        let (start, mut count) = (reply.out.len(), 0);
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair.ok()?;
            self.value(&key, depth + 1, reply)?;
            self.value(&value, depth + 1, reply)?;
            count += 1;
        }
        reply.map_around(start, count);
        Some(())
    }

    fn keys(&self, set: &Table, depth: usize, reply: &mut Reply<'_>) -> Option<()> {
        let (start, mut count) = (reply.out.len(), 0);
        for pair in set.pairs::<Value, Value>() {
            self.value(&pair.ok()?.0, depth + 1, reply)?;
            count += 1;
        }
        reply.set_around(start, count);
        Some(())
    }
}

fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

fn big_number(digits: &[u8], reply: &mut Reply<'_>) {
    if reply.proto == Proto::V2 {
        reply.bulk(digits);
        return;
    }
    reply.out.push(b'(');
    let digits = digits.iter().map(|&byte| match byte {
        b'\r' | b'\n' => b' ',
        other => other,
    });
    reply.out.extend(digits);
    reply.crlf();
}

/// The Lua value of one command's reply.
pub(super) fn from_reply(
    lua: &Lua,
    shared: &Shared,
    mut reply: &[u8],
    proto: Proto,
) -> Result<Value> {
    let reader = Reader { lua, shared, proto };
    reader.value(&mut reply, 0)
}

struct Reader<'l> {
    lua: &'l Lua,
    shared: &'l Shared,
    proto: Proto,
}

impl Reader<'_> {
    fn value(&self, input: &mut &[u8], depth: usize) -> Result<Value> {
        let part = self.part(input, depth)?;
        self.value_of(part, input, depth)
    }

    /// The next part of the reply; its contents follow.
    fn part<'i>(&self, input: &mut &'i [u8], depth: usize) -> Result<Part<'i>> {
        self.shared.tick(self.lua)?;
        let part = value::read(input).filter(|_| depth <= DEPTH_MAX);
        part.ok_or_else(|| Error::runtime("the command's reply cannot be read"))
    }

    fn value_of(&self, part: Part<'_>, input: &mut &[u8], depth: usize) -> Result<Value> {
        Ok(match part {
            Part::Simple(text) => self.field("ok", self.text(text)?)?,
            Part::Error(text) => self.field("err", self.text(text)?)?,
            Part::Integer(number) => Value::Number(number as f64),
            Part::Bulk(bytes) => self.text(bytes)?,
            Part::Null if self.proto == Proto::V3 => Value::Nil,
            Part::Null => Value::Boolean(false),
            Part::Boolean(yes) => Value::Boolean(yes),
            Part::Double(number) => self.field("double", Value::Number(number))?,
            Part::BigNumber(digits) => self.field("big_number", self.text(digits)?)?,
            Part::Verbatim { format, text } => {
                let table = self.lua.create_table_with_capacity(0, 2)?;
                table.raw_set("format", self.text(format)?)?;
                table.raw_set("string", self.text(text)?)?;
                self.field("verbatim_string", Value::Table(table))?
            }
            Part::Array(count) | Part::Push(count) => self.array(count, input, depth)?,
            Part::Map(count) => self.map(count, input, depth)?,
            Part::Set(count) => self.set(count, input, depth)?,
        })
    }

    fn text(&self, bytes: &[u8]) -> Result<Value> {
        Ok(Value::String(self.shared.string(self.lua, bytes)?))
    }

    fn field(&self, name: &str, value: Value) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn array(&self, count: usize, input: &mut &[u8], depth: usize) -> Result<Value> {
        let elements = (0..count).map(|_| self.element(input, depth + 1));
        sequence(self.lua, elements).map(Value::Table)
    }

    /// The next element of an array. Text goes into the table without a reference of its own, which
    /// costs less.
    fn element<'i>(&self, input: &mut &'i [u8], depth: usize) -> Result<Either<&'i str, Value>> {
        let part = self.part(input, depth)?;
        if let Part::Bulk(bytes) = part
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            self.shared.check_room(self.lua, text.len())?;
            return Ok(Either::Left(text));
        }
        self.value_of(part, input, depth).map(Either::Right)
    }

    fn map(&self, count: usize, input: &mut &[u8], depth: usize) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, count)?;
        for _ in 0..count {
            let key = self.value(input, depth + 1)?;
            table.raw_set(key, self.value(input, depth + 1)?)?;
        }
        self.field("map", Value::Table(table))
    }

    fn set(&self, count: usize, input: &mut &[u8], depth: usize) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(0, count)?;
        for _ in 0..count {
            table.raw_set(self.value(input, depth + 1)?, true)?;
        }
        self.field("set", Value::Table(table))
    }
}

/// A table of these values from 1 on. It is made in its size, so its memory does not move.
///
/// # Errors
/// The first one of the values; those behind it are not asked for.
pub(super) fn sequence<V: IntoLua>(
    lua: &Lua,
    values: impl ExactSizeIterator<Item = Result<V>>,
) -> Result<Table> {
    let mut failed = Ok(());
    let values = UpToError {
        values,
        failed: &mut failed,
    };
    let table = lua.create_sequence_from(values)?;
    failed.map(|()| table)
}

/// Values up to the first error, which is stored.
struct UpToError<'f, I> {
    values: I,
    failed: &'f mut Result<()>,
}

impl<V, I: Iterator<Item = Result<V>>> Iterator for UpToError<'_, I> {
    type Item = V;

    fn next(&mut self) -> Option<V> {
        let value = self.values.next()?;
        value.map_err(|error| *self.failed = Err(error)).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.values.size_hint()
    }
}

//! Given: the arguments of a function of a library, checked as Lua's own functions check theirs.
//!
//! Source: Lua 5.1 reference manual, section 4, `luaL_checknumber` and its neighbours.

use mlua::{Lua, LuaString, Result, Value};

use super::shared::{Shared, fail};

/// The arguments of a function; positions count from 1.
pub(super) struct Given<'a> {
    pub(super) lua: &'a Lua,
    pub(super) shared: &'a Shared,
    /// The function's name, for errors.
    pub(super) name: &'static str,
    pub(super) values: &'a [Value],
}

impl Given<'_> {
    /// Raises an error that says where in the script it happened.
    pub(super) fn fail<R>(&self, text: impl AsRef<[u8]>) -> Result<R> {
        fail(self.lua, self.shared, text)
    }

    /// Raises an error about one argument.
    pub(super) fn wrong<R>(&self, place: usize, text: impl AsRef<[u8]>) -> Result<R> {
        let mut line = format!("bad argument #{place} to '{}' (", self.name).into_bytes();
        line.extend_from_slice(text.as_ref());
        line.push(b')');
        self.fail(line)
    }

    /// As [`Shared::string`].
    pub(super) fn string(&self, bytes: impl AsRef<[u8]>) -> Result<LuaString> {
        self.shared.string(self.lua, bytes)
    }

    /// Bytes as text if they are UTF-8, after a check of the size: such texts are made a string of
    /// Lua where they are needed, without a place outside of it.
    pub(super) fn utf8<'b>(&self, bytes: &'b [u8]) -> Result<Option<&'b str>> {
        self.shared.check_room(self.lua, bytes.len())?;
        Ok(std::str::from_utf8(bytes).ok())
    }

    /// Counts a small piece of work; see [`Shared::tick`].
    pub(super) fn tick(&self) -> Result<()> {
        self.shared.tick(self.lua)
    }

    /// The value at a place; none if there are fewer.
    pub(super) fn at(&self, place: usize) -> Option<&Value> {
        self.values.get(place.checked_sub(1)?)
    }

    /// A number, or a text that is one.
    pub(super) fn number(&self, place: usize) -> Result<f64> {
        match self.at(place) {
            Some(Value::Integer(number)) => Ok(*number as f64),
            Some(Value::Number(number)) => Ok(*number),
            Some(text @ Value::String(_)) => match self.lua.coerce_number(text.clone())? {
                Some(number) => Ok(number),
                None => self.mistyped(place, "number"),
            },
            _ => self.mistyped(place, "number"),
        }
    }

    /// A number cut to an integer; the default if there is none, or nil.
    pub(super) fn integer_or(&self, place: usize, default: i64) -> Result<i64> {
        match self.at(place) {
            None | Some(Value::Nil) => Ok(default),
            Some(_) => Ok(cut(self.number(place)?)),
        }
    }

    /// A text, or a number as one.
    pub(super) fn text(&self, place: usize) -> Result<LuaString> {
        match self.at(place) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(number @ (Value::Integer(_) | Value::Number(_))) => {
                match self.lua.coerce_string(number.clone())? {
                    Some(text) => Ok(text),
                    None => self.mistyped(place, "string"),
                }
            }
            _ => self.mistyped(place, "string"),
        }
    }

    /// Raises the error about an argument of the wrong type.
    pub(super) fn mistyped<R>(&self, place: usize, expected: &str) -> Result<R> {
        let kind = self.at(place).map_or("no value", kind_of);
        self.wrong(place, format!("{expected} expected, got {kind}"))
    }
}

/// The type of a value, as Lua names it.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

/// A number cut to an integer; one out of range becomes the smallest, as processors have it that
/// Redis runs on.
pub(super) fn cut(number: f64) -> i64 {
    const RANGE: std::ops::Range<f64> = i64::MIN as f64..9_223_372_036_854_775_808.0;
    if RANGE.contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

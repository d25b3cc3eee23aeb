//! Texts: functions of the sandbox that build or split strings.
//!
//! Where Lua's own function works byte by byte, or its result may be far larger than its arguments,
//! this module replaces it: the size is known before it runs, and it checks the time limit.

use std::rc::Rc;

use mlua::{Lua, LuaString, Result, Table, Value};

use super::cache::digest;
use super::shared::{MEMORY_BYTES_MAX, Shared, fail};

/// Adds them to the table that the prelude is called with.
pub(super) fn add(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    add_whole(lua, host, shared)?;
    add_composed(lua, host, shared)
}

/// Functions that read a text to its end.
fn add_whole(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    // A value that is not a string, usually nil, counts as an empty one.
    let state = Rc::clone(shared);
    let sha1hex = lua.create_function(move |lua, value: Value| {
        state.limit.check()?;
        let text = text_of(lua, value)?;
        let digest = text.map_or_else(|| digest(b""), |text| digest(&text.as_bytes()));
        lua.create_string(digest)
    })?;
    host.raw_set("sha1hex", sha1hex)?;
    let error_line = |lua: &Lua, text: LuaString| lua.create_string(error_line(&text.as_bytes()));
    host.raw_set("error_line", lua.create_function(error_line)?)?;
    let add = |name: &'static str, change: fn(&mut Vec<u8>)| {
        let state = Rc::clone(shared);
        let changed = lua.create_function(move |lua, value: Value| {
            state.limit.check()?;
            let kind = value.type_name();
            let Some(text) = text_of(lua, value)? else {
                let problem = format!("bad argument #1 to '{name}' (string expected, got {kind})");
                return fail(lua, &state, &problem);
            };
            let mut bytes = text.as_bytes().to_vec();
            change(&mut bytes);
            lua.create_string(bytes)
        })?;
        host.raw_set(name, changed)
    };
    add("upper", |bytes| bytes.make_ascii_uppercase())?;
    add("lower", |bytes| bytes.make_ascii_lowercase())?;
    add("reverse", |bytes| bytes.reverse())
}

/// A string, or a number as one.
fn text_of(lua: &Lua, value: Value) -> Result<Option<LuaString>> {
    match value {
        Value::String(text) => Ok(Some(text)),
        Value::Integer(_) | Value::Number(_) => lua.coerce_string(value),
        _ => Ok(None),
    }
}

/// Functions that put a text together.
fn add_composed(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    let state = Rc::clone(shared);
    let repeat = lua.create_function(move |lua, (text, times): (LuaString, f64)| {
        state.limit.check()?;
        let bytes = repeated_bytes(&text, times);
        if bytes > MEMORY_BYTES_MAX {
            return fail(lua, &state, "resulting string too large");
        }
        state.check_room(lua, bytes)?;
        let made = repeat(lua, &text, bytes);
        state.keep_pace(lua)?;
        made
    })?;
    host.raw_set("rep", repeat)?;
    let state = Rc::clone(shared);
    let concat = lua.create_function(
        move |lua, (list, between, first, last): (Value, Value, Option<f64>, Option<f64>)| {
            let Value::Table(list) = list else {
                let kind = list.type_name();
                let problem = format!("bad argument #1 to 'concat' (table expected, got {kind})");
                return fail(lua, &state, &problem);
            };
            let first = first.map_or(1, |first| first as i64);
            let last = last.map_or_else(|| list.raw_len() as i64, |last| last as i64);
            let between = text_of(lua, between)?;
            let between = between.map(|text| text.as_bytes().to_vec());
            let bytes = concat(
                lua,
                &state,
                &list,
                &between.unwrap_or_default(),
                first,
                last,
            )?;
            let made = lua.create_string(bytes);
            state.keep_pace(lua)?;
            made
        },
    )?;
    host.raw_set("concat", concat)
}

/// The length of a text that is repeated.
fn repeated_bytes(text: &LuaString, times: f64) -> usize {
    let times = if times > 0.0 { times as usize } else { 0 };
    text.as_bytes().len().saturating_mul(times)
}

fn repeat(lua: &Lua, text: &LuaString, bytes: usize) -> Result<LuaString> {
    let text = text.as_bytes();
    lua.create_string(text.repeat(bytes.checked_div(text.len()).unwrap_or(0)))
}

/// The elements of a list from one place to another, with a text between them.
fn concat(
    lua: &Lua,
    shared: &Shared,
    list: &Table,
    between: &[u8],
    first: i64,
    last: i64,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for place in first..=last {
        shared.limit.tick()?;
        let value = list.raw_get::<Value>(place)?;
        let kind = value.type_name();
        let Some(text) = text_of(lua, value)? else {
            let problem = format!("invalid value ({kind}) at index {place} in table for 'concat'");
            return fail(lua, shared, &problem);
        };
        bytes.extend_from_slice(&text.as_bytes());
        if place < last {
            bytes.extend_from_slice(between);
        }
        if bytes.len() > MEMORY_BYTES_MAX {
            shared.check_room(lua, bytes.len())?;
        }
    }
    Ok(bytes)
}

/// The text of an error reply: without the line's beginning and end, and with a code.
fn error_line(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let end = text.iter().rposition(|byte| !b"\r\n".contains(byte));
    let text = &text[..end.map_or(0, |last| last + 1)];
    if text.contains(&b' ') {
        return text.to_vec();
    }
    [b"ERR ", text].concat()
}

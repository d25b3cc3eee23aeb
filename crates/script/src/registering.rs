//! Registering: `redis.register_function`, and the functions that a library registers while it is
//! loaded.
//!
//! The texts are those of Redis; where it checks arguments in another order than they are given, so
//! does this.
//!
//! Source: redis.io/docs/latest/develop/programmability/lua-api, "redis.register_function".

use std::rc::Rc;

use mlua::{Function, Lua, Result, Table, Value, Variadic};

use super::functions::{FunctionFlags, LibraryFunction, is_name};
use super::header::WRONG_NAME;
use super::shared::{ErrorReply, Raised, Shared};

/// The error where the time limit or the memory limit ended the library; the limit raises its own
/// error, which replaces it.
const ENDED: &str = "ERR the library was ended";

/// Adds it to the table that the prelude is called with.
pub(super) fn add(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    let state = Rc::clone(shared);
    let register = lua.create_function(move |lua, args: Variadic<Value>| {
        state.limit.check()?;
        let done = register(lua, &state, &args).map_err(|text| {
            state.raise(Raised::Reply(ErrorReply {
                text: text.into(),
                is_counted: false,
            }))
        });
        state.keep_pace(lua)?;
        done
    })?;
    host.raw_set("register_function", register)
}

/// Registers a function; the error is the failure's text.
fn register(lua: &Lua, shared: &Shared, args: &[Value]) -> std::result::Result<(), &'static str> {
    let mut registered = shared.registered.borrow_mut();
    let registered = registered
        .as_mut()
        .ok_or("ERR redis.register_function can only be called on FUNCTION LOAD command")?;
    let (function, callback) = match args {
        [Value::Table(named)] => read_named(lua, shared, named)?,
        [_] => {
            return Err(
                "ERR calling redis.register_function with a single argument is only applicable to \
                 Lua table (representing named arguments).",
            );
        }
        [name, callback] => read_positional(lua, name, callback)?,
        _ => return Err("ERR wrong number of arguments to redis.register_function"),
    };
    registered.add(function, callback)
}

fn read_positional(
    lua: &Lua,
    name: &Value,
    callback: &Value,
) -> std::result::Result<(LibraryFunction, Function), &'static str> {
    let name = text(lua, name);
    let name = name.ok_or("ERR first argument to redis.register_function must be a string")?;
    let Value::Function(callback) = callback else {
        return Err("ERR second argument to redis.register_function must be a function");
    };
    Ok((
        function_of(&name, None, FunctionFlags::default())?,
        callback.clone(),
    ))
}

fn read_named(
    lua: &Lua,
    shared: &Shared,
    named: &Table,
) -> std::result::Result<(LibraryFunction, Function), &'static str> {
    let (mut name, mut callback, mut description) = (None, None, None);
    let mut flags = FunctionFlags::default();
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|_| ENDED)?;
        let key = text(lua, &key)
            .ok_or("ERR named argument key given to redis.register_function is not a string")?;
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => {
                name = Some(text(lua, &value).ok_or(
                    "ERR function_name argument given to redis.register_function must be a string",
                )?);
            }
            b"description" => {
                description = Some(text(lua, &value).ok_or(
                    "ERR description argument given to redis.register_function must be a string",
                )?);
            }
            b"callback" => {
                let Value::Function(called) = value else {
                    return Err(
                        "ERR callback argument given to redis.register_function must be a function",
                    );
                };
                callback = Some(called);
            }
            b"flags" => flags = read_flags(lua, shared, &value)?,
            _ => return Err("ERR unknown argument given to redis.register_function"),
        }
    }
    let name = name.ok_or("ERR redis.register_function must get a function name argument")?;
    let callback = callback.ok_or("ERR redis.register_function must get a callback argument")?;
    Ok((function_of(&name, description, flags)?, callback))
}

fn read_flags(
    lua: &Lua,
    shared: &Shared,
    value: &Value,
) -> std::result::Result<FunctionFlags, &'static str> {
    const UNKNOWN: &str = "ERR unknown flag given";
    let Value::Table(list) = value else {
        return Err(
            "ERR flags argument to redis.register_function must be a table representing function \
             flags",
        );
    };
    let mut flags = FunctionFlags::default();
    for place in 1.. {
        shared.limit.tick().map_err(|_| ENDED)?;
        let flag = list.raw_get::<Value>(place).map_err(|_| ENDED)?;
        if flag.is_nil() {
            break;
        }
        let flag = text(lua, &flag).ok_or(UNKNOWN)?;
        flags = flags.with(&flag).ok_or(UNKNOWN)?;
    }
    Ok(flags)
}

fn function_of(
    name: &[u8],
    description: Option<Vec<u8>>,
    flags: FunctionFlags,
) -> std::result::Result<LibraryFunction, &'static str> {
    if !is_name(name) {
        return Err(WRONG_NAME);
    }
    Ok(LibraryFunction {
        name: String::from_utf8_lossy(name).into_owned(),
        description,
        flags,
    })
}

/// A string, or a number as one.
fn text(lua: &Lua, value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(_) | Value::Number(_) => {
            let text = lua.coerce_string(value.clone()).ok()??;
            Some(text.as_bytes().to_vec())
        }
        _ => None,
    }
}

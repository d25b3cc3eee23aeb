//! Library: functions of the server for the sandbox's prelude, besides commands.

use std::rc::Rc;

use cellar_protocol::resp::Proto;
use mlua::{Error, Function, LightUserData, Lua, LuaString, Result, Table, Value, Variadic};

use super::cache::PROGRAM_BYTES_MAX;
use super::convert::COUNTED;
use super::libraries;
use super::pattern;
use super::random::Random;
use super::registering;
use super::shared::{MEMORY_BYTES_MAX, Raised, Shared, fail};
use super::texts;
use cellar_protocol::printable;

/// The names that scripts and libraries have in errors.
pub(super) const SCRIPT_CHUNK: &str = "@user_script";
pub(super) const LIBRARY_CHUNK: &str = "@user_function";
/// Longest pattern for `string.find` and the like: each byte may take a step of recursion.
const PATTERN_BYTES_MAX: usize = 1_000;
/// Steps of a search that take at most one millisecond of the script's time.
const PATTERN_STEPS_PER_MS: u64 = 200_000;
/// Bytes of a program that the compiler gets at a time.
const PIECE_BYTES: usize = 1_024;
/// Programs from this length on are compiled without collecting garbage meanwhile.
const UNCOLLECTED_BYTES_MIN: usize = 8 << 10;
/// Longest line that `redis.log` prints.
const LOG_BYTES_MAX: usize = 1_024;
/// With this as its first argument, `call` only checks whether a command may be run. No script can
/// create this value.
pub(super) const ONLY_CHECK: Value = Value::LightUserData(LightUserData(std::ptr::null_mut()));
/// Deepest call that is looked at for the line of an error.
const LEVELS_MAX: usize = 100;

/// The table that the prelude is called with; `call` is put there for each run.
pub(super) fn host(lua: &Lua, shared: &Rc<Shared>, version: &str) -> Result<Table> {
    let host = lua.create_table()?;
    host.raw_set("version", version)?;
    host.raw_set("only_check", ONLY_CHECK)?;
    host.raw_set("version_number", version_number(version))?;
    host.raw_set(
        "line",
        lua.create_function(|lua, ()| Ok(line(lua).unzip()))?,
    )?;
    add_session(lua, &host, shared)?;
    add_memory(lua, &host, shared)?;
    texts::add(lua, &host, shared)?;
    libraries::add(lua, &host, shared)?;
    add_searches(lua, &host, shared)?;
    add_random(lua, &host, shared)?;
    registering::add(lua, &host, shared)?;
    Ok(host)
}

/// Functions about the run.
fn add_session(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    let state = Rc::clone(shared);
    let ended = lua.create_function(move |_, ()| Ok(state.limit.is_ended()))?;
    host.raw_set("ended", ended)?;
    let state = Rc::clone(shared);
    let raised = lua.create_function(move |lua, ()| raised(lua, state.raised.take()))?;
    host.raw_set("raised", raised)?;
    let state = Rc::clone(shared);
    let setresp = lua.create_function(move |_, version: i64| {
        let proto = if version == 3 { Proto::V3 } else { Proto::V2 };
        state.proto.set(proto);
        Ok(())
    })?;
    host.raw_set("setresp", setresp)?;
    let log = lua.create_function(|_, (level, text): (i64, LuaString)| {
        log(level, &text.as_bytes());
        Ok(())
    })?;
    host.raw_set("log", log)
}

fn raised(lua: &Lua, raised: Option<Raised>) -> Result<Value> {
    Ok(match raised {
        None => Value::Nil,
        Some(Raised::Text(text)) => Value::String(lua.create_string(text)?),
        Some(Raised::Reply(reply)) => {
            let table = lua.create_table_with_capacity(0, 2)?;
            table.raw_set("err", lua.create_string(reply.text)?)?;
            if reply.is_counted {
                table.raw_set(COUNTED, true)?;
            }
            Value::Table(table)
        }
    })
}

/// A line in the server's log; a script's text stays one line, and control characters have no
/// effect.
fn log(level: i64, text: &[u8]) {
    let text = &text[..text.len().min(LOG_BYTES_MAX)];
    let text = printable(&String::from_utf8_lossy(text));
    match level {
        0 => tracing::trace!("script: {text}"),
        1 => tracing::debug!("script: {text}"),
        2 => tracing::info!("script: {text}"),
        _ => tracing::warn!("script: {text}"),
    }
}

/// Adds functions that search in strings.
fn add_searches(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    let state = Rc::clone(shared);
    let check = lua.create_function(
        move |lua, (text, pattern, anchors, added): (LuaString, LuaString, bool, usize)| {
            state.limit.check()?;
            let steps_max = if anchors {
                pattern::steps_max
            } else {
                pattern::steps_anywhere
            };
            let text_bytes = text.as_bytes().len();
            let made_bytes = text_bytes.saturating_mul(added).min(MEMORY_BYTES_MAX) as u64;
            let allowed = state.limit.left_ms().saturating_mul(PATTERN_STEPS_PER_MS);
            let problem = if pattern.as_bytes().len() > PATTERN_BYTES_MAX {
                "the pattern is too long".to_owned()
            } else if steps_max(&pattern.as_bytes(), text_bytes).saturating_add(made_bytes)
                > allowed
            {
                format!("the pattern may take too long on {text_bytes} bytes")
            } else {
                return Ok(());
            };
            fail(lua, &state, &problem)
        },
    )?;
    host.raw_set("check_pattern", check)?;
    let is_plain =
        lua.create_function(|_, pattern: LuaString| Ok(pattern::is_plain(&pattern.as_bytes())))?;
    host.raw_set("is_plain", is_plain)?;
    let find = |_: &Lua, (text, wanted, init): (LuaString, LuaString, Option<f64>)| {
        let init = init.map_or(1, |init| init as i64);
        Ok(pattern::find_plain(&text.as_bytes(), &wanted.as_bytes(), init).unzip())
    };
    host.raw_set("find_plain", lua.create_function(find)?)
}

/// Numbers from 0 up to 1, from 1 to `high`, or from `low` to `high`.
fn add_random(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    let state = Rc::clone(shared);
    let random = lua.create_function(move |lua, bounds: Variadic<f64>| {
        let share = state.next_random();
        let (low, high) = match bounds[..] {
            [] => return Ok(share),
            [high] => (1.0, high.floor()),
            [low, high] => (low.floor(), high.floor()),
            _ => return fail(lua, &state, "wrong number of arguments"),
        };
        if low > high {
            return fail(lua, &state, "bad argument: interval is empty");
        }
        Ok((share * (high - low + 1.0)).floor() + low)
    })?;
    host.raw_set("random", random)?;
    let state = Rc::clone(shared);
    let seed = lua.create_function(move |_, seed: f64| {
        state.seeded.set(Some(Random::seeded(seed as i64)));
        Ok(())
    })?;
    host.raw_set("randomseed", seed)
}

/// Functions about memory.
fn add_memory(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    let state = Rc::clone(shared);
    let is_small = lua.create_function(move |lua, ()| Ok(state.is_small(lua)))?;
    host.raw_set("is_small", is_small)?;
    let state = Rc::clone(shared);
    let collect = lua.create_function(move |lua, ()| state.collect(lua))?;
    host.raw_set("collect", collect)
}

/// Adds the compiler, once the environment of compiled code exists.
pub(super) fn add_compiler(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    let (environment, state) = (host.clone(), Rc::clone(shared));
    let load = lua.create_function(move |lua, (text, name): (LuaString, Option<LuaString>)| {
        let environment = environment.raw_get::<Table>("environment")?;
        let named = name.map_or_else(
            || [b"=", &*text.as_bytes()].concat(),
            |name| name.as_bytes().to_vec(),
        );
        let compiled = compile(lua, &state, &text.as_bytes(), &named, environment)?;
        Ok(match compiled {
            Ok(function) => (Some(function), None),
            Err(message) => (None, Some(message)),
        })
    })?;
    host.raw_set("loadstring", load)
}

/// Compiles text; never bytecode, which could break out of the interpreter. The inner error says
/// why it is invalid.
///
/// Lua's compiler gets the text in pieces, and the time limit is checked for each. The first piece
/// is never empty: Lua references the name of the chunk only when it has read a character, and may
/// collect garbage while it gets a piece.
pub(super) fn compile(
    lua: &Lua,
    shared: &Shared,
    text: &[u8],
    name: &[u8],
    environment: Table,
) -> Result<std::result::Result<Function, String>> {
    if text.first() == Some(&0x1b) {
        return Ok(Err("attempt to load a binary chunk".to_owned()));
    }
    let text = if text.is_empty() { b" " } else { text };
    let load = lua.globals().raw_get::<Function>("load")?;
    let name = lua.create_string(name)?;
    let mut pieces = text.chunks(PIECE_BYTES);
    // For a program whose strings are all in use, an incremental collector would find nothing to
    // free. A longer program may be as long as the memory of scripts, and needs the collector.
    let is_uncollected = (UNCOLLECTED_BYTES_MIN..=PROGRAM_BYTES_MAX).contains(&text.len());
    if is_uncollected {
        lua.gc_stop();
    }
    let compiled = lua.scope(|scope| {
        let read = scope.create_function_mut(|lua, ()| {
            shared.limit.check()?;
            let piece = pieces.next().map(|piece| lua.create_string(piece));
            piece.transpose()
        })?;
        load.call::<(Value, Value)>((read, name))
    });
    if is_uncollected {
        lua.gc_restart();
    }
    match compiled? {
        (Value::Function(function), _) => {
            function.set_environment(environment)?;
            Ok(Ok(function))
        }
        (_, Value::String(message)) => Ok(Err(message.to_string_lossy())),
        _ => Err(shared
            .limit
            .check()
            .err()
            .unwrap_or(Error::MemoryError("not enough memory".to_owned()))),
    }
}

/// The line of the script or library that is being executed, and its name in errors.
fn line(lua: &Lua) -> Option<(usize, &'static str)> {
    (1..LEVELS_MAX).find_map(|level| {
        lua.inspect_stack(level, |call| {
            let source = call.source().source?;
            let mut chunk = [SCRIPT_CHUNK, LIBRARY_CHUNK].into_iter();
            let chunk = chunk.find(|chunk| *chunk == source)?;
            Some((call.current_line()?, &chunk[1..]))
        })?
    })
}

/// `7.4.0` as `0x070400`.
fn version_number(version: &str) -> u32 {
    let parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    parts.fold(0, |number, part: u32| number << 8 | part)
}

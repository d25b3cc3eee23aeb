//! Library: what the sandbox's prelude takes from the server, beside commands.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cellar_protocol::resp::Proto;
use mlua::chunk::ChunkMode;
use mlua::{Error, Function, Lua, LuaString, Result, Table, Value, Variadic};

use super::cache::digest;
use super::json;
use super::pattern;
use super::random::Random;
use crate::clock::Stopwatch;

/// The name that scripts have in errors.
pub(super) const CHUNK: &str = "@user_script";
/// Longest pattern for `string.find` and the like: each byte may take a step of recursion.
const PATTERN_BYTES_MAX: usize = 1_000;
/// Steps of a search that take at most one millisecond of the script's time.
const PATTERN_STEPS_PER_MS: u64 = 200_000;
/// Longest string that `string.rep` makes.
const REPEATED_BYTES_MAX: usize = 64 << 20;
/// Longest line that `redis.log` prints.
const LOG_BYTES_MAX: usize = 1_024;
/// Deepest call that is looked at for the line of an error.
const LEVELS_MAX: usize = 100;

/// What the interpreter and its functions share during a run.
#[derive(Debug)]
pub(super) struct Shared {
    /// How long the script has run, and how many milliseconds it may; none while none runs.
    pub(super) time: Cell<Option<(Stopwatch, u64)>>,
    /// Whether it is being ended.
    pub(super) is_ended: Cell<bool>,
    /// The version of replies that the script sees.
    pub(super) proto: Cell<Proto>,
    /// The sequence of `math.random`, which goes on from script to script.
    random: Cell<Random>,
    /// The sequence that the script has chosen.
    pub(super) seeded: Cell<Option<Random>>,
    /// What the error means that was raised last.
    pub(super) raised: RefCell<Option<Raised>>,
}

/// What a function of the host raises. Lua sees an opaque value until the prelude asks for this.
#[derive(Debug)]
pub(super) enum Raised {
    /// A text.
    Text(String),
    /// A table with this text in its field `err`: an error reply.
    Reply(Vec<u8>),
}

impl Shared {
    /// Whether the script's time is over.
    pub(super) fn is_over(&self) -> bool {
        let over = |(watch, ms): (Stopwatch, u64)| watch.us() / 1_000 >= ms;
        self.time.get().is_some_and(over)
    }

    /// Ends the script if its time is over.
    ///
    /// # Errors
    /// One that passes through every protected call.
    pub(super) fn end_if_over(&self) -> Result<()> {
        if !self.is_ended.get() && !self.is_over() {
            return Ok(());
        }
        self.is_ended.set(true);
        Err(Error::runtime("the script was ended"))
    }

    /// Most steps that one search may take.
    fn pattern_steps_max(&self) -> u64 {
        let ms_max = self.time.get().map_or(0, |(_, ms_max)| ms_max);
        ms_max.saturating_mul(PATTERN_STEPS_PER_MS)
    }

    fn next_random(&self) -> f64 {
        let seeded = self.seeded.get();
        let mut random = seeded.unwrap_or(self.random.get());
        let share = random.next();
        match seeded {
            Some(_) => self.seeded.set(Some(random)),
            None => self.random.set(random),
        }
        share
    }

    /// The error to return for what is to be raised.
    pub(super) fn raise(&self, raised: Raised) -> Error {
        self.raised.replace(Some(raised));
        Error::runtime("raised")
    }
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            time: Cell::new(None),
            is_ended: Cell::new(false),
            proto: Cell::new(Proto::V2),
            random: Cell::new(Random::first()),
            seeded: Cell::new(None),
            raised: RefCell::new(None),
        }
    }
}

/// Raises an error that says where in the script it happened.
fn fail<R>(lua: &Lua, shared: &Shared, text: &str) -> Result<R> {
    let place = lua.inspect_stack(1, |call| {
        let name = call.source().short_src?.into_owned();
        call.current_line().map(|line| format!("{name}:{line}: "))
    });
    let place = place.flatten().unwrap_or_default();
    Err(shared.raise(Raised::Text(format!("{place}{text}"))))
}

/// The table that the prelude is called with; `call` is put there for each run.
pub(super) fn host(lua: &Lua, shared: &Rc<Shared>, version: &str) -> Result<Table> {
    let host = lua.create_table()?;
    host.raw_set("version", version)?;
    host.raw_set("version_number", version_number(version))?;
    host.raw_set("null", Value::NULL)?;
    host.raw_set("line", lua.create_function(|lua, ()| Ok(line(lua)))?)?;
    host.raw_set("bit", bits(lua)?)?;
    add_session(lua, &host, shared)?;
    add_texts(lua, &host, shared)?;
    add_searches(lua, &host, shared)?;
    add_random(lua, &host, shared)?;
    Ok(host)
}

/// Functions about the run.
fn add_session(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    let state = Rc::clone(shared);
    let ended = lua.create_function(move |_, ()| Ok(state.is_ended.get()))?;
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
        Some(Raised::Reply(text)) => {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set("err", lua.create_string(text)?)?;
            Value::Table(table)
        }
    })
}

fn log(level: i64, text: &[u8]) {
    let text = String::from_utf8_lossy(&text[..text.len().min(LOG_BYTES_MAX)]);
    match level {
        0 => tracing::trace!("script: {text}"),
        1 => tracing::debug!("script: {text}"),
        2 => tracing::info!("script: {text}"),
        _ => tracing::warn!("script: {text}"),
    }
}

/// Functions that make strings or take them apart.
fn add_texts(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    // What is no text, nil above all, counts as an empty one.
    let sha1hex = |lua: &Lua, value: Value| {
        let text = match value {
            Value::String(_) | Value::Integer(_) | Value::Number(_) => lua.coerce_string(value)?,
            _ => None,
        };
        let digest = text.map_or_else(|| digest(b""), |text| digest(&text.as_bytes()));
        lua.create_string(digest)
    };
    host.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    let error_line = lua
        .create_function(|lua, text: LuaString| lua.create_string(error_line(&text.as_bytes())))?;
    host.raw_set("error_line", error_line)?;
    let state = Rc::clone(shared);
    let repeat = lua.create_function(move |lua, (text, times): (LuaString, f64)| {
        repeat(lua, &text, times).unwrap_or_else(|| fail(lua, &state, "resulting string too large"))
    })?;
    host.raw_set("rep", repeat)?;
    let format: Function = lua.globals().get::<Table>("string")?.get("format")?;
    let state = Rc::clone(shared);
    let encode =
        lua.create_function(
            move |lua, value: Value| match json::encode(&value, &format) {
                Ok(text) => lua.create_string(text),
                Err(text) => fail(lua, &state, &text),
            },
        )?;
    host.raw_set("json_encode", encode)?;
    let state = Rc::clone(shared);
    let decode = lua.create_function(move |lua, text: LuaString| {
        json::decode(lua, &text.as_bytes()).or_else(|text| fail(lua, &state, &text))
    })?;
    host.raw_set("json_decode", decode)
}

/// Functions for what searches in strings.
fn add_searches(lua: &Lua, host: &Table, shared: &Rc<Shared>) -> Result<()> {
    let state = Rc::clone(shared);
    let check = lua.create_function(
        move |lua, (text, pattern, anchors): (LuaString, LuaString, bool)| {
            state.end_if_over()?;
            let steps_max = if anchors {
                pattern::steps_max
            } else {
                pattern::steps_anywhere
            };
            let text_bytes = text.as_bytes().len();
            let problem = if pattern.as_bytes().len() > PATTERN_BYTES_MAX {
                "the pattern is too long".to_owned()
            } else if steps_max(&pattern.as_bytes(), text_bytes) > state.pattern_steps_max() {
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

/// `string.rep`, whose length is known before it works; none if that is too much.
fn repeat(lua: &Lua, text: &LuaString, times: f64) -> Option<Result<LuaString>> {
    let text = text.as_bytes();
    let times = if times > 0.0 { times as usize } else { 0 };
    let times = if text.is_empty() { 0 } else { times };
    let bytes = text.len().saturating_mul(times);
    (bytes <= REPEATED_BYTES_MAX).then(|| lua.create_string(text.repeat(times)))
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

/// Adds the compiler, once the environment of what it compiles is there.
pub(super) fn add_compiler(lua: &Lua, host: &Table) -> Result<()> {
    let environment = host.clone();
    let load = lua.create_function(move |lua, (text, name): (LuaString, Option<String>)| {
        let environment = environment.raw_get::<Table>("environment")?;
        let name = name.unwrap_or_else(|| format!("={}", text.to_string_lossy()));
        Ok(match compile(lua, &text.as_bytes(), &name, environment) {
            Ok(function) => (Some(function), None),
            Err(message) => (None, Some(message)),
        })
    })?;
    host.raw_set("loadstring", load)
}

/// Compiles text; never bytecode, which could break out of the interpreter.
pub(super) fn compile(
    lua: &Lua,
    text: &[u8],
    name: &str,
    environment: Table,
) -> std::result::Result<Function, String> {
    if text.first() == Some(&0x1b) {
        return Err("attempt to load a binary chunk".to_owned());
    }
    let chunk = lua.load(text).set_name(name).set_mode(ChunkMode::Text);
    let function = chunk.set_environment(environment).into_function();
    function.map_err(|error| match error {
        Error::SyntaxError { message, .. } => message,
        other => other.to_string(),
    })
}

/// The line of the script that is being executed.
fn line(lua: &Lua) -> Option<usize> {
    (1..LEVELS_MAX).find_map(|level| {
        lua.inspect_stack(level, |call| {
            let is_script = call.source().source.as_deref() == Some(CHUNK);
            call.current_line().filter(|_| is_script)
        })?
    })
}

/// `7.4.0` as `0x070400`.
fn version_number(version: &str) -> u32 {
    let parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    parts.fold(0, |number, part: u32| number << 8 | part)
}

/// The low 32 bits of a number.
fn bits_of(number: f64) -> u32 {
    number.round_ties_even().rem_euclid(4_294_967_296.0) as u32
}

fn number_of(bits: u32) -> f64 {
    f64::from(bits.cast_signed())
}

/// Operations on 32 bits; source: bitop.luajit.org.
fn bits(lua: &Lua) -> Result<Table> {
    let bit = lua.create_table()?;
    let one = |run: fn(u32) -> u32| {
        lua.create_function(move |_, number: f64| Ok(number_of(run(bits_of(number)))))
    };
    bit.raw_set("tobit", one(|bits| bits)?)?;
    bit.raw_set("bnot", one(|bits| !bits)?)?;
    bit.raw_set("bswap", one(u32::swap_bytes)?)?;
    let all = |run: fn(u32, u32) -> u32| {
        lua.create_function(move |_, (first, rest): (f64, Variadic<f64>)| {
            let rest = rest.iter().map(|&number| bits_of(number));
            Ok(number_of(rest.fold(bits_of(first), run)))
        })
    };
    bit.raw_set("band", all(|one, other| one & other)?)?;
    bit.raw_set("bor", all(|one, other| one | other)?)?;
    bit.raw_set("bxor", all(|one, other| one ^ other)?)?;
    let shift = |run: fn(u32, u32) -> u32| {
        lua.create_function(move |_, (number, by): (f64, f64)| {
            Ok(number_of(run(bits_of(number), bits_of(by) & 31)))
        })
    };
    bit.raw_set("lshift", shift(|bits, by| bits << by)?)?;
    bit.raw_set("rshift", shift(|bits, by| bits >> by)?)?;
    let arithmetic = |bits: u32, by: u32| (bits.cast_signed() >> by).cast_unsigned();
    bit.raw_set("arshift", shift(arithmetic)?)?;
    bit.raw_set("rol", shift(u32::rotate_left)?)?;
    bit.raw_set("ror", shift(u32::rotate_right)?)?;
    bit.raw_set("tohex", lua.create_function(to_hex)?)?;
    Ok(bit)
}

/// Hexadecimal digits, capital ones for a negative number of them.
fn to_hex(_: &Lua, (number, digits): (f64, Option<f64>)) -> Result<String> {
    let digits = digits.unwrap_or(8.0);
    let count = digits.abs().clamp(1.0, 8.0) as usize;
    let text = format!("{:08x}", bits_of(number));
    let text = &text[8 - count..];
    Ok(if digits < 0.0 {
        text.to_uppercase()
    } else {
        text.to_owned()
    })
}

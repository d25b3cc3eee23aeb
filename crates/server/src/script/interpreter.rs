//! Interpreter: one Lua state with its sandbox, and the scripts it has compiled.
//!
//! Time is bounded by looks at the clock (limit.rs), between instructions by a hook; the error that
//! it raises is passed on by protected calls. Memory is bounded by the state's own allocator. A
//! state that holds much after a run is thrown away.

mod libraries; // libraries of functions that a state has loaded

use std::collections::HashMap;
use std::rc::Rc;

use cellar_protocol::resp::Proto;
use mlua::{BString, Function, Lua, LuaOptions, Result, StdLib, Table, Value, Variadic};
use smallvec::SmallVec;

use self::libraries::Libraries;
use super::cache::{Script, SourceDigest};
use super::convert::{Answer, COUNTED, from_reply};
use super::functions::{FoundFunction, Functions, LibraryFunction};
use super::library::{self, ONLY_CHECK, SCRIPT_CHUNK, compile};
use super::shared::{ErrorReply, MEMORY_BYTES_MAX, Raised, Shared, Unlimited};

/// Memory from which a state is thrown away after a run.
const MEMORY_BYTES_KEPT_MAX: usize = 8 << 20;
/// Most compiled scripts that one event loop keeps.
const COMPILED_MAX: usize = 1_000;
/// Longest text of an error that is kept.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Up to this many arguments of a command are passed on without an allocation.
const WORDS_FEW: usize = 8;
/// Most bytes of a command's arguments together.
const ARGS_BYTES_MAX: usize = 64 << 20;

/// What runs the commands of a script.
pub trait Host {
    /// Runs a command and gives its reply, in the form of `proto`, to `take`; if that is an error,
    /// it has been counted. A command that works
    /// in steps asks between them whether the script's time `is_over`, and does no more if so.
    fn call(
        &mut self,
        args: &[&[u8]],
        proto: Proto,
        is_over: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]),
    );

    /// Whether the script is to end here, because it will be run anew: none of its commands has
    /// changed anything.
    fn is_given_up(&self) -> bool {
        false
    }

    /// Whether the script's client may run a command; the error is the failure's text.
    ///
    /// # Errors
    /// That there is no such command.
    fn may_run(&self, args: &[&[u8]]) -> std::result::Result<bool, &'static str>;
}

/// One run of a script.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What is run.
    pub program: Program<'a>,
    /// Names of keys: what a script finds in `KEYS`, a function in its first argument.
    pub keys: &'a [&'a [u8]],
    /// What a script finds in `ARGV`, a function in its second argument.
    pub args: &'a [&'a [u8]],
    /// How long it may run, in milliseconds.
    pub time_ms_max: u64,
}

/// What a run runs.
#[derive(Clone, Copy, Debug)]
pub enum Program<'a> {
    /// A script.
    Script {
        /// What it is known by.
        script: &'a Script,
        /// Its program, without a shebang line's text.
        body: &'a [u8],
        /// Of a former one nothing is kept that was compiled.
        generation: u64,
    },
    /// A function of a library.
    Function {
        /// Which one.
        found: &'a FoundFunction,
        /// Which libraries there are.
        kept: &'a Functions,
    },
}

/// Why a script gave no answer.
#[derive(Debug)]
pub enum RunError {
    /// It is no program.
    Compile(String),
    /// It failed, or was ended; the text and the line of the script.
    Failed(Vec<u8>, Option<usize>),
    /// The same with the error of a command, which was counted where it happened.
    Passed(Vec<u8>, Option<usize>),
    /// It took longer than so many milliseconds.
    Ended(u64),
}

impl From<mlua::Error> for RunError {
    fn from(error: mlua::Error) -> RunError {
        RunError::failed(format!("ERR {error}").into_bytes(), None)
    }
}

impl RunError {
    /// A failure with this text, or its beginning.
    fn failed(mut text: Vec<u8>, line: Option<usize>) -> RunError {
        text.truncate(ERROR_BYTES_MAX);
        RunError::Failed(text, line)
    }
}

/// A Lua state and what belongs to it.
#[derive(Debug)]
pub struct Interpreter {
    version: &'static str,
    machine: Option<Machine>,
}

#[derive(Debug)]
struct Machine {
    lua: Lua,
    shared: Rc<Shared>,
    /// What the prelude was called with.
    host: Table,
    environment: Table,
    redis: Table,
    run: Function,
    format: Function,
    compiled: HashMap<SourceDigest, Function>,
    generation: u64,
    libraries: Libraries,
}

impl Interpreter {
    /// An interpreter that says it belongs to a server of this version; it takes memory when it
    /// first runs something.
    #[must_use]
    pub fn new(version: &'static str) -> Interpreter {
        Interpreter {
            version,
            machine: None,
        }
    }

    /// Whether a script is a program that is compiled in this time.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn check(&mut self, body: &[u8], time_ms_max: u64) -> std::result::Result<(), RunError> {
        let machine = self.machine()?;
        machine.shared.begin(&machine.lua, time_ms_max);
        let compiled = machine.compile(body, SCRIPT_CHUNK, &machine.environment);
        machine.end(time_ms_max, compiled.map(drop))
    }

    /// Runs a library, and tells which functions it registers.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn load(
        &mut self,
        body: &[u8],
        time_ms_max: u64,
    ) -> std::result::Result<Vec<LibraryFunction>, RunError> {
        let machine = self.machine()?;
        machine.shared.begin(&machine.lua, time_ms_max);
        let registered = machine.load(body);
        let registered = machine.end(time_ms_max, registered)?;
        Ok(registered.functions)
    }

    /// Runs a script or a function and gives its answer to `take`.
    ///
    /// # Errors
    /// [`RunError`]. What `take` did with an answer does not count then.
    pub fn run<R>(
        &mut self,
        run: &Run<'_>,
        host: &mut dyn Host,
        take: impl FnOnce(&Answer) -> R,
    ) -> std::result::Result<R, RunError> {
        let machine = self.machine()?;
        machine.shared.begin(&machine.lua, run.time_ms_max);
        let result = machine.run(run, host).map(|answer| take(&answer));
        machine.end(run.time_ms_max, result)
    }

    /// Frees the Lua state if runs have left much memory in it. Returns the freed bytes.
    pub fn tidy_up(&mut self) -> usize {
        let machine = self.machine.as_ref();
        let bytes = machine.map_or(0, |machine| machine.lua.used_memory());
        if bytes <= MEMORY_BYTES_KEPT_MAX {
            return 0;
        }
        // To free the whole state is faster than to collect the garbage in it.
        self.machine = None;
        bytes
    }

    fn machine(&mut self) -> std::result::Result<&mut Machine, RunError> {
        match &mut self.machine {
            Some(machine) => Ok(machine),
            none => Ok(none.insert(Machine::new(self.version)?)),
        }
    }
}

impl Machine {
    fn new(version: &str) -> Result<Machine> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        let shared = Rc::new(Shared::default());
        let host = library::host(&lua, &shared, version)?;
        library::add_compiler(&lua, &host, &shared)?;
        let tables = lua.load(include_str!("tables.lua")).set_name("=cellar");
        host.raw_set("tables", tables.into_function()?)?;
        let format = lua.globals().get::<Table>("string")?.get("format")?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=cellar");
        let made = prelude.call::<Table>(&host)?;
        shared.keep_pace(&lua)?;
        Ok(Machine {
            environment: made.get("environment")?,
            redis: made.get("redis")?,
            run: made.get("run")?,
            libraries: Libraries::of(&lua, &made)?,
            lua,
            shared,
            host,
            format,
            compiled: HashMap::new(),
            generation: 0,
        })
    }

    fn run(&mut self, run: &Run<'_>, host: &mut dyn Host) -> std::result::Result<Answer, RunError> {
        let (is_done, value) = match run.program {
            Program::Script {
                script,
                body,
                generation,
            } => {
                let function = self.script(script, body, generation)?;
                self.call((&self.environment, &self.redis), function, run, host)?
            }
            Program::Function { found, kept } => {
                let function = self.function(found, kept)?;
                let seen = (&self.libraries.environment, &self.libraries.redis);
                self.call(seen, function, run, host)?
            }
        };
        if is_done {
            let (shared, proto) = (Rc::clone(&self.shared), self.shared.proto.get());
            let answer = Answer {
                value,
                shared,
                proto,
            };
            return Ok(answer);
        }
        Err(failure(&value))
    }

    /// The end of a run: its result, unless its time was over.
    fn end<R>(
        &self,
        time_ms_max: u64,
        result: std::result::Result<R, RunError>,
    ) -> std::result::Result<R, RunError> {
        self.shared.limit.stop();
        if self.shared.limit.is_ended() {
            return Err(RunError::Ended(time_ms_max));
        }
        result
    }

    /// The compiled script.
    fn script(
        &mut self,
        script: &Script,
        body: &[u8],
        generation: u64,
    ) -> std::result::Result<Function, RunError> {
        if self.generation != generation || self.compiled.len() >= COMPILED_MAX {
            self.compiled.clear();
            self.generation = generation;
        }
        if let Some(function) = self.compiled.get(&script.digest) {
            return Ok(function.clone());
        }
        let function = self.compile(body, SCRIPT_CHUNK, &self.environment)?;
        self.compiled.insert(script.digest, function.clone());
        Ok(function)
    }

    fn compile(
        &self,
        body: &[u8],
        chunk: &str,
        environment: &Table,
    ) -> std::result::Result<Function, RunError> {
        let environment = environment.clone();
        let compiled = compile(&self.lua, &self.shared, body, chunk.as_bytes(), environment)?;
        compiled.map_err(RunError::Compile)
    }

    /// A Lua table that lists strings.
    fn list(&self, values: &[&[u8]]) -> Result<Table> {
        let limit = &self.shared.limit;
        let text = |&value: &&[u8]| limit.tick().is_ok().then(|| BString::from(value));
        let list = self
            .lua
            .create_sequence_from(values.iter().map_while(text))?;
        limit.check()?;
        Ok(list)
    }

    /// Calls a program with its arguments, with `call` of `redis` leading to `host`.
    fn call(
        &self,
        (environment, redis): (&Table, &Table),
        program: Function,
        run: &Run<'_>,
        host: &mut dyn Host,
    ) -> Result<(bool, Value)> {
        let (lua, shared) = (&self.lua, &self.shared);
        let mut words = Words::default();
        lua.scope(|scope| {
            let unlimited = Unlimited::begin(lua)?;
            let call = scope.create_function_mut(|lua, args: Variadic<Value>| {
                let unlimited = Unlimited::begin(lua)?;
                let reply = self.call_host(lua, &args, &mut words, host)?;
                drop(unlimited);
                shared.limit.check()?;
                shared.keep_pace(lua)?;
                Ok(reply)
            })?;
            redis.raw_set("call", call)?;
            self.host.raw_set("environment", environment)?;
            shared.keep_pace(lua)?;
            let (keys, args) = (self.list(run.keys)?, self.list(run.args)?);
            let is_function = matches!(run.program, Program::Function { .. });
            drop(unlimited);
            self.run.call((program, keys, args, is_function))
        })
    }

    /// What `call` returns to a script: a command's reply, or whether the command may be run.
    fn call_host(
        &self,
        lua: &Lua,
        args: &[Value],
        words: &mut Words,
        host: &mut dyn Host,
    ) -> Result<Value> {
        let (shared, limit) = (&self.shared, &self.shared.limit);
        let raise = |text: Vec<u8>, is_counted| {
            shared.raise(Raised::Reply(ErrorReply { text, is_counted }))
        };
        let (only_checks, args) = match args {
            [first, args @ ..] if *first == ONLY_CHECK => (true, args),
            args => (false, args),
        };
        words
            .fill(args, &self.format)
            .map_err(|text| raise(text.into(), false))?;
        limit.check()?;
        let proto = shared.proto.get();
        let mut reply = Ok(Value::Nil);
        words.with(|words| {
            if only_checks {
                let may_run = host.may_run(words).map(Value::Boolean);
                reply = may_run.map_err(|text| raise(text.into(), false));
                return;
            }
            host.call(words, proto, &|| limit.is_over(), &mut |bytes| {
                reply = match bytes.strip_prefix(b"-") {
                    None => from_reply(lua, shared, bytes, proto),
                    Some(text) => Err(raise(text.trim_ascii_end().to_vec(), true)),
                };
            });
            if host.is_given_up() {
                limit.end();
                reply = limit.check().map(|()| Value::Nil);
            }
        });
        reply
    }
}

/// What the prelude says about a script that failed.
fn failure(value: &Value) -> RunError {
    let Value::Table(table) = value else {
        let text = match value {
            Value::String(text) => text.to_string_lossy(),
            other => other.type_name().to_owned(),
        };
        return RunError::failed(format!("ERR {text}").into_bytes(), None);
    };
    let text = table.raw_get::<mlua::LuaString>("err");
    let text = text.map(|text| text.as_bytes().to_vec());
    let line = table.raw_get::<usize>("line").ok();
    let is_counted = table.raw_get::<bool>(COUNTED).unwrap_or(false);
    match RunError::failed(text.unwrap_or_default(), line) {
        RunError::Failed(text, line) if is_counted => RunError::Passed(text, line),
        error => error,
    }
}

/// The words of one command, one behind the other.
#[derive(Debug, Default)]
struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    /// Takes the arguments of `redis.call`; the error is the failure's text.
    fn fill(&mut self, args: &[Value], format: &Function) -> std::result::Result<(), &'static str> {
        self.bytes.clear();
        self.ends.clear();
        for arg in args {
            match arg {
                Value::String(text) => self.bytes.extend_from_slice(&text.as_bytes()),
                Value::Integer(number) => {
                    let mut buffer = itoa::Buffer::new();
                    self.bytes
                        .extend_from_slice(buffer.format(*number).as_bytes());
                }
                Value::Number(number) => {
                    let text = format.call::<mlua::LuaString>(("%.17g", *number));
                    let text = text.map_err(|_| "ERR not enough memory")?;
                    self.bytes.extend_from_slice(&text.as_bytes());
                }
                _ => return Err("ERR Lua redis lib command arguments must be strings or integers"),
            }
            if self.bytes.len() > ARGS_BYTES_MAX {
                return Err("ERR the arguments of a command are too long");
            }
            self.ends.push(self.bytes.len());
        }
        if args.is_empty() {
            return Err("ERR Please specify at least one argument for this redis lib call");
        }
        Ok(())
    }

    fn with(&self, run: impl FnOnce(&[&[u8]])) {
        let mut start = 0;
        let words = self.ends.iter().map(|&end| {
            let word = &self.bytes[start..end];
            start = end;
            word
        });
        run(&words.collect::<SmallVec<[&[u8]; WORDS_FEW]>>());
    }
}

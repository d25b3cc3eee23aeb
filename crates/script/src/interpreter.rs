//! Interpreter: one Lua state with its sandbox, and the scripts it has compiled.
//!
//! Time is bounded by looks at the clock (limit.rs), between instructions by a hook; the error that
//! it raises is passed on by protected calls. Memory is bounded by the state's own allocator. A
//! state that holds much after a run is thrown away.

mod calls; // `redis.call`: from a script to the host that runs its commands
mod libraries; // libraries of functions that a state has loaded

use std::cell::Cell;
use std::rc::Rc;

use cellar_protocol::resp::Proto;
use mlua::{BString, Either, Function, Lua, LuaOptions, Result, StdLib, Table, Value};
use rapidhash::RapidHashMap;

use self::libraries::Libraries;
use super::cache::{Script, SourceDigest};
use super::convert::{Answer, COUNTED, sequence};
use super::functions::{FoundFunction, Functions, LibraryFunction};
use super::library::{self, SCRIPT_CHUNK, compile};
use super::shared::{MEMORY_BYTES_MAX, Shared, Unlimited};

/// Memory from which a state is thrown away after a run.
const MEMORY_BYTES_KEPT_MAX: usize = 8 << 20;
/// Most compiled scripts that one event loop keeps.
const COMPILED_MAX: usize = 1_000;
/// Longest stored text of an error.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Runs the commands of a script.
pub trait Host {
    /// Runs a command and passes its reply, in the form of `proto`, to `take`; if that is an error,
    /// it has been counted. A command that works in steps checks between them whether the script's
    /// time `is_over`, and stops if so.
    fn call(
        &mut self,
        args: &[&[u8]],
        proto: Proto,
        is_over: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]),
    );

    /// Whether the script has to end here, because it will be restarted: none of its commands has
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
    /// The program to run.
    pub program: Program<'a>,
    /// Names of keys: `KEYS` of a script, the first argument of a function.
    pub keys: &'a [&'a [u8]],
    /// `ARGV` of a script, the second argument of a function.
    pub args: &'a [&'a [u8]],
    /// How long it may run, in milliseconds.
    pub time_ms_max: u64,
}

/// A program that can be run.
#[derive(Clone, Copy, Debug)]
pub enum Program<'a> {
    /// A script.
    Script {
        /// The cached script.
        script: &'a Script,
        /// Its program, without a shebang line's text.
        body: &'a [u8],
        /// Compiled programs of an earlier generation are discarded.
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
    /// It ran longer than this many milliseconds.
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
    /// The table that the prelude was called with.
    host: Table,
    environment: Table,
    /// Whether `host` has the environment of functions or that of scripts; none before the first
    /// run.
    sees_functions: Cell<Option<bool>>,
    run: Function,
    compiled: RapidHashMap<SourceDigest, Function>,
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

    /// Runs a library, and returns the functions that it registers.
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
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=cellar");
        let made = prelude.call::<Table>(&host)?;
        let call = calls::function(&lua, &shared)?;
        for redis in ["redis", "redis_of_functions"] {
            made.get::<Table>(redis)?.raw_set("call", &call)?;
        }
        shared.keep_pace(&lua)?;
        Ok(Machine {
            environment: made.get("environment")?,
            run: made.get("run")?,
            libraries: Libraries::of(&lua, &made)?,
            lua,
            shared,
            host,
            sees_functions: Cell::new(None),
            compiled: RapidHashMap::default(),
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
                self.call(function, run, host)?
            }
            Program::Function { found, kept } => {
                let function = self.function(found, kept)?;
                self.call(function, run, host)?
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

    /// The end of a run: its result, unless it has reached its time limit.
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
        // The binding copies a `str` to Lua's stack directly; any other bytes go by a `BString`.
        let texts = values.iter().map(|&value| -> Result<_> {
            self.shared.limit.tick()?;
            let text = std::str::from_utf8(value);
            Ok(text.map_or_else(|_| Either::Right(BString::from(value)), Either::Left))
        });
        sequence(&self.lua, texts)
    }

    /// Calls a program with its arguments, with `redis.call` leading to `host`.
    fn call(&self, program: Function, run: &Run<'_>, host: &mut dyn Host) -> Result<(bool, Value)> {
        let is_function = matches!(run.program, Program::Function { .. });
        let unlimited = Unlimited::begin(&self.lua)?;
        self.choose_environment(is_function)?;
        self.shared.keep_pace(&self.lua)?;
        let (keys, args) = (self.list(run.keys)?, self.list(run.args)?);
        drop(unlimited);
        calls::with_host(host, || self.run.call((program, keys, args, is_function)))
    }

    /// Sets the environment of code that `loadstring` compiles: that of functions or of scripts.
    fn choose_environment(&self, of_functions: bool) -> Result<()> {
        if self.sees_functions.get() == Some(of_functions) {
            return Ok(());
        }
        let environment = if of_functions {
            &self.libraries.environment
        } else {
            &self.environment
        };
        self.host.raw_set("environment", environment)?;
        self.sees_functions.set(Some(of_functions));
        Ok(())
    }
}

/// Converts the prelude's report about a script that failed.
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

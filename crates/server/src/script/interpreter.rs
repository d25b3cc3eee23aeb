//! Interpreter: one Lua state with its sandbox, and the scripts it has compiled.
//!
//! Time is bounded by a hook that looks at the clock every so many instructions and raises an
//! error, which protected calls pass on; memory by the state's own allocator. A state that has run
//! out of memory, or keeps much, is thrown away.

use std::collections::HashMap;
use std::rc::Rc;

use cellar_protocol::resp::Proto;
use mlua::{
    Function, HookTriggers, Lua, LuaOptions, Result, StdLib, Table, Value, Variadic, VmState,
};

use super::cache::{Digest, Script};
use super::convert::{Answer, from_reply};
use super::library::{self, CHUNK, Raised, Shared, compile};
use crate::clock::Stopwatch;

/// Most memory that the scripts of one event loop may hold.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;
/// Memory from which a state is collected, and thrown away if that does not help.
const MEMORY_BYTES_KEPT_MAX: usize = 8 << 20;
/// Most compiled scripts that one event loop keeps.
const COMPILED_MAX: usize = 1_000;
/// Instructions between two looks at the clock.
const INSTRUCTIONS_PER_LOOK: u32 = 10_000;
/// Most bytes of a command's arguments together.
const ARGS_BYTES_MAX: usize = 64 << 20;

/// What runs the commands of a script.
pub trait Host {
    /// Runs a command and gives its reply, in the form of `proto`, to `take`.
    fn call(&mut self, args: &[&[u8]], proto: Proto, take: &mut dyn FnMut(&[u8]));
}

/// One run of a script.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What is run.
    pub script: &'a Script,
    /// Its program, without a shebang line's text.
    pub body: &'a [u8],
    /// What it finds in `KEYS`.
    pub keys: &'a [&'a [u8]],
    /// What it finds in `ARGV`.
    pub args: &'a [&'a [u8]],
    /// How long it may run, in milliseconds.
    pub time_ms_max: u64,
}

/// Why a script gave no answer.
#[derive(Debug)]
pub enum RunError {
    /// It is no program.
    Compile(String),
    /// It failed, or was ended; the text and the line of the script.
    Failed(Vec<u8>, Option<usize>),
}

impl From<mlua::Error> for RunError {
    fn from(error: mlua::Error) -> RunError {
        RunError::Failed(format!("ERR {error}").into_bytes(), None)
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
    environment: Table,
    globals: Table,
    redis: Table,
    run: Function,
    format: Function,
    compiled: HashMap<Digest, Function>,
    generation: u64,
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

    /// Whether a script is a program.
    ///
    /// # Errors
    /// [`RunError::Compile`].
    pub fn check(&mut self, body: &[u8]) -> std::result::Result<(), RunError> {
        let machine = self.machine()?;
        let environment = machine.environment.clone();
        let compiled = compile(&machine.lua, body, CHUNK, environment);
        compiled.map(drop).map_err(RunError::Compile)
    }

    /// Runs a script and gives its answer to `take`. Of a former `generation` nothing is kept.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run<R>(
        &mut self,
        run: &Run<'_>,
        generation: u64,
        host: &mut dyn Host,
        take: impl FnOnce(&Answer) -> R,
    ) -> std::result::Result<R, RunError> {
        let machine = self.machine()?;
        if machine.generation != generation || machine.compiled.len() >= COMPILED_MAX {
            machine.compiled.clear();
            machine.generation = generation;
        }
        let result = machine.run(run, host).map(|answer| take(&answer));
        self.tidy_up();
        result
    }

    fn machine(&mut self) -> std::result::Result<&mut Machine, RunError> {
        match &mut self.machine {
            Some(machine) => Ok(machine),
            none => Ok(none.insert(Machine::new(self.version)?)),
        }
    }

    /// Gives memory back after a run that took much.
    fn tidy_up(&mut self) {
        let Some(machine) = &self.machine else {
            return;
        };
        if machine.lua.used_memory() <= MEMORY_BYTES_KEPT_MAX {
            return;
        }
        let collected = machine.lua.gc_collect();
        if collected.is_err() || machine.lua.used_memory() > MEMORY_BYTES_KEPT_MAX {
            self.machine = None;
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
        library::add_compiler(&lua, &host)?;
        let format = lua.globals().get::<Table>("string")?.get("format")?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=cellar");
        let (environment, globals, redis, run) =
            prelude.call::<(Table, Table, Table, Function)>(&host)?;
        host.raw_set("environment", &environment)?;
        limit_time(&lua, &shared)?;
        Ok(Machine {
            lua,
            shared,
            environment,
            globals,
            redis,
            run,
            format,
            compiled: HashMap::new(),
            generation: 0,
        })
    }

    fn run(&mut self, run: &Run<'_>, host: &mut dyn Host) -> std::result::Result<Answer, RunError> {
        let function = self.function(run)?;
        self.shared
            .time
            .set(Some((Stopwatch::start(), run.time_ms_max)));
        self.shared.is_ended.set(false);
        self.shared.raised.take();
        self.shared.proto.set(Proto::V2);
        self.shared.seeded.set(None);
        self.set_list("KEYS", run.keys)?;
        self.set_list("ARGV", run.args)?;
        let (is_done, value) = self.call(function, host)?;
        self.shared.time.set(None);
        if self.shared.is_ended.get() {
            let limit = run.time_ms_max;
            let text = format!("ERR the script ran longer than {limit} ms and was ended");
            return Err(RunError::Failed(text.into_bytes(), None));
        }
        if is_done {
            let proto = self.shared.proto.get();
            return Ok(Answer { value, proto });
        }
        Err(failure(&value))
    }

    /// The compiled script.
    fn function(&mut self, run: &Run<'_>) -> std::result::Result<Function, RunError> {
        if let Some(function) = self.compiled.get(&run.script.digest) {
            return Ok(function.clone());
        }
        let function = compile(&self.lua, run.body, CHUNK, self.environment.clone());
        let function = function.map_err(RunError::Compile)?;
        self.compiled.insert(run.script.digest, function.clone());
        Ok(function)
    }

    fn set_list(&self, name: &str, values: &[&[u8]]) -> Result<()> {
        let list = self.lua.create_table_with_capacity(values.len(), 0)?;
        for (index, value) in values.iter().enumerate() {
            list.raw_set(index + 1, self.lua.create_string(value)?)?;
        }
        self.globals.raw_set(name, list)
    }

    /// Calls the script, with `redis.call` leading to `host`.
    fn call(&self, script: Function, host: &mut dyn Host) -> Result<(bool, Value)> {
        let mut words = Words::default();
        self.lua.scope(|scope| {
            let call = scope.create_function_mut(|lua, args: Variadic<Value>| {
                let proto = self.shared.proto.get();
                if let Err(text) = words.fill(&args, &self.format) {
                    return Err(self.shared.raise(Raised::Reply(text.into())));
                }
                let mut reply = Ok(Value::Nil);
                words.with(|words| {
                    host.call(words, proto, &mut |bytes| {
                        reply = match bytes.strip_prefix(b"-") {
                            None => from_reply(lua, bytes, proto),
                            Some(text) => {
                                let text = text.trim_ascii_end().to_vec();
                                Err(self.shared.raise(Raised::Reply(text)))
                            }
                        };
                    });
                });
                reply
            })?;
            self.redis.raw_set("call", call)?;
            self.run.call(script)
        })
    }
}

/// Ends a script that runs too long.
fn limit_time(lua: &Lua, shared: &Rc<Shared>) -> Result<()> {
    let shared = Rc::clone(shared);
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_LOOK);
    lua.set_global_hook(triggers, move |_, _| {
        shared.end_if_over()?;
        Ok(VmState::Continue)
    })
}

/// What the prelude says about a script that failed.
fn failure(value: &Value) -> RunError {
    let Value::Table(table) = value else {
        let text = value.to_string().unwrap_or_default();
        return RunError::Failed(format!("ERR {text}").into_bytes(), None);
    };
    let text = table.raw_get::<mlua::LuaString>("err");
    let text = text.map(|text| text.as_bytes().to_vec());
    let line = table.raw_get::<usize>("line").ok();
    RunError::Failed(text.unwrap_or_default(), line)
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
        run(&words.collect::<Vec<&[u8]>>());
    }
}

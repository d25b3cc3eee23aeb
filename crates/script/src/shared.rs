//! Shared: state of a run that the interpreter and the functions of the sandbox share.
//!
//! The time limit is also checked every few instructions. How many depends on the memory that the
//! script has taken, which is checked more often: with little memory no single instruction takes
//! long, with much of it one may work on a string of many megabytes.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;

use cellar_protocol::resp::Proto;
use mlua::{Error, Function, HookTriggers, Lua, LuaString, Result, Table, VmState};

use super::choices::Choices;
use super::functions::{LIBRARY_BYTES_MAX, LIBRARY_FUNCTIONS_MAX, LibraryFunction};
use super::limit::Limit;
use super::random::Random;

/// Longest reply that a script is given, or makes.
pub const SCRIPT_REPLY_BYTES_MAX: usize = 64 << 20;
/// Most memory that the scripts of one event loop may hold.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;
/// Instructions between two looks at the memory that the script has taken.
const INSTRUCTIONS_PER_LOOK: u32 = 128;
/// Such looks between two at the clock, which takes longer, while the memory is little.
const LOOKS_PER_CLOCK: u32 = 8;
/// Instructions between two looks at the clock for a script that has taken much memory.
const INSTRUCTIONS_PER_LOOK_LARGE: u32 = 4;
/// Memory from which on it is much.
const SMALL_BYTES_MAX: usize = 1 << 20;

/// State that a script's run shares with the host's functions.
#[derive(Debug)]
pub(super) struct Shared {
    /// How long the script may run.
    pub(super) limit: Limit,
    /// The version of replies that the script sees.
    pub(super) proto: Cell<Proto>,
    /// The sequence of `math.random`, which continues from script to script.
    random: Cell<Random>,
    /// The sequence that the script has chosen.
    pub(super) seeded: Cell<Option<Random>>,
    /// The error that was raised last.
    pub(super) raised: RefCell<Option<Raised>>,
    /// The JSON settings of the script.
    pub(super) json: Rc<Cell<Choices>>,
    /// The functions that the library being loaded has registered.
    pub(super) registered: RefCell<Option<Registered>>,
    /// Memory that was in use when the run began.
    memory_before: Cell<usize>,
    /// Instructions between two looks at present.
    pace: Cell<u32>,
    /// Looks since the last one at the clock.
    looks: Cell<u32>,
}

/// An error reply in a script.
#[derive(Debug)]
pub(super) struct ErrorReply {
    pub(super) text: Vec<u8>,
    /// Whether it was counted where it happened: a command ran and failed, or was refused.
    pub(super) is_counted: bool,
}

/// The functions that a library has registered so far.
#[derive(Debug)]
pub(super) struct Registered {
    /// Functions as they were registered.
    pub(super) functions: Vec<LibraryFunction>,
    /// The Lua functions by name; in Lua, because Lua has no room for thousands of values outside.
    pub(super) called: Table,
    /// Their names in lower case.
    names: HashSet<String>,
    /// Bytes of names and descriptions.
    bytes: usize,
}

impl Registered {
    /// Nothing yet.
    pub(super) fn new(lua: &Lua) -> Result<Registered> {
        Ok(Registered {
            functions: Vec::new(),
            called: lua.create_table()?,
            names: HashSet::new(),
            bytes: 0,
        })
    }

    /// Adds a function; the error is the failure's text.
    ///
    /// # Errors
    /// If its name is taken, or there are too many.
    pub(super) fn add(
        &mut self,
        function: LibraryFunction,
        called: Function,
    ) -> std::result::Result<(), &'static str> {
        const MEMORY: &str = "ERR not enough memory";
        self.bytes += function.name.len() + function.description.as_ref().map_or(0, Vec::len);
        if self.functions.len() == LIBRARY_FUNCTIONS_MAX {
            return Err("ERR a library has at most 1000 functions");
        }
        if self.bytes > LIBRARY_BYTES_MAX {
            return Err("ERR the libraries are too long");
        }
        if !self.names.insert(function.name.to_ascii_lowercase()) {
            return Err("ERR Function already exists in the library");
        }
        let kept = self.called.raw_set(&*function.name, called);
        kept.map_err(|_| MEMORY)?;
        self.functions.push(function);
        Ok(())
    }
}

/// An error that a function of the host raises. Lua sees an opaque value until the prelude asks for
/// the error.
#[derive(Debug)]
pub(super) enum Raised {
    /// A text.
    Text(Vec<u8>),
    /// A table with this text in its field `err`: an error reply.
    Reply(ErrorReply),
}

impl Shared {
    /// Begins a run of at most `ms_max` milliseconds.
    pub(super) fn begin(&self, lua: &Lua, ms_max: u64) {
        self.limit.start(ms_max);
        self.raised.take();
        self.registered.take();
        self.proto.set(Proto::V2);
        self.seeded.set(None);
        self.json.take();
        self.memory_before.set(lua.used_memory());
    }

    /// Whether the script has taken so little memory that no instruction takes long.
    pub(super) fn is_small(&self, lua: &Lua) -> bool {
        lua.used_memory().saturating_sub(self.memory_before.get()) <= SMALL_BYTES_MAX
    }

    /// Looks at the clock as often as the memory in use asks for.
    ///
    /// # Errors
    /// None in practice: setting a hook takes no memory of Lua's.
    pub(super) fn keep_pace(self: &Rc<Shared>, lua: &Lua) -> Result<()> {
        let pace = if self.is_small(lua) {
            INSTRUCTIONS_PER_LOOK
        } else {
            INSTRUCTIONS_PER_LOOK_LARGE
        };
        if self.pace.replace(pace) == pace {
            return Ok(());
        }
        let shared = Rc::clone(self);
        let triggers = HookTriggers::new().every_nth_instruction(pace);
        lua.set_global_hook(triggers, move |lua, _| {
            let looks = shared.looks.get() + 1;
            if looks < LOOKS_PER_CLOCK && shared.is_small(lua) {
                shared.looks.set(looks);
                return Ok(VmState::Continue);
            }
            shared.looks.set(0);
            shared.limit.check()?;
            shared.keep_pace(lua)?;
            Ok(VmState::Continue)
        })
    }

    /// Checks that a string of this many bytes can be allocated before it is built.
    ///
    /// # Errors
    /// The one that Lua ends with where it has no memory.
    pub(super) fn check_room(&self, lua: &Lua, bytes: usize) -> Result<()> {
        if bytes > SMALL_BYTES_MAX && lua.used_memory().saturating_add(bytes) > MEMORY_BYTES_MAX {
            // Collecting garbage may free enough memory.
            self.collect(lua)?;
            if lua.used_memory().saturating_add(bytes) > MEMORY_BYTES_MAX {
                return Err(self.raise(Raised::Text(b"not enough memory".to_vec())));
            }
        }
        Ok(())
    }

    /// Counts a small piece of the host's work for a script. After many, checks the clock and the
    /// memory that the script uses.
    ///
    /// # Errors
    /// As [`Limit::check`]; also if the script uses too much memory.
    pub(super) fn tick(&self, lua: &Lua) -> Result<()> {
        if self.limit.tick()? && lua.used_memory() > MEMORY_BYTES_MAX {
            return Err(self.raise(Raised::Text(b"not enough memory".to_vec())));
        }
        Ok(())
    }

    /// Makes a Lua string from bytes of the host, after a check of its size.
    ///
    /// # Errors
    /// As [`Shared::check_room`].
    pub(super) fn string(&self, lua: &Lua, bytes: impl AsRef<[u8]>) -> Result<LuaString> {
        self.check_room(lua, bytes.as_ref().len())?;
        lua.create_string(bytes)
    }

    /// Collects all garbage, step by step.
    ///
    /// # Errors
    /// As [`Limit::check`].
    pub(super) fn collect(&self, lua: &Lua) -> Result<()> {
        // The first round may have begun before the last of it became garbage.
        for _ in 0..2 {
            while !lua.gc_step()? {
                self.limit.tick()?;
            }
        }
        Ok(())
    }

    /// The next number of `math.random`'s sequence.
    pub(super) fn next_random(&self) -> f64 {
        let seeded = self.seeded.get();
        let mut random = seeded.unwrap_or(self.random.get());
        let share = random.next();
        match seeded {
            Some(_) => self.seeded.set(Some(random)),
            None => self.random.set(random),
        }
        share
    }

    /// The error to return for a value that is to be raised.
    pub(super) fn raise(&self, raised: Raised) -> Error {
        self.raised.replace(Some(raised));
        Error::runtime("raised")
    }
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            limit: Limit::default(),
            proto: Cell::new(Proto::V2),
            random: Cell::new(Random::first()),
            seeded: Cell::new(None),
            raised: RefCell::new(None),
            json: Rc::default(),
            registered: RefCell::new(None),
            memory_before: Cell::new(0),
            pace: Cell::new(0),
            looks: Cell::new(0),
        }
    }
}

/// While this exists, the Lua state has no memory limit. With a limit, the binding makes each
/// string and table of the host in a protected call, which is several times slower. The host bounds
/// its strings and tables. A script that uses too much afterwards gets no more memory.
#[derive(Debug)]
pub(super) struct Unlimited<'l>(&'l Lua);

impl Unlimited<'_> {
    /// Removes the limit until the result is dropped.
    pub(super) fn begin(lua: &Lua) -> Result<Unlimited<'_>> {
        lua.set_memory_limit(0)?;
        Ok(Unlimited(lua))
    }
}

impl Drop for Unlimited<'_> {
    fn drop(&mut self) {
        let restored = self.0.set_memory_limit(MEMORY_BYTES_MAX);
        debug_assert!(restored.is_ok(), "the state has an allocator of its own");
    }
}

/// Raises an error that says where in the script it happened.
pub(super) fn fail<R>(lua: &Lua, shared: &Shared, text: impl AsRef<[u8]>) -> Result<R> {
    let place = lua.inspect_stack(1, |call| {
        let name = call.source().short_src?.into_owned();
        call.current_line().map(|line| format!("{name}:{line}: "))
    });
    let mut line = place.flatten().unwrap_or_default().into_bytes();
    line.extend_from_slice(text.as_ref());
    Err(shared.raise(Raised::Text(line)))
}

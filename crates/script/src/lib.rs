//! Scripts: Lua 5.1 programs of clients, in a sandbox.
//!
//! [`Scripts`] stores the sources by their digest for all event loops; each loop has one
//! [`Interpreter`], made for the first script, which compiles and runs them. Commands of a script
//! go through a [`Host`], which is passed to each run. [`Functions`] stores libraries likewise: an
//! interpreter runs one when it first calls one of its functions.
//!
//! Invariant: no effect of a script outlives its run, except the keys it wrote and the local
//! variables of a library: all tables that scripts share are read-only to them. Time, memory, depth
//! and size are bounded.
//!
//! Why: docs/decisions/0019-lua-in-a-sandbox.md. Tests: server/tests/resp_scripts.rs.
#![forbid(unsafe_code)]

mod any_keys; // which scripts may touch keys that are not known before they run
mod cache;
mod functions; // which libraries there are, and their functions
mod header;
mod random;
mod limit; // the time limit of a script
mod choices; // the JSON settings of a script
mod shared;
mod given; // arguments of the libraries' functions
mod libraries; // struct, cmsgpack, bit, cjson
mod convert;
mod pattern;
mod texts;
mod registering; // registers functions of a library while it is loaded
mod library;
mod interpreter;

pub use any_keys::AnyKeys;
pub use cache::{
    Origin, PROGRAM_BYTES_MAX, SCRIPTS_MAX, SOURCE_BYTES_MAX, Script, Scripts, SourceDigest,
};
pub use convert::Answer;
pub use functions::{
    FUNCTIONS_MAX, FoundFunction, FunctionFlags, FunctionLibrary, Functions, LIBRARIES_MAX,
    LIBRARY_BYTES_MAX, LIBRARY_FUNCTIONS_MAX, LibraryArrival, LibraryFunction,
};
pub use header::{Header, LibraryHeader};
pub use interpreter::{Host, Interpreter, Program, Run, RunError};
pub use shared::{MEMORY_BYTES_MAX, SCRIPT_REPLY_BYTES_MAX};

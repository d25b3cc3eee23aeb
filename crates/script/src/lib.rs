//! Scripts: Lua 5.1 programs of clients, in a sandbox.
//!
//! [`Scripts`] keeps the sources by their digest for all event loops; each loop has one
//! [`Interpreter`], made when the first script comes, which compiles and runs them. What a script
//! asks of the server goes through a [`Host`], given anew for each run. [`Functions`] keeps
//! libraries likewise: an interpreter runs one when it first calls one of its functions.
//!
//! Invariant: nothing a script does outlives its run, save the keys it wrote and what a library has
//! in local variables: all tables that scripts share are read-only to them. Time, memory, depth and
//! size of what it does are bounded.
//!
//! Why: docs/decisions/0019-lua-in-a-sandbox.md. Tests: server/tests/resp_scripts.rs.
#![forbid(unsafe_code)]

mod any_keys; // which scripts may touch keys that are not known before they run
mod cache;
mod functions; // which libraries there are, and their functions
mod header;
mod random;
mod limit; // how long a script may run, who looks at the clock
mod choices; // what a script chooses about JSON
mod shared;
mod given; // arguments of the libraries' functions
mod libraries; // struct, cmsgpack, bit, cjson
mod convert;
mod pattern;
mod texts;
mod registering; // what a library registers while it is loaded
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

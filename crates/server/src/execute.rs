//! Execution: the one place where requests meet the engine.
//!
//! An event loop gives the bytes of its connections to their [`Link`], one for each protocol, and
//! has the [`Task`]s that were found in them run in order, so that it can hint the cache far ahead.
//! [`Flow`] says how the connection continues.
//!
//! Invariant: one call appends a bounded amount to the output; longer answers come back as
//! [`Flow::Unfinished`] and go on when the client has read.

mod section; // which keys a step of several operations keeps to itself
pub mod filling;
pub mod context;
mod login; // a name and a password over any protocol
pub mod permission; // what each command needs, who may run it
pub mod memcached; // what a command of memcached does
pub mod resp;
pub mod http;
pub mod link; // what a connection speaks, all that a loop knows of it

pub use context::{Context, DecodedTask, Flow, Found, Refusal, Unfinished};
pub use filling::{Filling, Transfer};
pub use link::{Codec, Link, Task};
pub use resp::serve;

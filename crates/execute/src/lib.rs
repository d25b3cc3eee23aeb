//! Execution: runs decoded requests against the engine, for all protocols.
//!
//! An event loop gives the bytes of its connections to their [`Link`], one per protocol, and runs
//! the decoded [`Task`]s in order, so that it can prefetch from the cache far ahead. [`Flow`] says
//! how the connection continues.
//!
//! Invariant: one call appends a bounded amount to the output; a longer reply is returned as
//! [`Flow::Unfinished`] and resumes when the client has read.
#![forbid(unsafe_code)]

mod section; // which keys a step of several operations keeps to itself
pub mod context;
mod upload; // large values on their way into the cache
mod login; // a name and a password over any protocol
pub mod permission; // what each command needs, and which users may run it
pub mod memcached; // what a command of memcached does
pub mod resp;
pub mod http;
pub mod link; // a connection's protocol, as the event loop sees it

pub use context::{Context, DecodedTask, Flow, Found, Refusal, Transfer, Unfinished};
pub use link::{Codec, Link, Task};
pub use resp::serve;

//! Execution: the one place where requests meet the engine.
//!
//! A worker decodes what its connections sent, and for each request in order calls the protocol's
//! `prepare` (hashes the key, so that the worker can hint the cache far ahead) and `execute`.
//! [`Flow`] says how the connection goes on.
//!
//! Invariant: one call appends a bounded amount to the output; longer answers come back as
//! [`Flow::Unfinished`] and go on when the client has read.

pub mod context;
pub mod memcached;

pub use context::{Context, Flow, Unfinished};

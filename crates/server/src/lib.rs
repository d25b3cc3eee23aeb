//! The `cellar` daemon as a library: event loops, start and stop, hot restart, subcommands.
//!
//! `server::event_loop::worker` reads a request from the socket, and `cellar_protocol` decodes it.
//! `cellar_execute` runs it against `cellar_engine` and encodes the reply into an `Output`. The
//! worker writes the reply.
//!
//! The modules are in layer order: a module imports only modules declared above it.
#![deny(unsafe_code)]

/// Counts the memory that a command allocates and keeps, see `server/event_loop/connection.rs`.
#[global_allocator]
static HEAP: cellar_engine::CountingHeap = cellar_engine::CountingHeap;

pub mod upgrade; // hot restart, and the sockets that systemd passes
pub mod server; // accepts connections and serves them; start, stop, drain, background threads
pub mod subcommands; // `cellar doctor`, `healthcheck`, `hash-password`, `top`, `migrate check`

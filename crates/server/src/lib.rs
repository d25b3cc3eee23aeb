//! The `cellar` daemon as a library: settings, event loops, and execution of requests.
//!
//! `server::event_loop::worker` reads a request from the socket, and `cellar_protocol` decodes it.
//! `execute` runs it against `cellar_engine` and encodes the reply into an `Output`. The worker
//! writes the reply.
//!
//! The modules are in layer order: a module imports only modules declared above it.
#![deny(unsafe_code)]

/// Counts the memory that a command allocates and keeps, see `server/event_loop/connection.rs`.
#[global_allocator]
static HEAP: cellar_engine::CountingHeap = cellar_engine::CountingHeap;

pub mod system; // control group, files, clocks, signals, epoll
pub mod config; // settings, `CONFIG SET`, fixed limits, logging
pub mod cluster; // the slot map: which node of a cluster owns which slots
pub mod observe; // counters, command logs, hot keys, history
pub mod net; // listeners, TLS, bytes of a connection, messages between event loops
pub mod auth; // users, limits on wrong passwords, unauthenticated connections
pub mod clients; // client memory, Pub/Sub, tracking, blocking commands, stop-the-world sections
pub mod keyspace; // numbered databases, default TTLs, `WATCH`, notifications about items
pub mod upgrade; // hot restart, and the sockets that systemd passes
pub mod state; // the state that all event loops share
pub mod metrics; // metrics for Prometheus and OpenTelemetry
pub mod execute; // runs requests against the engine, by protocol; pages over HTTP
pub mod server; // accepts connections and serves them; start, stop, drain, background threads
pub mod subcommands; // `cellar doctor`, `healthcheck`, `hash-password`, `top`, `migrate check`

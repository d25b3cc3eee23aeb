//! The `cellar` daemon as a library: settings, event loops, and execution of requests.
//!
//! A request's way: `worker` reads sockets, `cellar_protocol` decodes, `execute` runs the request
//! against `cellar_engine` and encodes the reply into an `Output`, `worker` writes it.
//!
//! The modules stand in layer order: a module imports only modules declared above it.
#![deny(unsafe_code)]

/// Counts what each command leaves behind, see `connection.rs`.
#[global_allocator]
static HEAP: cellar_engine::CountingHeap = cellar_engine::CountingHeap;

pub mod system; // control group, files, clocks, signals, polling
pub mod config; // settings: how they are read, what CONFIG SET changes; fixed limits
pub mod cluster; // which node of a cluster has which key
pub mod observe; // counts and logs of requests, hot keys, history
pub mod net; // sockets, TLS, a connection's bytes, messages between event loops
pub mod auth; // users, wrong passwords, connections without a login
pub mod clients; // memory of clients, Pub/Sub, tracking, blocking commands
pub mod keyspace; // the numbered databases, and what happens to their keys
pub mod upgrade; // hot restart: sockets, clients and cache that a process passes to the next
pub mod state; // what all event loops share
pub mod metrics; // what Prometheus is shown
pub mod pages; // what is answered over HTTP beside the cache: console, status, metrics
pub mod execute; // the one place where requests meet the engine
pub mod event_loop; // accepting connections, and the event loops that serve them
pub mod server; // start, stop, drain, and the background threads
pub mod subcommands; // `cellar doctor`, `healthcheck`, `hash-password`, `top`, `migrate check`

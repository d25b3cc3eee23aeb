//! The `cellar` daemon as a library: settings, event loops, and execution of requests.
//!
//! A request's way: `worker` reads sockets, `cellar_protocol` decodes, `execute` runs the request
//! against `cellar_engine` and encodes the reply into an `Output`, `worker` writes it.
//!
//! The modules stand in layer order: a module imports only modules declared above it.
#![deny(unsafe_code)]

pub mod error;
pub mod settings;
pub mod limits;
pub mod memory;
pub mod process;
pub mod logging;
pub mod clock;
pub mod counters;
pub mod errors;
pub mod slow_log;
pub mod pace;
pub mod parameters;
pub mod poller;
pub mod signals;
pub mod listener;
pub mod budget;
pub mod mailbox;
pub mod gate;
pub mod client;
pub mod databases;
pub mod pubsub;
pub mod events;
pub mod tracking;
pub mod watching;
pub mod observer;
pub mod script;
pub mod content_types;
pub mod guesses;
pub mod state;
pub mod metrics;
pub mod limits_page;
pub mod output;
pub mod collection;
pub mod kind;
pub mod pages;
pub mod execute;
mod door;
mod connection;
mod worker;
mod upkeep;
mod watchdog;
pub mod server;
pub mod top;

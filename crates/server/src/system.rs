//! System: control group, files, clocks, signals, polling.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

pub mod cgroup; // what the control group of this process allows
pub(crate) mod named_file; // a file that an operator has named, read without waiting
pub mod process; // what the system knows about this process and its machine
pub(crate) mod ticker; // a thread that works from time to time
pub mod clock; // an event loop's clock, and the wall clock by it
pub mod poller; // which sockets are ready (epoll)
pub mod signals; // SIGTERM and SIGINT as a readable socket

//! System: control group, files, clocks, signals, epoll.
//!
//! The modules are in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

pub mod cgroup; // limits of the control group of this process
pub mod named_file; // reads an operator's file without blocking
pub mod process; // facts about this process and its machine
pub mod ticker; // a thread that runs a task periodically
pub mod clock; // an event loop's clock, and the wall clock derived from it
pub mod poller; // reports ready sockets (epoll)
pub mod signals; // SIGTERM and SIGINT as a readable socket

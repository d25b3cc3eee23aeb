//! Handover: what an old server and a new one say to each other, by the socket of `--control`.
//!
//! ```text
//! new process                                   old server
//! ask (versions)         ------------------>
//!                        <------------------  offer, with its listening sockets: it serves on
//! all that can fail has been done
//! take                   ------------------>  takes nobody in, answers what it has received
//!                        <------------------  clients, with their connections; yours
//! everything runs, and accepts nobody yet
//! mine                   ------------------>
//!                        <------------------  go: from here on there is one server, the new one
//! ```
//!
//! Until `go` an end leaves the old one serving. Why: docs/decisions/0056; tests/takeover.rs.

mod wire; // messages with descriptors
pub(crate) mod control_socket; // the socket of --control
pub(crate) mod hand_over; // the old server's side
mod claim; // the new process's side
pub(crate) mod control; // which of both sides a server begins with

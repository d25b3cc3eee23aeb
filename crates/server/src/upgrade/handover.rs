//! Handover: the protocol between an old server and a new one, on the socket of `--control`.
//!
//! ```text
//! new process                                   old server
//! ask (versions)         ------------------>
//!                        <------------------  offer, with its listening sockets: it serves on
//! all that can fail has been done
//! take                   ------------------>  stops accepting, answers received requests
//!                        <------------------  clients, with their connections; yours
//! everything runs, and accepts no client yet
//! mine                   ------------------>
//!                        <------------------  go: from here on only the new server serves
//! ```
//!
//! A failure before `go` keeps the old server serving. Why: docs/decisions/0056; tests/takeover.rs.

mod wire; // messages with descriptors
pub(crate) mod control_socket; // the socket of --control
pub(crate) mod hand_over; // the old server's side
mod claim; // the new process's side
pub(crate) mod control; // which of both sides a server begins with

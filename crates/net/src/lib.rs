//! Net: listeners, TLS, a connection's bytes in and out, messages between event loops.
//!
//! The modules are in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

pub mod tls; // certificates and keys
pub mod stream; // a connection's bytes, plain or encrypted
pub mod open_sockets; // listening sockets that another process passes
pub mod listener; // listening sockets, TCP and UNIX
pub mod open_addresses; // checks listeners that other machines can reach
pub mod mailbox; // messages between event loops
pub mod output; // pending replies of a connection

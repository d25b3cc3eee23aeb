//! Net: sockets, TLS, a connection's bytes, messages between event loops.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

pub mod tls; // certificates and keys
pub mod stream; // a connection's bytes, plain or encrypted
pub mod open_sockets; // listening sockets that another process passes
pub mod listener; // listening sockets, TCP and UNIX
pub mod open_addresses; // which listeners other machines can reach
pub mod mailbox; // messages between event loops
pub mod output; // replies of a connection that wait to be written

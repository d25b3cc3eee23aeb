//! Event loop: accepting connections, and the event loops that serve them.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

pub(crate) mod admission; // whether a new connection is accepted
pub(crate) mod handshakes; // TLS handshakes, beside the event loops
pub(crate) mod acceptor; // the thread that accepts connections
pub(crate) mod connection; // the state of one connection
pub(crate) mod worker; // the event loop and its phases

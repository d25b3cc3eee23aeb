//! Event loop: accepts connections and serves them.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub(crate) mod admission; // accepts or refuses a new connection
pub(crate) mod handshakes; // TLS handshakes, on a thread of their own
pub(crate) mod acceptor; // the thread that accepts connections
pub(crate) mod connection; // the state of one connection
pub(crate) mod worker; // the event loop and its phases

//! Upgrade: hot restart, and the sockets that systemd passes.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub(crate) mod client_handover; // clients that event loops hand over
pub(crate) mod notify; // messages to the service manager (sd_notify)
pub(crate) mod inherited; // sockets that a service manager passes
pub(crate) mod handover; // messages between the old process and the new one
pub mod restart; // continues with the cache of the previous process

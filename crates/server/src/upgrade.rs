//! Upgrade: hot restart: sockets, clients and cache that a process passes to the next.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

pub(crate) mod client_handover; // what the event loops give up for the next process
pub(crate) mod notify; // messages to the service manager (sd_notify)
pub(crate) mod inherited; // sockets that a service manager passes
pub(crate) mod handover; // messages between the old process and the new one
pub mod restart; // how a server continues with the cache of the one before it

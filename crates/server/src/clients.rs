//! Clients: memory of clients, Pub/Sub, tracking, blocking commands.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

pub mod budget; // the memory of all clients together, and which of them is closed for it
pub mod exclusive_lock; // stop-the-world sections: one event loop runs alone
pub mod pause; // CLIENT PAUSE
pub mod client; // a client as CLIENT LIST shows it
pub mod monitors; // MONITOR
pub mod pubsub; // channels and patterns
pub mod events; // keyspace events
pub mod tracking; // invalidation of near caches (CLIENT TRACKING)
pub mod waiters; // clients that are blocked by BLPOP and the like

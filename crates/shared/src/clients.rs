//! Clients: client memory, Pub/Sub, tracking, blocking commands, stop-the-world sections.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod budget; // memory limit of all clients together
pub mod transfers; // memory of values that are being received or sent
pub mod exclusive_lock; // stop-the-world sections
pub mod pause; // CLIENT PAUSE
pub mod client; // one client, as in CLIENT LIST
pub mod monitors; // MONITOR
pub mod pubsub; // channels and patterns
pub mod events; // keyspace events
pub mod tracking; // invalidation of near caches (CLIENT TRACKING)
pub mod waiters; // clients blocked by BLPOP and related commands

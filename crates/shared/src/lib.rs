//! What all event loops share: users, clients, databases, counters, metrics. [`state::State`] holds
//! all of it.
//!
//! The modules are in layer order: a module imports only modules declared above it.
#![forbid(unsafe_code)]

pub mod observe; // counters, command logs, hot keys, history
pub mod auth; // users, limits on wrong passwords, unauthenticated connections
pub mod clients; // client memory, Pub/Sub, tracking, blocking commands, stop-the-world sections
pub mod keyspace; // numbered databases, default TTLs, `WATCH`, notifications about items
pub mod state; // the state that all event loops share
pub mod metrics; // metrics for Prometheus and OpenTelemetry

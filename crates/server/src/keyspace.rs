//! Keyspace: the numbered databases, and what happens to their keys.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

pub mod names; // names of databases and content types, kept beside the cache
pub mod databases; // the numbered databases of SELECT
pub mod watching; // WATCH
pub(crate) mod deadlines; // keys whose expiry has to be reported
pub mod observer; // what is told about changes of items, over any protocol
pub mod content_types; // content types of values stored over HTTP
pub mod default_ttls; // the TTL of items that are stored without one
pub mod kind; // kinds of values

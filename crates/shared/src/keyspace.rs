//! Keyspace: numbered databases, default TTLs, `WATCH`, notifications about items.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod names; // with --state: stores names of databases and content types
pub mod databases; // numbered databases of SELECT
pub mod compression; // what compression saves, by key prefix
pub mod watching; // WATCH
pub mod deadlines; // keys whose expiry must be reported
pub mod observer; // notifies tracking, WATCH and blocked clients of changes
pub mod content_types; // content types of values stored over HTTP
pub mod default_ttls; // TTLs of items that are stored without one
pub mod kind; // data types of values

//! Observe: counters, command logs, hot keys, history.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod counters; // counters of each event loop
pub mod statistics; // the counters of all threads, and their values at the last reset
pub mod error_stats; // error replies to Redis clients, by their first word
pub mod command_log; // slow commands, large requests, large replies
pub mod hot_keys; // HOTKEYS: the keys that cost most
pub mod latency_events; // events of LATENCY
pub mod acl_log; // ACL LOG: denied logins and commands
pub mod history; // metrics and events of the last 24 hours
pub mod rates; // rates over the last second and a half
pub mod records; // all of these but the counters, of one server

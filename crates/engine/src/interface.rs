//! Interface: the types of the engine's public operations, their options and their results.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod outcome; // results of operations
pub(crate) mod observer; // notifications of changes
pub mod config; // how a cache is made
pub mod options; // options of operations
pub mod stats; // statistics of a whole cache

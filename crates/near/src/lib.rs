//! A near cache: typed values in the process itself, in front of a server.
//!
//! [`Local`] is the store; it can be used alone, without any server.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

#![forbid(unsafe_code)]

pub mod clock;
pub mod local;

pub use clock::Clock;
pub use local::{Cause, InsertOptions, Local, LocalBuilder, LocalStats, Policy};

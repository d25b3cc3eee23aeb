//! Base: what all parts of the engine use: time, errors, kinds of values, the encoding of a saved
//! state.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod clock; // time
pub mod vector; // loops compiled for wide registers
pub(crate) mod space; // key spaces and kinds of values
pub mod error; // why the engine refuses an operation
pub(crate) mod serialize; // the encoding of a saved state

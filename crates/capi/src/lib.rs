//! Cellar's local store and near cache for C, and by `include/cellar/near.hpp` for C++.
//!
//! Each function of the C interface goes through [`border`]: wrong arguments, failures and panics
//! become a status and a text. The caller makes values in memory that the library allocates, and
//! the library returns references to them.
//!
//! The modules are in layer order: a module imports only modules declared above it. Of the near
//! cache's crates, only this one has unsafe code, each block with its condition; the header,
//! `include/cellar/near.h`, which is generated from these files, states the conditions for callers.
//!
//! Why: docs/decisions/0038-a-blocking-face-and-c.md. Guide: docs/near-cxx.md.

#![deny(unsafe_code)]

pub mod border; // the boundary between C and Rust
pub mod key; // the keys of a store: bytes or numbers
pub mod value; // values of the caller's types, in room of ours
pub mod store; // a local store, whatever its keys and values
pub mod local; // the local store's functions
pub mod codec; // the caller's values as the bytes of an origin
pub mod near_options; // settings of a near cache, and its server
pub mod near; // the near cache's functions

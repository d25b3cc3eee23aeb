//! Cellar's local store and near cache for C, and by `include/cellar/near.hpp` for C++.
//!
//! Each function of the C interface goes through [`border`]: what is wrong with its arguments, what
//! fails and what panics becomes a status and a text. Values are made by the caller in room that
//! the library gives, and handed out by reference.
//!
//! The modules stand in layer order: a module imports only modules declared above it. This crate
//! alone of the near cache's has unsafe code, each block with its condition; what the callers have
//! to keep stands in the header, `include/cellar/near.h`, which is made from these files.
//!
//! Why: docs/decisions/0038-a-blocking-face-and-c.md. Guide: docs/near-cxx.md.

#![deny(unsafe_code)]

pub mod border; // what crosses between C and Rust, and what never does
pub mod key; // the keys of a store: bytes or numbers
pub mod value; // values of the caller's types, in room of ours
pub mod store; // a local store, whatever its keys and values
pub mod local; // the local store's functions
pub mod codec; // the caller's values as the bytes of an origin
pub mod near_options; // what a near cache is, and the server it reads
pub mod near; // the near cache's functions

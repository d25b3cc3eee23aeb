//! memcached's protocols from the server's side: text, classic and meta, and [`binary`].
//!
//! For text, [`decode`] turns received bytes into a [`Request`] that borrows them; [`reply`]
//! appends answers to a buffer; [`command`] is the table of supported commands. The reference is
//! memcached 1.6.45, its error texts included; deliberate differences are listed in
//! conformance/README.md.
//!
//! Invariant: bytes from a peer never panic, and cutting the input anywhere changes no answer.
//! Tests: beside each module; tests/decode.rs; conformance/memcached; fuzz/.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod client;
pub mod number;
pub mod token;
pub mod base64;
pub mod refusal;
pub mod meta;
pub mod request;
pub mod decode; // how bytes become a request
pub mod reply; // replies and error texts
pub mod binary; // the binary protocol
pub mod command; // which commands there are

pub use decode::{Decoded, LINE_BYTES_MAX, Limits, decode, is_still_incomplete};
pub use meta::{Meta, OwnedMeta};
pub use refusal::Refused;
pub use request::{Get, Listing, Request, Stats, Storage, Store, Verb};

/// Longest key in bytes, after base64 is undone.
pub const KEY_BYTES_MAX: usize = 250;

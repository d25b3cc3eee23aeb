//! Redis's protocol, RESP2 and RESP3, from the server's side.
//!
//! [`decode`] turns received bytes into a borrowed [`Request`]; [`Reply`] appends answers to a
//! buffer; [`command`] is the table of supported commands. The reference is Redis: 7's error texts
//! and 7.4's commands.
//!
//! Invariant: bytes from a peer never panic, and cutting the input anywhere changes no request.
//! Tests: beside each module; tests/resp_decode.rs, tests/hostile.rs; fuzz/properties/resp.rs.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod number;
pub mod slot; // which slot of a cluster a key is in
pub mod glob;
pub mod command;
pub mod request;
pub mod decode; // decodes bytes to requests
pub mod reply;
pub mod value;

pub use command::{Command, Verb};
pub use decode::unquoted_words;
pub use decode::{Decoded, Limits, Plain, Scan, Tail, decode, decode_plain, decode_tail};
pub use reply::{Proto, Reply};
pub use request::{Args, Request};
pub use value::Value;

//! HTTP/1.1 and 1.0 from the server's side.
//!
//! [`decode`] turns received bytes into a borrowed [`Request`]; [`Chunks`] takes a chunked body
//! apart; [`reply`] appends responses to a buffer. Where two readers of the same bytes could
//! disagree about where a request ends, the request is [`Refused`] and the connection closed.
//!
//! Invariant: bytes from a peer never panic, and cutting the input anywhere changes no request.
//! Tests: beside each module; tests/http_decode.rs; conformance/http; fuzz/.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod status;
pub mod target;
pub mod request;
pub mod chunks;
mod plain; // heads as nearly all clients send them
pub mod decode; // decodes bytes to requests
pub mod reply;

pub use chunks::{Chunks, Fed};
pub use decode::{Body, Decoded, Limits, Refused, Scan, decode};
pub use request::{Kept, Mark, Marks, Method, Request};
pub use status::Status;
pub use target::Target;

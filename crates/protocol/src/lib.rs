//! Wire codecs: bytes to requests, replies to bytes; sans I/O.
//!
//! A codec never reads, writes or waits: it decodes the bytes received so far, without an
//! allocation for common requests. ARCHITECTURE.md describes where the bytes come from and go to.
#![forbid(unsafe_code)]

mod printable; // text of a client in a log line
pub mod search; // the position of a byte that is near
mod length_line; // the line with a value's length
pub mod memcached; // memcached's protocols, text and binary, from the server's side
pub mod resp; // Redis's protocol, RESP2 and RESP3, from the server's side
pub mod http; // HTTP/1.1 and 1.0 from the server's side

pub use printable::printable;

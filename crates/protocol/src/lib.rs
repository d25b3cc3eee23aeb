//! Wire codecs: bytes to requests, replies to bytes; sans I/O.
//!
//! A codec never reads, writes, waits or allocates for a request: it looks at the bytes received so
//! far and says what they are. ARCHITECTURE.md tells where the bytes come from and go to.
#![forbid(unsafe_code)]

pub mod memcached;

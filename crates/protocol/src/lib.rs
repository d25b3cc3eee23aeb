//! Wire codecs: bytes to requests, replies to bytes; sans I/O.
//!
//! A codec never reads, writes or waits: it looks at the bytes received so far and says what they
//! are, without an allocation for what caches are usually asked. ARCHITECTURE.md tells where the
//! bytes come from and go to.
#![forbid(unsafe_code)]

pub mod memcached;
pub mod resp;
pub mod http;
pub mod page;

//! Wire codecs: bytes to requests, replies to bytes; sans I/O.
#![forbid(unsafe_code)]

pub mod memcached;

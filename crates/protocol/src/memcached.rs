//! memcached's protocol.

pub mod client;

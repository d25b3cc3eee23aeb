//! JSON: the library `cjson`.
//!
//! Source: the manual of lua-cjson 2.1; answers and errors of redis-server 7.

pub(super) mod choose;
mod number; // numbers as C reads them
pub(super) mod decode;
pub(super) mod encode;

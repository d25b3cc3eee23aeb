//! A connection, with a cache behind it, against any bytes.
#![no_main]

#[path = "../properties/execute.rs"]
mod execute;
#[path = "../../crates/server/tests/support/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|data: &[u8]| execute::check(data));

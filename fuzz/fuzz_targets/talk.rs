//! A connection of Redis's protocol, with a cache behind it, against any bytes.
#![no_main]

#[path = "../../crates/server/tests/support/session.rs"]
mod session;
#[path = "../../crates/server/tests/support/talk.rs"]
mod talk;
#[path = "../properties/talk.rs"]
mod talks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| talks::check(data));

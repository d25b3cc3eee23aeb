//! Commands of Redis with arguments of all sizes.
#![no_main]

#[path = "../properties/commands.rs"]
mod commands;
#[path = "../../crates/server/tests/support/session.rs"]
mod session;
#[path = "../../crates/server/tests/support/talk.rs"]
mod talk;
#[path = "../properties/talk.rs"]
mod talks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| commands::check(data));

//! Scripts against any text.
#![no_main]

#[path = "../properties/script.rs"]
mod script;
#[path = "../../crates/server/tests/support/session.rs"]
mod session;
#[path = "../../crates/server/tests/support/talk.rs"]
mod talk;
#[path = "../properties/talk.rs"]
mod talks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| script::check(data));

//! The engine against any operations.
#![no_main]

#[path = "../properties/engine.rs"]
mod engine;

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::check(data));

//! What a process left of its cache, changed by anybody, is not believed.
#![no_main]

#[path = "../properties/left.rs"]
#[allow(dead_code, reason = "each target uses a part of it")]
mod left;

libfuzzer_sys::fuzz_target!(|data: &[u8]| left::check(data));

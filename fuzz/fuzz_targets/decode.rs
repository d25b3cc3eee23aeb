//! The decoder against any bytes.
#![no_main]

#[path = "../properties/decode.rs"]
mod decode;

libfuzzer_sys::fuzz_target!(|data: &[u8]| decode::check(data));

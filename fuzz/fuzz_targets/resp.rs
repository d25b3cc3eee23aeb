//! The RESP decoder against any bytes.
#![no_main]

#[path = "../properties/resp.rs"]
mod resp;

libfuzzer_sys::fuzz_target!(|data: &[u8]| resp::check(data));

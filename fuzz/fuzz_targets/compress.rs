//! What is compressed comes back as it was.
#![no_main]

#[path = "../properties/compress.rs"]
mod compress;

libfuzzer_sys::fuzz_target!(|data: &[u8]| compress::check(data));

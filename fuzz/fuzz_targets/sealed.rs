//! The server behind a handshake: what is encrypted is read as it was written.
#![no_main]

#[path = "../properties/tls.rs"]
#[allow(dead_code, reason = "each target uses a part of it")]
mod tls;

libfuzzer_sys::fuzz_target!(|data: &[u8]| tls::check_sealed(data));

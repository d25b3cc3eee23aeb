//! memcached's binary protocol: its decoder, and a connection with a cache behind it.
#![no_main]

#[path = "../properties/execute.rs"]
mod execute;
#[path = "../properties/packets.rs"]
mod packets;
#[path = "../../crates/server/tests/support/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    packets::check(data);
    execute::check_binary(data);
});

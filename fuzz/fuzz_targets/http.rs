//! The HTTP decoder, and a connection for HTTP, against any bytes.
#![no_main]

#[path = "../properties/execute.rs"]
mod execute;
#[path = "../properties/http.rs"]
mod http;
#[path = "../../crates/server/tests/support/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    http::check(data);
    execute::check_http(data);
});

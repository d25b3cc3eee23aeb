//! The codecs through their public interface: one program of all tests, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod binary_decode;
mod commands_page;
mod decode;
mod glob;
mod hostile;
mod http_decode;
mod resp_decode;

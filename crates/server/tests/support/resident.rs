//! What a server occupies, and a quick way to make it store much.

use std::io::Write;
use std::net::TcpStream;

use super::daemon::{Daemon, check};
use super::vitals;

/// Memory a server may occupy beside `--memory` and its connections, without the program's file:
/// that has 8 of the 16 MiB which `docs/limits.md` allows for the program.
const BASE_BYTES: usize = (8 << 20) + HISTORY_BYTES;
/// What the console is told of the last 24 hours.
const HISTORY_BYTES: usize = 1 << 20;
const CONNECTION_BYTES: usize = 64 << 10;
/// Bytes of requests that are sent before an answer is waited for.
const BATCH_BYTES: usize = 256 << 10;

/// Checks that the server occupies no more than its `memory_bytes`, the base, and some for each of
/// so many connections, now and at its peak.
pub(crate) fn check_resident(daemon: &Daemon, memory_bytes: usize, connections: usize) {
    let max = memory_bytes + BASE_BYTES + connections * CONNECTION_BYTES;
    for name in ["VmHWM", "VmRSS"] {
        let bytes = occupied_bytes(daemon, name);
        let beside = bytes.saturating_sub(memory_bytes) >> 10;
        eprintln!("{name}: {beside} KiB beside --memory with {connections} connections");
        assert!(bytes <= max, "{name}: {bytes} bytes are more than {max}");
    }
}

/// Memory that the server's process occupies; see [`vitals::occupied_bytes`].
pub(crate) fn occupied_bytes(daemon: &Daemon, name: &str) -> usize {
    vitals::occupied_bytes(daemon.id(), name)
}

/// Sends requests without answers in batches.
pub(crate) struct Sender {
    stream: TcpStream,
    requests: Vec<u8>,
}

impl Sender {
    pub(crate) fn new(daemon: &Daemon) -> Sender {
        Sender {
            stream: daemon.connect(),
            requests: Vec::new(),
        }
    }

    /// Stores a value of so many bytes.
    pub(crate) fn store(&mut self, key: &str, value_bytes: usize, ttl_s: u64) {
        let line = format!("set {key} 0 {ttl_s} {value_bytes} noreply\r\n");
        self.requests.extend_from_slice(line.as_bytes());
        self.requests
            .resize(self.requests.len() + value_bytes, b'v');
        self.request(b"\r\n");
    }

    /// Sends any request that has no answer.
    pub(crate) fn request(&mut self, request: &[u8]) {
        self.requests.extend_from_slice(request);
        if self.requests.len() > BATCH_BYTES {
            self.finish();
        }
    }

    /// Waits until all has been executed.
    pub(crate) fn finish(&mut self) {
        self.stream.write_all(&self.requests).unwrap();
        self.requests.clear();
        check(&mut self.stream, b"mn\r\n", b"MN\r\n");
    }
}

/// Numbers that look random and are the same on every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

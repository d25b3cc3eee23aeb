//! Ports: those at which tests start other programs, which cannot choose one themselves.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// First of the ports that servers get: below those that the system gives to clients, so that
/// nobody else takes one before its server does.
const PORT_FIRST: u32 = 10_000;
/// How many ports there are. A node of a cluster takes the one 10,000 above its own, too.
const PORTS: u32 = 10_000;

/// A port that nobody listens at; no other test of this process gets it.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Processes that run at the same time begin at different ports.
        let start = std::process::id().wrapping_mul(211);
        let next = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS;
        let port = u16::try_from(PORT_FIRST + next).expect("it is below 20,000");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

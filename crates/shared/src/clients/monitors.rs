//! Monitors: clients that receive each RESP command as it runs (MONITOR).
//!
//! Without monitors the feature costs nothing: a flag in the call counters selects the commands to
//! look at ([`Calls::look_at_all`](crate::observe::counters::Calls::look_at_all)). A line goes into
//! the inboxes of all monitors; one that does not read is disconnected, like a subscriber.
//!
//! Source: redis.io/docs/latest/commands/monitor. Tests: below, server/tests/monitor.rs.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::clients::client::Client;

/// Most clients that monitor at one time.
pub const MONITORS_MAX: usize = 64;
/// Arguments that a line shows.
const ARGS_MAX: usize = 1_024;
/// Most bytes shown of an argument.
const ARG_BYTES_MAX: usize = 1_024;

/// The monitoring clients.
#[derive(Debug, Default)]
pub struct Monitors {
    clients: RwLock<BTreeMap<u64, Arc<Client>>>,
    // Relaxed: a client that starts to monitor does not wait for the readers of the count.
    count: AtomicUsize,
}

/// The origin of a command.
#[derive(Clone, Copy, Debug)]
pub struct MonitorSource<'a> {
    /// When the command ran, as a Unix time in microseconds.
    pub unix_us: u64,
    /// Its database.
    pub database: u32,
    /// The client's address, or that it is a script's.
    pub peer: &'a str,
}

impl Monitors {
    /// Whether any client monitors.
    #[inline]
    #[must_use]
    pub fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Adds a client; returns whether the limit allowed it.
    pub fn add(&self, client: &Arc<Client>) -> bool {
        let mut clients = self.clients.write();
        if clients.len() == MONITORS_MAX && !clients.contains_key(&client.id) {
            return false;
        }
        clients.insert(client.id, Arc::clone(client));
        self.count.store(clients.len(), Ordering::Relaxed);
        true
    }

    /// Stops MONITOR for a client.
    pub fn remove(&self, client: &Client) {
        let mut clients = self.clients.write();
        clients.remove(&client.id);
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// Sends a command to all monitors.
    pub fn show(&self, origin: MonitorSource<'_>, args: &[&[u8]]) {
        let line = line(origin, args);
        let clients = self.clients.read();
        for client in clients.values() {
            client.push(|out| out.extend_from_slice(&line));
        }
    }
}

fn line(origin: MonitorSource<'_>, args: &[&[u8]]) -> Vec<u8> {
    let MonitorSource {
        unix_us,
        database,
        peer,
    } = origin;
    let mut line = Vec::new();
    // Writing to memory does not fail.
    let _ = write!(
        line,
        "+{}.{:06} [{database} {peer}]",
        unix_us / 1_000_000,
        unix_us % 1_000_000
    );
    for arg in args.iter().take(ARGS_MAX) {
        line.extend_from_slice(b" \"");
        let shown = &arg[..arg.len().min(ARG_BYTES_MAX)];
        shown.iter().for_each(|&byte| escape(&mut line, byte));
        line.push(b'"');
        if shown.len() < arg.len() {
            let _ = write!(line, "... ({} more bytes)", arg.len() - shown.len());
        }
    }
    if args.len() > ARGS_MAX {
        let _ = write!(line, " ... ({} more arguments)", args.len() - ARGS_MAX);
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// A byte as Redis shows it, so that a line stays one.
fn escape(line: &mut Vec<u8>, byte: u8) {
    match byte {
        b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
        b'\n' => line.extend_from_slice(b"\\n"),
        b'\r' => line.extend_from_slice(b"\\r"),
        b'\t' => line.extend_from_slice(b"\\t"),
        0x07 => line.extend_from_slice(b"\\a"),
        0x08 => line.extend_from_slice(b"\\b"),
        b' '..=b'~' => line.push(byte),
        _ => {
            // Writing to memory does not fail.
            let _ = write!(line, "\\x{byte:02x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::client::{Clients, Seat};

    #[test]
    fn a_line_is_one_whatever_is_in_it() {
        let origin = MonitorSource {
            unix_us: 1_795_491_658_000_871,
            database: 3,
            peer: "127.0.0.1:47712",
        };
        let shown = line(origin, &[b"set", b"a\x00\r\n\t\x07\x08\"\\\xc3\xa9"]);
        let expected =
            br#"+1795491658.000871 [3 127.0.0.1:47712] "set" "a\x00\r\n\t\a\b\"\\\xc3\xa9""#;
        assert_eq!(shown, [&expected[..], b"\r\n"].concat());
        let long = vec![b'x'; 2_000];
        let many = vec![&long[..]; 2_000];
        let shown = line(origin, &many);
        assert!(shown.len() < 2_200_000);
        assert!(shown.ends_with(b"\"... (976 more bytes) ... (976 more arguments)\r\n"));
    }

    #[test]
    fn only_so_many_monitor() {
        let (clients, monitors) = (Clients::default(), Monitors::default());
        let new = || clients.add(Seat::default(), None, 0);
        let first = new();
        assert!(!monitors.are_there());
        assert!(monitors.add(&first) && monitors.add(&first));
        assert!((1..MONITORS_MAX).all(|_| monitors.add(&new())));
        assert!(monitors.add(&first) && !monitors.add(&new()));
        monitors.remove(&first);
        assert!(monitors.are_there() && monitors.add(&new()));
    }
}

//! Command logs: the commands that took longest, and those with large requests or replies, for
//! SLOWLOG and COMMANDLOG.
//!
//! Each log is a list behind a lock that only its commands take, bounded in entries and, by
//! [`COMMAND_LOG_BYTES_MAX`], in bytes. Commands of constant time are timed by sample, and each of
//! them if a threshold is below what they could reach ([`CommandLogs::are_for_quick`]).
//!
//! Source: redis.io/docs/latest/commands/slowlog-get; valkey.io/commands/commandlog-get.
//!
//! Tests: server/tests/resp_admin.rs, server/tests/resp_command_log.rs, server/tests/resp_times.rs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cellar_config::limits::{COMMAND_LOG_BYTES_MAX, COMMAND_LOG_ENTRIES_MAX};
use parking_lot::Mutex;

/// A threshold, in microseconds, that commands of constant time do not reach.
const QUICK_US_MAX: i64 = 1_000;
/// A command of constant time is recorded if one of its arguments has this length, and otherwise
/// its reply is if that has.
pub const LARGE_BYTES_MIN: usize = 32 << 10;
/// A threshold, in bytes, that the few arguments of other commands of constant time do not reach.
const QUICK_REQUEST_BYTES_MAX: i64 = 1 << 20;
/// Arguments that an entry keeps.
const ARGS_MAX: usize = 32;
/// Bytes of an argument that an entry keeps.
const ARG_BYTES_MAX: usize = 128;

/// The kind of a log, and its index among the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Commands that took long, by microseconds.
    Slow,
    /// Commands whose requests were large, by bytes.
    LargeRequest,
    /// Commands whose replies were large, by bytes.
    LargeReply,
}

impl LogKind {
    /// All of them.
    pub const ALL: [LogKind; 3] = [LogKind::Slow, LogKind::LargeRequest, LogKind::LargeReply];
}

/// One command in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCommand {
    /// Its number, never used twice.
    pub id: i64,
    /// When it ran, as a Unix time in seconds.
    pub unix_s: u64,
    /// How long it took, in microseconds, or how large it was, in bytes.
    pub amount: u64,
    /// Its arguments, long and further ones cut off.
    pub args: ShownArgs,
    /// The client's address.
    pub peer: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// Arguments as they are shown, in one buffer, so that ten thousand entries are freed quickly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownArgs {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl ShownArgs {
    /// Number of arguments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it has no arguments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// They, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let places = starts.zip(&self.ends);
        places.map(|(start, &end)| &self.bytes[start as usize..end as usize])
    }

    /// Bytes of memory that they take.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + size_of::<u32>() * self.ends.capacity()
    }

    /// Ends the argument being added; each is short, and their number is small.
    fn end_one(&mut self) {
        self.ends.push(self.bytes.len() as u32);
    }
}

impl LoggedCommand {
    /// Its memory, in bytes.
    fn bytes(&self) -> usize {
        size_of::<LoggedCommand>() + self.args.held_bytes() + self.peer.len() + self.name.len()
    }
}

#[derive(Debug, Default)]
struct Entries {
    last: i64,
    newest_first: VecDeque<Arc<LoggedCommand>>,
    most: usize,
    /// Bytes of all of them.
    bytes: usize,
}

impl Entries {
    /// Removes the oldest entries until the limits are met.
    fn shrink(&mut self) {
        while self.newest_first.len() > self.most || self.bytes > COMMAND_LOG_BYTES_MAX {
            let Some(oldest) = self.newest_first.pop_back() else {
                return;
            };
            self.bytes -= oldest.bytes();
        }
    }
}

/// A log of commands.
#[derive(Debug)]
pub struct CommandLog {
    // Relaxed: a setting that orders nothing.
    threshold: AtomicI64,
    entries: Mutex<Entries>,
}

impl CommandLog {
    fn of(threshold: i64) -> CommandLog {
        let entries = Entries {
            most: 128,
            ..Entries::default()
        };
        CommandLog {
            threshold: AtomicI64::new(threshold),
            entries: Mutex::new(entries),
        }
    }

    /// The smallest amount that is logged; negative if nothing is.
    #[inline]
    fn threshold(&self) -> i64 {
        // Relaxed: a setting that orders nothing.
        self.threshold.load(Ordering::Relaxed)
    }

    /// Whether a command with this amount is logged.
    #[inline]
    #[must_use]
    pub fn takes(&self, amount: u64) -> bool {
        u64::try_from(self.threshold()).is_ok_and(|threshold| amount >= threshold)
    }

    /// Changes the smallest amount that is logged; negative for nothing.
    pub fn set_threshold(&self, threshold: i64) {
        // Relaxed: a setting that orders nothing.
        self.threshold.store(threshold, Ordering::Relaxed);
    }

    /// Changes how many entries are kept.
    pub fn set_most(&self, most: usize) {
        let mut entries = self.entries.lock();
        entries.most = most.min(COMMAND_LOG_ENTRIES_MAX);
        entries.shrink();
    }

    /// Adds a command, which gets its number here.
    pub fn add(&self, entry: LoggedCommand) {
        let mut entries = self.entries.lock();
        let entry = LoggedCommand {
            id: entries.last,
            ..entry
        };
        entries.last += 1;
        entries.bytes += entry.bytes();
        entries.newest_first.push_front(Arc::new(entry));
        entries.shrink();
    }

    /// The newest entries, at most `count`.
    pub fn newest(&self, count: usize) -> Vec<Arc<LoggedCommand>> {
        self.entries
            .lock()
            .newest_first
            .iter()
            .take(count)
            .cloned()
            .collect()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.lock().newest_first.len()
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        let mut entries = self.entries.lock();
        entries.newest_first = VecDeque::new();
        entries.bytes = 0;
    }
}

/// The logs, one of each kind.
#[derive(Debug)]
pub struct CommandLogs([CommandLog; 3]);

impl Default for CommandLogs {
    fn default() -> CommandLogs {
        CommandLogs([10_000, 1 << 20, 1 << 20].map(CommandLog::of))
    }
}

impl CommandLogs {
    /// The log of a kind.
    #[inline]
    #[must_use]
    pub fn of(&self, kind: LogKind) -> &CommandLog {
        &self.0[kind as usize]
    }

    /// Whether commands of constant time may be logged that are usually only sampled.
    #[must_use]
    pub fn are_for_quick(&self) -> bool {
        let reaches = [
            QUICK_US_MAX,
            QUICK_REQUEST_BYTES_MAX,
            LARGE_BYTES_MIN as i64,
        ];
        let mut logs = self.0.iter().zip(reaches);
        logs.any(|(log, reach)| (0..reach).contains(&log.threshold()))
    }
}

/// Arguments as a log shows them.
///
/// Source: Redis 7, `slowlogCreateEntry`.
#[must_use]
pub fn shortened(args: &[&[u8]]) -> ShownArgs {
    let kept = if args.len() > ARGS_MAX {
        ARGS_MAX - 1
    } else {
        args.len()
    };
    let mut shown = ShownArgs::default();
    for arg in &args[..kept] {
        let rest = arg.len().saturating_sub(ARG_BYTES_MAX);
        shown.bytes.extend_from_slice(&arg[..arg.len() - rest]);
        if rest > 0 {
            let text = format!("... ({rest} more bytes)");
            shown.bytes.extend_from_slice(text.as_bytes());
        }
        shown.end_one();
    }
    if kept < args.len() {
        let text = format!("... ({} more arguments)", args.len() - kept);
        shown.bytes.extend_from_slice(text.as_bytes());
        shown.end_one();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &[u8]) -> LoggedCommand {
        LoggedCommand {
            id: 0,
            unix_s: 1,
            amount: 2,
            args: shortened(&[name]),
            peer: String::new(),
            name: Vec::new(),
        }
    }

    #[test]
    fn the_log_keeps_the_newest() {
        let log = CommandLog::of(0);
        log.set_most(2);
        for name in [b"one".as_slice(), b"two", b"three"] {
            log.add(entry(name));
        }
        let kept: Vec<i64> = log.newest(10).iter().map(|entry| entry.id).collect();
        assert_eq!(kept, [2, 1]);
        log.clear();
        assert!(log.is_empty());
    }

    #[test]
    fn entries_are_bounded_in_bytes_and_the_oldest_go_first() {
        let log = CommandLog::of(0);
        log.set_most(usize::MAX);
        let wide = [b'y'; 300];
        let added = 10_000;
        for _ in 0..added {
            log.add(LoggedCommand {
                args: shortened(&[wide.as_slice(); 40]),
                ..entry(b"")
            });
        }
        let kept = log.newest(usize::MAX);
        let bytes: usize = kept.iter().map(|entry| entry.bytes()).sum();
        assert!(bytes <= COMMAND_LOG_BYTES_MAX && bytes > COMMAND_LOG_BYTES_MAX / 10 * 9);
        assert_eq!(log.entries.lock().bytes, bytes);
        assert_eq!(kept[0].id, added - 1);
        assert!(kept.windows(2).all(|pair| pair[0].id == pair[1].id + 1));
        log.clear();
        assert_eq!(log.entries.lock().bytes, 0);
        log.add(entry(b"one"));
        assert_eq!(log.len(), 1);
    }

    #[test]
    fn quick_commands_are_looked_at_if_a_threshold_is_below_what_they_reach() {
        let logs = CommandLogs::default();
        assert!(!logs.are_for_quick());
        for (kind, threshold) in [
            (LogKind::Slow, 500),
            (LogKind::LargeRequest, QUICK_REQUEST_BYTES_MAX - 1),
            (LogKind::LargeReply, 0),
        ] {
            logs.of(kind).set_threshold(threshold);
            assert!(logs.are_for_quick(), "{kind:?}");
            logs.of(kind).set_threshold(-1);
            assert!(!logs.are_for_quick() && !logs.of(kind).takes(u64::MAX));
        }
    }

    #[test]
    fn what_is_long_is_cut_off() {
        let long = [b'x'; 200];
        let many = vec![long.as_slice(); 40];
        let shown = shortened(&many);
        let shown: Vec<&[u8]> = shown.iter().collect();
        assert_eq!(shown.len(), 32);
        assert_eq!(shown[0].len(), 128 + 19);
        assert!(shown[0].ends_with(b"x... (72 more bytes)"));
        assert_eq!(shown[31], b"... (9 more arguments)");
    }
}

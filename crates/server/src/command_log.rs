//! Slow log: the commands that took longest, for SLOWLOG.
//!
//! A list behind a lock that only slow commands take, bounded in entries and, by
//! [`SLOW_LOG_BYTES_MAX`], in bytes. Commands of constant time are timed
//! by sample, and each of them if the threshold is below what they could reach
//! ([`CommandLog::is_for_quick`]).
//!
//! Tests: tests/resp_admin.rs, tests/resp_times.rs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::{SLOW_LOG_BYTES_MAX, SLOW_LOG_ENTRIES_MAX};

/// A threshold, in microseconds, that commands of constant time do not reach.
const QUICK_US_MAX: i64 = 1_000;
/// Arguments that an entry keeps.
const ARGS_MAX: usize = 32;
/// Bytes of an argument that an entry keeps.
const ARG_BYTES_MAX: usize = 128;

/// One slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCommand {
    /// Its number, never used twice.
    pub id: i64,
    /// When it ran, as a Unix time in seconds.
    pub unix_s: u64,
    /// How long it took, in microseconds.
    pub us: u64,
    /// Its arguments, long and further ones cut off.
    pub args: ShownArgs,
    /// Who sent it.
    pub peer: String,
    /// The sender's name.
    pub name: Vec<u8>,
}

/// Arguments as they are shown, one behind the other: to free ten thousand entries does not take
/// long then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownArgs {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl ShownArgs {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
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

    /// Ends the one that is being added; each is short, and there are few.
    fn end_one(&mut self) {
        self.ends.push(self.bytes.len() as u32);
    }
}

impl LoggedCommand {
    /// What it takes, in bytes.
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
    /// Lets the oldest go until the bounds are kept.
    fn shrink(&mut self) {
        while self.newest_first.len() > self.most || self.bytes > SLOW_LOG_BYTES_MAX {
            let Some(oldest) = self.newest_first.pop_back() else {
                return;
            };
            self.bytes -= oldest.bytes();
        }
    }
}

/// The log.
#[derive(Debug)]
pub struct CommandLog {
    // Relaxed: a setting that orders nothing.
    threshold_us: AtomicI64,
    entries: Mutex<Entries>,
}

impl Default for CommandLog {
    fn default() -> CommandLog {
        let entries = Entries {
            most: 128,
            ..Entries::default()
        };
        CommandLog {
            threshold_us: AtomicI64::new(10_000),
            entries: Mutex::new(entries),
        }
    }
}

impl CommandLog {
    /// The shortest time, in microseconds, that is slow; negative if nothing is.
    #[inline]
    pub fn threshold_us(&self) -> i64 {
        // Relaxed: a setting that orders nothing.
        self.threshold_us.load(Ordering::Relaxed)
    }

    /// Whether commands of constant time may count as slow.
    #[must_use]
    pub fn is_for_quick(&self) -> bool {
        (0..QUICK_US_MAX).contains(&self.threshold_us())
    }

    /// Whether a command that took so long is slow.
    #[inline]
    #[must_use]
    pub fn is_slow(&self, us: u64) -> bool {
        u64::try_from(self.threshold_us()).is_ok_and(|threshold_us| us >= threshold_us)
    }

    /// Changes what counts as slow.
    pub fn set_threshold_us(&self, threshold_us: i64) {
        self.threshold_us.store(threshold_us, Ordering::Relaxed);
    }

    /// Changes how many entries are kept.
    pub fn set_most(&self, most: usize) {
        let mut entries = self.lock();
        entries.most = most.min(SLOW_LOG_ENTRIES_MAX);
        entries.shrink();
    }

    /// Adds a command, which gets its number here.
    pub fn add(&self, entry: LoggedCommand) {
        let mut entries = self.lock();
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
        self.lock()
            .newest_first
            .iter()
            .take(count)
            .cloned()
            .collect()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.lock().newest_first.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        let mut entries = self.lock();
        entries.newest_first = VecDeque::new();
        entries.bytes = 0;
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Arguments as the log shows them.
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
            us: 2,
            args: shortened(&[name]),
            peer: String::new(),
            name: Vec::new(),
        }
    }

    #[test]
    fn the_log_keeps_the_newest() {
        let log = CommandLog::default();
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
        let log = CommandLog::default();
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
        assert!(bytes <= SLOW_LOG_BYTES_MAX && bytes > SLOW_LOG_BYTES_MAX / 10 * 9);
        assert_eq!(log.lock().bytes, bytes);
        assert_eq!(kept[0].id, added - 1);
        assert!(kept.windows(2).all(|pair| pair[0].id == pair[1].id + 1));
        log.clear();
        assert_eq!(log.lock().bytes, 0);
        log.add(entry(b"one"));
        assert_eq!(log.len(), 1);
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

//! Queue: log lines on their way to standard error, written by their own thread.
//!
//! A log that is not read, or cannot be written, loses lines and has no other effect: logging never
//! blocks, and lines that do not fit into the queue or on the disk are counted ([`dropped`]).
//!
//! Invariant: nothing that can wait happens under the lock.
//! Tests: below, server/tests/logs.rs.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Builder;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::limits::{LOG_BYTES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX};

/// How long the last lines may take before the process ends without them.
const LAST_LINES: Duration = Duration::from_secs(2);
/// Appended to a truncated line.
const CUT: &[u8] = b"... (cut off)\n";

static QUEUE: LineQueue = LineQueue::new();
/// Whether a thread writes the queued lines.
// Relaxed: it is set once, before there are other threads.
static HAS_WRITER: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
struct WaitingLines {
    lines: VecDeque<Vec<u8>>,
    /// Bytes of all of them, and of the one that is being written.
    bytes: usize,
    is_writing: bool,
}

/// The lines that wait.
#[derive(Debug)]
struct LineQueue {
    waiting: Mutex<WaitingLines>,
    came: Condvar,
    gone: Condvar,
    // Relaxed: a count that orders nothing.
    dropped: AtomicU64,
}

impl LineQueue {
    const fn new() -> LineQueue {
        LineQueue {
            waiting: Mutex::new(WaitingLines {
                lines: VecDeque::new(),
                bytes: 0,
                is_writing: false,
            }),
            came: Condvar::new(),
            gone: Condvar::new(),
            dropped: AtomicU64::new(0),
        }
    }

    fn push(&self, line: &[u8]) {
        let line = cut(line);
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes + line.len();
        if waiting.lines.len() == LOG_LINES_MAX || bytes > LOG_BYTES_MAX {
            drop(waiting);
            self.note_dropped();
            return;
        }
        waiting.bytes = bytes;
        waiting.lines.push_back(line);
        drop(waiting);
        self.came.notify_one();
    }

    /// Waits for a line and gives it to `write`.
    fn write_next(&self, write: impl FnOnce(&[u8])) {
        let mut waiting = self.waiting.lock();
        self.came
            .wait_while(&mut waiting, |all| all.lines.is_empty());
        let line = waiting.lines.pop_front().unwrap_or_default();
        waiting.is_writing = true;
        drop(waiting);
        write(&line);
        let mut waiting = self.waiting.lock();
        waiting.is_writing = false;
        waiting.bytes -= line.len();
        drop(waiting);
        self.gone.notify_all();
    }

    /// Waits until all lines are written, for a limited time; returns whether they are.
    fn wait_for_last(&self, most: Duration) -> bool {
        let is_busy = |all: &mut WaitingLines| all.is_writing || !all.lines.is_empty();
        let mut waiting = self.waiting.lock();
        let waited = self.gone.wait_while_for(&mut waiting, is_busy, most);
        !waited.timed_out()
    }

    fn note_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// A line within its bound.
fn cut(line: &[u8]) -> Vec<u8> {
    if line.len() <= LOG_LINE_BYTES_MAX {
        return line.to_vec();
    }
    let mut end = LOG_LINE_BYTES_MAX - CUT.len();
    // Not within a character.
    while end > 0 && line[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    [&line[..end], CUT].concat()
}

/// Writes a line to standard error, or counts it.
fn write_straight(line: &[u8]) {
    if io::stderr().write_all(line).is_err() {
        QUEUE.note_dropped();
    }
}

/// Starts the thread. Without one, lines go straight to standard error.
pub(super) fn start() {
    let writer = Builder::new().name("cellar-log".to_owned());
    let writer = writer.spawn(|| {
        loop {
            QUEUE.write_next(write_straight);
        }
    });
    HAS_WRITER.store(writer.is_ok(), Ordering::Relaxed);
}

/// Lines that were not written: the log was not read, or could not be written.
#[must_use]
pub fn dropped() -> u64 {
    QUEUE.dropped.load(Ordering::Relaxed)
}

/// Waits for the lines that are on their way, not for long; whether all are out.
pub fn finish() -> bool {
    !HAS_WRITER.load(Ordering::Relaxed) || QUEUE.wait_for_last(LAST_LINES)
}

/// Writes lines by way of the queue; each write is a line.
#[derive(Debug)]
pub(super) struct QueuedLines;

impl Write for QueuedLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if HAS_WRITER.load(Ordering::Relaxed) {
            QUEUE.push(line);
        } else {
            write_straight(&cut(line));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines past the queue.
#[derive(Debug)]
pub(super) struct Straight;

impl Write for Straight {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write_straight(&cut(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_and_what_waits_is_bounded() {
        let queue = LineQueue::new();
        for _ in 0..2 * LOG_LINES_MAX {
            queue.push(b"short\n");
        }
        assert_eq!(queue.waiting.lock().lines.len(), LOG_LINES_MAX);
        let dropped = || queue.dropped.load(Ordering::Relaxed);
        assert_eq!(dropped(), LOG_LINES_MAX as u64);
        assert!(!queue.wait_for_last(Duration::ZERO));
        for _ in 0..LOG_LINES_MAX {
            queue.write_next(|line| assert_eq!(line, b"short\n"));
        }
        assert!(queue.wait_for_last(Duration::ZERO));
        assert_eq!(queue.waiting.lock().bytes, 0);
        let long = [b'x'; LOG_LINE_BYTES_MAX];
        let before = dropped();
        for _ in 0..LOG_LINES_MAX {
            queue.push(&long);
        }
        assert_eq!(queue.waiting.lock().bytes, LOG_BYTES_MAX);
        assert!(dropped() > before);
    }

    #[test]
    fn a_long_line_is_cut_off_between_characters() {
        let whole = "x".repeat(LOG_LINE_BYTES_MAX);
        assert_eq!(cut(whole.as_bytes()), whole.as_bytes());
        for begin in ["", "x"] {
            let line = [begin, &"\u{e4}".repeat(LOG_LINE_BYTES_MAX)].concat();
            let shown = String::from_utf8(cut(line.as_bytes())).unwrap();
            assert!(shown.len() <= LOG_LINE_BYTES_MAX && shown.ends_with("\u{e4}... (cut off)\n"));
        }
    }
}

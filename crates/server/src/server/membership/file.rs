//! File: a node list from a file, read again when it changes.
//!
//! Each node checks it at its own times, and while two of them follow different lists a client is
//! redirected back and forth until it gives up. So a list takes effect at a moment that all nodes
//! compute alike: [`NOTICE`] after the file was replaced.
//!
//! Tests: below, tests/cluster.rs.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use cellar_cluster::list::NodeList;
use cellar_system::named_file;
use rustix::time::{ClockId, clock_gettime};

use super::Signal;
use super::keeper::Keeper;

/// How often the file is checked.
const LOOK: Duration = Duration::from_millis(200);
/// Time from the file's change until its list takes effect: all nodes have checked by then.
const NOTICE: Duration = Duration::from_millis(500);
const _: () = assert!(
    NOTICE.as_millis() > 2 * LOOK.as_millis(),
    "everyone has looked"
);
/// Longest list.
const BYTES_MAX: u64 = 1 << 20;

/// The file.
pub(super) struct ListFile {
    path: PathBuf,
    /// The stamp of the last version that was read, or why it was not.
    seen: Result<ListStamp, String>,
}

/// Identifies a version of the file: device, inode, length, and time of change.
#[derive(Debug, PartialEq, Eq)]
struct ListStamp([i64; 5]);

impl ListStamp {
    fn of(facts: &Metadata) -> ListStamp {
        let number = |number: u64| number.cast_signed();
        ListStamp([
            number(facts.dev()),
            number(facts.ino()),
            number(facts.size()),
            facts.ctime(),
            facts.ctime_nsec(),
        ])
    }

    /// Time left until the list takes effect.
    fn notice_left(&self) -> Duration {
        let ListStamp([.., s, ns]) = self;
        let now = clock_gettime(ClockId::Realtime);
        notice_left((*s, *ns), (now.tv_sec, now.tv_nsec))
    }
}

/// The list that a file has.
fn list_of(bytes: Vec<u8>) -> Result<NodeList, String> {
    let text = String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8".to_owned())?;
    NodeList::parse(&text)
}

/// The same for the moments of the change and of now, in seconds and nanoseconds; zero if their
/// clocks disagree.
fn notice_left(changed: (i64, i64), now: (i64, i64)) -> Duration {
    let count = |(s, ns): (i64, i64)| s.saturating_mul(1_000_000_000).saturating_add(ns);
    let age_ns = u64::try_from(count(now).saturating_sub(count(changed)));
    age_ns.map_or(Duration::ZERO, |age_ns| {
        NOTICE.saturating_sub(Duration::from_nanos(age_ns))
    })
}

impl ListFile {
    pub(super) fn at(path: &Path) -> ListFile {
        ListFile {
            path: path.to_owned(),
            seen: Err(String::new()),
        }
    }

    /// Reads the list and follows it.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn read(&mut self, keeper: &Keeper) -> Result<(), String> {
        let read = self.bytes();
        self.seen = read.as_ref().map_or_else(
            |error| Err(error.to_string()),
            |(facts, _)| Ok(ListStamp::of(facts)),
        );
        let (_, bytes) = read.map_err(|error| error.to_string())?;
        keeper.follow(list_of(bytes)?)
    }

    /// Checks that the list can be read.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&self) -> Result<(), String> {
        let (_, bytes) = self.bytes().map_err(|error| error.to_string())?;
        list_of(bytes).map(drop)
    }

    fn bytes(&self) -> io::Result<(Metadata, Vec<u8>)> {
        let (file, facts) = named_file::open(&self.path)?;
        Ok((facts, named_file::read(file, BYTES_MAX)?))
    }

    /// Reads it again after each change, once that takes effect, until the end.
    pub(super) fn follow(mut self, keeper: &Keeper, signals: &Receiver<Signal>) {
        let source = format!("file:{}", self.path.display());
        let mut pause = LOOK;
        while signals.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            pause = LOOK;
            let now = std::fs::metadata(&self.path);
            let now = now.map_or_else(
                |error| Err(error.to_string()),
                |facts| Ok(ListStamp::of(&facts)),
            );
            if now == self.seen {
                continue;
            }
            let left = now.as_ref().map_or(Duration::ZERO, ListStamp::notice_left);
            if left > Duration::ZERO {
                pause = left;
                continue;
            }
            let outcome = self.read(keeper);
            keeper.judge(outcome, &source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_into_force_at_one_moment_whenever_it_is_seen() {
        let changed = (1_000, 900_000_000);
        for (now, left_ms) in [
            ((1_000, 900_000_000), 500),
            ((1_001, 100_000_000), 300),
            ((1_001, 399_000_000), 1),
            ((1_001, 400_000_000), 0),
            ((9_999, 0), 0),
            // A clock that is behind says nothing.
            ((1_000, 800_000_000), 0),
        ] {
            let left = notice_left(changed, now);
            assert_eq!(left, Duration::from_millis(left_ms), "{now:?}");
        }
    }
}

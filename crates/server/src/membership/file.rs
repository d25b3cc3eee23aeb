//! File: a list of nodes in a file, read anew when it changes.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::Signal;
use super::keeper::Keeper;
use crate::cluster::list::NodeList;
use crate::named_file;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Longest list.
const BYTES_MAX: u64 = 1 << 20;

/// The file.
pub(super) struct ListFile {
    path: PathBuf,
    /// What the system said of the one that was read last, or why it was not.
    seen: Result<ListStamp, String>,
}

/// By which a file is known to be another one: device, number, length, and when it changed.
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
        let text = String::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
        keeper.follow(NodeList::parse(&text)?)
    }

    fn bytes(&self) -> io::Result<(Metadata, Vec<u8>)> {
        let (file, facts) = named_file::open(&self.path)?;
        Ok((facts, named_file::read(file, BYTES_MAX)?))
    }

    /// Reads it again whenever it is another one, until the end.
    pub(super) fn follow(mut self, keeper: &Keeper, signals: &Receiver<Signal>) {
        let source = format!("file:{}", self.path.display());
        while signals.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let now = std::fs::metadata(&self.path);
            let now = now.map_or_else(
                |error| Err(error.to_string()),
                |facts| Ok(ListStamp::of(&facts)),
            );
            if now != self.seen {
                let outcome = self.read(keeper);
                keeper.judge(outcome, &source);
            }
        }
    }
}

//! Listing: KEYS, in steps.
//!
//! The engine may list a key twice, so keys are gathered in parts by their hashes, and each part is
//! sorted by itself before the first key is answered: no step has more to do than a part. What is
//! stored or removed between two steps is listed or not, as in SCAN.

use std::hash::{BuildHasher, RandomState};
use std::mem::take;
use std::sync::Arc;

use cellar_engine::{ScanCursor, Space};
use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::{Proto, Reply};

use crate::execute::context::Context;
use crate::execute::resp::call::steps::{Progress, STEP_BYTES, STEP_ITEMS, Work};
use crate::execute::resp::call::{Call, Outcome};
use crate::execute::resp::patterns::pattern;
use crate::output::Output;
use crate::users::User;

/// Parts that the keys of a listing are gathered in.
const PARTS: usize = 1_024;
/// What a stretch of the cache counts for beside the live items in it: there may be hundreds that
/// are over and have not been swept up yet.
const STRETCH_ITEMS: usize = 64;
/// Bytes that count for an item.
const ITEM_BYTES: usize = STEP_BYTES / STEP_ITEMS;

/// What a key takes beside its bytes.
const END_BYTES: usize = size_of::<usize>();

/// KEYS pattern.
pub(in crate::execute::resp) fn keys(call: &mut Call<'_>) -> Outcome {
    let listing = Listing {
        space: call.space(),
        pattern: pattern(call.args[1])?,
        user: call.session.limited_user(),
        proto: call.session.proto,
        hasher: RandomState::new(),
        parts: (0..PARTS).map(|_| KeyList::default()).collect(),
        at: At::Cache(ScanCursor::START),
        count: 0,
        held_bytes: 0,
    };
    call.work_in_steps(listing)
}

/// How far a listing has come.
enum At {
    /// The cache is looked through.
    Cache(ScanCursor),
    /// This part is sorted next.
    Sorting(usize),
    /// This part is answered next.
    Answering(usize),
}

struct Listing {
    space: Space,
    pattern: Pattern,
    /// Whose keys alone are listed.
    user: Option<Arc<User>>,
    proto: Proto,
    hasher: RandomState,
    parts: Vec<KeyList>,
    at: At,
    /// Keys of the parts that are sorted.
    count: usize,
    /// Bytes of all parts.
    held_bytes: usize,
}

/// Keys, one behind the other.
#[derive(Default)]
struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    fn add(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn held_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * END_BYTES
    }

    fn keys(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let keys = starts.zip(&self.ends);
        keys.map(|(start, &end)| &self.bytes[start..end]).collect()
    }

    /// Drops keys that are there before; returns how many are left.
    fn sort(&mut self) -> usize {
        let mut keys = self.keys();
        keys.sort_unstable();
        let before = keys.len();
        keys.dedup();
        let count = keys.len();
        if count < before {
            let mut sorted = KeyList::default();
            keys.into_iter().for_each(|key| sorted.add(key));
            *self = sorted;
        }
        count
    }
}

impl Work for Listing {
    /// Does so much that the loop can turn to others: [`STEP_ITEMS`] keys, or as many bytes as
    /// count for them.
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        let mut work = 0;
        while work < STEP_ITEMS {
            work += match self.at {
                At::Cache(cursor) => self.gather(cursor, context),
                At::Sorting(PARTS) => {
                    Reply::new(output.bytes(), self.proto).array(self.count);
                    self.at = At::Answering(0);
                    0
                }
                At::Sorting(part) => self.sort(part),
                At::Answering(PARTS) => return Progress::Last,
                At::Answering(part) => self.answer(part, output),
            };
        }
        Progress::More
    }

    fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

impl Listing {
    /// Looks through a stretch of the cache.
    fn gather(&mut self, cursor: ScanCursor, context: Context<'_>) -> usize {
        let (mut work, mut held_bytes) = (STRETCH_ITEMS, 0);
        let next = context.cache().keys(cursor, |facts| {
            work += 1 + facts.key.len() / ITEM_BYTES;
            let is_its = self
                .user
                .as_ref()
                .is_none_or(|user| user.may_use(facts.key));
            if facts.space == self.space && is_its && self.pattern.matches(facts.key) {
                // As many parts as a whole number of bits names.
                let part = self.hasher.hash_one(facts.key) as usize % PARTS;
                self.parts[part].add(facts.key);
                held_bytes += facts.key.len() + END_BYTES;
            }
        });
        self.held_bytes += held_bytes;
        self.at = next.map_or(At::Sorting(0), At::Cache);
        work
    }

    fn sort(&mut self, part: usize) -> usize {
        let before = self.parts[part].held_bytes();
        let count = self.parts[part].sort();
        self.held_bytes -= before - self.parts[part].held_bytes();
        self.count += count;
        self.at = At::Sorting(part + 1);
        count
    }

    fn answer(&mut self, part: usize, output: &mut Output) -> usize {
        let keys = take(&mut self.parts[part]);
        let start = output.bytes().len();
        let mut reply = Reply::new(output.bytes(), self.proto);
        keys.keys().into_iter().for_each(|key| reply.bulk(key));
        self.at = At::Answering(part + 1);
        self.held_bytes -= keys.held_bytes();
        (output.bytes().len() - start) / ITEM_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::KeyList;

    #[test]
    fn a_part_has_each_key_once() {
        let mut part = KeyList::default();
        for key in ["b", "", "abc", "b", "abc", "c"] {
            part.add(key.as_bytes());
        }
        assert_eq!(part.sort(), 4);
        assert_eq!(part.keys(), [b"".as_slice(), b"abc", b"b", b"c"]);
        assert_eq!(part.sort(), 4);
    }
}

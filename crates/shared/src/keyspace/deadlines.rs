//! Deadlines: keys to be checked when they expire, because a client wants to be notified.
//!
//! The engine finds an expired item when a request asks for it, and does not know the fields inside
//! a hash. This list is checked on time: hashes whose fields have deadlines, and keys that a client
//! tracks or has notifications for
//! ([`Observer::expire_due`](crate::keyspace::observer::Observer::expire_due)).
//!
//! Limit: names take [`EXPIRY_NAMES_BYTES_MAX`]; above it the latest deadlines are dropped. Moments
//! are in engine milliseconds. Why: docs/decisions/0073.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use cellar_config::limits::EXPIRY_NAMES_BYTES_MAX;
use cellar_engine::{Key, Space};
use parking_lot::Mutex;

/// Bytes that a name takes beside its own, about.
const ENTRY_BYTES: usize = 64;
/// Nothing waits.
const NEVER: u64 = u64::MAX;

/// A key to check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueKey {
    at_ms: u64,
    /// Its space.
    pub space: Space,
    /// Its name.
    pub name: Box<[u8]>,
    /// Whether the deadline belongs to a field: the engine does not check those.
    pub is_of_field: bool,
}

impl DueKey {
    fn bytes(&self) -> usize {
        self.name.len() + ENTRY_BYTES
    }
}

#[derive(Debug, Default)]
struct Waiting {
    keys: BTreeSet<DueKey>,
    bytes: usize,
}

/// Keys in the order of their deadlines.
#[derive(Debug)]
pub struct Deadlines {
    waiting: Mutex<Waiting>,
    /// The first deadline.
    // Relaxed: written under the lock; a read without it may be a step late.
    first_ms: AtomicU64,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            waiting: Mutex::default(),
            first_ms: AtomicU64::new(NEVER),
        }
    }
}

impl Deadlines {
    /// Adds a key to check; returns those that do not fit.
    pub fn add(&self, key: Key<'_>, at_ms: u64, is_of_field: bool) -> Vec<DueKey> {
        let due = DueKey {
            at_ms,
            space: key.space(),
            name: key.bytes().into(),
            is_of_field,
        };
        self.with(|waiting| {
            let bytes = due.bytes();
            if waiting.keys.insert(due) {
                waiting.bytes += bytes;
            }
            let mut left_out = Vec::new();
            while waiting.bytes > EXPIRY_NAMES_BYTES_MAX
                && let Some(last) = waiting.keys.pop_last()
            {
                waiting.bytes -= last.bytes();
                left_out.push(last);
            }
            left_out
        })
    }

    /// Takes a due key. Cost: one load if none is due.
    pub fn take_due(&self, now_ms: u64) -> Option<DueKey> {
        if self.first_ms() > now_ms {
            return None;
        }
        self.with(|waiting| {
            waiting.keys.first().filter(|due| due.at_ms <= now_ms)?;
            let due = waiting.keys.pop_first()?;
            waiting.bytes -= due.bytes();
            Some(due)
        })
    }

    /// When the next key is due; `u64::MAX` if none waits.
    pub fn first_ms(&self) -> u64 {
        // Relaxed: a key added at the same time is found the next time.
        self.first_ms.load(Ordering::Relaxed)
    }

    fn with<R>(&self, change: impl FnOnce(&mut Waiting) -> R) -> R {
        let mut waiting = self.waiting.lock();
        let result = change(&mut waiting);
        let first_ms = waiting.keys.first().map_or(NEVER, |due| due.at_ms);
        self.first_ms.store(first_ms, Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use cellar_engine::{Cache, Config};

    use super::*;

    fn due(deadlines: &Deadlines, now_ms: u64) -> Vec<Vec<u8>> {
        let due = std::iter::from_fn(|| deadlines.take_due(now_ms));
        due.map(|due| due.name.to_vec()).collect()
    }

    #[test]
    fn a_key_is_due_when_its_deadline_has_come() {
        let cache = Cache::new(Config::with_memory(4 << 20)).unwrap();
        let deadlines = Deadlines::default();
        assert!(due(&deadlines, NEVER - 1).is_empty());
        for (name, ms) in [(b"b", 20), (b"a", 10), (b"a", 10), (b"c", 30)] {
            let key = cache.key(name).unwrap();
            assert!(deadlines.add(key, ms, false).is_empty());
        }
        assert!(due(&deadlines, 9).is_empty());
        assert_eq!(deadlines.first_ms(), 10);
        assert_eq!(due(&deadlines, 20), [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(due(&deadlines, 30), [b"c".to_vec()]);
        assert_eq!(deadlines.first_ms(), NEVER);
    }

    #[test]
    fn the_latest_deadlines_find_no_room() {
        let cache = Cache::new(Config::with_memory(4 << 20)).unwrap();
        let deadlines = Deadlines::default();
        let mut left_out = Vec::new();
        for number in 0_u64..100_000 {
            let name = number.to_le_bytes();
            left_out.extend(deadlines.add(cache.key(&name).unwrap(), number, true));
        }
        let kept = EXPIRY_NAMES_BYTES_MAX / (8 + ENTRY_BYTES);
        assert_eq!(left_out.len(), 100_000 - kept);
        assert!(
            left_out
                .iter()
                .all(|due| due.at_ms >= kept as u64 && due.is_of_field)
        );
        assert_eq!(due(&deadlines, NEVER - 1).len(), kept);
    }
}

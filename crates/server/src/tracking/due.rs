//! Due: when readers have to be told that a field of a hash has gone by its deadline.
//!
//! The engine tells when an item expires; it knows nothing of the fields inside. Who reads a hash
//! and is tracked leaves here the hash's next deadline. What finds no room is told before its
//! time, which costs a reader one more read.
//!
//! Moments are in engine milliseconds.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::lock;

/// Most bytes of names that wait.
const NAMES_BYTES_MAX: usize = 4 << 20;
/// Bytes that a name takes beside its own, about.
const ENTRY_BYTES: usize = 64;
/// Nothing waits.
const NEVER: u64 = u64::MAX;

/// Names behind their deadlines.
type NamesByDeadline = BTreeSet<(u64, Box<[u8]>)>;

#[derive(Debug, Default)]
struct Waiting {
    names: NamesByDeadline,
    bytes: usize,
}

impl Waiting {
    fn first_ms(&self) -> u64 {
        self.names.first().map_or(NEVER, |(ms, _)| *ms)
    }

    fn take_first(&mut self) -> Option<Box<[u8]>> {
        let (_, name) = self.names.pop_first()?;
        self.bytes -= name.len() + ENTRY_BYTES;
        Some(name)
    }
}

/// Names of keys in the order of their deadlines.
#[derive(Debug)]
pub(super) struct Due {
    waiting: Mutex<Waiting>,
    /// What was forgotten and is not freed yet.
    void: Mutex<Vec<NamesByDeadline>>,
    /// The first deadline.
    // Relaxed: written under the lock; a look without it may come a step late.
    first_ms: AtomicU64,
}

impl Default for Due {
    fn default() -> Due {
        Due {
            waiting: Mutex::default(),
            void: Mutex::default(),
            first_ms: AtomicU64::new(NEVER),
        }
    }
}

impl Due {
    /// Notes that `name` is to be told at this moment; gives to `tell` what finds no room.
    pub(super) fn add(&self, name: &[u8], at_ms: u64, mut tell: impl FnMut(&[u8])) {
        let early = self.with(|waiting| {
            if waiting.names.insert((at_ms, name.into())) {
                waiting.bytes += name.len() + ENTRY_BYTES;
            }
            let mut early = Vec::new();
            while waiting.bytes > NAMES_BYTES_MAX {
                early.extend(waiting.take_first());
            }
            early
        });
        early.iter().for_each(|name| tell(name));
    }

    /// Gives to `tell` what is due. Cost: one load if nothing is.
    pub(super) fn tell(&self, now_ms: u64, mut tell: impl FnMut(&[u8])) {
        // Relaxed: what is added at the same time is found the next time.
        while self.first_ms.load(Ordering::Relaxed) <= now_ms {
            if let Some(name) = self.with(Waiting::take_first) {
                tell(&name);
            }
        }
    }

    /// Forgets all, and leaves to [`Due::free_some`] to free it.
    pub(super) fn clear(&self) {
        let forgotten = self.with(std::mem::take);
        if !forgotten.names.is_empty() {
            lock(&self.void).push(forgotten.names);
        }
    }

    /// Frees forgotten names, at most so many; how many.
    pub(super) fn free_some(&self, most: usize) -> usize {
        let next = lock(&self.void).pop();
        let Some(mut names) = next else {
            return 0;
        };
        let freed = (0..most).take_while(|_| names.pop_last().is_some()).count();
        if !names.is_empty() {
            lock(&self.void).push(names);
        }
        freed
    }

    fn with<R>(&self, change: impl FnOnce(&mut Waiting) -> R) -> R {
        let mut waiting = lock(&self.waiting);
        let result = change(&mut waiting);
        self.first_ms.store(waiting.first_ms(), Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(due: &Due, now_ms: u64) -> Vec<Vec<u8>> {
        let mut told = Vec::new();
        due.tell(now_ms, |name| told.push(name.to_vec()));
        told
    }

    #[test]
    fn a_name_is_told_when_its_deadline_has_come() {
        let due = Due::default();
        assert!(told(&due, u64::MAX - 1).is_empty());
        for (name, ms) in [(b"b", 20), (b"a", 10), (b"a", 10), (b"c", 30)] {
            due.add(name, ms, |_| panic!("there is room"));
        }
        assert!(told(&due, 9).is_empty());
        assert_eq!(told(&due, 20), [b"a".to_vec(), b"b".to_vec()]);
        due.clear();
        assert!(told(&due, 100).is_empty());
    }

    #[test]
    fn what_finds_no_room_is_told_before_its_time() {
        let due = Due::default();
        let mut early = 0;
        for number in 0_u64..100_000 {
            due.add(&number.to_le_bytes(), number, |_| early += 1);
        }
        let kept = NAMES_BYTES_MAX / (8 + ENTRY_BYTES);
        assert_eq!(early, 100_000 - kept);
        assert_eq!(told(&due, u64::MAX - 1).len(), kept);
    }
}

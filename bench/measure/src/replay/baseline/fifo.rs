//! FIFO and LRU: one queue; LRU moves what is used or overwritten to its newest end.

use lru::LruCache;

use super::{Contents, Policy};

/// A queue of keys that knows their bytes: in at the newest end, out at the oldest or anywhere.
pub(super) struct Queue {
    order: LruCache<u32, u64>,
    /// Sum of the bytes of all keys.
    pub(super) bytes: u64,
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue {
            order: LruCache::unbounded(),
            bytes: 0,
        }
    }

    pub(super) fn push(&mut self, key: u32, bytes: u64) {
        self.order.push(key, bytes);
        self.bytes += bytes;
    }

    /// Takes a key out, if it is there.
    pub(super) fn remove(&mut self, key: u32) -> Option<u64> {
        let bytes = self.order.pop(&key)?;
        self.bytes -= bytes;
        Some(bytes)
    }

    /// Takes the oldest key out.
    pub(super) fn pop(&mut self) -> Option<(u32, u64)> {
        let (key, bytes) = self.order.pop_lru()?;
        self.bytes -= bytes;
        Some((key, bytes))
    }

    /// Gives a key other bytes where it is, if it is there.
    pub(super) fn resize(&mut self, key: u32, bytes: u64) {
        if let Some(held) = self.order.peek_mut(&key) {
            self.bytes = self.bytes - *held + bytes;
            *held = bytes;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

pub(super) struct Fifo {
    queue: Queue,
    moves_used: bool,
}

impl Fifo {
    /// Evicts in the order of storing, in which an overwritten item keeps its place; LRU if what is
    /// used moves.
    pub(super) fn new(moves_used: bool) -> Fifo {
        Fifo {
            queue: Queue::new(),
            moves_used,
        }
    }
}

impl Policy for Fifo {
    fn used(&mut self, key: u32, _: usize, _: &Contents) {
        if self.moves_used {
            self.queue.order.promote(&key);
        }
    }

    fn stored(&mut self, key: u32, _: usize, _: &Contents) {
        self.queue.push(key, 0);
    }

    fn overwritten(&mut self, key: u32, at: usize, contents: &Contents) {
        self.used(key, at, contents);
    }

    fn removed(&mut self, key: u32) {
        self.queue.remove(key);
    }

    fn evict(&mut self, _: u64, _: &Contents) -> u32 {
        self.queue.pop().expect("a full cache holds an item").0
    }
}

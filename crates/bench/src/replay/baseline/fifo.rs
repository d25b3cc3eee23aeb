//! FIFO and LRU: one queue; LRU moves what is used or overwritten to its newest end.

use super::queue::{Links, Queue};
use super::{Contents, Policy};

pub(super) struct Fifo {
    moves_used: bool,
    queue: Queue,
    links: Links,
}

impl Fifo {
    /// Evicts in the order of storing; an overwritten item keeps its place.
    pub(super) fn new(keys: usize) -> Fifo {
        Fifo {
            moves_used: false,
            queue: Queue::new(),
            links: Links::new(keys),
        }
    }

    /// LRU.
    pub(super) fn moving_used(keys: usize) -> Fifo {
        Fifo {
            moves_used: true,
            ..Fifo::new(keys)
        }
    }
}

impl Policy for Fifo {
    fn used(&mut self, key: u32, _: usize, _: &Contents) {
        if self.moves_used {
            self.queue.remove(key, 0, &mut self.links);
            self.queue.push(key, 0, &mut self.links);
        }
    }

    fn stored(&mut self, key: u32, _: usize, _: &Contents) {
        self.queue.push(key, 0, &mut self.links);
    }

    fn overwritten(&mut self, key: u32, at: usize, _: u64, contents: &Contents) {
        self.used(key, at, contents);
    }

    fn removed(&mut self, key: u32, _: &Contents) {
        self.queue.remove(key, 0, &mut self.links);
    }

    fn evict(&mut self, _: u64, _: &Contents) -> u32 {
        let victim = self.queue.oldest().expect("a full cache holds an item");
        self.queue.remove(victim, 0, &mut self.links);
        victim
    }
}

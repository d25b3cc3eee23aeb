//! S3-FIFO as published: new items pass a small queue, those used twice there live in the main one.
//!
//! The small queue has a tenth of the memory. An item leaves it for the main queue if it was used
//! more than once, else for the ghosts, which remember as many bytes as the main queue holds. What
//! returns while it is a ghost goes to the main queue at once. An item of the main queue that was
//! used gets another round for each use, up to three.
//!
//! Source: Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023.

use std::collections::HashMap;

use super::fifo::Queue;
use super::{Contents, Policy};

/// The small queue has one part in so many of the memory.
const SMALL_PART: u64 = 10;
const USES_MAX: u8 = 3;
/// Uses in the small queue that lead to the main one.
const USES_TO_PROMOTE: u8 = 2;

pub(super) struct S3Fifo {
    small_bytes_max: u64,
    ghost_bytes_max: u64,
    small: Queue,
    main: Queue,
    ghosts: Queue,
    /// Uses of the items that are held.
    uses: HashMap<u32, u8>,
}

impl S3Fifo {
    pub(super) fn new(memory_bytes: u64) -> S3Fifo {
        S3Fifo {
            small_bytes_max: memory_bytes / SMALL_PART,
            ghost_bytes_max: memory_bytes - memory_bytes / SMALL_PART,
            small: Queue::new(),
            main: Queue::new(),
            ghosts: Queue::new(),
            uses: HashMap::new(),
        }
    }

    fn uses(&mut self, key: u32) -> &mut u8 {
        self.uses.entry(key).or_default()
    }

    /// The item that leaves the small queue for good; others may move to the main one before it.
    fn evict_small(&mut self, now_ms: u64, contents: &Contents) -> Option<u32> {
        while let Some((key, bytes)) = self.small.pop() {
            if !contents.is_live(key, now_ms) {
                return Some(key);
            }
            if *self.uses(key) < USES_TO_PROMOTE {
                self.ghosts.push(key, bytes);
                while self.ghosts.bytes > self.ghost_bytes_max {
                    self.ghosts.pop();
                }
                return Some(key);
            }
            *self.uses(key) = 0;
            self.main.push(key, bytes);
            if self.small.bytes <= self.small_bytes_max {
                return None;
            }
        }
        None
    }

    /// The item that leaves the main queue; used ones go round before it.
    fn evict_main(&mut self, now_ms: u64, contents: &Contents) -> Option<u32> {
        loop {
            let (key, bytes) = self.main.pop()?;
            if *self.uses(key) == 0 || !contents.is_live(key, now_ms) {
                return Some(key);
            }
            *self.uses(key) -= 1;
            self.main.push(key, bytes);
        }
    }
}

impl Policy for S3Fifo {
    fn used(&mut self, key: u32, _: usize, _: &Contents) {
        let uses = self.uses(key);
        *uses = (*uses + 1).min(USES_MAX);
    }

    fn stored(&mut self, key: u32, _: usize, contents: &Contents) {
        *self.uses(key) = 0;
        let is_ghost = self.ghosts.remove(key).is_some();
        let queue = if is_ghost {
            &mut self.main
        } else {
            &mut self.small
        };
        queue.push(key, contents.bytes[key as usize]);
    }

    fn overwritten(&mut self, key: u32, _: usize, contents: &Contents) {
        for queue in [&mut self.small, &mut self.main] {
            queue.resize(key, contents.bytes[key as usize]);
        }
    }

    fn removed(&mut self, key: u32) {
        self.small.remove(key).or_else(|| self.main.remove(key));
    }

    fn evict(&mut self, now_ms: u64, contents: &Contents) -> u32 {
        loop {
            let is_small = self.small.bytes > self.small_bytes_max || self.main.is_empty();
            let victim = match is_small {
                true => self.evict_small(now_ms, contents),
                false => self.evict_main(now_ms, contents),
            };
            if let Some(victim) = victim {
                self.uses.remove(&victim);
                return victim;
            }
        }
    }
}

//! S3-FIFO as published: new items pass a small queue, those used twice there live in the main one.
//!
//! The small queue has a tenth of the memory. An item leaves it for the main queue if it was used
//! more than once, else for the ghosts, which remember as many bytes as the main queue holds. What
//! returns while it is a ghost goes to the main queue at once. An item of the main queue that was
//! used gets another round for each use, up to three.
//!
//! Source: Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023.

use super::queue::{Links, Queue};
use super::{Contents, Policy};

/// The small queue has one part in so many of the memory.
const SMALL_PART: u64 = 10;
const USES_MAX: u8 = 3;
/// Uses in the small queue that lead to the main one.
const USES_TO_PROMOTE: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    Small,
    Main,
    Ghost,
}

struct Queues {
    small: Queue,
    main: Queue,
    ghosts: Queue,
}

impl Queues {
    fn of(&mut self, place: Place) -> &mut Queue {
        match place {
            Place::Small => &mut self.small,
            Place::Main => &mut self.main,
            Place::Ghost => &mut self.ghosts,
            Place::Nowhere => unreachable!("only what is in a queue is looked for there"),
        }
    }
}

pub(super) struct S3Fifo {
    small_bytes_max: u64,
    ghost_bytes_max: u64,
    queues: Queues,
    links: Links,
    place: Vec<Place>,
    uses: Vec<u8>,
    /// Bytes of the item a ghost remembers.
    ghost_bytes: Vec<u64>,
}

impl S3Fifo {
    pub(super) fn new(keys: usize, memory_bytes: u64) -> S3Fifo {
        S3Fifo {
            small_bytes_max: memory_bytes / SMALL_PART,
            ghost_bytes_max: memory_bytes - memory_bytes / SMALL_PART,
            queues: Queues {
                small: Queue::new(),
                main: Queue::new(),
                ghosts: Queue::new(),
            },
            links: Links::new(keys),
            place: vec![Place::Nowhere; keys],
            uses: vec![0; keys],
            ghost_bytes: vec![0; keys],
        }
    }

    fn push(&mut self, key: u32, place: Place, bytes: u64) {
        self.queues.of(place).push(key, bytes, &mut self.links);
        self.place[key as usize] = place;
    }

    fn take(&mut self, key: u32, bytes: u64) {
        let place = &mut self.place[key as usize];
        self.queues.of(*place).remove(key, bytes, &mut self.links);
        *place = Place::Nowhere;
    }

    fn remember(&mut self, key: u32, bytes: u64) {
        self.ghost_bytes[key as usize] = bytes;
        self.push(key, Place::Ghost, bytes);
        while self.queues.ghosts.bytes > self.ghost_bytes_max {
            let Some(oldest) = self.queues.ghosts.oldest() else {
                return;
            };
            self.take(oldest, self.ghost_bytes[oldest as usize]);
        }
    }

    /// The item that leaves the small queue for good; others may move to the main one before it.
    fn evict_small(&mut self, now_ms: u64, contents: &Contents) -> Option<u32> {
        while let Some(key) = self.queues.small.oldest() {
            let bytes = contents.bytes[key as usize];
            self.take(key, bytes);
            let is_live = contents.is_live(key, now_ms);
            if !is_live {
                return Some(key);
            }
            if self.uses[key as usize] < USES_TO_PROMOTE {
                self.remember(key, bytes);
                return Some(key);
            }
            self.uses[key as usize] = 0;
            self.push(key, Place::Main, bytes);
            if self.queues.small.bytes <= self.small_bytes_max {
                return None;
            }
        }
        None
    }

    /// The item that leaves the main queue; used ones go round before it.
    fn evict_main(&mut self, now_ms: u64, contents: &Contents) -> Option<u32> {
        loop {
            let key = self.queues.main.oldest()?;
            let bytes = contents.bytes[key as usize];
            self.take(key, bytes);
            if self.uses[key as usize] == 0 || !contents.is_live(key, now_ms) {
                return Some(key);
            }
            self.uses[key as usize] -= 1;
            self.push(key, Place::Main, bytes);
        }
    }
}

impl Policy for S3Fifo {
    fn used(&mut self, key: u32, _: usize, _: &Contents) {
        let uses = &mut self.uses[key as usize];
        *uses = (*uses + 1).min(USES_MAX);
    }

    fn stored(&mut self, key: u32, _: usize, contents: &Contents) {
        let is_ghost = self.place[key as usize] == Place::Ghost;
        if is_ghost {
            self.take(key, self.ghost_bytes[key as usize]);
        }
        self.uses[key as usize] = 0;
        let place = if is_ghost { Place::Main } else { Place::Small };
        self.push(key, place, contents.bytes[key as usize]);
    }

    fn overwritten(&mut self, key: u32, _: usize, bytes_before: u64, contents: &Contents) {
        let queue = self.queues.of(self.place[key as usize]);
        queue.bytes = queue.bytes - bytes_before + contents.bytes[key as usize];
    }

    fn removed(&mut self, key: u32, contents: &Contents) {
        self.take(key, contents.bytes[key as usize]);
    }

    fn evict(&mut self, now_ms: u64, contents: &Contents) -> u32 {
        loop {
            if self.queues.small.bytes > self.small_bytes_max || self.queues.main.oldest().is_none()
            {
                if let Some(victim) = self.evict_small(now_ms, contents) {
                    return victim;
                }
            } else if let Some(victim) = self.evict_main(now_ms, contents) {
                return victim;
            }
        }
    }
}

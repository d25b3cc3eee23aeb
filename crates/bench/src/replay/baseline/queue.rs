//! Queues of keys that know their bytes; a key is in one queue at most.
//!
//! All queues of a policy share one pair of links for each key, so nothing is allocated while they
//! change.

const NONE: u32 = u32::MAX;

/// The neighbours of every key.
pub(super) struct Links {
    newer: Vec<u32>,
    older: Vec<u32>,
}

impl Links {
    pub(super) fn new(keys: usize) -> Links {
        Links {
            newer: vec![NONE; keys],
            older: vec![NONE; keys],
        }
    }
}

/// A queue: in at the newest end, out at the oldest or anywhere.
pub(super) struct Queue {
    newest: u32,
    oldest: u32,
    /// Sum of the bytes given with each key.
    pub(super) bytes: u64,
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue {
            newest: NONE,
            oldest: NONE,
            bytes: 0,
        }
    }

    pub(super) fn push(&mut self, key: u32, bytes: u64, links: &mut Links) {
        links.newer[key as usize] = NONE;
        links.older[key as usize] = self.newest;
        match self.newest {
            NONE => self.oldest = key,
            newest => links.newer[newest as usize] = key,
        }
        self.newest = key;
        self.bytes += bytes;
    }

    pub(super) fn remove(&mut self, key: u32, bytes: u64, links: &mut Links) {
        let (newer, older) = (links.newer[key as usize], links.older[key as usize]);
        match newer {
            NONE => self.newest = older,
            newer => links.older[newer as usize] = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => links.newer[older as usize] = newer,
        }
        self.bytes -= bytes;
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

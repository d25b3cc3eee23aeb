//! Table: who has read which key name.
//!
//! Names lie in parts by their hash, each behind a lock of its own. Invariant: `keys`, `items` and
//! `bytes` are the sums over the parts; while a part is locked, it alone may differ from its share.
//! A name counts until its readers are told: who finds no name in the table has nobody to tell.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;

use crate::client::Client;

/// Bytes of names and readers that the table holds at most, estimated.
pub const TABLE_BYTES_MAX: usize = 256 << 20;
/// What a name costs besides its bytes.
const NAME_COST_BYTES: usize = 80;
/// What a reader costs.
const READER_COST_BYTES: usize = 8;
/// Parts, so that event loops rarely wait for each other.
const PARTS: usize = 64;

type Readers = Vec<Arc<Client>>;
type ReadersByKey = IndexMap<Box<[u8]>, Readers, RandomState>;

#[derive(Debug)]
pub(super) struct Table {
    hasher: RandomState,
    parts: Box<[Mutex<ReadersByKey>]>,
    // Relaxed: a setting that orders nothing.
    keys_max: AtomicUsize,
    // Relaxed, like the next two: sums beside the parts, whose locks order what is in them.
    keys: AtomicUsize,
    // Relaxed: see above.
    items: AtomicUsize,
    // Relaxed: see above.
    bytes: AtomicUsize,
    /// Where the next name to be dropped is looked for.
    // Relaxed: where to look, which orders nothing.
    hand: AtomicUsize,
}

impl Table {
    pub(super) fn new(keys_max: usize) -> Table {
        let hasher = RandomState::new();
        let part = |_| Mutex::new(IndexMap::with_hasher(hasher.clone()));
        Table {
            parts: (0..PARTS).map(part).collect(),
            hasher,
            keys_max: AtomicUsize::new(keys_max),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
        }
    }

    pub(super) fn keys_max(&self) -> usize {
        self.keys_max.load(Ordering::Relaxed)
    }

    pub(super) fn set_keys_max(&self, keys_max: usize) {
        self.keys_max.store(keys_max, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        let (keys, items) = (&self.keys, &self.items);
        (keys.load(Ordering::Relaxed), items.load(Ordering::Relaxed))
    }

    /// Whether it holds more than it may.
    pub(super) fn is_over(&self) -> bool {
        let keys_max = self.keys_max();
        let keys = self.keys.load(Ordering::Relaxed);
        keys_max > 0 && keys > keys_max || self.bytes.load(Ordering::Relaxed) > TABLE_BYTES_MAX
    }

    pub(super) fn remember(&self, key: &[u8], client: &Arc<Client>) {
        let mut part = self.part(key);
        if let Some(readers) = part.get_mut(key) {
            if readers.iter().any(|reader| reader.id == client.id) {
                return;
            }
            // Who has gone makes room for who comes.
            let before = readers.len();
            readers.retain(|reader| !reader.is_gone());
            self.subtract_readers(before - readers.len());
            readers.push(Arc::clone(client));
        } else {
            part.insert(key.into(), vec![Arc::clone(client)]);
            self.keys.fetch_add(1, Ordering::Relaxed);
            self.bytes
                .fetch_add(key.len() + NAME_COST_BYTES, Ordering::Relaxed);
        }
        self.items.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(READER_COST_BYTES, Ordering::Relaxed);
    }

    /// Forgets a name and shows its readers; the name stays locked meanwhile.
    pub(super) fn take(&self, key: &[u8], each: impl FnMut(&Arc<Client>)) {
        if self.keys.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut part = self.part(key);
        if let Some(readers) = part.swap_remove(key) {
            readers.iter().for_each(each);
            self.subtract(key, &readers);
        }
    }

    /// Forgets some name and shows its readers; whether there was one.
    pub(super) fn drop_one(&self, mut each: impl FnMut(&[u8], &Arc<Client>)) -> bool {
        let hand = self.hand.fetch_add(1, Ordering::Relaxed);
        for step in 0..PARTS {
            let mut part = lock(&self.parts[(hand + step) % PARTS]);
            if part.is_empty() {
                continue;
            }
            let place = self.random() % part.len();
            if let Some((key, readers)) = part.swap_remove_index(place) {
                readers.iter().for_each(|client| each(&key, client));
                self.subtract(&key, &readers);
                return true;
            }
        }
        false
    }

    /// Forgets all names once `tell` has run; all of them stay locked meanwhile.
    pub(super) fn clear(&self, tell: impl FnOnce()) {
        let mut parts: Vec<_> = self.parts.iter().map(lock).collect();
        tell();
        for part in &mut parts {
            for (key, readers) in part.iter() {
                self.subtract(key, readers);
            }
            **part = IndexMap::with_hasher(self.hasher.clone());
        }
    }

    fn random(&self) -> usize {
        let count = self.hand.load(Ordering::Relaxed);
        usize::try_from(self.hasher.hash_one(count) >> 33).unwrap_or(0)
    }

    fn subtract(&self, key: &[u8], readers: &Readers) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.bytes
            .fetch_sub(key.len() + NAME_COST_BYTES, Ordering::Relaxed);
        self.subtract_readers(readers.len());
    }

    fn subtract_readers(&self, count: usize) {
        self.items.fetch_sub(count, Ordering::Relaxed);
        self.bytes
            .fetch_sub(count * READER_COST_BYTES, Ordering::Relaxed);
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, ReadersByKey> {
        let number = self.hasher.hash_one(key) >> 57;
        lock(&self.parts[usize::try_from(number).unwrap_or(0) % PARTS])
    }
}

fn lock(part: &Mutex<ReadersByKey>) -> MutexGuard<'_, ReadersByKey> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

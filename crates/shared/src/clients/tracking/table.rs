//! Table: which clients have read which key names.
//!
//! Names are partitioned by hash, each partition behind its own lock. Forgetting all names replaces
//! full partitions by empty ones; the old ones are void from then on and are freed in pieces, by
//! background maintenance and by threads that add a name ([`Table::free_some`]).
//!
//! Invariant: `keys` and `items` are the sums over the partitions, `bytes` includes the void ones;
//! while a partition is locked, it alone may differ from its share. A name counts until its readers
//! are notified: a thread that finds no name in the table has no client to notify.
//!
//! Why: docs/decisions/0060.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use indexmap::IndexMap;
use parking_lot::{Mutex, MutexGuard};
use smallvec::{SmallVec, smallvec};

use crate::clients::client::Client;

/// Bytes of names and readers that the table holds at most, estimated.
pub const TABLE_BYTES_MAX: usize = 256 << 20;
/// Memory of a name besides its bytes.
const NAME_COST_BYTES: usize = 80;
/// Memory of a reader.
const READER_COST_BYTES: usize = 8;
/// Number of partitions: enough for event loops to rarely wait for each other, and for each to be
/// small enough to grow quickly.
const PARTS: usize = 1_024;
/// Void names that are freed for each added name, so that their number never grows.
const FREED_BY_ENTRY: usize = 2;

/// Nearly every name has one reader, which is stored inline.
type Readers = SmallVec<[Arc<Client>; 1]>;
type ReadersByKey = IndexMap<Box<[u8]>, Readers, RandomState>;

/// The names of one partition.
#[derive(Debug)]
struct NamesPart {
    names: ReadersByKey,
    /// Readers of all of them.
    items: usize,
}

#[derive(Debug)]
pub(super) struct Table {
    hasher: RandomState,
    parts: Box<[Mutex<NamesPart>]>,
    /// Void partitions, to be freed.
    void: Mutex<VecDeque<ReadersByKey>>,
    // Relaxed: whether anything is void, which a later check finds as well.
    is_void: AtomicBool,
    // Relaxed: a setting that orders nothing.
    keys_max: AtomicUsize,
    // Relaxed, like the next two: sums beside the parts, whose locks order what is in them.
    keys: AtomicUsize,
    // Relaxed: see above.
    items: AtomicUsize,
    // Relaxed: see above.
    bytes: AtomicUsize,
    /// Where the search for the next name to drop begins.
    // Relaxed: where to look, which orders nothing.
    next_part: AtomicUsize,
}

impl Table {
    pub(super) fn new(keys_max: usize) -> Table {
        let hasher = RandomState::new();
        let part = |_| {
            Mutex::new(NamesPart {
                names: IndexMap::with_hasher(hasher.clone()),
                items: 0,
            })
        };
        Table {
            parts: (0..PARTS).map(part).collect(),
            void: Mutex::default(),
            is_void: AtomicBool::new(false),
            hasher,
            keys_max: AtomicUsize::new(keys_max),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            next_part: AtomicUsize::new(0),
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

    /// Whether it holds more names, or more bytes, than it may.
    pub(super) fn is_above_limits(&self) -> bool {
        let keys_max = self.keys_max();
        let has_too_many = keys_max > 0 && self.keys.load(Ordering::Relaxed) > keys_max;
        has_too_many || self.is_too_large()
    }

    /// Whether it holds more bytes than it may.
    pub(super) fn is_too_large(&self) -> bool {
        self.bytes() > TABLE_BYTES_MAX
    }

    /// Bytes of all names and readers, of void ones too.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn remember(&self, key: &[u8], client: &Arc<Client>) {
        if self.is_void.load(Ordering::Relaxed) {
            self.free_some(FREED_BY_ENTRY);
        }
        let mut part = self.part(key);
        let NamesPart { names, items } = &mut *part;
        if let Some(readers) = names.get_mut(key) {
            if readers.iter().any(|reader| reader.id == client.id) {
                return;
            }
            // Disconnected readers give their memory to new ones.
            let before = readers.len();
            readers.retain(|reader| !reader.is_gone());
            *items -= before - readers.len();
            self.subtract_readers(before - readers.len());
            readers.push(Arc::clone(client));
        } else {
            names.insert(key.into(), smallvec![Arc::clone(client)]);
            self.keys.fetch_add(1, Ordering::Relaxed);
            self.bytes
                .fetch_add(key.len() + NAME_COST_BYTES, Ordering::Relaxed);
        }
        *items += 1;
        self.items.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(READER_COST_BYTES, Ordering::Relaxed);
    }

    /// Whether names have more than one reader on the average, or some have very many.
    pub(super) fn is_shared(&self) -> bool {
        // Relaxed, both: an estimate.
        self.items.load(Ordering::Relaxed) > self.keys.load(Ordering::Relaxed)
    }

    /// How many readers a name has.
    pub(super) fn readers(&self, key: &[u8]) -> usize {
        self.part(key)
            .names
            .get(key)
            .map_or(0, |readers| readers.len())
    }

    /// Removes a name and passes on its readers; the name stays locked meanwhile.
    pub(super) fn take(&self, key: &[u8], each: impl FnMut(&Arc<Client>)) {
        if self.keys.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut part = self.part(key);
        if let Some(readers) = part.names.swap_remove(key) {
            readers.iter().for_each(each);
            part.items -= readers.len();
            self.subtract(key, &readers);
        }
    }

    /// Removes some name and passes on its readers; returns whether one existed.
    pub(super) fn drop_one(&self, mut each: impl FnMut(&[u8], &Arc<Client>)) -> bool {
        let first = self.next_part.fetch_add(1, Ordering::Relaxed);
        for step in 0..PARTS {
            let mut part = self.parts[(first + step) % PARTS].lock();
            if part.names.is_empty() {
                continue;
            }
            let place = self.random() % part.names.len();
            if let Some((key, readers)) = part.names.swap_remove_index(place) {
                readers.iter().for_each(|client| each(&key, client));
                part.items -= readers.len();
                self.subtract(&key, &readers);
                return true;
            }
        }
        false
    }

    /// Removes all names after `tell` has run; all partitions stay locked meanwhile.
    ///
    /// Cost: a step for each partition, however many names it has.
    pub(super) fn clear(&self, tell: impl FnOnce()) {
        let mut parts: Vec<_> = self.parts.iter().map(Mutex::lock).collect();
        tell();
        let mut void = self.void.lock();
        for part in &mut parts {
            let empty = IndexMap::with_hasher(self.hasher.clone());
            let names = std::mem::replace(&mut part.names, empty);
            let items = std::mem::take(&mut part.items);
            self.keys.fetch_sub(names.len(), Ordering::Relaxed);
            self.items.fetch_sub(items, Ordering::Relaxed);
            if !names.is_empty() {
                void.push_back(names);
            }
        }
        self.is_void.store(!void.is_empty(), Ordering::Relaxed);
    }

    /// Frees at most `most` void names; returns how many.
    pub(super) fn free_some(&self, most: usize) -> usize {
        let mut freed = 0;
        while freed < most {
            // The names are freed outside the lock, so no thread waits for it.
            let next = self.void.lock().pop_front();
            let Some(mut names) = next else {
                break;
            };
            while freed < most
                && let Some((key, readers)) = names.pop()
            {
                self.bytes
                    .fetch_sub(bytes_of(&key, &readers), Ordering::Relaxed);
                freed += 1;
            }
            if !names.is_empty() {
                let mut void = self.void.lock();
                void.push_front(names);
                self.is_void.store(true, Ordering::Relaxed);
            }
        }
        if freed < most {
            let void = self.void.lock();
            self.is_void.store(!void.is_empty(), Ordering::Relaxed);
        }
        freed
    }

    fn random(&self) -> usize {
        let count = self.next_part.load(Ordering::Relaxed);
        usize::try_from(self.hasher.hash_one(count) >> 33).unwrap_or(0)
    }

    fn subtract(&self, key: &[u8], readers: &Readers) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.items.fetch_sub(readers.len(), Ordering::Relaxed);
        self.bytes
            .fetch_sub(bytes_of(key, readers), Ordering::Relaxed);
    }

    fn subtract_readers(&self, count: usize) {
        self.items.fetch_sub(count, Ordering::Relaxed);
        self.bytes
            .fetch_sub(count * READER_COST_BYTES, Ordering::Relaxed);
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, NamesPart> {
        let number = self.hasher.hash_one(key) >> 40;
        self.parts[usize::try_from(number).unwrap_or(0) % PARTS].lock()
    }
}

/// The bytes that a name and its readers count for.
fn bytes_of(key: &[u8], readers: &Readers) -> usize {
    key.len() + NAME_COST_BYTES + readers.len() * READER_COST_BYTES
}

//! Table: who has read which key name.
//!
//! Names lie in parts by their hash, each behind a lock of its own. To forget all names is to put
//! empty parts in the place of full ones, which are void from then on and freed bit by bit, by
//! background maintenance and by whoever enters a name ([`Table::free_some`]).
//!
//! Invariant: `keys` and `items` are the sums over the parts, `bytes` those and what is void; while
//! a part is locked, it alone may differ from its share. A name counts until its readers are told:
//! who finds no name in the table has nobody to tell.
//!
//! Why: docs/decisions/0060.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use smallvec::{SmallVec, smallvec};

use crate::clients::client::Client;

/// Bytes of names and readers that the table holds at most, estimated.
pub const TABLE_BYTES_MAX: usize = 256 << 20;
/// What a name costs besides its bytes.
const NAME_COST_BYTES: usize = 80;
/// What a reader costs.
const READER_COST_BYTES: usize = 8;
/// Parts, so that event loops rarely wait for each other, and that none is so large that it takes
/// long to let it grow.
const PARTS: usize = 1_024;
/// Void names that are freed for each that is entered, so that they never become more.
const FREED_BY_ENTRY: usize = 2;

/// Nearly every name has one reader, who needs no memory of its own.
type Readers = SmallVec<[Arc<Client>; 1]>;
type ReadersByKey = IndexMap<Box<[u8]>, Readers, RandomState>;

/// Names whose hashes are alike.
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
    /// Parts that were forgotten, to be freed.
    void: Mutex<VecDeque<ReadersByKey>>,
    // Relaxed: whether there is something to free, which a later look finds as well.
    is_void: AtomicBool,
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
            // Who has gone makes room for who comes.
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

    /// Forgets a name and shows its readers; the name stays locked meanwhile.
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

    /// Forgets some name and shows its readers; whether there was one.
    pub(super) fn drop_one(&self, mut each: impl FnMut(&[u8], &Arc<Client>)) -> bool {
        let first = self.next_part.fetch_add(1, Ordering::Relaxed);
        for step in 0..PARTS {
            let mut part = lock(&self.parts[(first + step) % PARTS]);
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

    /// Forgets all names once `tell` has run; all of them stay locked meanwhile.
    ///
    /// Cost: a step for each part, however many names there are.
    pub(super) fn clear(&self, tell: impl FnOnce()) {
        let mut parts: Vec<_> = self.parts.iter().map(lock).collect();
        tell();
        let mut void = lock(&self.void);
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

    /// Frees void names, at most so many; how many.
    pub(super) fn free_some(&self, most: usize) -> usize {
        let mut freed = 0;
        while freed < most {
            // What is freed is nobody else's meanwhile, so nobody waits for it.
            let next = lock(&self.void).pop_front();
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
                let mut void = lock(&self.void);
                void.push_front(names);
                self.is_void.store(true, Ordering::Relaxed);
            }
        }
        if freed < most {
            let void = lock(&self.void);
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
        lock(&self.parts[usize::try_from(number).unwrap_or(0) % PARTS])
    }
}

/// What a name and its readers count for.
fn bytes_of(key: &[u8], readers: &Readers) -> usize {
    key.len() + NAME_COST_BYTES + readers.len() * READER_COST_BYTES
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Broadcast: invalidations for clients that track all names with their prefixes.
//!
//! Changes are batched by prefix and sent by [`Broadcast::send`], which each event loop calls after
//! it has executed and before it writes replies, so no client sees the reply to a change before the
//! invalidation is queued. A loop also sends the batches of others, so the names of one command may
//! come in more than one message.
//!
//! Limits: a thread copies [`TURN_BYTES_MAX`] of names to clients in one iteration. Above that,
//! clients are told to drop everything: one message each, however many names changed. If even these
//! would exceed [`TURN_MESSAGES_MAX`] messages, because very many clients share very many prefixes,
//! all clients are told so once.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Invalidation, Mode, Told};
use crate::clients::client::Client;

/// Bytes of names that are batched before they are sent within an iteration.
const GATHERED_BYTES_MAX: usize = 64 << 10;
/// Bytes of names that one iteration copies to clients: some milliseconds.
const TURN_BYTES_MAX: usize = 8 << 20;

/// Messages that one iteration sends: some ten milliseconds.
pub(super) const TURN_MESSAGES_MAX: usize = 1 << 16;

/// Names of so few bytes cost hardly more than the message to drop everything: they are always
/// sent.
const SHORT_BYTES_MAX: usize = 512;

thread_local! {
    /// Bytes that this thread may still copy in this iteration.
    static LEFT: Cell<usize> = const { Cell::new(TURN_BYTES_MAX) };
    /// Messages that it may still send.
    static MESSAGES_LEFT: Cell<usize> = const { Cell::new(TURN_MESSAGES_MAX) };
}

/// Records that an iteration of this thread begins.
#[inline]
pub(super) fn begin_turn() {
    LEFT.set(TURN_BYTES_MAX);
    MESSAGES_LEFT.set(TURN_MESSAGES_MAX);
}

/// The changed names of a prefix.
#[derive(Debug)]
enum Changed {
    /// These, and the client that last changed each, if it has NOLOOP set.
    Names(BTreeMap<Box<[u8]>, u64>),
    /// Too many to send; the client that changed all of them, zero if several did.
    TooMany(u64),
}

impl Default for Changed {
    fn default() -> Changed {
        Changed::Names(BTreeMap::new())
    }
}

impl Changed {
    /// The same without the names.
    fn without_names(self) -> Changed {
        match self {
            Changed::Names(names) => {
                let mut writers = names.into_values();
                let first = writers.next().unwrap_or(0);
                let is_same = writers.all(|writer| writer == first);
                Changed::TooMany(if is_same { first } else { 0 })
            }
            too_many @ Changed::TooMany(_) => too_many,
        }
    }
}

/// Clients that share a prefix.
#[derive(Debug, Default)]
struct Audience {
    clients: BTreeMap<u64, Arc<Client>>,
    /// None while nothing has changed.
    changed: Option<Changed>,
    changed_bytes: usize,
}

impl Audience {
    /// Adds a name to the batch; returns whether it is the first.
    fn add(&mut self, key: &[u8], writer: u64) -> bool {
        let is_first = self.changed.is_none();
        match self.changed.get_or_insert_default() {
            Changed::Names(names) => {
                names.insert(key.into(), writer);
                self.changed_bytes += key.len();
            }
            Changed::TooMany(other) => {
                if *other != writer {
                    *other = 0;
                }
            }
        }
        is_first
    }

    /// Forgets what has changed.
    fn forget(&mut self) {
        (self.changed, self.changed_bytes) = (None, 0);
    }

    /// Bytes to copy if all names are sent to all clients.
    fn bytes_to_copy(&self) -> usize {
        self.changed_bytes.saturating_mul(self.clients.len())
    }

    /// Sends the changes to all clients of the prefix, copying at most `left` bytes.
    fn tell(&mut self, left: &mut usize) {
        let bytes = self.bytes_to_copy();
        let short_bytes = std::mem::take(&mut self.changed_bytes);
        let mut changed = self.changed.take().unwrap_or_default();
        if short_bytes > SHORT_BYTES_MAX {
            match left.checked_sub(bytes) {
                Some(rest) => *left = rest,
                None => changed = changed.without_names(),
            }
        }
        let names = match &changed {
            Changed::Names(names) => names,
            Changed::TooMany(writer) => {
                let mut invalidation = Invalidation::new(Told::All);
                for client in self.clients.values() {
                    if !(client.id == *writer && Mode::of(client).has(Mode::NOLOOP)) {
                        invalidation.send(client);
                    }
                }
                return;
            }
        };
        let all: Vec<&[u8]> = names.keys().map(|key| &**key).collect();
        let mut invalidation = Invalidation::new(Told::Keys(&all));
        for client in self.clients.values() {
            let is_its = |writer: &u64| *writer == client.id;
            if !(Mode::of(client).has(Mode::NOLOOP) && names.values().any(is_its)) {
                invalidation.send(client);
                continue;
            }
            let others = names.iter().filter(|(_, writer)| !is_its(writer));
            let others: Vec<&[u8]> = others.map(|(key, _)| &**key).collect();
            if !others.is_empty() {
                Invalidation::new(Told::Keys(&others)).send(client);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Prefixes {
    audiences: HashMap<Box<[u8]>, Audience>,
    /// The clients of all of them.
    members: BTreeMap<u64, Arc<Client>>,
    /// Number of prefixes of each length.
    lengths: BTreeMap<usize, usize>,
    /// The prefixes of changed names; some may have lost their clients.
    touched: Vec<Box<[u8]>>,
    gathered_bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Broadcast {
    prefixes: Mutex<Prefixes>,
    // Relaxed: written under the lock; a thread that reads zero has nothing to batch yet.
    count: AtomicUsize,
    // Relaxed: an estimate of what a change costs.
    lengths: AtomicUsize,
    /// Whether changes are batched or being sent: it is false only when all of them are sent.
    // Release and Acquire: a thread that reads false finds them sent. Relaxed where it is set: a
    // thread sends its own batch itself.
    has_gathered: AtomicBool,
}

impl Broadcast {
    /// Registers a client for prefixes, or for all names if the list is empty.
    pub(super) fn join(&self, client: &Arc<Client>, prefixes: &[&[u8]]) {
        let all: &[&[u8]] = &[b""];
        let mut known = self.prefixes.lock();
        let Prefixes {
            audiences,
            members,
            lengths,
            ..
        } = &mut *known;
        members.insert(client.id, Arc::clone(client));
        for &prefix in if prefixes.is_empty() { all } else { prefixes } {
            let audience = audiences.entry(prefix.into()).or_insert_with(|| {
                *lengths.entry(prefix.len()).or_default() += 1;
                Audience::default()
            });
            audience.clients.insert(client.id, Arc::clone(client));
        }
        self.note_counts(&known);
    }

    pub(super) fn leave(&self, client: &Client, prefixes: &[Box<[u8]>]) {
        let mut known = self.prefixes.lock();
        let Prefixes {
            audiences,
            members,
            lengths,
            ..
        } = &mut *known;
        members.remove(&client.id);
        for prefix in prefixes {
            let Some(audience) = audiences.get_mut(prefix) else {
                continue;
            };
            audience.clients.remove(&client.id);
            if audience.clients.is_empty() {
                audiences.remove(prefix);
                let count = lengths.entry(prefix.len()).or_default();
                *count -= 1;
                if *count == 0 {
                    lengths.remove(&prefix.len());
                }
            }
        }
        self.note_counts(&known);
    }

    fn note_counts(&self, known: &Prefixes) {
        self.count.store(known.audiences.len(), Ordering::Relaxed);
        self.lengths.store(known.lengths.len(), Ordering::Relaxed);
    }

    pub(super) fn prefixes(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Number of lengths of its prefixes: a changed name is looked up once for each.
    pub(super) fn lengths(&self) -> usize {
        self.lengths.load(Ordering::Relaxed)
    }

    /// Whether a name begins with one of the prefixes.
    pub(super) fn concerns(&self, key: &[u8]) -> bool {
        if self.prefixes() == 0 {
            return false;
        }
        let known = self.prefixes.lock();
        let mut lengths = known.lengths.keys();
        lengths.any(|&length| {
            let prefix = key.get(..length);
            prefix.is_some_and(|prefix| known.audiences.contains_key(prefix))
        })
    }

    /// Gathers a changed name.
    pub(super) fn changed(&self, key: &[u8], writer: u64) {
        if self.prefixes() == 0 {
            return;
        }
        let mut known = self.prefixes.lock();
        let Prefixes {
            audiences,
            lengths,
            touched,
            gathered_bytes,
            ..
        } = &mut *known;
        for &length in lengths.keys() {
            let Some(prefix) = key.get(..length) else {
                break;
            };
            if let Some(audience) = audiences.get_mut(prefix) {
                if audience.add(key, writer) {
                    touched.push(prefix.into());
                }
                *gathered_bytes += key.len();
                self.has_gathered.store(true, Ordering::Relaxed);
            }
        }
        if *gathered_bytes > GATHERED_BYTES_MAX {
            self.send_or_shorten(&mut known);
        }
    }

    /// Sends the batch if the iteration may still copy so much. Else the names are discarded, and
    /// [`Broadcast::send`] tells the clients to drop everything.
    #[cold]
    fn send_or_shorten(&self, known: &mut Prefixes) {
        let bytes = known.touched.iter().filter_map(|prefix| {
            let audience = known.audiences.get(prefix)?;
            Some(audience.bytes_to_copy())
        });
        if bytes.fold(0, usize::saturating_add) <= LEFT.get() {
            return self.send_from(known);
        }
        known.gathered_bytes = 0;
        for prefix in &known.touched {
            if let Some(audience) = known.audiences.get_mut(prefix) {
                audience.changed = audience.changed.take().map(Changed::without_names);
                audience.changed_bytes = 0;
            }
        }
    }

    /// Sends the batch; on return, all changes batched by this thread are sent, even if by another
    /// thread.
    #[inline]
    pub(super) fn send(&self) {
        // Acquire: if it reads false, the changes are sent; the pair is in `send_from`. A thread
        // sees its own changes; other threads send theirs.
        if self.has_gathered.load(Ordering::Acquire) {
            self.send_from(&mut self.prefixes.lock());
        }
    }

    #[cold]
    fn send_from(&self, known: &mut Prefixes) {
        known.gathered_bytes = 0;
        let (mut left, mut messages_left) = (LEFT.get(), Some(MESSAGES_LEFT.get()));
        for prefix in std::mem::take(&mut known.touched) {
            let Some(audience) = known.audiences.get_mut(&prefix) else {
                continue;
            };
            if audience.changed.is_none() {
                continue;
            }
            messages_left = messages_left.and_then(|left| left.checked_sub(audience.clients.len()));
            if messages_left.is_some() {
                audience.tell(&mut left);
            } else {
                audience.forget();
            }
        }
        if messages_left.is_none() {
            let mut invalidation = Invalidation::new(Told::All);
            known
                .members
                .values()
                .for_each(|client| invalidation.send(client));
        }
        LEFT.set(left);
        MESSAGES_LEFT.set(messages_left.unwrap_or(TURN_MESSAGES_MAX));
        self.has_gathered.store(false, Ordering::Release);
    }
}

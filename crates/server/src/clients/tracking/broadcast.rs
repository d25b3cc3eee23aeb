//! Broadcast: clients that are told of all changes to names with their prefixes.
//!
//! Changes are gathered by prefix and sent by [`Broadcast::send`], which each event loop calls
//! after it has executed and before it writes replies, so nobody sees the reply to a change earlier
//! than the change is on its way. A loop sends what others have gathered, too, so one command's
//! names may come in more than one message.
//!
//! Limits: a thread copies [`TURN_BYTES_MAX`] of names to clients in one turn. Where more were to
//! be told, clients are told that anything may have changed: each has a line then, however many
//! names there are. Where more than [`TURN_MESSAGES_MAX`] lines were to be sent, because very many
//! clients share very many prefixes, all are told so, once.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::{Invalidation, Mode, Told, lock};
use crate::clients::client::Client;

/// Bytes of names that are gathered before they are sent within a turn.
const GATHERED_BYTES_MAX: usize = 64 << 10;
/// Bytes of names that one turn copies to clients: some milliseconds.
const TURN_BYTES_MAX: usize = 8 << 20;

/// Messages that one turn sends: some ten milliseconds.
pub(super) const TURN_MESSAGES_MAX: usize = 1 << 16;

/// So many cost hardly more than to tell that there were too many: a client is always told them.
const SHORT_BYTES_MAX: usize = 512;

thread_local! {
    /// Bytes that this thread may still copy in this turn.
    static LEFT: Cell<usize> = const { Cell::new(TURN_BYTES_MAX) };
    /// Messages that it may still send.
    static MESSAGES_LEFT: Cell<usize> = const { Cell::new(TURN_MESSAGES_MAX) };
}

/// Notes that a turn of this thread begins.
#[inline]
pub(super) fn begin_turn() {
    LEFT.set(TURN_BYTES_MAX);
    MESSAGES_LEFT.set(TURN_MESSAGES_MAX);
}

/// What has changed of the names that begin with a prefix.
#[derive(Debug)]
enum Changed {
    /// These, and who changed each last if that one does not want to hear of it.
    Names(BTreeMap<Box<[u8]>, u64>),
    /// More than can be told; who changed all of it, zero if there were several.
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
    /// Gathers a name; whether it is the first.
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

    /// Bytes of names that all have to be told.
    fn bytes_to_copy(&self) -> usize {
        self.changed_bytes.saturating_mul(self.clients.len())
    }

    /// Tells all of them, in so many bytes at most.
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
    /// How many prefixes there are of each length.
    lengths: BTreeMap<usize, usize>,
    /// The prefixes of changed names; some may have left.
    touched: Vec<Box<[u8]>>,
    gathered_bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Broadcast {
    prefixes: Mutex<Prefixes>,
    // Relaxed: written under the lock; who reads none gathers nothing yet.
    count: AtomicUsize,
    // Relaxed: an estimate of what a change costs.
    lengths: AtomicUsize,
    /// Whether something is gathered, or being sent: it is false only when all of it is told.
    // Release and Acquire: who finds all told finds it told. Relaxed where it is set: a thread
    // sends what it has gathered itself.
    has_gathered: AtomicBool,
}

impl Broadcast {
    /// Lets a client hear of prefixes, of all names without any.
    pub(super) fn join(&self, client: &Arc<Client>, prefixes: &[&[u8]]) {
        let all: &[&[u8]] = &[b""];
        let mut known = lock(&self.prefixes);
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
        let mut known = lock(&self.prefixes);
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

    /// How many lengths its prefixes have: a changed name is looked up by each.
    pub(super) fn lengths(&self) -> usize {
        self.lengths.load(Ordering::Relaxed)
    }

    /// Whether a name begins with one of the prefixes.
    pub(super) fn concerns(&self, key: &[u8]) -> bool {
        if self.prefixes() == 0 {
            return false;
        }
        let known = lock(&self.prefixes);
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
        let mut known = lock(&self.prefixes);
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

    /// Sends what is gathered if the turn may still copy so much. Else names are forgotten, and
    /// [`Broadcast::send`] tells that there were too many.
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

    /// Sends what is gathered; when it returns, all that this thread has gathered is told, even if
    /// it is another thread that does so.
    #[inline]
    pub(super) fn send(&self) {
        // Acquire: what it finds told is told; the pair is in `send_from`. A thread sees what it
        // has gathered itself; others send theirs.
        if self.has_gathered.load(Ordering::Acquire) {
            self.send_from(&mut lock(&self.prefixes));
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

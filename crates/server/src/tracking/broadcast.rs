//! Broadcast: clients that are told of all changes to names with their prefixes.
//!
//! Changes are gathered by prefix and sent by [`Broadcast::send`], which each event loop calls
//! after it has executed and before it writes replies, so nobody sees the reply to a change earlier
//! than the change is on its way. A loop sends what others have gathered, too, so one command's
//! names may come in more than one message.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::{Mode, Told, lock, tell};
use crate::client::Client;

/// Bytes of names that are gathered before they are sent within a turn.
const GATHERED_BYTES_MAX: usize = 64 << 10;

/// Clients that share a prefix.
#[derive(Debug, Default)]
struct Audience {
    clients: BTreeMap<u64, Arc<Client>>,
    /// Changed names, and who changed them last if that one does not want to hear of it.
    changed: BTreeMap<Box<[u8]>, u64>,
}

#[derive(Debug, Default)]
struct Prefixes {
    audiences: HashMap<Box<[u8]>, Audience>,
    /// How many prefixes there are of each length.
    lengths: BTreeMap<usize, usize>,
    gathered_bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Broadcast {
    prefixes: Mutex<Prefixes>,
    // Relaxed: written under the lock; who reads none gathers nothing yet.
    count: AtomicUsize,
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
            audiences, lengths, ..
        } = &mut *known;
        for &prefix in if prefixes.is_empty() { all } else { prefixes } {
            let audience = audiences.entry(prefix.into()).or_insert_with(|| {
                *lengths.entry(prefix.len()).or_default() += 1;
                Audience::default()
            });
            audience.clients.insert(client.id, Arc::clone(client));
        }
        self.count.store(audiences.len(), Ordering::Relaxed);
    }

    pub(super) fn leave(&self, client: &Client, prefixes: &[Box<[u8]>]) {
        let mut known = lock(&self.prefixes);
        let Prefixes {
            audiences, lengths, ..
        } = &mut *known;
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
        self.count.store(audiences.len(), Ordering::Relaxed);
    }

    pub(super) fn prefixes(&self) -> usize {
        self.count.load(Ordering::Relaxed)
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
            gathered_bytes,
        } = &mut *known;
        for &length in lengths.keys() {
            let Some(prefix) = key.get(..length) else {
                break;
            };
            if let Some(audience) = audiences.get_mut(prefix) {
                audience.changed.insert(key.into(), writer);
                *gathered_bytes += key.len();
                self.has_gathered.store(true, Ordering::Relaxed);
            }
        }
        if *gathered_bytes > GATHERED_BYTES_MAX {
            self.send_from(&mut known);
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
        for audience in known.audiences.values_mut() {
            let changed = std::mem::take(&mut audience.changed);
            if changed.is_empty() {
                continue;
            }
            let all: Vec<&[u8]> = changed.keys().map(|key| &**key).collect();
            for client in audience.clients.values() {
                if !Mode::of(client).has(Mode::NOLOOP) {
                    tell(client, Told::Keys(&all));
                    continue;
                }
                let others = changed.iter().filter(|(_, writer)| **writer != client.id);
                let others: Vec<&[u8]> = others.map(|(key, _)| &**key).collect();
                if !others.is_empty() {
                    tell(client, Told::Keys(&others));
                }
            }
        }
        self.has_gathered.store(false, Ordering::Release);
    }
}

//! Waiters: clients in blocking commands, and the keys that they wait for.
//!
//! Each awaited name has a queue per database and kind of value, in the order of arrival. A store
//! marks the name ([`Waiters::stored`]); the thread that executed the command then serves the
//! marked names, exclusively (execute/resp/waiting/serve.rs). The answer stays in the [`Waiter`]
//! until its event loop, woken for it, takes it.
//!
//! Invariant: a waiter is in the table until it is answered or removed, and it is removed only
//! inside the exclusive lock, so that the exclusive holder serves it undisturbed. Lock order:
//! shard, part, marks. Why: docs/decisions/0046. Tests: at the end of this file,
//! server/tests/resp_waits.rs.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasher;
use std::ops::Bound::{Excluded, Included};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use cellar_config::limits::{ENTRY_BYTES, WAITERS_MAX};
use cellar_protocol::resp::{Command, Proto, Reply};
use parking_lot::{Mutex, MutexGuard};

use crate::clients::client::Client;

/// Partitions, so that event loops rarely wait for each other.
const PARTS: usize = 16;

/// Why a wait ends without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// It has timed out, or CLIENT UNBLOCK has ended it like a time-out.
    TimeOut,
    /// CLIENT UNBLOCK has ended it with an error.
    Unblocked,
    /// Its keys have moved to another node; the client asks again and is redirected.
    Moved,
}

/// The kind of value that a blocking command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WantedKind {
    /// A list.
    List,
    /// A sorted set.
    SortedSet,
}

/// A blocking command: its client, keys and the form of its answer.
#[derive(Debug)]
pub struct WaitRequest {
    /// The waiting client.
    pub client: Arc<Client>,
    /// Its database.
    pub database: u32,
    /// The version of its answer.
    pub proto: Proto,
    /// Whether it wants no answer.
    pub is_silent: bool,
    /// Its command.
    pub command: &'static Command,
    /// All arguments.
    pub args: Box<[Box<[u8]>]>,
    /// The positions of its keys among the arguments.
    pub keys: Range<usize>,
    /// The kind of value that the keys have to hold.
    pub kind: WantedKind,
    /// When it times out, in engine milliseconds; none for never.
    pub until_ms: Option<u64>,
}

/// A client that waits.
#[derive(Debug)]
pub struct Waiter {
    /// The blocking command.
    pub request: WaitRequest,
    /// Its position in the order of arrival, from 1.
    pub number: u64,
    answer: Mutex<Option<Vec<u8>>>,
    /// Whether it has stopped waiting, though its entries may still be in queues.
    // Relaxed: it is set inside the exclusive lock, and read by the exclusive holder.
    has_left: AtomicBool,
}

impl WaitRequest {
    fn names(&self) -> &[Box<[u8]>] {
        self.args.get(self.keys.clone()).unwrap_or_default()
    }

    /// Bytes that its names take, each with [`ENTRY_BYTES`].
    #[must_use]
    pub fn names_bytes(&self) -> usize {
        let names = self.names().iter();
        names.map(|name| name.len() + ENTRY_BYTES).sum()
    }
}

impl Waiter {
    /// The keys that it waits for.
    #[must_use]
    pub fn names(&self) -> &[Box<[u8]>] {
        self.request.names()
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let args: usize = self.request.args.iter().map(|arg| arg.len()).sum();
        args + self.request.names_bytes() + ENTRY_BYTES
    }

    /// Answers it; the caller has to wake its loop.
    pub fn answer(&self, bytes: Vec<u8>) {
        let bytes = if self.request.is_silent {
            Vec::new()
        } else {
            bytes
        };
        *self.answer.lock() = Some(bytes);
    }

    /// Takes its answer, if any.
    #[must_use]
    pub fn take_answer(&self) -> Option<Vec<u8>> {
        self.answer.lock().take()
    }

    /// Records in its client whether it waits.
    fn note(&self, waits: bool) {
        let counts = &self.request.client.counts;
        counts.waits.store(waits, Ordering::Relaxed);
    }

    /// Answers that the wait ended without a value.
    pub fn answer_end(&self, end: WaitEnd) {
        let mut bytes = Vec::new();
        let mut reply = Reply::new(&mut bytes, self.request.proto);
        match end {
            WaitEnd::TimeOut => reply.null_array(),
            WaitEnd::Moved => reply.error("CLUSTERDOWN Hash slot not served"),
            WaitEnd::Unblocked => reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        }
        self.answer(bytes);
    }
}

/// The waiters for one name in one database.
#[derive(Debug)]
struct WaitedKey {
    database: u32,
    /// Whether it was stored since it was last served.
    is_marked: bool,
    /// By wanted kind and number, each with the position of the name among its arguments.
    line: BTreeMap<(WantedKind, u64), (Arc<Waiter>, usize)>,
}

type WaitedByName = HashMap<Box<[u8]>, Vec<WaitedKey>>;

/// A name and its database.
pub type MarkedKey = (u32, Box<[u8]>);

/// All waiters.
#[derive(Debug, Default)]
pub struct Waiters {
    hasher: RandomState,
    parts: [Mutex<WaitedByName>; PARTS],
    /// Stored names that have waiters, in order.
    marks: Mutex<VecDeque<MarkedKey>>,
    // Relaxed: a hint; a thread that has stored something sees its own write.
    is_ready: AtomicBool,
    by_client: Mutex<BTreeMap<u64, Arc<Waiter>>>,
    // Relaxed: two waiters that arrive at the same moment may get either order.
    last: AtomicU64,
    // Relaxed: a bound that orders nothing.
    count: AtomicUsize,
    /// Number of awaited names.
    // Relaxed: only reported.
    keys: AtomicUsize,
    /// Number of waiters with a time-out.
    // Relaxed: only reported.
    timed: AtomicUsize,
}

impl Waiters {
    /// Adds a waiter; none if the limit is reached.
    #[must_use]
    pub fn add(&self, request: WaitRequest) -> Option<Arc<Waiter>> {
        if self.count.fetch_add(1, Ordering::Relaxed) >= WAITERS_MAX {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let waiter = Arc::new(Waiter {
            number: self.last.fetch_add(1, Ordering::Relaxed) + 1,
            request,
            answer: Mutex::default(),
            has_left: AtomicBool::new(false),
        });
        if waiter.request.until_ms.is_some() {
            self.timed.fetch_add(1, Ordering::Relaxed);
        }
        for place in waiter.request.keys.clone() {
            self.line_up(&waiter, place);
        }
        waiter.note(true);
        // Last, so that a counted client is in all queues.
        let id = waiter.request.client.id;
        self.by_client.lock().insert(id, Arc::clone(&waiter));
        Some(waiter)
    }

    fn line_up(&self, waiter: &Arc<Waiter>, place: usize) {
        let WaitRequest {
            database,
            kind,
            args,
            ..
        } = &waiter.request;
        let mut part = self.part(&args[place]);
        let keys = part.entry(args[place].clone()).or_default();
        let found = keys.iter().position(|key| key.database == *database);
        let index = found.unwrap_or_else(|| {
            self.keys.fetch_add(1, Ordering::Relaxed);
            keys.push(WaitedKey {
                database: *database,
                is_marked: false,
                line: BTreeMap::new(),
            });
            keys.len() - 1
        });
        // A repeated name is awaited at its first position.
        let entry = keys[index].line.entry((*kind, waiter.number));
        entry.or_insert_with(|| (Arc::clone(waiter), place));
    }

    /// Removes a waiter that is answered or closed; returns whether it was present. The caller is
    /// inside the exclusive lock.
    pub fn remove(&self, waiter: &Waiter) -> bool {
        let was_there = self.dismiss(waiter);
        if was_there {
            self.leave_lines(waiter, 0..waiter.names().len());
        }
        was_there
    }

    /// The same, but leaves its entries in the queues, where they are ignored: the caller has to
    /// call [`Waiters::leave_lines`] later.
    pub fn dismiss(&self, waiter: &Waiter) -> bool {
        let WaitRequest {
            client, until_ms, ..
        } = &waiter.request;
        let mut by_client = self.by_client.lock();
        let is_it = by_client
            .get(&client.id)
            .is_some_and(|one| one.number == waiter.number);
        if !is_it {
            return false;
        }
        by_client.remove(&client.id);
        drop(by_client);
        waiter.note(false);
        self.count.fetch_sub(1, Ordering::Relaxed);
        if until_ms.is_some() {
            self.timed.fetch_sub(1, Ordering::Relaxed);
        }
        waiter.has_left.store(true, Ordering::Relaxed);
        true
    }

    /// Removes a dismissed waiter from the queues of some of its names. The caller is inside the
    /// exclusive lock.
    pub fn leave_lines(&self, waiter: &Waiter, places: Range<usize>) {
        for name in &waiter.names()[places] {
            self.leave(waiter, name);
        }
    }

    fn leave(&self, waiter: &Waiter, name: &[u8]) {
        let mut part = self.part(name);
        let Some(keys) = part.get_mut(name) else {
            return;
        };
        let WaitRequest { database, kind, .. } = &waiter.request;
        keys.retain_mut(|key| {
            if key.database == *database {
                key.line.remove(&(*kind, waiter.number));
                let is_empty = key.line.is_empty();
                self.keys
                    .fetch_sub(usize::from(is_empty), Ordering::Relaxed);
            }
            !key.line.is_empty()
        });
        if keys.is_empty() {
            part.remove(name);
        }
    }

    /// Marks a stored name, in the database that `database` returns; called under its shard's lock.
    pub fn stored(&self, name: &[u8], database: impl FnOnce() -> Option<u32>) {
        let mut part = self.part(name);
        let Some(keys) = part.get_mut(name) else {
            return;
        };
        let Some(database) = database() else {
            return;
        };
        for key in keys.iter_mut().filter(|key| key.database == database) {
            self.mark(key, name);
        }
    }

    /// The names awaited in either of two databases.
    #[must_use]
    pub fn of_databases(&self, one: u32, other: u32) -> Vec<MarkedKey> {
        let mut found = Vec::new();
        for part in &self.parts {
            for (name, keys) in part.lock().iter() {
                let databases = keys.iter().map(|key| key.database);
                let these = databases.filter(|&database| database == one || database == other);
                found.extend(these.map(|database| (database, name.clone())));
            }
        }
        found
    }

    fn mark(&self, key: &mut WaitedKey, name: &[u8]) {
        if !std::mem::replace(&mut key.is_marked, true) {
            self.marks.lock().push_back((key.database, name.into()));
            self.is_ready.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a stored name has waiters to serve.
    #[inline]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// The oldest marked name. It counts as marked until [`Waiters::unmark`].
    #[must_use]
    pub fn next_marked(&self) -> Option<MarkedKey> {
        let mut marks = self.marks.lock();
        let next = marks.pop_front();
        if marks.is_empty() {
            self.is_ready.store(false, Ordering::Relaxed);
        }
        next
    }

    /// Leaves a name for another time.
    pub fn put_back(&self, marked: MarkedKey) {
        self.marks.lock().push_front(marked);
        self.is_ready.store(true, Ordering::Relaxed);
    }

    /// Ends serving a name: the next store marks it again.
    pub fn unmark(&self, (database, name): &MarkedKey) {
        let mut part = self.part(name);
        for key in part.get_mut(name).into_iter().flatten() {
            key.is_marked &= key.database != *database;
        }
    }

    /// Whether waiters are about to be served with a name's value.
    #[must_use]
    pub fn is_marked(&self, database: u32, name: &[u8]) -> bool {
        self.is_ready() && self.has(database, name, |key| key.is_marked)
    }

    /// Whether a client waits for a name.
    #[must_use]
    pub fn awaits(&self, database: u32, name: &[u8]) -> bool {
        self.has(database, name, |_| true)
    }

    fn has(&self, database: u32, name: &[u8], is_it: impl Fn(&WaitedKey) -> bool) -> bool {
        let part = self.part(name);
        let mut keys = part.get(name).into_iter().flatten();
        keys.any(|key| key.database == database && is_it(key))
    }

    /// The longest-waiting client for a name to hold a value of this kind, among those behind
    /// number `after`; with the name's position among its arguments.
    #[must_use]
    pub fn oldest(
        &self,
        (database, name): &MarkedKey,
        kind: WantedKind,
        after: u64,
    ) -> Option<(Arc<Waiter>, usize)> {
        let part = self.part(name);
        let key = part
            .get(name)?
            .iter()
            .find(|key| key.database == *database)?;
        let behind = (Excluded((kind, after)), Included((kind, u64::MAX)));
        let line = key.line.range(behind).map(|(_, found)| found);
        let mut waiting = line.filter(|(one, _)| !one.has_left.load(Ordering::Relaxed));
        waiting.next().cloned()
    }

    /// The waiter that a client is.
    #[must_use]
    pub fn of_client(&self, id: u64) -> Option<Arc<Waiter>> {
        self.by_client.lock().get(&id).cloned()
    }

    /// All waiters.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Waiter>> {
        self.by_client.lock().values().cloned().collect()
    }

    /// Number of waiters, of those with a time-out, and of awaited names.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let clients = self.by_client.lock().len();
        let timed = self.timed.load(Ordering::Relaxed);
        (clients, timed, self.keys.load(Ordering::Relaxed))
    }

    fn part(&self, name: &[u8]) -> MutexGuard<'_, WaitedByName> {
        let number = usize::try_from(self.hasher.hash_one(name) >> 40).unwrap_or(0);
        self.parts[number % PARTS].lock()
    }
}

#[cfg(test)]
mod tests {
    use cellar_protocol::resp::command::find;

    use super::*;
    use crate::clients::client::{Clients, Seat};

    use super::WantedKind::{List as LIST, SortedSet as SORTED};

    fn wait(waiters: &Waiters, clients: &Clients, kind: WantedKind, names: &[&str]) -> Arc<Waiter> {
        let name = |name: &&str| Box::from(name.as_bytes());
        let request = WaitRequest {
            client: clients.add(Seat::default(), None, 0),
            database: 0,
            proto: Proto::V2,
            is_silent: false,
            command: find(b"blpop").unwrap(),
            args: names.iter().map(name).collect(),
            keys: 0..names.len(),
            kind,
            until_ms: None,
        };
        waiters.add(request).unwrap()
    }

    fn key(name: &str) -> MarkedKey {
        (0, name.as_bytes().into())
    }

    #[test]
    fn the_oldest_of_a_kind_comes_first_and_a_store_marks_once() {
        let (waiters, clients) = (Waiters::default(), Clients::default());
        let first = wait(&waiters, &clients, LIST, &["a", "b", "a"]);
        let sorted = wait(&waiters, &clients, SORTED, &["b"]);
        let second = wait(&waiters, &clients, LIST, &["b"]);
        assert_eq!(waiters.counts(), (3, 0, 2));
        waiters.stored(b"c", || Some(0));
        waiters.stored(b"b", || Some(1));
        assert!(!waiters.is_ready());
        waiters.stored(b"b", || Some(0));
        waiters.stored(b"b", || Some(0));
        assert!(waiters.is_ready() && waiters.is_marked(0, b"b") && !waiters.is_marked(0, b"a"));
        assert_eq!(waiters.next_marked(), Some(key("b")));
        assert_eq!(waiters.next_marked(), None);
        let oldest = |kind, after| {
            waiters
                .oldest(&key("b"), kind, after)
                .map(|(one, _)| one.number)
        };
        assert_eq!(oldest(LIST, 0), Some(first.number));
        assert_eq!(oldest(LIST, first.number), Some(second.number));
        assert_eq!(oldest(SORTED, 0), Some(sorted.number));
        assert!(waiters.remove(&first) && !waiters.remove(&first));
        assert_eq!(oldest(LIST, 0), Some(second.number));
        waiters.unmark(&key("b"));
        assert_eq!(waiters.of_databases(0, 3), [key("b")]);
        assert_eq!(waiters.of_databases(1, 3), []);
        assert!(waiters.remove(&second) && waiters.remove(&sorted));
        assert_eq!(waiters.counts(), (0, 0, 0));
        assert!(waiters.parts.iter().all(|part| part.lock().is_empty()));
    }

    #[test]
    fn there_is_a_bound_on_how_many_wait() {
        let (waiters, clients) = (Waiters::default(), Clients::default());
        let all: Vec<_> = (0..WAITERS_MAX)
            .map(|_| wait(&waiters, &clients, LIST, &["a"]))
            .collect();
        let one_more = WaitRequest {
            client: clients.add(Seat::default(), None, 0),
            args: Box::default(),
            keys: 0..0,
            ..request_like(&all[0])
        };
        assert!(waiters.add(one_more).is_none());
        assert!(all.iter().all(|one| waiters.remove(one)));
        assert_eq!(waiters.counts(), (0, 0, 0));
    }

    fn request_like(waiter: &Waiter) -> WaitRequest {
        let of = &waiter.request;
        WaitRequest {
            client: Arc::clone(&of.client),
            args: of.args.clone(),
            keys: of.keys.clone(),
            ..*of
        }
    }
}

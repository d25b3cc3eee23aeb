//! Tracking: notifies clients when a key changes, so that they drop it from their cache.
//!
//! In the default mode the table remembers for each key name which clients have read it; the first
//! change notifies them and removes the name. In broadcast mode a client is notified of all names
//! with its prefixes, batched over an iteration of the event loop that changed them.
//!
//! A reader registers before it reads, and a change is reported under the shard's lock, so no
//! change is missed between the two. Lock order: shard, table, inbox.
//!
//! Why: docs/decisions/0017. Tests: at the end of this file; server/tests/resp_tracking.rs.

mod broadcast;
mod table;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellar_protocol::resp::{Proto, Reply};
use parking_lot::{Mutex, MutexGuard};

use self::broadcast::Broadcast;
use self::table::Table;
use crate::clients::client::{Client, Redirect};

pub use self::table::TABLE_BYTES_MAX;

/// Names dropped for each name that is added above the limits: more than one, because a long name
/// may need the memory of several short ones. Background maintenance drops the rest.
const DROPPED_BY_ENTRY: usize = 4;
/// Prefix lookups that take as long as one message.
const LOOKED_UP_FOR_A_MESSAGE: usize = 8;
/// Names that background maintenance frees, or drops, in one step: some milliseconds on a thread
/// that serves no client.
const TIDIED_NAMES: usize = 4_096;
/// Invalidations that one request sends: some ten milliseconds. If a request changes, evicts or
/// expires more, all clients are told to drop everything.
const TOLD_AT_ONCE_MAX: usize = 1 << 16;
/// The channel by which RESP2 clients get invalidations.
const CHANNEL: &[u8] = b"__redis__:invalidate";

thread_local! {
    /// The client whose command this thread runs, if it has NOLOOP set.
    static WRITER: Cell<u64> = const { Cell::new(0) };
    /// Messages that this thread may still send for this request, or in this step.
    static LEFT_AT_ONCE: Cell<usize> = const { Cell::new(TOLD_AT_ONCE_MAX) };
    /// Whether all readers know the changes of this thread already.
    static IS_KNOWN: Cell<bool> = const { Cell::new(false) };
    /// Whether nested requests count as parts of one step.
    static IS_ONE_STEP: Cell<bool> = const { Cell::new(false) };
}

/// Runs `run` on behalf of a client with NOLOOP set.
pub fn as_writer<R>(id: u64, run: impl FnOnce() -> R) -> R {
    let before = WRITER.replace(id);
    let result = run();
    WRITER.set(before);
    result
}

/// Records that an iteration of this thread begins.
pub fn begin_turn() {
    broadcast::begin_turn();
    LEFT_AT_ONCE.set(TOLD_AT_ONCE_MAX);
}

/// Records that this thread begins a request: its invalidations take bounded time, however many
/// clients have read the changed keys.
#[inline]
pub fn begin_request() {
    if !IS_ONE_STEP.get() {
        LEFT_AT_ONCE.set(TOLD_AT_ONCE_MAX);
    }
}

/// Runs `run` as one request, whatever requests begin inside it.
pub fn as_one_step<R>(run: impl FnOnce() -> R) -> R {
    begin_request();
    let before = IS_ONE_STEP.replace(true);
    let result = run();
    IS_ONE_STEP.set(before);
    result
}

/// Runs `run`, whose changes all tracking clients know already: it sends no invalidations, and only
/// removes the names from the table.
pub fn as_known<R>(run: impl FnOnce() -> R) -> R {
    let before = IS_KNOWN.replace(true);
    let result = run();
    IS_KNOWN.set(before);
    result
}

/// Counts sent messages; returns whether the request has sent too many.
fn are_too_many(sent: usize) -> bool {
    let left = LEFT_AT_ONCE.get();
    let is_over = sent > left;
    LEFT_AT_ONCE.set(left.checked_sub(sent).unwrap_or(TOLD_AT_ONCE_MAX));
    is_over
}

/// How a client's keys are tracked: bits of
/// [`Tracker::mode`](crate::clients::client::Tracker::mode).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode(pub u32);

impl Mode {
    /// Tracking is enabled.
    pub const ON: Mode = Mode(1);
    /// It is notified of all keys with its prefixes.
    pub const BCAST: Mode = Mode(1 << 1);
    /// Only reads after CLIENT CACHING YES count.
    pub const OPTIN: Mode = Mode(1 << 2);
    /// Reads after CLIENT CACHING NO do not count.
    pub const OPTOUT: Mode = Mode(1 << 3);
    /// It is not notified of its own changes.
    pub const NOLOOP: Mode = Mode(1 << 4);
    /// The client that its invalidations are redirected to has disconnected.
    pub const BROKEN: Mode = Mode(1 << 5);

    /// Whether it has all these bits.
    #[must_use]
    pub fn has(self, other: Mode) -> bool {
        self.0 & other.0 == other.0
    }

    /// With these bits too.
    #[must_use]
    pub fn and(self, other: Mode) -> Mode {
        Mode(self.0 | other.0)
    }

    /// A client's.
    #[must_use]
    pub fn of(client: &Client) -> Mode {
        // Relaxed: a client's own thread sets it before it registers anything.
        Mode(client.tracker.mode.load(Ordering::Relaxed))
    }

    fn store(self, client: &Client) {
        client.tracker.mode.store(self.0, Ordering::Relaxed);
    }
}

/// The state of tracking: which clients are notified of which keys.
#[derive(Debug)]
pub struct Tracking {
    table: Table,
    broadcast: Broadcast,
    trackers: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Held while a name is dropped because the table is full.
    dropping: Mutex<()>,
    /// Names that were dropped because the table was full.
    // Relaxed: a count orders nothing.
    dropped: AtomicU64,
}

impl Tracking {
    /// Creates it without clients; the table holds up to `keys_max` names, 0 for no limit but that
    /// of their bytes.
    #[must_use]
    pub fn new(keys_max: usize) -> Tracking {
        Tracking {
            table: Table::new(keys_max),
            broadcast: Broadcast::default(),
            trackers: Mutex::default(),
            dropping: Mutex::default(),
            dropped: AtomicU64::new(0),
        }
    }

    /// Starts tracking for a client, or changes its mode; returns whether it is new.
    pub fn start(
        &self,
        client: &Arc<Client>,
        mode: Mode,
        redirect: Option<Arc<Client>>,
        prefixes: &[&[u8]],
    ) -> bool {
        *client.tracker.redirect.lock() = redirect.map(Redirect::to);
        mode.and(Mode::ON).store(client);
        if mode.has(Mode::BCAST) {
            self.broadcast.join(client, prefixes);
        }
        let mut trackers = self.lock_trackers();
        trackers.insert(client.id, Arc::clone(client)).is_none()
    }

    /// Stops tracking for a client; returns whether it was tracked. Its entries in the table are
    /// dropped later one by one, or all at once when no tracking client is left.
    pub fn stop(&self, client: &Client, prefixes: &[Box<[u8]>]) -> bool {
        self.broadcast.leave(client, prefixes);
        Mode::default().store(client);
        *client.tracker.redirect.lock() = None;
        let mut trackers = self.lock_trackers();
        let was_told = trackers.remove(&client.id).is_some();
        if was_told && trackers.is_empty() {
            // While no client is tracked, flushes are not reported.
            self.table.clear(|| ());
        }
        was_told
    }

    /// Registers a client that is about to read a key.
    pub fn remember(&self, key: &[u8], client: &Arc<Client>) {
        self.table.remember(key, client);
        self.shrink(DROPPED_BY_ENTRY);
    }

    /// Frees some of the void names, and drops some of the names above the limits; returns whether
    /// more is left to do.
    pub fn tidy_up(&self) -> bool {
        let is_less = self.table.free_some(TIDIED_NAMES);
        self.shrink(TIDIED_NAMES);
        is_less > 0 || self.table.is_above_limits()
    }

    /// Reports a change of a key; `is_own` if this thread's client may have made it.
    pub fn changed(&self, key: &[u8], is_own: bool) {
        if IS_KNOWN.get() {
            return self.table.take(key, |_| ());
        }
        let writer = if is_own { WRITER.get() } else { 0 };
        self.broadcast.changed(key, writer);
        let keys = [key];
        // Very many clients may have read it: it is encoded once.
        let mut told = Invalidation::new(Told::Keys(&keys));
        let mut sent = 0;
        self.table.take(key, |client| {
            let mode = Mode::of(client);
            let is_told = mode.has(Mode::ON) && !mode.has(Mode::BCAST);
            if is_told && !(mode.has(Mode::NOLOOP) && client.id == writer) {
                told.send(client);
                sent += 1;
            }
        });
        if are_too_many(sent) {
            self.flushed();
        }
    }

    /// How many of these keys can be changed with at most `most` invalidations: all, or those
    /// before the first that exceeds it. Looks up each key if some name has two readers.
    #[must_use]
    pub fn keys_told_within<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        most: usize,
    ) -> usize {
        let count = keys.clone().count();
        let looked_up = self.broadcast.lengths() / LOOKED_UP_FOR_A_MESSAGE;
        if !self.table.is_shared() && looked_up == 0 {
            return count;
        }
        let mut told = 0;
        keys.into_iter()
            .position(|key| {
                told += self.table.readers(key) + looked_up;
                told > most
            })
            .unwrap_or(count)
    }

    /// Whether a broadcasting client is notified of every change to a key, whoever has read it.
    #[must_use]
    pub fn broadcasts(&self, key: &[u8]) -> bool {
        self.broadcast.concerns(key)
    }

    /// Handles the removal of all keys of a database, or of too many to name.
    pub fn flushed(&self) {
        let trackers = self.lock_trackers();
        let tell_all = || trackers.values().for_each(|client| tell(client, Told::All));
        self.table.clear(tell_all);
    }

    /// Handles the loss of cluster slots, whose changes this node reports no more. Clients that
    /// support it are told which slots, and stay registered for all other keys; the others drop
    /// everything.
    pub fn lost(&self, slots: &[(u16, u16)]) {
        let trackers = self.lock_trackers();
        if !trackers.values().any(|client| hears_slots(client)) {
            drop(trackers);
            return self.flushed();
        }
        // Encoded once: there may be very many.
        let [mut which, mut all] = [Told::Slots(slots), Told::All].map(Invalidation::new);
        for client in trackers.values() {
            match hears_slots(client) {
                true => which.send(client),
                false => all.send(client),
            }
        }
    }

    /// Sends pending invalidations of broadcasting clients; costs one load if none are pending.
    #[inline]
    pub fn broadcast(&self) {
        self.broadcast.send();
    }

    /// Most names that the table holds; 0 for no limit but that of their bytes.
    #[must_use]
    pub fn keys_max(&self) -> usize {
        self.table.keys_max()
    }

    /// Changes this limit; what is above it is dropped from now on.
    pub fn set_keys_max(&self, keys_max: usize) {
        self.table.set_keys_max(keys_max);
        self.shrink(TIDIED_NAMES);
    }

    /// Bytes of the table, including those not freed yet.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Number of names in the table, of their readers, and of broadcast prefixes.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let (keys, items) = self.table.counts();
        (keys, items, self.broadcast.prefixes())
    }

    /// Number of tracking clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.lock_trackers().len()
    }

    /// Names that were dropped because the table was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Drops at most `most` names while the table is above its limits.
    fn shrink(&self, most: usize) {
        for _ in 0..most {
            if !self.table.is_above_limits() {
                return;
            }
            // One thread drops at a time: two that find one name too many would drop two.
            let turn = self.dropping.lock();
            if !self.table.is_above_limits() {
                return;
            }
            if self.table.is_too_large() && self.table.free_some(1) > 0 {
                continue;
            }
            let mut sent = 0;
            let found = self.table.drop_one(|key, client| {
                if Mode::of(client).has(Mode::ON) && !Mode::of(client).has(Mode::BCAST) {
                    tell(client, Told::Keys(&[key]));
                    sent += 1;
                }
            });
            drop(turn);
            if !found {
                return;
            }
            self.dropped.fetch_add(1, Ordering::Relaxed);
            if are_too_many(sent) {
                return self.flushed();
            }
        }
    }

    fn lock_trackers(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.trackers.lock()
    }
}

/// The content of an invalidation.
#[derive(Clone, Copy)]
enum Told<'a> {
    /// These keys have changed.
    Keys(&'a [&'a [u8]]),
    /// All keys in these slots, from the first to the last of each run.
    Slots(&'a [(u16, u16)]),
    /// All keys.
    All,
}

/// Whether a client is told which slots were lost; a client that redirects is not.
fn hears_slots(client: &Client) -> bool {
    // Relaxed: as it says where it is declared.
    client.wishes[2].load(Ordering::Relaxed)
        && client.proto() == Proto::V3
        && client.tracker.redirect.lock().is_none()
}

/// Sends an invalidation to a client, or to its redirection target.
fn tell(client: &Arc<Client>, told: Told<'_>) {
    Invalidation::new(told).send(client);
}

/// An invalidation, encoded once for each protocol form.
struct Invalidation<'a> {
    told: Told<'a>,
    push: Vec<u8>,
    message: Vec<u8>,
}

impl<'a> Invalidation<'a> {
    fn new(told: Told<'a>) -> Invalidation<'a> {
        let (push, message) = (Vec::new(), Vec::new());
        Invalidation {
            told,
            push,
            message,
        }
    }

    /// Sends it to a client, or to its redirection target.
    fn send(&mut self, client: &Arc<Client>) {
        let redirect = client.tracker.redirect.lock().clone();
        let Some(redirect) = redirect else {
            if client.proto() == Proto::V3 {
                self.push_to(client);
            }
            return;
        };
        let target = &redirect.target;
        if redirect.is_broken() {
            return notify_broken(client, target.id);
        }
        if target.proto() == Proto::V3 {
            self.push_to(target);
        } else if target.is_subscriber() {
            if self.message.is_empty() {
                write_message(&mut self.message, self.told);
            }
            target.push(|out| out.extend_from_slice(&self.message));
        }
    }

    fn push_to(&mut self, client: &Client) {
        if self.push.is_empty() {
            write_push(&mut self.push, self.told);
        }
        client.push(|out| out.extend_from_slice(&self.push));
    }
}

/// Tells a client that its redirection target has disconnected.
fn notify_broken(client: &Client, target: u64) {
    Mode::of(client).and(Mode::BROKEN).store(client);
    if client.proto() == Proto::V3 {
        client.push(|out| {
            let mut reply = Reply::new(out, Proto::V3);
            reply.push(2);
            reply.bulk(b"tracking-redir-broken");
            reply.integer(i64::try_from(target).unwrap_or(i64::MAX));
        });
    }
}

fn write_push(out: &mut Vec<u8>, told: Told<'_>) {
    let mut reply = Reply::new(out, Proto::V3);
    reply.push(2);
    reply.bulk(match told {
        Told::Slots(_) => b"invalidate-slots".as_slice(),
        Told::Keys(_) | Told::All => b"invalidate",
    });
    write_keys(&mut reply, told);
}

fn write_message(out: &mut Vec<u8>, told: Told<'_>) {
    let mut reply = Reply::new(out, Proto::V2);
    reply.array(3);
    reply.bulk(b"message");
    reply.bulk(CHANNEL);
    write_keys(&mut reply, told);
}

fn write_keys(reply: &mut Reply<'_>, told: Told<'_>) {
    match told {
        Told::Keys(keys) => {
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        Told::Slots(runs) => {
            reply.array(2 * runs.len());
            for &(first, last) in runs {
                reply.integer(first.into());
                reply.integer(last.into());
            }
        }
        Told::All => reply.null(),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::sync::atomic::AtomicBool;

    use super::broadcast::TURN_MESSAGES_MAX;
    use super::*;
    use crate::clients::client::{Clients, Delivery, Seat};

    fn client(clients: &Clients) -> Arc<Client> {
        let client = clients.add(Seat::default(), None, 0);
        client.protocol.store(3, Ordering::Relaxed);
        client
    }

    fn told(client: &Client) -> String {
        match client.deliver() {
            Delivery::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
            Delivery::Drop => panic!("it has to go"),
        }
    }

    fn push(keys: &[&str]) -> String {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let mut out = Vec::new();
        write_push(&mut out, Told::Keys(&keys));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_reader_is_told_once_of_the_first_change() {
        let (tracking, clients) = (Tracking::new(10), Clients::default());
        let reader = client(&clients);
        tracking.start(&reader, Mode::default(), None, &[]);
        tracking.remember(b"key", &reader);
        tracking.remember(b"key", &reader);
        assert_eq!(tracking.counts(), (1, 1, 0));
        tracking.changed(b"other", true);
        tracking.changed(b"key", true);
        tracking.changed(b"key", true);
        assert_eq!(told(&reader), push(&["key"]));
        assert_eq!(tracking.counts(), (0, 0, 0));
    }

    #[test]
    fn a_full_table_drops_names_and_says_so() {
        let (tracking, clients) = (Tracking::new(2), Clients::default());
        let reader = client(&clients);
        tracking.start(&reader, Mode::default(), None, &[]);
        for key in ["a", "b", "c", "d", "e"] {
            tracking.remember(key.as_bytes(), &reader);
        }
        assert_eq!((tracking.counts().0, tracking.dropped()), (2, 3));
        let first = told(&reader);
        tracking.set_keys_max(1);
        let second = told(&reader);
        assert_eq!(first.matches("invalidate").count(), 3);
        assert_eq!(second.matches("invalidate").count(), 1);
        tracking.flushed();
        assert_eq!(told(&reader), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
        assert_eq!(tracking.counts(), (0, 0, 0));
    }

    #[test]
    fn lost_slots_are_told_to_who_hears_them_and_void_all_for_the_others() {
        let (tracking, clients) = (Tracking::new(0), Clients::default());
        let (hears, other, led) = (client(&clients), client(&clients), client(&clients));
        hears.wishes[2].store(true, Ordering::Relaxed);
        led.wishes[2].store(true, Ordering::Relaxed);
        tracking.start(&hears, Mode::default(), None, &[]);
        tracking.start(&other, Mode::default(), None, &[]);
        tracking.start(&led, Mode::default(), Some(Arc::clone(&other)), &[]);
        for key in [&b"stays"[..], b"moves"] {
            tracking.remember(key, &hears);
        }
        tracking.lost(&[(1, 5), (9, 9)]);
        let slots = ">2\r\n$16\r\ninvalidate-slots\r\n*4\r\n:1\r\n:5\r\n:9\r\n:9\r\n";
        let flush = ">2\r\n$10\r\ninvalidate\r\n_\r\n";
        assert_eq!(told(&hears), slots);
        assert_eq!((told(&other), told(&led)), (flush.repeat(2), String::new()));
        // Names in the remaining slots are reported as before; those that moved are not.
        as_known(|| tracking.changed(b"moves", true));
        tracking.changed(b"moves", true);
        assert_eq!((told(&hears), tracking.counts().0), (String::new(), 1));
        tracking.changed(b"stays", true);
        assert_eq!(told(&hears), push(&["stays"]));
        // Without any client that is told of slots all names are removed at once.
        tracking.stop(&hears, &[]);
        tracking.stop(&led, &[]);
        tracking.remember(b"key", &other);
        tracking.lost(&[(1, 5)]);
        assert_eq!((told(&other), tracking.counts().0), (flush.to_owned(), 0));
    }

    #[test]
    fn the_last_who_leaves_takes_all_names_along() {
        let (tracking, clients) = (Tracking::new(0), Clients::default());
        let readers = [client(&clients), client(&clients)];
        for reader in &readers {
            assert!(tracking.start(reader, Mode::default(), None, &[]));
            tracking.remember(b"key", reader);
        }
        assert!(tracking.stop(&readers[0], &[]));
        assert_eq!(tracking.counts(), (1, 2, 0));
        assert!(tracking.stop(&readers[1], &[]) && !tracking.stop(&readers[1], &[]));
        assert_eq!(tracking.counts(), (0, 0, 0));
    }

    #[test]
    fn what_is_forgotten_at_once_tells_nobody_and_counts_until_it_is_freed() {
        let (tracking, clients) = (Tracking::new(0), Clients::default());
        let reader = client(&clients);
        tracking.start(&reader, Mode::default(), None, &[]);
        let remember = |names: std::ops::Range<usize>| {
            names.for_each(|name| tracking.remember(format!("key{name}").as_bytes(), &reader));
        };
        remember(0..3 * TIDIED_NAMES);
        let held = tracking.bytes();
        tracking.flushed();
        assert_eq!((tracking.counts(), tracking.bytes()), ((0, 0, 0), held));
        assert_eq!(told(&reader), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
        tracking.changed(b"key1", true);
        assert_eq!(told(&reader), "");
        // Each new name frees at least one.
        remember(0..100);
        assert!(tracking.bytes() < held);
        tracking.changed(b"key1", true);
        assert_eq!(told(&reader), push(&["key1"]));
        while tracking.tidy_up() {}
        assert_eq!(tracking.counts(), (99, 99, 0));
        tracking.stop(&reader, &[]);
        while tracking.tidy_up() {}
        assert_eq!((tracking.counts(), tracking.bytes()), ((0, 0, 0), 0));
    }

    #[test]
    fn a_smaller_table_is_reached_step_by_step() {
        let (tracking, clients) = (Tracking::new(0), Clients::default());
        let reader = client(&clients);
        tracking.start(&reader, Mode::default(), None, &[]);
        for name in 0..3 * TIDIED_NAMES {
            tracking.remember(&name.to_le_bytes(), &reader);
        }
        tracking.set_keys_max(1);
        assert_eq!(tracking.counts().0, 2 * TIDIED_NAMES);
        while tracking.tidy_up() {}
        assert_eq!(
            (tracking.counts().0, tracking.dropped()),
            (1, 3 * TIDIED_NAMES as u64 - 1)
        );
    }

    #[test]
    fn long_names_fill_the_table_by_their_bytes() {
        let (tracking, clients) = (Tracking::new(0), Clients::default());
        let reader = client(&clients);
        for number in 0..TABLE_BYTES_MAX / 60_000 + 10 {
            let mut key = vec![b'x'; 60_000];
            key.extend_from_slice(number.to_string().as_bytes());
            tracking.remember(&key, &reader);
        }
        assert!(tracking.dropped() >= 10);
    }

    #[test]
    fn who_broadcasts_hears_of_prefixes_once_a_turn_and_not_of_itself() {
        let (tracking, clients) = (Tracking::new(10), Clients::default());
        let (all, some) = (client(&clients), client(&clients));
        tracking.start(&all, Mode::BCAST, None, &[]);
        tracking.start(
            &some,
            Mode::BCAST.and(Mode::NOLOOP),
            None,
            &[b"user:", b"x"],
        );
        for key in ["user:2", "other", "user:1", "user:2"] {
            tracking.changed(key.as_bytes(), true);
        }
        as_writer(some.id, || tracking.changed(b"user:3", true));
        as_writer(some.id, || tracking.changed(b"x1", true));
        tracking.broadcast();
        tracking.broadcast();
        assert_eq!(
            told(&all),
            push(&["other", "user:1", "user:2", "user:3", "x1"])
        );
        assert_eq!(told(&some), push(&["user:1", "user:2"]));
        let prefixes = [b"user:".as_slice().into(), b"x".as_slice().into()];
        tracking.stop(&some, &prefixes);
        tracking.changed(b"user:1", true);
        tracking.broadcast();
        assert_eq!((told(&some), tracking.counts().2), (String::new(), 1));
    }

    #[test]
    fn too_many_names_for_too_many_clients_become_a_line_for_each() {
        let (tracking, clients) = (Tracking::new(10), Clients::default());
        let all = many(&clients, &tracking, Mode::BCAST);
        let (own, other) = (client(&clients), client(&clients));
        for (listener, prefix) in [(&own, &b"key:"[..]), (&other, b"other:")] {
            let mode = Mode::BCAST.and(Mode::NOLOOP);
            tracking.start(listener, mode, None, &[prefix]);
        }
        let change = |count: usize| {
            as_writer(own.id, || {
                for number in 0..count {
                    tracking.changed(format!("key:{number:060}").as_bytes(), true);
                }
                tracking.changed(b"other:1", true);
            });
            tracking.broadcast();
        };
        begin_turn();
        // A megabyte of names for 200 clients.
        change(16 << 10);
        let flush = ">2\r\n$10\r\ninvalidate\r\n_\r\n";
        for client in &all {
            let told = told(client);
            assert!(told.ends_with(flush), "{}", &told[told.len() - 100..]);
            assert!(told.len() < (8 << 20) / 200 * 2, "{}", told.len());
        }
        // Each by its own prefix: the client that wrote all of it, and one that tracks one name.
        assert_eq!(told(&own), "");
        assert_eq!(told(&other), push(&["other:1"]));
        // In the next iteration names are reported again.
        tracking.changed(b"key:1", true);
        begin_turn();
        tracking.broadcast();
        assert_eq!(told(&all[0]), push(&["key:1"]));
    }

    #[test]
    fn one_request_tells_names_or_that_anything_may_have_changed() {
        let (tracking, clients) = (Tracking::new(0), Clients::default());
        let all = many(&clients, &tracking, Mode::default());
        let keys: Vec<String> = (0..400).map(|number| format!("key:{number}")).collect();
        let flush = ">2\r\n$10\r\ninvalidate\r\n_\r\n";
        let change = |each: &dyn Fn()| {
            for key in &keys {
                for client in &all {
                    tracking.remember(key.as_bytes(), client);
                }
            }
            for key in &keys {
                each();
                tracking.changed(key.as_bytes(), true);
            }
        };
        begin_request();
        change(&|| ());
        for client in &all {
            let told = told(client);
            assert_eq!(told.matches(flush).count(), 1);
            assert_eq!(told.matches("key:").count(), TOLD_AT_ONCE_MAX / 200 + 1);
        }
        // The same number in separate requests is reported by name.
        change(&begin_request);
        for client in &all {
            let told = told(client);
            assert_eq!(
                (told.matches(flush).count(), told.matches("key:").count()),
                (0, 400)
            );
        }
        // A request that begins within a step is a part of it.
        as_one_step(|| change(&begin_request));
        assert_eq!(told(&all[0]).matches(flush).count(), 1);
    }

    #[test]
    fn one_turn_tells_prefixes_or_that_anything_may_have_changed() {
        let (tracking, clients) = (Tracking::new(10), Clients::default());
        let prefixes: Vec<String> = (0..400).map(|number| format!("{number:03}:")).collect();
        let words: Vec<&[u8]> = prefixes.iter().map(|prefix| prefix.as_bytes()).collect();
        let all: Vec<_> = (0..200).map(|_| client(&clients)).collect();
        for client in &all {
            tracking.start(client, Mode::BCAST, None, &words);
        }
        begin_turn();
        for prefix in &words {
            tracking.changed(prefix, true);
        }
        tracking.broadcast();
        let flush = ">2\r\n$10\r\ninvalidate\r\n_\r\n";
        for client in &all {
            let told = told(client);
            assert_eq!(told.matches(flush).count(), 1);
            assert_eq!(told.matches("$4\r\n").count(), TURN_MESSAGES_MAX / 200);
        }
        tracking.changed(words[7], true);
        tracking.broadcast();
        assert_eq!(told(&all[0]), push(&["007:"]));
    }

    /// So many clients that notifying all of them takes a while, in the order of notification.
    fn many(clients: &Clients, tracking: &Tracking, mode: Mode) -> Vec<Arc<Client>> {
        let all: Vec<_> = (0..200).map(|_| client(clients)).collect();
        for client in &all {
            tracking.start(client, mode, None, &[]);
        }
        all
    }

    /// Runs `disturb` on another thread repeatedly while `check` runs.
    fn beside(disturb: impl Fn() + Sync, check: impl FnOnce()) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    disturb();
                }
            });
            let result = std::panic::catch_unwind(AssertUnwindSafe(check));
            is_over.store(true, Ordering::Relaxed);
            if let Err(panic) = result {
                std::panic::resume_unwind(panic);
            }
        });
    }

    /// Lets the other thread run some steps, in each round more or fewer.
    fn pause(round: usize) {
        (0..round % 1000).for_each(|_| std::hint::spin_loop());
    }

    #[test]
    fn a_change_is_told_before_its_reply_even_if_another_thread_tells_it() {
        let (tracking, clients) = (Tracking::new(0), Clients::default());
        let all = many(&clients, &tracking, Mode::BCAST);
        let send = || {
            begin_turn();
            tracking.broadcast();
        };
        beside(send, || {
            for round in 0..10_000 {
                begin_turn();
                tracking.changed(b"key", true);
                pause(round);
                tracking.broadcast();
                assert_eq!(told(&all[199]), push(&["key"]), "round {round}");
            }
        });
    }

    #[test]
    fn a_change_beside_a_flush_is_told_before_its_reply() {
        let (tracking, clients) = (Tracking::new(0), Clients::default());
        let all = many(&clients, &tracking, Mode::default());
        let flush = || tracking.flushed();
        beside(flush, || {
            for round in 0..10_000 {
                told(&all[199]);
                tracking.remember(b"key", &all[199]);
                pause(round);
                tracking.changed(b"key", true);
                assert_ne!(told(&all[199]), "", "round {round}");
            }
        });
    }

    #[test]
    fn a_redirection_to_nobody_is_told() {
        let (tracking, clients) = (Tracking::new(10), Clients::default());
        let (reader, target) = (client(&clients), client(&clients));
        tracking.start(&reader, Mode::default(), Some(Arc::clone(&target)), &[]);
        tracking.remember(b"a", &reader);
        tracking.changed(b"a", true);
        assert_eq!(
            (told(&reader), told(&target)),
            (String::new(), push(&["a"]))
        );
        tracking.remember(b"a", &reader);
        clients.remove(target.id);
        tracking.changed(b"a", true);
        assert!(told(&reader).contains("tracking-redir-broken"));
        assert!(Mode::of(&reader).has(Mode::BROKEN));
    }
}

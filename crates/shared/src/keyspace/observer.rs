//! Observer: reports changes of items to clients, whatever protocol made them.
//!
//! The engine calls it under a shard's lock: for client-side caching ([`Tracking`]), watched keys
//! ([`Watching`]), blocking commands ([`Waiters`]) and the keyspace events of expiry and eviction.
//! While none of these is in use, this costs the engine one load.
//!
//! Why: docs/decisions/0017, 0046.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cellar_config::settings::Settings;
use cellar_engine::{Cache, Change, Deadline, Happened, Item, Key, Kind, Space};
use cellar_system::clock::LoopClock;

use crate::clients::client::Client;
use crate::clients::events::{Class, Events, Telling};
use crate::clients::pubsub::PubSub;
use crate::clients::tracking::{Mode, Tracking};
use crate::clients::waiters::{MarkedKey, WaitEnd, WaitRequest, Waiter, Waiters};
use crate::keyspace::databases::Databases;
use crate::keyspace::deadlines::Deadlines;
use crate::keyspace::watching::{Mark, Watching};
use cellar_values::{HASH, Hash, Set, has_member_deadlines, hash, without_expired};

/// The weight of one waiter in the reasons to observe changes: the other reasons stay below it.
const ONE_WAITER: u64 = 1 << 32;

/// Keys checked in one step because their deadlines have passed.
const DUE_MAX: usize = 1_000;

/// When an item expires, and when the first of its fields does.
fn deadlines_of(item: Item<'_>) -> (Deadline, Deadline) {
    (item.deadline, first_deadline_of(item))
}

/// When the first field or member of an item goes, expired or not.
fn first_deadline_of(item: Item<'_>) -> Deadline {
    match has_member_deadlines(item.kind, item.value) {
        true => hash::first_deadline(item.value),
        false => Deadline::NEVER,
    }
}

/// Everything that is notified of changes.
#[derive(Debug)]
pub struct Observer {
    /// Channels and their subscribers.
    pub pubsub: PubSub,
    /// Client-side caching.
    pub tracking: Tracking,
    events: Events,
    watching: Watching,
    deadlines: Deadlines,
    /// Fields of hashes that were removed because their deadlines had passed.
    // Relaxed: a count that orders nothing.
    expired_fields: AtomicU64,
    databases: Databases,
    /// Clients in blocking commands.
    pub waiters: Waiters,
    /// Number of reasons to observe changes; waiters are [`ONE_WAITER`] each.
    // Relaxed: a shard's lock orders it before the changes to be reported.
    reasons: AtomicU64,
}

impl Observer {
    /// Creates an observer without any reasons.
    #[must_use]
    pub fn new(settings: &Settings) -> Observer {
        let observer = Observer {
            pubsub: PubSub::default(),
            tracking: Tracking::new(settings.tracking_table_max_keys),
            events: Events::default(),
            watching: Watching::default(),
            deadlines: Deadlines::default(),
            expired_fields: AtomicU64::new(0),
            databases: Databases::new(settings.databases, &settings.keep),
            waiters: Waiters::default(),
            reasons: AtomicU64::new(0),
        };
        // The letters were validated when the setting was read.
        let _ = observer.set_events(&settings.notify_keyspace_events);
        observer
    }

    /// The databases, which it shares with the server.
    #[must_use]
    pub fn databases(&self) -> &Databases {
        &self.databases
    }

    /// Which keyspace events are published.
    #[inline]
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Publishes some of the queued keyspace events. Called by one thread only.
    pub fn tell_waiting_events(&self) -> Telling {
        self.events.tell_waiting(&self.pubsub)
    }

    /// Chooses which keyspace events are published.
    ///
    /// # Errors
    /// A message if the letters are invalid.
    pub fn set_events(&self, letters: &str) -> Result<(), String> {
        let before = self.events.needs_engine();
        self.events.set(letters)?;
        self.note(before, self.events.needs_engine());
        Ok(())
    }

    /// Publishes a keyspace event if events of its class are.
    #[inline]
    pub fn notify(&self, class: Class, event: &str, key: &[u8], database: u32) {
        if self.events.has(class) {
            self.events.publish(&self.pubsub, event, key, database);
        }
    }

    /// Publishes an event about fields of a hash if such events are.
    #[inline]
    pub fn notify_fields<F: AsRef<[u8]>>(
        &self,
        event: &str,
        key: &[u8],
        fields: impl Iterator<Item = F>,
        database: u32,
    ) {
        if self.events.has_subkeys(Class::Hash) {
            let fields: Vec<F> = fields.collect();
            let fields: Vec<&[u8]> = fields.iter().map(AsRef::as_ref).collect();
            self.events
                .publish_subkeys(&self.pubsub, (event, key), &fields, database);
        }
    }

    /// Starts to track keys that a client reads; see [`Tracking::start`].
    pub fn track(
        &self,
        client: &Arc<Client>,
        mode: Mode,
        redirect: Option<Arc<Client>>,
        prefixes: &[&[u8]],
    ) {
        let is_new = self.tracking.start(client, mode, redirect, prefixes);
        self.note(false, is_new);
    }

    /// Stops tracking for a client.
    pub fn untrack(&self, client: &Client, prefixes: &[Box<[u8]>]) {
        let was_told = self.tracking.stop(client, prefixes);
        self.note(was_told, false);
    }

    /// Begins to watch a key of a database.
    pub fn watch(&self, key: &[u8], database: u32, mark: &Arc<Mark>, cache: &Cache) {
        let space = self.databases.space(database);
        // An item past its deadline is removed before the client listens.
        self.meet(key, database, cache);
        self.note(false, true);
        self.watching.add(key, database, space, mark);
        if !self.meet(key, database, cache) {
            self.watching.note_absent(key, database, mark);
        }
    }

    /// How many flushes the watched keys have seen.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.watching.flushes()
    }

    /// See [`Watching::was_flushed`].
    #[must_use]
    pub fn was_flushed(&self, key: &[u8], database: u32, mark: &Arc<Mark>, is_there: bool) -> bool {
        self.watching.was_flushed(key, database, mark, is_there)
    }

    /// Ends to watch a key of a database.
    pub fn unwatch(&self, key: &[u8], database: u32, mark: &Arc<Mark>) {
        self.watching.remove(key, database, mark);
        self.note(true, false);
    }

    /// Blocks a client on keys; none if too many clients wait. A value that it looks up afterwards
    /// was either stored before, and is found, or marks the key.
    #[must_use]
    pub fn wait(&self, request: WaitRequest) -> Option<Arc<Waiter>> {
        self.reasons.fetch_add(ONE_WAITER, Ordering::Relaxed);
        let waiter = self.waiters.add(request);
        if waiter.is_none() {
            self.end_reason();
        }
        waiter
    }

    /// Ends a client's wait; returns whether it was waiting. The caller is inside the exclusive
    /// lock.
    pub fn unwait(&self, waiter: &Waiter) -> bool {
        let was_there = self.waiters.remove(waiter);
        if was_there {
            self.end_reason();
        }
        was_there
    }

    /// The same, but leaves its entries in queues: see [`Waiters::dismiss`].
    pub fn dismiss(&self, waiter: &Waiter) -> bool {
        let was_there = self.waiters.dismiss(waiter);
        if was_there {
            self.end_reason();
        }
        was_there
    }

    /// Ends a client's wait, with an answer that it got no value.
    pub fn end_wait(&self, waiter: &Waiter, end: WaitEnd) -> bool {
        let was_there = self.unwait(waiter);
        if was_there {
            waiter.answer_end(end);
        }
        was_there
    }

    fn end_reason(&self) {
        self.reasons.fetch_sub(ONE_WAITER, Ordering::Relaxed);
    }

    /// Whether any client waits for a value.
    #[inline]
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) >= ONE_WAITER
    }

    /// Looks a key up, so that it and its fields expire if their deadlines have passed; returns
    /// whether it still exists.
    pub fn meet(&self, key: &[u8], database: u32, cache: &Cache) -> bool {
        let hashed = cache.key_in(self.databases.space(database), key);
        hashed.is_ok_and(|hashed| self.meet_key(hashed, cache))
    }

    fn meet_key(&self, key: Key<'_>, cache: &Cache) -> bool {
        let now = cache.now();
        let is_overdue = |item: Item<'_>| first_deadline_of(item).has_passed(now);
        match cache.meet(key, is_overdue) {
            None => false,
            Some(false) => true,
            Some(true) => self.drop_expired_fields(key, cache),
        }
    }

    /// Removes the expired fields of a hash, or members of a set, and reports them; returns whether
    /// others are left.
    fn drop_expired_fields(&self, key: Key<'_>, cache: &Cache) -> bool {
        let now = cache.now();
        let (mut kind, mut dropped, mut next) = (HASH, Vec::new(), Deadline::NEVER);
        let changed = cache.update(key, &mut Vec::new(), |item, scratch| {
            let has_some = |item: &Item<'_>| has_member_deadlines(item.kind, item.value);
            let Some(item) = item.filter(has_some) else {
                return (true, Change::Keep);
            };
            let drop_expired = match item.kind {
                HASH => without_expired::<Hash<'_>>,
                _ => without_expired::<Set<'_>>,
            };
            let (expired, change) = drop_expired(item.value, item.deadline, now, scratch);
            kind = item.kind;
            // If very many have expired together, the rest follows next time.
            next = match expired.len() < hash::DROPPED_MAX {
                true => hash::first_living(item.value, now),
                false => Deadline::at(now),
            };
            dropped = expired;
            let change = match change {
                Change::Store { kind, deadline, .. } => Change::Store {
                    kind,
                    deadline,
                    flags: item.flags,
                },
                other => other,
            };
            (change != Change::Remove, change)
        });
        let Ok(is_left) = changed else {
            // No memory to store it again: readers do not see these fields, and are notified.
            self.watching
                .changed(key.bytes(), key.space(), &self.databases);
            self.tracking.changed(key.bytes(), false);
            return true;
        };
        self.note_deadline(key, Deadline::NEVER, next);
        self.note_expired_fields((key, kind), dropped.len(), dropped, is_left);
        is_left
    }

    /// Counts fields of a hash, or members of a set, that were removed because they had expired,
    /// and publishes it; of a hash with their names.
    pub fn note_expired_fields(
        &self,
        (key, kind): (Key<'_>, Kind),
        count: usize,
        names: impl IntoIterator<Item = Vec<u8>>,
        is_left: bool,
    ) {
        if count == 0 {
            return;
        }
        // Relaxed: as it says where it is declared.
        let expired = &self.expired_fields;
        expired.fetch_add(count as u64, Ordering::Relaxed);
        let Some(database) = self.databases.database_of(key.space()) else {
            return;
        };
        if kind == HASH {
            self.notify(Class::Hash, "hexpired", key.bytes(), database);
            self.notify_fields("hexpired", key.bytes(), names.into_iter(), database);
        } else {
            self.notify(Class::Set, "sexpired", key.bytes(), database);
        }
        if !is_left {
            self.notify(Class::Generic, "del", key.bytes(), database);
        }
    }

    /// How many fields of hashes were removed because they had expired.
    #[must_use]
    pub fn expired_fields(&self) -> u64 {
        self.expired_fields.load(Ordering::Relaxed)
    }

    /// Records when a key expires, and when the first of its fields does, so that it is checked
    /// then.
    pub fn note_deadline(&self, key: Key<'_>, item: Deadline, field: Deadline) {
        let is_of_field = field < item;
        let Some(at) = item.min(field).instant() else {
            return;
        };
        for left_out in self.deadlines.add(key, at.0, is_of_field) {
            if left_out.is_of_field {
                // The engine does not check it: its readers are notified before its time.
                self.tracking.changed(&left_out.name, false);
            }
        }
    }

    /// Records the deadline of a key that is about to be read by a tracking client.
    pub fn note_read(&self, key: Key<'_>, cache: &Cache) {
        let deadlines = cache.peek(key, deadlines_of);
        if let Some((item, field)) = deadlines {
            self.note_deadline(key, item, field);
        }
    }

    /// Checks the keys whose deadlines have passed on every thread's clock, which makes them
    /// expire; costs one load if none have. Returns the engine's moment, in milliseconds, of the
    /// next check.
    pub fn expire_due(&self, cache: &Cache, clock: &LoopClock) -> u64 {
        let now_ms = cache.now().0;
        if self.deadlines.first_ms() > now_ms {
            return self.deadlines.first_ms();
        }
        let _held = clock.hold_settled();
        for _ in 0..DUE_MAX {
            let Some(due) = self.deadlines.take_due(cache.now().0) else {
                // Items that a script still sees become due when the script has ended.
                return self.deadlines.first_ms().max(now_ms + 1);
            };
            if let Ok(key) = cache.key_in(due.space, &due.name) {
                self.meet_key(key, cache);
            }
        }
        self.deadlines.first_ms()
    }

    /// Handles the swap of two databases; its maker calls it exclusively. Returns the awaited names
    /// in them, which are to be [looked up](Observer::look_for) then.
    #[must_use]
    pub fn swapped(&self, one: u32, other: u32) -> Vec<MarkedKey> {
        if !self.is_awaited() {
            return Vec::new();
        }
        self.watching.swapped(one, other);
        self.tracking.flushed();
        self.waiters.of_databases(one, other)
    }

    /// Marks those of these names that exist now, for their waiters.
    pub fn look_for(&self, names: &[MarkedKey], cache: &Cache) {
        for (database, name) in names {
            if self.meet(name, *database, cache) {
                self.waiters.stored(name, || Some(*database));
            }
        }
    }

    /// Number of watched names.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.watching.count()
    }

    /// Records when a stored item expires, if clients that have not read it want to be notified.
    fn note_stored(&self, key: Key<'_>, item: Option<Item<'_>>) {
        let Some((item, field)) = item.map(deadlines_of) else {
            return;
        };
        let is_wanted = self.events.has(Class::Expired) || self.tracking.broadcasts(key.bytes());
        if is_wanted && item.min(field) != Deadline::NEVER {
            self.note_deadline(key, item, field);
        }
    }

    fn is_awaited(&self) -> bool {
        // Relaxed: a client that registers takes the shard's lock afterwards, to read; a change
        // whose lock comes later sees the count.
        self.reasons.load(Ordering::Relaxed) > 0
    }

    fn note(&self, before: bool, after: bool) {
        match (before, after) {
            (false, true) => self.reasons.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.reasons.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

impl cellar_engine::Observer for Observer {
    #[inline]
    fn is_wanted(&self) -> bool {
        self.is_awaited()
    }

    /// Whether expiry is to be reported; waiters need only stores.
    fn hears_of_expiry(&self) -> bool {
        // Relaxed: as it says where it is declared.
        let reasons = self.reasons.load(Ordering::Relaxed);
        !reasons.is_multiple_of(ONE_WAITER)
    }

    fn changed(&self, key: Key<'_>, happened: Happened, item: Option<Item<'_>>) {
        // Relaxed: as it says where it is declared.
        let reasons = self.reasons.load(Ordering::Relaxed);
        let is_stored = matches!(happened, Happened::Created | Happened::Stored);
        if reasons >= ONE_WAITER && is_stored {
            let database = || self.databases.database_of(key.space());
            self.waiters.stored(key.bytes(), database);
        }
        if reasons.is_multiple_of(ONE_WAITER) {
            return;
        }
        // Changes that no command asked for have their own keyspace event; commands publish theirs
        // themselves.
        let told = match happened {
            Happened::Expired => Some((Class::Expired, "expired")),
            Happened::Evicted => Some((Class::Evicted, "evicted")),
            // Commands publish their stores, but do not always know whether the key existed.
            Happened::Created => Some((Class::New, "new")),
            Happened::Stored | Happened::Removed | Happened::Retimed => None,
        };
        let is_asked_for = !matches!(happened, Happened::Expired | Happened::Evicted);
        self.watching
            .changed(key.bytes(), key.space(), &self.databases);
        self.tracking.changed(key.bytes(), is_asked_for);
        let Some((class, event)) = told else {
            return self.note_stored(key, item);
        };
        if happened == Happened::Expired
            && let Some(item) = item
            && has_member_deadlines(item.kind, item.value)
        {
            let fields = hash::expired_with(item.value, item.deadline);
            self.note_expired_fields((key, item.kind), fields, hash::names(item.value), false);
            if fields > 0 {
                return;
            }
        }
        if happened == Happened::Created {
            self.note_stored(key, item);
        }
        if self.events.has(class)
            && let Some(database) = self.databases.database_of(key.space())
        {
            self.events
                .publish(&self.pubsub, event, key.bytes(), database);
        }
    }

    fn flushed(&self, space: Option<Space>) {
        self.watching.flushed(space);
        self.tracking.flushed();
    }
}

#[cfg(test)]
mod tests {
    use cellar_engine::Observer as _;

    use super::*;

    #[test]
    fn who_waits_for_a_value_hears_of_no_expiry() {
        let observer = Observer::new(&Settings::default());
        assert_eq!(
            (observer.is_wanted(), observer.hears_of_expiry()),
            (false, false)
        );
        // Relaxed: one thread does it all.
        observer.reasons.fetch_add(ONE_WAITER, Ordering::Relaxed);
        assert_eq!(
            (observer.is_wanted(), observer.hears_of_expiry()),
            (true, false)
        );
        observer.set_events("Kx").unwrap();
        assert_eq!(
            (observer.is_wanted(), observer.hears_of_expiry()),
            (true, true)
        );
    }
}

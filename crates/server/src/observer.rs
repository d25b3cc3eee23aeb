//! Observer: who is told what happens to items, whatever protocol it came by.
//!
//! The engine calls it under a shard's lock: for near caches ([`Tracking`]), watched keys
//! ([`Watching`]) and the keyspace events of expiry and eviction. While there is none of these, the
//! engine finds that out by one load.
//!
//! Why: docs/decisions/0017.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cellar_engine::{Cache, Happened, Key, Space};

use crate::client::Client;
use crate::databases::Databases;
use crate::events::{Class, Events};
use crate::pubsub::PubSub;
use crate::settings::Settings;
use crate::tracking::{Mode, Tracking};
use crate::watching::{Mark, Watching};

/// Everything that hears of changes.
#[derive(Debug)]
pub struct Observer {
    /// Channels and who listens to them.
    pub pubsub: PubSub,
    /// Near caches.
    pub tracking: Tracking,
    events: Events,
    watching: Watching,
    databases: Databases,
    /// How many reasons there are to hear of changes.
    // Relaxed: a shard's lock orders it before the changes to be heard of.
    reasons: AtomicUsize,
}

impl Observer {
    /// An observer that nobody needs yet.
    #[must_use]
    pub fn new(settings: &Settings) -> Observer {
        let observer = Observer {
            pubsub: PubSub::default(),
            tracking: Tracking::new(settings.tracking_table_max_keys),
            events: Events::default(),
            watching: Watching::default(),
            databases: Databases::new(settings.databases),
            reasons: AtomicUsize::new(0),
        };
        // The letters were checked when they were read.
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

    /// Chooses which keyspace events are published.
    ///
    /// # Errors
    /// Why the letters are none.
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

    /// Begins to tell a client of changes to keys that it reads; see [`Tracking::start`].
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

    /// Tells a client nothing more.
    pub fn untrack(&self, client: &Client, prefixes: &[Box<[u8]>]) {
        let was_told = self.tracking.stop(client, prefixes);
        self.note(was_told, false);
    }

    /// Begins to watch a key of a database.
    pub fn watch(&self, key: &[u8], database: u32, mark: &Arc<Mark>, cache: &Cache) {
        let space = self.databases.space(database);
        // An item past its deadline is met before anybody listens.
        self.meet(key, database, cache);
        self.note(false, true);
        self.watching.add(key, database, space, mark);
        if !self.meet(key, database, cache) {
            self.watching.note_absent(key, database, mark);
        }
    }

    /// Ends to watch a key of a database.
    pub fn unwatch(&self, key: &[u8], database: u32, mark: &Arc<Mark>) {
        self.watching.remove(key, database, mark);
        self.note(true, false);
    }

    /// Meets a key, so that its deadline counts if it has passed; whether it is there.
    pub fn meet(&self, key: &[u8], database: u32, cache: &Cache) -> bool {
        let hashed = cache.key_in(self.databases.space(database), key);
        hashed.is_ok_and(|hashed| cache.get(hashed, |_| ()).is_some())
    }

    /// Two databases have changed places; called by who made them do so, alone.
    pub fn swapped(&self, one: u32, other: u32, cache: &Cache) {
        if self.is_awaited() {
            self.watching.swapped(one, other, &self.databases, cache);
            self.tracking.flushed();
        }
    }

    /// Names that somebody watches.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.watching.count()
    }

    fn is_awaited(&self) -> bool {
        // Relaxed: who begins to listen takes the shard's lock afterwards, to read; a change whose
        // lock comes later sees the count.
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

    fn changed(&self, key: Key<'_>, happened: Happened) {
        // What nobody asked for has a keyspace event of its own; commands tell theirs themselves.
        let unasked = match happened {
            Happened::Expired => Some((Class::Expired, "expired")),
            Happened::Evicted => Some((Class::Evicted, "evicted")),
            Happened::Stored | Happened::Removed | Happened::Retimed => None,
        };
        self.watching
            .changed(key.bytes(), key.space(), &self.databases);
        self.tracking.changed(key.bytes(), unasked.is_none());
        let Some((class, event)) = unasked else {
            return;
        };
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

//! Events: which keyspace events are published, and the names of their channels.
//!
//! Nothing is published by default (`--notify-keyspace-events`, CONFIG SET). Each class of events
//! has a flag letter; K and E choose between channels named after the key and channels named after
//! the event.
//!
//! An event is published while its key is locked, so the immediate work is bounded: an event with
//! very many subscribers or patterns waits in a queue ([`Events::tell_waiting`]) for the
//! maintenance thread, and all later events queue behind it, so that they arrive in order. While a
//! subscriber has much unread, the thread publishes as fast as it reads, so that a burst (many keys
//! that expire together) closes no connection, but no subscriber delays the others for long.
//!
//! Fields of hashes: subkeys.rs. Tests: at the end of this file; server/tests/resp_pubsub.rs.
//! Source: redis.io/docs/latest/develop/pubsub/keyspace-notifications.

mod subkeys; // events that name the fields of a hash

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use cellar_config::limits::WAITING_EVENT_SHARE;
use cellar_config::settings::letters::{parse, show};
use cellar_system::clock::Stopwatch;
use cellar_system::ticker::Nudge;
use parking_lot::Mutex;

use crate::clients::budget::Budget;
use crate::clients::pubsub::{PubSub, Sending};

/// How often the allowance for immediate publishing is renewed, in microseconds.
const GRANT_US: u64 = 4_000;
/// Messages sent and patterns tried immediately in one such period, where a long message counts for
/// several: one millisecond's work, and more than most servers need.
const GRANTED_WORK: usize = 4_096;
/// The same for a step that publishes queued events, during which no client can subscribe.
const STEP_WORK: usize = 2_048;
/// Such steps before the background maintenance thread does something else.
const STEPS: usize = 8;
/// For how long fast subscribers wait for a slow one, in microseconds, each time that one falls
/// behind.
const HELD_US_MAX: u64 = 1_000_000;
/// Bytes that a queued event takes beside its names.
const WAITING_BYTES: usize = size_of::<Untold>() + 16;

/// The class of an event; a server chooses by class which events it publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Commands that apply to any key type.
    Generic,
    /// Strings.
    String,
    /// Hashes.
    Hash,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// A key was past its deadline.
    Expired,
    /// A key was evicted.
    Evicted,
    /// A key was created.
    New,
    /// A read found nothing.
    Miss,
    /// A whole value was stored over another one.
    Overwritten,
    /// The same, of another type.
    TypeChanged,
}

const KEYSPACE: u32 = 1 << 10;
const KEYEVENT: u32 = 1 << 11;
/// Channels of events that name fields, in subkeys.rs.
const SUBKEYS: u32 = 0b1111 << 16;

impl Class {
    const fn bit(self) -> u32 {
        match self {
            Class::Generic => 1,
            Class::String => 1 << 1,
            Class::List => 1 << 2,
            Class::Set => 1 << 3,
            Class::Hash => 1 << 4,
            Class::SortedSet => 1 << 5,
            Class::Expired => 1 << 6,
            Class::Evicted => 1 << 7,
            Class::Miss => 1 << 12,
            Class::New => 1 << 13,
            Class::Overwritten => 1 << 14,
            Class::TypeChanged => 1 << 15,
        }
    }
}

/// The published classes, and the queue of events.
#[derive(Debug, Default)]
pub struct Events {
    // Relaxed: a change of the flags does not wait for their readers.
    flags: AtomicU32,
    allowance: Allowance,
    waiting: Mutex<Backlog>,
    /// Number of queued events, the one being published among them. A thread that reads zero
    /// publishes after all that were queued: Release after one was published, Acquire before
    /// another is.
    waiting_count: AtomicUsize,
    teller: OnceLock<Nudge>,
    /// The limit on client memory; none if not set.
    budget: OnceLock<Arc<Budget>>,
    /// Since when a subscriber is slow, by the clock of the allowance; zero if none is.
    // Relaxed: only the publisher of the queue reads it.
    held_since_us: AtomicU64,
    /// When a subscriber was last slow.
    // Relaxed: as above.
    slow_seen_us: AtomicU64,
    // Relaxed: a count that orders nothing.
    dropped: AtomicU64,
}

/// Queued events, the oldest first.
#[derive(Debug, Default)]
struct Backlog {
    events: VecDeque<Untold>,
    bytes: usize,
}

/// A queued event, and how far its publishing has come.
#[derive(Debug)]
struct Untold {
    /// The channel, and behind it the message.
    text: Box<[u8]>,
    channel_bytes: usize,
    /// None before it has begun.
    sending: Option<Box<Sending>>,
}

impl Untold {
    fn new(channel: &[u8], message: &[u8], sending: Option<Sending>) -> Untold {
        Untold {
            text: [channel, message].concat().into(),
            channel_bytes: channel.len(),
            sending: sending.map(Box::new),
        }
    }

    fn bytes(&self) -> usize {
        self.text.len() + WAITING_BYTES
    }
}

/// The next step for the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// The queue is empty.
    Done,
    /// More are queued, for the next call.
    More,
    /// More are queued, and wait for a slow subscriber.
    Held,
}

/// Work of immediate publishing that is left until the next renewal.
#[derive(Debug)]
struct Allowance {
    watch: Stopwatch,
    // Relaxed: a bound that a few events more or less do not matter to.
    grant: AtomicU64,
    // Relaxed: the same.
    left: AtomicUsize,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance {
            watch: Stopwatch::start(),
            grant: AtomicU64::new(0),
            left: AtomicUsize::new(GRANTED_WORK),
        }
    }
}

impl Allowance {
    fn left(&self) -> usize {
        let grant = self.watch.us() / GRANT_US;
        // Relaxed, here and below: two threads at the same moment get a little more.
        if self.grant.swap(grant, Ordering::Relaxed) != grant {
            self.left.store(GRANTED_WORK, Ordering::Relaxed);
        }
        self.left.load(Ordering::Relaxed)
    }

    fn set_left(&self, left: usize) {
        // Relaxed: see above.
        self.left.store(left, Ordering::Relaxed);
    }
}

impl Events {
    /// Whether events of this class are published.
    #[inline]
    #[must_use]
    pub fn has(&self, class: Class) -> bool {
        // Relaxed: a change of the flags does not wait for their readers.
        let flags = self.flags.load(Ordering::Relaxed);
        flags != 0 && flags & class.bit() != 0 && flags & (KEYSPACE | KEYEVENT) != 0
    }

    /// Whether events of this class are published with the fields that they are about.
    #[inline]
    #[must_use]
    pub fn has_subkeys(&self, class: Class) -> bool {
        // Relaxed: a change of the flags does not wait for their readers.
        let flags = self.flags.load(Ordering::Relaxed);
        flags & SUBKEYS != 0 && flags & class.bit() != 0
    }

    /// Whether overwrites of whole values are published.
    #[inline]
    #[must_use]
    pub fn tells_of_overwrites(&self) -> bool {
        self.has(Class::Overwritten) || self.has(Class::TypeChanged)
    }

    /// Whether classes are published that only the engine can report.
    #[must_use]
    pub fn needs_engine(&self) -> bool {
        // A hash may expire with the last of its fields, and a set with its members.
        let known = [
            Class::Expired,
            Class::Evicted,
            Class::New,
            Class::Hash,
            Class::Set,
        ];
        known.into_iter().any(|class| self.has(class)) || self.has_subkeys(Class::Hash)
    }

    /// The flags as a string of letters.
    #[must_use]
    pub fn show(&self) -> String {
        show(self.flags.load(Ordering::Relaxed))
    }

    /// Sets the flags.
    ///
    /// # Errors
    /// A message if the letters are invalid.
    pub fn set(&self, letters: &str) -> Result<(), String> {
        self.flags.store(parse(letters)?, Ordering::Relaxed);
        Ok(())
    }

    /// Publishes an event of a class that is published.
    #[cold]
    pub fn publish(&self, pubsub: &PubSub, event: &str, key: &[u8], database: u32) {
        let flags = self.flags.load(Ordering::Relaxed);
        if flags & KEYSPACE != 0 {
            let mut channel = format!("__keyspace@{database}__:").into_bytes();
            channel.extend_from_slice(key);
            self.tell(pubsub, &channel, event.as_bytes());
        }
        if flags & KEYEVENT != 0 {
            let channel = format!("__keyevent@{database}__:{event}");
            self.tell(pubsub, channel.as_bytes(), key);
        }
    }

    /// Publishes an event to its subscribers; queues it if that takes long.
    fn tell(&self, pubsub: &PubSub, channel: &[u8], message: &[u8]) {
        let mut begun = None;
        // Acquire: events queued before are published.
        if self.waiting_count.load(Ordering::Acquire) == 0 {
            let left = self.allowance.left();
            if left > 0 {
                let sending = begun.get_or_insert_with(Sending::default);
                let (goes_on, left) = pubsub.publish_some(channel, message, sending, left);
                // The following events are queued, to wait for the slow subscriber.
                let left = if self.meets_slow_reader() { 0 } else { left };
                self.allowance.set_left(left);
                if !goes_on {
                    return;
                }
            }
        }
        self.put_off(Untold::new(channel, message, begun));
    }

    fn meets_slow_reader(&self) -> bool {
        let budget = self.budget.get();
        budget.is_some_and(|budget| budget.take_slow_reader())
    }

    /// Most bytes of events that may wait.
    fn waiting_bytes_max(&self) -> usize {
        let budget = self.budget.get();
        budget.map_or(usize::MAX, |budget| {
            budget.bytes_max() / WAITING_EVENT_SHARE
        })
    }

    /// Queues an event, if the queue is not full.
    fn put_off(&self, event: Untold) {
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes + event.bytes();
        if bytes > self.waiting_bytes_max() {
            // Relaxed: a count that orders nothing.
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.bytes = bytes;
        waiting.events.push_back(event);
        // Relaxed: the queue's lock orders it, and events of the same key are ordered by its
        // shard's lock.
        let is_first = self.waiting_count.fetch_add(1, Ordering::Relaxed) == 0;
        drop(waiting);
        if is_first && let Some(teller) = self.teller.get() {
            teller.nudge();
        }
    }

    /// Sets the thread that calls [`Events::tell_waiting`], and is woken for it.
    pub fn set_teller(&self, teller: Nudge) {
        // The server has one background maintenance thread.
        let _ = self.teller.set(teller);
    }

    /// Sets the budget of client memory.
    pub fn set_budget(&self, budget: Arc<Budget>) {
        // A server has only one.
        let _ = self.budget.set(budget);
    }

    /// Publishes some of the queued events. Called by one thread only.
    pub fn tell_waiting(&self, pubsub: &PubSub) -> Telling {
        let steps = (0..STEPS).map(|_| self.tell_some(pubsub));
        let mut last = Telling::Done;
        for told in steps {
            last = told;
            if told != Telling::More {
                break;
            }
        }
        last
    }

    fn tell_some(&self, pubsub: &PubSub) -> Telling {
        let mut left = STEP_WORK;
        while left > 0 {
            let Some(mut event) = self.waiting.lock().events.pop_front() else {
                return Telling::Done;
            };
            let (channel, message) = event.text.split_at(event.channel_bytes);
            let sending = event.sending.get_or_insert_default();
            let goes_on;
            (goes_on, left) = pubsub.publish_some(channel, message, sending, left);
            let mut waiting = self.waiting.lock();
            if goes_on {
                waiting.events.push_front(event);
                return self.pace(Telling::More);
            }
            waiting.bytes -= event.bytes();
            if waiting.events.is_empty() {
                // The burst has ended: its memory is freed.
                *waiting = Backlog::default();
            }
            // Release: a thread that reads zero publishes after this one.
            self.waiting_count.fetch_sub(1, Ordering::Release);
            drop(waiting);
            if self.pace(Telling::More) == Telling::Held {
                return Telling::Held;
            }
        }
        Telling::More
    }

    /// The next step after an event: wait if a subscriber is slow, unless it has been slow for too
    /// long.
    fn pace(&self, otherwise: Telling) -> Telling {
        let now_us = self.allowance.watch.us().max(1);
        self.pace_at(now_us, self.meets_slow_reader(), otherwise)
    }

    /// The same at a given time. A subscriber that never reads delays the others once: the next
    /// delay requires that no subscriber was slow for as long as one delay may last.
    fn pace_at(&self, now_us: u64, meets_slow_reader: bool, otherwise: Telling) -> Telling {
        if !meets_slow_reader {
            // Relaxed, here and below: as it says where it is declared.
            let seen_us = self.slow_seen_us.load(Ordering::Relaxed);
            if now_us.saturating_sub(seen_us) > HELD_US_MAX {
                self.held_since_us.store(0, Ordering::Relaxed);
            }
            return otherwise;
        }
        self.slow_seen_us.store(now_us, Ordering::Relaxed);
        let since_us = match self.held_since_us.load(Ordering::Relaxed) {
            0 => now_us,
            since_us => since_us,
        };
        self.held_since_us.store(since_us, Ordering::Relaxed);
        if now_us - since_us < HELD_US_MAX {
            Telling::Held
        } else {
            otherwise
        }
    }

    /// Number of events not sent to all subscribers because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        // Relaxed: a count that orders nothing.
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::client::{Client, Clients, Delivery, Seat};
    use crate::clients::pubsub::Kind;

    #[test]
    fn a_client_that_never_reads_holds_the_others_up_once() {
        let events = Events::default();
        let pace = |ms: u64, is_slow| events.pace_at(ms * 1_000, is_slow, Telling::More);
        let held = |from_ms: u64, to_ms: u64| {
            // Every other check finds it slow, because its loop reports later.
            let looks = (from_ms..to_ms).step_by(10);
            let looks = looks.map(|ms| pace(ms, ms % 20 == 0));
            looks.filter(|told| *told == Telling::Held).count()
        };
        assert_eq!(held(1_000, 2_000), 50);
        assert_eq!(held(2_000, 60_000), 0);
        // It has read, and becomes slow again.
        assert_eq!(pace(62_000, false), Telling::More);
        assert_eq!(held(62_000, 70_000), 50);
    }

    #[test]
    fn without_a_kind_of_channel_nothing_is_published() {
        let events = Events::default();
        assert!(!events.has(Class::String));
        events.set("A").unwrap();
        assert!(!events.has(Class::String) && !events.needs_engine());
        events.set("E$").unwrap();
        assert!(events.has(Class::String) && !events.has(Class::Generic));
    }

    /// Events, and a client that subscribes to those of keys `key-...`, also by so many patterns.
    fn listened_to(patterns: usize) -> (Events, PubSub, Arc<Client>) {
        let (events, pubsub, clients) = (Events::default(), PubSub::default(), Clients::default());
        events.set("K$").unwrap();
        let client = clients.add(Seat::default(), None, 0);
        for number in 0..patterns {
            let pattern = format!("__keyspace@0__:key-*[^{number}]");
            pubsub.subscribe(Kind::Pattern, pattern.as_bytes(), &client);
        }
        (events, pubsub, client)
    }

    fn numbers_told(client: &Client) -> Vec<usize> {
        let Delivery::Bytes(bytes) = client.deliver() else {
            panic!("too much waits for it");
        };
        let text = String::from_utf8(bytes).unwrap();
        let keys = text
            .lines()
            .filter_map(|line| line.strip_prefix("__keyspace@0__:key-"));
        keys.filter_map(|key| key.strip_suffix('x'))
            .map(|number| number.parse().unwrap())
            .collect()
    }

    #[test]
    fn what_much_is_to_be_done_for_waits_and_is_told_in_order() {
        const PATTERNS: usize = 3 * GRANTED_WORK;
        let (events, pubsub, client) = listened_to(PATTERNS);
        let publish =
            |number| events.publish(&pubsub, "set", format!("key-{number}x").as_bytes(), 0);
        (0..3).for_each(publish);
        let mut told = numbers_told(&client);
        assert!(
            (1..PATTERNS).contains(&told.len()),
            "{} at once",
            told.len()
        );
        while events.tell_waiting(&pubsub) != Telling::Done {
            told.extend(numbers_told(&client));
        }
        // Nothing waits any more.
        publish(3);
        while events.tell_waiting(&pubsub) != Telling::Done {}
        told.extend(numbers_told(&client));
        let all = (0..=3).flat_map(|number| [number; PATTERNS]);
        assert!(told.into_iter().eq(all));
        assert_eq!((events.dropped(), events.waiting.lock().bytes), (0, 0));
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        const MEMORY: usize = 64 << 20;
        let (events, pubsub, _client) = listened_to(GRANTED_WORK);
        events.set_budget(Arc::new(Budget::new(MEMORY, 1)));
        let key = [b"key-".as_slice(), &[b'k'; 60_000]].concat();
        for _ in 0..MEMORY / 2 / key.len() {
            events.publish(&pubsub, "set", &key, 0);
        }
        assert!(events.waiting.lock().bytes <= MEMORY / WAITING_EVENT_SHARE);
        assert!(events.dropped() > 0);
    }

    #[test]
    fn a_burst_waits_for_who_reads_and_loses_nothing() {
        const EVENTS: usize = 100_000;
        let budget = Arc::new(Budget::new(96 << 20, 1));
        let (events, pubsub) = (Events::default(), PubSub::default());
        let clients = Clients::new(Arc::clone(&budget));
        events.set("K$").unwrap();
        events.set_budget(budget);
        let client = clients.add(Seat::default(), None, 0);
        pubsub.subscribe(Kind::Pattern, b"__keyspace@0__:key-*", &client);
        for number in 0..EVENTS {
            events.publish(&pubsub, "set", format!("key-{number}x").as_bytes(), 0);
        }
        let mut told = Vec::new();
        loop {
            let is_done = events.tell_waiting(&pubsub) == Telling::Done;
            assert!(
                client.waiting_bytes() < 4 << 20,
                "{}",
                client.waiting_bytes()
            );
            told.extend(numbers_told(&client));
            if is_done {
                break;
            }
        }
        assert!(told.into_iter().eq(0..EVENTS));
        assert_eq!(events.dropped(), 0);
    }
}

//! Events: which keyspace events are published, and how a channel of one is called.
//!
//! Nothing is published until somebody asks for it (`--notify-keyspace-events`, CONFIG SET). Each
//! class of events has a letter; K and E choose between channels that are called like the key and
//! channels that are called like the event.
//!
//! An event is told while its key is locked, so little is told at once: what very many listen to,
//! or tried patterns, waits in a list ([`Events::tell_waiting`]) that the upkeep thread works off,
//! and everything behind it waits, too, so that events arrive in the order in which they happened.
//!
//! Source: redis.io/docs/latest/develop/pubsub/keyspace-notifications. Tests: at the end of this
//! file; tests/resp_pubsub.rs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::clock::Stopwatch;
use crate::limits::{ENTRY_BYTES, WAITING_EVENT_BYTES_MAX};
use crate::pubsub::{PubSub, Sending};
use crate::settings::letters::{parse, show};
use crate::ticker::Nudge;

/// How often what may be told at once is granted anew, in microseconds.
const GRANT_US: u64 = 4_000;
/// Listeners that events are told to at once between two grants, and patterns that are tried for
/// it, long messages counted for several: one millisecond's, and more than most servers need.
const GRANTED_WORK: usize = 4_096;
/// The same of a step in which waiting events are told, which keeps others from subscribing.
const STEP_WORK: usize = 2_048;
/// Such steps before the upkeep thread does something else.
const STEPS: usize = 8;

/// What an event is about: which events a server tells of is chosen by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// What applies to any key.
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
    /// A key had to make room.
    Evicted,
    /// A key that was not there before.
    New,
    /// A read found nothing.
    Miss,
}

const KEYSPACE: u32 = 1 << 10;
const KEYEVENT: u32 = 1 << 11;

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
        }
    }
}

/// What is published.
#[derive(Debug, Default)]
pub struct Events {
    // Relaxed: who changes the flags does not wait for those who read them.
    flags: AtomicU32,
    allowance: Allowance,
    waiting: Mutex<Backlog>,
    /// How many wait, the one that is being told among them. Whoever sees that none does tells
    /// behind those that did: Release when one was told, Acquire before another is.
    waiting_count: AtomicUsize,
    teller: OnceLock<Nudge>,
    // Relaxed: a count that orders nothing.
    dropped: AtomicU64,
}

/// Events that are told later, the oldest first.
#[derive(Debug, Default)]
struct Backlog {
    events: VecDeque<Untold>,
    bytes: usize,
}

/// One of them, and how far it has come.
#[derive(Debug)]
struct Untold {
    channel: Box<[u8]>,
    message: Box<[u8]>,
    sending: Sending,
}

impl Untold {
    fn bytes(&self) -> usize {
        self.channel.len() + self.message.len() + ENTRY_BYTES
    }
}

/// How much work of telling may still be done at once, before the next grant.
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
        // Relaxed, here and below: who comes twice in one moment has a little more.
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
        // Relaxed: who changes the flags does not wait for those who read them.
        let flags = self.flags.load(Ordering::Relaxed);
        flags != 0 && flags & class.bit() != 0 && flags & (KEYSPACE | KEYEVENT) != 0
    }

    /// Whether something is published that the engine alone knows of.
    #[must_use]
    pub fn needs_engine(&self) -> bool {
        let known = [Class::Expired, Class::Evicted, Class::New];
        known.into_iter().any(|class| self.has(class))
    }

    /// The flags as letters.
    #[must_use]
    pub fn show(&self) -> String {
        show(self.flags.load(Ordering::Relaxed))
    }

    /// Takes other flags.
    ///
    /// # Errors
    /// Why the letters are none.
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

    /// Tells those who listen; later, if that is much.
    fn tell(&self, pubsub: &PubSub, channel: &[u8], message: &[u8]) {
        let mut sending = Sending::default();
        // Acquire: what waited was told before.
        if self.waiting_count.load(Ordering::Acquire) == 0 {
            let left = self.allowance.left();
            if left > 0 {
                let (goes_on, left) = pubsub.publish_some(channel, message, &mut sending, left);
                self.allowance.set_left(left);
                if !goes_on {
                    return;
                }
            }
        }
        self.put_off(Untold {
            channel: channel.into(),
            message: message.into(),
            sending,
        });
    }

    /// Lets an event wait, if there are not too many.
    fn put_off(&self, event: Untold) {
        let mut waiting = self.waiting();
        let bytes = waiting.bytes + event.bytes();
        if bytes > WAITING_EVENT_BYTES_MAX {
            // Relaxed: a count that orders nothing.
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.bytes = bytes;
        waiting.events.push_back(event);
        // Relaxed: the lock orders it, and who comes for the same key has that of its shard.
        let is_first = self.waiting_count.fetch_add(1, Ordering::Relaxed) == 0;
        drop(waiting);
        if is_first && let Some(teller) = self.teller.get() {
            teller.nudge();
        }
    }

    /// Says who calls [`Events::tell_waiting`], and is woken for it.
    pub(crate) fn set_teller(&self, teller: Nudge) {
        // There is one upkeep thread.
        let _ = self.teller.set(teller);
    }

    /// Tells some of the events that wait; whether there are others. For one thread alone.
    pub fn tell_waiting(&self, pubsub: &PubSub) -> bool {
        (0..STEPS).all(|_| self.tell_some(pubsub))
    }

    fn tell_some(&self, pubsub: &PubSub) -> bool {
        let mut left = STEP_WORK;
        while left > 0 {
            let Some(mut event) = self.waiting().events.pop_front() else {
                return false;
            };
            let goes_on;
            (goes_on, left) =
                pubsub.publish_some(&event.channel, &event.message, &mut event.sending, left);
            let mut waiting = self.waiting();
            if goes_on {
                waiting.events.push_front(event);
                return true;
            }
            waiting.bytes -= event.bytes();
            if waiting.events.is_empty() {
                // A burst is over: what it took is given back.
                *waiting = Backlog::default();
            }
            // Release: who sees it tells behind this one.
            self.waiting_count.fetch_sub(1, Ordering::Release);
        }
        true
    }

    fn waiting(&self) -> MutexGuard<'_, Backlog> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many events were not told to all who listen: too many waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        // Relaxed: a count that orders nothing.
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::client::{Client, Clients, Delivery, Seat};
    use crate::pubsub::Kind;

    #[test]
    fn without_a_kind_of_channel_nothing_is_published() {
        let events = Events::default();
        assert!(!events.has(Class::String));
        events.set("A").unwrap();
        assert!(!events.has(Class::String) && !events.needs_engine());
        events.set("E$").unwrap();
        assert!(events.has(Class::String) && !events.has(Class::Generic));
    }

    /// Events, and a client that listens to those of keys `key-...`, also by so many patterns.
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
        while events.tell_waiting(&pubsub) {
            told.extend(numbers_told(&client));
        }
        // Nothing waits any more.
        publish(3);
        while events.tell_waiting(&pubsub) {}
        told.extend(numbers_told(&client));
        let all = (0..=3).flat_map(|number| [number; PATTERNS]);
        assert!(told.into_iter().eq(all));
        assert_eq!((events.dropped(), events.waiting().bytes), (0, 0));
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let (events, pubsub, _client) = listened_to(GRANTED_WORK);
        let key = [b"key-".as_slice(), &[b'k'; 60_000]].concat();
        for _ in 0..2 * WAITING_EVENT_BYTES_MAX / key.len() {
            events.publish(&pubsub, "set", &key, 0);
        }
        assert!(events.waiting().bytes <= WAITING_EVENT_BYTES_MAX);
        assert!(events.dropped() > 0);
    }
}

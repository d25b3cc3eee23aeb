//! Events: which keyspace events are published, and how a channel of one is called.
//!
//! Nothing is published until somebody asks for it (`--notify-keyspace-events`, CONFIG SET). Each
//! class of events has a letter; K and E choose between channels that are called like the key and
//! channels that are called like the event.
//!
//! Source: redis.io/docs/latest/develop/pubsub/keyspace-notifications. Tests: at the end of this
//! file; tests/resp_pubsub.rs.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::clock::Stopwatch;
use crate::limits::EVENT_WORK_PER_S;
use crate::pubsub::PubSub;
use crate::settings::letters::{parse, show};

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
    // Relaxed: a count that orders nothing.
    dropped: AtomicU64,
}

/// How much work of telling is left in this second. An event is told while its key is locked, and a
/// few clients may listen with very many patterns: what they add up to stops nobody.
#[derive(Debug)]
struct Allowance {
    watch: Stopwatch,
    // Relaxed: a bound that a few events more or less do not matter to.
    second: AtomicU64,
    // Relaxed: the same.
    left: AtomicUsize,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance {
            watch: Stopwatch::start(),
            second: AtomicU64::new(0),
            left: AtomicUsize::new(EVENT_WORK_PER_S),
        }
    }
}

impl Allowance {
    fn left(&self) -> usize {
        let second = self.watch.us() / 1_000_000;
        // Relaxed, here and below: who comes twice in one moment has a little more.
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.left.store(EVENT_WORK_PER_S, Ordering::Relaxed);
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

    /// Tells those who listen, or as many of them as this second allows.
    fn tell(&self, pubsub: &PubSub, channel: &[u8], message: &[u8]) {
        let mut left = self.allowance.left();
        let is_told = left > 0 && pubsub.publish_within(channel, message, &mut left);
        self.allowance.set_left(left);
        if !is_told {
            // Relaxed: a count that orders nothing.
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many events were not told to all who listen.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        // Relaxed: a count that orders nothing.
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_kind_of_channel_nothing_is_published() {
        let events = Events::default();
        assert!(!events.has(Class::String));
        events.set("A").unwrap();
        assert!(!events.has(Class::String) && !events.needs_engine());
        events.set("E$").unwrap();
        assert!(events.has(Class::String) && !events.has(Class::Generic));
    }
}

//! Events: which keyspace events are published, and how a channel of one is called.
//!
//! Nothing is published until somebody asks for it (`--notify-keyspace-events`, CONFIG SET). Each
//! class of events has a letter; K and E choose between channels that are called like the key and
//! channels that are called like the event.
//!
//! Source: redis.io/docs/latest/develop/pubsub/keyspace-notifications. Tests: at the end of this
//! file; tests/resp_pubsub.rs.

use std::sync::atomic::{AtomicU32, Ordering};

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
            pubsub.publish(&channel, event.as_bytes());
        }
        if flags & KEYEVENT != 0 {
            let channel = format!("__keyevent@{database}__:{event}");
            pubsub.publish(channel.as_bytes(), key);
        }
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

//! Pubsub: who listens to which channels, and the way of a message to them.
//!
//! A message goes into the inboxes of its listeners under the registry's lock for readers, so who
//! has left a channel gets nothing from it any more; a message to very many goes in steps, between
//! which the lock is free ([`PubSub::publish_some`]). Lock order: shard, registry, inbox.
//!
//! Tests: tests/resp_pubsub.rs.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::{Proto, Reply};

use crate::client::Client;

/// Bytes of a message or pattern that count for one more of them.
const WORK_BYTES: usize = 256;

/// Those who listen to one channel or pattern, by their numbers.
type Listeners = BTreeMap<u64, Arc<Client>>;

/// What a client listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// One channel of a shard: such channels have names of their own, and no patterns.
    Shard,
}

impl Kind {
    /// Which names [`PubSub::channels`] shows.
    fn channels(self, registry: &Registry) -> &HashMap<Box<[u8]>, Listeners> {
        match self {
            Kind::Shard => &registry.shards,
            _ => &registry.channels,
        }
    }
}

#[derive(Debug, Default)]
struct Registry {
    channels: HashMap<Box<[u8]>, Listeners>,
    patterns: BTreeMap<Box<[u8]>, (Pattern, Listeners)>,
    shards: HashMap<Box<[u8]>, Listeners>,
}

impl Registry {
    fn unsubscribe(&mut self, kind: Kind, name: &[u8], client: &Client) {
        let listeners = match kind {
            Kind::Channel => self.channels.get_mut(name),
            Kind::Shard => self.shards.get_mut(name),
            Kind::Pattern => {
                let entry = self.patterns.get_mut(name);
                entry.map(|(_, listeners)| listeners)
            }
        };
        let Some(listeners) = listeners else {
            return;
        };
        listeners.remove(&client.id);
        if listeners.is_empty() {
            match kind {
                Kind::Channel => drop(self.channels.remove(name)),
                Kind::Shard => drop(self.shards.remove(name)),
                Kind::Pattern => drop(self.patterns.remove(name)),
            }
        }
    }
}

/// All channels and patterns that somebody listens to. A client that has left may still stand there
/// for a moment; it is sent nothing and counts for no message.
#[derive(Debug, Default)]
pub struct PubSub {
    registry: RwLock<Registry>,
}

impl PubSub {
    /// Lets a client listen.
    pub fn subscribe(&self, kind: Kind, name: &[u8], client: &Arc<Client>) {
        let mut registry = self.write();
        let listeners = match kind {
            Kind::Channel => registry.channels.entry(name.into()).or_default(),
            Kind::Shard => registry.shards.entry(name.into()).or_default(),
            Kind::Pattern => {
                let new = || (Pattern::new(name), Listeners::default());
                let entry = registry.patterns.entry(name.into());
                &mut entry.or_insert_with(new).1
            }
        };
        listeners.insert(client.id, Arc::clone(client));
    }

    /// Lets a client listen no longer.
    pub fn unsubscribe(&self, kind: Kind, name: &[u8], client: &Client) {
        self.write().unsubscribe(kind, name, client);
    }

    /// The same for several names; the lock is held for all of them.
    pub fn unsubscribe_all(&self, kind: Kind, names: &[Box<[u8]>], client: &Client) {
        let mut registry = self.write();
        for name in names {
            registry.unsubscribe(kind, name, client);
        }
    }

    /// Sends a message to all who listen; to how many, who listens twice counted twice.
    pub fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        let mut sending = Sending::default();
        while self.publish_some(channel, message, &mut sending, usize::MAX) {}
        sending.count
    }

    /// Sends a message to some more of those who listen; whether there are others.
    ///
    /// `work_max` is how many patterns are tried and messages sent in this call, long messages
    /// counted for several.
    pub fn publish_some(
        &self,
        channel: &[u8],
        message: &[u8],
        sending: &mut Sending,
        work_max: usize,
    ) -> bool {
        let registry = self.read();
        let mut left = work_max;
        if sending.pattern.is_none() {
            let parts: [&[u8]; 3] = [b"message", channel, message];
            let listeners = registry.channels.get(channel);
            if !sending.send(listeners, &parts, &mut left) {
                return true;
            }
            sending.pattern = Some(Box::default());
        }
        let first = sending.pattern.clone().unwrap_or_default();
        let first: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(&first), Bound::Unbounded);
        for (name, (pattern, listeners)) in registry.patterns.range::<[u8], _>(first) {
            let is_begun = sending.pattern.as_ref().is_some_and(|begun| begun == name);
            if left == 0 || !is_begun {
                sending.pattern = Some(name.clone());
                sending.after = 0;
            }
            let cost = 1 + (name.len() + channel.len()) / WORK_BYTES;
            if left == 0 {
                return true;
            }
            left = left.saturating_sub(cost);
            if pattern.matches(channel) {
                let parts: [&[u8]; 4] = [b"pmessage", name, channel, message];
                // Whoever is tried gets on by one listener at least.
                left = left.max(1);
                if !sending.send(Some(listeners), &parts, &mut left) {
                    return true;
                }
            }
        }
        false
    }

    /// The same to those who listen to a channel of a shard.
    pub fn publish_some_to_shard(
        &self,
        channel: &[u8],
        message: &[u8],
        sending: &mut Sending,
        work_max: usize,
    ) -> bool {
        let registry = self.read();
        let (parts, mut left): ([&[u8]; 3], _) = ([b"smessage", channel, message], work_max);
        !sending.send(registry.shards.get(channel), &parts, &mut left)
    }

    /// Whether nobody listens to anything.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let registry = self.read();
        let channels = registry.channels.is_empty() && registry.shards.is_empty();
        channels && registry.patterns.is_empty()
    }

    /// Shows each channel of a kind that somebody listens to.
    pub fn channels(&self, kind: Kind, mut each: impl FnMut(&[u8])) {
        let registry = self.read();
        kind.channels(&registry).keys().for_each(|name| each(name));
    }

    /// All who listen to channels of a kind whose names are meant.
    #[must_use]
    pub fn listeners_of(&self, kind: Kind, is_meant: impl Fn(&[u8]) -> bool) -> Vec<Arc<Client>> {
        let registry = self.read();
        let channels = kind.channels(&registry).iter();
        let meant = channels.filter(|(name, _)| is_meant(name));
        meant
            .flat_map(|(_, clients)| clients.values().cloned())
            .collect()
    }

    /// How many listen to a channel by its name.
    #[must_use]
    pub fn listeners(&self, kind: Kind, channel: &[u8]) -> usize {
        let registry = self.read();
        kind.channels(&registry)
            .get(channel)
            .map_or(0, BTreeMap::len)
    }

    /// How many channels and patterns somebody listens to.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let registry = self.read();
        (registry.channels.len(), registry.patterns.len())
    }

    fn read(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Registry> {
        let locked = self.registry.write();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a message has come.
#[derive(Debug, Default)]
pub struct Sending {
    /// To how many it was sent.
    pub count: usize,
    /// The pattern whose listeners come next; none before those of the channel had theirs.
    pattern: Option<Box<[u8]>>,
    /// The listener that had it last.
    after: u64,
}

impl Sending {
    /// Sends to the listeners behind the last one; whether all had it before nothing was left.
    fn send(&mut self, listeners: Option<&Listeners>, parts: &[&[u8]], left: &mut usize) -> bool {
        let mut letter = Letter::new(parts);
        let cost = 1 + parts.iter().map(|part| part.len()).sum::<usize>() / WORK_BYTES;
        let others = (Bound::Excluded(self.after), Bound::Unbounded);
        for (&id, client) in listeners.into_iter().flat_map(|all| all.range(others)) {
            if *left == 0 {
                return false;
            }
            *left = left.saturating_sub(cost);
            self.after = id;
            if !client.is_gone() {
                letter.send(client);
                self.count += 1;
            }
        }
        true
    }
}

/// A message of strings, encoded once for each version of the protocol.
struct Letter<'a> {
    parts: &'a [&'a [u8]],
    forms: [Vec<u8>; 2],
}

impl<'a> Letter<'a> {
    fn new(parts: &'a [&'a [u8]]) -> Letter<'a> {
        let forms = [Vec::new(), Vec::new()];
        Letter { parts, forms }
    }

    fn send(&mut self, client: &Client) {
        let proto = client.proto();
        let form = &mut self.forms[usize::from(proto == Proto::V3)];
        if form.is_empty() {
            let mut reply = Reply::new(form, proto);
            reply.push(self.parts.len());
            self.parts.iter().for_each(|part| reply.bulk(part));
        }
        client.push(|out| out.extend_from_slice(form));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Clients, Delivery, Seat};

    #[test]
    fn nothing_is_left_of_a_channel_that_nobody_listens_to() {
        let (pubsub, clients) = (PubSub::default(), Clients::default());
        let client = clients.add(Seat::default(), None, 0);
        pubsub.subscribe(Kind::Channel, b"news", &client);
        pubsub.subscribe(Kind::Pattern, b"n*", &client);
        assert_eq!(pubsub.publish(b"news", b"hi"), 2);
        pubsub.unsubscribe(Kind::Channel, b"news", &client);
        pubsub.unsubscribe(Kind::Pattern, b"n*", &client);
        assert_eq!(pubsub.publish(b"news", b"hi"), 0);
        assert!(pubsub.is_silent());
        let expected = b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n\
            *4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        assert_eq!(client.deliver(), Delivery::Bytes(expected.to_vec()));
    }

    #[test]
    fn a_message_in_steps_reaches_each_listener_once() {
        let (pubsub, clients) = (PubSub::default(), Clients::default());
        let listeners: Vec<_> = (0..50)
            .map(|_| clients.add(Seat::default(), None, 0))
            .collect();
        for (place, client) in listeners.iter().enumerate() {
            pubsub.subscribe(Kind::Channel, b"news", client);
            pubsub.subscribe(Kind::Pattern, format!("n*{}", place % 3).as_bytes(), client);
            pubsub.subscribe(Kind::Pattern, b"ne?s", client);
        }
        for work_max in [1, 2, 7, 1_000] {
            let (mut sending, mut steps) = (Sending::default(), 1);
            while pubsub.publish_some(b"news", b"hi", &mut sending, work_max) {
                steps += 1;
            }
            assert_eq!(sending.count, 100, "in {steps} steps");
            assert_eq!(steps > 1, work_max < 1_000);
        }
        let one = b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n\
            *4\r\n$8\r\npmessage\r\n$4\r\nne?s\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        for client in &listeners {
            assert_eq!(client.deliver(), Delivery::Bytes(one.repeat(4)));
        }
    }
}

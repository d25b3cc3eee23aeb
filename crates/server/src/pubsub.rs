//! Pubsub: who listens to which channels, and the way of a message to them.
//!
//! A message goes into the inboxes of all listeners under the registry's lock for readers, so who
//! has left a channel gets nothing from it any more. Lock order: shard, registry, inbox.
//!
//! Tests: tests/resp_pubsub.rs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::{Proto, Reply};

use crate::client::Client;

/// Those who listen to one channel or pattern, by their numbers.
type Listeners = BTreeMap<u64, Arc<Client>>;

/// What a client listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
}

#[derive(Debug, Default)]
struct Registry {
    channels: HashMap<Box<[u8]>, Listeners>,
    patterns: BTreeMap<Box<[u8]>, (Pattern, Listeners)>,
}

/// All channels and patterns that somebody listens to.
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
        let mut registry = self.write();
        let listeners = match kind {
            Kind::Channel => registry.channels.get_mut(name),
            Kind::Pattern => {
                let entry = registry.patterns.get_mut(name);
                entry.map(|(_, listeners)| listeners)
            }
        };
        let Some(listeners) = listeners else {
            return;
        };
        listeners.remove(&client.id);
        if listeners.is_empty() {
            match kind {
                Kind::Channel => drop(registry.channels.remove(name)),
                Kind::Pattern => drop(registry.patterns.remove(name)),
            }
        }
    }

    /// Sends a message to all who listen; to how many, who listens twice counted twice.
    pub fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        let registry = self.read();
        let mut count = 0;
        if let Some(listeners) = registry.channels.get(channel) {
            let parts: [&[u8]; 3] = [b"message", channel, message];
            let mut letter = Letter::new(&parts);
            listeners.values().for_each(|client| letter.send(client));
            count += listeners.len();
        }
        for (name, (pattern, listeners)) in &registry.patterns {
            if pattern.matches(channel) {
                let parts: [&[u8]; 4] = [b"pmessage", name, channel, message];
                let mut letter = Letter::new(&parts);
                listeners.values().for_each(|client| letter.send(client));
                count += listeners.len();
            }
        }
        count
    }

    /// Whether nobody listens to anything.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let registry = self.read();
        registry.channels.is_empty() && registry.patterns.is_empty()
    }

    /// Shows each channel that somebody listens to.
    pub fn channels(&self, mut each: impl FnMut(&[u8])) {
        self.read().channels.keys().for_each(|name| each(name));
    }

    /// How many listen to a channel by its name.
    #[must_use]
    pub fn listeners(&self, channel: &[u8]) -> usize {
        let registry = self.read();
        registry.channels.get(channel).map_or(0, BTreeMap::len)
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
}

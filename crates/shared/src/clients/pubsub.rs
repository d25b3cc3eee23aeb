//! Pubsub: the subscribers of channels and patterns, and the delivery of messages to them.
//!
//! A message goes into the inboxes of its subscribers under the registry's read lock, so a client
//! that has unsubscribed gets nothing more. A message to very many subscribers goes in steps,
//! between which the lock is free ([`PubSub::publish_some`]). Patterns are stored by their literal
//! prefix, so that only those are tried whose prefix matches the channel. Lock order: shard,
//! registry, inbox.
//!
//! Tests: server/tests/resp_pubsub.rs.

mod few; // a map that allocates nothing for its first entry

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::{Proto, Reply};
use parking_lot::RwLock;

use self::few::Few;
use crate::clients::client::Client;

/// Bytes of a message or pattern that count as one unit of work.
const WORK_BYTES: usize = 256;
/// Comparisons of a pattern with blocks of a channel's name that count as one more.
const WORK_COMPARISONS: usize = 16;

/// The subscribers of one channel or pattern, by client number.
type Listeners = Few<u64, Arc<Client>>;

/// Patterns with one literal prefix, by name.
type Patterns = Few<Box<[u8]>, Box<(Pattern, Listeners)>>;

/// The kind of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// One channel of a shard: such channels have names of their own, and no patterns.
    Shard,
}

/// Partitions of the channels of a kind: with a million channels each has some thousands.
const PARTS: usize = 256;

/// Channels and the subscribers of each, partitioned by name.
#[derive(Debug)]
struct Channels {
    hasher: RandomState,
    parts: Box<[HashMap<Box<[u8]>, Listeners>]>,
    count: usize,
}

impl Default for Channels {
    fn default() -> Channels {
        Channels {
            hasher: RandomState::new(),
            parts: (0..PARTS).map(|_| HashMap::new()).collect(),
            count: 0,
        }
    }
}

impl Channels {
    fn part(&self, name: &[u8]) -> usize {
        self.hasher.hash_one(name) as usize % PARTS
    }

    fn get(&self, name: &[u8]) -> Option<&Listeners> {
        self.parts[self.part(name)].get(name)
    }

    fn add(&mut self, name: &[u8], client: &Arc<Client>) {
        let part = self.part(name);
        let part = &mut self.parts[part];
        let before = part.len();
        let listeners = part.entry(name.into()).or_default();
        listeners.insert(client.id, Arc::clone(client));
        self.count += part.len() - before;
    }

    fn remove(&mut self, name: &[u8], client: &Client) {
        let part = self.part(name);
        let part = &mut self.parts[part];
        let Some(listeners) = part.get_mut(name) else {
            return;
        };
        listeners.remove(&client.id);
        if listeners.is_empty() {
            part.remove(name);
            self.count -= 1;
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&Box<[u8]>, &Listeners)> {
        self.parts.iter().flatten()
    }
}

impl Kind {
    /// The names that [`PubSub::some_channels`] returns.
    fn channels(self, registry: &Registry) -> &Channels {
        match self {
            Kind::Shard => &registry.shards,
            _ => &registry.channels,
        }
    }
}

#[derive(Debug, Default)]
struct Registry {
    channels: Channels,
    /// By literal prefix.
    patterns: BTreeMap<Box<[u8]>, Patterns>,
    pattern_count: usize,
    shards: Channels,
}

impl Registry {
    fn unsubscribe(&mut self, kind: Kind, name: &[u8], client: &Client) {
        match kind {
            Kind::Channel => self.channels.remove(name, client),
            Kind::Shard => self.shards.remove(name, client),
            Kind::Pattern => self.unsubscribe_from_pattern(name, client),
        }
    }

    fn unsubscribe_from_pattern(&mut self, name: &[u8], client: &Client) {
        let beginning = Pattern::beginning(name);
        let Some(patterns) = self.patterns.get_mut(beginning.as_slice()) else {
            return;
        };
        let Some(entry) = patterns.get_mut(name) else {
            return;
        };
        let listeners = &mut entry.1;
        listeners.remove(&client.id);
        if listeners.is_empty() {
            patterns.remove(name);
            self.pattern_count -= 1;
            if patterns.is_empty() {
                self.patterns.remove(beginning.as_slice());
            }
        }
    }

    /// The longest prefix of a channel that patterns have, of at most `most` bytes; each prefix
    /// skipped counts as work.
    fn beginning(&self, channel: &[u8], most: usize, left: &mut usize) -> Looked<'_> {
        let mut most = most;
        loop {
            let up_to = (Bound::Unbounded, Bound::Included(&channel[..most]));
            let Some((found, patterns)) = self.patterns.range::<[u8], _>(up_to).next_back() else {
                return Looked::Nothing;
            };
            let pairs = found.iter().zip(channel);
            let common = pairs.take_while(|(one, other)| one == other).count();
            // It takes a comparison of names for each level of the tree.
            *left = left.saturating_sub(1 + common / WORK_BYTES);
            if common == found.len() {
                return Looked::Found(common, patterns);
            }
            // Any prefix longer than the common part would sort behind the one found.
            most = common;
            if *left == 0 {
                return Looked::NotYet(most);
            }
        }
    }
}

/// The result of a search for patterns by prefix.
enum Looked<'a> {
    /// Patterns, and the length of their prefix.
    Found(usize, &'a Patterns),
    /// None so far; continue with prefixes of at most this many bytes.
    NotYet(usize),
    /// No others exist.
    Nothing,
}

/// All channels and patterns with subscribers. A client that has unsubscribed may stay in here for
/// a moment; it is sent nothing and does not count as a receiver.
#[derive(Debug, Default)]
pub struct PubSub {
    registry: RwLock<Registry>,
}

impl PubSub {
    /// Subscribes a client.
    pub fn subscribe(&self, kind: Kind, name: &[u8], client: &Arc<Client>) {
        match kind {
            Kind::Channel => self.registry.write().channels.add(name, client),
            Kind::Shard => self.registry.write().shards.add(name, client),
            Kind::Pattern => self.subscribe_to_pattern(name, Pattern::new(name), client),
        }
    }

    /// Subscribes a client to a pattern, which is `name` compiled.
    pub fn subscribe_to_pattern(&self, name: &[u8], pattern: Pattern, client: &Arc<Client>) {
        let beginning = Pattern::beginning(name).into_boxed_slice();
        let mut registry = self.registry.write();
        let patterns = registry.patterns.entry(beginning).or_default();
        let (id, client) = (client.id, Arc::clone(client));
        if let Some(entry) = patterns.get_mut(name) {
            entry.1.insert(id, client);
            return;
        }
        patterns.insert(name.into(), Box::new((pattern, Few::One(id, client))));
        registry.pattern_count += 1;
    }

    /// Unsubscribes a client.
    pub fn unsubscribe(&self, kind: Kind, name: &[u8], client: &Client) {
        self.registry.write().unsubscribe(kind, name, client);
    }

    /// The same for several names; the lock is held for all of them.
    pub fn unsubscribe_all(&self, kind: Kind, names: &[Box<[u8]>], client: &Client) {
        let mut registry = self.registry.write();
        for name in names {
            registry.unsubscribe(kind, name, client);
        }
    }

    /// Sends a message to some more of its subscribers; returns whether others remain, and how much
    /// work is left.
    ///
    /// `work_max` is how many patterns are tried and messages sent in this call, long messages
    /// counted for several.
    pub fn publish_some(
        &self,
        channel: &[u8],
        message: &[u8],
        sending: &mut Sending,
        work_max: usize,
    ) -> (bool, usize) {
        let mut left = work_max;
        let goes_on = self.publish_on(channel, message, sending, &mut left);
        (goes_on, left)
    }

    fn publish_on(
        &self,
        channel: &[u8],
        message: &[u8],
        sending: &mut Sending,
        left: &mut usize,
    ) -> bool {
        let registry = self.registry.read();
        let mut most = match sending.beginning_max {
            Some(most) => most,
            None => {
                let parts: [&[u8]; 3] = [b"message", channel, message];
                if !sending.send(registry.channels.get(channel), &parts, left) {
                    return true;
                }
                sending.begin(channel.len());
                channel.len()
            }
        };
        loop {
            if *left == 0 {
                return true;
            }
            match registry.beginning(channel, most, left) {
                Looked::Nothing => return false,
                Looked::NotYet(next) => sending.begin(next),
                Looked::Found(length, patterns) => {
                    if length != most {
                        sending.begin(length);
                    }
                    if !sending.send_to_patterns(patterns, channel, message, left) {
                        return true;
                    }
                    let Some(next) = length.checked_sub(1) else {
                        return false;
                    };
                    sending.begin(next);
                }
            }
            most = sending.beginning_max.unwrap_or(0);
        }
    }

    /// The same for subscribers of a shard channel.
    pub fn publish_some_to_shard(
        &self,
        channel: &[u8],
        message: &[u8],
        sending: &mut Sending,
        work_max: usize,
    ) -> (bool, usize) {
        let registry = self.registry.read();
        let (parts, mut left): ([&[u8]; 3], _) = ([b"smessage", channel, message], work_max);
        let goes_on = !sending.send(registry.shards.get(channel), &parts, &mut left);
        (goes_on, left)
    }

    /// Whether no client has a subscription.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let registry = self.registry.read();
        let channels = registry.channels.count + registry.shards.count == 0;
        channels && registry.patterns.is_empty()
    }

    /// Shows channels of a kind that have subscribers, `names_min` or those of the last partition,
    /// and returns the cursor to continue with: zero at the start, none after the last. A channel
    /// with subscribers from the first call to the last is shown exactly once.
    pub fn some_channels(
        &self,
        kind: Kind,
        from: usize,
        names_min: usize,
        mut each: impl FnMut(&[u8]),
    ) -> Option<usize> {
        let registry = self.registry.read();
        let mut shown = 0;
        for (place, part) in kind.channels(&registry).parts.iter().enumerate().skip(from) {
            if shown >= names_min {
                return Some(place);
            }
            part.keys().for_each(|name| each(name));
            shown += part.len();
        }
        None
    }

    /// All subscribers to channels of a kind whose names satisfy `is_meant`.
    #[must_use]
    pub fn listeners_of(&self, kind: Kind, is_meant: impl Fn(&[u8]) -> bool) -> Vec<Arc<Client>> {
        let registry = self.registry.read();
        let channels = kind.channels(&registry).iter();
        let meant = channels.filter(|(name, _)| is_meant(name));
        meant
            .flat_map(|(_, clients)| clients.values().cloned())
            .collect()
    }

    /// Number of subscribers of a channel.
    #[must_use]
    pub fn listeners(&self, kind: Kind, channel: &[u8]) -> usize {
        let registry = self.registry.read();
        kind.channels(&registry).get(channel).map_or(0, Few::len)
    }

    /// Number of channels and of patterns with subscribers.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let registry = self.registry.read();
        (registry.channels.count, registry.pattern_count)
    }
}

/// The progress of sending a message.
#[derive(Debug, Default)]
pub struct Sending {
    /// Number of receivers so far.
    pub count: usize,
    /// Longest prefix of the patterns that come next; none while the channel's own subscribers
    /// come.
    beginning_max: Option<usize>,
    /// The pattern whose subscribers come next, among those of the longest such prefix.
    pattern: Box<[u8]>,
    /// The last subscriber that received it.
    after: u64,
}

impl Sending {
    /// Continues with patterns whose prefixes are no longer than this.
    fn begin(&mut self, beginning_max: usize) {
        (self.beginning_max, self.pattern, self.after) = (Some(beginning_max), Box::default(), 0);
    }

    /// Sends to the subscribers of matching patterns of one prefix; returns whether all received it
    /// before the work was used up.
    fn send_to_patterns(
        &mut self,
        patterns: &Patterns,
        channel: &[u8],
        message: &[u8],
        left: &mut usize,
    ) -> bool {
        let first = std::mem::take(&mut self.pattern);
        // Each lookup advances by at least one pattern.
        *left = (*left).max(1);
        for (name, entry) in patterns.from::<[u8]>(Bound::Included(&first)) {
            let (pattern, listeners) = &**entry;
            if *name != first {
                self.after = 0;
            }
            if *left == 0 {
                self.pattern = name.clone();
                return false;
            }
            let comparisons = pattern.comparisons(channel.len()) / WORK_COMPARISONS;
            *left =
                left.saturating_sub(1 + (name.len() + channel.len()) / WORK_BYTES + comparisons);
            if pattern.matches(channel) {
                let parts: [&[u8]; 4] = [b"pmessage", name, channel, message];
                // Each matching pattern advances by at least one subscriber.
                *left = (*left).max(1);
                if !self.send(Some(listeners), &parts, left) {
                    self.pattern = name.clone();
                    return false;
                }
            }
        }
        true
    }

    /// Sends to the subscribers after the last one; returns whether all received it before the work
    /// was used up.
    fn send(&mut self, listeners: Option<&Listeners>, parts: &[&[u8]], left: &mut usize) -> bool {
        let mut letter = Letter::new(parts);
        let cost = 1 + parts.iter().map(|part| part.len()).sum::<usize>() / WORK_BYTES;
        let after = self.after;
        let others = listeners
            .into_iter()
            .flat_map(|all| all.from(Bound::Excluded(&after)));
        for (&id, client) in others {
            if *left == 0 {
                return false;
            }
            *left = left.saturating_sub(cost);
            self.after = id;
            if !client.is_gone() {
                self.count += usize::from(letter.send(client));
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

    /// Sends it; returns whether the client will get it.
    fn send(&mut self, client: &Client) -> bool {
        let proto = client.proto();
        let form = &mut self.forms[usize::from(proto == Proto::V3)];
        if form.is_empty() {
            let mut reply = Reply::new(form, proto);
            reply.push(self.parts.len());
            self.parts.iter().for_each(|part| reply.bulk(part));
        }
        client.push(|out| out.extend_from_slice(form))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::client::{Clients, Delivery, Seat};

    #[test]
    fn nothing_is_left_of_a_channel_that_nobody_listens_to() {
        let (pubsub, clients) = (PubSub::default(), Clients::default());
        let client = clients.add(Seat::default(), None, 0);
        pubsub.subscribe(Kind::Channel, b"news", &client);
        pubsub.subscribe(Kind::Pattern, b"n*", &client);
        let told = || {
            let mut sending = Sending::default();
            assert!(
                !pubsub
                    .publish_some(b"news", b"hi", &mut sending, usize::MAX)
                    .0
            );
            sending.count
        };
        assert_eq!(told(), 2);
        pubsub.unsubscribe(Kind::Channel, b"news", &client);
        pubsub.unsubscribe(Kind::Pattern, b"n*", &client);
        assert_eq!(told(), 0);
        assert!(pubsub.is_silent());
        let expected = b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n\
            *4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        assert_eq!(client.deliver(), Delivery::Bytes(expected.to_vec()));
    }

    #[test]
    fn channels_are_shown_some_at_a_time_each_once() {
        let (pubsub, clients) = (PubSub::default(), Clients::default());
        let client = clients.add(Seat::default(), None, 0);
        let mut names: Vec<Vec<u8>> = (0..5_000_u32).map(|n| n.to_string().into()).collect();
        for name in &names {
            pubsub.subscribe(Kind::Channel, name, &client);
        }
        let (mut shown, mut next, mut calls) = (Vec::new(), Some(0), 0);
        while let Some(from) = next {
            let before = shown.len();
            next = pubsub.some_channels(Kind::Channel, from, 100, |name| {
                shown.push(name.to_vec());
            });
            assert!(shown.len() - before < 100 + 100, "one part more at most");
            calls += 1;
        }
        names.sort();
        shown.sort();
        assert!(calls > 20, "{calls}");
        assert_eq!(shown, names);
        assert_eq!(pubsub.some_channels(Kind::Shard, 0, 1, |_| panic!()), None);
    }

    #[test]
    fn a_message_goes_as_far_as_there_is_work_for_it() {
        let (pubsub, clients) = (PubSub::default(), Clients::default());
        let client = clients.add(Seat::default(), None, 0);
        for place in 0..100 {
            pubsub.subscribe(Kind::Pattern, format!("n*{place}").as_bytes(), &client);
        }
        let publish = |work| pubsub.publish_some(b"news", b"hi", &mut Sending::default(), work);
        let (goes_on, left) = publish(1_000_000);
        let needed = 1_000_000 - left;
        assert!(!goes_on && needed >= 100, "{needed}");
        assert_eq!(publish(needed + 1), (false, 1));
        assert_eq!(publish(needed / 2), (true, 0));
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
            while pubsub
                .publish_some(b"news", b"hi", &mut sending, work_max)
                .0
            {
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

    fn listener(pubsub: &PubSub, patterns: impl Iterator<Item = Vec<u8>>) -> Arc<Client> {
        let client = Clients::default().add(Seat::default(), None, 0);
        patterns.for_each(|name| pubsub.subscribe(Kind::Pattern, &name, &client));
        client
    }

    #[test]
    fn a_pattern_that_begins_otherwise_takes_no_work() {
        let pubsub = PubSub::default();
        let others = (0..5_000).map(|at| format!("nothing{at}*").into_bytes());
        let meant = [&b"__key*"[..], b"__keyevent@0__:set", b"*"].map(<[u8]>::to_vec);
        let _client = listener(&pubsub, others.chain(meant));
        let mut sending = Sending::default();
        assert!(
            !pubsub
                .publish_some(b"__keyevent@0__:set", b"k", &mut sending, 64)
                .0
        );
        assert_eq!(sending.count, 3);
        assert_eq!(pubsub.counts(), (0, 5_003));
    }

    #[test]
    fn tests_of_a_pattern_count_with_the_length_of_the_channel() {
        let pubsub = PubSub::default();
        let pattern = |at: u8| [b"*?", &[b'a'; 100][..], &[b'b', at, b'*']].concat();
        let _client = listener(&pubsub, (0..20).map(pattern));
        let (channel, mut sending, mut steps) = (vec![b'a'; 60 << 10], Sending::default(), 1);
        while pubsub.publish_some(&channel, b"m", &mut sending, 2_048).0 {
            steps += 1;
        }
        assert_eq!((sending.count, steps), (0, 20));
    }
}

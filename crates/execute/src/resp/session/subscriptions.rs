//! Subscriptions: the channels and patterns of one client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cellar_config::limits::{SUBSCRIPTION_BYTES_MAX, entry_bytes};
use cellar_protocol::resp::command::find;
use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::{Command, Verb};
use cellar_shared::clients::client::Client;
use cellar_shared::clients::pubsub::Kind;
use cellar_shared::state::State;

use crate::resp::failure::Failure;
use crate::resp::patterns::{check_channel, pattern};

/// Names that are removed under one lock.
const NAMES_TOGETHER_MAX: usize = 1_024;

/// One client's subscriptions, each with the bytes that it counts for.
#[derive(Debug, Default)]
pub(in crate::resp) struct Subscriptions {
    channels: BTreeMap<Box<[u8]>, usize>,
    patterns: BTreeMap<Box<[u8]>, usize>,
    shards: BTreeMap<Box<[u8]>, usize>,
    bytes: usize,
}

impl Subscriptions {
    #[inline]
    pub(in crate::resp) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes of memory that they take.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Number of subscriptions that are counted together with a kind: shard channels are counted
    /// separately.
    pub(in crate::resp) fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Shard => self.shards.len(),
            _ => self.channels.len() + self.patterns.len(),
        }
    }

    /// The names of one kind.
    pub(in crate::resp) fn names(&self, kind: Kind) -> Vec<Box<[u8]>> {
        match kind {
            Kind::Channel => self.channels.keys().cloned().collect(),
            Kind::Pattern => self.patterns.keys().cloned().collect(),
            Kind::Shard => self.shards.keys().cloned().collect(),
        }
    }

    /// Adds a subscription.
    ///
    /// # Errors
    /// That the client has too many, or that the name is too long.
    pub(in crate::resp) fn add(
        &mut self,
        kind: Kind,
        name: &[u8],
        client: &Arc<Client>,
        state: &State,
    ) -> Result<(), Failure> {
        if self.set(kind).contains_key(name) {
            return Ok(());
        }
        let pattern = match kind {
            Kind::Pattern => Some(pattern(name)?),
            Kind::Channel | Kind::Shard => check_channel(name).map(|()| None)?,
        };
        // A pattern is also stored under its literal prefix.
        let taken_apart = |pattern: &Pattern| name.len() + pattern.bytes();
        let cost = entry_bytes(name) + pattern.as_ref().map_or(0, taken_apart);
        if self.bytes + cost > SUBSCRIPTION_BYTES_MAX {
            return Err(Failure::text("ERR too many subscriptions"));
        }
        self.set(kind).insert(name.into(), cost);
        self.bytes += cost;
        self.note(client);
        let pubsub = &state.observer.pubsub;
        match pattern {
            Some(pattern) => pubsub.subscribe_to_pattern(name, pattern, client),
            None => pubsub.subscribe(kind, name, client),
        }
        Ok(())
    }

    /// Ends to listen.
    pub(in crate::resp) fn remove(
        &mut self,
        kind: Kind,
        name: &[u8],
        client: &Client,
        state: &State,
    ) {
        if let Some(cost) = self.set(kind).remove(name) {
            self.bytes -= cost;
            self.note(client);
            state.observer.pubsub.unsubscribe(kind, name, client);
        }
    }

    /// Ends to listen to anything.
    pub(in crate::resp) fn end(&mut self, client: &Client, state: &State) {
        while self.end_some(NAMES_TOGETHER_MAX, client, state) == NAMES_TOGETHER_MAX {}
    }

    /// Removes at most `most` subscriptions; returns how many.
    pub(in crate::resp) fn end_some(
        &mut self,
        most: usize,
        client: &Client,
        state: &State,
    ) -> usize {
        let mut ended = 0;
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
            let (set, mut names, mut bytes) = (self.set(kind), Vec::new(), 0);
            while ended + names.len() < most
                && let Some((name, cost)) = set.pop_first()
            {
                names.push(name);
                bytes += cost;
            }
            if names.is_empty() {
                continue;
            }
            ended += names.len();
            self.bytes -= bytes;
            state.observer.pubsub.unsubscribe_all(kind, &names, client);
        }
        if ended > 0 {
            self.note(client);
        }
        ended
    }

    fn set(&mut self, kind: Kind) -> &mut BTreeMap<Box<[u8]>, usize> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    fn note(&self, client: &Client) {
        // Relaxed: facts for listings.
        let counts = &client.counts;
        counts
            .channels
            .store(self.channels.len(), Ordering::Relaxed);
        counts
            .patterns
            .store(self.patterns.len(), Ordering::Relaxed);
        counts.shards.store(self.shards.len(), Ordering::Relaxed);
    }
}

/// Whether a command is answered by messages, which are sent even if replies are off.
pub(in crate::resp) fn is_answered_by_push(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Subscribe
            | Verb::Unsubscribe
            | Verb::Psubscribe
            | Verb::Punsubscribe
            | Verb::Ssubscribe
            | Verb::Sunsubscribe
    )
}

/// Refuses what a subscriber that speaks RESP2 may not ask for.
pub(in crate::resp) fn check_confined(command: &'static Command) -> Result<(), Failure> {
    let is_allowed = matches!(command.verb, Verb::Ping | Verb::Quit | Verb::Reset);
    if is_allowed || is_answered_by_push(command.verb) {
        return Ok(());
    }
    let name = full_name(command);
    let text = format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
         are allowed in this context"
    );
    Err(Failure::Text(text.into()))
}

/// A command's name; of a sub-command with the name of its container before it.
fn full_name(command: &'static Command) -> String {
    let is_top = find(command.name.as_bytes()).is_some_and(|found| found.verb == command.verb);
    if is_top {
        return command.name.to_owned();
    }
    let has_it = |row: &&Command| row.subcommands.iter().any(|sub| sub.verb == command.verb);
    let container = cellar_protocol::resp::command::TABLE.iter().find(has_it);
    format!("{}|{}", container.map_or("", |row| row.name), command.name)
}

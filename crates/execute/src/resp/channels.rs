//! Channels: publishing and subscribing.
//!
//! Source: redis.io/docs/latest/develop/pubsub. Tests: server/tests/resp_pubsub.rs.

use std::sync::Arc;

use cellar_config::limits::COMPILED_BYTES_MAX;
use cellar_net::output::Output;
use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::{Proto, Reply, Verb};
use cellar_shared::auth::users::User;
use cellar_shared::clients::pubsub::{Kind, PubSub, Sending};

use super::arguments::Arguments;
use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use super::patterns;

use super::call::steps::{Progress, STEP_BYTES, STEP_ITEMS, Work};
use crate::context::Context;

pub(super) fn subscribe(call: &mut Call<'_>) -> Outcome {
    begin(call, Kind::Channel, "subscribe")
}

pub(super) fn psubscribe(call: &mut Call<'_>) -> Outcome {
    begin(call, Kind::Pattern, "psubscribe")
}

pub(super) fn unsubscribe(call: &mut Call<'_>) -> Outcome {
    end(call, Kind::Channel, "unsubscribe")
}

pub(super) fn punsubscribe(call: &mut Call<'_>) -> Outcome {
    end(call, Kind::Pattern, "punsubscribe")
}

pub(super) fn ssubscribe(call: &mut Call<'_>) -> Outcome {
    begin(call, Kind::Shard, "ssubscribe")
}

pub(super) fn sunsubscribe(call: &mut Call<'_>) -> Outcome {
    end(call, Kind::Shard, "sunsubscribe")
}

fn begin(call: &mut Call<'_>, kind: Kind, word: &str) -> Outcome {
    let state = call.context.state;
    if kind == Kind::Pattern && call.args.len() > 2 {
        let bytes: usize = call.args[1..].iter().map(|name| name.len()).sum();
        if bytes > COMPILED_BYTES_MAX {
            return Err(Failure::text(
                "ERR the patterns of one command are longer than 256 KiB",
            ));
        }
    }
    for name in &call.args[1..] {
        let session = &mut *call.session;
        let client = &session.client;
        session.subscriptions.add(kind, name, client, state)?;
        answer(call, kind, word, Some(name));
    }
    DONE
}

fn end(call: &mut Call<'_>, kind: Kind, word: &str) -> Outcome {
    let state = call.context.state;
    let names: Vec<Box<[u8]>> = if call.args.len() > 1 {
        call.args[1..].iter().map(|&name| name.into()).collect()
    } else {
        call.session.subscriptions.names(kind)
    };
    if names.is_empty() {
        answer(call, kind, word, None);
    }
    for name in &names {
        let session = &mut *call.session;
        let client = &session.client;
        session.subscriptions.remove(kind, name, client, state);
        if !call.session.answers_whole {
            // No message of a channel may follow the reply to its unsubscription.
            call.session.empty_inbox(call.output);
        }
        answer(call, kind, word, Some(name));
    }
    DONE
}

fn answer(call: &mut Call<'_>, kind: Kind, word: &str, name: Option<&[u8]>) {
    let count = call.session.subscriptions.count(kind);
    let mut reply = call.reply();
    reply.push(3);
    reply.bulk(word);
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
}

/// Listeners and patterns of a message that one step gets through.
const LISTENERS_MAX: usize = 2_048;

/// PUBLISH, SPUBLISH.
pub(super) fn publish(call: &mut Call<'_>) -> Outcome {
    let send = match call.command.verb {
        Verb::Spublish => PubSub::publish_some_to_shard,
        _ => PubSub::publish_some,
    };
    let pubsub = &call.context.state.observer.pubsub;
    let (channel, message, proto) = (call.args[1], call.args[2], call.session.proto);
    patterns::check_channel(channel)?;
    let mut sending = Sending::default();
    if !send(pubsub, channel, message, &mut sending, LISTENERS_MAX).0 {
        return call.integer(i64::try_from(sending.count).unwrap_or(i64::MAX));
    }
    let (channel, message) = (channel.to_vec(), message.to_vec());
    call.in_steps(move |context, output| {
        let pubsub = &context.state.observer.pubsub;
        if send(pubsub, &channel, &message, &mut sending, LISTENERS_MAX).0 {
            return Progress::More;
        }
        let count = i64::try_from(sending.count).unwrap_or(i64::MAX);
        Reply::new(output.bytes(), proto).integer(count);
        Progress::Last
    })
}

/// Which channels a subcommand of PUBSUB is about.
fn kind_of(call: &Call<'_>) -> Kind {
    match call.command.verb {
        Verb::PubsubShardchannels | Verb::PubsubShardnumsub => Kind::Shard,
        _ => Kind::Channel,
    }
}

/// PUBSUB CHANNELS, PUBSUB SHARDCHANNELS.
pub(super) fn channels(call: &mut Call<'_>) -> Outcome {
    let pattern = match call.args {
        [_, _] => None,
        [_, _, pattern] => Some(patterns::pattern(pattern)?),
        _ => return Err(super::wrong_arity(call.command, call.args)),
    };
    let names = ChannelNames {
        kind: kind_of(call),
        pattern,
        user: call.session.identity.last_user().cloned(),
        next: Some(0),
        names: Arguments::default(),
        answered: 0,
        proto: call.session.proto,
    };
    call.work_in_steps(names)
}

/// The names of channels, on their way to the client that has asked for them.
struct ChannelNames {
    kind: Kind,
    pattern: Option<Pattern>,
    /// A user who may not subscribe to all of them.
    user: Option<Arc<User>>,
    /// Where to resume; none once all are gathered.
    next: Option<usize>,
    names: Arguments,
    answered: usize,
    proto: Proto,
}

impl ChannelNames {
    /// Gathers some more.
    fn gather(&mut self, from: usize, pubsub: &PubSub) {
        let (names, pattern, user) = (&mut self.names, &self.pattern, &self.user);
        self.next = pubsub.some_channels(self.kind, from, STEP_ITEMS, |name| {
            let is_its = user.as_ref().is_none_or(|user| user.may_hear(name));
            if is_its && pattern.as_ref().is_none_or(|pattern| pattern.matches(name)) {
                names.extend(&[name]);
            }
        });
    }
}

impl Work for ChannelNames {
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        if let Some(from) = self.next {
            self.gather(from, &context.state().observer.pubsub);
            if self.next.is_some() {
                return Progress::More;
            }
            Reply::new(output.bytes(), self.proto).array(self.names.len());
        }
        let mut reply = Reply::new(output.bytes(), self.proto);
        let full = reply.out.len() + STEP_BYTES;
        while self.answered < self.names.len() {
            reply.bulk(self.names.get(self.answered));
            self.answered += 1;
            if reply.out.len() >= full {
                return Progress::More;
            }
        }
        Progress::Last
    }
}

/// PUBSUB NUMSUB, PUBSUB SHARDNUMSUB.
pub(super) fn numsub(call: &mut Call<'_>) -> Outcome {
    let kind = kind_of(call);
    let pubsub = &call.context.state.observer.pubsub;
    let names = &call.args[2..];
    let mut reply = call.reply();
    reply.array(2 * names.len());
    for name in names {
        reply.bulk(name);
        reply.integer(i64::try_from(pubsub.listeners(kind, name)).unwrap_or(i64::MAX));
    }
    DONE
}

pub(super) fn numpat(call: &mut Call<'_>) -> Outcome {
    let (_, patterns) = call.context.state.observer.pubsub.counts();
    call.integer(i64::try_from(patterns).unwrap_or(i64::MAX))
}

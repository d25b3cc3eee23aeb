//! MSET and its relatives are atomic: no client sees a part of what they store. MGET reads its keys
//! in pieces when the reply is long, so another client's store may fall between two pieces; each
//! piece shows its keys at one moment.
//!
//! Source: redis.io/docs/latest/commands/mget and its neighbours.

use std::sync::Arc;

use cellar_config::limits::COMMAND_ARGS_MAX;
use cellar_engine::{
    Cache, DeleteOptions, Item, KEY_BYTES_MAX, Key, Kind, SetOptions, Snapshot, Space, ValueSink,
};
use cellar_net::output::Output;
use cellar_protocol::resp::number::parse_integer;
use cellar_protocol::resp::{Proto, Reply};
use cellar_shared::clients::client::Client;

use crate::context::{Context, Flow, Unfinished};
use crate::resp::arguments::Arguments;
use crate::resp::call::steps::{STEP_ITEMS, TRACKED_STEP_ITEMS};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::client::tracking::reader;
use crate::resp::failure::Failure;
use crate::resp::session::ReplyMode;
use crate::resp::strings::options::{Condition, StoreOptions};
use crate::resp::strings::values::{append_value, deadline_of, notify_set};

/// Keys that are read together.
const KEYS_TOGETHER_MAX: usize = 32;
/// Answer bytes, pinned values included, after which a read of many keys pauses.
const ANSWER_BYTES_MAX: usize = 64 << 10;

pub(in crate::resp) fn mget(call: &mut Call<'_>) -> Outcome {
    let keys = &call.args[1..];
    call.reply().array(keys.len());
    if keys.iter().any(|key| key.len() > KEY_BYTES_MAX) {
        return Err(Failure::KeyTooLong);
    }
    let how = MgetHow {
        space: call.space(),
        proto: call.session.proto,
        reader: reader(call.session),
    };
    if keys.len() > COMMAND_ARGS_MAX && !call.session.answers_whole {
        // Decoding and copying so many is enough for one iteration.
        return read_rest(call, how, keys);
    }
    if keys.len() > 1 && !call.context.is_in_step() {
        return mget_as_step(call, &how);
    }
    let first = first_keys(call, &how)?;
    answer(call, &how, &first, None)
}

/// The keys of the first step.
fn first_keys<'a>(call: &Call<'a>, how: &MgetHow) -> Result<Vec<Key<'a>>, Failure> {
    let keys = &call.args[1..];
    how.keys(&keys[..keys.len().min(how.step_items())], call.cache())
}

/// Answers the values of all keys at one moment, as far as one step reads them.
fn mget_as_step(call: &mut Call<'_>, how: &MgetHow) -> Outcome {
    let (cache, start) = (call.cache(), call.output.bytes().len());
    let first = first_keys(call, how)?;
    if let Some(mut snapshot) = cache.snapshot(first.iter().copied()) {
        let counters = call.context.counters;
        let before = counters.reads();
        let outcome = answer(call, how, &first, Some(&mut snapshot))?;
        if snapshot.is_still() {
            return Ok(outcome);
        }
        counters.take_back_reads(before);
        call.output.truncate(start);
    }
    call.as_step(|call| answer(call, how, &first, None))
}

/// Answers all keys, `first` ones as part of a snapshot.
fn answer(
    call: &mut Call<'_>,
    how: &MgetHow,
    first: &[Key<'_>],
    mut snapshot: Option<&mut Snapshot<'_>>,
) -> Outcome {
    let keys = &call.args[1..];
    let start = call.output.bytes().len();
    let mut read = 0;
    while read < keys.len() {
        let end = keys.len().min(read + how.step_items());
        let within = (call.context, snapshot.as_deref_mut());
        read += if read < first.len() {
            read_some(&first[read..], how, within, call.output)
        } else {
            let next = how.keys(&keys[read..end], call.cache())?;
            read_some(&next, how, within, call.output)
        };
        call.check_reply(start)?;
        if !call.session.answers_whole && read < keys.len() {
            return read_rest(call, how.clone(), &keys[read..]);
        }
    }
    DONE
}

/// How keys are read.
#[derive(Clone, Debug)]
struct MgetHow {
    space: Space,
    proto: Proto,
    /// The client that is notified when they change.
    reader: Option<Arc<Client>>,
}

impl MgetHow {
    /// How many keys a step reads.
    fn step_items(&self) -> usize {
        match self.reader {
            Some(_) => TRACKED_STEP_ITEMS,
            None => STEP_ITEMS,
        }
    }

    /// Some keys, hashed.
    fn keys<'a>(&self, keys: &[&'a [u8]], cache: &Cache) -> Result<Vec<Key<'a>>, Failure> {
        let mut hashed = Vec::with_capacity(keys.len());
        for key in keys {
            hashed.push(cache.key_in(self.space, key)?);
        }
        Ok(hashed)
    }
}

/// Answers the rest of an MGET in further steps.
fn read_rest(call: &Call<'_>, how: MgetHow, keys: &[&[u8]]) -> Outcome {
    let rest = MgetRest {
        keys: Arguments::of(keys),
        answered: 0,
        how,
        is_silent: call.session.reply_mode != ReplyMode::On,
    };
    Ok(Flow::Unfinished(Box::new(rest)))
}

/// The keys of an MGET that is not answered whole yet.
#[derive(Debug)]
struct MgetRest {
    keys: Arguments,
    /// How many of them are answered.
    answered: usize,
    how: MgetHow,
    is_silent: bool,
}

impl Unfinished for MgetRest {
    fn resume(mut self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        let start = output.bytes().len();
        let end = self.keys.len().min(self.answered + self.how.step_items());
        let keys: Vec<&[u8]> = (self.answered..end)
            .map(|place| self.keys.get(place))
            .collect();
        // A key that is too long ended the command before the first piece.
        self.answered += match self.how.keys(&keys, context.cache()) {
            Ok(keys) => read_some(&keys, &self.how, (context, None), output),
            Err(_) => keys.len(),
        };
        if self.is_silent {
            output.truncate(start);
        }
        if self.answered == self.keys.len() {
            return Flow::Continue;
        }
        Flow::Unfinished(self)
    }

    fn waiting_bytes(&self) -> usize {
        self.keys.bytes()
    }
}

/// Reads keys until the answer is long enough for one step; returns how many keys.
fn read_some(
    keys: &[Key<'_>],
    how: &MgetHow,
    (context, mut snapshot): (Context<'_>, Option<&mut Snapshot<'_>>),
    output: &mut Output,
) -> usize {
    let (cache, observer) = (context.cache(), &context.state.observer);
    let (mut read, start) = (0, output.bytes().len());
    let mut answer = MgetAnswer {
        output,
        proto: how.proto,
        pinned_bytes: 0,
        misses: 0,
    };
    for group in keys.chunks(KEYS_TOGETHER_MAX) {
        // Before they are read, so that no change falls in between.
        if let Some(client) = &how.reader {
            for key in group {
                observer.tracking.remember(key.bytes(), client);
                observer.note_read(*key, cache);
            }
        }
        cache.append_many(group, snapshot.as_deref_mut(), &mut answer);
        read += group.len();
        let answered = answer.output.bytes().len() - start + answer.pinned_bytes;
        if answered >= ANSWER_BYTES_MAX {
            break;
        }
    }
    let counters = context.counters;
    counters.cmd_get.add(read as u64);
    counters.get_hits.add(read as u64 - answer.misses);
    counters.get_misses.add(answer.misses);
    read
}

/// The answer of an MGET, value by value.
struct MgetAnswer<'o> {
    output: &'o mut Output,
    proto: Proto,
    pinned_bytes: usize,
    misses: u64,
}

impl ValueSink for MgetAnswer<'_> {
    #[inline]
    fn bytes(&mut self) -> &mut Vec<u8> {
        self.output.bytes()
    }

    #[inline]
    fn begin(out: &mut Vec<u8>, value_bytes: usize) {
        Reply::new(out, Proto::V2).bulk_head(value_bytes);
    }

    #[inline]
    fn end(out: &mut Vec<u8>) {
        Reply::new(out, Proto::V2).crlf();
    }

    fn take_other(&mut self, item: Option<Item<'_>>) {
        let mut reply = Reply::new(self.output.bytes(), self.proto);
        // Values that are not strings are null, too.
        let Some(item) = item.filter(|item| item.kind == Kind::STRING) else {
            self.misses += 1;
            return reply.null();
        };
        let value_bytes = item.value.len();
        let pinned = append_value(&mut reply, item);
        if pinned.is_some() {
            self.pinned_bytes += value_bytes;
        }
        self.output.push_line(pinned);
    }
}

/// The keys and values of MSET and its relatives.
struct Pairs<'a> {
    pairs: Vec<(Key<'a>, &'a [u8])>,
}

impl<'a> Pairs<'a> {
    /// Pairs of which every one can be stored.
    fn of(call: &Call<'a>, args: &[&'a [u8]]) -> Result<Pairs<'a>, Failure> {
        let (cache, space) = (call.cache(), call.space());
        let max = cache.value_bytes_max();
        let mut pairs = Vec::with_capacity(args.len() / 2);
        for pair in args.chunks_exact(2) {
            if pair[1].len() > max {
                return Err(Failure::TooLong);
            }
            pairs.push((cache.key_in(space, pair[0])?, pair[1]));
        }
        Ok(Pairs { pairs })
    }

    /// Stores all if the condition holds for all; whether it did.
    fn store(&self, call: &mut Call<'_>, options: &StoreOptions<'_>) -> Result<bool, Failure> {
        call.foresee(&self.pairs)?;
        if let [pair] = self.pairs[..] {
            return store_all(call, &[pair], options);
        }
        call.as_step(|call| store_all(call, &self.pairs, options))
    }
}

fn store_all(
    call: &mut Call<'_>,
    pairs: &[(Key<'_>, &[u8])],
    options: &StoreOptions<'_>,
) -> Result<bool, Failure> {
    let cache = call.cache();
    let exists = |key| cache.facts(key, |_| ()).is_some();
    let holds = match options.when {
        Condition::Absent => !pairs.iter().any(|(key, _)| exists(*key)),
        Condition::Present => pairs.iter().all(|(key, _)| exists(*key)),
        _ => true,
    };
    if !holds {
        return Ok(false);
    }
    let mut replaced = Vec::new();
    for (stored, &(key, value)) in pairs.iter().enumerate() {
        call.context.counters.cmd_set.add(1);
        replaced.extend(
            call.context
                .replaced_by_store(key)
                .map(|kind| (stored, kind)),
        );
        let old = match options.keeps_deadline {
            true => deadline_of(call, key)?,
            false => None,
        };
        let set = SetOptions {
            deadline: options.deadline_after(old, call.default_deadline()),
            ..SetOptions::default()
        };
        if let Err(error) = call.set(key, value, &set) {
            // None of the keys existed, so removing those stored restores the state.
            if matches!(options.when, Condition::Absent) {
                take_back(call, &pairs[..stored])?;
            }
            return Err(error);
        }
    }
    let mut replaced = replaced.into_iter().peekable();
    for (stored, (key, _)) in pairs.iter().enumerate() {
        let kind = replaced.next_if(|(place, _)| *place == stored);
        let kind = kind.map(|(_, kind)| kind);
        notify_set(call, *key, kind, options.deadline.is_some());
    }
    Ok(true)
}

fn take_back(call: &Call<'_>, pairs: &[(Key<'_>, &[u8])]) -> Result<(), Failure> {
    for (key, _) in pairs {
        call.cache().delete(*key, &DeleteOptions::default())?;
    }
    Ok(())
}

/// The options of a store without any, on this condition.
fn plain(when: Condition<'static>) -> StoreOptions<'static> {
    StoreOptions {
        when,
        get: false,
        deadline: None,
        keeps_deadline: false,
    }
}

pub(in crate::resp) fn mset(call: &mut Call<'_>) -> Outcome {
    if call.args.len().is_multiple_of(2) {
        return Err(Failure::text(
            "ERR wrong number of arguments for 'mset' command",
        ));
    }
    let pairs = Pairs::of(call, &call.args[1..])?;
    pairs.store(call, &plain(Condition::Always))?;
    call.ok()
}

pub(in crate::resp) fn msetnx(call: &mut Call<'_>) -> Outcome {
    if call.args.len().is_multiple_of(2) {
        return Err(Failure::text(
            "ERR wrong number of arguments for 'msetnx' command",
        ));
    }
    let pairs = Pairs::of(call, &call.args[1..])?;
    let is_stored = pairs.store(call, &plain(Condition::Absent))?;
    call.integer(i64::from(is_stored))
}

/// MSETEX numkeys key value [key value ...] [NX | XX] [EX .. | KEEPTTL].
pub(in crate::resp) fn msetex(call: &mut Call<'_>) -> Outcome {
    let count = parse_integer(call.args[1]).filter(|count| *count > 0);
    let count = count.and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or(Failure::text("ERR invalid numkeys value"))?;
    let args = &call.args[2..];
    if count > args.len() / 2 {
        return Err(Failure::text("ERR wrong number of key-value pairs"));
    }
    let (pairs, options) = args.split_at(2 * count);
    let options = StoreOptions::parse(options, "msetex", call.context)?;
    let is_plain = matches!(
        options.when,
        Condition::Always | Condition::Absent | Condition::Present
    );
    if options.get || !is_plain {
        return Err(Failure::Syntax);
    }
    let pairs = Pairs::of(call, pairs)?;
    let is_stored = pairs.store(call, &options)?;
    call.integer(i64::from(is_stored))
}

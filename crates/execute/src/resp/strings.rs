//! Strings: GET and SET; the group's other commands in children.
//!
//! Source: redis.io/docs/latest/commands/set; `IFEQ` and the like: valkey.io/commands/set.

pub(super) mod values;
pub(super) mod digest;
pub(super) mod options; // what SET's options mean, what all string commands share
pub(super) mod windows; // the parts of a string that a command changes
pub(super) mod bits;
pub(super) mod ranges;
pub(super) mod numbers;
pub(super) mod increx;
pub(super) mod lcs;
pub(super) mod leases; // leases for clients of Redis's protocol
pub(super) mod getex;
pub(super) mod setex;
pub(super) mod mset;
pub(super) mod bit_counts;
pub(super) mod bit_operations;
pub(super) mod bit_fields;
pub(super) mod hyperloglog;

use cellar_engine::{Change, Draft, Handle, Key, Kind, SetOptions, Stored};
use cellar_net::output::Output;
use cellar_protocol::resp::command::find;
use cellar_protocol::resp::{Proto, Reply, Verb};
use cellar_shared::keyspace::kind::own_deadline;
use cellar_shared::observe::command_log::shortened;
use cellar_system::clock::Stopwatch;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;

use self::options::StoreOptions;
use self::values::{answer_value, append_value, notify_set, store_until, update};
use super::call::timing::{self, Spent};
use super::failed;
use super::session::Session;
use crate::context::Context;

/// GET.
pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    read(
        call.first_key()?,
        call.session.proto,
        call.context,
        call.output,
    )
}

/// Appends the string of a key, or null.
#[inline(always)]
pub(super) fn read(
    key: Key<'_>,
    proto: Proto,
    context: Context<'_>,
    output: &mut Output,
) -> Outcome {
    if read_short(key, proto, &context, output) {
        return DONE;
    }
    read_any(key, proto, context, output)
}

/// Appends the string of a key if it is short and can be read without a lock; whether it was.
#[inline(always)]
pub(super) fn read_short(
    key: Key<'_>,
    proto: Proto,
    context: &Context<'_>,
    output: &mut Output,
) -> bool {
    let out = output.bytes();
    // Such an item is a string.
    let begin = |out: &mut Vec<u8>, bytes, _| Reply::new(out, proto).bulk_head(bytes);
    if !context.cache().append_copied(key, out, begin) {
        return false;
    }
    Reply::new(out, proto).crlf();
    context.counters.cmd_get.add(1);
    context.counters.get_hits.add(1);
    true
}

/// Appends the string of a key, or null, whatever it is.
#[inline(never)]
pub(super) fn read_any(
    key: Key<'_>,
    proto: Proto,
    context: Context<'_>,
    output: &mut Output,
) -> Outcome {
    let counters = context.counters;
    let mut reply = Reply::new(output.bytes(), proto);
    counters.cmd_get.add(1);
    let found = context.cache().get(key, |item| {
        (item.kind == Kind::STRING).then(|| append_value(&mut reply, item))
    });
    match found {
        Some(Some(pinned)) => {
            counters.get_hits.add(1);
            output.push_line(pinned);
        }
        Some(None) => return Err(Failure::WrongType),
        None => {
            counters.get_misses.add(1);
            reply.null();
        }
    }
    DONE
}

/// SET.
#[inline]
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.first_key()?, call.args[2]);
    call.context.counters.cmd_set.add(1);
    let default = call.default_deadline();
    if call.args.len() == 3 {
        let options = SetOptions {
            deadline: default,
            ..SetOptions::default()
        };
        let replaced = call.context.replaced_by_store(key);
        call.set(key, value, &options)?;
        notify_set(call, key, replaced, false);
        return call.ok();
    }
    let options = StoreOptions::parse(&call.args[3..], "set", call.context)?;
    let replaced = call.context.replaced_by_store(key);
    if let Some(simple) = options.for_store(default) {
        let stored = call.set(key, value, &simple)?;
        return answer_stored(call, key, &options, (stored, replaced));
    }
    let (is_stored, old_value) = update(call, key, |old, scratch| {
        let old_value = options.old_value(old)?;
        if !options.when.holds(old)? {
            return Ok(((false, old_value), Change::Keep));
        }
        scratch.extend_from_slice(value);
        let deadline = options.deadline_after(old.map(own_deadline), default);
        Ok(((true, old_value), store_until(deadline)))
    })?;
    answer_old(call, key, &options, (is_stored, replaced), old_value)
}

fn answer_stored(
    call: &mut Call<'_>,
    key: Key<'_>,
    options: &StoreOptions<'_>,
    (stored, replaced): (Stored, Option<Kind>),
) -> Outcome {
    let is_stored = matches!(stored, Stored::Done { .. });
    answer_old(call, key, options, (is_stored, replaced), None)
}

/// Answers SET: with the old value if requested, else with whether it stored; publishes which kind
/// of value it replaced.
fn answer_old(
    call: &mut Call<'_>,
    key: Key<'_>,
    options: &StoreOptions<'_>,
    (is_stored, replaced): (bool, Option<Kind>),
    old_value: Option<Handle>,
) -> Outcome {
    if is_stored {
        notify_set(call, key, replaced, options.deadline.is_some());
    }
    if options.get {
        return answer_value(call, old_value);
    }
    if is_stored {
        call.reply().ok();
    } else {
        call.reply().null();
    }
    DONE
}

/// SET with a value that was received into the engine's memory.
pub(super) fn set_draft(
    key: &[u8],
    draft: Draft,
    args: &[&[u8]],
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) {
    context.counters.cmd_set.add(1);
    context.counters.calls.add(Verb::Set);
    let value_bytes = draft.value_bytes();
    let start = output.bytes().len();
    let before = timing::reply_bytes(output);
    let command = find(b"set").expect("SET is in the table");
    let mut call = Call {
        command,
        args,
        key: None,
        session,
        context,
        output,
    };
    let stopwatch = Stopwatch::start();
    let outcome = set_received(&mut call, key, draft);
    let ns = stopwatch.ns();
    if let Err(failure) = outcome {
        output.truncate(start);
        failed(Verb::Set, &failure, session.proto, context, output);
    }
    let client = &session.client;
    // The value is not at hand any more.
    let shown = [&[&b"SET"[..], key, b"..."], args].concat();
    timing::show(command, &shown, session, context);
    let lengths = (0..shown.len()).map(|place| match place {
        2 => value_bytes,
        _ => shown[place].len(),
    });
    let spent = Spent {
        ns,
        request_bytes: Some(timing::frame_bytes(lengths)),
        reply_bytes: timing::reply_bytes(output).saturating_sub(before),
    };
    timing::note(command, client, spent, context, || shortened(&shown));
}

/// SET whose arguments are only its options.
fn set_received(call: &mut Call<'_>, key: &[u8], draft: Draft) -> Outcome {
    let key = call.cache().key_in(call.space(), key)?;
    let options = StoreOptions::parse(call.args, "set", call.context)?;
    let default = call.default_deadline();
    let replaced = call.context.replaced_by_store(key);
    if let Some(simple) = options.for_store(default) {
        let stored = call.cache().commit(draft, &simple)?;
        return answer_stored(call, key, &options, (stored, replaced));
    }
    call.as_step_on(&[key], |call| {
        let (holds, old_value, deadline) = update(call, key, |old, _| {
            let seen = (options.when.holds(old)?, options.old_value(old)?);
            let deadline = options.deadline_after(old.map(own_deadline), default);
            Ok(((seen.0, seen.1, deadline), Change::Keep))
        })?;
        if holds {
            let simple = SetOptions {
                deadline,
                ..SetOptions::default()
            };
            call.cache().commit(draft, &simple)?;
        }
        answer_old(call, key, &options, (holds, replaced), old_value)
    })
}

//! Strings: GET and SET.
//!
//! Source: redis.io/docs/latest/commands/set; `IFEQ` and the like: valkey.io/commands/set.

use cellar_engine::{Change, Deadline, Draft, Handle, Item, Key, Kind, SetOptions, Stored, When};
use cellar_protocol::resp::{Reply, Verb};

use super::call::{Call, DONE, Outcome};
use super::expiry::Unit;
use super::failure::Failure;
use super::handlers::{Handler, unknown};
use super::session::Session;
use crate::execute::context::Context;
use crate::output::{Output, PINNED_VALUE_BYTES_MIN};

/// The function that runs a command of this group.
pub(super) fn handler(verb: Verb) -> Handler {
    match verb {
        Verb::Get => get,
        Verb::Set => set,
        _ => unknown,
    }
}

/// Appends a bulk string of the item's value, or its head and a handle on a large value, to be
/// handed to [`finish_value`].
#[inline]
fn append_value(reply: &mut Reply<'_>, item: Item<'_>) -> Option<Handle> {
    if item.value.len() >= PINNED_VALUE_BYTES_MIN {
        reply.bulk_head(item.value.len());
        return Some(item.pin());
    }
    reply.bulk(item.value);
    None
}

/// Adds a pinned value with its line end.
#[inline]
fn finish_value(pinned: Option<Handle>, output: &mut Output) {
    if let Some(value) = pinned {
        output.push_value(value);
        output.bytes().extend_from_slice(b"\r\n");
    }
}

/// GET.
#[inline]
pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let counters = call.context.counters;
    let (key, cache) = (call.first_key()?, call.cache());
    let mut reply = call.reply();
    counters.cmd_get.add(1);
    let found = cache.get(key, |item| {
        (item.kind == Kind::STRING).then(|| append_value(&mut reply, item))
    });
    match found {
        Some(Some(pinned)) => {
            counters.get_hits.add(1);
            finish_value(pinned, call.output);
        }
        Some(None) => return Err(Failure::WrongType),
        None => {
            counters.get_misses.add(1);
            reply.null();
        }
    }
    DONE
}

/// What stands behind the value of SET.
#[derive(Clone, Debug)]
struct Options<'a> {
    when: Condition<'a>,
    /// Whether the old value is the answer.
    get: bool,
    deadline: Option<Deadline>,
    keeps_deadline: bool,
}

/// When SET stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition<'a> {
    Always,
    Absent,
    Present,
    /// The old value is this one: IFEQ.
    Equal(&'a [u8]),
    /// There is no old value, or another one: IFNE.
    Unequal(&'a [u8]),
    /// The item has this version: CAS.
    Version(u64),
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]], context: Context<'_>) -> Result<Options<'a>, Failure> {
        let mut options = Options {
            when: Condition::Always,
            get: false,
            deadline: None,
            keeps_deadline: false,
        };
        let mut args = args.iter();
        while let Some(&name) = args.next() {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            if is("GET") {
                options.get = true;
            } else if is("KEEPTTL") && options.deadline.is_none() {
                options.keeps_deadline = true;
            } else if let Some(unit) = Unit::of_option(name) {
                let &number = args.next().ok_or(Failure::Syntax)?;
                if options.deadline.is_some() || options.keeps_deadline {
                    return Err(Failure::Syntax);
                }
                options.deadline = Some(unit.option_deadline(number, "set", context)?);
            } else if options.when != Condition::Always {
                return Err(Failure::Syntax);
            } else if is("NX") {
                options.when = Condition::Absent;
            } else if is("XX") {
                options.when = Condition::Present;
            } else {
                let &operand = args.next().ok_or(Failure::Syntax)?;
                options.when = Condition::parse(name, operand)?;
            }
        }
        Ok(options)
    }

    /// The same for the engine's own store, if that can do it.
    fn for_store(&self) -> Option<SetOptions> {
        let when = match self.when {
            Condition::Always => When::Always,
            Condition::Absent => When::Absent,
            Condition::Present => When::Present,
            Condition::Version(version) => When::Version(version),
            Condition::Equal(_) | Condition::Unequal(_) => return None,
        };
        let is_plain = !self.get && !self.keeps_deadline;
        is_plain.then(|| SetOptions {
            when,
            deadline: self.deadline.unwrap_or(Deadline::NEVER),
            ..SetOptions::default()
        })
    }
}

impl<'a> Condition<'a> {
    fn parse(name: &[u8], operand: &'a [u8]) -> Result<Condition<'a>, Failure> {
        if name.eq_ignore_ascii_case(b"IFEQ") {
            return Ok(Condition::Equal(operand));
        }
        if name.eq_ignore_ascii_case(b"IFNE") {
            return Ok(Condition::Unequal(operand));
        }
        if !name.eq_ignore_ascii_case(b"CAS") {
            return Err(Failure::Syntax);
        }
        let version = std::str::from_utf8(operand).ok();
        let version = version.and_then(|text| text.parse().ok());
        version.map(Condition::Version).ok_or(Failure::NotInteger)
    }

    /// Whether the condition holds for the old item; a comparison needs a string.
    fn holds(self, old: Option<Item<'_>>) -> Result<bool, Failure> {
        let is_string = old.is_none_or(|item| item.kind == Kind::STRING);
        Ok(match self {
            Condition::Always => true,
            Condition::Absent => old.is_none(),
            Condition::Present => old.is_some(),
            _ if !is_string => return Err(Failure::WrongType),
            Condition::Equal(value) => old.is_some_and(|item| item.value == value),
            Condition::Unequal(value) => old.is_none_or(|item| item.value != value),
            Condition::Version(_) => unreachable!("versions are compared by the engine's store"),
        })
    }
}

/// SET.
#[inline]
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.first_key()?, call.args[2]);
    call.context.counters.cmd_set.add(1);
    if call.args.len() == 3 {
        call.cache().set(key, value, &SetOptions::default())?;
        return call.ok();
    }
    let options = Options::parse(&call.args[3..], call.context)?;
    if let Some(simple) = options.for_store() {
        let stored = call.cache().set(key, value, &simple)?;
        return answer_stored(call, stored);
    }
    set_by_old(call, key, value, &options)
}

fn answer_stored(call: &mut Call<'_>, stored: Stored) -> Outcome {
    match stored {
        Stored::Done { .. } => call.reply().ok(),
        Stored::NotStored | Stored::Exists | Stored::NotFound => call.reply().null(),
    }
    DONE
}

/// SET where what happens, or the answer, depends on the old value.
fn set_by_old(call: &mut Call<'_>, key: Key<'_>, value: &[u8], options: &Options<'_>) -> Outcome {
    if matches!(options.when, Condition::Version(_)) {
        return Err(Failure::Syntax);
    }
    let mut scratch = Vec::new();
    let outcome = call.cache().update(key, &mut scratch, |old, scratch| {
        let old_value = match old {
            Some(item) if options.get && item.kind != Kind::STRING => {
                return (Err(Failure::WrongType), Change::Keep);
            }
            Some(item) if options.get => Some(item.pin()),
            _ => None,
        };
        match options.when.holds(old) {
            Ok(true) => {}
            Ok(false) => return (Ok((false, old_value)), Change::Keep),
            Err(failure) => return (Err(failure), Change::Keep),
        }
        let kept = old.map(|item| item.deadline);
        let kept = kept.filter(|_| options.keeps_deadline);
        scratch.extend_from_slice(value);
        let change = Change::Store {
            kind: Kind::STRING,
            deadline: options.deadline.or(kept).unwrap_or(Deadline::NEVER),
            flags: 0,
        };
        (Ok((true, old_value)), change)
    })?;
    let (is_stored, old_value) = outcome?;
    match (options.get, old_value) {
        (true, Some(old)) => {
            call.reply().bulk_head(old.len());
            finish_value(Some(old), call.output);
        }
        (true, None) => call.reply().null(),
        (false, _) if is_stored => call.reply().ok(),
        (false, _) => call.reply().null(),
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
    let outcome = Options::parse(args, context).and_then(|options| match options.for_store() {
        Some(simple) => Ok(context.cache().commit(draft, &simple)?),
        None => set_draft_by_old(key, draft, &options, session, context),
    });
    let mut reply = Reply::new(output.bytes(), session.proto);
    match outcome {
        Ok(Stored::Done { .. }) => reply.ok(),
        Ok(_) => reply.null(),
        Err(failure) => reply.error(failure.line().as_bytes()),
    }
}

/// As [`set_by_old`], for a large value and without the old one as the answer.
fn set_draft_by_old(
    key: &[u8],
    draft: Draft,
    options: &Options<'_>,
    session: &Session,
    context: Context<'_>,
) -> Result<Stored, Failure> {
    if options.get {
        return Err(Failure::text(
            "ERR SET with GET takes no value of this size",
        ));
    }
    let cache = context.cache();
    let key = cache.key_in(session.space(context.state), key)?;
    context.pass.alone(|| {
        let old = cache.get(key, |item| (options.when.holds(Some(item)), item.deadline));
        let (holds, kept) = match old {
            Some((holds, deadline)) => (holds?, Some(deadline)),
            None => (options.when.holds(None)?, None),
        };
        if !holds {
            return Ok(Stored::NotStored);
        }
        let kept = kept.filter(|_| options.keeps_deadline);
        let deadline = options.deadline.or(kept).unwrap_or(Deadline::NEVER);
        let simple = SetOptions {
            deadline,
            ..SetOptions::default()
        };
        Ok(cache.commit(draft, &simple)?)
    })
}

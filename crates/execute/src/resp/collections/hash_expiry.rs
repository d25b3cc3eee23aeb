//! Hash expiry: the deadlines of a hash's fields.
//!
//! HEXPIRE, HGETEX, HSETEX and their like take FIELDS and their options in any order, see
//! field_options.rs; the others have FIELDS in its place.
//!
//! Source: Redis 7.4 for HTTL and its like, Redis 8 for the others:
//! redis.io/docs/latest/commands, group "hash".

use cellar_engine::{Deadline, Instant, Kind};
use cellar_protocol::resp::Verb;
use cellar_shared::keyspace::kind;
use smallvec::SmallVec;

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::collections::field_options::{
    DeadlineCondition, FieldOptions, Time, condition_and_fields, deadline_in, names_only,
};
use crate::resp::collections::fields::{append_field, first_hash, notify_removed};
use crate::resp::expiry::Unit;
use crate::resp::failure::Failure;
use cellar_values::{Expiring, Hash, Hashes};

/// There is no such field.
const NO_FIELD: i64 = -2;
/// The field has no deadline.
const NO_DEADLINE: i64 = -1;
/// The condition was not met.
const NOT_MET: i64 = 0;
/// Done.
pub(super) const CHANGED: i64 = 1;
/// The time has passed, so the field was removed.
pub(super) const REMOVED: i64 = 2;

/// The new deadline for HEXPIRE, SEXPIRE and their like.
fn deadline(call: &Call<'_>) -> Result<Deadline, Failure> {
    let unit = match call.command.verb {
        Verb::Hexpire | Verb::Sexpire => Unit::Ex,
        Verb::Hpexpire | Verb::Spexpire => Unit::Px,
        Verb::Hexpireat | Verb::Sexpireat => Unit::ExAt,
        _ => Unit::PxAt,
    };
    deadline_in(call, call.args[2], unit, call.command.name)
}

/// A new deadline, and for which parts it is meant.
type Change = (DeadlineCondition, Deadline);

/// What HEXPIRE, SEXPIRE and their like change, and the names of the parts.
pub(super) fn retiming<'a>(call: &Call<'a>) -> Result<(Change, &'a [&'a [u8]]), Failure> {
    let deadline = deadline(call)?;
    let (condition, names) = condition_and_fields(call)?;
    Ok(((condition, deadline), names))
}

/// What was read of the arguments. The kind of value is complained of before them; one who changes
/// the value looks at it anyway.
pub(super) fn kind_first<T>(
    call: &Call<'_>,
    kind: Kind,
    read: Result<T, Failure>,
) -> Result<T, Failure> {
    if read.is_err() {
        call.value(call.first_key()?, kind)?;
    }
    read
}

/// What HTTL, STTL and their like answer of a field with this deadline.
fn time_of(call: &Call<'_>, deadline: Deadline) -> i64 {
    let Some(at) = deadline.instant() else {
        return NO_DEADLINE;
    };
    let (left, unix) = (at.0.saturating_sub(call.now().0), call.unix_ms(at));
    let time = match call.command.verb {
        Verb::Httl | Verb::Sttl => left.div_ceil(1_000),
        Verb::Hpttl | Verb::Spttl => left,
        Verb::Hexpiretime | Verb::Sexpiretime => unix.div_ceil(1_000),
        _ => unix,
    };
    i64::try_from(time).unwrap_or(i64::MAX)
}

/// What HTTL, STTL and their like answer of each of some parts. Without a collection, none exists.
pub(super) fn times_of(
    call: &Call<'_>,
    collection: Option<&impl Expiring>,
    names: &[&[u8]],
) -> Vec<i64> {
    let of_name = |name: &&[u8]| Some(time_of(call, collection?.deadline(name)?));
    let times = names.iter().map(|name| of_name(name).unwrap_or(NO_FIELD));
    times.collect()
}

/// Gives each of some parts a new deadline, where the condition holds; what was done with each.
///
/// A part is removed where the new deadline has passed.
pub(super) fn retime_each(
    collection: &mut impl Expiring,
    names: &[&[u8]],
    (condition, deadline): Change,
    now: Instant,
) -> Vec<i64> {
    let retime = |name: &&[u8]| match collection.deadline(name) {
        None => NO_FIELD,
        Some(old) if !condition.holds(old, deadline) => NOT_MET,
        Some(_) if deadline.has_passed(now) => {
            collection.remove(name);
            REMOVED
        }
        Some(_) => {
            collection.retime(name, deadline);
            CHANGED
        }
    };
    names.iter().map(retime).collect()
}

/// Takes the deadline from each of some parts; what was done with each.
pub(super) fn persist_each(collection: &mut impl Expiring, names: &[&[u8]]) -> Vec<i64> {
    let persist = |name: &&[u8]| match collection.deadline(name) {
        None => NO_FIELD,
        Some(Deadline::NEVER) => NO_DEADLINE,
        Some(_) => {
            collection.retime(name, Deadline::NEVER);
            CHANGED
        }
    };
    names.iter().map(persist).collect()
}

/// Answers each of some fields with an integer.
pub(super) fn answer_each(call: &mut Call<'_>, answers: &[i64]) -> Outcome {
    let mut reply = call.reply();
    reply.array(answers.len());
    for &answer in answers {
        reply.integer(answer);
    }
    DONE
}

/// HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT.
pub(in crate::resp) fn hexpire(call: &mut Call<'_>) -> Outcome {
    let (change, names) = kind_first(call, kind::HASH, retiming(call))?;
    let now = call.now();
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        Ok(retime_each(hash, names, change, now))
    })?;
    let answers = edited.answer;
    let answered = |answer| {
        let each = names.iter().zip(&answers);
        each.filter(move |(_, other)| **other == answer)
            .map(|(name, _)| *name)
    };
    if answers.contains(&CHANGED) {
        call.notify_fields("hexpire", answered(CHANGED));
    }
    notify_removed(call, answered(REMOVED), edited.is_gone);
    answer_each(call, &answers)
}

/// HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME.
pub(in crate::resp) fn httl(call: &mut Call<'_>) -> Outcome {
    let value = first_hash(call)?;
    let names = names_only(call)?;
    let now = call.now();
    let hash = value.as_ref().map(|value| Hash::view(value, now));
    let answers = times_of(call, hash.as_ref(), names);
    answer_each(call, &answers)
}

pub(in crate::resp) fn hpersist(call: &mut Call<'_>) -> Outcome {
    let names = kind_first(call, kind::HASH, names_only(call))?;
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| Ok(persist_each(hash, names)))?;
    if edited.is_changed {
        let each = names.iter().zip(&edited.answer);
        let persisted = each.filter(|(_, answer)| **answer == CHANGED);
        call.notify_fields("hpersist", persisted.map(|(name, _)| *name));
    }
    answer_each(call, &edited.answer)
}

pub(in crate::resp) fn hgetex(call: &mut Call<'_>) -> Outcome {
    let options = FieldOptions::parse(call, "PERSIST", "hgetex")?;
    let names = options.named;
    let now = call.now();
    if options.time == Time::Unsaid {
        let value = first_hash(call)?;
        let hash = value.as_ref().map(|value| Hash::view(value, now));
        call.reply().array(names.len());
        for name in names {
            let field = hash.as_ref().and_then(|hash| hash.get(name));
            append_field(&mut call.reply(), field);
        }
        return DONE;
    }
    let deadline = match options.time {
        Time::At(deadline) => deadline,
        _ => Deadline::NEVER,
    };
    let (is_over, is_persist) = (deadline.has_passed(now), deadline == Deadline::NEVER);
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let mut touched: SmallVec<[&[u8]; 4]> = SmallVec::new();
        let values = names.iter().map(|name| {
            let field = hash.get(name)?;
            let (value, old) = (field.value.into_owned(), field.deadline);
            if is_over {
                hash.remove(name);
            } else {
                hash.retime(name, deadline);
            }
            if !is_persist || old != Deadline::NEVER {
                touched.push(name);
            }
            Some(value)
        });
        let values: Vec<_> = values.collect();
        Ok((values, touched))
    })?;
    let (values, touched) = edited.answer;
    let touched = touched.iter().copied();
    if is_over {
        notify_removed(call, touched, edited.is_gone);
    } else if edited.is_changed {
        let event = if is_persist { "hpersist" } else { "hexpire" };
        call.notify_fields(event, touched);
    }
    answer_values(call, &values)
}

pub(in crate::resp) fn hgetdel(call: &mut Call<'_>) -> Outcome {
    let names = names_only(call)?;
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let values = names.iter().map(|name| {
            let value = hash.get(name).map(|field| field.value.to_vec());
            hash.remove(name);
            value
        });
        Ok(values.collect::<Vec<_>>())
    })?;
    let each = names.iter().zip(&edited.answer);
    let removed = each.filter(|(_, value)| value.is_some());
    notify_removed(call, removed.map(|(name, _)| *name), edited.is_gone);
    answer_values(call, &edited.answer)
}

fn answer_values(call: &mut Call<'_>, values: &[Option<Vec<u8>>]) -> Outcome {
    let mut reply = call.reply();
    reply.array(values.len());
    for value in values {
        match value {
            Some(value) => reply.bulk(value),
            None => reply.null(),
        }
    }
    DONE
}

pub(in crate::resp) fn hsetex(call: &mut Call<'_>) -> Outcome {
    let options = FieldOptions::parse(call, "KEEPTTL", "hsetex")?;
    let pairs = options.named;
    let (now, longest) = (call.now(), call.longest());
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let pairs = pairs.chunks_exact(2);
        let has = |name: &[u8]| hash.get(name).is_some();
        if !options.hold(hash.is_empty(), has, pairs.clone().map(|pair| pair[0])) {
            return Ok((false, false));
        }
        for pair in pairs {
            let (name, value) = (pair[0], pair[1]);
            let old = hash.get(name).map(|field| field.deadline);
            let deadline = match options.time {
                Time::Unsaid => Deadline::NEVER,
                Time::At(deadline) => deadline,
                Time::Word => old.unwrap_or(Deadline::NEVER),
            };
            longest.check(name.len().max(value.len()))?;
            if deadline.has_passed(now) {
                hash.remove(name);
            } else {
                hash.set(name, value, deadline);
            }
        }
        Ok((true, hash.is_empty()))
    })?;
    let (is_set, is_empty) = edited.answer;
    if is_set {
        // Of a time that has passed, too: there they were set and deleted.
        let names = pairs.chunks_exact(2).map(|pair| pair[0]);
        call.notify_fields("hset", names.clone());
        if let Time::At(deadline) = options.time {
            let is_over = deadline.has_passed(now);
            let event = if is_over { "hdel" } else { "hexpire" };
            call.notify_fields(event, names);
        }
    }
    if is_empty {
        call.notify(Class::Generic, "del", call.args[1]);
    }
    call.integer(is_set.into())
}

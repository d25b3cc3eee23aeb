//! Set expiry: the deadlines of a set's members.
//!
//! As those of a hash's fields (hash_expiry.rs), with MEMBERS in the place of FIELDS.
//!
//! Source: Redis 8.12: redis.io/docs/latest/commands, group "set".

use cellar_engine::Deadline;
use cellar_protocol::resp::number::parse_integer;
use cellar_values::{Set, Sets};

use crate::execute::resp::call::notify::Class;
use crate::execute::resp::call::{Call, Outcome};
use crate::execute::resp::collections::field_options::{FieldOptions, Time, condition_and_fields};
use crate::execute::resp::collections::hash_expiry::{
    CHANGED, NO_DEADLINE, NO_FIELD, NOT_MET, REMOVED, answer_each, deadline, time_of,
};
use crate::execute::resp::collections::sets::{first_set, notify_removed};
use crate::execute::resp::failure::Failure;

const NO_MEMBERS: Failure =
    Failure::text("ERR Mandatory argument MEMBERS is missing or not at the right position");

/// The members of a command that has nothing but MEMBERS, their number and them behind its key.
fn members<'a>(args: &'a [&'a [u8]]) -> Result<&'a [&'a [u8]], Failure> {
    let [_, _, word, number, members @ ..] = args else {
        return Err(NO_MEMBERS);
    };
    if !word.eq_ignore_ascii_case(b"MEMBERS") {
        return Err(NO_MEMBERS);
    }
    let number = parse_integer(number).and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|&number| number > 0).ok_or(Failure::text(
        "ERR Number of members must be a positive integer",
    ))?;
    if number != members.len() {
        return Err(Failure::text(
            "ERR The `nummembers` parameter must match the number of arguments",
        ));
    }
    Ok(members)
}

/// SEXPIRE, SPEXPIRE, SEXPIREAT, SPEXPIREAT.
pub(in crate::execute::resp) fn sexpire(call: &mut Call<'_>) -> Outcome {
    // The kind of value is complained of before the arguments.
    first_set(call)?;
    let (deadline, now) = (deadline(call)?, call.now());
    let (condition, members) = condition_and_fields(call)?;
    let edited = call.edit::<Sets, _>(call.first_key()?, |set| {
        let retime = |member: &&[u8]| match set.deadline(member) {
            None => NO_FIELD,
            Some(old) if !condition.holds(old, deadline) => NOT_MET,
            Some(_) if deadline.has_passed(now) => {
                set.remove(member);
                REMOVED
            }
            Some(_) => {
                set.retime(member, deadline);
                CHANGED
            }
        };
        Ok(members.iter().map(retime).collect::<Vec<i64>>())
    })?;
    let answers = edited.answer;
    notify_removed(call, "srem", answers.contains(&REMOVED), false);
    if answers.contains(&CHANGED) {
        call.notify(Class::Set, "sexpire", call.args[1]);
    }
    notify_removed(call, "srem", false, edited.is_gone);
    answer_each(call, &answers)
}

/// STTL, SPTTL, SEXPIRETIME, SPEXPIRETIME.
pub(in crate::execute::resp) fn sttl(call: &mut Call<'_>) -> Outcome {
    let value = first_set(call)?;
    let members = members(call.args)?;
    let now = call.now();
    let set = value.as_ref().map(|value| Set::view(value, now));
    let of_member = |member: &&[u8]| Some(time_of(call, set.as_ref()?.deadline(member)?));
    let answers = members
        .iter()
        .map(|member| of_member(member).unwrap_or(NO_FIELD));
    let answers: Vec<i64> = answers.collect();
    answer_each(call, &answers)
}

pub(in crate::execute::resp) fn spersist(call: &mut Call<'_>) -> Outcome {
    first_set(call)?;
    let members = members(call.args)?;
    let edited = call.edit::<Sets, _>(call.first_key()?, |set| {
        let persist = |member: &&[u8]| match set.deadline(member) {
            None => NO_FIELD,
            Some(Deadline::NEVER) => NO_DEADLINE,
            Some(_) => {
                set.retime(member, Deadline::NEVER);
                CHANGED
            }
        };
        Ok(members.iter().map(persist).collect::<Vec<i64>>())
    })?;
    if edited.is_changed {
        call.notify(Class::Set, "spersist", call.args[1]);
    }
    answer_each(call, &edited.answer)
}

pub(in crate::execute::resp) fn saddex(call: &mut Call<'_>) -> Outcome {
    let options = FieldOptions::parse(call, "KEEPTTL", "saddex")?;
    let (members, now, longest) = (options.named, call.now(), call.longest());
    let is_over = matches!(options.time, Time::At(deadline) if deadline.has_passed(now));
    let edited = call.edit::<Sets, _>(call.first_key()?, |set| {
        let names = members.iter().copied();
        if !options.hold(set.is_empty(), |member| set.has(member), names) {
            return Ok(false);
        }
        for member in members {
            longest.check(member.len())?;
            match options.time {
                _ if is_over => _ = set.remove(member),
                Time::At(deadline) => set.put(member, deadline),
                Time::Unsaid => set.put(member, Deadline::NEVER),
                Time::Word => _ = set.add(member),
            }
        }
        Ok(true)
    })?;
    if edited.answer && is_over {
        notify_removed(call, "srem", edited.is_changed, edited.is_gone);
    } else if edited.answer {
        call.notify(Class::Set, "sadd", call.args[1]);
        if matches!(options.time, Time::At(_)) {
            call.notify(Class::Set, "sexpire", call.args[1]);
        }
    }
    call.integer(edited.answer.into())
}

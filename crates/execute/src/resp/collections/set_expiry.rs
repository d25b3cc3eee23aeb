//! Set expiry: the deadlines of a set's members.
//!
//! As those of a hash's fields (hash_expiry.rs), with MEMBERS in the place of FIELDS.
//!
//! Source: Redis 8.12: redis.io/docs/latest/commands, group "set".

use cellar_engine::Deadline;
use cellar_shared::keyspace::kind;
use cellar_values::{Set, Sets};

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, Outcome};
use crate::resp::collections::field_options::{FieldOptions, Time, names_only};
use crate::resp::collections::hash_expiry::{
    CHANGED, REMOVED, answer_each, kind_first, persist_each, retime_each, retiming, times_of,
};
use crate::resp::collections::sets::{first_set, notify_removed};

/// SEXPIRE, SPEXPIRE, SEXPIREAT, SPEXPIREAT.
pub(in crate::resp) fn sexpire(call: &mut Call<'_>) -> Outcome {
    let (change, members) = kind_first(call, kind::SET, retiming(call))?;
    let now = call.now();
    let edited = call.edit::<Sets, _>(call.first_key()?, |set| {
        Ok(retime_each(set, members, change, now))
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
pub(in crate::resp) fn sttl(call: &mut Call<'_>) -> Outcome {
    let value = first_set(call)?;
    let members = names_only(call)?;
    let now = call.now();
    let set = value.as_ref().map(|value| Set::view(value, now));
    let answers = times_of(call, set.as_ref(), members);
    answer_each(call, &answers)
}

pub(in crate::resp) fn spersist(call: &mut Call<'_>) -> Outcome {
    let members = kind_first(call, kind::SET, names_only(call))?;
    let edited = call.edit::<Sets, _>(call.first_key()?, |set| Ok(persist_each(set, members)))?;
    if edited.is_changed {
        call.notify(Class::Set, "spersist", call.args[1]);
    }
    answer_each(call, &edited.answer)
}

pub(in crate::resp) fn saddex(call: &mut Call<'_>) -> Outcome {
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

//! Sets: members without values.
//!
//! Source: redis.io/docs/latest/commands, group "set". Several sets at once: set_algebra.rs.
//! Deadlines of members: set_expiry.rs.

use cellar_engine::Handle;
use cellar_protocol::resp::Reply;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::keyspace::kind;

use crate::resp::arguments::Arguments;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;

use crate::resp::call::notify::Class;
use crate::resp::call::steps::{Progress, STEP_BYTES};
use crate::resp::collections::member_scan;
use cellar_values::{Member, Set, Sets};

/// The set of the first key.
pub(super) fn first_set(call: &Call<'_>) -> Result<Option<Handle>, Failure> {
    call.value(call.first_key()?, kind::SET)
}

pub(in crate::resp) fn sadd(call: &mut Call<'_>) -> Outcome {
    let members = &call.args[2..];
    let longest = call.longest();
    let edited = call.edit::<Sets, _>(call.first_key()?, |set| {
        let mut new = 0;
        for member in members {
            longest.check(member.len())?;
            if set.add(member) {
                new += 1;
            }
        }
        Ok(new)
    })?;
    if edited.is_changed {
        call.notify(Class::Set, "sadd", call.args[1]);
    }
    call.integer(edited.answer)
}

pub(in crate::resp) fn srem(call: &mut Call<'_>) -> Outcome {
    let members = &call.args[2..];
    let edited = call.edit::<Sets, _>(call.first_key()?, |set| {
        Ok(members.iter().filter(|member| set.remove(member)).count())
    })?;
    notify_removed(call, "srem", edited.is_changed, edited.is_gone);
    call.integer(edited.answer as i64)
}

/// Tells that members of the first key's set were removed, and perhaps the key.
pub(super) fn notify_removed(
    call: &mut Call<'_>,
    event: &'static str,
    is_less: bool,
    is_gone: bool,
) {
    if is_less {
        call.notify(Class::Set, event, call.args[1]);
    }
    if is_gone {
        call.notify(Class::Generic, "del", call.args[1]);
    }
}

pub(in crate::resp) fn smembers(call: &mut Call<'_>) -> Outcome {
    let Some(value) = first_set(call)? else {
        call.reply().set(0);
        return DONE;
    };
    let (now, proto, mut at) = (call.now(), call.session.proto, 0);
    call.reply().set(Set::view(&value, now).len());
    call.in_steps(move |_, output| {
        let mut reply = Reply::new(output.bytes(), proto);
        let full = reply.out.len() + STEP_BYTES;
        for (member, next) in Set::view(&value, now).iter_from(at) {
            reply.bulk(member);
            at = next;
            if reply.out.len() >= full {
                return Progress::More;
            }
        }
        Progress::Last
    })
}

pub(in crate::resp) fn sismember(call: &mut Call<'_>) -> Outcome {
    let value = first_set(call)?;
    let now = call.now();
    let has = value.is_some_and(|value| Set::view(&value, now).has(call.args[2]));
    call.integer(has.into())
}

pub(in crate::resp) fn smismember(call: &mut Call<'_>) -> Outcome {
    let value = first_set(call)?;
    let set = value.as_ref().map(|value| Set::view(value, call.now()));
    let members = &call.args[2..];
    let mut reply = call.reply();
    reply.array(members.len());
    for member in members {
        let has = set.as_ref().is_some_and(|set| set.has(member));
        reply.integer(has.into());
    }
    DONE
}

pub(in crate::resp) fn scard(call: &mut Call<'_>) -> Outcome {
    let value = first_set(call)?;
    let length = value.map_or(0, |value| Set::view(&value, call.now()).len());
    call.integer(length as i64)
}

pub(in crate::resp) fn spop(call: &mut Call<'_>) -> Outcome {
    let count = match call.args {
        [_, _] => None,
        [_, _, count] => Some(positive(count)?),
        _ => return Err(Failure::Syntax),
    };
    let edited = call.edit::<Sets, _>(call.first_key()?, |set| {
        let mut drawn = Arguments::default();
        if count.is_none_or(|count| count == 1) {
            let Some(member) = set.random().map(Member::into_owned) else {
                return Ok(drawn);
            };
            drawn.extend(&[&*member]);
            set.remove(&member);
            return Ok(drawn);
        }
        set.pop_some(count.unwrap_or(1), |member| drawn.extend(&[member]));
        Ok(drawn)
    })?;
    notify_removed(call, "spop", edited.is_changed, edited.is_gone);
    let (mut reply, members) = (call.reply(), edited.answer);
    match count {
        None if members.len() == 0 => reply.null(),
        None => reply.bulk(members.get(0)),
        Some(_) => {
            reply.set(members.len());
            return member_scan::answer_taken(call, members, |reply, _, member| {
                reply.bulk(member);
            });
        }
    }
    DONE
}

/// Reads a count that is not negative.
pub(in crate::resp) fn positive(count: &[u8]) -> Result<usize, Failure> {
    let count = parse_integer(count).and_then(|count| usize::try_from(count).ok());
    count.ok_or(Failure::text("ERR value is out of range, must be positive"))
}

pub(in crate::resp) fn srandmember(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 2 {
        let value = first_set(call)?;
        let set = value.as_ref().map(|value| Set::view(value, call.now()));
        match set.as_ref().and_then(|set| set.random()) {
            Some(member) => call.reply().bulk(member),
            None => call.reply().null(),
        }
        return DONE;
    }
    if call.args.len() > 3 {
        return Err(Failure::Syntax);
    }
    let count = member_scan::count(call.args[2], false)?;
    let value = first_set(call)?;
    let (now, proto) = (call.now(), call.session.proto);
    let set = value.as_ref().map(|value| Set::view(value, now));
    let places = member_scan::draw(set.as_ref().map_or(0, Set::len), count)?;
    member_scan::answer_drawn(call, places, 1, move |output, place| {
        let set = value.as_ref().map(|value| Set::view(value, now));
        if let Some(member) = set.as_ref().and_then(|set| set.nth(place)) {
            Reply::new(output.bytes(), proto).bulk(member);
        }
    })
}

pub(in crate::resp) fn smove(call: &mut Call<'_>) -> Outcome {
    let moved = call.as_step(|call| {
        let (from, to, member) = (call.key_at(1)?, call.key_at(2)?, call.args[3]);
        let now = call.now();
        let found = call.cache().get(from, |item| {
            let is_set = item.kind == kind::SET;
            is_set.then(|| Set::view(item.value, now).find(member))
        });
        let found = match found {
            None => return Ok(false),
            Some(None) => return Err(Failure::WrongType),
            Some(Some(None)) => return call.value(to, kind::SET).map(|_| false),
            Some(Some(Some(_))) if call.args[1] == call.args[2] => return Ok(true),
            Some(Some(Some(found))) => found,
        };
        // The target first: it may have no room for the member.
        let added = call.edit::<Sets, _>(to, |set| Ok(set.add(member)))?;
        call.session.preparation.note_begun();
        let removed = call.edit::<Sets, _>(from, |set| Ok(set.remove_found(member, found)))?;
        notify_removed(call, "srem", true, removed.is_gone);
        if added.answer {
            call.notify(Class::Set, "sadd", call.args[2]);
        }
        Ok::<bool, Failure>(true)
    })?;
    call.integer(moved.into())
}

pub(in crate::resp) fn sscan(call: &mut Call<'_>) -> Outcome {
    let now = call.now();
    member_scan::answer(call, kind::SET, |call, value, options| {
        let mut reply = call.reply();
        let mut shown = 0;
        let cursor = Set::view(value, now).scan(options.cursor, options.count, |member| {
            if options.wants(member) {
                reply.bulk(member);
                shown += 1;
            }
        });
        (cursor, shown)
    })
}

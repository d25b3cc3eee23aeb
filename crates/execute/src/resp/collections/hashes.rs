//! Hashes: fields with values.
//!
//! Source: redis.io/docs/latest/commands, group "hash". Deadlines of fields: hash_expiry.rs.

use cellar_engine::Deadline;
use cellar_protocol::resp::number::{Decimal, parse_float, parse_integer};
use cellar_protocol::resp::{Proto, Reply, Verb};
use cellar_shared::keyspace::kind;
use smallvec::SmallVec;

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::collections::fields::{append_field, first_hash, notify_removed};
use crate::resp::failure::Failure;

use crate::resp::call::steps::{Progress, STEP_BYTES};
use crate::resp::collections::member_scan;
use crate::resp::wrong_arity;
use cellar_values::{Hash, Hashes};

pub(in crate::resp) fn hset(call: &mut Call<'_>) -> Outcome {
    let pairs = &call.args[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity(call.command, call.args));
    }
    let longest = call.longest();
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let mut new = 0;
        for pair in pairs.chunks_exact(2) {
            longest.check(pair[0].len().max(pair[1].len()))?;
            new += i64::from(hash.set(pair[0], pair[1], Deadline::NEVER));
        }
        Ok(new)
    })?;
    call.notify_fields("hset", pairs.chunks_exact(2).map(|pair| pair[0]));
    if call.command.verb == Verb::Hmset {
        return call.ok();
    }
    call.integer(edited.answer)
}

pub(in crate::resp) fn hsetnx(call: &mut Call<'_>) -> Outcome {
    let (name, value, longest) = (call.args[2], call.args[3], call.longest());
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        if hash.get(name).is_some() {
            return Ok(false);
        }
        longest.check(name.len().max(value.len()))?;
        Ok(hash.set(name, value, Deadline::NEVER))
    })?;
    if edited.answer {
        call.notify_fields("hset", std::iter::once(name));
    }
    call.integer(edited.answer.into())
}

pub(in crate::resp) fn hget(call: &mut Call<'_>) -> Outcome {
    let (key, cache, now, name) = (call.first_key()?, call.cache(), call.now(), call.args[2]);
    let mut reply = call.reply();
    let found = cache.get(key, |item| {
        let is_hash = item.kind == kind::HASH;
        if is_hash {
            append_field(&mut reply, Hash::view(item.value, now).get(name));
        }
        is_hash
    });
    match found {
        Some(true) => {}
        Some(false) => return Err(Failure::WrongType),
        None => reply.null(),
    }
    DONE
}

pub(in crate::resp) fn hmget(call: &mut Call<'_>) -> Outcome {
    let value = first_hash(call)?;
    let hash = value.as_ref().map(|value| Hash::view(value, call.now()));
    let names = &call.args[2..];
    let start = call.output.bytes().len();
    call.reply().array(names.len());
    for name in names {
        let field = hash.as_ref().and_then(|hash| hash.get(name));
        append_field(&mut call.reply(), field);
        call.check_reply(start)?;
    }
    DONE
}

pub(in crate::resp) fn hgetall(call: &mut Call<'_>) -> Outcome {
    let verb = call.command.verb;
    let Some(value) = first_hash(call)? else {
        match verb {
            Verb::Hgetall => call.reply().map(0),
            _ => call.reply().array(0),
        }
        return DONE;
    };
    let (now, proto, mut at) = (call.now(), call.session.proto, 0);
    let fields = Hash::view(&value, now).len();
    match verb {
        Verb::Hgetall => call.reply().map(fields),
        _ => call.reply().array(fields),
    }
    call.in_steps(move |_, output| {
        let mut reply = Reply::new(output.bytes(), proto);
        let full = reply.out.len() + STEP_BYTES;
        let hash = Hash::view(&value, now);
        if verb == Verb::Hkeys {
            for (name, next) in hash.names_from(at) {
                reply.bulk(name);
                at = next;
                if reply.out.len() >= full {
                    return Progress::More;
                }
            }
            return Progress::Last;
        }
        for (field, next) in hash.iter_from(at) {
            if verb != Verb::Hvals {
                reply.bulk(field.name);
            }
            reply.bulk(field.value);
            at = next;
            if reply.out.len() >= full {
                return Progress::More;
            }
        }
        Progress::Last
    })
}

pub(in crate::resp) fn hdel(call: &mut Call<'_>) -> Outcome {
    let names = &call.args[2..];
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let removed = names.iter().filter(|name| hash.remove(name));
        Ok(removed.copied().collect::<SmallVec<[&[u8]; 4]>>())
    })?;
    notify_removed(call, edited.answer.iter().copied(), edited.is_gone);
    call.integer(edited.answer.len() as i64)
}

pub(in crate::resp) fn hexists(call: &mut Call<'_>) -> Outcome {
    let value = first_hash(call)?;
    let now = call.now();
    let has = value.is_some_and(|value| Hash::view(&value, now).get(call.args[2]).is_some());
    call.integer(has.into())
}

pub(in crate::resp) fn hlen(call: &mut Call<'_>) -> Outcome {
    let value = first_hash(call)?;
    let length = value.map_or(0, |value| Hash::view(&value, call.now()).len());
    call.integer(length as i64)
}

pub(in crate::resp) fn hstrlen(call: &mut Call<'_>) -> Outcome {
    let value = first_hash(call)?;
    let hash = value.as_ref().map(|value| Hash::view(value, call.now()));
    let field = hash.as_ref().and_then(|hash| hash.get(call.args[2]));
    let length = field.map_or(0, |field| field.value.len());
    call.integer(length as i64)
}

pub(in crate::resp) fn hincrby(call: &mut Call<'_>) -> Outcome {
    let (name, by) = (call.args[2], call.args[3]);
    let by = parse_integer(by).ok_or(Failure::NotInteger)?;
    let longest = call.longest();
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let (old, deadline) = match hash.get(name) {
            Some(field) => (parse_integer(&field.value), field.deadline),
            None => (Some(0), Deadline::NEVER),
        };
        let old = old.ok_or(Failure::text("ERR hash value is not an integer"))?;
        longest.check(name.len())?;
        let sum = old.checked_add(by).ok_or(Failure::Overflow)?;
        hash.set(name, itoa::Buffer::new().format(sum).as_bytes(), deadline);
        Ok(sum)
    })?;
    call.notify_fields("hincrby", std::iter::once(name));
    call.integer(edited.answer)
}

pub(in crate::resp) fn hincrbyfloat(call: &mut Call<'_>) -> Outcome {
    let (name, by) = (call.args[2], call.args[3]);
    if parse_float(by).is_some_and(f64::is_infinite) {
        return Err(Failure::text("ERR value is NaN or Infinity"));
    }
    let by = Decimal::parse(by).ok_or(Failure::NotFloat)?;
    let longest = call.longest();
    let edited = call.edit::<Hashes, _>(call.first_key()?, |hash| {
        let (old, deadline) = match hash.get(name) {
            Some(field) => (Decimal::parse(&field.value), field.deadline),
            None => (Some(Decimal::Exact(0)), Deadline::NEVER),
        };
        let old = old.ok_or(Failure::text("ERR hash value is not a float"))?;
        let endless = Failure::text("ERR increment would produce NaN or Infinity");
        longest.check(name.len())?;
        let mut text = Vec::new();
        old.plus(by).ok_or(endless)?.write(&mut text);
        hash.set(name, &text, deadline);
        Ok(text)
    })?;
    call.notify_fields("hincrbyfloat", std::iter::once(name));
    call.reply().bulk(edited.answer);
    DONE
}

pub(in crate::resp) fn hrandfield(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 2 {
        let value = first_hash(call)?;
        let hash = value.as_ref().map(|value| Hash::view(value, call.now()));
        match hash.as_ref().and_then(|hash| hash.random()) {
            Some(field) => call.reply().bulk(field.name),
            None => call.reply().null(),
        }
        return DONE;
    }
    let is_paired = call.args.len() > 3;
    let count = member_scan::count(call.args[2], false)?;
    if is_paired && (call.args.len() > 4 || !call.args[3].eq_ignore_ascii_case(b"WITHVALUES")) {
        return Err(Failure::Syntax);
    }
    member_scan::count(call.args[2], is_paired)?;
    let value = first_hash(call)?;
    let (now, proto) = (call.now(), call.session.proto);
    let hash = value.as_ref().map(|value| Hash::view(value, now));
    let nested = is_paired && proto == Proto::V3;
    let values = if is_paired && !nested { 2 } else { 1 };
    let places = member_scan::draw(hash.as_ref().map_or(0, Hash::len), count)?;
    member_scan::answer_drawn(call, places, values, move |output, place| {
        let hash = value.as_ref().map(|value| Hash::view(value, now));
        let Some(field) = hash.as_ref().and_then(|hash| hash.nth(place)) else {
            return;
        };
        let mut reply = Reply::new(output.bytes(), proto);
        if nested {
            reply.array(2);
        }
        reply.bulk(field.name);
        if is_paired {
            reply.bulk(field.value);
        }
    })
}

pub(in crate::resp) fn hscan(call: &mut Call<'_>) -> Outcome {
    let now = call.now();
    member_scan::answer(call, kind::HASH, |call, value, options| {
        let (hash, mut shown) = (Hash::view(value, now), 0);
        let mut reply = call.reply();
        let cursor = hash.scan(options.cursor, options.count, |field| {
            if options.wants(&field.name) {
                reply.bulk(field.name);
                if !options.bare {
                    reply.bulk(field.value);
                }
                shown += if options.bare { 1 } else { 2 };
            }
        });
        (cursor, shown)
    })
}

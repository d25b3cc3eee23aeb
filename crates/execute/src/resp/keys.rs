//! Keys: commands on keys of any kind: DEL, EXISTS, TYPE; others in child modules.
//!
//! Source: redis.io/docs/latest/commands, group "generic".

pub(super) mod object;
pub(super) mod deadlines; // when a key goes: EXPIRE, TTL
pub(super) mod scan; // how keys are listed: SCAN, KEYS
pub(super) mod cluster_scan; // CLUSTERSCAN: the keys of all nodes
pub(super) mod listing;
pub(super) mod bless; // keys that are never evicted
pub(super) mod rename;
pub(super) mod flush;
pub(super) mod sort;

use cellar_engine::{Change, DeleteOptions, Deleted, Key};
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::keyspace::kind;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;

use super::call::notify::Class;
use super::strings::values::update;

/// Answers for how many of the keys `is_one` is true; a key that is too long never counts.
fn count(
    call: &mut Call<'_>,
    mut is_one: impl FnMut(&mut Call<'_>, Key<'_>) -> Result<bool, Failure>,
) -> Outcome {
    let mut count = 0;
    for index in 1..call.args.len() {
        let Ok(key) = call.key_at(index) else {
            continue;
        };
        count += i64::from(is_one(call, key)?);
    }
    call.integer(count)
}

/// DEL and UNLINK: no client sees only some of the keys removed.
pub(super) fn del(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        0..=2 => delete_all(call),
        _ => call.as_step(delete_all),
    }
}

fn delete_all(call: &mut Call<'_>) -> Outcome {
    count(call, |call, key| {
        let deleted = call.cache().delete(key, &DeleteOptions::default())?;
        if deleted == Deleted::Done {
            call.notify(Class::Generic, "del", key.bytes());
        }
        Ok(deleted == Deleted::Done)
    })
}

pub(super) fn exists(call: &mut Call<'_>) -> Outcome {
    let is_there =
        |call: &mut Call<'_>, key: Key<'_>| Ok(call.cache().facts(key, |_| ()).is_some());
    match call.args.len() {
        0..=2 => count(call, is_there),
        _ => call.as_step(|call| count(call, is_there)),
    }
}

pub(super) fn touch(call: &mut Call<'_>) -> Outcome {
    let touch = |call: &mut Call<'_>, key: Key<'_>| {
        update(call, key, |old, _| Ok((old.is_some(), Change::Keep)))
    };
    match call.args.len() {
        0..=2 => count(call, touch),
        _ => call.as_step(|call| count(call, touch)),
    }
}

pub(super) fn type_of(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let kind = call.cache().facts(key, |facts| facts.kind);
    call.reply().simple(kind.map_or("none", kind::name));
    DONE
}

/// WAIT: without replicas nothing has to be awaited.
pub(super) fn wait(call: &mut Call<'_>) -> Outcome {
    parse_integer(call.args[1]).ok_or(Failure::NotInteger)?;
    check_timeout(call.args[2])?;
    call.integer(0)
}

/// WAITAOF: nothing is written to a log either.
pub(super) fn wait_aof(call: &mut Call<'_>) -> Outcome {
    let local = parse_integer(call.args[1]).ok_or(Failure::NotInteger)?;
    if !(0..=1).contains(&local) {
        return Err(Failure::text(
            "ERR value is out of range, value must between 0 and 1",
        ));
    }
    if parse_integer(call.args[2]).is_none_or(|replicas| replicas < 0) {
        return Err(Failure::text("ERR value is out of range, must be positive"));
    }
    check_timeout(call.args[3])?;
    if local > 0 {
        return Err(Failure::text(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    let mut reply = call.reply();
    reply.array(2);
    reply.integer(0);
    reply.integer(0);
    DONE
}

fn check_timeout(timeout: &[u8]) -> Result<(), Failure> {
    let bad = Failure::text("ERR timeout is not an integer or out of range");
    match parse_integer(timeout).ok_or(bad)? {
        0.. => Ok(()),
        _ => Err(Failure::text("ERR timeout is negative")),
    }
}

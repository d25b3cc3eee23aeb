//! Keys: what applies to any key, whatever it holds, and which function runs the group's commands.
//!
//! Source: redis.io/docs/latest/commands, group "generic".

use cellar_engine::{Change, DeleteOptions, Deleted, Key};
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::number::parse_integer;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use super::handlers::{Handler, unknown};
use super::notify::Class;
use super::values::update;
use super::{deadlines, leases, listing, moves, object, scan};
use crate::kind;

/// The function that runs a command of this group.
pub(super) fn handler(verb: Verb) -> Handler {
    match verb {
        Verb::Del | Verb::Unlink => del,
        Verb::Exists => exists,
        Verb::Touch => touch,
        Verb::Type => type_of,
        Verb::Wait => wait,
        Verb::Randomkey => scan::randomkey,
        Verb::Keys => listing::keys,
        Verb::Scan => scan::scan,
        Verb::Expire => deadlines::expire,
        Verb::Pexpire => deadlines::pexpire,
        Verb::Expireat => deadlines::expireat,
        Verb::Pexpireat => deadlines::pexpireat,
        Verb::Ttl => deadlines::ttl,
        Verb::Pttl => deadlines::pttl,
        Verb::Expiretime => deadlines::expiretime,
        Verb::Pexpiretime => deadlines::pexpiretime,
        Verb::Persist => deadlines::persist,
        Verb::Rename => moves::rename,
        Verb::Renamenx => moves::renamenx,
        Verb::Copy => moves::copy,
        Verb::Move => moves::to_database,
        Verb::ObjectEncoding => object::encoding,
        Verb::ObjectFreq => object::freq,
        Verb::ObjectIdletime => object::idletime,
        Verb::ObjectRefcount => object::refcount,
        Verb::Invalidate => leases::invalidate,
        _ => unknown,
    }
}

/// Answers for how many of the keys `is_one` says yes; a key that is too long is nobody's.
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

/// DEL and UNLINK.
fn del(call: &mut Call<'_>) -> Outcome {
    count(call, |call, key| {
        let deleted = call.cache().delete(key, &DeleteOptions::default())?;
        if deleted == Deleted::Done {
            call.notify(Class::Generic, "del", key.bytes());
        }
        Ok(deleted == Deleted::Done)
    })
}

fn exists(call: &mut Call<'_>) -> Outcome {
    count(call, |call, key| {
        Ok(call.cache().facts(key, |_| ()).is_some())
    })
}

fn touch(call: &mut Call<'_>) -> Outcome {
    count(call, |call, key| {
        update(call, key, |old, _| Ok((old.is_some(), Change::Keep)))
    })
}

fn type_of(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let kind = call.cache().facts(key, |facts| facts.kind);
    call.reply().simple(kind.map_or("none", kind::name));
    DONE
}

/// WAIT: nobody replicates, so there is nobody to wait for.
fn wait(call: &mut Call<'_>) -> Outcome {
    parse_integer(call.args[1]).ok_or(Failure::NotInteger)?;
    let timeout = parse_integer(call.args[2]);
    match timeout.ok_or(Failure::text(
        "ERR timeout is not an integer or out of range",
    ))? {
        0.. => call.integer(0),
        _ => Err(Failure::text("ERR timeout is negative")),
    }
}

//! Object: the inner facts of a value that OBJECT tells.
//!
//! Source: redis.io/docs/latest/commands/object-encoding and its neighbours.

use cellar_engine::{Change, KeyFacts, Lookup};

use crate::execute::resp::call::{Call, DONE, Outcome};
use crate::execute::resp::failure::Failure;
use crate::execute::resp::strings::values::update;
use crate::kind;

/// Looks without counting as a use.
const QUIETLY: Lookup = Lookup {
    touch: None,
    vivify: None,
    recache_ms: None,
    lease_ms: None,
    version: false,
    new_version: None,
    quiet: true,
    uncounted: true,
    idle: false,
    no_lease: true,
};

/// Facts about the key behind a subcommand.
fn facts<R>(call: &Call<'_>, read: impl FnOnce(KeyFacts<'_>) -> R) -> Result<Option<R>, Failure> {
    Ok(call.cache().facts(call.key_at(2)?, read))
}

fn answer(call: &mut Call<'_>, number: Option<i64>) -> Outcome {
    match number {
        Some(number) => call.reply().integer(number),
        None => call.reply().null(),
    }
    DONE
}

/// The name that Redis would have for how such a value is kept.
pub(in crate::execute::resp) fn encoding(call: &mut Call<'_>) -> Outcome {
    let key = call.key_at(2)?;
    let cache = call.cache();
    let encoding = match cache.lookup(key, &QUIETLY, |found| kind::encoding(found.item))? {
        Some(encoding) => Some(encoding),
        None => update(call, key, |old, _| {
            Ok((old.map(kind::encoding), Change::Keep))
        })?,
    };
    match encoding {
        Some(encoding) => call.reply().bulk(encoding),
        None => call.reply().null(),
    }
    DONE
}

/// Seconds since the last use, exact from the first time that somebody asks.
pub(in crate::execute::resp) fn idletime(call: &mut Call<'_>) -> Outcome {
    let key = call.key_at(2)?;
    let lookup = Lookup {
        idle: true,
        ..QUIETLY
    };
    let idle_s = call.cache().lookup(key, &lookup, |found| found.idle_s)?;
    let idle_s = match idle_s {
        Some(idle_s) => Some(idle_s),
        None => facts(call, |facts| facts.idle_s)?,
    };
    answer(call, idle_s.map(|s| i64::try_from(s).unwrap_or(i64::MAX)))
}

pub(in crate::execute::resp) fn refcount(call: &mut Call<'_>) -> Outcome {
    let count = facts(call, |_| 1)?;
    answer(call, count)
}

/// As Redis with its default policy, which keeps no such count.
pub(in crate::execute::resp) fn freq(call: &mut Call<'_>) -> Outcome {
    if facts(call, |_| ())?.is_none() {
        return answer(call, None);
    }
    Err(Failure::text(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
         that when switching between policies at runtime LRU and LFU data will take some time to \
         adjust.",
    ))
}

//! Object: internal facts of a value that OBJECT returns.
//!
//! Source: redis.io/docs/latest/commands/object-encoding and its neighbours.

use cellar_engine::{Change, Item, KeyFacts, Lookup};
use cellar_shared::keyspace::kind;

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::values::update;

/// Reads without counting as a use.
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

/// The name of the encoding that Redis would have for such a value.
pub(in crate::resp) fn encoding(call: &mut Call<'_>) -> Outcome {
    let key = call.key_at(2)?;
    let cache = call.cache();
    let encodings = call.context.state.parameters.encodings();
    let is_changed = facts(call, |facts| facts.changed)?.unwrap_or(false);
    let name = |item: Item<'_>| kind::encoding(item, is_changed, &encodings);
    let encoding = match cache.lookup(key, &QUIETLY, |found| name(found.item))? {
        Some(encoding) => Some(encoding),
        None => update(call, key, |old, _| Ok((old.map(name), Change::Keep)))?,
    };
    match encoding {
        Some(encoding) => call.reply().bulk(encoding),
        None => call.reply().null(),
    }
    DONE
}

/// Seconds since the last use.
///
/// The moment is recorded from the first query on; before that it is known only for keys that were
/// never used. For other keys the reply is Redis's error under an LFU policy.
pub(in crate::resp) fn idletime(call: &mut Call<'_>) -> Outcome {
    const UNKNOWN: Failure = Failure::text(
        "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that of this \
         key it is tracked from now on.",
    );
    let idle = facts(call, |facts| (facts.idle_s, facts.uses.is_last_known()))?;
    let Some((idle_s, is_known)) = idle else {
        return answer(call, None);
    };
    call.cache().note_uses(call.key_at(2)?)?;
    // A store in this second has an idle time of zero.
    if !is_known && idle_s > 0 {
        return Err(UNKNOWN);
    }
    answer(call, Some(i64::try_from(idle_s).unwrap_or(i64::MAX)))
}

pub(in crate::resp) fn refcount(call: &mut Call<'_>) -> Outcome {
    let count = facts(call, |_| 1)?;
    answer(call, count)
}

/// The recent use frequency of a key, on Redis's scale up to 255.
///
/// Eviction counts to 3. For the most-read keys the server knows more: their reads of the last
/// minute or so, converted to the count that Redis would typically have.
pub(in crate::resp) fn freq(call: &mut Call<'_>) -> Outcome {
    let frequency = facts(call, |facts| i64::from(facts.frequency))?;
    let gets = call.cache().recent_gets(call.key_at(2)?);
    answer(
        call,
        frequency.map(|counted| counted.max(redis_count(gets))),
    )
}

/// The count of Redis's LFU after so many reads, with its default `lfu-log-factor` of 10.
///
/// A count of 5 or more rises with a probability of 1 in `(count - 5) * 10 + 1`, so that it takes
/// about `5 * (count - 5)^2` reads. Source: redis.io/docs/latest/develop/reference/eviction.
fn redis_count(gets: u64) -> i64 {
    const INITIAL: u64 = 5;
    const MOST: u64 = 255;
    // One read in 128 is counted: of fewer reads the number is too rough.
    if gets < 1_024 {
        return 0;
    }
    let count = INITIAL + (gets / 5).isqrt();
    i64::try_from(count.min(MOST)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_about_those_in_the_table_of_redis() {
        for (gets, expected) in [
            (0, 0),
            (1_023, 0),
            (1_024, 19),
            (100_000, 146),
            (1_000_000, 255),
            (u64::MAX, 255),
        ] {
            assert_eq!(redis_count(gets), expected, "{gets}");
        }
    }
}

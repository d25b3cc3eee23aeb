//! Set algebra: what several sets have together, in common, or not.
//!
//! All sets are read in one step: while there are several, no other event loop executes.

use std::collections::HashSet;

use cellar_engine::{Handle, Instant};
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::number::parse_integer;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use super::notify::Class;
use crate::collection::{Collection, Set};
use crate::kind;

/// SUNION, SINTER, SDIFF.
pub(super) fn answer(call: &mut Call<'_>) -> Outcome {
    let values = call.alone(|call| sets(call, 1, call.args.len()))?;
    let views = views(&values);
    let members = combine(call.command.verb, &views, usize::MAX);
    let start = call.output.bytes().len();
    call.reply().set(members.len());
    for member in members {
        call.reply().bulk(member);
        call.check_reply(start)?;
    }
    DONE
}

/// SUNIONSTORE, SINTERSTORE, SDIFFSTORE.
pub(super) fn store(call: &mut Call<'_>) -> Outcome {
    let (event, verb) = match call.command.verb {
        Verb::Sunionstore => ("sunionstore", Verb::Sunion),
        Verb::Sinterstore => ("sinterstore", Verb::Sinter),
        _ => ("sdiffstore", Verb::Sdiff),
    };
    let stored = call.alone(|call| {
        let values = sets(call, 2, call.args.len())?;
        let mut result = Set::empty(Instant(0));
        for member in combine(verb, &views(&values), usize::MAX) {
            result.add(member);
        }
        let count = result.len();
        let existed = call.store(call.key_at(1)?, result)?;
        if count > 0 {
            call.notify(Class::Set, event, call.args[1]);
        } else if existed {
            call.notify(Class::Generic, "del", call.args[1]);
        }
        Ok::<usize, Failure>(count)
    })?;
    call.integer(stored as i64)
}

pub(super) fn sintercard(call: &mut Call<'_>) -> Outcome {
    let bad = Failure::text("ERR numkeys should be greater than 0");
    let keys = parse_integer(call.args[1]).filter(|&keys| keys > 0);
    let keys = usize::try_from(keys.ok_or(bad)?).unwrap_or(usize::MAX);
    if keys > call.args.len() - 2 {
        return Err(Failure::text(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    let limit = limit_of(&call.args[2 + keys..])?;
    let most = if limit == 0 { usize::MAX } else { limit };
    let values = call.alone(|call| sets(call, 2, 2 + keys))?;
    let count = combine(Verb::Sinter, &views(&values), most).len();
    call.integer(count as i64)
}

/// The number behind LIMIT; the last one counts.
fn limit_of(args: &[&[u8]]) -> Result<usize, Failure> {
    let bad = || Failure::text("ERR LIMIT can't be negative");
    let mut limit = 0;
    let mut args = args.iter();
    while let Some(name) = args.next() {
        if !name.eq_ignore_ascii_case(b"LIMIT") {
            return Err(Failure::Syntax);
        }
        let number = parse_integer(args.next().ok_or(Failure::Syntax)?);
        let number = number.and_then(|number| usize::try_from(number).ok());
        limit = number.ok_or_else(bad)?;
    }
    Ok(limit)
}

/// The values of the keys that are these arguments.
fn sets(call: &Call<'_>, start: usize, end: usize) -> Result<Vec<Option<Handle>>, Failure> {
    (start..end)
        .map(|index| call.value(call.key_at(index)?, kind::SET))
        .collect()
}

fn views(values: &[Option<Handle>]) -> Vec<Option<Set<&[u8]>>> {
    let views = values.iter();
    views
        .map(|value| value.as_ref().map(|value| Set::view(value)))
        .collect()
}

/// The members of the result, at most `most` of them.
fn combine<'v>(verb: Verb, sets: &'v [Option<Set<&[u8]>>], most: usize) -> Vec<&'v [u8]> {
    let members = |set: &'v Option<Set<&[u8]>>| set.iter().flat_map(Set::iter);
    let has =
        |set: &Option<Set<&[u8]>>, member: &[u8]| set.as_ref().is_some_and(|set| set.has(member));
    match verb {
        Verb::Sunion => {
            let mut known = HashSet::new();
            let all = sets.iter().flat_map(members);
            all.filter(|member| known.insert(*member))
                .take(most)
                .collect()
        }
        Verb::Sinter => {
            let length = |set: &&Option<Set<&[u8]>>| set.as_ref().map_or(0, Set::len);
            let shortest = sets.iter().min_by_key(length);
            let candidates = shortest.into_iter().flat_map(members);
            let common = candidates.filter(|member| sets.iter().all(|set| has(set, member)));
            common.take(most).collect()
        }
        _ => {
            let (first, others) = sets.split_first().expect("there is a key");
            let rest = members(first);
            let rest = rest.filter(|member| !others.iter().any(|set| has(set, member)));
            rest.take(most).collect()
        }
    }
}

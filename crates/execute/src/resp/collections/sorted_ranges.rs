//! Sorted ranges: members of a sorted set from one place, score or name to another.

use std::borrow::Cow;
use std::ops::Range;

use cellar_engine::{Handle, Key};
use cellar_protocol::resp::number::{parse_float, parse_integer};
use cellar_protocol::resp::{Proto, Reply, Verb};
use cellar_shared::keyspace::kind;

use crate::resp::arguments::Arguments;
use crate::resp::call::notify::Class;
use crate::resp::call::steps::{Progress, STEP_BYTES};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::collections::member_scan;
use crate::resp::collections::sorted_members::{append_member, notify_removed};
use crate::resp::failure::Failure;
use cellar_values::{Run, SortedSet, SortedSets};

/// Whether a range is by rank, by score or by member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Name,
}

/// One end of a range of scores or names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound<T> {
    at: T,
    /// Whether `at` itself lies outside.
    is_open: bool,
}

/// The end of a range of names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name<'a> {
    /// Before all names.
    First,
    /// Behind all names.
    Last,
    Is(&'a [u8]),
}

/// A range, the lower end first.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends<'a> {
    /// Places; negative ones count from the end.
    Rank(i64, i64),
    Score(Bound<f64>, Bound<f64>),
    Name(Bound<Name<'a>>, Bound<Name<'a>>),
}

impl<'a> Ends<'a> {
    pub(super) fn parse(by: By, low: &'a [u8], high: &'a [u8]) -> Result<Ends<'a>, Failure> {
        Ok(match by {
            By::Rank => {
                let place = |text| parse_integer(text).ok_or(Failure::NotInteger);
                Ends::Rank(place(low)?, place(high)?)
            }
            By::Score => Ends::Score(score_bound(low)?, score_bound(high)?),
            By::Name => Ends::Name(name_bound(low)?, name_bound(high)?),
        })
    }

    /// The places of the members in the range.
    pub(super) fn places(self, set: &SortedSet<'_>, is_reverse: bool) -> Range<usize> {
        match self {
            Ends::Rank(first, last) => places_by_rank(first, last, set.len(), is_reverse),
            _ => set.ranks(self.members(set, is_reverse)),
        }
    }

    /// The members in the range.
    fn members(self, set: &SortedSet<'_>, is_reverse: bool) -> Run {
        match self {
            Ends::Rank(first, last) => {
                set.run_of_ranks(places_by_rank(first, last, set.len(), is_reverse))
            }
            Ends::Score(low, high) => set.run_of_scores(
                |score| score < low.at || low.is_open && score == low.at,
                |score| score < high.at || !high.is_open && score == high.at,
            ),
            Ends::Name(low, high) => set.run_of_members(
                |name| is_below(name, low, low.is_open),
                |name| is_below(name, high, !high.is_open),
            ),
        }
    }
}

/// Whether a name lies before a bound, or at it if that counts.
fn is_below(name: &[u8], bound: Bound<Name<'_>>, or_at: bool) -> bool {
    match bound.at {
        Name::First => false,
        Name::Last => true,
        Name::Is(at) => name < at || or_at && name == at,
    }
}

fn places_by_rank(first: i64, last: i64, len: usize, is_reverse: bool) -> Range<usize> {
    let count = i64::try_from(len).unwrap_or(i64::MAX);
    let place = |rank: i64| {
        if rank < 0 {
            rank.saturating_add(count)
        } else {
            rank
        }
    };
    let first = place(first).max(0);
    let last = place(last).min(count - 1);
    if first > last {
        return 0..0;
    }
    let (first, last) = if is_reverse {
        (count - 1 - last, count - 1 - first)
    } else {
        (first, last)
    };
    // Both lie between zero and `len`.
    first as usize..last as usize + 1
}

fn score_bound(text: &[u8]) -> Result<Bound<f64>, Failure> {
    let (number, is_open) = match text {
        [b'(', number @ ..] => (number, true),
        number => (number, false),
    };
    let at = parse_float(number).ok_or(Failure::text("ERR min or max is not a float"))?;
    Ok(Bound { at, is_open })
}

fn name_bound(text: &[u8]) -> Result<Bound<Name<'_>>, Failure> {
    let (at, is_open) = match text {
        b"-" => (Name::First, true),
        b"+" => (Name::Last, true),
        [b'(', name @ ..] => (Name::Is(name), true),
        [b'[', name @ ..] => (Name::Is(name), false),
        _ => return Err(Failure::text("ERR min or max not valid string range item")),
    };
    Ok(Bound { at, is_open })
}

/// The options of ZRANGE and its like.
struct RangeOptions {
    by: By,
    is_reverse: bool,
    with_scores: bool,
    /// How many members to skip, and how many to return at most; negative: skip none, return all.
    limit: Option<(i64, i64)>,
}

impl RangeOptions {
    fn parse(verb: Verb, args: &[&[u8]]) -> Result<RangeOptions, Failure> {
        let (by, is_reverse) = match verb {
            Verb::Zrange | Verb::Zrevrange | Verb::Zrangestore => {
                (By::Rank, verb == Verb::Zrevrange)
            }
            Verb::Zrangebyscore | Verb::Zrevrangebyscore => {
                (By::Score, verb == Verb::Zrevrangebyscore)
            }
            _ => (By::Name, verb == Verb::Zrevrangebylex),
        };
        let mut options = RangeOptions {
            by,
            is_reverse,
            with_scores: false,
            limit: None,
        };
        let is_free = matches!(verb, Verb::Zrange | Verb::Zrangestore);
        let mut args = args.iter();
        while let Some(&name) = args.next() {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            if is("WITHSCORES") {
                options.with_scores = true;
            } else if is("LIMIT") && args.len() >= 2 {
                let mut number = || {
                    let &number = args.next().ok_or(Failure::Syntax)?;
                    parse_integer(number).ok_or(Failure::NotInteger)
                };
                options.limit = Some((number()?, number()?));
            } else if is_free && is("REV") && !options.is_reverse {
                options.is_reverse = true;
            } else if is_free && is("BYSCORE") && options.by == By::Rank {
                options.by = By::Score;
            } else if is_free && is("BYLEX") && options.by == By::Rank {
                options.by = By::Name;
            } else {
                return Err(Failure::Syntax);
            }
        }
        if options.by == By::Rank {
            // As in Redis a count of -1 is no limit, and nothing is skipped either.
            if options.limit.take().is_some_and(|(_, count)| count != -1) {
                return Err(Failure::text(
                    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE \
                     or BYLEX",
                ));
            }
        }
        if options.with_scores && options.by == By::Name {
            return Err(Failure::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        Ok(options)
    }
}

/// ZRANGE and its like.
pub(in crate::resp) fn zrange(call: &mut Call<'_>) -> Outcome {
    let options = RangeOptions::parse(call.command.verb, &call.args[4..])?;
    let swaps = options.is_reverse && options.by != By::Rank;
    let (low, high) = if swaps { (3, 2) } else { (2, 3) };
    let ends = Ends::parse(options.by, call.args[low], call.args[high])?;
    let Some(value) = call.value(call.first_key()?, kind::SORTED_SET)? else {
        call.reply().array(0);
        return DONE;
    };
    let set = SortedSet::view(&value);
    let places = ends.places(&set, options.is_reverse);
    let (skipped, shown) = match options.limit {
        None => (0, places.len()),
        Some((skipped, most)) => (
            usize::try_from(skipped).unwrap_or(usize::MAX),
            usize::try_from(most).unwrap_or(usize::MAX),
        ),
    };
    let shown = shown.min(places.len().saturating_sub(skipped));
    let is_flat = options.with_scores && call.session.proto == Proto::V2;
    call.reply().array(if is_flat { shown * 2 } else { shown });
    let proto = call.session.proto;
    let mut indexes = skipped..skipped.saturating_add(shown);
    if indexes.is_empty() {
        return DONE;
    }
    call.in_steps(move |_, output| {
        let set = SortedSet::view(&value);
        let mut reply = Reply::new(output.bytes(), proto);
        let full = reply.out.len() + STEP_BYTES;
        let (first, left) = (indexes.start, indexes.len());
        let mut show = |(member, score): (Cow<'_, [u8]>, f64)| {
            append_member(&mut reply, &member, options.with_scores.then_some(score));
            indexes.start += 1;
            reply.out.len() < full
        };
        // Whether all are shown is seen by how many are left.
        let _ = if options.is_reverse {
            let members = set.iter_back(places.end - first);
            members.take(left).all(&mut show)
        } else {
            let members = set.iter_from(places.start + first);
            members.take(left).all(&mut show)
        };
        match indexes.is_empty() {
            true => Progress::Last,
            false => Progress::More,
        }
    })
}

/// The sorted set that ZRANGESTORE is to store a part of, and the places of that part.
pub(in crate::resp) fn part_to_store(
    call: &Call<'_>,
) -> Result<Option<(Handle, Range<usize>)>, Failure> {
    let shows_scores = |arg: &&[u8]| arg.eq_ignore_ascii_case(b"WITHSCORES");
    if call.args[5..].iter().any(shows_scores) {
        return Err(Failure::Syntax);
    }
    let options = RangeOptions::parse(call.command.verb, &call.args[5..])?;
    let swaps = options.is_reverse && options.by != By::Rank;
    let (low, high) = if swaps { (4, 3) } else { (3, 4) };
    let ends = Ends::parse(options.by, call.args[low], call.args[high])?;
    let Some(value) = call.value(call.key_at(2)?, kind::SORTED_SET)? else {
        return Ok(None);
    };
    let places = ends.places(&SortedSet::view(&value), options.is_reverse);
    let (skipped, most) = options.limit.unwrap_or((0, -1));
    let skipped = usize::try_from(skipped)
        .unwrap_or(usize::MAX)
        .min(places.len());
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let shown = most.min(places.len() - skipped);
    let start = if options.is_reverse {
        places.end - skipped - shown
    } else {
        places.start + skipped
    };
    Ok(Some((value, start..start + shown)))
}

/// ZCOUNT, ZLEXCOUNT.
pub(in crate::resp) fn zcount(call: &mut Call<'_>) -> Outcome {
    let by = if call.command.verb == Verb::Zcount {
        By::Score
    } else {
        By::Name
    };
    let ends = Ends::parse(by, call.args[2], call.args[3])?;
    let value = call.value(call.first_key()?, kind::SORTED_SET)?;
    let set = value.as_ref().map(|value| SortedSet::view(value));
    let count = set.map_or(0, |set| ends.members(&set, false).len);
    call.integer(count as i64)
}

/// ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX.
pub(in crate::resp) fn zremrange(call: &mut Call<'_>) -> Outcome {
    let (by, event) = match call.command.verb {
        Verb::Zremrangebyrank => (By::Rank, "zremrangebyrank"),
        Verb::Zremrangebyscore => (By::Score, "zremrangebyscore"),
        _ => (By::Name, "zremrangebylex"),
    };
    let ends = Ends::parse(by, call.args[2], call.args[3])?;
    let edited = call.edit::<SortedSets, _>(call.first_key()?, |set| {
        let members = ends.members(set, false);
        set.remove_run(members);
        Ok(members.len)
    })?;
    notify_removed(call, event, edited.is_changed, edited.is_gone);
    call.integer(edited.answer as i64)
}

/// ZPOPMIN, ZPOPMAX.
pub(in crate::resp) fn zpop(call: &mut Call<'_>) -> Outcome {
    let is_max = call.command.verb == Verb::Zpopmax;
    let count = match call.args {
        [_, _] => None,
        [_, _, count] => {
            let count = parse_integer(count).and_then(|count| usize::try_from(count).ok());
            let bad = Failure::text("ERR value is out of range, must be positive");
            Some(count.ok_or(bad)?)
        }
        _ => return Err(Failure::Syntax),
    };
    let key = call.first_key()?;
    let (members, scores) = pop(call, key, count.unwrap_or(1), is_max)?;
    // Without a count RESP3 has one flat pair, too.
    let is_nested = count.is_some() && call.session.proto == Proto::V3;
    let values = if is_nested {
        members.len()
    } else {
        members.len() * 2
    };
    call.reply().array(values);
    member_scan::answer_taken(call, members, move |reply, place, member| {
        if is_nested {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(scores[place]);
    })
}

/// Takes the lowest or highest members out of a sorted set.
fn pop(
    call: &mut Call<'_>,
    key: Key<'_>,
    count: usize,
    is_max: bool,
) -> Result<(Arguments, Vec<f64>), Failure> {
    let edited = call.edit::<SortedSets, _>(key, |set| {
        let taken = count.min(set.len());
        let places = if is_max {
            set.len() - taken..set.len()
        } else {
            0..taken
        };
        let run = set.run_of_ranks(places);
        let (mut members, mut scores) = (Arguments::default(), Vec::with_capacity(taken));
        let mut take = |(member, score): (Cow<'_, [u8]>, f64)| {
            members.extend(&[&*member]);
            scores.push(score);
        };
        if is_max && taken > 1 {
            set.iter_back(set.len()).take(taken).for_each(&mut take);
        } else {
            set.iter_run(run).for_each(&mut take);
        }
        set.remove_run(run);
        Ok((members, scores))
    })?;
    if edited.is_changed {
        let event = if is_max { "zpopmax" } else { "zpopmin" };
        call.notify(Class::SortedSet, event, key.bytes());
    }
    if edited.is_gone {
        call.notify(Class::Generic, "del", key.bytes());
    }
    Ok(edited.answer)
}

/// What ZMPOP has behind its keys.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) struct SeveralSorted {
    /// The first key's argument, and that behind the last.
    pub(in crate::resp) keys: (usize, usize),
    is_max: bool,
    count: usize,
}

/// Reads the number of keys at an argument, and the options after the keys.
///
/// # Errors
/// As Redis.
pub(in crate::resp) fn several_sorted(args: &[&[u8]], at: usize) -> Result<SeveralSorted, Failure> {
    let keys = positive(args[at], "ERR numkeys should be greater than 0")?;
    let end_of_keys = (at + 1).saturating_add(keys);
    let rest = args.get(end_of_keys..).unwrap_or_default();
    let (end, options) = rest.split_first().ok_or(Failure::Syntax)?;
    Ok(SeveralSorted {
        keys: (at + 1, end_of_keys),
        is_max: is_max(end)?,
        count: count_option(options)?.unwrap_or(1),
    })
}

fn positive(text: &[u8], bad: &'static str) -> Result<usize, Failure> {
    let number = parse_integer(text).filter(|number| *number > 0);
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or(Failure::text(bad))
}

/// Reads MIN or MAX.
pub(super) fn is_max(end: &[u8]) -> Result<bool, Failure> {
    match end.to_ascii_uppercase().as_slice() {
        b"MIN" => Ok(false),
        b"MAX" => Ok(true),
        _ => Err(Failure::Syntax),
    }
}

/// Reads `[COUNT count]`, the last arguments.
pub(super) fn count_option(options: &[&[u8]]) -> Result<Option<usize>, Failure> {
    match options {
        [] => Ok(None),
        [name, count, rest @ ..] if name.eq_ignore_ascii_case(b"COUNT") => {
            let count = positive(count, "ERR count should be greater than 0")?;
            rest.is_empty()
                .then_some(Some(count))
                .ok_or(Failure::Syntax)
        }
        _ => Err(Failure::Syntax),
    }
}

/// Takes members from the sorted set of a key and answers them with the key; none if there is none.
///
/// # Errors
/// [`Failure::WrongType`].
pub(in crate::resp) fn try_pop_sorted(
    call: &mut Call<'_>,
    key: usize,
    several: &SeveralSorted,
) -> Result<Option<Outcome>, Failure> {
    let key = call.key_at(key)?;
    if call.value(key, kind::SORTED_SET)?.is_none() {
        return Ok(None);
    }
    let (members, scores) = pop(call, key, several.count, several.is_max)?;
    if members.len() == 0 {
        // Another event loop was quicker.
        return Ok(None);
    }
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(key.bytes());
    reply.array(members.len());
    Ok(Some(member_scan::answer_taken(
        call,
        members,
        move |reply, place, member| {
            reply.array(2);
            reply.bulk(member);
            reply.double(scores[place]);
        },
    )))
}

/// Takes the lowest or highest member from the sorted set of a key and answers key, member and
/// score; whether there was one.
///
/// # Errors
/// [`Failure::WrongType`].
pub(in crate::resp) fn try_pop_one(
    call: &mut Call<'_>,
    key: usize,
    is_max: bool,
) -> Result<bool, Failure> {
    let key = call.key_at(key)?;
    if call.value(key, kind::SORTED_SET)?.is_none() {
        return Ok(false);
    }
    let (members, scores) = pop(call, key, 1, is_max)?;
    let [score] = scores[..] else {
        return Ok(false);
    };
    let mut reply = call.reply();
    reply.array(3);
    reply.bulk(key.bytes());
    reply.bulk(members.get(0));
    reply.double(score);
    Ok(true)
}

pub(in crate::resp) fn zmpop(call: &mut Call<'_>) -> Outcome {
    let several = several_sorted(call.args, 1)?;
    call.as_step(|call| {
        for key in several.keys.0..several.keys.1 {
            if let Some(outcome) = try_pop_sorted(call, key, &several)? {
                return outcome;
            }
        }
        call.reply().null_array();
        DONE
    })
}

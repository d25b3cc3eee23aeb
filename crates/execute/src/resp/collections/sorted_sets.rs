//! Sorted sets: members with scores.
//!
//! Source: redis.io/docs/latest/commands, group "sorted-set". Ranges of members: sorted_ranges.rs.

use cellar_engine::Handle;
use cellar_protocol::resp::number::{FLOAT_BYTES_MAX, parse_float, write_float};
use cellar_protocol::resp::{Proto, Reply, Verb};
use cellar_shared::keyspace::kind;

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;

use crate::resp::call::notify::Class;
use crate::resp::collections::member_scan;
use crate::resp::collections::sorted_members::{append_member, notify_removed};
use cellar_values::{SortedSet, SortedSets};
use smallvec::SmallVec;

/// The sorted set of the first key.
fn first_sorted(call: &Call<'_>) -> Result<Option<Handle>, Failure> {
    call.value(call.first_key()?, kind::SORTED_SET)
}

/// The options of ZADD.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::resp) struct ZaddOptions {
    /// NX: only members that are not there.
    pub(in crate::resp) is_new: bool,
    /// XX: only members that are there.
    pub(in crate::resp) is_there: bool,
    /// GT: only higher scores.
    pub(in crate::resp) is_higher: bool,
    /// LT: only lower scores.
    pub(in crate::resp) is_lower: bool,
    /// CH: the answer counts changes, too.
    pub(in crate::resp) counts_changes: bool,
    /// INCR: the score is added to the old one.
    pub(in crate::resp) adds: bool,
}

impl ZaddOptions {
    /// The options, and how many they are.
    fn parse(args: &[&[u8]]) -> (ZaddOptions, usize) {
        let mut options = ZaddOptions::default();
        let mut count = 0;
        for arg in args {
            let is = |name: &str| arg.eq_ignore_ascii_case(name.as_bytes());
            let option = if is("NX") {
                &mut options.is_new
            } else if is("XX") {
                &mut options.is_there
            } else if is("GT") {
                &mut options.is_higher
            } else if is("LT") {
                &mut options.is_lower
            } else if is("CH") {
                &mut options.counts_changes
            } else if is("INCR") {
                &mut options.adds
            } else {
                break;
            };
            *option = true;
            count += 1;
        }
        (options, count)
    }

    fn check(self, pairs: &[&[u8]]) -> Result<(), Failure> {
        if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
            return Err(Failure::Syntax);
        }
        let text = if self.is_new && self.is_there {
            "ERR XX and NX options at the same time are not compatible"
        } else if self.is_higher && (self.is_new || self.is_lower) || self.is_lower && self.is_new {
            "ERR GT, LT, and/or NX options at the same time are not compatible"
        } else if self.adds && pairs.len() > 2 {
            "ERR INCR option supports a single increment-element pair"
        } else {
            return Ok(());
        };
        Err(Failure::text(text))
    }

    /// The member's new score; none if it stays as it is.
    fn score(self, old: Option<f64>, score: f64) -> Result<Option<f64>, Failure> {
        // Zero has no sign.
        let score = score + 0.0;
        let Some(old) = old else {
            return Ok((!self.is_there).then_some(score));
        };
        if self.is_new {
            return Ok(None);
        }
        let new = if self.adds { old + score } else { score };
        if new.is_nan() {
            return Err(Failure::text("ERR resulting score is not a number (NaN)"));
        }
        let is_refused = self.is_higher && new <= old || self.is_lower && new >= old;
        Ok((!is_refused).then_some(new))
    }
}

/// What a ZADD did.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    new: usize,
    changed: usize,
    /// The last score that was set.
    score: Option<f64>,
}

pub(in crate::resp) fn zadd(call: &mut Call<'_>) -> Outcome {
    let (options, count) = ZaddOptions::parse(&call.args[2..]);
    add(call, options, &call.args[2 + count..])
}

pub(in crate::resp) fn zincrby(call: &mut Call<'_>) -> Outcome {
    // Redis looks for ZADD's options here, too, and then misses the member.
    let is_option = |name: &&str| call.args[2].eq_ignore_ascii_case(name.as_bytes());
    if ["NX", "XX", "GT", "LT", "CH", "INCR"].iter().any(is_option) {
        return Err(Failure::Syntax);
    }
    let options = ZaddOptions {
        adds: true,
        ..ZaddOptions::default()
    };
    add(call, options, &call.args[2..])
}

fn add(call: &mut Call<'_>, options: ZaddOptions, pairs: &[&[u8]]) -> Outcome {
    options.check(pairs)?;
    let mut scored: SmallVec<[(f64, &[u8]); 2]> = SmallVec::new();
    for pair in pairs.chunks_exact(2) {
        let score = parse_float(pair[0]).ok_or(Failure::NotFloat)?;
        scored.push((score, pair[1]));
    }
    add_scored(call, options, &scored)
}

/// Adds members that have scores, and answers what came of it.
pub(in crate::resp) fn add_scored(
    call: &mut Call<'_>,
    options: ZaddOptions,
    scored: &[(f64, &[u8])],
) -> Outcome {
    let longest = call.longest();
    let edited = call.edit::<SortedSets, _>(call.first_key()?, |set| {
        let mut added = Added::default();
        for &(score, member) in scored {
            let (old, new) = set.update(member, |old| {
                let new = options.score(old, score)?;
                if new.is_some() && new != old {
                    longest.check(member.len())?;
                }
                Ok::<_, Failure>(new)
            })?;
            if new.is_none() {
                continue;
            }
            added.score = new;
            if new != old {
                added.new += usize::from(old.is_none());
                added.changed += usize::from(old.is_some());
            }
        }
        Ok(added)
    })?;
    if edited.is_changed {
        let event = if options.adds { "zincr" } else { "zadd" };
        call.notify(Class::SortedSet, event, call.args[1]);
    }
    let added = edited.answer;
    match (options.adds, added.score) {
        (true, Some(score)) => call.reply().double(score),
        (true, None) => call.reply().null(),
        (false, _) => {
            let changed = if options.counts_changes {
                added.changed
            } else {
                0
            };
            return call.integer((added.new + changed) as i64);
        }
    }
    DONE
}

pub(in crate::resp) fn zrem(call: &mut Call<'_>) -> Outcome {
    let members = &call.args[2..];
    let edited = call.edit::<SortedSets, _>(call.first_key()?, |set| {
        Ok(members.iter().filter(|member| set.remove(member)).count())
    })?;
    notify_removed(call, "zrem", edited.is_changed, edited.is_gone);
    call.integer(edited.answer as i64)
}

pub(in crate::resp) fn zscore(call: &mut Call<'_>) -> Outcome {
    let value = first_sorted(call)?;
    match value.and_then(|value| SortedSet::view(&value).score(call.args[2])) {
        Some(score) => call.reply().double(score),
        None => call.reply().null(),
    }
    DONE
}

pub(in crate::resp) fn zmscore(call: &mut Call<'_>) -> Outcome {
    let value = first_sorted(call)?;
    let set = value.as_ref().map(|value| SortedSet::view(value));
    let members = &call.args[2..];
    let mut reply = call.reply();
    reply.array(members.len());
    for member in members {
        match set.as_ref().and_then(|set| set.score(member)) {
            Some(score) => reply.double(score),
            None => reply.null(),
        }
    }
    DONE
}

pub(in crate::resp) fn zcard(call: &mut Call<'_>) -> Outcome {
    let value = first_sorted(call)?;
    call.integer(value.map_or(0, |value| SortedSet::view(&value).len()) as i64)
}

pub(in crate::resp) fn zrank(call: &mut Call<'_>) -> Outcome {
    let with_score = match call.args {
        [_, _, _] => false,
        [_, _, _, word] if word.eq_ignore_ascii_case(b"WITHSCORE") => true,
        _ => return Err(Failure::Syntax),
    };
    let value = first_sorted(call)?;
    let set = value.as_ref().map(|value| SortedSet::view(value));
    let place = set.as_ref().and_then(|set| {
        let (rank, score) = set.rank(call.args[2])?;
        let is_reverse = call.command.verb == Verb::Zrevrank;
        Some((
            if is_reverse {
                set.len() - 1 - rank
            } else {
                rank
            },
            score,
        ))
    });
    let mut reply = call.reply();
    match (place, with_score) {
        (Some((rank, _)), false) => reply.integer(rank as i64),
        (Some((rank, score)), true) => {
            reply.array(2);
            reply.integer(rank as i64);
            reply.double(score);
        }
        (None, false) => reply.null(),
        (None, true) => reply.null_array(),
    }
    DONE
}

pub(in crate::resp) fn zrandmember(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 2 {
        let value = first_sorted(call)?;
        match value.as_ref().map(|value| SortedSet::view(value)) {
            Some(set) => call.reply().bulk(set.at(fastrand::usize(..set.len())).0),
            None => call.reply().null(),
        }
        return DONE;
    }
    let is_paired = call.args.len() > 3;
    let count = member_scan::count(call.args[2], false)?;
    if is_paired && (call.args.len() > 4 || !call.args[3].eq_ignore_ascii_case(b"WITHSCORES")) {
        return Err(Failure::Syntax);
    }
    member_scan::count(call.args[2], is_paired)?;
    let value = first_sorted(call)?;
    let members = value
        .as_ref()
        .map_or(0, |value| SortedSet::view(value).len());
    let proto = call.session.proto;
    let nested = is_paired && proto == Proto::V3;
    let values = if is_paired && !nested { 2 } else { 1 };
    let places = member_scan::draw(members, count)?;
    member_scan::answer_drawn(call, places, values, move |output, place| {
        if let Some(value) = &value {
            let set = SortedSet::view(value);
            let (member, score) = set.at(place);
            let mut reply = Reply::new(output.bytes(), proto);
            append_member(&mut reply, &member, is_paired.then_some(score));
        }
    })
}

pub(in crate::resp) fn zscan(call: &mut Call<'_>) -> Outcome {
    member_scan::answer(call, kind::SORTED_SET, |call, value, options| {
        let mut reply = call.reply();
        let (mut shown, mut text) = (0, Vec::with_capacity(FLOAT_BYTES_MAX));
        let set = SortedSet::view(value);
        let cursor = set.scan(options.cursor, options.count, |member, score| {
            if options.wants(member) {
                reply.bulk(member);
                shown += 1;
                if !options.bare {
                    text.clear();
                    write_float(score, &mut text);
                    reply.bulk(&text);
                    shown += 1;
                }
            }
        });
        (cursor, shown)
    })
}

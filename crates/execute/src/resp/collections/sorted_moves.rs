//! Sorted moves: members that go from one sorted set to another, with their scores.
//!
//! Source: Redis 8.12: redis.io/docs/latest/commands/zmove, bzmove and zmovemember.
//! Tests: server/tests/resp_sorted_algebra.rs, server/tests/resp_waits.rs.

use std::collections::HashSet;
use std::ops::Range;

use cellar_engine::{Handle, Key};
use cellar_shared::keyspace::kind;

use crate::resp::arguments::Arguments;
use crate::resp::call::notify::Class;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::collections::field_options::names_at;
use crate::resp::collections::member_scan;
use crate::resp::collections::sorted_ranges::{By, Ends, count_option, is_max};
use crate::resp::failure::Failure;
use cellar_values::{SortedSet, SortedSets};

/// Most members of one command: it moves them in one step, which has to be short.
const MOVED_MAX: usize = 1 << 10;

/// The positions of the selected members.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Lowest,
    Highest,
    Scores(Ends<'a>),
}

/// Which members ZMOVE and BZMOVE move.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) struct Selection<'a> {
    part: Part<'a>,
    count: usize,
}

impl<'a> Selection<'a> {
    /// Reads `MIN | MAX`, and behind it `[COUNT count]`.
    ///
    /// # Errors
    /// [`Failure::Syntax`], and that the count is not positive.
    pub(in crate::resp) fn of_end(end: &[u8], options: &[&[u8]]) -> Result<Selection<'a>, Failure> {
        let part = match is_max(end)? {
            true => Part::Highest,
            false => Part::Lowest,
        };
        Ok(Selection {
            part,
            count: count_option(options)?.unwrap_or(1),
        })
    }

    /// Reads `MIN | MAX | BYSCORE min max`, and behind it `[COUNT count]`. Without a count all
    /// members between the two scores are selected.
    fn parse(args: &'a [&'a [u8]]) -> Result<Selection<'a>, Failure> {
        match args {
            [by, low, high, options @ ..] if by.eq_ignore_ascii_case(b"BYSCORE") => Ok(Selection {
                part: Part::Scores(Ends::parse(By::Score, low, high)?),
                count: count_option(options)?.unwrap_or(usize::MAX),
            }),
            [end, options @ ..] => Selection::of_end(end, options),
            [] => Err(Failure::Syntax),
        }
    }

    fn places(self, set: &SortedSet<'_>) -> Range<usize> {
        let (len, count) = (set.len(), self.count.min(set.len()));
        match self.part {
            Part::Lowest => 0..count,
            Part::Highest => len - count..len,
            Part::Scores(ends) => {
                let places = ends.places(set, false);
                places.start..places.end.min(places.start.saturating_add(count))
            }
        }
    }

    /// The members in the order in which they are answered, and their places.
    ///
    /// # Errors
    /// That these are too many.
    fn read(self, set: &SortedSet<'_>) -> Result<(Moved, Range<usize>), Failure> {
        let (mut moved, places) = (Moved::default(), self.places(set));
        check_count(places.len())?;
        let mut add = |place: usize| {
            let (member, score) = set.at(place);
            moved.add(&member, score);
        };
        match self.part {
            Part::Highest => places.clone().rev().for_each(&mut add),
            _ => places.clone().for_each(&mut add),
        }
        Ok((moved, places))
    }

    /// The event of the source.
    fn event(self) -> &'static str {
        match self.part {
            Part::Lowest => "zpopmin",
            Part::Highest => "zpopmax",
            Part::Scores(_) => "zrem",
        }
    }
}

/// Members on their way.
#[derive(Default)]
struct Moved {
    members: Arguments,
    scores: Vec<f64>,
}

impl Moved {
    fn add(&mut self, member: &[u8], score: f64) {
        self.members.extend(&[member]);
        self.scores.push(score);
    }
}

/// The sorted set that members are moved from; none if there is none, or if it is the destination,
/// too.
///
/// # Errors
/// [`Failure::WrongType`].
fn source(call: &Call<'_>, from: Key<'_>, to: Key<'_>) -> Result<Option<Handle>, Failure> {
    let source = call.value(from, kind::SORTED_SET)?;
    if source.is_some() {
        call.value(to, kind::SORTED_SET)?;
    }
    Ok(source.filter(|_| from.bytes() != to.bytes()))
}

/// More at once would keep other clients waiting.
fn check_count(count: usize) -> Result<(), Failure> {
    match count > MOVED_MAX {
        true => Err(Failure::Text(
            format!("ERR more than {MOVED_MAX} members cannot be moved at once").into(),
        )),
        false => Ok(()),
    }
}

/// Puts members into the destination, takes them out of the source with `remove`, and answers
/// them.
fn transfer(
    call: &mut Call<'_>,
    moved: Moved,
    event: &'static str,
    mut remove: impl FnMut(&mut SortedSet<'_>, &Arguments),
) -> Outcome {
    let (from, to) = (call.key_at(1)?, call.key_at(2)?);
    let Moved { members, scores } = moved;
    // The destination first: it may have no room for them.
    let added = call.edit::<SortedSets, _>(to, |set| {
        for (member, &score) in members.iter().zip(&scores) {
            set.set(member, score);
        }
        Ok(())
    })?;
    call.session.preparation.note_begun();
    let removed = call.edit::<SortedSets, _>(from, |set| {
        remove(set, &members);
        Ok(())
    })?;
    call.notify(Class::SortedSet, event, from.bytes());
    if added.is_changed {
        call.notify(Class::SortedSet, "zadd", to.bytes());
    }
    if removed.is_gone {
        call.notify(Class::Generic, "del", from.bytes());
    }
    call.reply().array(members.len());
    member_scan::answer_taken(call, members, move |reply, place, member| {
        reply.array(2);
        reply.bulk(member);
        reply.double(scores[place]);
    })
}

/// Moves the selected members from the sorted set of the first key to that of the second, and
/// answers them with their scores; none if nothing is to be moved. Within one set nothing moves.
///
/// # Errors
/// [`Failure::WrongType`], that these are too many, and what the cache says to the new value.
pub(in crate::resp) fn try_move_sorted(
    call: &mut Call<'_>,
    selection: Selection<'_>,
) -> Result<Option<Outcome>, Failure> {
    call.as_step(|call| {
        let (from, to) = (call.key_at(1)?, call.key_at(2)?);
        let Some(source) = source(call, from, to)? else {
            if from.bytes() != to.bytes() {
                return Ok(None);
            }
            call.reply().null_array();
            return Ok(Some(DONE));
        };
        let (moved, places) = selection.read(&SortedSet::view(&source))?;
        if places.is_empty() {
            return Ok(None);
        }
        drop(source);
        let event = selection.event();
        Ok(Some(transfer(call, moved, event, |set, _| {
            set.remove_run(set.run_of_ranks(places.clone()));
        })))
    })
}

pub(in crate::resp) fn zmove(call: &mut Call<'_>) -> Outcome {
    let selection = Selection::parse(&call.args[3..])?;
    try_move_sorted(call, selection)?.unwrap_or_else(|| {
        call.reply().null_array();
        DONE
    })
}

/// Which of the named members ZMOVEMEMBER moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Always,
    /// NX: members that the destination does not have.
    Absent,
    /// XX: members that it has.
    Present,
}

pub(in crate::resp) fn zmovemember(call: &mut Call<'_>) -> Outcome {
    let (condition, at) = match call.args[3].to_ascii_uppercase().as_slice() {
        b"NX" => (Condition::Absent, 4),
        b"XX" => (Condition::Present, 4),
        _ => (Condition::Always, 3),
    };
    let names = names_at(call, at)?;
    check_count(names.len())?;
    call.as_step(|call| {
        let (from, to) = (call.key_at(1)?, call.key_at(2)?);
        let mut moved = Moved::default();
        if let Some(source) = source(call, from, to)? {
            let destination = call.value(to, kind::SORTED_SET)?;
            let destination = destination.as_ref().map(|value| SortedSet::view(value));
            let has = |member: &[u8]| {
                let mut set = destination.iter();
                set.any(|set| set.score(member).is_some())
            };
            let (set, mut seen) = (SortedSet::view(&source), HashSet::new());
            for &member in names {
                let is_wanted = match condition {
                    Condition::Always => true,
                    Condition::Absent => !has(member),
                    Condition::Present => has(member),
                };
                if let Some(score) = set.score(member).filter(|_| is_wanted)
                    && seen.insert(member)
                {
                    moved.add(member, score);
                }
            }
        }
        if moved.scores.is_empty() {
            call.reply().null_array();
            return DONE;
        }
        transfer(call, moved, "zrem", |set, members| {
            members.iter().for_each(|member| _ = set.remove(member));
        })
    })
}

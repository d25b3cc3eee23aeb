//! Sorted algebra: what several sorted sets, or sets, have together, in common, or not.
//!
//! The values are taken in one step, while no other event loop executes, and stay as they are then
//! ([`Ranking`]).
//!
//! Operand: redis.io/docs/latest/commands/zunionstore and its neighbours.

use std::ops::Range;

use cellar_config::limits::RESULT_BYTES_MAX;
use cellar_engine::Handle;
use cellar_protocol::resp::number::{parse_float, parse_integer};
use cellar_protocol::resp::{Command, Proto, Reply, Verb};

use crate::resp::append_failure;
use crate::resp::call::steps::{Progress, STEP_BYTES, STEP_ITEMS};
use crate::resp::call::{Call, Outcome};
use crate::resp::collections::ranking::{Aggregate, Algebra, Operand, Ranking};
use crate::resp::collections::sorted_members::append_member;
use crate::resp::collections::sorted_ranges::part_to_store;
use crate::resp::collections::sorted_store::{self, Supply};
use crate::resp::failure::Failure;
use cellar_values::{SortedSet, SortedSetBuilder};

/// What a request asks for, behind its destination if it has one.
struct Wish {
    operation: Algebra,
    /// The place of the first key, and how many there are.
    first: usize,
    keys: usize,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Members that are counted at most.
    limit: usize,
}

fn operation_of(command: &Command) -> Algebra {
    match command.verb {
        Verb::Zunion | Verb::Zunionstore => Algebra::Union,
        Verb::Zdiff | Verb::Zdiffstore => Algebra::Difference,
        _ => Algebra::Intersection,
    }
}

impl Wish {
    /// The keys of a request whose number of keys is argument `at`; the options come later, as the
    /// kinds of the values are looked at before.
    fn of_keys(call: &Call<'_>, at: usize) -> Result<Wish, Failure> {
        let keys = parse_integer(call.args[at]).ok_or(Failure::NotInteger)?;
        let Some(keys) = usize::try_from(keys).ok().filter(|keys| *keys > 0) else {
            let name = call.command.name;
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(Failure::Text(text.into()));
        };
        if keys > call.args.len() - at - 1 {
            return Err(Failure::Syntax);
        }
        Ok(Wish {
            operation: operation_of(call.command),
            first: at + 1,
            keys,
            weights: vec![1.0; keys],
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: usize::MAX,
        })
    }

    fn parse_options(&mut self, call: &Call<'_>) -> Result<(), Failure> {
        let counts = call.command.verb == Verb::Zintercard;
        let has_scores = self.operation != Algebra::Difference && !counts;
        let stores = self.first == 3;
        let mut args = &call.args[self.first + self.keys..];
        while let [name, rest @ ..] = args {
            let name = name.to_ascii_uppercase();
            args = match (name.as_slice(), rest) {
                (b"WEIGHTS", _) if has_scores && rest.len() >= self.keys => {
                    let (weights, rest) = rest.split_at(self.keys);
                    let bad = Failure::text("ERR weight value is not a float");
                    let weights = weights.iter().map(|weight| parse_float(weight));
                    self.weights = weights.collect::<Option<Vec<f64>>>().ok_or(bad)?;
                    rest
                }
                (b"AGGREGATE", [how, rest @ ..]) if has_scores => {
                    self.aggregate = Aggregate::parse(how).ok_or(Failure::Syntax)?;
                    rest
                }
                (b"WITHSCORES", rest) if !stores && !counts => {
                    self.with_scores = true;
                    rest
                }
                (b"LIMIT", [limit, rest @ ..]) if counts => {
                    let limit = parse_integer(limit).and_then(|limit| usize::try_from(limit).ok());
                    let bad = Failure::text("ERR LIMIT can't be negative");
                    let limit = limit.ok_or(bad)?;
                    self.limit = if limit == 0 { usize::MAX } else { limit };
                    rest
                }
                _ => return Err(Failure::Syntax),
            };
        }
        Ok(())
    }
}

/// Takes the values that a request names and reads the rest of it; `at` is its number of keys.
fn begin(call: &Call<'_>, at: usize) -> Result<(Wish, Ranking), Failure> {
    let mut wish = Wish::of_keys(call, at)?;
    let (mut sources, now) = (Vec::with_capacity(wish.keys), call.now());
    for index in wish.first..wish.first + wish.keys {
        let key = call.key_at(index)?;
        let found = call.cache().get(key, |item| Operand::of(item, now));
        sources.push(found.transpose()?.unwrap_or(Operand::Nothing));
    }
    wish.parse_options(call)?;
    let sources = sources.into_iter().zip(wish.weights.iter().copied());
    let ranking = Ranking::of(wish.operation, wish.aggregate, sources.collect());
    Ok((wish, ranking))
}

/// ZUNION, ZINTER, ZDIFF.
pub(in crate::resp) fn answer(call: &mut Call<'_>) -> Outcome {
    let (wish, mut ranking) = call.as_step(|call| begin(call, 1))?;
    let (proto, with_scores) = (call.session.proto, wish.with_scores);
    let mut has_head = false;
    call.in_steps(move |context, output| {
        if !has_head {
            if ranking.step(STEP_ITEMS) == Progress::More {
                return Progress::More;
            }
            if ranking.bytes > RESULT_BYTES_MAX {
                let failure = Failure::text("ERR the reply would be longer than 64 MiB");
                append_failure(&failure, proto, context, output);
                return Progress::Last;
            }
            let is_flat = with_scores && proto == Proto::V2;
            let values = ranking.count * if is_flat { 2 } else { 1 };
            Reply::new(output.bytes(), proto).array(values);
            has_head = true;
        }
        let mut reply = Reply::new(output.bytes(), proto);
        let full = reply.out.len() + STEP_BYTES;
        for _ in 0..STEP_ITEMS {
            let shown = ranking.next(|member, score| {
                append_member(&mut reply, member, with_scores.then_some(score));
            });
            if !shown {
                return Progress::Last;
            }
            if reply.out.len() >= full {
                break;
            }
        }
        Progress::More
    })
}

/// ZINTERCARD.
pub(in crate::resp) fn zintercard(call: &mut Call<'_>) -> Outcome {
    let (wish, mut ranking) = call.as_step(|call| begin(call, 1))?;
    ranking.count_only(wish.limit);
    let proto = call.session.proto;
    call.in_steps(move |_, output| {
        let step = ranking.step(STEP_ITEMS);
        if step == Progress::Last {
            Reply::new(output.bytes(), proto).integer(ranking.count as i64);
        }
        step
    })
}

impl Supply for Ranking {
    fn prepare(&mut self) -> Progress {
        self.step(STEP_ITEMS)
    }

    fn count(&self) -> usize {
        self.count
    }

    fn is_large(&self) -> bool {
        self.is_large_copy()
    }

    fn begin(&mut self) -> SortedSetBuilder {
        self.take_set()
    }

    fn next(&mut self, set: &mut SortedSetBuilder) -> bool {
        Ranking::next(self, |member, score| {
            // What is stored has no negative zero.
            set.push(member, score + 0.0);
        })
    }
}

/// The places of a sorted set, if there is one.
struct Part(Option<(Handle, Range<usize>)>);

impl Supply for Part {
    fn prepare(&mut self) -> Progress {
        Progress::Last
    }

    fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |(_, places)| places.len())
    }

    fn next(&mut self, set: &mut SortedSetBuilder) -> bool {
        let Some((value, places)) = &mut self.0 else {
            return false;
        };
        let Some(place) = places.next() else {
            return false;
        };
        let view = SortedSet::view(value);
        let (member, score) = view.at(place);
        set.push(&member, score);
        true
    }
}

/// ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE.
pub(in crate::resp) fn store(call: &mut Call<'_>) -> Outcome {
    let event = match call.command.verb {
        Verb::Zunionstore => "zunionstore",
        Verb::Zinterstore => "zinterstore",
        _ => "zdiffstore",
    };
    sorted_store::store(call, call.args[1], event, |call| {
        let (_, mut ranking) = begin(call, 2)?;
        ranking.bytes_max = call.cache().collection_bytes_max();
        ranking.make_set();
        Ok(ranking)
    })
}

/// ZRANGESTORE.
pub(in crate::resp) fn zrangestore(call: &mut Call<'_>) -> Outcome {
    sorted_store::store(call, call.args[1], "zrangestore", |call| {
        Ok(Part(part_to_store(call)?))
    })
}

//! Waiting: commands that take something from the first of several keys that has some, or wait
//! until one has.
//!
//! Source: redis.io/docs/latest/commands/blpop and its neighbours. serve.rs defines the order in
//! which waiting clients are served.
//! Why: docs/decisions/0046. Tests: server/tests/resp_waits.rs.

pub(super) mod serve; // stores serve waiting clients

use std::ops::Range;
use std::sync::Arc;

use cellar_config::limits::WAITED_BYTES_MAX;
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::number::parse_float;
use cellar_shared::clients::waiters::{WaitRequest, Waiter, WantedKind};

use super::call::{Call, Outcome};
use super::collections::list_moves::{
    HowMany, Several, several, sides, try_move, try_move_several, try_pop_several,
};
use super::collections::lists::element_at;
use super::collections::sorted_moves::{Selection, try_move_sorted};
use super::collections::sorted_ranges::{
    SeveralSorted, several_sorted, try_pop_one, try_pop_sorted,
};
use super::failure::Failure;
use super::session::ReplyMode;
use crate::context::Flow;
use cellar_values::List;
use cellar_values::list::Side;

/// What a command takes, from whichever of its keys.
#[derive(Clone, Copy, Debug)]
enum Aim {
    /// The element at an end of a list.
    Element(Side),
    /// The same, for another list.
    Move,
    /// Some of a list, for another one.
    Moves(HowMany),
    /// Some of a list.
    Elements(Several),
    /// The lowest or the highest member of a sorted set.
    Member { is_max: bool },
    /// Some of a sorted set.
    Members(SeveralSorted),
    /// The same, for another one.
    MemberMoves(Selection<'static>),
}

/// What a command asks for.
#[derive(Clone, Debug)]
struct Errand {
    /// The positions of the keys among its arguments.
    keys: Range<usize>,
    aim: Aim,
    /// How long it waits; none for ever.
    timeout_ms: Option<u64>,
}

impl Errand {
    /// # Errors
    /// As Redis, in its order.
    fn parse(call: &Call<'_>) -> Result<Errand, Failure> {
        let args = call.args;
        let (timeout, keys, aim) = match call.command.verb {
            verb @ (Verb::Blmove | Verb::Brpoplpush) => {
                sides(call)?;
                let timeout = if verb == Verb::Blmove { 5 } else { 3 };
                (timeout, 1..2, Aim::Move)
            }
            Verb::Blmovem => {
                sides(call)?;
                (5, 1..2, Aim::Moves(HowMany::parse(&args[6..])?))
            }
            Verb::Blmpop => {
                let timeout_ms = timeout_ms(call, args[1])?;
                let several = several(args, 2)?;
                return Ok(Errand {
                    keys: several.keys.0..several.keys.1,
                    aim: Aim::Elements(several),
                    timeout_ms,
                });
            }
            Verb::Bzmpop => {
                let timeout_ms = timeout_ms(call, args[1])?;
                let several = several_sorted(args, 2)?;
                return Ok(Errand {
                    keys: several.keys.0..several.keys.1,
                    aim: Aim::Members(several),
                    timeout_ms,
                });
            }
            Verb::Bzmove => {
                let timeout_ms = timeout_ms(call, args[4])?;
                return Ok(Errand {
                    keys: 1..2,
                    aim: Aim::MemberMoves(Selection::of_end(args[3], &args[5..])?),
                    timeout_ms,
                });
            }
            verb => {
                let last = args.len() - 1;
                let aim = match verb {
                    Verb::Brpop => Aim::Element(Side::Right),
                    Verb::Bzpopmin => Aim::Member { is_max: false },
                    Verb::Bzpopmax => Aim::Member { is_max: true },
                    _ => Aim::Element(Side::Left),
                };
                (last, 1..last, aim)
            }
        };
        Ok(Errand {
            keys,
            aim,
            timeout_ms: timeout_ms(call, args[timeout])?,
        })
    }

    /// What its keys have to hold.
    fn kind(&self) -> WantedKind {
        match self.aim {
            Aim::Element(_) | Aim::Move | Aim::Moves(_) | Aim::Elements(_) => WantedKind::List,
            Aim::Member { .. } | Aim::Members(_) | Aim::MemberMoves(_) => WantedKind::SortedSet,
        }
    }

    /// Takes what is asked for from one of the keys, and answers it; none if nothing is there.
    ///
    /// # Errors
    /// [`Failure::WrongType`], and what the cache says to what is put into another list.
    fn try_at(&self, call: &mut Call<'_>, place: usize) -> Result<Option<Flow>, Failure> {
        let is_done = match self.aim {
            Aim::Element(side) => pop_element(call, place, side)?,
            Aim::Move => try_move(call)?,
            Aim::Moves(how_many) => try_move_several(call, how_many)?,
            Aim::Elements(several) => return try_pop_several(call, place, &several)?.transpose(),
            Aim::Member { is_max } => try_pop_one(call, place, is_max)?,
            Aim::Members(several) => return try_pop_sorted(call, place, &several)?.transpose(),
            Aim::MemberMoves(selection) => return try_move_sorted(call, selection)?.transpose(),
        };
        Ok(is_done.then_some(Flow::Continue))
    }

    /// The same from the first of the keys that has something.
    fn look(&self, call: &mut Call<'_>) -> Result<Option<Flow>, Failure> {
        let waiters = &call.context.state.observer.waiters;
        for place in self.keys.clone() {
            let is_promised = call.session.may_wait()
                && waiters.is_marked(call.session.database, call.args[place]);
            if !is_promised && let Some(flow) = self.try_at(call, place)? {
                return Ok(Some(flow));
            }
        }
        Ok(None)
    }
}

/// Takes an element from an end of a list, and answers it with the key; whether there was one.
fn pop_element(call: &mut Call<'_>, place: usize, side: Side) -> Result<bool, Failure> {
    let read = |list: List<'_>| element_at(list, side);
    let Some(element) = call.pop_one(call.key_at(place)?, side, read)? else {
        return Ok(false);
    };
    let name = call.args[place];
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(name);
    reply.bulk(element);
    Ok(true)
}

/// Reads a time in seconds; none for ever.
///
/// Source: Redis 7.2, `getTimeoutFromObjectOrReply`.
fn timeout_ms(call: &Call<'_>, text: &[u8]) -> Result<Option<u64>, Failure> {
    let seconds = parse_float(text);
    let seconds = seconds.ok_or(Failure::text("ERR timeout is not a float or out of range"))?;
    let ms = (seconds * 1_000.0).ceil();
    if ms < 0.0 {
        return Err(Failure::text("ERR timeout is negative"));
    }
    let most = i64::MAX as u64 - call.unix_ms(call.now());
    if ms > most as f64 {
        return Err(Failure::text("ERR timeout is out of range"));
    }
    Ok((ms > 0.0).then_some(ms as u64))
}

/// BLPOP, BRPOP, BLMOVE, BLMOVEM, BRPOPLPUSH, BLMPOP, BZPOPMIN, BZPOPMAX, BZMPOP, BZMOVE.
pub(super) fn wait_for(call: &mut Call<'_>) -> Outcome {
    let errand = Errand::parse(call)?;
    let moves = matches!(errand.aim, Aim::Move | Aim::Moves(_) | Aim::MemberMoves(_));
    if moves || errand.keys.len() > 1 {
        // What others store in several of the keys as one step is seen so.
        return call.as_step(|call| look_or_wait(call, &errand));
    }
    look_or_wait(call, &errand)
}

fn look_or_wait(call: &mut Call<'_>, errand: &Errand) -> Outcome {
    if let Some(flow) = errand.look(call)? {
        return Ok(flow);
    }
    if !call.session.may_wait() {
        match errand.aim {
            Aim::Move => call.reply().null(),
            _ => call.reply().null_array(),
        }
        return Ok(Flow::Continue);
    }
    let waiter = register(call, errand)?;
    // What was stored before this look is found by it, and what is stored later marks its key.
    let found = errand.look(call);
    if let Ok(None) = found {
        return Ok(Flow::Park(waiter));
    }
    call.context.state.observer.unwait(&waiter);
    Ok(found?.unwrap_or(Flow::Continue))
}

fn register(call: &Call<'_>, errand: &Errand) -> Result<Arc<Waiter>, Failure> {
    let session = &*call.session;
    let now_ms = call.now().0;
    let request = WaitRequest {
        client: Arc::clone(&session.client),
        database: session.database,
        proto: session.proto,
        is_silent: session.reply_mode != ReplyMode::On,
        command: call.command,
        args: call.args.iter().map(|&arg| arg.into()).collect(),
        keys: errand.keys.clone(),
        kind: errand.kind(),
        until_ms: errand.timeout_ms.map(|ms| now_ms.saturating_add(ms)),
    };
    if request.names_bytes() > WAITED_BYTES_MAX {
        return Err(Failure::text("ERR too many keys to wait for"));
    }
    let waiter = call.context.state.observer.wait(request);
    waiter.ok_or(Failure::text("ERR too many clients wait for keys"))
}

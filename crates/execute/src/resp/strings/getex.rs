//! GETEX and its relatives: read a string and change its deadline or remove it, or remove a given
//! value.
//!
//! Source: redis.io/docs/latest/commands/getex, getdel and delex; valkey.io/commands/delifeq.

use cellar_engine::{Change, Deadline, Key, Kind};

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, Outcome};
use crate::resp::expiry::Unit;
use crate::resp::failure::Failure;
use crate::resp::strings::options::Condition;
use crate::resp::strings::values::{answer_value, as_string, count_read, update};
use crate::resp::wrong_arity;

pub(in crate::resp) fn getdel(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let old = update(call, key, |old, _| {
        let old = as_string(old)?.map(|item| item.pin());
        Ok((old, Change::Remove))
    })?;
    count_read(call, old.is_some());
    if old.is_some() {
        call.notify(Class::Generic, "del", key.bytes());
    }
    answer_value(call, old)
}

/// The change that GETEX makes to the deadline.
#[derive(Clone, Copy, Debug)]
enum Retiming<'a> {
    None,
    Persist,
    To(Unit, &'a [u8]),
}

impl<'a> Retiming<'a> {
    /// As in Redis an option may be said again, the last number counts; two different ones may not.
    fn parse(args: &[&'a [u8]]) -> Result<Retiming<'a>, Failure> {
        let mut retiming = Retiming::None;
        let mut args = args.iter();
        while let Some(&name) = args.next() {
            let next = if name.eq_ignore_ascii_case(b"PERSIST") {
                Retiming::Persist
            } else {
                let unit = Unit::of_option(name).ok_or(Failure::Syntax)?;
                Retiming::To(unit, args.next().ok_or(Failure::Syntax)?)
            };
            retiming = match (retiming, next) {
                (Retiming::None, _) | (Retiming::Persist, Retiming::Persist) => next,
                (Retiming::To(old, _), Retiming::To(unit, _)) if old == unit => next,
                _ => return Err(Failure::Syntax),
            };
        }
        Ok(retiming)
    }
}

pub(in crate::resp) fn getex(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let retiming = Retiming::parse(&call.args[2..])?;
    let (context, now) = (call.context, call.now());
    let found = update(call, key, |old, _| {
        let Some(item) = as_string(old)? else {
            return Ok((None, Change::Keep));
        };
        // As in Redis, a number is parsed only if the key has a string.
        let (event, change) = match retiming {
            Retiming::Persist if item.deadline != Deadline::NEVER => {
                (Some("persist"), Change::Retime(Deadline::NEVER))
            }
            Retiming::None | Retiming::Persist => (None, Change::Keep),
            Retiming::To(unit, number) => {
                let deadline = unit.option_deadline(number, "getex", context)?;
                if deadline.has_passed(now) {
                    (Some("del"), Change::Remove)
                } else {
                    (Some("expire"), Change::Retime(deadline))
                }
            }
        };
        Ok((Some((item.pin(), event)), change))
    })?;
    count_read(call, found.is_some());
    let (value, event) = found.unzip();
    if let Some(event) = event.flatten() {
        call.notify(Class::Generic, event, key.bytes());
    }
    answer_value(call, value)
}

/// DELEX: removes a key of any kind, or a string whose value meets a condition.
pub(in crate::resp) fn delex(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let (name, operand) = match call.args[2..] {
        [] => return remove_if(call, key, Condition::Always),
        [name, operand] => (name, operand),
        _ => return Err(wrong_arity(call.command, call.args)),
    };
    // Errors about the key come before those about the condition.
    match call.cache().facts(key, |facts| facts.kind) {
        None => return call.integer(0),
        Some(Kind::STRING) => {}
        Some(_) => return Err(NO_STRING),
    }
    let condition = match Condition::parse(name, operand) {
        Err(Failure::Syntax) | Ok(Condition::Version { .. }) => {
            return Err(Failure::text(
                "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE",
            ));
        }
        condition => condition?,
    };
    remove_if(call, key, condition).map_err(|failure| match failure {
        Failure::WrongType => NO_STRING,
        other => other,
    })
}

const NO_STRING: Failure =
    Failure::text("ERR Key should be of string type if conditions are specified");

pub(in crate::resp) fn delifeq(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.first_key()?, call.args[2]);
    remove_if(call, key, Condition::Equal(value))
}

/// Removes an item that meets a condition, and answers how many that were.
fn remove_if(call: &mut Call<'_>, key: Key<'_>, condition: Condition<'_>) -> Outcome {
    let is_removed = update(call, key, |old, _| {
        let is_it = old.is_some() && condition.holds(old)?;
        let change = if is_it { Change::Remove } else { Change::Keep };
        Ok((is_it, change))
    })?;
    if is_removed {
        call.notify(Class::Generic, "del", key.bytes());
    }
    call.integer(i64::from(is_removed))
}

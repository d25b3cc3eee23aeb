//! Deadlines: giving a key some time, taking its deadline away, telling what is left.
//!
//! A deadline is exact to the millisecond. Source: redis.io/docs/latest/commands/expire and its
//! neighbours.

use cellar_engine::{Change, Deadline, Item};
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::keyspace::kind::{own_deadline, with_own_deadline};

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, Outcome};
use crate::resp::expiry::Unit;
use crate::resp::failure::Failure;
use crate::resp::strings::values::{deadline_of, update};

/// Answered for a key without a deadline.
const NEVER: i64 = -1;
/// Answered for a key that is not there.
const MISSING: i64 = -2;

/// When EXPIRE changes a deadline.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    /// NX
    absent: bool,
    /// XX
    present: bool,
    /// GT
    later: bool,
    /// LT
    earlier: bool,
}

impl Conditions {
    fn parse(args: &[&[u8]]) -> Result<Conditions, Failure> {
        let mut these = Conditions::default();
        for &name in args {
            match name.to_ascii_uppercase().as_slice() {
                b"NX" => these.absent = true,
                b"XX" => these.present = true,
                b"GT" => these.later = true,
                b"LT" => these.earlier = true,
                _ => {
                    let name = String::from_utf8_lossy(name);
                    let name = name.trim_end_matches(['\r', '\n']);
                    let text = format!("ERR Unsupported option {name}");
                    return Err(Failure::Text(text.into()));
                }
            }
        }
        if these.absent && (these.present || these.later || these.earlier) {
            return Err(Failure::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if these.later && these.earlier {
            return Err(Failure::text(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(these)
    }

    /// Whether a deadline may become another; never is later than any.
    fn hold(self, before: Deadline, after: Deadline) -> bool {
        let has_one = before != Deadline::NEVER;
        (!self.absent || !has_one)
            && (!self.present || has_one)
            && (!self.later || after > before)
            && (!self.earlier || after < before)
    }
}

pub(in crate::resp) fn expire(call: &mut Call<'_>) -> Outcome {
    retime(call, Unit::Ex, "expire")
}

pub(in crate::resp) fn pexpire(call: &mut Call<'_>) -> Outcome {
    retime(call, Unit::Px, "pexpire")
}

pub(in crate::resp) fn expireat(call: &mut Call<'_>) -> Outcome {
    retime(call, Unit::ExAt, "expireat")
}

pub(in crate::resp) fn pexpireat(call: &mut Call<'_>) -> Outcome {
    retime(call, Unit::PxAt, "pexpireat")
}

fn retime(call: &mut Call<'_>, unit: Unit, command: &'static str) -> Outcome {
    let key = call.first_key()?;
    let conditions = Conditions::parse(&call.args[3..])?;
    let number = parse_integer(call.args[2]).ok_or(Failure::NotInteger)?;
    let deadline = unit.deadline(number, command, call.context)?;
    let has_passed = deadline.has_passed(call.now());
    let is_done = update(call, key, |old, scratch| {
        let is_one = |item: &Item<'_>| conditions.hold(own_deadline(*item), deadline);
        let Some(item) = old.filter(is_one) else {
            return Ok((false, Change::Keep));
        };
        if has_passed {
            return Ok((true, Change::Remove));
        }
        Ok((true, with_own_deadline(item, deadline, scratch)))
    })?;
    if is_done {
        let event = if has_passed { "del" } else { "expire" };
        call.notify(Class::Generic, event, key.bytes());
    }
    call.integer(i64::from(is_done))
}

pub(in crate::resp) fn persist(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let is_done = update(call, key, |old, scratch| {
        let has_one = |item: &Item<'_>| own_deadline(*item) != Deadline::NEVER;
        let Some(item) = old.filter(has_one) else {
            return Ok((false, Change::Keep));
        };
        Ok((true, with_own_deadline(item, Deadline::NEVER, scratch)))
    })?;
    if is_done {
        call.notify(Class::Generic, "persist", key.bytes());
    }
    call.integer(i64::from(is_done))
}

pub(in crate::resp) fn ttl(call: &mut Call<'_>) -> Outcome {
    tell(call, |call, deadline| call.left_ms(deadline).map(rounded_s))
}

pub(in crate::resp) fn pttl(call: &mut Call<'_>) -> Outcome {
    tell(call, |call, deadline| call.left_ms(deadline))
}

pub(in crate::resp) fn expiretime(call: &mut Call<'_>) -> Outcome {
    tell(call, |call, deadline| {
        unix_ms(call, deadline).map(rounded_s)
    })
}

pub(in crate::resp) fn pexpiretime(call: &mut Call<'_>) -> Outcome {
    tell(call, unix_ms)
}

fn unix_ms(call: &Call<'_>, deadline: Deadline) -> Option<u64> {
    deadline.instant().map(|at| call.unix_ms(at))
}

fn rounded_s(ms: u64) -> u64 {
    (ms + 500) / 1_000
}

fn tell(call: &mut Call<'_>, number: impl FnOnce(&Call<'_>, Deadline) -> Option<u64>) -> Outcome {
    let key = call.first_key()?;
    let deadline = deadline_of(call, key)?;
    let number = match deadline {
        Some(deadline) => {
            number(call, deadline).map_or(NEVER, |number| i64::try_from(number).unwrap_or(i64::MAX))
        }
        None => MISSING,
    };
    call.integer(number)
}

//! INCREX: counting within bounds and setting a time to live in the same step.
//!
//! A result outside of the bounds is not stored, or with SATURATE the bound is. The answer is the
//! number that is stored then, and what was added.
//!
//! Source: redis.io/docs/latest/commands/increx; NX and XX: valkey.io/commands/increx.

use cellar_engine::{Change, Deadline, Item};
use cellar_protocol::resp::number::{Decimal, parse_integer};

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::expiry::Unit;
use crate::resp::failure::Failure;
use crate::resp::strings::numbers::{decimal_of, finite, integer_of};
use crate::resp::strings::values::{store_keeping, update};

/// The options of INCREX.
#[derive(Clone, Copy, Debug, Default)]
struct IncrexOptions<'a> {
    by: Option<(bool, &'a [u8])>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturates: bool,
    expiry: Option<(Unit, &'a [u8])>,
    persists: bool,
    /// Whether a deadline is given only to a key that has none: ENX.
    only_without: bool,
    /// NX is `Some(false)`, XX is `Some(true)`.
    present: Option<bool>,
}

impl<'a> IncrexOptions<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<IncrexOptions<'a>, Failure> {
        let mut options = IncrexOptions::default();
        let mut args = args.iter();
        while let Some(&name) = args.next() {
            match name.to_ascii_uppercase().as_slice() {
                b"SATURATE" => options.saturates = true,
                b"PERSIST" => options.persists = true,
                b"ENX" => options.only_without = true,
                b"NX" | b"XX" if options.present.is_some() => return Err(Failure::Syntax),
                b"NX" => options.present = Some(false),
                b"XX" => options.present = Some(true),
                name => options.parse_pair(name, args.next().ok_or(Failure::Syntax)?)?,
            }
        }
        if options.persists && (options.expiry.is_some() || options.only_without) {
            return Err(Failure::Syntax);
        }
        if options.only_without && options.expiry.is_none() {
            return Err(Failure::text("ERR ENX flag requires an expiration"));
        }
        Ok(options)
    }

    fn parse_pair(&mut self, name: &[u8], operand: &'a [u8]) -> Result<(), Failure> {
        let is_new = match name {
            b"BYINT" => self.by.replace((false, operand)).is_none(),
            b"BYFLOAT" => self.by.replace((true, operand)).is_none(),
            b"LBOUND" => self.lower.replace(operand).is_none(),
            b"UBOUND" => self.upper.replace(operand).is_none(),
            _ => {
                let unit = Unit::of_option(name).ok_or(Failure::Syntax)?;
                self.expiry.replace((unit, operand)).is_none()
            }
        };
        is_new.then_some(()).ok_or(Failure::Syntax)
    }
}

const CROSSED: Failure = Failure::text("ERR LBOUND can't be greater than UBOUND");

/// The result of a count: the new number and the increment; the number is missing if the key is.
type Counted<N> = (Option<N>, N);

pub(in crate::resp) fn increx(call: &mut Call<'_>) -> Outcome {
    let options = IncrexOptions::parse(&call.args[2..])?;
    let deadline = match options.expiry {
        Some((unit, number)) => Some(unit.option_deadline(number, "increx", call.context)?),
        None => None,
    };
    match options.by {
        Some((true, by)) => by_float(call, &options, by, deadline),
        Some((false, by)) => by_integer(call, &options, by, deadline),
        None => by_integer(call, &options, b"1", deadline),
    }
}

fn by_integer(
    call: &mut Call<'_>,
    options: &IncrexOptions<'_>,
    by: &[u8],
    deadline: Option<Deadline>,
) -> Outcome {
    let bound = |bound: Option<&[u8]>, limit| match bound {
        Some(text) => parse_integer(text).ok_or(Failure::NotInteger),
        None => Ok(limit),
    };
    let by = parse_integer(by).ok_or(Failure::NotInteger)?;
    let lower = bound(options.lower, i64::MIN)?;
    let upper = bound(options.upper, i64::MAX)?;
    if lower > upper {
        return Err(CROSSED);
    }
    let (now, added) = count(call, options, deadline, |old, scratch| {
        let before = integer_of(old)?;
        if !is_wanted(options, old) {
            return Ok((false, (old.map(|_| before), 0)));
        }
        let sum = i128::from(before) + i128::from(by);
        let capped = sum.clamp(lower.into(), upper.into());
        if capped != sum && !options.saturates {
            return Ok((false, (Some(before), 0)));
        }
        let after = i64::try_from(capped).expect("both bounds are such numbers");
        scratch.extend_from_slice(itoa::Buffer::new().format(after).as_bytes());
        // The difference exceeds an `i64` only from one end of the range to the other.
        Ok((true, (Some(after), after.saturating_sub(before))))
    })?;
    let mut reply = call.reply();
    reply.array(2);
    match now {
        Some(now) => reply.integer(now),
        None => reply.null(),
    }
    reply.integer(added);
    DONE
}

fn by_float(
    call: &mut Call<'_>,
    options: &IncrexOptions<'_>,
    by: &[u8],
    deadline: Option<Deadline>,
) -> Outcome {
    let bound = |bound: Option<&[u8]>, limit: f64| match bound {
        Some(text) => finite(text),
        None => Ok(Decimal::Float(limit)),
    };
    let by = finite(by)?;
    let lower = bound(options.lower, f64::MIN)?;
    let upper = bound(options.upper, f64::MAX)?;
    if is_less(upper, lower) {
        return Err(CROSSED);
    }
    let none = Decimal::Exact(0);
    let (now, added) = count(call, options, deadline, |old, scratch| {
        let before = decimal_of(old)?;
        if !is_wanted(options, old) {
            return Ok((false, (old.map(|_| before), none)));
        }
        let far = if by.float() < 0.0 { lower } else { upper };
        let (after, is_within) = match before.plus(by) {
            Some(sum) if is_less(sum, lower) => (lower, false),
            Some(sum) if is_less(upper, sum) => (upper, false),
            Some(sum) => (sum, true),
            None => (far, false),
        };
        if !is_within && !options.saturates {
            return Ok((false, (Some(before), none)));
        }
        after.write(scratch);
        let added = if is_within { by } else { minus(after, before) };
        Ok((true, (Some(after), added)))
    })?;
    let mut reply = call.reply();
    reply.array(2);
    for number in [now, Some(added)] {
        match number {
            Some(number) if reply.proto == cellar_protocol::resp::Proto::V2 => {
                let mut text = Vec::new();
                number.write(&mut text);
                reply.bulk(text);
            }
            Some(number) => reply.double(number.float()),
            None => reply.null(),
        }
    }
    DONE
}

fn is_less(one: Decimal, other: Decimal) -> bool {
    match (one, other) {
        (Decimal::Exact(one), Decimal::Exact(other)) => one < other,
        _ => one.float() < other.float(),
    }
}

fn minus(one: Decimal, other: Decimal) -> Decimal {
    let negated = match other {
        Decimal::Exact(units) => Decimal::Exact(-units),
        Decimal::Float(float) => Decimal::Float(-float),
    };
    one.plus(negated).unwrap_or(one)
}

/// Whether NX or XX lets the number of `old` be counted.
fn is_wanted(options: &IncrexOptions<'_>, old: Option<Item<'_>>) -> bool {
    options
        .present
        .is_none_or(|present| present == old.is_some())
}

/// Has `add` count, which says whether it wrote the new number, and keeps or changes the deadline.
fn count<N>(
    call: &mut Call<'_>,
    options: &IncrexOptions<'_>,
    deadline: Option<Deadline>,
    mut add: impl FnMut(Option<Item<'_>>, &mut Vec<u8>) -> Result<(bool, Counted<N>), Failure>,
) -> Result<Counted<N>, Failure> {
    let key = call.first_key()?;
    let (is_stored, counted, event) = update(call, key, |old, scratch| {
        let (is_stored, counted) = add(old, scratch)?;
        if !is_stored {
            return Ok(((false, counted, None), Change::Keep));
        }
        let named = deadline.or(options.persists.then_some(Deadline::NEVER));
        let before = match (old, named) {
            (Some(item), _) => item.deadline,
            (None, Some(_)) => Deadline::NEVER,
            (None, None) => call.default_deadline(),
        };
        let wanted = match named {
            Some(named) if !options.only_without || before == Deadline::NEVER => named,
            _ => before,
        };
        let event = if wanted == before {
            None
        } else if wanted == Deadline::NEVER {
            Some("persist")
        } else {
            Some("expire")
        };
        let change = match store_keeping(call, old) {
            Change::Store { kind, flags, .. } => Change::Store {
                kind,
                flags,
                deadline: wanted,
            },
            other => other,
        };
        Ok(((true, counted, event), change))
    })?;
    if is_stored {
        let name = match options.by {
            Some((true, _)) => "incrbyfloat",
            _ => "incrby",
        };
        call.notify(Class::String, name, key.bytes());
    }
    if let Some(event) = event {
        call.notify(Class::Generic, event, key.bytes());
    }
    Ok(counted)
}

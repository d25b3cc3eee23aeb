//! Numbers: counting a string up and down.
//!
//! Source: redis.io/docs/latest/commands/incr and its neighbours.

use cellar_engine::Item;
use cellar_protocol::resp::number::{Decimal, parse_float, parse_integer};

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::values::{as_string, store_keeping, update};

pub(in crate::resp) fn incr(call: &mut Call<'_>) -> Outcome {
    add(call, 1)
}

pub(in crate::resp) fn decr(call: &mut Call<'_>) -> Outcome {
    add(call, -1)
}

pub(in crate::resp) fn incrby(call: &mut Call<'_>) -> Outcome {
    let delta = parse_integer(call.args[2]).ok_or(Failure::NotInteger)?;
    add(call, delta)
}

pub(in crate::resp) fn decrby(call: &mut Call<'_>) -> Outcome {
    let delta = parse_integer(call.args[2]).ok_or(Failure::NotInteger)?;
    let negated = delta.checked_neg();
    add(
        call,
        negated.ok_or(Failure::text("ERR decrement would overflow"))?,
    )
}

/// The number in a value without trailing spaces: memcached's `decr` leaves them where the number
/// has become shorter.
pub(in crate::resp) fn unpadded(value: &[u8]) -> &[u8] {
    match value.iter().rposition(|&byte| byte != b' ') {
        Some(last) if value[..=last].iter().all(u8::is_ascii_digit) => &value[..=last],
        _ => value,
    }
}

/// The integer of an item; zero if it does not exist.
pub(in crate::resp) fn integer_of(old: Option<Item<'_>>) -> Result<i64, Failure> {
    match as_string(old)? {
        Some(item) => parse_integer(unpadded(item.value)).ok_or(Failure::NotInteger),
        None => Ok(0),
    }
}

/// The decimal number of an item; zero if it does not exist.
pub(in crate::resp) fn decimal_of(old: Option<Item<'_>>) -> Result<Decimal, Failure> {
    match as_string(old)? {
        Some(item) => Decimal::parse(unpadded(item.value)).ok_or(Failure::NotFloat),
        None => Ok(Decimal::Exact(0)),
    }
}

fn add(call: &mut Call<'_>, delta: i64) -> Outcome {
    let key = call.first_key()?;
    let number = update(call, key, |old, scratch| {
        let number = integer_of(old)?;
        let number = number.checked_add(delta).ok_or(Failure::Overflow)?;
        scratch.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        Ok((number, store_keeping(call, old)))
    })?;
    call.notify(Class::String, "incrby", key.bytes());
    call.integer(number)
}

pub(in crate::resp) fn incrbyfloat(call: &mut Call<'_>) -> Outcome {
    let (key, delta) = (call.first_key()?, call.args[2]);
    let text = update(call, key, |old, scratch| {
        let number = decimal_of(old)?;
        let delta = Decimal::parse(delta).ok_or(Failure::NotFloat)?;
        let sum = number.plus(delta).ok_or(NOT_FINITE)?;
        sum.write(scratch);
        Ok((scratch.clone(), store_keeping(call, old)))
    })?;
    call.notify(Class::String, "incrbyfloat", key.bytes());
    call.reply().bulk(text);
    DONE
}

const NOT_FINITE: Failure = Failure::text("ERR increment would produce NaN or Infinity");

/// A finite number as an option gives it.
pub(in crate::resp) fn finite(text: &[u8]) -> Result<Decimal, Failure> {
    let number = parse_float(text).filter(|number| number.is_finite());
    number
        .and_then(|_| Decimal::parse(text))
        .ok_or(Failure::NotFloat)
}

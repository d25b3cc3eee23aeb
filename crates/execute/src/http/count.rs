//! Counts: POST to a key's `incr`.
//!
//! Numbers are signed and have 64 bits, as with the Redis protocol; a key that is not there counts
//! from `initial`.

use std::cell::Cell;

use cellar_engine::{Change, Deadline, Item, Key, Kind};
use cellar_protocol::http::{Mark, Status};
use cellar_shared::clients::events::Class;

use super::call::{Call, DONE, Failure, NOT_FOUND, Outcome, WRONG_KIND, shown};
use super::parameters;

const NOT_A_NUMBER: Failure = Failure::new(
    Status::CONFLICT,
    "not_a_number",
    "the value is not a 64-bit decimal number",
);
const OUT_OF_RANGE: Failure = Failure::new(
    Status::CONFLICT,
    "out_of_range",
    "the result is not a 64-bit number; the value is unchanged",
);

/// The parameters of a counter request.
#[derive(Clone, Copy)]
struct CountOrder {
    delta: i64,
    initial: i64,
    /// The deadline of a number that is created, and whether the client named it.
    deadline: Deadline,
    names_ttl: bool,
    must_exist: bool,
}

impl CountOrder {
    fn of(call: &Call<'_>) -> Result<CountOrder, Failure> {
        let [delta, initial, ttl] =
            parameters::take(&call.request.target, ["delta", "initial", "ttl"])?;
        let marks = call.request.marks;
        let must_exist = call.request.field(Mark::IfMatch) == Some(b"*");
        if marks.has(Mark::IfNoneMatch) || marks.has(Mark::IfMatch) && !must_exist {
            let message = "the only condition of a count is If-Match: *";
            return Err(Failure::bad("bad_condition", message));
        }
        let deadline = call.named_deadline(ttl.as_deref())?;
        Ok(CountOrder {
            delta: number(delta.as_deref(), 1)?,
            initial: number(initial.as_deref(), 0)?,
            names_ttl: deadline.is_some_and(|deadline| deadline != Deadline::NEVER),
            deadline: deadline.unwrap_or_else(|| call.default_deadline()),
            must_exist,
        })
    }

    /// The change of the item: the new number, and whether the item existed.
    fn decide(
        self,
        old: Option<Item<'_>>,
        scratch: &mut Vec<u8>,
    ) -> Result<((i64, bool), Change), Failure> {
        let (before, deadline, flags) = match old {
            None if self.must_exist => return Err(NOT_FOUND),
            None => (self.initial, self.deadline, 0),
            Some(item) if item.kind != Kind::STRING => return Err(WRONG_KIND),
            Some(item) => {
                let number = number_in(item.value).ok_or(NOT_A_NUMBER)?;
                (number, item.deadline, item.flags)
            }
        };
        let number = before.checked_add(self.delta).ok_or(OUT_OF_RANGE)?;
        let mut digits = itoa::Buffer::new();
        scratch.extend_from_slice(digits.format(number).as_bytes());
        let kind = Kind::STRING;
        let change = Change::Store {
            kind,
            deadline,
            flags,
        };
        Ok(((number, old.is_some()), change))
    }
}

/// A parameter that is a number.
fn number(text: Option<&str>, default: i64) -> Result<i64, Failure> {
    let Some(text) = text else {
        return Ok(default);
    };
    let is_plain = !text.starts_with('+');
    let number = text.parse().ok().filter(|_| is_plain);
    number.ok_or_else(|| {
        let message = format!("'{}' is not a 64-bit number", shown(text));
        Failure::bad("bad_parameter", "").says(message)
    })
}

/// The number that a value holds; memcached may have left spaces behind it.
fn number_in(value: &[u8]) -> Option<i64> {
    let digits = value.trim_ascii_end();
    let text = std::str::from_utf8(digits).ok()?;
    let number: i64 = text.parse().ok()?;
    (!text.starts_with('+')).then_some(number)
}

/// POST: counts, and answers the new number.
pub(super) fn increment(call: &mut Call<'_>, key: Key<'_>) -> Outcome {
    let order = CountOrder::of(call)?;
    let failure = Cell::new(None);
    let mut scratch = Vec::new();
    let cache = call.context.cache();
    let done = cache.update(key, &mut scratch, |old, scratch| {
        match order.decide(old, scratch) {
            Ok((done, change)) => (Some(done), change),
            Err(why) => {
                failure.set(Some(why));
                (None, Change::Keep)
            }
        }
    })?;
    let counters = call.context.counters;
    let is_down = order.delta < 0;
    let Some((number, was_there)) = done else {
        return Err(failure.take().unwrap_or(NOT_A_NUMBER));
    };
    match (was_there, is_down) {
        (true, false) => counters.incr_hits.add(1),
        (true, true) => counters.decr_hits.add(1),
        (false, false) => counters.incr_misses.add(1),
        (false, true) => counters.decr_misses.add(1),
    }
    call.context.notify(Class::String, "incrby", key);
    if !was_there && order.names_ttl {
        call.context.notify(Class::Generic, "expire", key);
    }
    call.json(
        Status::OK,
        b"",
        format!("{{\"value\":{number}}}\n").as_bytes(),
    );
    DONE
}

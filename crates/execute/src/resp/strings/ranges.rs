//! Ranges: the length and the parts of a string.
//!
//! Source: redis.io/docs/latest/commands/getrange and its neighbours.

use std::ops::Range;

use cellar_engine::Change;
use cellar_net::output::PINNED_VALUE_BYTES_MIN;
use cellar_protocol::resp::number::parse_integer;

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::bits::BYTES_MAX;
use crate::resp::strings::values::{
    as_string, bytes_of, count_read, read, store_keeping, update, write_at,
};

/// The length of a string as it is answered.
pub(in crate::resp) fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(in crate::resp) fn strlen(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let bytes = read(call, key, <[u8]>::len)?;
    call.integer(length(bytes.unwrap_or(0)))
}

pub(in crate::resp) fn append(call: &mut Call<'_>) -> Outcome {
    let (key, tail) = (call.first_key()?, call.args[2]);
    let bytes = update(call, key, |old, scratch| {
        let head = bytes_of(old)?.len();
        scratch.extend_from_slice(tail);
        // An empty string is stored as well.
        let change = match old {
            None => store_keeping(call, None),
            Some(_) => write_at(call, head, tail),
        };
        Ok((head + tail.len(), change))
    })?;
    call.notify(Class::String, "append", key.bytes());
    call.integer(length(bytes))
}

/// The part of a value from `start` to `end`, both included; negative ones count from its end.
fn part(bytes: usize, start: i64, end: i64) -> Range<usize> {
    let bytes = length(bytes);
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let from_start = |place: i64| {
        let place = if place < 0 { place + bytes } else { place };
        place.max(0)
    };
    let (start, end) = (from_start(start), from_start(end).min(bytes - 1));
    if start > end || bytes == 0 {
        return 0..0;
    }
    let place = |place: i64| usize::try_from(place).expect("it lies in the value");
    place(start)..place(end) + 1
}

/// GETRANGE and SUBSTR.
pub(in crate::resp) fn getrange(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let number = |index: usize| parse_integer(call.args[index]).ok_or(Failure::NotInteger);
    let (start, end) = (number(2)?, number(3)?);
    let cache = call.cache();
    let mut reply = call.reply();
    let found = cache.get(key, |item| {
        as_string(Some(item))?;
        let part = part(item.value.len(), start, end);
        if part.len() >= PINNED_VALUE_BYTES_MIN {
            reply.bulk_head(part.len());
            return Ok::<_, Failure>(Some((item.pin(), part)));
        }
        reply.bulk(&item.value[part]);
        Ok(None)
    });
    count_read(call, found.is_some());
    match found.transpose()? {
        Some(Some((value, part))) => {
            call.output.push_part(value, part);
            call.output.bytes().extend_from_slice(b"\r\n");
        }
        Some(None) => {}
        None => call.reply().bulk(b""),
    }
    DONE
}

pub(in crate::resp) fn setrange(call: &mut Call<'_>) -> Outcome {
    let (key, part) = (call.first_key()?, call.args[3]);
    let offset = parse_integer(call.args[2]).ok_or(Failure::NotInteger)?;
    let Ok(offset) = usize::try_from(offset) else {
        return Err(Failure::text("ERR offset is out of range"));
    };
    let (bytes, is_changed) = update(call, key, |old, scratch| {
        let bytes = bytes_of(old)?.len();
        if part.is_empty() {
            return Ok(((bytes, false), Change::Keep));
        }
        let end = offset.saturating_add(part.len());
        if end > BYTES_MAX {
            return Err(Failure::TooLong);
        }
        scratch.extend_from_slice(part);
        Ok(((bytes.max(end), true), write_at(call, offset, part)))
    })?;
    if is_changed {
        call.notify(Class::String, "setrange", key.bytes());
    }
    call.integer(length(bytes))
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn a_part_lies_between_two_places_both_included() {
        let value = b"Hello World";
        for (start, end, expected) in [
            (0, 3, "Hell"),
            (0, -1, "Hello World"),
            (-4, -1, "orld"),
            (5, 3, ""),
            (5, 5000, " World"),
            (-5000, 10000, "Hello World"),
            (-1, -5, ""),
            (-100, -99, "H"),
            (11, 11, ""),
            (i64::MIN, i64::MAX, "Hello World"),
            (i64::MAX, i64::MIN, ""),
        ] {
            let part = &value[part(value.len(), start, end)];
            assert_eq!(part, expected.as_bytes(), "{start} {end}");
        }
        assert_eq!(part(0, 0, -1), 0..0);
        assert_eq!(part(0, -1, 0), 0..0);
    }
}

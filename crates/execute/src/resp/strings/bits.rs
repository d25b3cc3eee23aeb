//! Bits: GETBIT and SETBIT on strings.
//!
//! Bit 0 is the highest of the first byte. Source: redis.io/docs/latest/commands/setbit.

use cellar_engine::Change;
use cellar_protocol::resp::number::parse_integer;

use crate::resp::call::{Call, Outcome};
use crate::resp::failure::Failure;

use crate::resp::call::notify::Class;
use crate::resp::strings::values::{bytes_of, read, update, write_at};

/// Bytes whose bits can be asked for, however long values may be.
pub(in crate::resp) const BYTES_MAX: usize = 512 << 20;

/// The byte and the mask of the bit that an argument names.
fn place(call: &Call<'_>) -> Result<(usize, u8), Failure> {
    let bit = parse_integer(call.args[2]).and_then(|bit| u64::try_from(bit).ok());
    let place = bit.and_then(|bit| Some((usize::try_from(bit / 8).ok()?, 0x80 >> (bit % 8))));
    let place = place.filter(|(byte, _)| *byte < BYTES_MAX);
    place.ok_or(Failure::text(
        "ERR bit offset is not an integer or out of range",
    ))
}

pub(in crate::resp) fn getbit(call: &mut Call<'_>) -> Outcome {
    let (key, (byte, mask)) = (call.first_key()?, place(call)?);
    let bit = read(call, key, |value| {
        value.get(byte).is_some_and(|byte| byte & mask != 0)
    })?;
    call.integer(i64::from(bit.unwrap_or(false)))
}

pub(in crate::resp) fn setbit(call: &mut Call<'_>) -> Outcome {
    let (key, (byte, mask)) = (call.first_key()?, place(call)?);
    let bit = match parse_integer(call.args[3]) {
        Some(bit @ (0 | 1)) => bit == 1,
        _ => {
            return Err(Failure::text("ERR bit is not an integer or out of range"));
        }
    };
    let (before, is_changed) = update(call, key, |old, scratch| {
        let value = bytes_of(old)?;
        let old_byte = value.get(byte).copied().unwrap_or(0);
        let before = old_byte & mask != 0;
        if before == bit && byte < value.len() {
            return Ok(((before, false), Change::Keep));
        }
        scratch.push(if bit {
            old_byte | mask
        } else {
            old_byte & !mask
        });
        Ok(((before, true), write_at(call, byte, scratch)))
    })?;
    if is_changed {
        call.notify(Class::String, "setbit", key.bytes());
    }
    call.integer(i64::from(before))
}

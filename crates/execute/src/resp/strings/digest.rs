//! Digest: a short text by which clients compare a long string.
//!
//! Source: redis.io/docs/latest/commands/digest; the hash is XXH3 of 64 bits without a seed.

use std::fmt::Write;
use std::hash::Hasher;

use cellar_protocol::resp::Reply;
use twox_hash::XxHash3_64;

use crate::resp::call::steps::Progress;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::values::{as_string, count_read};

/// Digits of a digest.
const DIGITS: usize = 16;

/// A digest as a client gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) struct Digest(Option<u64>);

impl Digest {
    /// Parses the digits of a digest, in lower or upper case. Other letters match no digest, as in
    /// Redis.
    ///
    /// # Errors
    /// If it does not have 16 digits.
    pub(in crate::resp) fn parse(digits: &[u8]) -> Result<Digest, Failure> {
        if digits.len() != DIGITS {
            return Err(Failure::text(
                "ERR must be exactly 16 hexadecimal characters",
            ));
        }
        let are_digits = digits.iter().all(u8::is_ascii_hexdigit);
        let text = std::str::from_utf8(digits).ok().filter(|_| are_digits);
        Ok(Digest(
            text.and_then(|text| u64::from_str_radix(text, 16).ok()),
        ))
    }

    /// The digest of a value. Cost: one pass over it.
    pub(in crate::resp) fn of(value: &[u8]) -> Digest {
        Digest(Some(XxHash3_64::oneshot(value)))
    }
}

/// Bytes hashed in one step.
const STEP_BYTES: usize = 8 << 20;

/// DIGEST.
pub(in crate::resp) fn digest(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let found = (call.cache()).get(key, |item| as_string(Some(item)).map(|_| item.pin()));
    count_read(call, found.is_some());
    let Some(value) = found.transpose()? else {
        call.reply().null();
        return DONE;
    };
    let (proto, mut hasher, mut at) = (call.session.proto, XxHash3_64::with_seed(0), 0);
    call.in_steps(move |_, output| {
        let end = value.len().min(at + STEP_BYTES);
        hasher.write(&value[at..end]);
        at = end;
        if at < value.len() {
            return Progress::More;
        }
        let mut text = String::with_capacity(DIGITS);
        let _ = write!(text, "{:016x}", hasher.finish());
        Reply::new(output.bytes(), proto).bulk(text);
        Progress::Last
    })
}

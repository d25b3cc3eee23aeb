//! Bless: BLESS, which asks that a key is never evicted.
//!
//! A database of `--noeviction-databases` guarantees that for all of its keys, the others for none.
//! So BLESS reports the fact, and returns an error where it would have to change it.
//!
//! Source: Redis 8.12: redis.io/docs/latest/commands/bless. Why: docs/decisions/0089.
//! Tests: server/tests/keep.rs.

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::keys::scan::{ScanPart, ScanRequest, answer, cursor_of, part_of};

/// The one flag.
const NO_EVICT: &str = "NO-EVICT";
/// Keys that a call of BLESS SCAN returns by default.
const COUNT: &[u8] = b"1024";

/// Whether the session's database evicts nothing.
fn evicts_nothing(call: &Call<'_>) -> bool {
    call.space().share().is_some()
}

fn check_flag(flag: &[u8]) -> Result<(), Failure> {
    let is_known = flag.eq_ignore_ascii_case(NO_EVICT.as_bytes());
    is_known.then_some(()).ok_or(Failure::Syntax)
}

/// Checks that the key exists.
fn check_key(call: &Call<'_>) -> Result<(), Failure> {
    let found = call.cache().facts(call.key_at(2)?, |_| ());
    found.ok_or(Failure::text("ERR no such key"))
}

pub(in crate::resp) fn set(call: &mut Call<'_>) -> Outcome {
    check_flag(call.args[3])?;
    check_key(call)?;
    if !evicts_nothing(call) {
        return Err(Failure::text(
            "ERR keys of this database may be evicted: store the key in a database of \
             --noeviction-databases",
        ));
    }
    call.integer(0)
}

pub(in crate::resp) fn clear(call: &mut Call<'_>) -> Outcome {
    check_flag(call.args[3])?;
    check_key(call)?;
    if evicts_nothing(call) {
        return Err(Failure::text(
            "ERR a database of --noeviction-databases evicts no key",
        ));
    }
    call.integer(0)
}

pub(in crate::resp) fn get(call: &mut Call<'_>) -> Outcome {
    check_key(call)?;
    let is_blessed = evicts_nothing(call);
    let mut reply = call.reply();
    reply.array(usize::from(is_blessed));
    if is_blessed {
        reply.bulk(NO_EVICT);
    }
    DONE
}

/// BLESS SCAN cursor NO-EVICT [COUNT count].
pub(in crate::resp) fn scan(call: &mut Call<'_>) -> Outcome {
    let cursor = cursor_of(call.args[2])?;
    check_flag(call.args[3])?;
    let mut request = ScanRequest::of(call);
    request.take(b"COUNT", COUNT)?;
    match call.args[4..] {
        [] => {}
        [name, count] if name.eq_ignore_ascii_case(b"COUNT") => request.take(b"COUNT", count)?,
        _ => return Err(Failure::Syntax),
    }
    let part = match evicts_nothing(call) {
        true => part_of(call, cursor, &request),
        false => ScanPart::default(),
    };
    let cursor = part.next.map_or(0, |cursor| cursor.0);
    answer(call, itoa::Buffer::new().format(cursor), &part)
}

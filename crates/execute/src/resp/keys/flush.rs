//! Flush: commands on whole databases.
//!
//! Source: redis.io/docs/latest/commands/flushdb and its neighbours.

use cellar_engine::{Intent, Space};
use cellar_protocol::resp::Reply;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::clients::exclusive_lock::ExclusiveReason::Command;

use crate::resp::call::steps::{Progress, STEP_ITEMS};
use crate::resp::call::{Call, Outcome};
use crate::resp::failure::Failure;

pub(in crate::resp) fn dbsize(call: &mut Call<'_>) -> Outcome {
    let stats = match call.context.is_in_step() || !call.cache().has_claims() {
        true => call.cache().space_stats(call.space()),
        false => {
            // Otherwise a key that another client renames could be counted twice, or not at all.
            let _claims = call.cache().claim_all(Intent::Read);
            call.cache().space_stats(call.space())
        }
    };
    call.integer(i64::try_from(stats.items).unwrap_or(i64::MAX))
}

/// Nothing, ASYNC or SYNC, which are the same: a flush takes no time, and what was flushed is
/// swept up later.
fn check_mode(call: &Call<'_>) -> Result<(), Failure> {
    let is_mode =
        |mode: &[u8]| mode.eq_ignore_ascii_case(b"ASYNC") || mode.eq_ignore_ascii_case(b"SYNC");
    match call.args[1..] {
        [] => Ok(()),
        [mode] if is_mode(mode) => Ok(()),
        _ => Err(Failure::Syntax),
    }
}

/// FLUSHDB: the database gets an empty space, and the one it had is ended.
pub(in crate::resp) fn flushdb(call: &mut Call<'_>) -> Outcome {
    check_mode(call)?;
    call.context.counters.cmd_flush.add(1);
    call.exclusively(Command, |call| {
        let old = call.context.state.databases.renew(call.session.database);
        if old == Space::MAIN {
            call.cache().flush_space(old);
        } else {
            call.cache().retire_space(old);
        }
    });
    call.ok()
}

/// FLUSHALL: all databases, and with database 0 what other protocols stored.
pub(in crate::resp) fn flushall(call: &mut Call<'_>) -> Outcome {
    check_mode(call)?;
    call.context.counters.cmd_flush.add(1);
    call.exclusively(Command, |call| call.cache().flush());
    call.ok()
}

/// SWAPDB: clients of either database see the other one's keys from now on.
pub(in crate::resp) fn swapdb(call: &mut Call<'_>) -> Outcome {
    if call.context.state.cluster.is_some() {
        return Err(Failure::text("ERR SWAPDB is not allowed in cluster mode"));
    }
    let databases = &call.context.state.databases;
    let number = |index: usize, refusal| {
        let number = parse_integer(call.args[index]);
        let number = number.filter(|number| i32::try_from(*number).is_ok());
        number.ok_or(Failure::text(refusal))
    };
    let one = number(1, "ERR invalid first DB index")?;
    let other = number(2, "ERR invalid second DB index")?;
    let existing = |number: i64| {
        let number = u32::try_from(number).ok();
        number
            .filter(|number| (*number as usize) < databases.count())
            .ok_or(Failure::text("ERR DB index is out of range"))
    };
    let (one, other) = (existing(one)?, existing(other)?);
    if !databases.share_memory(one, other) {
        return Err(Failure::text(
            "ERR SWAPDB needs two databases that share their memory (--noeviction-databases)",
        ));
    }
    let mut names = call.exclusively(Command, |call| {
        databases.swap(one, other);
        call.context.state.observer.swapped(one, other)
    });
    let proto = call.session.proto;
    call.in_steps(move |context, output| {
        let some = names.split_off(names.len().saturating_sub(STEP_ITEMS));
        context.state.observer.look_for(&some, context.cache());
        if !names.is_empty() {
            return Progress::More;
        }
        Reply::new(output.bytes(), proto).ok();
        Progress::Last
    })
}

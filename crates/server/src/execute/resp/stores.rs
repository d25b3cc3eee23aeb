//! Stores: SET's older relatives SETNX, SETEX, PSETEX, GETSET.
//!
//! Source: redis.io/docs/latest/commands/setnx and its neighbours.

use cellar_engine::{Deadline, SetOptions, Stored, When};

use super::call::{Call, Outcome};
use super::expiry::Unit;
use super::failure::Failure;
use super::notify::Class;
use super::values::{answer_value, as_string, store_until, tell_set, update};

pub(super) fn setnx(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.first_key()?, call.args[2]);
    call.context.counters.cmd_set.add(1);
    let options = SetOptions {
        when: When::Absent,
        ..SetOptions::default()
    };
    let stored = call.cache().set(key, value, &options)?;
    let is_stored = matches!(stored, Stored::Done { .. });
    if is_stored {
        call.notify(Class::String, "set", key.bytes());
    }
    call.integer(i64::from(is_stored))
}

pub(super) fn setex(call: &mut Call<'_>) -> Outcome {
    store_for(call, Unit::Ex, "setex")
}

pub(super) fn psetex(call: &mut Call<'_>) -> Outcome {
    store_for(call, Unit::Px, "psetex")
}

fn store_for(call: &mut Call<'_>, unit: Unit, command: &'static str) -> Outcome {
    let (key, value) = (call.first_key()?, call.args[3]);
    call.context.counters.cmd_set.add(1);
    let options = SetOptions {
        deadline: unit.option_deadline(call.args[2], command, call.context)?,
        ..SetOptions::default()
    };
    call.cache().set(key, value, &options)?;
    tell_set(call, key.bytes(), true);
    call.ok()
}

pub(super) fn getset(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.first_key()?, call.args[2]);
    call.context.counters.cmd_set.add(1);
    let old = update(call, key, |old, scratch| -> Result<_, Failure> {
        let old = as_string(old)?.map(|item| item.pin());
        scratch.extend_from_slice(value);
        Ok((old, store_until(Deadline::NEVER)))
    })?;
    call.notify(Class::String, "set", key.bytes());
    answer_value(call, old)
}

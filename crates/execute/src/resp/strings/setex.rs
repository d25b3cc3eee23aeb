//! SETEX and SET's other older relatives: SETNX, PSETEX, GETSET.
//!
//! Source: redis.io/docs/latest/commands/setnx and its neighbours.

use cellar_engine::{Handle, SetOptions, Stored, When};

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, Outcome};
use crate::resp::expiry::Unit;
use crate::resp::failure::Failure;
use crate::resp::strings::values::{answer_value, as_string, notify_set, store_until, update};

pub(in crate::resp) fn setnx(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.first_key()?, call.args[2]);
    let options = SetOptions {
        deadline: call.default_deadline(),
        when: When::Absent,
        ..SetOptions::default()
    };
    let stored = call.set(key, value, &options)?;
    call.context.counters.cmd_set.add(1);
    let is_stored = matches!(stored, Stored::Done { .. });
    if is_stored {
        call.notify(Class::String, "set", key.bytes());
    }
    call.integer(i64::from(is_stored))
}

pub(in crate::resp) fn setex(call: &mut Call<'_>) -> Outcome {
    store_for(call, Unit::Ex, "setex")
}

pub(in crate::resp) fn psetex(call: &mut Call<'_>) -> Outcome {
    store_for(call, Unit::Px, "psetex")
}

fn store_for(call: &mut Call<'_>, unit: Unit, command: &'static str) -> Outcome {
    let (key, value) = (call.first_key()?, call.args[3]);
    let options = SetOptions {
        deadline: unit.option_deadline(call.args[2], command, call.context)?,
        ..SetOptions::default()
    };
    let replaced = call.context.replaced_by_store(key);
    call.set(key, value, &options)?;
    call.context.counters.cmd_set.add(1);
    notify_set(call, key, replaced, true);
    call.ok()
}

pub(in crate::resp) fn getset(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.first_key()?, call.args[2]);
    let old = update(call, key, |old, scratch| -> Result<_, Failure> {
        let old = as_string(old)?.map(|item| item.pin());
        scratch.extend_from_slice(value);
        Ok((old, store_until(call.default_deadline())))
    })?;
    call.context.counters.cmd_set.add(1);
    let replaced = old.as_ref().map(Handle::kind);
    notify_set(call, key, replaced, false);
    answer_value(call, old)
}

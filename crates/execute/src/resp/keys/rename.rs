//! RENAME, MOVE and COPY: giving a value another key, here or in another database.
//!
//! All of them are atomic, since two keys change. A long value is copied before, a piece per
//! iteration; changes of its key meanwhile count.
//!
//! Source: redis.io/docs/latest/commands/rename, copy and move.

use cellar_engine::{Change, DeleteOptions, Handle, Key, SetOptions, Stored, When};
use cellar_protocol::resp::number::parse_integer;

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, Outcome};
use crate::resp::client::connection::database;
use crate::resp::failure::Failure;
use crate::resp::strings::values::update;

const SAME: Failure = Failure::text("ERR source and destination objects are the same");

/// The value of a key, whatever its kind.
fn value_of(call: &Call<'_>, key: Key<'_>) -> Result<Option<Handle>, Failure> {
    update(call, key, |old, _| {
        Ok((old.map(|item| item.pin()), Change::Keep))
    })
}

/// Longest value that may get another key: if it keeps changing while its copy is prepared, it is
/// copied in one step.
const MOVED_BYTES_MAX: usize = 24 << 20;

/// Stores a copy of a value; whether the condition held.
fn store(call: &Call<'_>, key: Key<'_>, value: Handle, when: When) -> Result<bool, Failure> {
    if value.len() > MOVED_BYTES_MAX.max(call.cache().collection_bytes_max()) {
        return Err(Failure::TooLong);
    }
    call.context.pass.note_heavy();
    let options = SetOptions {
        kind: value.kind(),
        deadline: value.deadline(),
        flags: value.flags(),
        when,
        ..SetOptions::default()
    };
    let stored = call.set_pinned(key, value, &options)?;
    Ok(matches!(stored, Stored::Done { .. }))
}

fn remove(call: &Call<'_>, key: Key<'_>) -> Result<(), Failure> {
    call.cache().delete(key, &DeleteOptions::default())?;
    Ok(())
}

pub(in crate::resp) fn rename(call: &mut Call<'_>) -> Outcome {
    rename_when(call, When::Always)?;
    call.ok()
}

pub(in crate::resp) fn renamenx(call: &mut Call<'_>) -> Outcome {
    let is_done = rename_when(call, When::Absent)?;
    call.integer(i64::from(is_done))
}

fn rename_when(call: &mut Call<'_>, when: When) -> Result<bool, Failure> {
    let (from, to) = (call.first_key()?, call.key_at(2)?);
    call.as_step(|call| {
        let value = value_of(call, from)?.ok_or(Failure::text("ERR no such key"))?;
        if from.bytes() == to.bytes() {
            return Ok(when == When::Always);
        }
        let (replaced, kind) = (call.context.replaced_by_store(to), value.kind());
        if !store(call, to, value, when)? {
            return Ok(false);
        }
        remove(call, from)?;
        call.notify(Class::Generic, "rename_from", from.bytes());
        call.notify(Class::Generic, "rename_to", to.bytes());
        call.context.notify_replaced(replaced, kind, to);
        Ok(true)
    })
}

/// COPY source destination [DB database] [REPLACE].
pub(in crate::resp) fn copy(call: &mut Call<'_>) -> Outcome {
    let mut target = call.session.database;
    let mut when = When::Absent;
    let mut args = call.args[3..].iter();
    while let Some(name) = args.next() {
        if name.eq_ignore_ascii_case(b"REPLACE") {
            when = When::Always;
        } else if name.eq_ignore_ascii_case(b"DB") {
            target = database(call, args.next().ok_or(Failure::Syntax)?)?;
        } else {
            return Err(Failure::Syntax);
        }
    }
    if target == call.session.database && call.args[1] == call.args[2] {
        return Err(SAME);
    }
    let from = call.first_key()?;
    let space = call.context.state.databases.space(target);
    let to = call.cache().key_in(space, call.args[2])?;
    let is_done = call.as_step_on(&[from, to], |call| {
        let Some(value) = value_of(call, from)? else {
            return Ok(false);
        };
        let (replaced, kind) = (call.context.replaced_by_store(to), value.kind());
        let is_done = store(call, to, value, when)?;
        if is_done {
            call.notify_in(target, Class::Generic, "copy_to", to.bytes());
            call.context.notify_replaced(replaced, kind, to);
        }
        Ok::<_, Failure>(is_done)
    })?;
    call.integer(i64::from(is_done))
}

/// MOVE key database.
pub(in crate::resp) fn to_database(call: &mut Call<'_>) -> Outcome {
    parse_integer(call.args[2]).ok_or(Failure::NotInteger)?;
    let target = database(call, call.args[2])?;
    if target == call.session.database {
        return Err(SAME);
    }
    let from = call.first_key()?;
    let space = call.context.state.databases.space(target);
    let to = call.cache().key_in(space, from.bytes())?;
    let is_done = call.as_step_on(&[from, to], |call| {
        let Some(value) = value_of(call, from)? else {
            return Ok(false);
        };
        if !store(call, to, value, When::Absent)? {
            return Ok(false);
        }
        remove(call, from)?;
        call.notify(Class::Generic, "move_from", from.bytes());
        call.notify_in(target, Class::Generic, "move_to", from.bytes());
        Ok::<_, Failure>(true)
    })?;
    call.integer(i64::from(is_done))
}

//! Changes without a value: delete, incr, decr, touch, flush_all.

use cellar_engine::{Counted, DeleteOptions, Deleted, Error, Increment, Key};
use cellar_net::output::Output;
use cellar_protocol::memcached::reply;
use cellar_shared::clients::events::Class;
use cellar_shared::state::changes;

use super::answer;
use super::answers::{failure, failure_or};
use crate::context::Context;

/// Removes an item, if it has this version where one is asked for, and counts.
pub(super) fn remove(
    key: Key<'_>,
    when_version: Option<u64>,
    context: Context<'_>,
) -> Result<Deleted, Error> {
    let options = DeleteOptions {
        when_version,
        ..DeleteOptions::default()
    };
    let deleted = context.cache().delete(key, &options)?;
    if deleted == Deleted::Done {
        context.counters.delete_hits.add(1);
        context.notify(Class::Generic, "del", key);
    } else {
        context.counters.delete_misses.add(1);
    }
    Ok(deleted)
}

/// delete
pub(super) fn delete(key: Key<'_>, noreply: bool, context: Context<'_>, output: &mut Output) {
    let line = match remove(key, None, context) {
        Ok(Deleted::Done) => reply::line::DELETED,
        Ok(Deleted::NotFound | Deleted::Exists) => reply::line::NOT_FOUND,
        Err(error) => failure(&error),
    };
    answer(line, noreply, output);
}

/// Counts up or down, keeping the number's width as memcached does, and counts that.
pub(super) fn count_by(
    key: Key<'_>,
    increment: &Increment,
    context: Context<'_>,
) -> Result<Counted, Error> {
    let increment = Increment {
        keep_width: true,
        ..*increment
    };
    let counted = context.cache().increment(key, &increment)?;
    note_outcome(&counted, increment.subtract, key, context);
    Ok(counted)
}

/// Counts the outcome of incr, decr or ma, and publishes a new number.
pub(super) fn note_outcome(counted: &Counted, subtract: bool, key: Key<'_>, context: Context<'_>) {
    let counters = context.counters;
    if matches!(counted, Counted::Number { .. }) {
        let event = if subtract { "decrby" } else { "incrby" };
        context.notify(Class::String, event, key);
    }
    match counted {
        Counted::Number { created: false, .. } if subtract => counters.decr_hits.add(1),
        Counted::Number { created: false, .. } => counters.incr_hits.add(1),
        Counted::NotFound if subtract => counters.decr_misses.add(1),
        Counted::NotFound => counters.incr_misses.add(1),
        Counted::NotANumber => counters.protocol_errors.add(1),
        Counted::Number { created: true, .. } | Counted::Exists => {}
    }
}

/// incr and decr: the amount, and whether it is taken away.
pub(super) fn count(
    key: Key<'_>,
    (delta, subtract): (u64, bool),
    noreply: bool,
    context: Context<'_>,
    output: &mut Output,
) {
    let increment = Increment {
        subtract,
        ..Increment::by(delta)
    };
    let line = match count_by(key, &increment, context) {
        Ok(Counted::Number { number, .. }) => {
            if !noreply {
                reply::number(output.bytes(), number);
                output.bytes().extend_from_slice(b"\r\n");
            }
            return;
        }
        Ok(Counted::NotANumber) => reply::line::NOT_A_NUMBER,
        Ok(Counted::NotFound | Counted::Exists) => reply::line::NOT_FOUND,
        Err(error) => failure_or(&error, reply::line::NO_MEMORY_FOR_NUMBER),
    };
    answer(line, noreply, output);
}

/// touch
pub(super) fn touch(
    key: Key<'_>,
    exptime: i32,
    noreply: bool,
    context: Context<'_>,
    output: &mut Output,
) {
    let counters = context.counters;
    counters.cmd_touch.add(1);
    let deadline = context.deadline(exptime);
    let line = match context.cache().touch(key, deadline) {
        Ok(true) => {
            counters.touch_hits.add(1);
            context.notify_deadline(deadline, key);
            reply::line::TOUCHED
        }
        Ok(false) => {
            counters.touch_misses.add(1);
            reply::line::NOT_FOUND
        }
        Err(error) => failure(&error),
    };
    answer(line, noreply, output);
}

/// flush_all
pub(super) fn flush_all(delay: i32, noreply: bool, context: Context<'_>, output: &mut Output) {
    flush(delay.into(), context);
    answer(reply::line::OK, noreply, output);
}

/// cache_memlimit: what CONFIG SET maxmemory does.
pub(super) fn memory_limit(mib: u32, noreply: bool, context: Context<'_>, output: &mut Output) {
    const REFUSED: &[u8] = b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
    let bytes = (u64::from(mib) << 20).to_string();
    let is_done = changes::make(context.state, &[(b"maxmemory", bytes.as_bytes())]).is_ok();
    answer(
        if is_done { reply::line::OK } else { REFUSED },
        noreply,
        output,
    );
}

/// Makes all items misses: at once, or after `delay`, read like an exptime.
pub(super) fn flush(delay: i64, context: Context<'_>) {
    context.counters.cmd_flush.add(1);
    match context.deadline(delay).instant() {
        Some(at) if delay > 0 => context.cache().flush_at(at),
        _ => context.cache().flush(),
    }
}

//! Values: shared code of commands on strings, mainly reading before deciding.

use cellar_engine::{Change, Deadline, Handle, Item, Key, Kind, Splice};
use cellar_net::output::PINNED_VALUE_BYTES_MIN;
use cellar_protocol::resp::Reply;
use cellar_shared::keyspace::kind::own_deadline;

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;

/// From this length on, storing a string takes more than constant time.
const HEAVY_BYTES_MIN: usize = 16 << 10;

/// Passes the item of `key` to `decide` and applies its decision atomically; a failure changes
/// nothing.
///
/// `decide` may run twice; see [`cellar_engine::Cache::update`].
pub(in crate::resp) fn update<R>(
    call: &Call<'_>,
    key: Key<'_>,
    mut decide: impl FnMut(Option<Item<'_>>, &mut Vec<u8>) -> Result<(R, Change), Failure>,
) -> Result<R, Failure> {
    let pass = call.context.pass;
    let outcome = call.change(key, |old, scratch| {
        let is_long = old.is_some_and(|item| item.value.len() >= HEAVY_BYTES_MIN);
        match decide(old, scratch) {
            Ok((result, change)) => {
                if is_long && matches!(change, Change::Store { .. }) {
                    pass.note_heavy();
                }
                (Ok(result), change)
            }
            Err(failure) => (Err(failure), Change::Keep),
        }
    });
    outcome?
}

/// The item as a string; one of another kind is a failure.
#[inline]
pub(in crate::resp) fn as_string(old: Option<Item<'_>>) -> Result<Option<Item<'_>>, Failure> {
    match old {
        Some(item) if item.kind != Kind::STRING => Err(Failure::WrongType),
        old => Ok(old),
    }
}

/// The bytes of a string; empty if the item does not exist.
pub(in crate::resp) fn bytes_of(old: Option<Item<'_>>) -> Result<&[u8], Failure> {
    Ok(as_string(old)?.map_or(&[], |item| item.value))
}

/// Stores the buffer as a string with the deadline and flags of the old one; without an old one as
/// a string stored without a time to live.
pub(in crate::resp) fn store_keeping(call: &Call<'_>, old: Option<Item<'_>>) -> Change {
    Change::Store {
        kind: Kind::STRING,
        deadline: old.map_or_else(|| call.default_deadline(), |item| item.deadline),
        flags: old.map_or(0, |item| item.flags),
    }
}

/// Writes parts of the buffer over the string, which is made as long as `bytes_min`; a new one has
/// no time to live.
pub(in crate::resp) fn write_parts(
    call: &Call<'_>,
    parts: Vec<Splice>,
    bytes_min: usize,
) -> Change {
    Change::Splice {
        parts,
        bytes_min,
        deadline: call.default_deadline(),
    }
}

/// The same of the whole buffer, which begins at `at`.
pub(in crate::resp) fn write_at(call: &Call<'_>, at: usize, scratch: &[u8]) -> Change {
    let len = scratch.len();
    write_parts(call, vec![Splice { at, from: 0, len }], at + len)
}

/// Stores the buffer as a string of its own.
pub(in crate::resp) fn store_until(deadline: Deadline) -> Change {
    Change::Store {
        kind: Kind::STRING,
        deadline,
        flags: 0,
    }
}

/// Reads the string of `key`; `None` if the item does not exist.
pub(in crate::resp) fn read<R>(
    call: &Call<'_>,
    key: Key<'_>,
    read: impl FnOnce(&[u8]) -> R,
) -> Result<Option<R>, Failure> {
    let found = call
        .cache()
        .get(key, |item| as_string(Some(item)).map(|_| read(item.value)));
    count_read(call, found.is_some());
    found.transpose()
}

/// The deadline of a key as clients see it; `None` if the key does not exist. Does not count as a
/// use of a string.
pub(in crate::resp) fn deadline_of(
    call: &Call<'_>,
    key: Key<'_>,
) -> Result<Option<Deadline>, Failure> {
    let facts = call
        .cache()
        .facts(key, |facts| (facts.kind, facts.deadline));
    match facts {
        None => Ok(None),
        Some((Kind::STRING, deadline)) => Ok(Some(deadline)),
        Some(_) => update(call, key, |old, _| {
            Ok((old.map(own_deadline), Change::Keep))
        }),
    }
}

/// Publishes a SET that stored, over a value of the kind that it replaced.
pub(in crate::resp) fn notify_set(
    call: &mut Call<'_>,
    key: Key<'_>,
    replaced: Option<Kind>,
    has_deadline: bool,
) {
    call.context.notify_replaced(replaced, Kind::STRING, key);
    call.notify(Class::String, "set", key.bytes());
    if has_deadline {
        call.notify(Class::Generic, "expire", key.bytes());
    }
}

/// Counts a read that hit or missed.
#[inline]
pub(in crate::resp) fn count_read(call: &Call<'_>, hit: bool) {
    let counters = call.context.counters;
    counters.cmd_get.add(1);
    if hit {
        counters.get_hits.add(1);
    } else {
        counters.get_misses.add(1);
    }
}

/// Appends a bulk string of the item's value, or its head and a handle on a large value, to be
/// handed to [`Output::push_line`].
#[inline(always)]
pub(in crate::resp) fn append_value(reply: &mut Reply<'_>, item: Item<'_>) -> Option<Handle> {
    if item.value.len() >= PINNED_VALUE_BYTES_MIN {
        reply.bulk_head(item.value.len());
        return Some(item.pin());
    }
    reply.bulk(item.value);
    None
}

/// Answers a value, or null.
pub(in crate::resp) fn answer_value(call: &mut Call<'_>, value: Option<Handle>) -> Outcome {
    match &value {
        Some(value) => call.reply().bulk_head(value.len()),
        None => call.reply().null(),
    }
    call.output.push_line(value);
    DONE
}

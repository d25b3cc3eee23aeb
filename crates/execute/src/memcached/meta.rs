//! Meta commands other than ms: mg, md, ma, me.
//!
//! Answers repeat the request's flags in their order, and some flags mean what holds at their place
//! in that order: `t` before `T` is the old time to live, after it the new one.

use cellar_engine::{
    Counted, Deadline, DeleteOptions, Deleted, Found, Handle, Increment, Item, Key, Lookup, Scratch,
};
use cellar_net::output::Output;
use cellar_protocol::memcached::Meta;
use cellar_protocol::memcached::reply::{self, Code};
use cellar_shared::clients::events::Class;

use super::PROTOCOL;
use super::answers::{failure, failure_or};
use super::change;
use super::read;
use crate::context::Context;

/// Flags of mg that change nothing and ask for no more than a plain item has.
const PLAIN_FLAGS: &[u8] = b"bfkOqstv";
/// Those of them that add nothing to the reply.
const SILENT_FLAGS: &[u8] = b"qv";

/// mg
#[inline]
pub(super) fn get(
    meta: &Meta<'_>,
    key: Option<Key<'_>>,
    context: Context<'_>,
    output: &mut Output,
) {
    if let Some(key) = key
        && meta.has_only(PLAIN_FLAGS)
    {
        if meta.has(b'v') && meta.has_only(SILENT_FLAGS) {
            let out = output.bytes();
            let begin = |out: &mut Vec<u8>, bytes, _| reply::meta_value_head(out, bytes);
            if context.cache().append_copied(key, out, begin) {
                context.counters.cmd_get.add(1);
                context.counters.get_hits.add(1);
                return out.extend_from_slice(b"\r\n");
            }
            return get_any(meta, Some(key), context, output);
        }
        let mut scratch = Scratch::new();
        if let Some(item) = context.cache().get_copied(key, &mut scratch) {
            context.counters.cmd_get.add(1);
            context.counters.get_hits.add(1);
            // A short value is copied.
            hit(meta, &Found::plain(item), context, output.bytes());
            return;
        }
    }
    get_any(meta, key, context, output);
}

/// mg of what may be missing or have more than a plain item.
#[inline(never)]
fn get_any(meta: &Meta<'_>, key: Option<Key<'_>>, context: Context<'_>, output: &mut Output) {
    let counters = context.counters;
    let mut encode = |found: Found<'_>| hit(meta, &found, context, output.bytes());
    let found = context.with_key(meta, key, |key| {
        if meta.has_only(PLAIN_FLAGS) {
            let read = |item: Item<'_>| encode(Found::plain(item));
            if let Ok(found) = context.cache().get_plain(key, read) {
                return Some(found);
            }
        }
        let found = look_up(meta, key, context, &mut encode)?;
        if let Some(deadline) = touched(meta, context) {
            context.notify_deadline(deadline, key);
        }
        Some(found)
    });
    let Some(pinned) = found else {
        counters.cmd_get.add(1);
        counters.get_misses.add(1);
        if !meta.has(b'q') {
            reply::meta_plain(output.bytes(), Code::Miss, meta);
        }
        return;
    };
    output.push_line(pinned);
    let (asked, hits) = if meta.has(b'T') {
        (&counters.cmd_touch, &counters.touch_hits)
    } else {
        (&counters.cmd_get, &counters.get_hits)
    };
    asked.add(1);
    hits.add(1);
}

/// The lookup of mg; an item that finds no memory to be created in is a miss.
fn look_up<R>(
    meta: &Meta<'_>,
    key: Key<'_>,
    context: Context<'_>,
    encode: &mut impl FnMut(Found<'_>) -> R,
) -> Option<R> {
    let cache = context.cache();
    let mut touch = touched(meta, context);
    let mut before = None;
    if meta.is_before(b'T', b'R')
        && let Some(deadline) = touch
    {
        // R compares what holds at its place: the new deadline.
        before = cache.facts(key, |facts| facts.deadline);
        if cache.touch(key, deadline) == Ok(true) {
            touch = None;
        }
    }
    let mut encode = |found: Found<'_>| {
        let deadline_before = before.unwrap_or(found.deadline_before);
        encode(Found {
            deadline_before,
            ..found
        })
    };
    let lookup = Lookup {
        touch,
        vivify: created(meta, context),
        recache_ms: meta
            .time(b'R')
            .and_then(|exptime| recache_ms(exptime, context)),
        lease_ms: None,
        version: meta.has(b'c') || meta.has(b'C'),
        new_version: meta.number(b'E'),
        uncounted: false,
        quiet: meta.has(b'u'),
        idle: meta.has(b'l'),
        no_lease: false,
    };
    if lookup.vivify.is_none() || lookup.touch.is_none() {
        return cache.lookup(key, &lookup, encode).ok().flatten();
    }
    // Both name a deadline. A found item gets that of T; a created one the last of the two.
    let found = cache.lookup(
        key,
        &Lookup {
            vivify: None,
            ..lookup
        },
        &mut encode,
    );
    let vivify = if meta.is_before(b'N', b'T') {
        lookup.touch
    } else {
        lookup.vivify
    };
    match found {
        Ok(Some(found)) => Some(found),
        _ => cache
            .lookup(
                key,
                &Lookup {
                    vivify,
                    touch: None,
                    ..lookup
                },
                encode,
            )
            .ok()
            .flatten(),
    }
}

/// The time left, in milliseconds, below which R wins the lease.
///
/// memcached counts whole seconds, so an item stored with the same number does not win at once.
fn recache_ms(exptime: i32, context: Context<'_>) -> Option<u64> {
    let left_ms = context
        .deadline(exptime)
        .remaining_ms(context.cache().now())?;
    Some((left_ms + 1).saturating_sub(1000)).filter(|_| left_ms > 0)
}

/// The deadline of flag T: an existing item gets it; zero means none.
fn touched(meta: &Meta<'_>, context: Context<'_>) -> Option<Deadline> {
    meta.time(b'T').map(|exptime| context.deadline(exptime))
}

/// The deadline that flag N names for an item that is created; zero names none.
fn created(meta: &Meta<'_>, context: Context<'_>) -> Option<Deadline> {
    meta.time(b'N')
        .map(|exptime| context.stored_deadline(exptime))
}

/// Encodes a hit; returns a value that is too large to be copied.
fn hit(
    meta: &Meta<'_>,
    found: &Found<'_>,
    context: Context<'_>,
    out: &mut Vec<u8>,
) -> Option<Handle> {
    let value = found.item.value;
    let wants_value = meta.has(b'v') && meta.number(b'C') != Some(found.version);
    if wants_value {
        reply::meta_value(out, value.len());
    } else {
        out.extend_from_slice(Code::Done.text());
    }
    let mut deadline = if found.created {
        Deadline::NEVER
    } else {
        found.deadline_before
    };
    for token in meta.flags() {
        match token[0] {
            b'T' => deadline = touched(meta, context).unwrap_or(deadline),
            b'N' if found.created => deadline = created(meta, context).unwrap_or(deadline),
            b's' => reply::meta_number(out, b's', value.len() as u64),
            b't' => reply::meta_ttl(out, context.ttl_s(deadline)),
            b'c' => reply::meta_number(out, b'c', found.version),
            b'f' => reply::meta_number(out, b'f', u64::from(found.item.flags)),
            b'l' => reply::meta_number(out, b'l', found.idle_s),
            b'h' => reply::meta_number(out, b'h', u64::from(found.fetched)),
            _ => reply::meta_repeat(out, meta, token),
        }
    }
    for (is_so, flag) in [
        (found.lease.taken, b" Z"),
        (found.lease.stale, b" X"),
        (found.lease.won, b" W"),
    ] {
        if is_so {
            out.extend_from_slice(flag);
        }
    }
    out.extend_from_slice(b"\r\n");
    if wants_value {
        read::copy_or_pin(out, found.item)
    } else {
        None
    }
}

/// md
pub(super) fn delete(
    meta: &Meta<'_>,
    key: Option<Key<'_>>,
    context: Context<'_>,
    output: &mut Output,
) {
    let (mark_stale, drop_value) = (meta.has(b'I'), meta.has(b'x'));
    let touch = meta.time(b'T').filter(|_| mark_stale || drop_value);
    let options = DeleteOptions {
        when_version: meta.number(b'C'),
        mark_stale,
        drop_value,
        // An emptied item counts as stored again.
        touch: match touch {
            Some(exptime) => Some(context.deadline(exptime)),
            None => drop_value.then(|| context.default_deadline(PROTOCOL, 0)),
        },
        new_version: meta.number(b'E'),
    };
    let deleted = context.with_key(meta, key, |key| {
        let deleted = context.cache().delete(key, &options);
        if deleted == Ok(Deleted::Done) {
            let event = if mark_stale || drop_value {
                "set"
            } else {
                "del"
            };
            context.notify(Class::Generic, event, key);
        }
        deleted
    });
    let code = match deleted {
        Ok(Deleted::Done) => {
            if !mark_stale {
                context.counters.delete_hits.add(1);
            }
            Code::Done
        }
        Ok(Deleted::NotFound) => {
            context.counters.delete_misses.add(1);
            Code::NotFound
        }
        Ok(Deleted::Exists) => {
            context.counters.delete_misses.add(1);
            Code::Exists
        }
        Err(error) => return output.bytes().extend_from_slice(failure(&error)),
    };
    if code != Code::Done || !meta.has(b'q') {
        reply::meta_plain(output.bytes(), code, meta);
    }
}

/// ma
pub(super) fn arithmetic(
    meta: &Meta<'_>,
    subtract: bool,
    key: Option<Key<'_>>,
    context: Context<'_>,
    output: &mut Output,
) {
    let touch = touched(meta, context);
    let vivify = created(meta, context);
    let created_deadline = if meta.is_before(b'N', b'T') {
        touch
    } else {
        vivify
    };
    let increment = Increment {
        delta: meta.number(b'D').unwrap_or(1),
        subtract,
        keep_width: true,
        initial: vivify
            .and(created_deadline)
            .map(|d| (meta.number(b'J').unwrap_or(0), d)),
        touch,
        // Version zero means no condition here.
        when_version: meta.number(b'C').filter(|version| *version != 0),
        new_version: meta.number(b'E'),
        version: meta.has(b'c'),
    };
    let (before, counted) = context.with_key(meta, key, |key| {
        // Only `t` before `T` asks for what the call itself changes.
        let before = if meta.is_before(b't', b'T') {
            context.cache().facts(key, |facts| facts.deadline)
        } else {
            None
        };
        let counted = context.cache().increment(key, &increment);
        if let Ok(counted) = &counted {
            change::note_outcome(counted, subtract, key, context);
        }
        (before, counted)
    });
    let counted = match counted {
        Ok(counted) => counted,
        Err(error) => {
            let line = failure_or(&error, reply::line::NO_MEMORY_FOR_META_NUMBER);
            return output.bytes().extend_from_slice(line);
        }
    };
    let out = output.bytes();
    match counted {
        Counted::Number { .. } if meta.has(b'q') => {}
        Counted::Number {
            number,
            deadline,
            version,
            created,
        } => {
            let before = match before {
                _ if created => Deadline::NEVER,
                Some(before) => before,
                None => deadline,
            };
            arithmetic_done(out, meta, (number, version, created), before, context);
        }
        Counted::NotANumber => out.extend_from_slice(reply::line::NOT_A_NUMBER),
        Counted::NotFound => reply::meta_plain(out, Code::NotFound, meta),
        Counted::Exists => reply::meta_plain(out, Code::Exists, meta),
    }
}

/// Encodes the outcome of ma: number, version and whether it was created; the deadline before.
fn arithmetic_done(
    out: &mut Vec<u8>,
    meta: &Meta<'_>,
    (number, version, is_created): (u64, u64, bool),
    before: Deadline,
    context: Context<'_>,
) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number);
    if meta.has(b'v') {
        reply::meta_value(out, digits.len());
    } else {
        out.extend_from_slice(Code::Done.text());
    }
    let mut deadline = before;
    for token in meta.flags() {
        match token[0] {
            b'T' => deadline = touched(meta, context).unwrap_or(deadline),
            b'N' if is_created => deadline = created(meta, context).unwrap_or(deadline),
            b't' => reply::meta_ttl(out, context.ttl_s(deadline)),
            b'c' => reply::meta_number(out, b'c', version),
            _ => reply::meta_repeat(out, meta, token),
        }
    }
    out.extend_from_slice(b"\r\n");
    if meta.has(b'v') {
        reply::text_line(out, digits);
    }
}

/// An item's version, which is assigned here if it has none yet; zero for items that can have none.
fn version_of(key: Key<'_>, context: Context<'_>) -> u64 {
    let cache = context.cache();
    let found = cache.lookup(key, &Lookup::of_version(), |found| found.version);
    found.ok().flatten().unwrap_or(0)
}

/// me
pub(super) fn debug(
    meta: &Meta<'_>,
    key: Option<Key<'_>>,
    context: Context<'_>,
    output: &mut Output,
) {
    use std::io::Write;
    context.counters.cmd_meta.add(1);
    let out = output.bytes();
    let shown = context.with_key(meta, key, |key| {
        let version = version_of(key, context);
        context.cache().facts(key, |facts| {
            out.extend_from_slice(b"ME ");
            reply::meta_debug_key(out, meta);
            match context.ttl_s(facts.deadline) {
                Some(ttl_s) => write!(out, " exp={ttl_s}"),
                None => write!(out, " exp=-1"),
            }
            .and_then(|()| {
                let fetch = if facts.fetched { "yes" } else { "no" };
                let (idle_s, bytes) = (facts.idle_s, facts.stored_bytes);
                write!(
                    out,
                    " la={idle_s} cas={version} fetch={fetch} cls=1 size={bytes}\r\n"
                )
            })
            .expect("writing into a vector does not fail");
        })
    });
    if shown.is_none() {
        out.extend_from_slice(reply::line::META_END);
    }
}

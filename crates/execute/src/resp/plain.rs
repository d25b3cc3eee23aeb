//! Plain requests: GET and SET without options, the fast path of most requests.
//!
//! They skip the general command machinery. A client with state that such a command has to check
//! goes through [`execute`] like any other.

use cellar_engine::{Cache, Candidate, Key, Kind, SetOptions, Space};
use cellar_net::output::Output;
use cellar_protocol::resp::command::find;
use cellar_protocol::resp::{Reply, Request, Verb};
use cellar_shared::clients::tracking::begin_request;
use cellar_shared::observe::command_log::{LARGE_BYTES_MIN, shortened};
use cellar_system::clock::Stopwatch;

use super::PROTOCOL;
use crate::context::{Context, Flow};
use crate::permission::Need;
use crate::resp::call::notify::Class;
use crate::resp::call::timing::{self, Spent};
use crate::resp::call::{DONE, Outcome};
use crate::resp::session::Session;
use crate::resp::{execute, failed, prepare, strings};

/// Why the key of a plain request can be hashed.
const SHORT: &str = "a plain request has a key of at most 999 bytes";

/// GET with its key hashed.
#[derive(Clone, Copy, Debug)]
pub struct PlainGet<'a> {
    /// The key.
    pub key: Key<'a>,
}

/// SET with its key hashed.
#[derive(Clone, Copy, Debug)]
pub struct PlainSet<'a> {
    /// The key.
    pub key: Key<'a>,
    value: &'a [u8],
}

impl<'a> PlainGet<'a> {
    /// A GET in this space.
    ///
    /// # Panics
    /// If the key is longer than the engine takes.
    #[inline]
    #[must_use]
    pub fn of(key: &'a [u8], space: Space, cache: &Cache) -> PlainGet<'a> {
        let key = cache.key_in(space, key).expect(SHORT);
        PlainGet { key }
    }
}

impl<'a> PlainSet<'a> {
    /// A SET in this space.
    ///
    /// # Panics
    /// If the key is longer than the engine takes.
    #[inline]
    #[must_use]
    pub fn of(key: &'a [u8], value: &'a [u8], space: Space, cache: &Cache) -> PlainSet<'a> {
        let key = cache.key_in(space, key).expect(SHORT);
        PlainSet { key, value }
    }
}

/// Whether a key was hashed for the client's current database, and no other state has to be
/// checked.
#[inline(always)]
fn is_still_plain(key: Key<'_>, session: &Session, context: &Context<'_>) -> bool {
    let is_plain = session.is_plain() && key.space() == session.space(context.state);
    is_plain && context.serves(key.bytes())
}

/// Runs a GET, whose item probably lies where a hint has found it, and appends its reply.
///
/// What is rare gets references to the caller's memory: for a reference to its own, this function
/// would have to write key and context there for every request.
#[inline(never)]
pub(in crate::resp) fn execute_get(
    get: &PlainGet<'_>,
    hinted: Option<Candidate>,
    session: &mut Session,
    context: &Context<'_>,
    output: &mut Output,
) -> Flow {
    let may = session.may(Need::Read, get.key.bytes(), context.state);
    if !may || !is_still_plain(get.key, session, context) {
        let args = [b"GET".as_slice(), get.key.bytes()];
        return execute_general(&args, session, context, output);
    }
    if note(Verb::Get, session, context) {
        let args = [b"GET".as_slice(), get.key.bytes()];
        let run = |output: &mut Output| read_apart(get, session, context, output);
        return look_at(&args, session, context, output, run);
    }
    let key = get.key.hinted_at(hinted);
    if strings::read_short(key, session.proto, context, output) {
        return Flow::Continue;
    }
    read_long(get, session, context, output)
}

/// Runs a GET of an item that may be missing, long, or no string. A long reply is logged.
#[inline(never)]
fn read_long(
    get: &PlainGet<'_>,
    session: &Session,
    context: &Context<'_>,
    output: &mut Output,
) -> Flow {
    let before = timing::reply_bytes(output);
    let outcome = strings::read_any(get.key, session.proto, *context, output);
    let flow = finish(Verb::Get, outcome, session, context, output);
    let bytes = timing::reply_bytes(output).saturating_sub(before);
    if bytes >= LARGE_BYTES_MIN
        && let Some(command) = find(b"get")
    {
        let args = [b"GET".as_slice(), get.key.bytes()];
        timing::note_reply(command, &args, &session.client, *context, bytes);
    }
    flow
}

/// Runs a GET that is sampled.
#[cold]
#[inline(never)]
fn read_apart(
    get: &PlainGet<'_>,
    session: &Session,
    context: &Context<'_>,
    output: &mut Output,
) -> Flow {
    let outcome = strings::read(get.key, session.proto, *context, output);
    finish(Verb::Get, outcome, session, context, output)
}

/// Runs a SET as [`execute_get`] does a GET.
#[inline(never)]
pub(in crate::resp) fn execute_set(
    set: &PlainSet<'_>,
    hinted: Option<Candidate>,
    session: &mut Session,
    context: &Context<'_>,
    output: &mut Output,
) -> Flow {
    let may = session.may(Need::Write, set.key.bytes(), context.state);
    if !may || !is_still_plain(set.key, session, context) {
        let args = [b"SET".as_slice(), set.key.bytes(), set.value];
        return execute_general(&args, session, context, output);
    }
    if note(Verb::Set, session, context) {
        let args = [b"SET".as_slice(), set.key.bytes(), set.value];
        let run = |output: &mut Output| store_apart(set, session, context, output);
        return look_at(&args, session, context, output, run);
    }
    store(set, hinted, session, context, output)
}

#[inline(always)]
fn store(
    set: &PlainSet<'_>,
    hinted: Option<Candidate>,
    session: &Session,
    context: &Context<'_>,
    output: &mut Output,
) -> Flow {
    context.counters.cmd_set.add(1);
    let options = SetOptions {
        deadline: context.default_deadline(PROTOCOL, session.database),
        ..SetOptions::default()
    };
    let key = set.key.hinted_at(hinted);
    let replaced = context.replaced_by_store(key);
    let stored = context.cache().set(key, set.value, &options);
    let outcome = match stored {
        Ok(_) => {
            context.notify_replaced(replaced, Kind::STRING, key);
            let observer = &context.state.observer;
            observer.notify(Class::String, "set", key.bytes(), session.database);
            Reply::new(output.bytes(), session.proto).ok();
            DONE
        }
        Err(error) => Err(error.into()),
    };
    finish(Verb::Set, outcome, session, context, output)
}

/// Runs a SET that is sampled, apart so that the common path stays short.
#[cold]
#[inline(never)]
fn store_apart(
    set: &PlainSet<'_>,
    session: &Session,
    context: &Context<'_>,
    output: &mut Output,
) -> Flow {
    store(set, None, session, context, output)
}

/// Counts a request; returns whether it is sampled.
#[inline]
fn note(verb: Verb, session: &Session, context: &Context<'_>) -> bool {
    session.client.note_command(verb);
    context.counters.pulse.begin_resp(verb as usize);
    begin_request();
    context.counters.calls.add(verb)
}

/// Runs a sampled request: times it and reports it.
#[cold]
#[inline(never)]
fn look_at(
    args: &[&[u8]],
    session: &Session,
    context: &Context<'_>,
    output: &mut Output,
    run: impl FnOnce(&mut Output) -> Flow,
) -> Flow {
    let misses = context.counters.get_misses.read();
    let before = timing::reply_bytes(output);
    let stopwatch = Stopwatch::start();
    let flow = run(output);
    let ns = stopwatch.ns();
    if context.counters.get_misses.read() > misses
        && let Ok(key) = context
            .cache()
            .key_in(session.space(context.state), args[1])
    {
        context.notify(Class::Miss, "keymiss", key);
    }
    if let Some(command) = find(args[0]) {
        let spent = Spent {
            ns,
            request_bytes: timing::request_bytes(args, session),
            reply_bytes: timing::reply_bytes(output).saturating_sub(before),
        };
        if context.state.records.hot_keys.is_active() {
            timing::measure((command, args), session, *context, spent);
        }
        timing::show(command, args, session, *context);
        timing::note(command, &session.client, spent, *context, || {
            shortened(args)
        });
    }
    flow
}

#[inline]
fn finish(
    verb: Verb,
    outcome: Outcome,
    session: &Session,
    context: &Context<'_>,
    output: &mut Output,
) -> Flow {
    outcome.unwrap_or_else(|failure| {
        failed(verb, &failure, session.proto, *context, output);
        Flow::Continue
    })
}

/// Runs the same as a command of any shape.
#[cold]
fn execute_general(
    args: &[&[u8]],
    session: &mut Session,
    context: &Context<'_>,
    output: &mut Output,
) -> Flow {
    let request = Request::of(args.iter().copied().collect());
    let prepared = prepare(request, session.space(context.state), context.cache());
    execute(&prepared, session, *context, output)
}

//! memcached: its text, meta and binary commands, run against the engine.
//!
//! An event loop meets it in its [`Intake`], which decodes requests, has them run by [`execute`],
//! and takes long values.
//!
//! Tests: tests/conformance.rs, tests/hostile.rs.

use std::sync::Arc;

use cellar_engine::Key;
use cellar_protocol::memcached::{Refused, Request, Stats, reply};

use super::context::{Context, Flow};
use crate::auth::users::User;
use crate::clients::tracking::begin_request;
use crate::net::output::Output;
use crate::state::State;

mod elsewhere; // what is answered when another node keeps the key
mod read;
mod order; // what a store asks the engine for
mod answers; // what a client is told of it
mod extension; // appends that wait for room
mod store;
mod change;
mod meta;
mod list;
mod member; // whose a connection is, on a server with users
mod stats; // what `stats` and key listings show
mod binary; // the same operations, asked in the binary protocol
mod upload;
pub mod intake;

pub use intake::{Intake, Task};

/// The version that clients are told: the memcached that is answered for, then this server's own.
pub const VERSION: &str = concat!("1.6.45-cellar-", env!("CARGO_PKG_VERSION"));

/// A request and the hash of the key it needs first.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    request: Request<'a>,
    key: Option<Key<'a>>,
}

impl<'a> Prepared<'a> {
    /// The key to hint the cache about; base64 keys are not worth a hint.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<Key<'a>> {
        self.key
    }
}

/// Hashes the request's key, once.
#[inline]
fn prepare<'a>(request: Request<'a>, state: &State) -> Prepared<'a> {
    let key = request.plain_key().and_then(|bytes| state.key(bytes).ok());
    Prepared { request, key }
}

/// Runs a request and appends its answer.
#[inline]
fn execute(prepared: &Prepared<'_>, context: Context<'_>, output: &mut Output) -> Flow {
    context.counters.pulse.begin_memcached();
    begin_request();
    let is_node = context.state.cluster.is_some();
    if is_node && elsewhere::answered(&prepared.request, context, output) {
        return Flow::Continue;
    }
    match (
        &prepared.request,
        prepared.key.map(|key| context.key_now(key)),
    ) {
        (Request::Get(get), Some(key)) => return read::get(get, key, context, output),
        (Request::Store(request), Some(key)) => {
            return store::classic(request, key, context, output);
        }
        (Request::Delete { noreply, .. }, Some(key)) => {
            change::delete(key, *noreply, context, output);
        }
        (
            Request::Count {
                delta,
                subtract,
                noreply,
                ..
            },
            Some(key),
        ) => {
            change::count(key, (*delta, *subtract), *noreply, context, output);
        }
        (
            Request::Touch {
                exptime, noreply, ..
            },
            Some(key),
        ) => {
            change::touch(key, *exptime, *noreply, context, output);
        }
        (request, key) => return execute_other(request, key, context, output),
    }
    Flow::Continue
}

/// Meta commands, and commands without a key.
fn execute_other(
    request: &Request<'_>,
    key: Option<Key<'_>>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    execute_for(None, request, key, context, output)
}

/// Runs a request of a user who may see some keys alone: those are listed.
#[cold]
fn execute_limited(
    user: &Arc<User>,
    prepared: &Prepared<'_>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    match &prepared.request {
        request @ (Request::Stats(_) | Request::List { .. }) => {
            execute_for(Some(user), request, None, context, output)
        }
        _ => execute(prepared, context, output),
    }
}

fn execute_for(
    user: Option<&Arc<User>>,
    request: &Request<'_>,
    key: Option<Key<'_>>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    match request {
        Request::MetaGet(request) => meta::get(request, key, context, output),
        Request::MetaSet { meta, verb, value } => {
            return store::meta((meta, *verb, value), key, context, output);
        }
        Request::MetaDelete(request) => meta::delete(request, key, context, output),
        Request::MetaArithmetic { meta, subtract } => {
            meta::arithmetic(meta, *subtract, key, context, output);
        }
        Request::MetaDebug(request) => meta::debug(request, key, context, output),
        Request::MetaNoop => output.bytes().extend_from_slice(reply::line::META_NOOP),
        Request::FlushAll { delay, noreply } => {
            change::flush_all(*delay, *noreply, context, output);
        }
        Request::MemoryLimit { mib, noreply } => {
            change::memory_limit(*mib, *noreply, context, output);
        }
        Request::Cluster => elsewhere::nodes(context, output),
        Request::Version => reply::text_line(output.bytes(), &format!("VERSION {VERSION}")),
        Request::Stats(Stats::CacheDump { class, limit }) => {
            return list::cachedump((*class, *limit), user, context, output);
        }
        Request::Stats(group) => stats::show(*group, user, context, output),
        Request::List { form, all } => return list::start((*form, user), *all, context, output),
        Request::Okay { noreply } => answer(reply::line::OK, *noreply, output),
        Request::Quit => return Flow::Close,
        Request::Get(_)
        | Request::Store(_)
        | Request::Delete { .. }
        | Request::Count { .. }
        | Request::Touch { .. } => unreachable!("a decoded request has a key: {request:?}"),
    }
    Flow::Continue
}

/// Answers bytes that are no request; the caller drops [`Refused::used`] bytes of its input and
/// then [`Refused::swallow`] more as they come.
fn refuse(refused: &Refused, context: Context<'_>, output: &mut Output) -> Flow {
    if !refused.line.is_empty() {
        context.counters.protocol_errors.add(1);
        reply::text_line(output.bytes(), refused.line);
    }
    if refused.close {
        Flow::Close
    } else {
        Flow::Continue
    }
}

/// Appends a line unless the client wants no answer.
#[inline]
fn answer(line: &[u8], noreply: bool, output: &mut Output) {
    if !noreply {
        output.bytes().extend_from_slice(line);
    }
}

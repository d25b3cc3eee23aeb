//! Leases: GET with `lease` or `early`, and POST to a key's `invalidate`, so that one client
//! computes a value while the others wait, or use the old one.
//!
//! Such a GET changes state, so it requires the field Cache-Lease, which a browser never sends for
//! a resource that a page of another origin loads, such as an image.
//!
//! They use the same lease state of the engine as memcached's meta commands and GETLEASE of the
//! Redis protocol. Page: docs/leases.md.

use cellar_engine::{DeleteOptions, Deleted, Found, Handle, Key, Kind, Lookup};
use cellar_protocol::http::{Mark, Status};
use cellar_shared::clients::events::Class;

use super::call::{
    Call, DONE, Failure, Freshness, NOT_FOUND, Outcome, PRECONDITION_FAILED, WRONG_KIND,
};
use super::conditions::Verdict;
use super::etag::Tag;
use super::parameters::{self, milliseconds};
use super::read::{self, Writer};
use crate::permission::Need;

/// Longest lease that a client may ask for.
const LEASE_MS_MAX: u64 = 60 * 60 * 1_000;

const NOT_ASKED: Failure = Failure::new(
    Status::FORBIDDEN,
    "lease_not_asked",
    "a GET with lease or early needs the header Cache-Lease: ask",
);
const TOO_LONG: Failure = Failure::bad("bad_lease", "a lease lasts at most an hour");

/// The header field that tells a client what to do.
fn field(found: &Found<'_>) -> &'static str {
    let lease = found.lease;
    match (lease.stale, lease.won, lease.taken) {
        (true, true, _) => "Cache-Lease: stale-won\r\n",
        (true, false, _) => "Cache-Lease: stale-wait\r\n",
        (false, true, _) => "Cache-Lease: won\r\n",
        (false, false, true) => "Cache-Lease: wait\r\n",
        (false, false, false) => "Cache-Lease: fresh\r\n",
    }
}

/// The result of a look-up.
enum LookedUp {
    /// The value was answered, or is to be sent from the cache's memory.
    Done(Option<Handle>),
    Failed,
    /// No value; its version, and whether the caller is to compute it.
    Stub {
        version: u64,
        won: bool,
    },
}

/// GET of a key by a client that knows leases.
pub(super) fn get(call: &mut Call<'_>, key: Key<'_>) -> Outcome {
    let [lease, early] = parameters::take(&call.request.target, ["lease", "early"])?;
    let lease_ms = lease.as_deref().map(milliseconds).transpose()?;
    let early_ms = early.as_deref().map(milliseconds).transpose()?;
    if lease_ms.is_some_and(|ms| ms > LEASE_MS_MAX) {
        return Err(TOO_LONG);
    }
    // HEAD changes nothing.
    if call.is_head() || (lease_ms, early_ms) == (None, None) {
        return read::get(call, key);
    }
    if !call.request.marks.has(Mark::CacheLease) {
        return Err(NOT_ASKED);
    }
    call.check_need(Need::Write)?;
    let writer = Writer::of(call);
    let lookup = Lookup {
        vivify: lease_ms.map(|ms| call.deadline_in(ms)),
        recache_ms: early_ms,
        lease_ms,
        version: true,
        ..Lookup::default()
    };
    let out = call.output.bytes();
    let seen = call.context.cache().lookup(key, &lookup, |found| {
        let lease = found.lease;
        // An empty stub represents a value that is still being computed.
        if found.item.value.is_empty() && !lease.stale && (lease.won || lease.taken) {
            let (version, won) = (found.version, lease.won);
            return LookedUp::Stub { version, won };
        }
        let tag = Tag::Version(found.version);
        let is_it = |named: Tag| named.is_of(&found.item, found.version);
        let freshness = Freshness {
            early_ms,
            is_stale: lease.stale,
        };
        let writer = writer.with(freshness);
        match writer.answer(out, found.item, tag, is_it, field(&found)) {
            (Verdict::Failed, _) => LookedUp::Failed,
            (_, pinned) => LookedUp::Done(pinned),
        }
    })?;
    let counters = call.context.counters;
    counters.cmd_get.add(1);
    match seen {
        Some(LookedUp::Done(_) | LookedUp::Failed) => counters.get_hits.add(1),
        Some(LookedUp::Stub { .. }) | None => counters.get_misses.add(1),
    }
    match seen {
        Some(LookedUp::Done(pinned)) => {
            if let Some(value) = pinned {
                call.output.push_value(value);
            }
            DONE
        }
        Some(LookedUp::Failed) => Err(PRECONDITION_FAILED),
        Some(LookedUp::Stub { version, won }) => {
            answer_stub(call, version, won);
            DONE
        }
        None if call.context.cache().facts(key, |_| ()).is_some() => Err(WRONG_KIND),
        None => Err(NOT_FOUND),
    }
}

/// Answers that no value exists: one client gets the right to store it, the others wait.
fn answer_stub(call: &mut Call<'_>, version: u64, won: bool) {
    let body: &[u8] = if won {
        b"{\"error\":{\"code\":\"lease_won\",\"message\":\"nothing is stored; you compute it\"}}\n"
    } else {
        b"{\"error\":{\"code\":\"lease_wait\",\"message\":\"somebody is computing the value\"}}\n"
    };
    let mut head = call.head(Status::NOT_FOUND);
    head.raw(b"Content-Type: application/json\r\n");
    if won {
        head.raw(b"Cache-Lease: won\r\n");
        Tag::Version(version).write(&mut head);
    } else {
        head.raw(b"Cache-Lease: wait\r\nRetry-After: 1\r\n");
    }
    head.end(body.len());
    call.output.bytes().extend_from_slice(body);
}

/// POST: keeps the value but marks it as stale, for as long as `stale` says.
pub(super) fn invalidate(call: &mut Call<'_>, key: Key<'_>) -> Outcome {
    let [stale] = parameters::take(&call.request.target, ["stale"])?;
    let stale_ms = stale.as_deref().map(milliseconds).transpose()?;
    let kind = call.context.cache().facts(key, |facts| facts.kind);
    if kind.is_some_and(|kind| kind != Kind::STRING) {
        return Err(WRONG_KIND);
    }
    let options = DeleteOptions {
        mark_stale: true,
        touch: stale_ms.map(|ms| call.deadline_in(ms)),
        when_version: call.when_version(key)?,
        ..DeleteOptions::default()
    };
    match call.context.cache().delete(key, &options)? {
        Deleted::Done => {
            call.context.notify(Class::Generic, "invalidate", key);
            call.head(Status::NO_CONTENT).end_without_length();
            DONE
        }
        Deleted::NotFound => Err(NOT_FOUND),
        Deleted::Exists => Err(PRECONDITION_FAILED),
    }
}

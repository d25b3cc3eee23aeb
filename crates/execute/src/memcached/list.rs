//! Listings of all keys that can be read here, in bounded pieces: lru_crawler metadump and mgdump,
//! and stats cachedump.

use std::io::Write;
use std::sync::Arc;

use cellar_engine::{KeyFacts, Kind, ScanCursor};
use cellar_net::output::Output;
use cellar_protocol::memcached::{Listing, base64, reply};
use cellar_shared::auth::users::User;

use crate::context::{Context, Flow, Unfinished};

/// The class that holds all items, because slabs do not exist here.
pub(super) const CLASS: u32 = 1;
/// Bytes of a listing that one call produces, up to one call of the cache more.
const PIECE_BYTES: usize = 16 << 10;
/// Stretches of the cache that are walked for it: most are empty after a flush.
const PIECE_STRETCHES: usize = 64;

/// The format for each key.
#[derive(Clone, Copy, Debug)]
enum Form {
    Dump(Listing),
    /// Size and deadline, for at most this many keys more.
    Cachedump(usize),
}

/// A listing and where it resumes.
#[derive(Debug)]
struct ListingRest {
    form: Form,
    /// Only keys of this user are listed.
    user: Option<Arc<User>>,
    cursor: ScanCursor,
}

impl Unfinished for ListingRest {
    fn resume(self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        resume(
            (self.form, self.user.as_ref()),
            self.cursor,
            context,
            output,
        )
    }

    fn waiting_bytes(&self) -> usize {
        0
    }
}

/// Begins a listing; `all` is whether the class that holds all items is asked for.
pub(super) fn start(
    (form, user): (Listing, Option<&Arc<User>>),
    all: bool,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let form = Form::Dump(form);
    if all {
        resume((form, user), ScanCursor::START, context, output)
    } else {
        end(form, output)
    }
}

/// Begins stats cachedump: up to `limit` keys that fit into a line, zero for all. Memcached stops
/// at 2 MiB, and nothing tells a client that keys are missing.
pub(super) fn cachedump(
    (class, limit): (u32, u32),
    user: Option<&Arc<User>>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let most = match limit {
        0 => usize::MAX,
        limit => limit as usize,
    };
    let form = Form::Cachedump(most);
    if class == CLASS {
        resume((form, user), ScanCursor::START, context, output)
    } else {
        end(form, output)
    }
}

/// Makes the next piece.
fn resume(
    (mut form, user): (Form, Option<&Arc<User>>),
    cursor: ScanCursor,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let out = output.bytes();
    let full = out.len() + PIECE_BYTES;
    let space = context.state.shared_space();
    let mut cursor = cursor;
    for _ in 0..PIECE_STRETCHES {
        if out.len() >= full {
            break;
        }
        let next = context.cache().keys(cursor, |facts| {
            let is_its = user.is_none_or(|user| user.may_use(facts.key));
            if facts.space != space || facts.kind != Kind::STRING || !is_its {
                return;
            }
            match &mut form {
                Form::Dump(Listing::Metadump) => metadump(out, &facts, context),
                Form::Dump(Listing::Mgdump) => mgdump(out, facts.key),
                Form::Cachedump(left) if *left > 0 && is_printable(facts.key) => {
                    *left -= 1;
                    size_and_deadline(out, &facts, context);
                }
                Form::Cachedump(_) => {}
            }
        });
        match next {
            Some(next) if !matches!(form, Form::Cachedump(0)) => cursor = next,
            _ => return end(form, output),
        }
    }
    let user = user.cloned();
    Flow::Unfinished(Box::new(ListingRest { form, user, cursor }))
}

fn end(form: Form, output: &mut Output) -> Flow {
    output.bytes().extend_from_slice(match form {
        Form::Dump(Listing::Mgdump) => reply::line::META_END,
        _ => reply::line::END,
    });
    Flow::Continue
}

/// One item as names and values, times as Unix times.
fn metadump(out: &mut Vec<u8>, facts: &KeyFacts<'_>, context: Context<'_>) {
    out.extend_from_slice(b"key=");
    reply::percent_escaped(out, facts.key);
    match facts.deadline.instant() {
        Some(at) => write!(out, " exp={}", context.unix_s(at)),
        None => write!(out, " exp=-1"),
    }
    .and_then(|()| {
        let accessed = context
            .unix_s(context.cache().now())
            .saturating_sub(facts.idle_s);
        let fetch = if facts.fetched { "yes" } else { "no" };
        let (version, bytes, flags) = (facts.version, facts.stored_bytes, facts.flags);
        write!(
            out,
            " la={accessed} cas={version} fetch={fetch} cls=1 size={bytes} flags={flags}"
        )
    })
    .expect("writing into a vector does not fail");
    // The space, and the line end without a carriage return, belong to the form.
    out.extend_from_slice(b" \n");
}

/// One item as the command that reads it.
fn mgdump(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"mg ");
    if is_printable(key) {
        out.extend_from_slice(key);
    } else {
        base64::encode(out, key);
        out.extend_from_slice(b" b");
    }
    out.extend_from_slice(b"\r\n");
}

/// One item as a line of stats cachedump.
fn size_and_deadline(out: &mut Vec<u8>, facts: &KeyFacts<'_>, context: Context<'_>) {
    let exptime_s = facts.deadline.instant().map_or(0, |at| context.unix_s(at));
    out.extend_from_slice(b"ITEM ");
    out.extend_from_slice(facts.key);
    write!(out, " [{} b; {exptime_s} s]\r\n", facts.value_bytes)
        .expect("writing into a vector does not fail");
}

/// Whether a key is valid in a command line without encoding.
fn is_printable(key: &[u8]) -> bool {
    key.len() <= cellar_protocol::memcached::KEY_BYTES_MAX
        && key.iter().all(|byte| !matches!(byte, 0..=b' ' | 0x7f))
}

//! Listings of all keys that can be read here: lru_crawler metadump and mgdump, in bounded pieces.

use std::io::Write;
use std::sync::Arc;

use cellar_engine::{KeyFacts, Kind, ScanCursor};
use cellar_protocol::memcached::{Listing, base64, reply};

use crate::execute::context::{Context, Flow, Unfinished};
use crate::output::Output;
use crate::users::User;

/// Bytes of a listing that are made in one call, give or take one call of the cache.
const PIECE_BYTES: usize = 16 << 10;
/// Stretches of the cache that are looked through for it: most are empty after a flush.
const PIECE_STRETCHES: usize = 64;

/// A listing and where it goes on.
#[derive(Debug)]
struct ListingRest {
    form: Listing,
    /// Whose keys alone are listed.
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
    output.bytes().extend_from_slice(reply::line::OK);
    if all {
        resume((form, user), ScanCursor::START, context, output)
    } else {
        end(form, output)
    }
}

/// Makes the next piece.
fn resume(
    (form, user): (Listing, Option<&Arc<User>>),
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
            match form {
                Listing::Metadump => metadump(out, &facts, context),
                Listing::Mgdump => mgdump(out, facts.key),
            }
        });
        match next {
            Some(next) => cursor = next,
            None => return end(form, output),
        }
    }
    let user = user.cloned();
    Flow::Unfinished(Box::new(ListingRest { form, user, cursor }))
}

fn end(form: Listing, output: &mut Output) -> Flow {
    output.bytes().extend_from_slice(match form {
        Listing::Metadump => reply::line::END,
        Listing::Mgdump => reply::line::META_END,
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

/// Whether a key can stand in a command line as it is.
pub(super) fn is_printable(key: &[u8]) -> bool {
    key.len() <= cellar_protocol::memcached::KEY_BYTES_MAX
        && key.iter().all(|byte| !matches!(byte, 0..=b' ' | 0x7f))
}

//! Reads: GET and HEAD of a key.

use cellar_engine::{Handle, Item, Key, Kind, Lookup, Scratch};
use cellar_net::output::PINNED_VALUE_BYTES_MIN;
use cellar_protocol::http::Status;
use cellar_protocol::http::reply::{DATE_BYTES, Head, Stay};
use cellar_protocol::http::{Mark, Request};
use cellar_shared::keyspace::content_types::{self, ContentTypes};

use super::call::{
    Call, DONE, Failure, Freshness, NOT_FOUND, Outcome, PRECONDITION_FAILED, WRONG_KIND,
};
use super::conditions::{self, Verdict};
use super::date;
use super::etag::Tag;
use crate::context::Context;

/// Keeps a browser from running a value of an executable type.
const HARMLESS: &[u8] = b"Content-Security-Policy: sandbox\r\n";

/// The result of reading an item.
enum Seen {
    /// It was answered; a large value is to be sent from the cache's memory.
    Done(Option<Handle>),
    /// It has to be looked up with its version, or may be a lease stub.
    Unusual,
    Failed(Failure),
}

/// The state to write a response with while the item is borrowed.
#[derive(Clone, Copy)]
pub(super) struct Writer<'w> {
    request: &'w Request<'w>,
    context: Context<'w>,
    stay: Stay,
    date: [u8; DATE_BYTES],
    is_head: bool,
    freshness: Freshness,
}

impl<'w> Writer<'w> {
    #[inline]
    pub(super) fn of(call: &Call<'w>) -> Writer<'w> {
        Writer {
            request: call.request,
            context: call.context,
            stay: call.stay,
            date: date::now(call.context),
            is_head: call.is_head(),
            freshness: Freshness::default(),
        }
    }

    /// The same for a reader that knows leases.
    pub(super) fn with(self, freshness: Freshness) -> Writer<'w> {
        Writer { freshness, ..self }
    }

    /// Answers with an item as the conditions of the request require; `fields` are added to the
    /// response. Returns a value that is too large to be copied, to be handed to
    /// [`Output::push_value`](cellar_net::output::Output::push_value).
    ///
    /// With [`Verdict::Failed`] nothing was appended.
    #[inline]
    pub(super) fn answer(
        self,
        out: &mut Vec<u8>,
        item: Item<'_>,
        tag: Tag,
        is_it: impl Fn(Tag) -> bool,
        fields: &str,
    ) -> (Verdict, Option<Handle>) {
        let verdict = conditions::of_read(self.request, is_it);
        let pinned = match verdict {
            Verdict::Send => self.value(out, item, tag, fields),
            Verdict::NotModified => {
                let mut head = Head::begin(out, Status::NOT_MODIFIED, self.stay, &self.date);
                tag.write(&mut head);
                head.raw(fields.as_bytes());
                self.freshness.write(&mut head, item.deadline, self.context);
                head.end_without_length();
                None
            }
            Verdict::Failed => None,
        };
        (verdict, pinned)
    }

    /// Appends a response with an item's value, or returns the value.
    #[inline]
    fn value(self, out: &mut Vec<u8>, item: Item<'_>, tag: Tag, fields: &str) -> Option<Handle> {
        let mut head = Head::begin(out, Status::OK, self.stay, &self.date);
        if let Some(field) = ContentTypes::common_field(item.flags) {
            head.raw(field.as_bytes());
        } else {
            let types = &self.context.state.content_types;
            types.with(item.flags, |text| {
                head.field("Content-Type", text.as_bytes());
            });
        }
        if !content_types::is_inert(item.flags) {
            head.raw(HARMLESS);
        }
        tag.write(&mut head);
        head.raw(fields.as_bytes());
        self.freshness.write(&mut head, item.deadline, self.context);
        head.end(item.value.len());
        if self.is_head {
            return None;
        }
        if item.value.len() >= PINNED_VALUE_BYTES_MIN {
            return Some(item.pin());
        }
        out.extend_from_slice(item.value);
        None
    }
}

impl From<(Verdict, Option<Handle>)> for Seen {
    #[inline]
    fn from((verdict, pinned): (Verdict, Option<Handle>)) -> Seen {
        match verdict {
            Verdict::Send | Verdict::NotModified => Seen::Done(pinned),
            Verdict::Failed => Seen::Failed(PRECONDITION_FAILED),
        }
    }
}

/// GET and HEAD.
#[inline]
pub(super) fn get(call: &mut Call<'_>, key: Key<'_>) -> Outcome {
    let writer = Writer::of(call);
    // A tag that a client insists on may be a version.
    if !call.request.marks.has(Mark::IfMatch) {
        let mut scratch = Scratch::new();
        // Such an item is a string, and short.
        if let Some(item) = call.context.cache().get_copied(key, &mut scratch) {
            if item.value.is_empty() {
                let seen = unusual(call, key, writer)?;
                return conclude(call, seen);
            }
            let tag = Tag::of_content(item.value, item.flags);
            let out = call.output.bytes();
            let seen = writer.answer(out, item, tag, |named| named == tag, "");
            return conclude(call, Some(seen.into()));
        }
    }
    get_any(call, key, writer)
}

/// The same of what is missing, long, or no string.
#[inline(never)]
fn get_any(call: &mut Call<'_>, key: Key<'_>, writer: Writer<'_>) -> Outcome {
    let context = call.context;
    let is_unusual = call.request.marks.has(Mark::IfMatch);
    let out = call.output.bytes();
    let seen = context.cache().get(key, |item| {
        if item.kind != Kind::STRING {
            return Seen::Failed(WRONG_KIND);
        }
        if is_unusual || !(1..PINNED_VALUE_BYTES_MIN).contains(&item.value.len()) {
            return Seen::Unusual;
        }
        let tag = Tag::of_content(item.value, item.flags);
        writer
            .answer(out, item, tag, |named| named == tag, "")
            .into()
    });
    let seen = match seen {
        Some(Seen::Unusual) => unusual(call, key, writer)?,
        seen => seen,
    };
    conclude(call, seen)
}

/// Counts, and sends what was found.
#[inline]
fn conclude(call: &mut Call<'_>, seen: Option<Seen>) -> Outcome {
    let counters = call.context.counters;
    counters.cmd_get.add(1);
    let Some(seen) = seen else {
        counters.get_misses.add(1);
        return Err(NOT_FOUND);
    };
    counters.get_hits.add(1);
    match seen {
        Seen::Done(pinned) => {
            if let Some(value) = pinned {
                call.output.push_value(value);
            }
            DONE
        }
        Seen::Failed(failure) => Err(failure),
        Seen::Unusual => Err(NOT_FOUND),
    }
}

/// Handles a large value, which has a version, or an empty one, which may represent a value that is
/// being computed.
#[cold]
fn unusual(call: &mut Call<'_>, key: Key<'_>, writer: Writer<'_>) -> Result<Option<Seen>, Failure> {
    let lookup = Lookup::of_version();
    let out = call.output.bytes();
    let seen = call.context.cache().lookup(key, &lookup, |found| {
        if found.lease.taken && found.item.value.is_empty() {
            return None;
        }
        let tag = if found.item.value.len() >= PINNED_VALUE_BYTES_MIN {
            Tag::Version(found.version)
        } else {
            Tag::of_content(found.item.value, found.item.flags)
        };
        let is_it = |named: Tag| named.is_of(&found.item, found.version);
        Some(writer.answer(out, found.item, tag, is_it, "").into())
    })?;
    Ok(seen.flatten())
}

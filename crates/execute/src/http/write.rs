//! Writes: PUT and DELETE of a key.

use cellar_engine::{Deadline, DeleteOptions, Deleted, Key, Kind, SetOptions, Stored, When};
use cellar_net::output::PINNED_VALUE_BYTES_MIN;
use cellar_protocol::http::{Mark, Status};
use cellar_shared::clients::events::Class;
use cellar_shared::keyspace::content_types::Unknown;

use super::call::{Call, DONE, Failure, NOT_FOUND, Outcome, PRECONDITION_FAILED};
use super::etag::Tag;
use super::parameters;
use crate::context::Context;
use crate::upload::ValueSource;

/// The parameters of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreOrder {
    pub(super) options: SetOptions,
    /// Whether the client named a time to live.
    names_ttl: bool,
}

impl StoreOrder {
    /// A store of a value with these flags, and with the deadline that the client named, if it did.
    pub(super) fn new(call: &Call<'_>, deadline: Option<Deadline>, flags: u32) -> StoreOrder {
        let options = SetOptions {
            deadline: deadline.unwrap_or_else(|| call.default_deadline()),
            flags,
            ..SetOptions::default()
        };
        StoreOrder {
            options,
            names_ttl: deadline.is_some_and(|deadline| deadline != Deadline::NEVER),
        }
    }

    /// The same on a condition.
    pub(super) fn when(self, when: When) -> StoreOrder {
        let options = SetOptions {
            when,
            ..self.options
        };
        StoreOrder { options, ..self }
    }
}

/// The store parameters of a PUT.
pub(super) fn order(call: &Call<'_>, key: Key<'_>) -> Result<StoreOrder, Failure> {
    let [ttl] = parameters::take(&call.request.target, ["ttl"])?;
    let deadline = call.deadline(ttl.as_deref())?;
    let order = StoreOrder::new(call, deadline, flags(call)?);
    Ok(order.when(call.when(key)?))
}

/// The flags for the type of the body.
fn flags(call: &Call<'_>) -> Result<u32, Failure> {
    let marks = call.request.marks;
    if marks.has(Mark::ContentEncoding) {
        let value = call.request.field(Mark::ContentEncoding);
        if !value.is_some_and(|value| value.eq_ignore_ascii_case(b"identity")) {
            let message = "the server does not store values with a Content-Encoding";
            let status = Status::UNSUPPORTED_MEDIA_TYPE;
            return Err(Failure::new(status, "unsupported_coding", message));
        }
    }
    let Some(content_type) = call.request.field(Mark::ContentType) else {
        return Ok(0);
    };
    let types = &call.context.state.content_types;
    types.flags(content_type).map_err(|unknown| {
        let message = match unknown {
            Unknown::Malformed => "Content-Type is not a type of at most 128 visible characters",
            Unknown::TooMany => "too many different Content-Types have been stored",
        };
        Failure::new(Status::UNSUPPORTED_MEDIA_TYPE, "unsupported_type", message)
    })
}

/// Stores a value, counts it, and publishes the event; returns the item's version, if requested.
#[inline]
pub(super) fn store(
    key: Key<'_>,
    source: ValueSource<'_>,
    order: &StoreOrder,
    context: Context<'_>,
) -> Result<u64, Failure> {
    let options = &order.options;
    let counters = context.counters;
    let cache = context.cache();
    let replaced = context.replaced_by_store(key);
    let stored = match source {
        ValueSource::Bytes(value) => cache.set(key, value, options),
        ValueSource::Draft(draft) => cache.commit(draft, options),
    };
    let stored = stored.inspect_err(|error| note_failure(key, error, options, context))?;
    counters.cmd_set.add(1);
    if let When::Version(_) = options.when {
        match stored {
            Stored::Done { .. } => counters.cas_hits.add(1),
            Stored::NotFound => counters.cas_misses.add(1),
            Stored::Exists | Stored::NotStored => counters.cas_badval.add(1),
        }
    }
    let Stored::Done { version } = stored else {
        return Err(PRECONDITION_FAILED);
    };
    context.notify_replaced(replaced, Kind::STRING, key);
    context.notify(Class::String, "set", key);
    if order.names_ttl {
        context.notify(Class::Generic, "expire", key);
    }
    Ok(version)
}

/// Counts a value without memory, and removes the old one, so that no client reads it further.
#[cold]
pub(super) fn note_failure(
    key: Key<'_>,
    error: &cellar_engine::Error,
    options: &SetOptions,
    context: Context<'_>,
) {
    match error {
        cellar_engine::Error::TooLarge { .. } => context.counters.store_too_large.add(1),
        _ => context.counters.store_no_memory.add(1),
    }
    if options.when == When::Always {
        let _ = context.cache().delete(key, &DeleteOptions::default());
    }
}

/// PUT
#[inline]
pub(super) fn put(call: &mut Call<'_>, key: Key<'_>) -> Outcome {
    if !call.request.marks.has(Mark::ContentLength)
        && !call.request.marks.has(Mark::TransferEncoding)
    {
        return Err(LENGTH_REQUIRED);
    }
    let order = order(call, key)?;
    let value = call.request.body;
    let tag = put_value(
        key,
        ValueSource::Bytes(value),
        value.len(),
        order,
        call.context,
        || Tag::of_content(value, order.options.flags),
    )?;
    answer_put(call, tag);
    DONE
}

/// Why a request without a body's length is not taken.
pub(super) const LENGTH_REQUIRED: Failure = Failure::new(
    Status::LENGTH_REQUIRED,
    "length_required",
    "the body needs a Content-Length or Transfer-Encoding: chunked",
);

/// Stores the value of a PUT; the tag it has then. `content` makes the tag of a small one.
pub(super) fn put_value(
    key: Key<'_>,
    source: ValueSource<'_>,
    value_bytes: usize,
    mut order: StoreOrder,
    context: Context<'_>,
    content: impl FnOnce() -> Tag,
) -> Result<Tag, Failure> {
    let is_large = value_bytes >= PINNED_VALUE_BYTES_MIN;
    order.options.version = is_large;
    let version = store(key, source, &order, context)?;
    Ok(if is_large {
        Tag::Version(version)
    } else {
        content()
    })
}

/// Answers a PUT that was done.
#[inline]
pub(super) fn answer_put(call: &mut Call<'_>, tag: Tag) {
    let mut head = call.head(Status::NO_CONTENT);
    tag.write(&mut head);
    head.end_without_length();
}

/// DELETE
pub(super) fn delete(call: &mut Call<'_>, key: Key<'_>) -> Outcome {
    let [] = parameters::take(&call.request.target, [])?;
    let counters = call.context.counters;
    let options = DeleteOptions {
        when_version: call.when_version(key)?,
        ..DeleteOptions::default()
    };
    match call.context.cache().delete(key, &options)? {
        Deleted::Done => {
            counters.delete_hits.add(1);
            call.context.notify(Class::Generic, "del", key);
            call.head(Status::NO_CONTENT).end_without_length();
            DONE
        }
        Deleted::NotFound => {
            counters.delete_misses.add(1);
            Err(if call.request.marks.has(Mark::IfMatch) {
                PRECONDITION_FAILED
            } else {
                NOT_FOUND
            })
        }
        Deleted::Exists => {
            counters.delete_misses.add(1);
            Err(PRECONDITION_FAILED)
        }
    }
}

//! Uploads: bodies that are received while other clients are served.
//!
//! A large value of known length goes straight into the engine's memory ([`Upload`]). Other bodies
//! are gathered ([`Gather`]): those in chunks, and long documents of JSON.

use cellar_engine::Error;
use cellar_protocol::http::reply::{self, Stay};
use cellar_protocol::http::{Body, Chunks, Fed, Kept, Mark, Method, Status};

use super::call::{Call, Failure, write_failure};
use super::etag::Tag;
use super::route::Route;
use super::write::{self, StoreOrder};
use super::{Peer, Prepared, date, execute, guard, prepare};
use crate::clients::pause::Effect;
use crate::config::limits::{CHUNKED_VALUE_BYTES_MAX, DOCUMENT_BYTES_MAX};
use crate::execute::context::{Context, Flow, Refusal};
use crate::execute::filling::{Filling, ValueSource};
use crate::net::output::Output;

/// Longest body of a request that does not use one.
const USELESS_BYTES_MAX: usize = 64 << 10;
/// Longest refused body that is read, so that the connection can stay.
const SKIPPED_BYTES_MAX: u64 = 1 << 20;

/// The rest of a request in progress.
#[derive(Debug)]
pub(super) enum Rest {
    /// A value that goes straight into the engine's memory.
    Upload(Box<Upload>),
    /// A body that is gathered.
    Gather(Box<Gather>),
}

/// A PUT whose value is on its way.
#[derive(Debug)]
pub(super) struct Upload {
    /// The value so far.
    pub(super) filling: Filling,
    request: Kept,
    key: Box<[u8]>,
    order: StoreOrder,
    /// Whether its client uses TLS.
    is_tls: bool,
}

/// A request whose body is being gathered.
#[derive(Debug)]
pub(super) struct Gather {
    request: Kept,
    body: Vec<u8>,
    bytes_max: usize,
    missing: Missing,
    /// How the request counts for a pause.
    pub(super) effect: Effect,
}

/// The part of a body that is still to come.
#[derive(Debug)]
enum Missing {
    Bytes(usize),
    Chunks(Chunks),
}

/// The result of gathering bytes.
#[derive(Debug)]
pub(super) enum Gathered {
    /// More bytes are missing.
    More,
    /// The body is whole; this many bytes were used.
    Whole(usize),
    /// The request was answered, and the connection ends.
    Refused,
}

/// Reserves memory for the body of a request; a refused request is answered at once.
///
/// # Errors
/// How the connection continues without the body.
pub(super) fn receive(
    prepared: &Prepared<'_>,
    body: Body,
    peer: &mut Peer,
    context: Context<'_>,
    output: &mut Output,
) -> Result<Rest, Flow> {
    let mut call = Call::new(&prepared.request, context, output);
    call.is_tls = peer.is_tls;
    let may = match guard::check(&mut call, peer, prepared.route) {
        Ok(_) => super::check(&call, prepared.route),
        Err(guard::Stop::Failure(failure)) => Err(failure),
        Err(guard::Stop::Wait(ticket)) => return Err(Flow::Wait(ticket)),
    };
    let bytes_max = match may {
        Ok(()) => body_bytes_max(prepared, body, context),
        Err(failure) => return Err(refuse_body(&mut call, &failure, body)),
    };
    let bytes = match body {
        Body::Bytes(bytes) => match usize::try_from(bytes) {
            Ok(bytes) if bytes <= bytes_max => Some(bytes),
            _ => return Err(refuse_body(&mut call, &too_large(bytes_max), body)),
        },
        Body::Chunks => None,
    };
    let rest = match (prepared.request.method, prepared.route, bytes) {
        (Method::Put, Route::Entry(text), Some(bytes)) => match upload(&call, text, bytes) {
            Ok(upload) => Rest::Upload(Box::new(upload)),
            Err(failure) => return Err(refuse_body(&mut call, &failure, body)),
        },
        _ => Rest::Gather(Box::new(Gather {
            request: Kept::of(&prepared.request),
            body: Vec::new(),
            bytes_max,
            missing: bytes.map_or(Missing::Chunks(Chunks::default()), Missing::Bytes),
            effect: prepared.effect(),
        })),
    };
    peer.under_way = call.login.take();
    Ok(rest)
}

/// Sends 100 Continue, if the client waits for it.
pub(super) fn banner(prepared: &Prepared<'_>, output: &mut Output) {
    if prepared.request.marks.has(Mark::Expect) && !prepared.request.marks.has(Mark::Old) {
        output.bytes().extend_from_slice(reply::CONTINUE);
    }
}

/// The longest body that a request may have.
fn body_bytes_max(prepared: &Prepared<'_>, body: Body, context: Context<'_>) -> usize {
    let value_bytes_max = context.cache().value_bytes_max();
    match (prepared.request.method, prepared.route) {
        (Method::Put, Route::Entry(_)) if body == Body::Chunks => {
            value_bytes_max.min(CHUNKED_VALUE_BYTES_MAX)
        }
        (Method::Put, Route::Entry(_)) => value_bytes_max,
        (Method::Post, Route::Collection | Route::BatchGet | Route::BatchPut) => DOCUMENT_BYTES_MAX,
        _ => USELESS_BYTES_MAX,
    }
}

fn too_large(bytes_max: usize) -> Failure {
    let message = format!("the body is too long; at most {bytes_max} bytes are allowed");
    Failure::new(Status::CONTENT_TOO_LARGE, "content_too_large", "").says(message)
}

/// Answers a request whose body is not wanted. A client that waits for 100 Continue may send it or
/// not, so its connection ends.
fn refuse_body(call: &mut Call<'_>, failure: &Failure, body: Body) -> Flow {
    let skipped = match body {
        Body::Bytes(bytes) if bytes <= SKIPPED_BYTES_MAX => usize::try_from(bytes).ok(),
        _ => None,
    };
    let skipped = skipped.filter(|_| !call.request.marks.has(Mark::Expect));
    let skipped = skipped.filter(|_| call.stay != Stay::Close);
    if skipped.is_none() {
        call.stay = Stay::Close;
    }
    call.answer_failure(failure);
    skipped.map_or(Flow::Close, Flow::Skip)
}

fn upload(call: &Call<'_>, text: &str, bytes: usize) -> Result<Upload, Failure> {
    let key_bytes = super::key_bytes(text)?;
    let key = call.key_here(&key_bytes)?;
    let order = write::order(call, key)?;
    let room = call.context.cache().reserve(key, bytes);
    let room =
        room.inspect_err(|error| write::note_failure(key, error, &order.options, call.context))?;
    Ok(Upload {
        filling: Filling::without_line_end(room, bytes),
        request: Kept::of(call.request),
        key: key_bytes.into(),
        order,
        is_tls: call.is_tls,
    })
}

impl Upload {
    /// Bytes of memory that it holds beside the cache's.
    pub(super) fn held_bytes(&self) -> usize {
        self.request.bytes() + self.key.len()
    }

    /// Answers that no memory is available for the body of the request.
    pub(super) fn refuse(
        self,
        error: &Error,
        (prepared, body): (&Prepared<'_>, Body),
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let mut call = Call::new(&prepared.request, context, output);
        let failure = match call.key(&self.key) {
            Ok(key) => {
                write::note_failure(key, error, &self.order.options, context);
                error.clone().into()
            }
            Err(failure) => failure,
        };
        refuse_body(&mut call, &failure, body)
    }

    /// Stores a value that is whole, and answers.
    ///
    /// # Panics
    /// If bytes are missing.
    pub(super) fn finish(self, context: Context<'_>, output: &mut Output) -> Flow {
        let Upload {
            filling,
            request,
            key,
            order,
            is_tls,
        } = self;
        let request = request.with_body(&[]);
        let mut call = Call::new(&request, context, output);
        call.is_tls = is_tls;
        let value_bytes = filling.value_bytes();
        let mut draft = filling.finish();
        // The slot may have moved to another node while the value arrived.
        let outcome = call.key_here(&key).and_then(|key| {
            // A small one also arrives here, if its client has waited for 100 Continue.
            let tag = Tag::of_content(small_part(draft.value_mut()), order.options.flags);
            let source = ValueSource::Draft(draft);
            let tag = write::put_value(key, source, value_bytes, order, context, || tag)?;
            write::answer_put(&mut call, tag);
            super::call::DONE
        });
        call.finish(outcome)
    }
}

/// The value, as far as its hash can be its tag.
fn small_part(value: &[u8]) -> &[u8] {
    if value.len() < crate::net::output::PINNED_VALUE_BYTES_MIN {
        value
    } else {
        &[]
    }
}

impl Gather {
    /// Bytes of memory that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.request.bytes() + self.body.len()
    }

    /// Takes what it can from `input`; a body that is refused is answered.
    pub(super) fn feed(
        &mut self,
        input: &[u8],
        context: Context<'_>,
        output: &mut Output,
    ) -> Gathered {
        let failure = match &mut self.missing {
            Missing::Bytes(missing) => {
                let bytes = (*missing).min(input.len());
                self.body.extend_from_slice(&input[..bytes]);
                *missing -= bytes;
                return if *missing == 0 {
                    Gathered::Whole(bytes)
                } else {
                    Gathered::More
                };
            }
            Missing::Chunks(chunks) => match chunks.feed(input, &mut self.body, self.bytes_max) {
                Fed::More => return Gathered::More,
                Fed::Done(used) => return Gathered::Whole(used),
                Fed::TooLarge => too_large(self.bytes_max),
                Fed::Malformed => Failure::bad("bad_chunk", "the chunks of the body are malformed"),
            },
        };
        let request = self.request.with_body(&[]);
        let mut call = Call::new(&request, context, output);
        call.stay = Stay::Close;
        call.answer_failure(&failure);
        Gathered::Refused
    }

    /// Runs the request whose body is whole.
    pub(super) fn finish(self, peer: &mut Peer, context: Context<'_>, output: &mut Output) -> Flow {
        let prepared = prepare(self.request.with_body(&self.body), context.state);
        match execute(&prepared, peer, context, output) {
            // The user was valid when the head arrived, and has changed since.
            Flow::Wait(_) => {
                let mut call = Call::new(&prepared.request, context, output);
                call.stay = Stay::Close;
                call.answer_failure(&guard::UNKNOWN_USER);
                Flow::Close
            }
            flow => flow,
        }
    }
}

/// Sends a client the error that its pipeline needs more memory than clients may use.
pub(super) fn refuse_connection(refusal: Refusal, context: Context<'_>, output: &mut Output) {
    let failure = Failure::new(Status::UNAVAILABLE, refusal.code(), refusal.text());
    write_failure(output, &failure, (Stay::Close, false), &date::now(context));
}

/// Sends a client the error that its request took too long.
pub(super) fn time_out(context: Context<'_>, output: &mut Output) {
    let failure = Failure::new(
        Status::REQUEST_TIMEOUT,
        "request_timeout",
        "the client did not send the whole request in time",
    );
    write_failure(output, &failure, (Stay::Close, false), &date::now(context));
}

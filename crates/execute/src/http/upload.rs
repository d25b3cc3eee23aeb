//! Uploads: bodies that are received while other clients are served.
//!
//! A large value of known length goes straight into the engine's memory ([`Upload`]). Other bodies
//! are gathered ([`Gather`]), because their length is known last, as of those in chunks, or because
//! they are no values, as long documents of JSON.

use cellar_config::limits::{CHUNKED_VALUE_BYTES_MAX, DOCUMENT_BYTES_MAX};
use cellar_engine::Error;
use cellar_net::output::Output;
use cellar_protocol::http::reply::{self, Stay};
use cellar_protocol::http::{Body, Chunks, Fed, Kept, Mark, Method, Status};
use cellar_shared::clients::budget::Held;
use cellar_shared::clients::pause::Effect;

use super::call::{Call, Failure, write_failure};
use super::etag::Tag;
use super::route::Route;
use super::write::{self, StoreOrder};
use super::{Intake, Peer, Prepared, date, execute, guard, prepare};
use crate::context::{Context, Flow, Intake as _, Refusal};
use crate::upload::{LineEnd, Upload, ValueSource};

/// Longest body of a request that does not use one.
const USELESS_BYTES_MAX: usize = 64 << 10;
/// Longest refused body that is read, so that the connection can stay.
const SKIPPED_BYTES_MAX: u64 = 1 << 20;

/// The rest of a request in progress.
#[derive(Debug)]
pub(super) enum Rest {
    /// A value that goes straight into the engine's memory.
    Upload(Box<Upload<PutRequest>>),
    /// A body that is gathered.
    Gather(Box<Gather>),
}

/// A PUT whose value is on its way.
#[derive(Debug)]
pub(super) struct PutRequest {
    request: Kept,
    order: StoreOrder,
    /// Whether its client uses TLS.
    is_tls: bool,
}

/// A request whose body is being gathered.
#[derive(Debug)]
pub(super) struct Gather {
    request: Kept,
    body: Vec<u8>,
    /// Length of the body; of one in chunks, the longest that it may have.
    bytes_max: usize,
    /// How its chunks go on, if it is in chunks.
    chunks: Option<Chunks>,
    /// How the request counts for a pause.
    pub(super) effect: Effect,
}

impl Intake {
    /// Begins to receive the body of a request, or takes the next step towards its memory; a
    /// refused request is answered at once.
    pub(super) fn receive(
        &mut self,
        (prepared, body): (&Prepared<'_>, Body),
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let rest = match self.rest.take() {
            Some(Rest::Upload(mut upload)) => {
                match upload.draft.extend_reservation(context.cache()) {
                    Ok(()) => Ok(Rest::Upload(upload)),
                    Err(error) => Err(upload.refuse(&error, (prepared, body), context, output)),
                }
            }
            _ => begin(prepared, body, &mut self.peer, context, output),
        };
        match rest {
            Ok(rest) => self.rest = Some(rest),
            Err(flow) => return flow,
        }
        if self.makes_room() {
            return Flow::Again;
        }
        banner(prepared, output);
        Flow::Feed
    }
}

/// Begins to reserve memory for the body of a request; a refused request is answered at once.
///
/// # Errors
/// How the connection continues without the body.
fn begin(
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
            Ok(upload) => Rest::Upload(upload),
            Err(failure) => return Err(refuse_body(&mut call, &failure, body)),
        },
        _ => Rest::Gather(Box::new(Gather {
            request: Kept::of(&prepared.request),
            body: Vec::new(),
            bytes_max: bytes.unwrap_or(bytes_max),
            chunks: bytes.is_none().then(Chunks::default),
            effect: prepared.effect(),
        })),
    };
    peer.under_way = call.login.take();
    Ok(rest)
}

/// Sends 100 Continue, if the client waits for it.
fn banner(prepared: &Prepared<'_>, output: &mut Output) {
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

fn upload(call: &Call<'_>, text: &[u8], bytes: usize) -> Result<Box<Upload<PutRequest>>, Failure> {
    let key_bytes = super::key_bytes(text)?;
    let key = call.key_here(&key_bytes)?;
    let order = write::order(call, key)?;
    let draft = call.context.cache().reserve(key, bytes);
    let draft =
        draft.inspect_err(|error| write::note_failure(key, error, &order.options, call.context))?;
    let request = PutRequest {
        request: Kept::of(call.request),
        order,
        is_tls: call.is_tls,
    };
    Ok(Upload::new(&key_bytes, draft, LineEnd::NONE, request))
}

impl Rest {
    /// The bytes that it holds.
    pub(super) fn held(&self) -> Held {
        match self {
            Rest::Upload(upload) => Held {
                beside: upload.request.request.bytes() + upload.key.len(),
                cached: upload.draft.value_bytes(),
            },
            Rest::Gather(gather) => Held {
                beside: gather.request.bytes() + gather.body.len(),
                cached: 0,
            },
        }
    }
}

impl Upload<PutRequest> {
    /// Answers that no memory is available for the body of the request.
    fn refuse(
        self,
        error: &Error,
        (prepared, body): (&Prepared<'_>, Body),
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let mut call = Call::new(&prepared.request, context, output);
        let failure = match call.key(&self.key) {
            Ok(key) => {
                write::note_failure(key, error, &self.request.order.options, context);
                error.clone().into()
            }
            Err(failure) => failure,
        };
        refuse_body(&mut call, &failure, body)
    }

    /// Stores a complete value, and answers.
    pub(super) fn finish(self, context: Context<'_>, output: &mut Output) -> Flow {
        let Upload {
            key,
            mut draft,
            request:
                PutRequest {
                    request,
                    order,
                    is_tls,
                },
            ..
        } = self;
        let request = request.with_body(&[]);
        let mut call = Call::new(&request, context, output);
        call.is_tls = is_tls;
        let value_bytes = draft.value_bytes();
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
    if value.len() < cellar_net::output::PINNED_VALUE_BYTES_MIN {
        value
    } else {
        &[]
    }
}

impl Gather {
    /// Takes what it can from `input`; returns how many bytes were used once the body is whole.
    ///
    /// # Errors
    /// Why the body is refused.
    pub(super) fn feed(&mut self, input: &[u8]) -> Result<Option<usize>, Failure> {
        let Some(chunks) = &mut self.chunks else {
            let missing = self.bytes_max - self.body.len();
            let bytes = missing.min(input.len());
            self.body.extend_from_slice(&input[..bytes]);
            return Ok((bytes == missing).then_some(bytes));
        };
        match chunks.feed(input, &mut self.body, self.bytes_max) {
            Fed::More => Ok(None),
            Fed::Done(used) => Ok(Some(used)),
            Fed::TooLarge => Err(too_large(self.bytes_max)),
            Fed::Malformed => Err(Failure::bad(
                "bad_chunk",
                "the chunks of the body are malformed",
            )),
        }
    }

    /// Answers a request whose body is refused, and ends the connection.
    pub(super) fn refuse(
        &self,
        failure: &Failure,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        let request = self.request.with_body(&[]);
        let mut call = Call::new(&request, context, output);
        call.stay = Stay::Close;
        call.answer_failure(failure);
        Flow::Close
    }

    /// Runs the request whose body is whole.
    pub(super) fn finish(self, peer: &mut Peer, context: Context<'_>, output: &mut Output) -> Flow {
        let prepared = prepare(self.request.with_body(&self.body), context.state);
        match execute(&prepared, None, peer, context, output) {
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

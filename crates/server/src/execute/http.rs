//! HTTP: `/v1/cache` and what is below it, run against the engine; everything else is a page.
//!
//! Bytes that are no request go to [`refuse`]; a request whose body is not there goes to
//! [`receive`], its body into an [`Upload`] or a [`Gather`]. HTTP sees the keys that memcached
//! sees, and that the Redis protocol sees as database 0.
//!
//! Page: docs/http.md. Why: docs/decisions/0020. Tests: tests/http.rs, tests/conformance.rs.

use cellar_engine::{Cache, Key};
use cellar_protocol::http::reply::Stay;
use cellar_protocol::http::target::decode_percent;
use cellar_protocol::http::{Mark, Method, Refused, Request, Status};

use super::context::{Context, Flow};
use crate::output::Output;
use crate::pages::{self, PageRequest};

mod date;
mod etag;
mod route;
mod call;
mod conditions;
mod parameters;
mod read;
mod write;
mod upload;

pub use upload::{
    DOCUMENT_BYTES_MAX, Gather, Gathered, Received, Upload, finish, receive, time_out,
};

use call::{Call, DONE, Failure, Outcome, write_failure};
use route::Route;

/// Who sends the requests of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    /// Whether it is a program on this machine.
    pub is_loopback: bool,
}

/// A request, what its path asks for, and the hash of its key.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    request: Request<'a>,
    route: Route<'a>,
    key: Option<Key<'a>>,
}

impl<'a> Prepared<'a> {
    /// The key to hint the cache about; one with percent codes is not worth a hint.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<Key<'a>> {
        self.key
    }
}

/// Finds out what a request asks for, and hashes its key, once.
#[inline]
#[must_use]
pub fn prepare<'a>(request: Request<'a>, cache: &Cache) -> Prepared<'a> {
    let route = Route::of(request.target.path);
    let key = match route {
        Route::Entry(key) if !key.as_bytes().contains(&b'%') => cache.key(key.as_bytes()).ok(),
        _ => None,
    };
    Prepared {
        request,
        route,
        key,
    }
}

/// Runs a request and appends its answer.
#[inline]
pub fn execute(
    prepared: &Prepared<'_>,
    peer: Peer,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let mut call = Call::new(&prepared.request, context, output);
    let outcome = match (prepared.route, prepared.key) {
        (Route::Page, _) => page(&mut call, peer),
        (Route::Entry(_), Some(key)) => check_token(&call).and_then(|()| entry(&mut call, key)),
        _ => check(&call, prepared).and_then(|()| run(&mut call, prepared)),
    };
    call.finish(outcome)
}

/// Whether a request may be run: it bears the token, and its path has its method.
fn check(call: &Call<'_>, prepared: &Prepared<'_>) -> Result<(), Failure> {
    if prepared.route == Route::Page {
        return Ok(());
    }
    check_token(call)?;
    let method = prepared.request.method;
    match prepared.route {
        Route::Entry(_) if method != Method::Other && method != Method::Post => Ok(()),
        Route::Entry(_) => Err(Failure::not_allowed("Allow: GET, HEAD, PUT, DELETE\r\n")),
        _ => Err(Failure::new(
            Status::NOT_FOUND,
            "no_such_path",
            "there is nothing at this path; a slash in a key is written %2F",
        )),
    }
}

#[inline]
fn check_token(call: &Call<'_>) -> Result<(), Failure> {
    let expected = &call.context.state.settings.http_token;
    if expected.is_empty() || pages::bears_token(call.request.field(Mark::Authorization), expected)
    {
        return Ok(());
    }
    Err(Failure {
        fields: "WWW-Authenticate: Bearer\r\n",
        ..Failure::new(
            Status::UNAUTHORIZED,
            "unauthorized",
            "this server asks for its token",
        )
    })
}

/// Runs `run` with the key in a request's path.
fn with_key<R>(
    call: &Call<'_>,
    prepared: &Prepared<'_>,
    run: impl FnOnce(Key<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    if let Some(key) = prepared.key {
        return run(key);
    }
    let Route::Entry(text) = prepared.route else {
        unreachable!("only these paths have a key");
    };
    let bytes = decode_percent(text.as_bytes()).ok_or(Failure::bad(
        "bad_percent_code",
        "a percent sign is not followed by two hexadecimal digits",
    ))?;
    run(call.key(&bytes)?)
}

/// What is not simply a request for a key.
fn run(call: &mut Call<'_>, prepared: &Prepared<'_>) -> Outcome {
    let Route::Entry(text) = prepared.route else {
        unreachable!("the path was checked");
    };
    let bytes = decode_percent(text.as_bytes()).ok_or(Failure::bad(
        "bad_percent_code",
        "a percent sign is not followed by two hexadecimal digits",
    ))?;
    let key = call.key(&bytes)?;
    entry(call, key)
}

/// GET, HEAD, PUT and DELETE of a key.
#[inline]
fn entry(call: &mut Call<'_>, key: Key<'_>) -> Outcome {
    match call.request.method {
        Method::Get | Method::Head => read::get(call, key),
        Method::Put => write::put(call, key),
        Method::Delete => write::delete(call, key),
        Method::Post | Method::Other => {
            Err(Failure::not_allowed("Allow: GET, HEAD, PUT, DELETE\r\n"))
        }
    }
}

/// Answers with a page.
fn page(call: &mut Call<'_>, peer: Peer) -> Outcome {
    let request = call.request;
    let name = match request.method {
        Method::Head => Method::Get.name(),
        method => method.name(),
    };
    let page = pages::answer(
        &PageRequest {
            method: name,
            path: request.target.path,
            query: request.target.query,
            body: request.body,
            peer_is_loopback: peer.is_loopback,
            authorization: request.field(Mark::Authorization),
            cookie: request.field(Mark::Cookie),
            if_none_match: request.field(Mark::IfNoneMatch),
        },
        call.context.state,
    );
    let status = Status::of(page.status);
    let mut head = call.head(status);
    for (name, value) in &page.headers {
        head.field(name, value.as_bytes());
    }
    if status.is_bodiless() {
        head.end_without_length();
        return DONE;
    }
    head.field("Content-Type", page.content_type.as_bytes());
    head.end(page.body.len());
    if !call.is_head() {
        call.output.bytes().extend_from_slice(&page.body);
    }
    DONE
}

/// Answers bytes that are no request, and ends the connection.
pub fn refuse(refused: &Refused, context: Context<'_>, output: &mut Output) -> Flow {
    context.counters.protocol_errors.add(1);
    let failure = Failure::from(refused);
    write_failure(output, &failure, (Stay::Close, false), &date::now(context));
    Flow::Close
}

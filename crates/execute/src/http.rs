//! HTTP: `/v1/cache` and its sub-paths, run against the engine; everything else is a page.
//!
//! ```text
//! decode      decode             bytes -> a task, its key hashed for the hints
//! authorise   guard::check       host, origin, token or user, permission
//! route       check, check_slot  path, method; the node that serves the slot
//! execute     run                the function of the path; it publishes events and replies
//! ```
//!
//! A long or chunked body is not part of a task: its bytes are passed to [`Intake`]'s `feed`. HTTP
//! sees the same keys as memcached, and as database 0 of the Redis protocol.
//!
//! Page: docs/http.md. Why: docs/decisions/0020. Tests: server/tests/http.rs,
//! server/tests/conformance.rs.

use std::borrow::Cow;

use cellar_config::protocol::Protocol;
use cellar_engine::{Candidate, Key};
use cellar_net::listener::is_of_this_machine;
use cellar_net::mailbox::ClientSetup;
use cellar_net::output::Output;
use cellar_protocol::http::reply::Stay;
use cellar_protocol::http::target::decode_percent;
use cellar_protocol::http::{
    self as codec, Body, Decoded, Limits, Mark, Method, Refused, Request, Scan, Status,
};
use cellar_protocol::search::position;
use cellar_shared::auth::login_limiter::Source;
use cellar_shared::auth::users::{Login, Users};
use cellar_shared::clients::budget::Held;
use cellar_shared::clients::pause::Effect;
use cellar_shared::clients::tracking::begin_request;
use cellar_shared::state::State;

use super::context::{self, Context, DecodedTask, Flow, Found, Refusal, Transfer, Used};
use super::upload::SMALL_VALUE_BYTES_MAX;

mod date;
mod etag; // ETags and conditions
pub mod route; // the paths of the HTTP API and their methods
mod call;
mod elsewhere; // where else a key is
mod asker; // which user asks over HTTP
pub mod pages; // all paths outside `/v1/cache`: console, status, history, metrics
mod guard; // access checks of HTTP: host names, origins, tokens
mod conditions;
mod parameters;
mod read;
mod leases;
mod write;
mod count;
mod message;
mod batch;
mod upload;

use asker::Asker;
use guard::Stop;

use call::{Call, DONE, Failure, Outcome, write_failure};
use pages::PageRequest;
use route::Route;
use upload::{Rest, refuse_connection, time_out};

/// The protocol of this module and those below.
const PROTOCOL: Protocol = Protocol::Http;

/// The sender of a connection's requests.
#[derive(Debug, Default)]
struct Peer {
    /// Whether it is a program on this machine.
    is_loopback: bool,
    /// Whether it uses TLS.
    is_tls: bool,
    /// The source that its login attempts count for.
    source: Source,
    /// Whether its last token was the right one.
    bore_token: bool,
    /// Whether its requests have to carry credentials.
    is_asked: bool,
    /// Its user; none on a server without users.
    asker: Option<Box<Asker>>,
    /// The user of the request whose body is being received, or whose reply resumes.
    under_way: Option<Login>,
    /// The first valid Host name of this connection: most clients send the same each time.
    right_host: Option<Box<[u8]>>,
}

impl Peer {
    /// The peer with this address, as [`Listener::accept`](cellar_net::listener::Listener::accept)
    /// has it.
    fn at(address: &str, has_users: bool) -> Peer {
        Peer {
            asker: has_users.then(|| Box::new(Asker::at(address))),
            is_asked: has_users,
            is_loopback: is_of_this_machine(address),
            is_tls: false,
            source: Source::of(address),
            bore_token: false,
            under_way: None,
            right_host: None,
        }
    }

    /// Whether no request was asked for credentials yet.
    fn is_as_new(&self) -> bool {
        self.asker.is_none() && !self.is_asked
    }

    /// Whether it needs credentials, and has sent none.
    #[inline]
    fn is_unauthenticated(&self) -> bool {
        let asker = self.asker.as_ref();
        self.is_asked && !self.bore_token && !asker.is_some_and(|asker| asker.is_known())
    }
}

/// The limits of the decoder.
const LIMITS: Limits = Limits {
    body_bytes_max: SMALL_VALUE_BYTES_MAX,
};

/// A decoded piece of input.
#[derive(Debug)]
pub enum Task<'a> {
    /// A request.
    Run(Prepared<'a>),
    /// A request whose body needs memory first.
    Body(Prepared<'a>, Body),
    /// An error for an invalid request, after which the connection is closed.
    Refuse(Refused),
}

impl Task<'_> {
    /// How it counts for a pause.
    pub(crate) fn effect(&self) -> Effect {
        match self {
            Task::Run(prepared) | Task::Body(prepared, _) => prepared.effect(),
            Task::Refuse(_) => Effect::None,
        }
    }

    /// Whether its time depends on more than its own bytes: not that of one entry's.
    #[inline]
    pub(crate) fn is_heavy(&self) -> bool {
        !matches!(self, Task::Run(prepared) if matches!(prepared.route, Route::Entry(_)))
    }

    /// Whether the bytes behind it cannot be decoded before it was run.
    #[inline]
    pub(crate) fn ends_decoding(&self) -> bool {
        !matches!(self, Task::Run(_))
    }
}

/// The protocol state of a connection: its user, and the body being received.
#[derive(Debug, Default)]
pub struct Intake {
    peer: Peer,
    /// How far an incomplete head was scanned.
    scan: Scan,
    rest: Option<Rest>,
}

/// The first task in `input`, whose head was scanned so far, as a task of `link.rs`.
#[inline]
pub(crate) fn decode<'a>(
    input: &'a [u8],
    scan: &mut Scan,
    state: &State,
    found: impl Found<'a, Task<'a>>,
) -> Used {
    let (task, used) = match codec::decode(input, std::mem::take(scan), &LIMITS) {
        Decoded::Incomplete(looked_at) => {
            *scan = looked_at;
            return None;
        }
        Decoded::Nothing { used } => return Some(used),
        Decoded::Request { request, used } => {
            let mut prepared = prepare(request, state);
            prepared.is_last = used == input.len();
            found.found(DecodedTask {
                key: prepared.key(),
                task: Task::Run(prepared),
                stores: false,
                used,
            });
            return Some(used);
        }
        Decoded::Head {
            request,
            used,
            body,
        } => {
            let prepared = prepare(request, state);
            (Task::Body(prepared, body), used)
        }
        Decoded::Refused(refused) => (Task::Refuse(refused), input.len()),
    };
    found.found(DecodedTask::keyless(task, used));
    Some(used)
}

impl Intake {
    /// The intake of a client with this address, as
    /// [`Listener::accept`](cellar_net::listener::Listener::accept) has it.
    #[must_use]
    pub fn new(address: &str, is_tls: bool, state: &State) -> Intake {
        let mut intake = Intake::of(address, state.access.users.is_some());
        intake.peer.is_tls = is_tls;
        intake.peer.is_asked |= !state.settings.secrets.http.is_empty();
        intake
    }

    /// The same on a server that has users or not, and no token.
    #[must_use]
    pub fn of(address: &str, has_users: bool) -> Intake {
        Intake {
            peer: Peer::at(address, has_users),
            ..Intake::default()
        }
    }

    /// How far an incomplete head was scanned.
    #[inline]
    pub(crate) fn scan(&self) -> Scan {
        self.scan
    }

    /// Records how far an incomplete head was scanned.
    #[inline]
    pub(crate) fn keep(&mut self, scan: Scan, is_incomplete: bool) {
        self.scan = if is_incomplete { scan } else { Scan::default() };
    }

    /// Does what a task asks for.
    #[inline]
    pub(crate) fn run(
        &mut self,
        task: &Task<'_>,
        hinted: Option<Candidate>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        match task {
            Task::Run(prepared) => execute(prepared, hinted, &mut self.peer, context, output),
            Task::Body(prepared, body) => self.receive((prepared, *body), context, output),
            Task::Refuse(refused) => refuse(refused, context, output),
        }
    }
}

impl context::Intake for Intake {
    fn become_of(&mut self, login: Login, users: &Users, _state: &State) {
        if let Some(asker) = &mut self.peer.asker {
            asker.certified = users.identity_of(login);
        }
    }

    #[inline]
    fn is_unauthenticated(&self) -> bool {
        self.peer.is_unauthenticated()
    }

    fn logs_in_each_time(&self) -> bool {
        true
    }

    #[inline(always)]
    fn makes_room(&self) -> bool {
        matches!(&self.rest, Some(Rest::Upload(upload)) if !upload.draft.is_reserved())
    }

    #[inline(always)]
    fn transfer(&mut self) -> Option<Transfer<'_>> {
        match self.rest.as_mut()? {
            Rest::Upload(upload) => upload.transfer(),
            Rest::Gather(_) => Some(Transfer::Fed),
        }
    }

    fn feed(
        &mut self,
        input: &[u8],
        context: Context<'_>,
        output: &mut Output,
    ) -> (usize, Option<Flow>) {
        let (used, flow) = match self.rest.take() {
            None => return (0, None),
            Some(Rest::Upload(mut upload)) => {
                let used = upload.fill_from(input);
                if !upload.is_complete() {
                    self.rest = Some(Rest::Upload(upload));
                    return (used, None);
                }
                (used, upload.finish(context, output))
            }
            Some(Rest::Gather(mut gather)) => match gather.feed(input) {
                Ok(None) => {
                    self.rest = Some(Rest::Gather(gather));
                    return (input.len(), None);
                }
                Ok(Some(used)) => (used, gather.finish(&mut self.peer, context, output)),
                Err(failure) => (0, gather.refuse(&failure, context, output)),
            },
        };
        (used, Some(flow))
    }

    fn abandon(&mut self) {
        self.rest = None;
    }

    fn sender(&self) -> Option<&Login> {
        self.rest.as_ref()?;
        self.asker()
    }

    fn asker(&self) -> Option<&Login> {
        self.peer.under_way.as_ref()
    }

    #[inline(always)]
    fn held(&self) -> Held {
        let Intake {
            rest,
            peer: _,
            scan: _,
        } = self;
        rest.as_ref().map_or(Held::default(), Rest::held)
    }

    fn setup(&self, _state: &State) -> Option<ClientSetup> {
        let is_as_new = self.peer.is_as_new() && self.rest.is_none();
        is_as_new.then(ClientSetup::default)
    }

    fn refuse(&self, refusal: Refusal, context: Context<'_>, output: &mut Output) {
        refuse_connection(refusal, context, output);
    }

    fn time_out(&self, context: Context<'_>, output: &mut Output) -> bool {
        time_out(context, output);
        true
    }

    fn transfer_effect(&self) -> Effect {
        match &self.rest {
            Some(Rest::Gather(gather)) => gather.effect,
            Some(Rest::Upload(_)) | None => Effect::Writes,
        }
    }
}

/// A request, what its path asks for, and the hash of its key.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    request: Request<'a>,
    route: Route<'a>,
    key: Option<Key<'a>>,
    /// Whether no further bytes have arrived behind it yet.
    is_last: bool,
}

impl<'a> Prepared<'a> {
    /// The key for a prefetch hint; none if it has percent codes, or is not at the start of its
    /// message.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<Key<'a>> {
        self.key
    }

    /// How it counts for a pause: pages do not touch the cache.
    fn effect(&self) -> Effect {
        let reads = [Method::Get, Method::Head].contains(&self.request.method);
        match self.route {
            Route::Page | Route::Missing => Effect::None,
            Route::BatchGet => Effect::Reads,
            _ if reads => Effect::Reads,
            _ => Effect::Writes,
        }
    }
}

/// Finds out what a request asks for, and hashes its key, once.
#[inline]
fn prepare<'a>(request: Request<'a>, state: &State) -> Prepared<'a> {
    let route = Route::of(request.target.path_bytes());
    let key = match route {
        Route::Entry(key) if position(b'%', key).is_none() => state.key(key).ok(),
        // Only for the hints: the message is parsed, and its key hashed again, when it is executed.
        Route::Collection => message::probable_id(request.body).and_then(|id| state.key(id).ok()),
        _ => None,
    };
    Prepared {
        request,
        route,
        key,
        is_last: false,
    }
}

/// Runs a request, whose item probably lies where a hint has found it, and appends its answer.
#[inline]
fn execute(
    prepared: &Prepared<'_>,
    hinted: Option<Candidate>,
    peer: &mut Peer,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    context.counters.pulse.begin_http();
    begin_request();
    let mut call = Call::new(&prepared.request, context, output);
    call.is_tls = peer.is_tls;
    // Relaxed: a flag that orders nothing.
    if prepared.is_last && context.state.run.is_leaving() {
        call.stay = Stay::Close;
    }
    let bears_token = match guard::check(&mut call, peer, prepared.route) {
        Ok(bears_token) => bears_token,
        Err(Stop::Failure(failure)) => return call.finish(Err(failure)),
        Err(Stop::Wait(ticket)) => return Flow::Wait(ticket),
    };
    let outcome = if prepared.route == Route::Page {
        page(&mut call, peer, bears_token)
    } else {
        check(&call, prepared.route).and_then(|()| run(&mut call, prepared, hinted))
    };
    if matches!(outcome, Ok(Flow::Unfinished(_))) {
        peer.under_way = call.login.take();
    }
    call.finish(outcome)
}

/// Whether a request that may be asked has a path with its method, and conditions that are some.
#[inline]
fn check(call: &Call<'_>, route: Route<'_>) -> Result<(), Failure> {
    let Some(row) = route.row() else {
        let message = "the path does not exist; write a slash in a key as %2F";
        return match route {
            Route::Page => Ok(()),
            _ => Err(Failure::new(Status::NOT_FOUND, "no_such_path", message)),
        };
    };
    let method = call.request.method;
    if !row.reads.contains(&method) && !row.writes.contains(&method) {
        return Err(Failure::not_allowed(row.allow));
    }
    conditions::check(call.request)
}

/// Runs a request that may be run.
#[inline]
fn run(call: &mut Call<'_>, prepared: &Prepared<'_>, hinted: Option<Candidate>) -> Outcome {
    match (prepared.route, prepared.key) {
        (Route::Entry(_), Some(key)) => {
            let key = call.context.key_now(key).hinted_at(hinted);
            call.check_key(key.bytes())?;
            call.check_slot(key.bytes())?;
            entry(call, key)
        }
        (Route::Entry(text), None) => {
            let bytes = key_bytes(text)?;
            let key = call.key_here(&bytes)?;
            entry(call, key)
        }
        (Route::Increment(text), _) => {
            let bytes = key_bytes(text)?;
            let key = call.key_here(&bytes)?;
            count::increment(call, key)
        }
        (Route::Invalidate(text), _) => {
            let bytes = key_bytes(text)?;
            let key = call.key_here(&bytes)?;
            leases::invalidate(call, key)
        }
        (Route::Collection, _) if call.request.method == Method::Post => message::post(call),
        (Route::Collection, _) => message::get(call),
        (Route::BatchGet, _) => batch::get(call),
        (Route::BatchPut, _) => batch::put(call),
        (Route::Missing | Route::Page, _) => unreachable!("the path was checked"),
    }
}

/// The bytes of a key in a path, with its percent codes decoded.
fn key_bytes(text: &[u8]) -> Result<Cow<'_, [u8]>, Failure> {
    decode_percent(text).ok_or(Failure::bad(
        "bad_percent_code",
        "a percent sign is not followed by two hexadecimal digits",
    ))
}

/// GET, HEAD, PUT and DELETE of a key.
#[inline]
fn entry(call: &mut Call<'_>, key: Key<'_>) -> Outcome {
    match call.request.method {
        Method::Get | Method::Head if !call.request.target.has_query() => read::get(call, key),
        Method::Get | Method::Head => leases::get(call, key),
        Method::Put => write::put(call, key),
        Method::Delete => write::delete(call, key),
        Method::Post | Method::Other => unreachable!("the method was checked"),
    }
}

/// Answers with a page.
fn page(call: &mut Call<'_>, peer: &Peer, bears_token: bool) -> Outcome {
    let request = call.request;
    let name = match request.method {
        Method::Head => Method::Get.name(),
        method => method.name(),
    };
    let page = pages::answer(
        &PageRequest {
            method: name,
            path: request.target.path(),
            query: request.target.query(),
            body: request.body,
            peer_is_loopback: peer.is_loopback,
            is_tls: peer.is_tls,
            host: request.host,
            bears_token,
            has_users: call.context.state.access.users.is_some(),
            user: call.user().map(|user| &**user),
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

/// Answers an invalid request, and ends the connection.
fn refuse(refused: &Refused, context: Context<'_>, output: &mut Output) -> Flow {
    context.counters.protocol_errors.add(1);
    let failure = Failure::from(refused);
    write_failure(output, &failure, (Stay::Close, false), &date::now(context));
    Flow::Close
}

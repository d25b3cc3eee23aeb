//! memcached: its text, meta and binary commands, run against the engine.
//!
//! ```text
//! decode      Codec::decode          bytes -> a task, its key hashed for the hints
//! authorise   Member::admit          login and permission, on a server with users
//! route       elsewhere::answered    an error, if another node serves the slot
//! execute     execute                the function that does it; it publishes events and replies
//! ```
//!
//! Which of both protocols a connection speaks, its first byte says for good. A long value is no
//! part of a task: its bytes follow to [`Intake`]'s `feed`.
//!
//! Tests: server/tests/conformance.rs, server/tests/hostile.rs.

use std::sync::Arc;

use cellar_config::protocol::Protocol;
use cellar_engine::{Candidate, Key};
use cellar_net::mailbox::ClientSetup;
use cellar_net::output::Output;
use cellar_protocol::memcached::binary::{
    self as packets, Packet, PacketDecoded, PacketHead, PacketRefused, PacketStatus, REQUEST_MARK,
};
use cellar_protocol::memcached::{
    self as codec, Decoded, Limits, Refused, Request, Stats, Storage, reply,
};
use cellar_shared::auth::users::{Login, User, Users};
use cellar_shared::clients::budget::Held;
use cellar_shared::clients::pause::Effect;
use cellar_shared::clients::tracking::begin_request;
use cellar_shared::state::State;

use super::context::{
    self, Context, DecodedTask, Flow, Found, Intake as _, Refusal, Transfer, Used,
};
use super::permission::{of_memcached, of_packet};
use super::upload::{SMALL_VALUE_BYTES_MAX, Upload};

mod elsewhere; // what is answered when another node keeps the key
mod read;
mod order; // what a store asks the engine for
mod answers; // the replies of stores
mod extension; // appends that wait for free memory
mod store;
mod change;
mod meta;
mod list;
mod member; // whose a connection is, on a server with users
mod stats; // what `stats` and key listings show
mod binary; // the same operations, asked in the binary protocol
mod upload;

use binary::PreparedPacket;
use member::Member;
use upload::StoreRequest;

/// The protocol of this module and those below.
const PROTOCOL: Protocol = Protocol::Memcached;
/// The version that clients see: the memcached version emulated, then this server's own.
pub const VERSION: &str = concat!("1.6.45-cellar-", env!("CARGO_PKG_VERSION"));

/// Longest line of a read with many keys.
const KEYS_LINE_BYTES_MAX: usize = 1 << 20;

/// The limits of the decoder.
static LIMITS: Limits = Limits {
    value_bytes_max: SMALL_VALUE_BYTES_MAX,
    keys_line_bytes_max: KEYS_LINE_BYTES_MAX,
};
/// The limits before a login, when no reads are allowed: a line of ordinary length.
static UNAUTHENTICATED_LIMITS: Limits = Limits {
    value_bytes_max: SMALL_VALUE_BYTES_MAX,
    keys_line_bytes_max: codec::LINE_BYTES_MAX,
};

/// A decoded piece of input.
#[derive(Debug)]
pub enum Task<'a> {
    /// A request.
    Run(Prepared<'a>),
    /// A store whose large value of this many bytes needs memory first.
    Upload(Storage<'a>, usize),
    /// An error for an invalid request.
    Refuse {
        /// The answer.
        refused: Refused,
        /// Bytes to drop that are not received yet.
        beyond: usize,
        /// The limits that it was decoded with.
        limits: &'static Limits,
    },
    /// A packet.
    Packet(PreparedPacket<'a>),
    /// A packet whose large value of this many bytes needs memory first.
    PacketUpload(Packet<'a>, usize),
    /// An error for an invalid packet, and bytes to drop that are not received yet.
    PacketRefused(PacketRefused, usize),
}

/// The dialect of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Dialect {
    /// Nothing was received yet.
    #[default]
    Unknown,
    /// Text.
    Text,
    /// The binary protocol.
    Binary,
}

impl Task<'_> {
    /// Whether it takes constant time and is answered at once.
    #[inline]
    pub(crate) fn is_quick(&self) -> bool {
        match self {
            Task::Run(prepared) => prepared.key().is_some(),
            Task::Packet(prepared) => prepared.key.is_some(),
            _ => false,
        }
    }

    /// How it counts for a pause.
    pub(crate) fn effect(&self) -> Effect {
        match self {
            Task::Run(prepared) => of_memcached(&prepared.request).effect(),
            Task::Packet(prepared) => of_packet(prepared.packet.asks).effect(),
            Task::Upload(..) | Task::PacketUpload(..) => Effect::Writes,
            Task::Refuse { .. } | Task::PacketRefused(..) => Effect::None,
        }
    }

    /// Whether the bytes behind it cannot be decoded before it was run.
    #[inline]
    pub(crate) fn ends_decoding(&self) -> bool {
        match self {
            Task::Upload(..) | Task::PacketUpload(..) => true,
            // A login before it changes what is refused.
            Task::Refuse { limits, .. } => **limits == UNAUTHENTICATED_LIMITS,
            _ => false,
        }
    }
}

/// The protocol state of a connection: the value being received, and its user.
#[derive(Debug, Default)]
pub struct Intake {
    dialect: Dialect,
    upload: Option<Box<Upload<StoreRequest>>>,
    /// Its user; none on a server without users.
    member: Option<Box<Member>>,
}

/// How the bytes of a connection are decoded, as long as none of its tasks is run.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    dialect: Dialect,
    limits: &'static Limits,
}

impl Codec {
    /// Hands the first task in `input` to `found`. The first byte of a connection decides what it
    /// speaks.
    #[inline(always)]
    pub(crate) fn decode<'a>(
        &mut self,
        input: &'a [u8],
        state: &State,
        found: impl Found<'a, Task<'a>>,
    ) -> Used {
        if self.dialect == Dialect::Unknown {
            let is_binary = *input.first()? == REQUEST_MARK;
            self.dialect = if is_binary {
                Dialect::Binary
            } else {
                Dialect::Text
            };
        }
        match self.dialect {
            Dialect::Binary => decode_packet(input, state, found),
            _ => decode_text(input, self.limits, state, found),
        }
    }
}

/// Hands the first task in `input` to `found`.
#[inline(always)]
fn decode_text<'a>(
    input: &'a [u8],
    limits: &'static Limits,
    state: &State,
    found: impl Found<'a, Task<'a>>,
) -> Used {
    let (task, used) = match codec::decode(input, limits) {
        Decoded::Incomplete => return None,
        // By reference: it is moved once then, to where its task goes.
        Decoded::Request { ref request, used } => {
            let stores = matches!(request, codec::Request::Store(_));
            let prepared = prepare(request, state);
            found.found(DecodedTask {
                key: prepared.key(),
                task: Task::Run(prepared),
                stores,
                used,
            });
            return Some(used);
        }
        Decoded::Upload {
            storage,
            used,
            value_bytes,
        } => (Task::Upload(storage, value_bytes), used),
        Decoded::Refused(refused) => {
            let there = input.len() - refused.used;
            let beyond = refused.swallow.saturating_sub(there);
            let used = refused.used + refused.swallow.min(there);
            let refuse = Task::Refuse {
                refused,
                beyond,
                limits,
            };
            (refuse, used)
        }
    };
    found.found(DecodedTask::keyless(task, used));
    Some(used)
}

/// The same of a connection that speaks the binary protocol.
#[inline(never)]
fn decode_packet<'a>(input: &'a [u8], state: &State, found: impl Found<'a, Task<'a>>) -> Used {
    let (task, used) = match packets::decode(input, SMALL_VALUE_BYTES_MAX) {
        PacketDecoded::Incomplete => return None,
        PacketDecoded::Packet { packet, used } => {
            let key = packet.item_key().and_then(|key| state.key(key).ok());
            found.found(DecodedTask {
                task: Task::Packet(PreparedPacket { packet, key }),
                key,
                stores: false,
                used,
            });
            return Some(used);
        }
        PacketDecoded::Upload {
            packet,
            used,
            value_bytes,
        } => (Task::PacketUpload(packet, value_bytes), used),
        PacketDecoded::Refused(refused) => {
            let there = refused.swallow.min(input.len() - refused.used);
            let used = refused.used + there;
            (Task::PacketRefused(refused, refused.swallow - there), used)
        }
    };
    found.found(DecodedTask::keyless(task, used));
    Some(used)
}

impl Intake {
    /// The intake of a client with this address, as
    /// [`Listener::accept`](cellar_net::listener::Listener::accept) has it.
    #[must_use]
    pub fn new(peer: &str, state: &State) -> Intake {
        Intake {
            dialect: Dialect::Unknown,
            upload: None,
            member: state
                .access
                .users
                .is_some()
                .then(|| Box::new(Member::at(peer))),
        }
    }

    /// The limits of the decoder.
    #[inline]
    fn limits(&self) -> &'static Limits {
        if self.is_unauthenticated() {
            &UNAUTHENTICATED_LIMITS
        } else {
            &LIMITS
        }
    }

    /// The codec for the next bytes.
    #[inline]
    pub(crate) fn codec(&self) -> Codec {
        Codec {
            dialect: self.dialect,
            limits: self.limits(),
        }
    }

    /// Keeps what is spoken.
    #[inline]
    pub(crate) fn keep(&mut self, codec: &Codec) {
        self.dialect = codec.dialect;
    }

    /// Does what a task asks for.
    #[inline(always)]
    pub(crate) fn run(
        &mut self,
        task: &Task<'_>,
        hinted: Option<Candidate>,
        context: &Context<'_>,
        output: &mut Output,
    ) -> Flow {
        match task {
            Task::Run(prepared) if self.member.is_none() => {
                execute(prepared, hinted, context, output)
            }
            _ => self.run_any(task, hinted, *context, output),
        }
    }

    /// The same of a user's request, and of what is no text.
    #[inline(never)]
    fn run_any(
        &mut self,
        task: &Task<'_>,
        hinted: Option<Candidate>,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        match task {
            Task::Run(prepared) => match &mut self.member {
                None => execute(prepared, hinted, &context, output),
                Some(member) => match member.admit(&prepared.request, context, output) {
                    Ok(None) => execute(prepared, hinted, &context, output),
                    Ok(Some(user)) => execute_limited(&user, prepared, context, output),
                    Err(flow) => flow,
                },
            },
            Task::Upload(storage, value_bytes) => {
                self.receive((storage, *value_bytes), context, output)
            }
            Task::Refuse { limits, .. } if **limits != *self.limits() => Flow::Again,
            Task::Refuse {
                refused, beyond, ..
            } => match refuse(refused, context, output) {
                Flow::Continue if *beyond > 0 => Flow::Skip(*beyond),
                flow => flow,
            },
            Task::Packet(prepared) => {
                let member = self.member.as_deref_mut();
                binary::run(prepared, member, context, output)
            }
            Task::PacketUpload(packet, value_bytes) => {
                self.receive_packet((packet, *value_bytes), context, output)
            }
            Task::PacketRefused(refused, beyond) => {
                match binary::refuse(refused, context, output) {
                    Flow::Continue if *beyond > 0 => Flow::Skip(*beyond),
                    flow => flow,
                }
            }
        }
    }
}

impl context::Intake for Intake {
    fn become_of(&mut self, login: Login, users: &Users, _state: &State) {
        if let Some(member) = &mut self.member {
            member.become_of(users.identity_of(login));
        }
    }

    #[inline]
    fn is_unauthenticated(&self) -> bool {
        let member = self.member.as_ref();
        member.is_some_and(|member| !member.identity.is_known())
    }

    #[inline(always)]
    fn makes_room(&self) -> bool {
        let upload = self.upload.as_ref();
        upload.is_some_and(|upload| !upload.draft.is_reserved())
    }

    #[inline(always)]
    fn transfer(&mut self) -> Option<Transfer<'_>> {
        self.upload.as_mut()?.transfer()
    }

    fn feed(
        &mut self,
        input: &[u8],
        context: Context<'_>,
        output: &mut Output,
    ) -> (usize, Option<Flow>) {
        let upload = self.upload.as_mut();
        let used = upload.map_or(0, |upload| upload.fill_from(input));
        let complete = self.upload.take_if(|upload| upload.is_complete());
        (used, complete.map(|upload| upload.finish(context, output)))
    }

    fn abandon(&mut self) {
        self.upload = None;
    }

    fn sender(&self) -> Option<&Login> {
        self.upload.as_ref()?;
        self.asker()
    }

    fn asker(&self) -> Option<&Login> {
        self.member.as_ref()?.identity.last_login()
    }

    #[inline(always)]
    fn held(&self) -> Held {
        let Intake {
            upload,
            dialect: _,
            member: _,
        } = self;
        let upload = upload.as_ref();
        Held {
            beside: 0,
            cached: upload.map_or(0, |upload| upload.draft.value_bytes()),
        }
    }

    fn is_still_incomplete(&self, input: &[u8], looked_at: usize) -> bool {
        let is_text = self.dialect == Dialect::Text;
        is_text && codec::is_still_incomplete(input, looked_at, self.limits())
    }

    fn setup(&self, _state: &State) -> Option<ClientSetup> {
        let is_as_new = self.member.is_none() && self.upload.is_none();
        is_as_new.then(ClientSetup::default)
    }

    fn refuse(&self, refusal: Refusal, _context: Context<'_>, output: &mut Output) {
        let (text, out) = (refusal.text(), output.bytes());
        if self.dialect == Dialect::Binary {
            // It does not answer any packet.
            let head = PacketHead {
                code: 0,
                quiet: false,
                opaque: [0; 4],
            };
            return packets::reply::failed_for(out, head, PacketStatus::NoMemory, text.as_bytes());
        }
        out.extend_from_slice(b"SERVER_ERROR ");
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

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
fn prepare<'a>(request: &Request<'a>, state: &State) -> Prepared<'a> {
    let key = request.plain_key().and_then(|bytes| state.key(bytes).ok());
    Prepared {
        request: *request,
        key,
    }
}

/// Runs a request, with the probable position of its item from a hint, and appends its reply.
#[inline(never)]
fn execute(
    prepared: &Prepared<'_>,
    hinted: Option<Candidate>,
    context: &Context<'_>,
    output: &mut Output,
) -> Flow {
    let context = *context;
    context.counters.pulse.begin_memcached();
    begin_request();
    let is_node = context.state.cluster.is_some();
    if is_node && elsewhere::answered(&prepared.request, context, output) {
        return Flow::Continue;
    }
    let request = &prepared.request;
    let Some(key) = &prepared.key else {
        return execute_other(request, None, context, output);
    };
    let key = context.key_now(*key).hinted_at(hinted);
    match request {
        Request::Get(get) => return read::get(get, key, context, output),
        Request::Store(request) => return store::classic(request, key, context, output),
        Request::Delete { noreply, .. } => change::delete(key, *noreply, context, output),
        Request::Count {
            delta,
            subtract,
            noreply,
            ..
        } => change::count(key, (*delta, *subtract), *noreply, context, output),
        Request::Touch {
            exptime, noreply, ..
        } => change::touch(key, *exptime, *noreply, context, output),
        Request::MetaGet(meta) => meta::get(meta, Some(key), context, output),
        request => return execute_other(request, Some(key), context, output),
    }
    Flow::Continue
}

/// Meta commands other than mg, and commands without a key.
fn execute_other(
    request: &Request<'_>,
    key: Option<Key<'_>>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    execute_for(None, request, key, context, output)
}

/// Runs a request of a user who may read only some keys: others are not listed.
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
        _ => execute(prepared, None, &context, output),
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
        Request::MetaSet { meta, verb, value } => {
            return store::meta((meta, *verb, value), key, context, output);
        }
        Request::MetaGet(meta) => meta::get(meta, key, context, output),
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

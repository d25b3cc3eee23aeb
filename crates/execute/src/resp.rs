//! RESP: Redis's commands, run against the engine. A request passes these stages:
//!
//! ```text
//! decode      Codec::decode      bytes -> a task, its first key hashed for the hints
//! prepare     execute            reserves memory for a long value, in steps
//! queue       admit              of a client with a session: login, Pub/Sub mode, MULTI
//! authorise   run, check_access  number of arguments, permission
//! route       slots::check       MOVED, if another node serves the slot
//! execute     run, call_handler  claimed, counted, timed, tracked; handlers.rs has the function
//! notify      run_and_serve      serves blocked clients; the handlers publish the events
//! reply       run                a Failure becomes the reply; execute_checked: CLIENT REPLY
//! ```
//!
//! GET and SET without options take a shorter way: plain.rs. A long value follows its task to
//! [`Intake`]'s `feed`. Tests: server/tests/resp.rs and its neighbours, foreign-clients/.

mod failure;
mod patterns; // length limits of patterns from clients
mod arguments;
mod listing; // a client's line in listings
mod session;
mod slots; // whose a command's keys are
mod call;
mod expiry;
mod client;
mod strings;
mod keys;
mod collections; // what commands on hashes, sets and sorted sets do
mod waiting; // commands that wait until a key has what they take
mod dumps; // values as bytes for another server
mod channels;
mod scripts; // which commands a script runs, and how
mod transaction;
mod pausing; // which commands wait for the end of a pause
mod admin; // what INFO, COMMAND, MEMORY, SLOWLOG, DEBUG answer
mod handlers; // what a command of Redis does
mod plain; // GET and SET without options
mod upload; // a SET whose value is received into the engine's memory

pub use failure::Failure;
pub use waiting::serve::serve;

use std::sync::Arc;

use cellar_config::protocol::Protocol;
use cellar_engine::{Cache, Candidate, Key, Space};
use cellar_net::mailbox::ClientSetup;
use cellar_net::output::Output;
use cellar_protocol::resp::command::{Flags, Group};
use cellar_protocol::resp::{
    self as wire, Args, Command, Decoded, Limits, Plain, Proto, Reply, Request, Scan, Verb,
};
use cellar_shared::auth::users::{Login, Users};
use cellar_shared::clients::budget::Held;
use cellar_shared::clients::client::Client;
use cellar_shared::clients::pause::Effect;
use cellar_shared::clients::tracking::begin_request;
use cellar_shared::state::State;

use crate::context::{self, Context, DecodedTask, Flow, Found, Refusal, Transfer, Used};
use crate::section::{KeySection, Uncovered};
use crate::upload::Upload;
use call::timing;
use call::{Call, Outcome};
use failure::{unknown, unknown_subcommand, wrong_arity};
use plain::{PlainGet, PlainSet, execute_get, execute_set};
use session::{NO_AUTH, ReplyMode, Session, note_queued};
use upload::SetHead;
use waiting::serve::{may_fill, run_beside};

/// The protocol of this module and those below.
const PROTOCOL: Protocol = Protocol::Resp;
/// Most arguments of a request that takes constant time.
const QUICK_ARGS_MAX: usize = 16;

/// A decoded piece of input.
#[derive(Debug)]
pub enum Task<'a> {
    /// GET, executed directly.
    Get(PlainGet<'a>),
    /// SET, without options.
    Set(PlainSet<'a>),
    /// Any command.
    Command(Prepared<'a>),
    /// A command that was a line of words with quotes, as a frame.
    Quoted(Vec<u8>),
    /// A SET whose value needs memory first.
    LargeSet {
        /// The key.
        key: &'a [u8],
        /// Length of the value.
        value_bytes: usize,
        /// How many arguments follow the value.
        args: usize,
        /// The limits that it was decoded with.
        limits: Limits,
    },
    /// The arguments behind such a value.
    Tail(Args<'a>),
    /// An error for an invalid command, after which the connection is closed.
    Refuse {
        /// The answer.
        message: Vec<u8>,
        /// The limits that it was decoded with.
        limits: Limits,
    },
}

impl Task<'_> {
    /// Whether it takes constant time and is answered at once, as the usual requests.
    #[inline]
    pub(crate) fn is_quick(&self) -> bool {
        matches!(self, Task::Get(_) | Task::Set(_))
    }

    /// Whether the time of one that is not quick depends on more than its own bytes.
    pub(crate) fn is_heavy(&self) -> bool {
        match self {
            Task::Command(prepared) => prepared.is_heavy(),
            _ => true,
        }
    }

    /// Whether the bytes behind it cannot be decoded before it was run.
    #[inline]
    pub(crate) fn ends_decoding(&self) -> bool {
        matches!(self, Task::LargeSet { .. } | Task::Refuse { .. })
    }
}

/// The state that decoding a client's bytes depends on, while none of its commands runs.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// The space of the client's database.
    space: Space,
    limits: Limits,
    /// How far an incomplete command was scanned.
    scan: Scan,
    /// The number of arguments to come that belong to the SET before.
    tail: Option<usize>,
    /// Whether a client monitors: it is shown commands with their names as sent, which plain
    /// requests do not keep.
    is_shown: bool,
}

impl Codec {
    /// The first task in `input`.
    #[inline(always)]
    pub(crate) fn decode<'a>(
        &mut self,
        input: &'a [u8],
        cache: &Cache,
        found: impl Found<'a, Task<'a>>,
    ) -> Used {
        if let Some(args) = self.tail {
            return self.decode_tail(input, args, found);
        }
        if self.is_shown {
            return self.decode_any(input, cache, found);
        }
        let Some(plain) = wire::decode_plain(input, &self.limits) else {
            return self.decode_any(input, cache, found);
        };
        // The scan belonged to these bytes.
        self.scan = Scan::default();
        match plain {
            Plain::Get { key, used } => {
                let get = PlainGet::of(key, self.space, cache);
                found.found(DecodedTask {
                    key: Some(get.key),
                    task: Task::Get(get),
                    stores: false,
                    used,
                });
                Some(used)
            }
            Plain::Set { key, value, used } => {
                let set = PlainSet::of(key, value, self.space, cache);
                found.found(DecodedTask {
                    key: Some(set.key),
                    task: Task::Set(set),
                    stores: true,
                    used,
                });
                Some(used)
            }
        }
    }

    /// The same for what is not plain.
    #[inline(never)]
    fn decode_any<'a>(
        &mut self,
        input: &'a [u8],
        cache: &Cache,
        found: impl Found<'a, Task<'a>>,
    ) -> Used {
        let limits = self.limits;
        let scan = std::mem::take(&mut self.scan);
        let mut key = None;
        let (task, used) = match wire::decode(input, scan, &limits) {
            Decoded::Incomplete(scan) => {
                self.scan = scan;
                return None;
            }
            Decoded::Nothing { used } => return Some(used),
            Decoded::Request { request, used } => {
                let prepared = prepare(request, self.space, cache);
                key = prepared.key();
                (Task::Command(prepared), used)
            }
            Decoded::Quoted { frame, used } => (Task::Quoted(frame), used),
            Decoded::Upload {
                key: of_set,
                value_bytes,
                used,
                args_left: args,
            } => {
                let task = Task::LargeSet {
                    key: of_set,
                    value_bytes,
                    args,
                    limits,
                };
                (task, used)
            }
            Decoded::Refused { message, used } => (Task::Refuse { message, limits }, used),
        };
        let stores = false;
        found.found(DecodedTask {
            task,
            key,
            stores,
            used,
        });
        Some(used)
    }

    /// The arguments behind the value of a SET.
    #[cold]
    fn decode_tail<'a>(
        &mut self,
        input: &'a [u8],
        args: usize,
        found: impl Found<'a, Task<'a>>,
    ) -> Used {
        let limits = self.limits;
        let (task, used) = match wire::decode_tail(input, args, &limits) {
            wire::Tail::Incomplete => return None,
            wire::Tail::Args { args, used } => (Task::Tail(args), used),
            wire::Tail::Refused { message } => (Task::Refuse { message, limits }, input.len()),
        };
        self.tail = None;
        found.found(DecodedTask::keyless(task, used));
        Some(used)
    }
}

/// The protocol state of a connection: the client's session, and the SET being received.
#[derive(Debug)]
pub struct Intake {
    session: Session,
    /// How far an incomplete command was scanned.
    scan: Scan,
    upload: Option<Box<Upload<SetHead>>>,
    /// How many arguments follow the value that is complete or was refused, while they have yet to
    /// arrive.
    tail: Option<usize>,
}

impl Intake {
    /// Creates the intake of a new client.
    #[must_use]
    pub fn new(client: Arc<Client>, state: &State) -> Intake {
        Intake {
            session: Session::of_connection(client, state),
            scan: Scan::default(),
            upload: None,
            tail: None,
        }
    }

    /// The codec for the next bytes.
    #[inline]
    pub(crate) fn codec(&self, state: &State) -> Codec {
        Codec {
            space: self.session.space(state),
            limits: self.session.limits(),
            scan: self.scan,
            tail: self.tail,
            is_shown: state.monitors.are_there(),
        }
    }

    /// Records how far an incomplete command was scanned, and that its client is active.
    #[inline]
    pub(crate) fn keep(&mut self, codec: &Codec, is_incomplete: bool, now_ms: u64) {
        self.session.client.note_active(now_ms);
        self.scan = if is_incomplete {
            codec.scan
        } else {
            Scan::default()
        };
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
        let session = &mut self.session;
        match task {
            Task::Get(get) => execute_get(get, hinted, session, context, output),
            Task::Set(set) => execute_set(set, hinted, session, context, output),
            _ => self.run_any(task, *context, output),
        }
    }

    /// The same for what is not plain.
    #[inline(never)]
    fn run_any(&mut self, task: &Task<'_>, context: Context<'_>, output: &mut Output) -> Flow {
        let session = &mut self.session;
        match task {
            Task::Get(_) | Task::Set(_) => unreachable!("it is plain"),
            Task::Command(prepared) => execute(prepared, session, context, output),
            Task::Quoted(frame) => {
                let request = Decoded::unquoted(frame);
                let prepared = prepare(request, session.space(context.state), context.cache());
                execute(&prepared, session, context, output)
            }
            // A command before it has changed what its bytes mean.
            Task::LargeSet { limits, .. } | Task::Refuse { limits, .. }
                if *limits != session.limits() =>
            {
                Flow::Again
            }
            Task::LargeSet {
                key,
                value_bytes,
                args,
                ..
            } => self.receive((*key, *args), *value_bytes, context, output),
            Task::Tail(args) => self.end_set(args, context, output),
            Task::Refuse { message, .. } => refuse(message, session, context, output),
        }
    }

    /// How a task counts for a pause.
    pub(crate) fn effect(&self, task: &Task<'_>, context: Context<'_>) -> Effect {
        let session = &self.session;
        match task {
            Task::Get(_) => Effect::Reads,
            Task::Set(_) | Task::LargeSet { .. } | Task::Tail(_) => Effect::Writes,
            Task::Command(prepared) => prepared.effect(session, context),
            Task::Quoted(frame) => {
                let request = Decoded::unquoted(frame);
                let space = session.space(context.state);
                prepare(request, space, context.cache()).effect(session, context)
            }
            Task::Refuse { .. } => Effect::None,
        }
    }
}

impl context::Intake for Intake {
    fn become_of(&mut self, login: Login, users: &Users, state: &State) {
        self.session.log_in(login, users, state);
    }

    #[inline]
    fn is_unauthenticated(&self) -> bool {
        !self.session.identity.is_known()
    }

    #[inline(always)]
    fn makes_room(&self) -> bool {
        let upload = self.upload.as_ref();
        upload.is_some_and(|upload| !upload.draft.is_reserved())
            || self.session.preparation.is_again()
    }

    #[inline(always)]
    fn transfer(&mut self) -> Option<Transfer<'_>> {
        let upload = self.upload.as_mut()?;
        // A complete value waits for the arguments behind it, which are decoded.
        self.tail.is_none().then(|| upload.transfer())?
    }

    fn feed(
        &mut self,
        input: &[u8],
        context: Context<'_>,
        output: &mut Output,
    ) -> (usize, Option<Flow>) {
        let upload = self.upload.as_mut();
        let used = upload.map_or(0, |upload| upload.fill_from(input));
        (used, self.end_value(context, output))
    }

    fn abandon(&mut self) {
        self.upload = None;
        self.tail = None;
        self.session.preparation.end();
    }

    fn sender(&self) -> Option<&Login> {
        let is_under_way = self.upload.is_some() || self.tail.is_some();
        self.asker().filter(|_| is_under_way)
    }

    fn asker(&self) -> Option<&Login> {
        self.session.identity.last_login()
    }

    #[inline(always)]
    fn held(&self) -> Held {
        let Intake {
            session,
            upload,
            scan: _,
            tail: _,
        } = self;
        let mut held = session.held();
        if let Some(upload) = upload {
            held.cached += upload.draft.value_bytes();
        }
        held
    }

    fn setup(&self, state: &State) -> Option<ClientSetup> {
        let is_between = self.upload.is_none() && self.tail.is_none();
        is_between.then(|| self.session.setup(state))?
    }

    fn restore(&mut self, setup: &ClientSetup, state: &State) -> bool {
        self.session.restore(setup, state)
    }

    #[inline(always)]
    fn client(&self) -> Option<&Client> {
        Some(&self.session.client)
    }

    #[inline(always)]
    fn awaits_tail(&self) -> bool {
        self.tail.is_some()
    }

    fn refuse(&self, refusal: Refusal, _context: Context<'_>, output: &mut Output) {
        let text = format!("-ERR {}\r\n", refusal.text());
        output.bytes().extend_from_slice(text.as_bytes());
    }

    fn end(&mut self, state: &State) {
        self.session.leave(state);
    }

    fn take_apart(&mut self, most: usize, state: &State) -> usize {
        self.session.take_apart(most, state)
    }
}

/// A request and the hash of its first key.
#[derive(Debug)]
pub struct Prepared<'a> {
    request: Request<'a>,
    key: Option<Key<'a>>,
}

impl<'a> Prepared<'a> {
    /// The key to hint the cache about.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<Key<'a>> {
        self.key
    }

    /// Whether its time depends on what is stored, or it has many arguments.
    #[inline]
    #[must_use]
    pub fn is_heavy(&self) -> bool {
        let is_short = |command: &Command| {
            // Commands that process many members record it themselves.
            let is_of_collections = matches!(
                command.group,
                Group::Hash | Group::List | Group::Set | Group::SortedSet
            );
            command.flags.has(Flags::FAST) || is_of_collections
        };
        let command = self.request.command;
        !command.is_some_and(is_short) || self.request.args.len() > QUICK_ARGS_MAX
    }
}

impl Prepared<'_> {
    /// How it counts for a pause.
    fn effect(&self, session: &Session, context: Context<'_>) -> Effect {
        let Request { command, args } = &self.request;
        match command {
            Some(command) if command.takes(args.len()) => {
                pausing::effect(command, args, session, context)
            }
            _ => Effect::None,
        }
    }
}

/// Hashes the request's first key, for the space of the client's database.
#[inline]
fn prepare<'a>(request: Request<'a>, space: Space, cache: &Cache) -> Prepared<'a> {
    let key = match (request.command, request.args.get(1)) {
        (Some(command), Some(key)) if command.keys.first == 1 => cache.key_in(space, key).ok(),
        _ => None,
    };
    Prepared { request, key }
}

/// Runs a request, once what it needs is made, and appends its reply.
#[inline]
fn execute(
    prepared: &Prepared<'_>,
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let args = &prepared.request.args;
    let key = prepared.key;
    if session.preparation.is_under_way() {
        context.pass.note_heavy();
        if session.preparation.step(args, context.cache()) {
            return Flow::Again;
        }
    }
    let flow = match prepared.request.command {
        Some(command) if session.is_plain() && command.subcommands.is_empty() => {
            run_and_serve(command, args, key, session, context, output)
        }
        None if prepared.request.is_http() => Flow::Close,
        command => execute_checked(command, args, key, session, context, output),
    };
    match flow {
        Flow::Again => context.pass.note_heavy(),
        _ => session.preparation.end(),
    }
    flow
}

/// Runs a client's command, and serves clients blocked on what it has stored.
#[inline]
fn run_and_serve(
    command: &'static Command,
    args: &[&[u8]],
    key: Option<Key<'_>>,
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    if !context.state.observer.has_waiters() {
        return run(command, args, key, session, context, output);
    }
    let fills = may_fill((command, args), session, context);
    run_beside(fills, context, || {
        run(command, args, key, session, context, output)
    })
}

/// Runs a command whatever the session has set up.
#[inline]
fn run(
    command: &'static Command,
    args: &[&[u8]],
    key: Option<Key<'_>>,
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    // The database may have changed since the key was hashed.
    let key = key.filter(|key| key.space() == session.space(context.state));
    let proto = session.proto;
    session.client.note_command(command.verb);
    context.counters.pulse.begin_resp(command.verb as usize);
    begin_request();
    let allowed = match command.takes(args.len()) {
        true => check_access(command, args, session, context),
        false => Err(wrong_arity(command, args)),
    };
    if let Err(failure) = allowed {
        context.counters.times.note_rejected(command.verb);
        append_failure(&failure, proto, context, output);
        return Flow::Continue;
    }
    if let Some(section) = context.section
        && !cover(section, (command, args), session, context, output)
    {
        return Flow::Continue;
    }
    let mut call = Call {
        command,
        args,
        key,
        session,
        context,
        output,
    };
    let start = call.output.bytes().len();
    let is_long = call::long_command::is_long(&call);
    let is_looked_at = context.counters.calls.add(command.verb);
    let outcome = if is_long {
        timing::run(&mut call, call::long_command::run_long)
    } else if is_looked_at || !timing::is_quick(&call) {
        timing::run(&mut call, call_handler)
    } else {
        let before = timing::reply_bytes(call.output);
        let outcome = call_handler(&mut call);
        timing::note_reply_since(&mut call, before);
        outcome
    };
    match outcome {
        Ok(flow) => flow,
        Err(Failure::NoRoomYet) => {
            output.truncate(start);
            context.counters.calls.take_back(command.verb);
            Flow::Again
        }
        Err(failure) => {
            output.truncate(start);
            failed(command.verb, &failure, proto, context, output);
            Flow::Continue
        }
    }
}

/// Claims what a command of a section touches; if that cannot be had, the reply says so.
fn cover(
    section: &KeySection<'_>,
    (command, args): (&'static Command, &[&[u8]]),
    session: &Session,
    context: Context<'_>,
    output: &mut Output,
) -> bool {
    const REFUSED: Failure = Failure::text(
        "ERR a key that was not declared is locked by a script that waits for this one: \
         declare all keys",
    );
    const UNFORESEEN: Failure = Failure::text(
        "ERR the command stops all event loops, and the script did not name it before its first \
         write: run the script again",
    );
    let space = session.space(context.state);
    match section.cover((command, args), space, context.cache()) {
        Ok(()) => return true,
        Err(Uncovered::GivenUp) => {
            Reply::new(output.bytes(), session.proto).error("ERR the script begins anew");
        }
        Err(Uncovered::Refused) => append_failure(&REFUSED, session.proto, context, output),
        Err(Uncovered::Unforeseen) => {
            append_failure(&UNFORESEEN, session.proto, context, output);
        }
    }
    false
}

/// Whether a client may run a command, and this node serves the keys.
#[inline]
fn check_access(
    command: &'static Command,
    args: &[&[u8]],
    session: &mut Session,
    context: Context<'_>,
) -> Result<(), Failure> {
    session.check_rights(command, args, context.state)?;
    slots::check(command, args, session, context)
}

/// Calls the handler of a command, or of a chunk of a long one.
#[inline]
fn call_handler(call: &mut Call<'_>) -> Outcome {
    if call.session.tracked.is_on || call.session.touches_nothing {
        return call_observed(call);
    }
    match call.command.verb {
        Verb::Get => strings::get(call),
        Verb::Set => strings::set(call),
        verb => handlers::of(verb)(call),
    }
}

/// The same for a client whose reads are tracked, or do not count as uses.
#[cold]
fn call_observed(call: &mut Call<'_>) -> Outcome {
    let handler = handlers::of(call.command.verb);
    let uses = client::no_touch::uses(call);
    let outcome = if call.session.tracked.is_on {
        client::tracking::remember(call)?;
        let client = Arc::clone(&call.session.client);
        client::tracking::write_as(&client, || handler(call))
    } else {
        handler(call)
    };
    client::no_touch::restore(uses, call.cache());
    outcome
}

/// Appends the error of a refused command, and counts it unless that was done.
#[cold]
fn append_failure(failure: &Failure, proto: Proto, context: Context<'_>, output: &mut Output) {
    let line = failure.line();
    context.counters.protocol_errors.add(1);
    if !matches!(failure, Failure::Passed(_)) {
        context.state.records.errors.note(&line);
    }
    Reply::new(output.bytes(), proto).error(line.as_bytes());
}

/// The same of a command that ran.
#[cold]
fn failed(verb: Verb, failure: &Failure, proto: Proto, context: Context<'_>, output: &mut Output) {
    context.counters.times.note_failed(verb);
    append_failure(failure, proto, context, output);
}

/// Runs, queues or refuses a command of a client that is not known, has begun a transaction, wants
/// no reply, or sent a container's subcommand or nonsense.
#[cold]
fn execute_checked(
    command: Option<&'static Command>,
    args: &[&[u8]],
    key: Option<Key<'_>>,
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    if session.listens() {
        // Messages about earlier events precede the reply.
        session.empty_inbox(output);
    }
    let start = output.bytes().len();
    let mode = session.reply_mode;
    if mode == ReplyMode::SkipNext {
        session.reply_mode = ReplyMode::Skip;
    }
    let mut is_queued = false;
    let flow = match admit(command, args, session, context) {
        Ok(Some(command)) => match run_and_serve(command, args, key, session, context, output) {
            // It runs again, with the session as it is.
            again @ (Flow::Wait(_) | Flow::Again) => return again,
            flow => flow,
        },
        Ok(None) => {
            is_queued = true;
            Reply::new(output.bytes(), session.proto).simple("QUEUED");
            Flow::Continue
        }
        Err(Failure::NoRoomYet) => return Flow::Again,
        Err(mut failure) => {
            if command.is_some_and(|command| command.verb == Verb::Exec) {
                failure = transaction::abort(session, context.state, &failure);
            } else if let Some(transaction) = &mut session.transaction {
                transaction.spoil();
            }
            if let Some(command) = command.filter(|command| command.subcommands.is_empty()) {
                context.counters.times.note_rejected(command.verb);
            }
            append_failure(&failure, session.proto, context, output);
            Flow::Continue
        }
    };
    session
        .tracked
        .end_command(command, session.transaction.is_some());
    let is_message = !is_queued
        && command.is_some_and(|command| session::subscriptions::is_answered_by_push(command.verb));
    let is_on = session.reply_mode == ReplyMode::On;
    let is_wanted = mode == ReplyMode::On || is_on && turns_replies_on(command, mode);
    if session.reply_mode == ReplyMode::Skip {
        session.reply_mode = ReplyMode::On;
    }
    if !is_wanted && !is_message {
        output.truncate(start);
    }
    flow
}

/// Whether a command that has turned replies on is the first to get one. A RESET whose reply was
/// skipped by name is not.
fn turns_replies_on(command: Option<&'static Command>, before: ReplyMode) -> bool {
    command.is_some_and(|command| match command.verb {
        Verb::ClientReply => true,
        Verb::Reset => before == ReplyMode::Off,
        _ => false,
    })
}

/// The row of a command that may run now; none if it was queued.
fn admit(
    command: Option<&'static Command>,
    args: &[&[u8]],
    session: &mut Session,
    context: Context<'_>,
) -> Result<Option<&'static Command>, Failure> {
    let state = context.state;
    let Some(command) = command else {
        return Err(unknown(args));
    };
    if !session.identity.is_known() && !command.flags.has(Flags::NO_AUTH) {
        return Err(NO_AUTH);
    }
    if let Some(name) = args.get(1)
        && !command.subcommands.is_empty()
    {
        return Err(unknown_subcommand(command, name));
    }
    if !command.takes(args.len()) {
        return Err(wrong_arity(command, args));
    }
    if session.is_confined() {
        session::subscriptions::check_confined(command)?;
    }
    if command.verb == Verb::Debug && !state.settings.enable_debug_commands {
        return Err(admin::DEBUG_NOT_ALLOWED);
    }
    if session.transaction.is_none() || transaction::is_for_transaction(command.verb) {
        return Ok(Some(command));
    }
    check_access(command, args, session, context)?;
    // A login may have to wait for its result, which a transaction cannot do.
    let waits = matches!(command.verb, Verb::Auth | Verb::Hello) && state.access.users.is_some();
    let Some(transaction) = &mut session.transaction else {
        return Ok(Some(command));
    };
    if waits || command.flags.has(Flags::NO_MULTI) {
        return Err(Failure::text(
            "ERR Command not allowed inside a transaction",
        ));
    }
    let bytes_max = state.budget.bytes_max() / 2;
    transaction.queue(command, args, &session.preparation, bytes_max)?;
    note_queued(&session.client, Some(transaction.len()));
    Ok(None)
}

/// Answers an invalid request.
#[cold]
fn refuse(message: &[u8], session: &Session, context: Context<'_>, output: &mut Output) -> Flow {
    context.counters.protocol_errors.add(1);
    Reply::new(output.bytes(), session.proto).error(message);
    Flow::Close
}

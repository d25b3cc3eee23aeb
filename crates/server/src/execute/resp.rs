//! RESP: Redis's commands, run against the engine.
//!
//! An event loop meets it in its [`Intake`], which decodes requests, has them run by [`execute`]
//! together with the client's [`Session`], and takes long values. A command that is allowed now
//! goes to its handler ([`handlers`]), which writes its reply or returns a [`Failure`] that becomes
//! the reply.
//!
//! What a client has set up ([`session`]) lies below what runs one command ([`call`]); the handlers
//! stand above, a room for each group of commands.
//!
//! Tests: tests/resp.rs and its neighbours, foreign-clients/.

mod failure;
mod patterns; // how long those that clients send may be
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
pub mod intake;

pub use failure::Failure;
pub use intake::{Codec, Intake, Task};
pub use waiting::serve::serve;

use std::sync::Arc;

use cellar_engine::{Cache, Key, Space};
use cellar_protocol::resp::command::{Flags, Group};
use cellar_protocol::resp::{Command, Proto, Reply, Request, Verb};

use crate::clients::pause::Effect;
use crate::clients::tracking::begin_request;
use crate::execute::context::{Context, Flow};
use crate::execute::section::{KeySection, Uncovered};
use crate::net::output::Output;
use call::timing;
use call::{Call, Outcome};
use failure::{unknown, unknown_subcommand, wrong_arity};
use session::{NO_AUTH, ReplyMode, Session, note_queued};
use waiting::serve::{may_fill, run_beside};

/// Most arguments of a request that takes constant time.
const QUICK_ARGS_MAX: usize = 16;

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
            // Those that look at many members note it themselves.
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
    /// What it is to a pause.
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

/// Runs a client's command, and serves who waits for what it has stored.
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
    if let Err(failure) = may_run(command, args, session, context) {
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
        timing::run_quick(&mut call, call_handler)
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

/// Whether a command has as many arguments as it takes, and its client the right to run it.
#[inline]
fn may_run(
    command: &'static Command,
    args: &[&[u8]],
    session: &mut Session,
    context: Context<'_>,
) -> Result<(), Failure> {
    if !command.takes(args.len()) {
        return Err(wrong_arity(command, args));
    }
    check_access(command, args, session, context)
}

/// Whether a client has the right to run a command, and this node the keys.
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

/// Appends the reply that tells why a command was refused, and counts it unless that was done.
#[cold]
fn append_failure(failure: &Failure, proto: Proto, context: Context<'_>, output: &mut Output) {
    let line = failure.line();
    context.counters.protocol_errors.add(1);
    if !matches!(failure, Failure::Passed(_)) {
        context.state.errors.note(&line);
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
        // What has happened before comes before the reply.
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
            // It is run once more, with the session as it is.
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
    // A login may have to be waited for, which a transaction does not do.
    let waits = matches!(command.verb, Verb::Auth | Verb::Hello) && state.users.is_some();
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

/// Answers bytes that are no request.
#[cold]
fn refuse(message: &[u8], session: &Session, context: Context<'_>, output: &mut Output) -> Flow {
    context.counters.protocol_errors.add(1);
    Reply::new(output.bytes(), session.proto).error(message);
    Flow::Close
}

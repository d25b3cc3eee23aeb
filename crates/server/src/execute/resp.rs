//! RESP: Redis's commands, run against the engine.
//!
//! The worker hands each decoded request to [`execute`] together with the client's [`Session`].
//! A command that is allowed now goes to its handler ([`handlers`]), one file a group of commands;
//! a handler writes its reply or returns a [`Failure`], which becomes the reply.
//!
//! Tests: tests/resp.rs, clients/, conformance/resp.

mod failure;
mod queue;
mod session;
mod call;
mod notify;
mod expiry;
mod handlers;
mod values;
mod options;
mod ranges;
mod numbers;
mod limited;
mod lcs;
mod leases;
mod takes;
mod stores;
mod many;
mod strings;
mod upload;
mod connection;
mod bits;
mod deadlines;
mod object;
mod scan;
mod moves;
mod keys;
mod flush;
mod hashes;
mod sets;
mod sorted_sets;
mod channels;
mod transaction;
mod script_calls;
mod scripts;
mod admin;

pub use failure::Failure;
pub use session::Session;
pub use upload::{Received, Upload, finish, finish_tail, receive};

use cellar_engine::{Cache, Key, Space};
use cellar_protocol::resp::command::{Flags, Group};
use cellar_protocol::resp::{Command, Reply, Request, Verb};

use crate::execute::context::{Context, Flow};
use crate::output::Output;
use crate::state::State;
use call::{Call, Outcome};
use handlers::Handler;
use session::ReplyMode;

/// Longest part of an unknown command that its refusal repeats.
const REPEATED_BYTES_MAX: usize = 128;

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
}

/// Hashes the request's first key, for the space of the client's database.
#[inline]
#[must_use]
pub fn prepare<'a>(request: Request<'a>, space: Space, cache: &Cache) -> Prepared<'a> {
    let key = match (request.command, request.args.get(1)) {
        (Some(command), Some(key)) if command.keys.first == 1 => cache.key_in(space, key).ok(),
        _ => None,
    };
    Prepared { request, key }
}

/// Runs a request and appends its reply.
#[inline]
pub fn execute(
    prepared: &Prepared<'_>,
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let args = &prepared.request.args;
    let key = prepared.key;
    match prepared.request.command {
        Some(command) if session.is_plain() && command.subcommands.is_empty() => {
            run(command, args, key, session, context, output)
        }
        None if prepared.request.is_http() => Flow::Close,
        command => execute_with_care(command, args, key, session, context, output),
    }
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
    let mut call = Call {
        command,
        args,
        key,
        session,
        context,
        output,
    };
    let start = call.output.bytes().len();
    match call_handler(&mut call) {
        Ok(flow) => flow,
        Err(failure) => {
            context.counters.protocol_errors.add(1);
            output.bytes().truncate(start);
            Reply::new(output.bytes(), proto).error(failure.line().as_bytes());
            Flow::Continue
        }
    }
}

#[inline]
fn call_handler(call: &mut Call<'_>) -> Outcome {
    if !call.command.takes(call.args.len()) {
        return Err(wrong_arity(call.command, call.args));
    }
    match call.command.verb {
        Verb::Get => strings::get(call),
        Verb::Set => strings::set(call),
        _ => handler(call.command)(call),
    }
}

/// The function that runs a command.
fn handler(command: &Command) -> Handler {
    let of_group = match command.group {
        Group::String => strings::handler,
        Group::Bitmap => bits::handler,
        Group::Generic => keys::handler,
        Group::Hash => hashes::handler,
        Group::Set => sets::handler,
        Group::SortedSet => sorted_sets::handler,
        Group::Pubsub => channels::handler,
        Group::Scripting => scripts::handler,
        Group::Transactions => transaction::handler,
        Group::Connection => connection::handler,
        Group::Server | Group::Cluster => admin::handler,
    };
    of_group(command.verb)
}

/// Runs, queues or refuses a command of a client that is not known, has begun a transaction, wants
/// no reply, or sent a container's subcommand or nonsense.
#[cold]
fn execute_with_care(
    command: Option<&'static Command>,
    args: &[&[u8]],
    key: Option<Key<'_>>,
    session: &mut Session,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let start = output.bytes().len();
    let flow = match admit(command, args, session) {
        Ok(Some(command)) => run(command, args, key, session, context, output),
        Ok(None) => {
            Reply::new(output.bytes(), session.proto).simple("QUEUED");
            Flow::Continue
        }
        Err(failure) => {
            if let Some(transaction) = &mut session.transaction {
                transaction.spoil();
            }
            context.counters.protocol_errors.add(1);
            Reply::new(output.bytes(), session.proto).error(failure.line().as_bytes());
            Flow::Continue
        }
    };
    match session.reply_mode {
        ReplyMode::On => {}
        ReplyMode::Off => output.bytes().truncate(start),
        ReplyMode::SkipNext => session.reply_mode = ReplyMode::SkipThis,
        ReplyMode::SkipThis => {
            output.bytes().truncate(start);
            session.reply_mode = ReplyMode::On;
        }
    }
    flow
}

/// The row of a command that may run now; none if it was queued.
fn admit(
    command: Option<&'static Command>,
    args: &[&[u8]],
    session: &mut Session,
) -> Result<Option<&'static Command>, Failure> {
    let Some(command) = command else {
        return Err(unknown(args));
    };
    if !session.is_known && !command.flags.has(Flags::NO_AUTH) {
        return Err(Failure::text("NOAUTH Authentication required."));
    }
    if let Some(name) = args.get(1)
        && !command.subcommands.is_empty()
    {
        return Err(unknown_subcommand(command, name));
    }
    if !command.takes(args.len()) {
        return Err(wrong_arity(command, args));
    }
    let Some(transaction) = &mut session.transaction else {
        return Ok(Some(command));
    };
    if transaction::is_for_transaction(command.verb) {
        return Ok(Some(command));
    }
    if command.flags.has(Flags::NO_MULTI) {
        return Err(Failure::text(
            "ERR Command not allowed inside a transaction",
        ));
    }
    transaction.queue(command, args)?;
    Ok(None)
}

fn wrong_arity(command: &Command, args: &[&[u8]]) -> Failure {
    let name = String::from_utf8_lossy(args[0]).to_lowercase();
    let is_sub = !command.name.eq_ignore_ascii_case(&name);
    let name = if is_sub {
        format!("{name}|{}", command.name)
    } else {
        name
    };
    Failure::Text(format!("ERR wrong number of arguments for '{name}' command").into())
}

fn unknown_subcommand(command: &Command, name: &[u8]) -> Failure {
    let name = String::from_utf8_lossy(&name[..name.len().min(REPEATED_BYTES_MAX)]);
    let container = command.name.to_uppercase();
    Failure::Text(format!("ERR unknown subcommand '{name}'. Try {container} HELP.").into())
}

/// Source: Redis 7, `commandCheckExistence`.
fn unknown(args: &[&[u8]]) -> Failure {
    let shown = |arg: &[u8], most: usize| {
        let text = String::from_utf8_lossy(&arg[..arg.len().min(most)]);
        text.replace(['\r', '\n'], " ")
    };
    let name = args.first().map(|name| shown(name, REPEATED_BYTES_MAX));
    let mut repeated = String::new();
    for arg in args.iter().skip(1) {
        if repeated.len() >= REPEATED_BYTES_MAX {
            break;
        }
        let arg = shown(arg, REPEATED_BYTES_MAX - repeated.len());
        repeated.push_str(&format!("'{arg}' "));
    }
    let name = name.unwrap_or_default();
    let text = format!("ERR unknown command '{name}', with args beginning with: {repeated}");
    Failure::Text(text.into())
}

/// Answers bytes that are no request.
#[cold]
pub fn refuse(
    message: &[u8],
    session: &Session,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    context.counters.protocol_errors.add(1);
    Reply::new(output.bytes(), session.proto).error(message);
    Flow::Close
}

/// Forgets a client that is gone.
pub fn end(session: &Session, state: &State) {
    state.clients.remove(session.client.id);
}

//! Serve: gives stored values to blocked clients, on the thread that has stored them.
//!
//! A command that writes to a name with waiters runs exclusively, and the waiters are served before
//! any client runs another command. Names that only the command itself knows (those that a script
//! does not declare, those of work in steps) are served right after it.
//!
//! Invariant: waiters are served by the exclusive holder, the oldest first, as long as the key has
//! a value for them.

use std::sync::Arc;

use cellar_engine::{Change, Key};
use cellar_net::output::Output;
use cellar_protocol::resp::command::Flags;
use cellar_protocol::resp::{Command, Request, Verb};
use cellar_shared::clients::client::Client;
use cellar_shared::clients::exclusive_lock::ExclusiveReason;
use cellar_shared::clients::waiters::{MarkedKey, Waiter, WantedKind};
use cellar_shared::keyspace::kind::{LIST, SORTED_SET};
use cellar_system::clock::Stopwatch;

use super::Errand;
use crate::context::{Context, Flow};
use crate::resp::append_failure;
use crate::resp::call::Call;
use crate::resp::client::tracking::write_as;
use crate::resp::failure::Failure;
use crate::resp::session::Session;

/// Time that serving takes of an iteration, in microseconds; the rest is served in the next one.
const SERVE_US: u64 = 2_000;

/// Runs a client's command while other clients wait for values, and serves them; while no other
/// loop executes, if `fills` says that it may store their values.
#[cold]
pub(in crate::resp) fn run_beside(
    fills: bool,
    context: Context<'_>,
    run: impl FnOnce() -> Flow,
) -> Flow {
    let run_and_serve = || {
        let flow = run();
        serve(context);
        flow
    };
    if fills {
        context.exclusively(ExclusiveReason::Command, run_and_serve)
    } else {
        run_and_serve()
    }
}

/// Whether a command may store a value that a client waits for, as far as its arguments tell.
pub(in crate::resp) fn may_fill(
    (command, args): (&'static Command, &[&[u8]]),
    session: &Session,
    context: Context<'_>,
) -> bool {
    if command.verb == Verb::Exec
        && let Some(transaction) = &session.transaction
    {
        let mut fills = false;
        transaction.each(|command, args| {
            // Another database's keys are not looked for.
            let selects = command.verb == Verb::Select;
            fills = fills || selects || fills_awaited((command, args), session.database, context);
        });
        return fills;
    }
    fills_awaited((command, args), session.database, context)
}

fn fills_awaited(
    (command, args): (&'static Command, &[&[u8]]),
    database: u32,
    context: Context<'_>,
) -> bool {
    match command.verb {
        // Keys that they write without declaring them are served right after them.
        Verb::Eval | Verb::Evalsha | Verb::Fcall => {}
        // These only remove; a client that blocks found nothing.
        Verb::Blpop | Verb::Brpop | Verb::Blmpop => return false,
        Verb::Bzpopmin | Verb::Bzpopmax | Verb::Bzmpop => return false,
        _ if !command.flags.has(Flags::WRITE) => return false,
        _ => {}
    }
    let request = Request {
        command: Some(command),
        args: args.iter().copied().collect(),
    };
    let waiters = &context.state.observer.waiters;
    request.keys().any(|key| waiters.awaits(database, key))
}

/// Serves the waiters of stored values, as long as time remains; costs one load if nothing was
/// stored.
#[inline]
pub fn serve(context: Context<'_>) {
    if context.state.observer.waiters.is_ready() {
        serve_marked(context);
    }
}

#[cold]
fn serve_marked(context: Context<'_>) {
    let observer = &context.state.observer;
    context.pass.note_heavy();
    context.exclusively(ExclusiveReason::Command, || {
        let mut serving = Serving {
            context,
            began: Stopwatch::start(),
            served: Vec::new(),
        };
        while let Some(marked) = observer.waiters.next_marked() {
            if !serving.serve_name(&marked) {
                observer.waiters.put_back(marked);
                break;
            }
            observer.waiters.unmark(&marked);
        }
        // Clients that track in BCAST mode are notified before other clients can see the removals.
        observer.tracking.broadcast();
        let served = serving.served.iter();
        served.for_each(|waiter| waiter.request.client.call());
    });
}

/// Serves waiters, exclusively.
struct Serving<'c> {
    context: Context<'c>,
    began: Stopwatch,
    served: Vec<Arc<Waiter>>,
}

impl Serving<'_> {
    /// Serves the waiters of a name; returns whether time was left for all.
    fn serve_name(&mut self, marked: &MarkedKey) -> bool {
        let (state, cache) = (self.context.state, self.context.cache());
        let (database, name) = marked;
        let Ok(key) = cache.key_in(state.databases.space(*database), name) else {
            return true;
        };
        let mut after = 0;
        loop {
            // It does not count as a hit or a miss, because no client reads it.
            let mut kind = None;
            let looked = cache.update(key, &mut Vec::new(), |item, _| {
                kind = item.map(|item| item.kind);
                ((), Change::Keep)
            });
            let kind = match kind.filter(|_| looked.is_ok()) {
                Some(LIST) => WantedKind::List,
                Some(SORTED_SET) => WantedKind::SortedSet,
                _ => return true,
            };
            let oldest = state.observer.waiters.oldest(marked, kind, after);
            let Some((waiter, place)) = oldest else {
                return true;
            };
            if self.began.us() >= SERVE_US {
                return false;
            }
            after = waiter.number;
            // A client that is killed, or whose user has changed, takes no value. A waiter that
            // wants more than is available keeps waiting, and later ones may want less.
            if !self.is_over(&waiter.request.client) {
                self.serve_one(waiter, place, key);
            }
        }
    }

    /// Whether a client has disconnected, or has to with its user.
    fn is_over(&self, client: &Client) -> bool {
        let Some(users) = &self.context.state.access.users else {
            return client.is_gone();
        };
        let login = client.facts().login.clone();
        client.is_gone() || login.is_some_and(|login| !users.has_still(&login))
    }

    /// Runs a waiter's command for one of its keys, if the key has a suitable value.
    fn serve_one(&mut self, waiter: Arc<Waiter>, place: usize, key: Key<'_>) {
        let request = &waiter.request;
        let args: Vec<&[u8]> = request.args.iter().map(|arg| &**arg).collect();
        let (context, mut output) = (self.context, Output::default());
        let mut session = Session::of_waiter(request, context.state);
        let proto = request.proto;
        let mut call = Call {
            command: request.command,
            args: &args,
            key: Some(key),
            session: &mut session,
            context,
            output: &mut output,
        };
        let found = write_as(&request.client, || run_errand(&mut call, place));
        match found {
            Ok(None) => return,
            Ok(Some(flow)) => finish(flow, context, &mut output),
            Err(failure) => append_failure(&failure, proto, context, &mut output),
        }
        context.state.observer.unwait(&waiter);
        waiter.answer(output.take());
        self.served.push(waiter);
    }
}

fn run_errand(call: &mut Call<'_>, place: usize) -> Result<Option<Flow>, Failure> {
    // It was validated when it arrived.
    Errand::parse(call)?.try_at(call, place)
}

/// Completes a reply that comes in steps: its values are no longer in the cache.
fn finish(mut flow: Flow, context: Context<'_>, output: &mut Output) {
    while let Flow::Unfinished(rest) = flow {
        flow = rest.resume(context, output);
    }
}

//! Serve: who waits gets what was stored, from whoever has stored it.
//!
//! A command that writes to a name that somebody waits for runs alone, and those who wait are
//! served before anybody else runs one. Names that only the command itself knows (those that a
//! script does not declare, those of work in steps) are served right behind it.
//!
//! Invariant: a waiter is served by one who is alone, the oldest first, as long as something is
//! there for it.

use std::sync::Arc;

use cellar_engine::{Change, Key};
use cellar_protocol::resp::command::Flags;
use cellar_protocol::resp::{Command, Request, Verb};

use super::Errand;
use crate::clients::client::Client;
use crate::clients::exclusive_lock::ExclusiveReason;
use crate::clients::waiters::{MarkedKey, Waiter, WantedKind};
use crate::execute::context::{Context, Flow};
use crate::execute::resp::append_failure;
use crate::execute::resp::call::Call;
use crate::execute::resp::client::tracking::write_as;
use crate::execute::resp::failure::Failure;
use crate::execute::resp::session::Session;
use crate::keyspace::kind::{LIST, SORTED_SET};
use crate::net::output::Output;
use crate::system::clock::Stopwatch;

/// Time that serving takes of a turn, in microseconds; the others are served in the next one.
const SERVE_US: u64 = 2_000;

/// Runs a client's command while others wait for values, and serves them; while no other loop
/// executes, if it `fills` what they wait for.
#[cold]
pub(in crate::execute::resp) fn run_beside(
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

/// Whether a command may store what somebody waits for, as far as its arguments tell.
pub(in crate::execute::resp) fn may_fill(
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
        // What they write besides the keys that they declare is served right behind them.
        Verb::Eval | Verb::Evalsha | Verb::Fcall => {}
        // These only take; whom they wait behind has found nothing.
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

/// Serves those who wait for what was stored, as long as there is time; nothing to do costs one
/// load.
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
        // Who broadcasts hears of what went before anybody sees that it went.
        observer.tracking.broadcast();
        let served = serving.served.iter();
        served.for_each(|waiter| waiter.request.client.call());
    });
}

/// Serves, alone.
struct Serving<'c> {
    context: Context<'c>,
    began: Stopwatch,
    served: Vec<Arc<Waiter>>,
}

impl Serving<'_> {
    /// Serves those who wait for a name; whether there was time for all.
    fn serve_name(&mut self, marked: &MarkedKey) -> bool {
        let (state, cache) = (self.context.state, self.context.cache());
        let (database, name) = marked;
        let Ok(key) = cache.key_in(state.databases.space(*database), name) else {
            return true;
        };
        let mut after = 0;
        loop {
            // It is no read of a client, which would count as a hit or a miss.
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
            // One that is killed, or no longer its user's, loses nothing to its end.
            // One that wants more than there is waits on, and those behind it may want less.
            if !self.is_over(&waiter.request.client) {
                self.serve_one(waiter, place, key);
            }
        }
    }

    /// Whether a client is gone, or is to go with its user.
    fn is_over(&self, client: &Client) -> bool {
        let Some(users) = &self.context.state.users else {
            return client.is_gone();
        };
        let login = client.facts().login.clone();
        client.is_gone() || login.is_some_and(|login| !users.has_still(&login))
    }

    /// Runs a waiter's command for one of its keys, if there is what it waits for.
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
    // It was right when it came.
    Errand::parse(call)?.try_at(call, place)
}

/// Makes the rest of an answer that comes in steps: what it holds is no longer in the cache.
fn finish(mut flow: Flow, context: Context<'_>, output: &mut Output) {
    while let Flow::Unfinished(rest) = flow {
        flow = rest.resume(context, output);
    }
}

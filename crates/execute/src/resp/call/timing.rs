//! Timing: which commands are timed, and which statistics and logs get their durations.
//!
//! Commands of constant time are timed by sample
//! ([`Calls::add`](cellar_shared::observe::counters::Calls::add)), all others each time. A command
//! that works in steps is recorded after its last step, with the time and the reply of all steps.
//!
//! Why: docs/decisions/0049. Tests: server/tests/resp_times.rs.

use std::sync::Arc;

use cellar_cluster::slot::slot_of;
use cellar_net::output::Output;
use cellar_protocol::resp::command::Flags;
use cellar_protocol::resp::request::key_places;
use cellar_protocol::resp::{Command, Request, Verb};
use cellar_shared::clients::client::Client;
use cellar_shared::clients::monitors::MonitorSource;
use cellar_shared::observe::command_log::{
    LARGE_BYTES_MIN, LogKind, LoggedCommand, ShownArgs, shortened,
};
use cellar_shared::observe::hot_keys::Cost;
use cellar_shared::observe::latency_events::LatencyEvent;
use cellar_system::clock::Stopwatch;
use smallvec::SmallVec;

use crate::context::{Context, Flow, Unfinished};
use crate::resp::QUICK_ARGS_MAX;
use crate::resp::call::notify::Class;
use crate::resp::call::{Call, Outcome};
use crate::resp::failure::Failure;
use crate::resp::session::Session;

/// Replaces secrets in listings.
const REDACTED: &[u8] = b"(redacted)";

/// The cost of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::resp) struct Spent {
    /// Nanoseconds.
    pub(in crate::resp) ns: u64,
    /// Bytes of its request; none if that arrived earlier, in a script or a transaction.
    pub(in crate::resp) request_bytes: Option<usize>,
    /// Bytes of its reply.
    pub(in crate::resp) reply_bytes: usize,
}

impl Spent {
    /// The value that a log of this kind compares with its threshold.
    fn amount(&self, kind: LogKind) -> Option<u64> {
        match kind {
            LogKind::Slow => Some(self.ns / 1_000),
            LogKind::LargeRequest => self.request_bytes.map(|bytes| bytes as u64),
            LogKind::LargeReply => Some(self.reply_bytes as u64),
        }
    }
}

/// Whether a command takes constant time, and its request is short.
#[inline]
pub(in crate::resp) fn is_quick(call: &Call<'_>) -> bool {
    let is_short = |args: &[&[u8]]| {
        args.len() <= QUICK_ARGS_MAX && args.iter().all(|arg| arg.len() < LARGE_BYTES_MIN)
    };
    is_constant(call.command) && is_short(call.args)
}

/// Logs the reply of a command of constant time that was not timed, if it is large; `before` are
/// the unwritten bytes before it ran.
#[inline]
pub(in crate::resp) fn note_reply_since(call: &mut Call<'_>, before: usize) {
    let bytes = reply_bytes(call.output).saturating_sub(before);
    if bytes >= LARGE_BYTES_MIN {
        note_reply(
            call.command,
            call.args,
            &call.session.client,
            call.context,
            bytes,
        );
    }
}

/// Logs the reply of a command that is not timed, if it is large.
#[cold]
pub(in crate::resp) fn note_reply(
    command: &Command,
    args: &[&[u8]],
    client: &Client,
    context: Context<'_>,
    bytes: usize,
) {
    let amount = bytes as u64;
    if context
        .state
        .records
        .command_logs
        .of(LogKind::LargeReply)
        .takes(amount)
    {
        let args = shortened(&redacted(command, args));
        log(
            command,
            client,
            context,
            (LogKind::LargeReply, amount),
            args,
        );
    }
}

fn is_constant(command: &Command) -> bool {
    command.flags.has(Flags::FAST) || command.verb == Verb::Set
}

/// Runs a command under the clock.
#[inline(never)]
pub(in crate::resp) fn run(call: &mut Call<'_>, run: fn(&mut Call<'_>) -> Outcome) -> Outcome {
    let is_script = matches!(
        call.command.verb,
        Verb::Eval | Verb::Evalsha | Verb::EvalRo | Verb::EvalshaRo | Verb::Fcall | Verb::FcallRo
    );
    if is_script {
        // Before what it runs.
        show(call.command, call.args, call.session, call.context);
    }
    if call.context.state.observer.events().has(Class::Miss) && !call.session.preparation.is_again()
    {
        tell_misses(call);
    }
    let before = reply_bytes(call.output);
    let stopwatch = Stopwatch::start();
    let outcome = run(call);
    let ns = stopwatch.ns();
    let is_run_again = matches!(outcome, Ok(Flow::Wait(_)) | Err(Failure::NoRoomYet));
    if is_run_again {
        return outcome;
    }
    let spent = Spent {
        ns,
        request_bytes: request_bytes(call.args, call.session),
        reply_bytes: reply_bytes(call.output).saturating_sub(before),
    };
    if call.context.state.records.hot_keys.is_active() {
        measure((call.command, call.args), call.session, call.context, spent);
    }
    if !is_script {
        show(call.command, call.args, call.session, call.context);
    }
    match outcome {
        Ok(Flow::Unfinished(rest)) => Ok(Flow::Unfinished(Box::new(TimedSteps {
            rest,
            spent,
            command: call.command,
            args: shortened(&redacted(call.command, call.args)),
            client: Arc::clone(&call.session.client),
        }))),
        _ => {
            let args = || shortened(&redacted(call.command, call.args));
            note(
                call.command,
                &call.session.client,
                spent,
                call.context,
                args,
            );
            outcome
        }
    }
}

/// Bytes of replies that wait, pinned values too.
pub(in crate::resp) fn reply_bytes(output: &mut Output) -> usize {
    output.bytes().len() + output.pinned_bytes()
}

/// Bytes of a request that arrived by itself.
pub(in crate::resp) fn request_bytes(args: &[&[u8]], session: &Session) -> Option<usize> {
    let came = !session.is_script && session.in_exec.is_none();
    came.then(|| frame_bytes(args.iter().map(|arg| arg.len())))
}

/// Measures what a command has cost its keys, for HOTKEYS. Of one that works in steps the first is
/// measured; what a script runs is the script's.
#[cold]
pub(in crate::resp) fn measure(
    (command, args): (&'static Command, &[&[u8]]),
    session: &Session,
    context: Context<'_>,
    spent: Spent,
) {
    let places = key_places(command.keys, args);
    let keys: SmallVec<[&[u8]; 4]> = places
        .filter_map(|place| args.get(place).copied())
        .collect();
    let Some(first) = keys.first().filter(|_| !session.is_script) else {
        return;
    };
    let state = context.state;
    let cost = Cost {
        ns: spent.ns,
        bytes: (frame_bytes(args.iter().map(|arg| arg.len())) + spent.reply_bytes) as u64,
    };
    let slot = state.cluster.as_ref().map_or(0, |_| slot_of(first));
    if state
        .records
        .hot_keys
        .note(&keys, slot, cost, state.cache.now().0)
    {
        state.choose_calls();
    }
}

/// Bytes of a request as an array of bulk strings of these lengths.
pub(in crate::resp) fn frame_bytes(lengths: impl ExactSizeIterator<Item = usize>) -> usize {
    // A length is framed by a type byte and a line end.
    let head = |number: usize| match number {
        0..10 => 4,
        10..100 => 5,
        _ => 3 + number.ilog10() as usize + 1,
    };
    let count = head(lengths.len());
    count + lengths.map(|bytes| head(bytes) + bytes + 2).sum::<usize>()
}

/// Sends a command to the monitoring clients.
#[inline]
pub(in crate::resp) fn show(
    command: &Command,
    args: &[&[u8]],
    session: &Session,
    context: Context<'_>,
) {
    if context.state.monitors.are_there() {
        show_to_monitors(command, args, session, context);
    }
}

#[cold]
fn show_to_monitors(command: &Command, args: &[&[u8]], session: &Session, context: Context<'_>) {
    // Of scripts the flag says that they are shown elsewhere: before what they run.
    let is_hidden = command.flags.has(Flags::ADMIN);
    if !is_hidden {
        let state = context.state;
        let origin = MonitorSource {
            unix_us: state.wall.unix_us(state.cache.now()),
            database: session.database,
            peer: session.origin(),
        };
        state.monitors.show(origin, &redacted(command, args));
    }
}

/// Publishes which keys a command that reads will not find.
///
/// Source: Redis 7, `lookupKeyReadWithFlags`.
#[cold]
fn tell_misses(call: &Call<'_>) {
    let Call { command, args, .. } = call;
    let reads = command.flags.has(Flags::READONLY) && command.name != "object"
        || matches!(command.verb, Verb::Getdel | Verb::Getex | Verb::Getset);
    let is_object = matches!(
        command.verb,
        Verb::ObjectEncoding | Verb::ObjectFreq | Verb::ObjectIdletime | Verb::ObjectRefcount
    );
    if !reads || is_object || command.flags.has(Flags::NOSCRIPT) {
        return;
    }
    let request = Request {
        command: Some(command),
        args: args.iter().copied().collect(),
    };
    let space = call.space();
    for key in request.keys() {
        if let Ok(key) = call.cache().key_in(space, key)
            && call.cache().facts(key, |_| ()).is_none()
        {
            call.context.notify(Class::Miss, "keymiss", key);
        }
    }
}

/// Records the duration of a command, and logs it if it was slow or large.
pub(in crate::resp) fn note(
    command: &Command,
    client: &Client,
    spent: Spent,
    context: Context<'_>,
    args: impl Fn() -> ShownArgs,
) {
    let (state, us) = (context.state, spent.ns / 1_000);
    context.counters.times.note(command.verb, spent.ns);
    let unix_s = || state.wall.unix_ms(state.cache.now()) / 1_000;
    let event = if is_constant(command) {
        LatencyEvent::FastCommand
    } else {
        LatencyEvent::Command
    };
    state.records.latency_events.note(event, us, unix_s);
    for kind in LogKind::ALL {
        let amount = spent.amount(kind);
        let amount = amount.filter(|amount| state.records.command_logs.of(kind).takes(*amount));
        if let Some(amount) = amount {
            log(command, client, context, (kind, amount), args());
        }
    }
}

/// Adds a command to a log.
#[cold]
fn log(
    command: &Command,
    client: &Client,
    context: Context<'_>,
    (kind, amount): (LogKind, u64),
    args: ShownArgs,
) {
    if command.flags.has(Flags::SKIP_SLOWLOG) {
        return;
    }
    let state = context.state;
    state.records.command_logs.of(kind).add(LoggedCommand {
        id: 0,
        unix_s: state.wall.unix_ms(state.cache.now()) / 1_000,
        amount,
        args,
        peer: client.seat.peer.clone(),
        name: client.facts().name.clone(),
    });
}

/// The arguments of a command without secrets.
///
/// Source: Redis 7, `redactClientCommandArgument` and its callers.
pub(in crate::resp) fn redacted<'a>(command: &Command, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut shown = args.to_vec();
    let secret = match command.verb {
        Verb::Auth => 1..args.len(),
        // Behind every AUTH, whether it is the option or the name that another sets.
        Verb::Hello => {
            for place in 2..args.len() {
                if args[place].eq_ignore_ascii_case(b"AUTH") {
                    let end = args.len().min(place + 3);
                    shown[place + 1..end].fill(REDACTED);
                }
            }
            0..0
        }
        // Names and values alternate; the value of a secret setting is a secret.
        Verb::ConfigSet => {
            for place in (2..args.len().saturating_sub(1)).step_by(2) {
                if is_secret(args[place]) {
                    shown[place + 1] = REDACTED;
                }
            }
            0..0
        }
        _ => 0..0,
    };
    for place in secret {
        if let Some(arg) = shown.get_mut(place) {
            *arg = REDACTED;
        }
    }
    shown
}

fn is_secret(parameter: &[u8]) -> bool {
    [&b"requirepass"[..], b"masterauth", b"tls-key-file-pass"]
        .iter()
        .any(|name| parameter.eq_ignore_ascii_case(name))
}

/// The steps that are left of a command.
#[derive(Debug)]
struct TimedSteps {
    rest: Box<dyn Unfinished>,
    /// Its cost so far.
    spent: Spent,
    command: &'static Command,
    args: ShownArgs,
    client: Arc<Client>,
}

impl Unfinished for TimedSteps {
    fn resume(self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        let TimedSteps {
            rest,
            mut spent,
            command,
            args,
            client,
        } = *self;
        let failures = context.counters.protocol_errors.read();
        let before = reply_bytes(output);
        let stopwatch = Stopwatch::start();
        let flow = rest.resume(context, output);
        spent.ns += stopwatch.ns();
        spent.reply_bytes += reply_bytes(output).saturating_sub(before);
        if context.counters.protocol_errors.read() > failures {
            context.counters.times.note_failed(command.verb);
        }
        let Flow::Unfinished(rest) = flow else {
            note(command, &client, spent, context, || args.clone());
            return flow;
        };
        Flow::Unfinished(Box::new(TimedSteps {
            rest,
            spent,
            command,
            args,
            client,
        }))
    }

    fn has_begun(&self) -> bool {
        self.rest.has_begun()
    }

    fn waiting_bytes(&self) -> usize {
        self.rest.waiting_bytes() + self.args.held_bytes()
    }

    fn adopt(&mut self, frame: Vec<u8>) -> Option<Vec<u8>> {
        self.rest.adopt(frame)
    }

    fn into_buffer(self: Box<Self>) -> Option<Vec<u8>> {
        self.rest.into_buffer()
    }
}

#[cfg(test)]
mod tests {
    use cellar_protocol::resp::command::of;

    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let check = |request: &str, expected: &str| {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let shown = redacted(of(&args).unwrap(), &args).join(&b' ');
            assert_eq!(String::from_utf8(shown).unwrap(), expected);
        };
        check("AUTH secret", "AUTH (redacted)");
        check("AUTH user secret", "AUTH (redacted) (redacted)");
        check("HELLO 3 SETNAME a", "HELLO 3 SETNAME a");
        check(
            "HELLO 3 SETNAME a AUTH user secret",
            "HELLO 3 SETNAME a AUTH (redacted) (redacted)",
        );
        check("HELLO 3 auth user", "HELLO 3 auth (redacted)");
        check(
            "HELLO 3 SETNAME auth AUTH user secret",
            "HELLO 3 SETNAME auth (redacted) (redacted) (redacted)",
        );
        check(
            "HELLO 3 AUTH a one AUTH b two",
            "HELLO 3 AUTH (redacted) (redacted) AUTH (redacted) (redacted)",
        );
        check(
            "CONFIG SET hz 1 RequirePass secret",
            "CONFIG SET hz 1 RequirePass (redacted)",
        );
        check("CONFIG SET requirepass", "CONFIG SET requirepass");
        check("SET auth secret", "SET auth secret");
    }

    #[test]
    fn a_request_has_as_many_bytes_as_its_frame() {
        for args in [
            &[&b"GET"[..], b""][..],
            &[b"SET", b"0123456789", &[0; 1_000]],
        ] {
            let mut frame = Vec::new();
            cellar_protocol::resp::request::write_frame(args, &mut frame);
            assert_eq!(frame_bytes(args.iter().map(|arg| arg.len())), frame.len());
        }
    }
}

//! Clocked: commands that run under a look at the clock, and who is told how long they took.
//!
//! Those of constant time come here by sample ([`Calls::add`](crate::counters::Calls::add)), all
//! others each time. One that works in steps is told of when its last step is done, with the time
//! of all.
//!
//! Why: docs/decisions/0049. Tests: tests/resp_times.rs.

use std::sync::Arc;

use cellar_protocol::resp::command::Flags;
use cellar_protocol::resp::request::key_places;
use cellar_protocol::resp::{Command, Request, Verb};
use smallvec::SmallVec;

use crate::client::Client;
use crate::clock::Stopwatch;
use crate::cluster::slot::slot_of;
use crate::command_log::{LoggedCommand, ShownArgs, shortened};
use crate::execute::context::{Context, Flow, Unfinished};
use crate::execute::resp::QUICK_ARGS_MAX;
use crate::execute::resp::call::notify::Class;
use crate::execute::resp::call::{Call, Outcome};
use crate::execute::resp::failure::Failure;
use crate::execute::resp::session::Session;
use crate::hot_keys::Cost;
use crate::latency_events::LatencyEvent;
use crate::monitors::MonitorSource;
use crate::output::Output;

/// What stands in listings in the place of a secret.
const REDACTED: &[u8] = b"(redacted)";

/// Whether a command takes constant time.
#[inline]
pub(in crate::execute::resp) fn is_quick(call: &Call<'_>) -> bool {
    is_constant(call.command) && call.args.len() <= QUICK_ARGS_MAX
}

fn is_constant(command: &Command) -> bool {
    command.flags.has(Flags::FAST) || command.verb == Verb::Set
}

/// Runs a command under the clock.
#[inline(never)]
pub(in crate::execute::resp) fn run(
    call: &mut Call<'_>,
    run: impl FnOnce(&mut Call<'_>) -> Outcome,
) -> Outcome {
    let is_script = matches!(
        call.command.verb,
        Verb::Eval | Verb::Evalsha | Verb::EvalRo | Verb::EvalshaRo | Verb::Fcall | Verb::FcallRo
    );
    if is_script {
        // Before what it runs.
        show(call.command, call.args, call.session, call.context);
    }
    if call.context.state.observer.events().has(Class::Miss) && !call.session.ahead.is_again() {
        tell_misses(call);
    }
    let is_measured = call.context.state.hot_keys.is_active();
    let before = is_measured.then(|| reply_bytes(call.output));
    let stopwatch = Stopwatch::start();
    let outcome = run(call);
    let ns = stopwatch.ns();
    let is_run_again = matches!(outcome, Ok(Flow::Wait(_)) | Err(Failure::NoRoomYet));
    if let Some(before) = before.filter(|_| !is_run_again) {
        let bytes = reply_bytes(call.output).saturating_sub(before);
        measure(
            (call.command, call.args),
            call.session,
            call.context,
            (ns, bytes),
        );
    }
    if !is_script && !is_run_again {
        show(call.command, call.args, call.session, call.context);
    }
    match outcome {
        _ if is_run_again => outcome,
        Ok(Flow::Unfinished(rest)) => Ok(Flow::Unfinished(Box::new(ClockedRest {
            rest,
            ns,
            command: call.command,
            args: shortened(&redacted(call.command, call.args)),
            client: Arc::clone(&call.session.client),
        }))),
        _ => {
            let args = || shortened(&redacted(call.command, call.args));
            note(call.command, &call.session.client, ns, call.context, args);
            outcome
        }
    }
}

/// Bytes of replies that wait, pinned values too.
pub(in crate::execute::resp) fn reply_bytes(output: &mut Output) -> usize {
    output.bytes().len() + output.pinned_bytes()
}

/// Measures what a command has cost its keys, for HOTKEYS: so many nanoseconds and bytes of its
/// reply. Of one that works in steps the first is measured; what a script runs is the script's.
#[cold]
pub(in crate::execute::resp) fn measure(
    (command, args): (&'static Command, &[&[u8]]),
    session: &Session,
    context: Context<'_>,
    (ns, bytes): (u64, usize),
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
        us: ns / 1_000,
        bytes: (frame_bytes(args) + bytes) as u64,
    };
    let slot = state.cluster.as_ref().map_or(0, |_| slot_of(first));
    if state.hot_keys.note(&keys, slot, cost, state.cache.now().0) {
        state.choose_calls();
    }
}

/// Bytes of a request as an array of bulk strings.
fn frame_bytes(args: &[&[u8]]) -> usize {
    // A length stands between a sign and the end of its line.
    let head = |number: usize| 3 + number.checked_ilog10().unwrap_or(0) as usize + 1;
    let bulks = args.iter().map(|arg| head(arg.len()) + arg.len() + 2);
    head(args.len()) + bulks.sum::<usize>()
}

/// Shows a command to those who monitor.
#[inline]
pub(in crate::execute::resp) fn show(
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

/// Tells how long a command took.
pub(in crate::execute::resp) fn note(
    command: &Command,
    client: &Client,
    ns: u64,
    context: Context<'_>,
    args: impl FnOnce() -> ShownArgs,
) {
    let (state, us) = (context.state, ns / 1_000);
    context.counters.times.note(command.verb, ns);
    let unix_s = || state.wall.unix_ms(state.cache.now()) / 1_000;
    let event = if is_constant(command) {
        LatencyEvent::FastCommand
    } else {
        LatencyEvent::Command
    };
    state.latency_events.note(event, us, unix_s);
    if state.slow_log.is_slow(us) && !command.flags.has(Flags::SKIP_SLOWLOG) {
        state.slow_log.add(LoggedCommand {
            id: 0,
            unix_s: unix_s(),
            us,
            args: args(),
            peer: client.seat.peer.clone(),
            name: client.facts().name.clone(),
        });
    }
}

/// The arguments of a command without what is secret.
///
/// Source: Redis 7, `redactClientCommandArgument` and who calls it.
pub(in crate::execute::resp) fn redacted<'a>(
    command: &Command,
    args: &[&'a [u8]],
) -> Vec<&'a [u8]> {
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
        // Names and values take turns; a value whose name is one of a secret is one.
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
struct ClockedRest {
    rest: Box<dyn Unfinished>,
    /// What it took so far.
    ns: u64,
    command: &'static Command,
    args: ShownArgs,
    client: Arc<Client>,
}

impl Unfinished for ClockedRest {
    fn resume(self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        let ClockedRest {
            rest,
            ns,
            command,
            args,
            client,
        } = *self;
        let failures = context.counters.protocol_errors.read();
        let stopwatch = Stopwatch::start();
        let flow = rest.resume(context, output);
        let ns = ns + stopwatch.ns();
        if context.counters.protocol_errors.read() > failures {
            context.counters.times.note_failed(command.verb);
        }
        let Flow::Unfinished(rest) = flow else {
            note(command, &client, ns, context, || args);
            return flow;
        };
        Flow::Unfinished(Box::new(ClockedRest {
            rest,
            ns,
            command,
            args,
            client,
        }))
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
            assert_eq!(frame_bytes(args), frame.len());
        }
    }
}

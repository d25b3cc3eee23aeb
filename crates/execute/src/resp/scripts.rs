//! Scripts: EVAL and its relatives, and SCRIPT; FCALL and FUNCTION are in functions.rs.
//!
//! A script is one atomic step on the keys that it declares, and on others that it accesses; see
//! execute/section.rs. Its commands use the same handlers as a client's, see scripts/calls.rs.
//! Source: redis.io/docs/latest/commands/eval. Tests: server/tests/resp_scripts.rs.

pub(super) mod calls;
pub(super) mod functions; // libraries of functions, and calls of these

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use cellar_config::limits::SCRIPT_ARGUMENT_BYTES_MAX;
use cellar_config::parameters::REDIS_VERSION;
use cellar_engine::Intent;
use cellar_protocol::resp::{Command, Reply, Verb, number};
use cellar_script::{
    AnyKeys, Header, Interpreter, Origin, PROGRAM_BYTES_MAX, Program, Run, RunError, Script,
};
use cellar_shared::clients::exclusive_lock::ExclusiveReason;
use cellar_shared::state::State;
use cellar_system::clock::Stopwatch;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;

use self::calls::Caller;
use crate::context::Moment;
use crate::section::{KeySection, Wish};

const MAY_WRITE: Failure =
    Failure::text("ERR Can not execute a script with write flag using *_ro command.");
/// Length of a script's digest in hexadecimal digits.
const DIGEST_BYTES: usize = 40;

thread_local! {
    /// The event loop's interpreter.
    static INTERPRETER: RefCell<Interpreter> = RefCell::new(Interpreter::new(REDIS_VERSION));
}

pub(super) fn eval(call: &mut Call<'_>) -> Outcome {
    let source = call.args[1];
    check_length(source)?;
    // A script that does not run is not cached either.
    let lists = lists(call.args)?;
    let script = keep(call, source, Origin::Evaluated);
    run(call, &script, lists)
}

pub(super) fn evalsha(call: &mut Call<'_>) -> Outcome {
    const UNKNOWN: Failure = Failure::text("NOSCRIPT No matching script. Please use EVAL.");
    if call.args[1].len() != DIGEST_BYTES {
        return Err(UNKNOWN);
    }
    let lists = lists(call.args)?;
    let script = call.context.state.scripts.find(call.args[1]);
    let script = script.ok_or(UNKNOWN)?;
    run(call, &script, lists)
}

/// Whether the script or function of a command declares that it writes nothing.
pub(super) fn is_read_only(command: &Command, args: &[&[u8]], state: &State) -> bool {
    let says_so = |source: &[u8]| Header::read(source).is_ok_and(|header| header.no_writes);
    match command.verb {
        Verb::EvalRo | Verb::EvalshaRo | Verb::FcallRo => true,
        Verb::Fcall => {
            let found = state.functions.find(args[1]);
            found.is_some_and(|found| found.function().flags.no_writes())
        }
        Verb::Eval => says_so(args[1]),
        Verb::Evalsha => {
            let script = state.scripts.find(args[1]);
            script.is_some_and(|script| says_so(&script.source))
        }
        _ => false,
    }
}

fn check_length(source: &[u8]) -> Result<(), Failure> {
    if source.len() > PROGRAM_BYTES_MAX {
        return Err(Failure::text("ERR the script is longer than 64 KiB"));
    }
    Ok(())
}

/// KEYS and ARGV.
type Lists<'a> = (&'a [&'a [u8]], &'a [&'a [u8]]);

fn lists<'a>(args: &'a [&'a [u8]]) -> Result<Lists<'a>, Failure> {
    let keys = number::parse_integer(args[2]).ok_or(Failure::NotInteger)?;
    let Ok(keys) = usize::try_from(keys) else {
        return Err(Failure::text("ERR Number of keys can't be negative"));
    };
    let bytes: usize = args[3..].iter().map(|arg| arg.len()).sum();
    if bytes > SCRIPT_ARGUMENT_BYTES_MAX {
        return Err(Failure::text(
            "ERR the arguments of a script or function are longer than 4 MiB",
        ));
    }
    args[3..].split_at_checked(keys).ok_or(Failure::text(
        "ERR Number of keys can't be greater than number of args",
    ))
}

fn run(call: &mut Call<'_>, script: &Arc<Script>, (keys, args): Lists<'_>) -> Outcome {
    let header = Header::read(&script.source).map_err(|text| Failure::Text(text.into()))?;
    let asks_to_read = matches!(call.command.verb, Verb::EvalRo | Verb::EvalshaRo);
    if asks_to_read && header.is_present && !header.no_writes {
        return Err(MAY_WRITE);
    }
    let run = Run {
        program: Program::Script {
            script,
            body: header.body,
            generation: call.context.state.scripts.generation(),
        },
        keys,
        args,
        time_ms_max: call.script_ms_left(),
    };
    let may_write = !asks_to_read && !header.no_writes;
    run_to_end(call, &run, may_write).map_err(|error| failure_of(error, script))?;
    DONE
}

/// Whether a command runs a script or function that may touch more than the keys of a section.
pub(super) fn may_touch_anything(command: &Command, args: &[&[u8]], state: &State) -> bool {
    match command.verb {
        Verb::Eval | Verb::EvalRo => AnyKeys::named_in(args[1]),
        Verb::Evalsha | Verb::EvalshaRo => {
            let script = state.scripts.find(args[1]);
            script.is_some_and(|script| script.any_keys.is_set())
        }
        Verb::Fcall | Verb::FcallRo => {
            let found = state.functions.find(args[1]);
            found.is_some_and(|found| found.library.any_keys.is_set())
        }
        _ => false,
    }
}

/// Runs a script or a function as one step on its keys. If it accesses other keys that another
/// section holds, before it has changed anything, it restarts while no other loop executes.
fn run_to_end(call: &mut Call<'_>, run: &Run<'_>, may_write: bool) -> Result<(), RunError> {
    let any_keys = match run.program {
        Program::Script { script, .. } => &script.any_keys,
        Program::Function { found, .. } => &found.library.any_keys,
    };
    let (cache, space) = (call.cache(), call.space());
    let result = if any_keys.is_set() || !cache.has_claims() {
        call.exclusively(ExclusiveReason::Script, |call| {
            run_once(call, run, may_write)
        })
    } else {
        let intent = if may_write {
            Intent::Write
        } else {
            Intent::Read
        };
        let mut wish = Wish::of(intent);
        wish.may_begin_anew = true;
        if !call.context.is_in_step() {
            let keys = run
                .keys
                .iter()
                .filter_map(|key| cache.key_in(space, key).ok());
            keys.for_each(|key| cache.want(&mut wish.shards, key));
        }
        let mut ran_ms = 0;
        let result = call.on_keys((&wish, Moment::Present), |call| {
            let watch = Stopwatch::start();
            let result = run_once(call, run, may_write);
            let section = call.context.section;
            if section.is_some_and(KeySection::was_refused) {
                any_keys.set();
            }
            let is_given_up = section.is_some_and(KeySection::is_given_up);
            if is_given_up {
                ran_ms = watch.us() / 1_000;
            }
            (!is_given_up).then_some(result)
        });
        result.unwrap_or_else(|| {
            // Both runs together have the time of one, so the loop is not blocked for longer.
            let rest = Run {
                time_ms_max: run.time_ms_max.saturating_sub(ran_ms).max(1),
                ..*run
            };
            call.exclusively(ExclusiveReason::UndeclaredKey, |call| {
                run_once(call, &rest, may_write)
            })
        })
    };
    tidy_up(call);
    result
}

/// Frees the memory that runs have left, if it is much, and returns it to the system.
fn tidy_up(call: &Call<'_>) {
    let freed = INTERPRETER.with_borrow_mut(Interpreter::tidy_up);
    if freed > 0 {
        call.context.state.budget.note_freed(freed);
    }
}

/// Runs one and writes its answer.
fn run_once(call: &mut Call<'_>, run: &Run<'_>, may_write: bool) -> Result<(), RunError> {
    let mut caller = Caller::new(call.session, call.context, may_write);
    let (context, verb) = (call.context, call.command.verb);
    let (output, proto) = (call.output.bytes(), call.session.proto);
    let start = output.len();
    let has_failed = Cell::new(false);
    let note = |text: &[u8], is_counted: bool| {
        has_failed.set(true);
        if !is_counted {
            context
                .state
                .records
                .errors
                .note(&String::from_utf8_lossy(text));
        }
    };
    let written = INTERPRETER.with_borrow_mut(|interpreter| {
        interpreter.run(run, &mut caller, |answer| {
            answer.write(&mut Reply::new(output, proto), &note)
        })
    });
    caller.end(call.session);
    if written.is_ok() && has_failed.get() {
        context.counters.times.note_failed(verb);
    }
    let too_long = || {
        let text = b"ERR the script's answer is too deep or too long";
        RunError::Failed(text.to_vec(), None)
    };
    let written = written.and_then(|written| written.ok_or_else(too_long));
    if written.is_err() {
        call.output.bytes().truncate(start);
    }
    written
}

/// The error a client gets for a script, as Redis says it.
fn failure_of(error: RunError, script: &Script) -> Failure {
    match error {
        RunError::Compile(text) => {
            Failure::Text(format!("ERR Error compiling script (new function): {text}").into())
        }
        error => placed(error, &script.name(), "@user_script"),
    }
}

/// The same of one that has begun to run, with its name and that of its text.
fn placed(error: RunError, name: &str, chunk: &str) -> Failure {
    let placed = |text: &[u8], line: Option<usize>| {
        let text = String::from_utf8_lossy(text);
        match line {
            Some(line) => format!("{text} script: {name}, on {chunk}:{line}."),
            None => format!("{text} script: {name}."),
        }
    };
    match error {
        RunError::Compile(text) => Failure::Text(placed(text.as_bytes(), None).into()),
        RunError::Failed(text, line) => Failure::Text(placed(&text, line).into()),
        RunError::Passed(text, line) => Failure::Passed(placed(&text, line)),
        RunError::Ended(ms) => {
            let text = format!("ERR the script ran longer than {ms} ms and was ended");
            Failure::Text(placed(text.as_bytes(), None).into())
        }
    }
}

/// The script with this source, cached for the user of the connection.
fn keep(call: &Call<'_>, source: &[u8], origin: Origin) -> Arc<Script> {
    let user = call.session.identity.last_user();
    let owner = user.map_or("", |user| &user.name);
    call.context.state.scripts.load(source, owner, origin)
}

pub(super) fn load(call: &mut Call<'_>) -> Outcome {
    let source = call.args[2];
    check_length(source)?;
    let header = Header::read(source).map_err(|text| Failure::Text(text.into()))?;
    let time_ms_max = call.script_ms_left();
    let checked =
        INTERPRETER.with_borrow_mut(|interpreter| interpreter.check(header.body, time_ms_max));
    tidy_up(call);
    let script = keep(call, source, Origin::Loaded);
    checked.map_err(|error| failure_of(error, &script))?;
    call.reply().bulk(script.digest);
    DONE
}

pub(super) fn exists(call: &mut Call<'_>) -> Outcome {
    let digests = &call.args[2..];
    let scripts = &call.context.state.scripts;
    let mut reply = call.reply();
    reply.array(digests.len());
    for digest in digests {
        reply.integer(scripts.has(digest).into());
    }
    DONE
}

/// SCRIPT SHOW: the source of a script.
pub(super) fn show(call: &mut Call<'_>) -> Outcome {
    let script = call.context.state.scripts.find(call.args[2]);
    let script = script.ok_or(Failure::text("NOSCRIPT No matching script."))?;
    call.reply().bulk(&script.source);
    DONE
}

pub(super) fn flush(call: &mut Call<'_>) -> Outcome {
    check_mode(call, "ERR SCRIPT FLUSH only support SYNC|ASYNC option")?;
    call.context.state.scripts.flush();
    call.ok()
}

/// Checks the one option that a flush may have; all flushes are done at once.
fn check_mode(call: &Call<'_>, text: &'static str) -> Result<(), Failure> {
    let is_mode =
        |word: &[u8]| word.eq_ignore_ascii_case(b"SYNC") || word.eq_ignore_ascii_case(b"ASYNC");
    match call.args[2..] {
        [] => Ok(()),
        [mode] if is_mode(mode) => Ok(()),
        _ => Err(Failure::text(text)),
    }
}

/// A script blocks all clients while it runs, so none can kill it; its time is limited.
pub(super) fn kill(_: &mut Call<'_>) -> Outcome {
    Err(Failure::text("NOTBUSY No scripts in execution right now."))
}

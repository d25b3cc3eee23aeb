//! Long commands: commands with very many arguments, executed in chunks.
//!
//! Such a command is kept in the iteration that read it, and then executed as several commands of
//! its kind, [`STEP_ITEMS`] arguments at a time, in as many iterations of the event loop. Their
//! replies are combined into one. Other clients are served between two chunks, and see what is done
//! by then. A command that must be atomic, or whose arguments are no list, has at most
//! [`COMMAND_ARGS_MAX`] arguments.
//!
//! Why: docs/decisions/0026. Tests: server/tests/complexity.rs, server/tests/resp_parts.rs.

use cellar_config::limits::{COMMAND_ARGS_MAX, PSUBSCRIBE_ARGS_MAX, SCRIPT_ARGS_MAX};
use cellar_net::output::Output;
use cellar_protocol::resp::number::parse_integer;
use cellar_protocol::resp::{Command, Reply, Verb};

use crate::context::{Context, Flow, Unfinished};
use crate::resp::arguments::Arguments;
use crate::resp::call::steps::{STEP_ITEMS, TRACKED_STEP_ITEMS};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::session::{ReplyMode, Session};
use crate::resp::{append_failure, call_handler};

/// A command with so few arguments changes one key, and is one step however many clients track it.
const FEW_ARGS: usize = 2;

/// Invalidations that one step may cause, one per client and key: 0.1 to 0.4 microseconds each.
const TOLD_MAX: usize = 1 << 14;

/// Bytes of arguments that are copied in the iteration that read them.
const COPIED_BYTES_MAX: usize = 8 << 20;

/// How the replies of the chunks are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    /// Integers: their sum.
    Sum,
    /// Integers: one if any is, else zero.
    Any,
    /// Integers: the last one.
    Last,
    /// OK.
    Ok,
    /// Arrays: all their elements. A chunk that fails answers null for each.
    Array,
}

/// The position of the list of arguments.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// Arguments before the list.
    head: usize,
    /// Arguments that belong together.
    group: usize,
    /// Arguments of a chunk.
    most: usize,
    join: Join,
}

const fn rule(head: usize, group: usize, join: Join) -> Option<Rule> {
    Some(Rule {
        head,
        group,
        most: STEP_ITEMS / group * group,
        join,
    })
}

/// The rule for a command that is atomic, unless it has very many keys.
const fn one_step_rule(group: usize, join: Join) -> Option<Rule> {
    Some(Rule {
        head: 1,
        group,
        most: COMMAND_ARGS_MAX,
        join,
    })
}

/// The rule for a command's list; none if it is not executed in chunks.
fn rule_of(verb: Verb) -> Option<Rule> {
    match verb {
        Verb::Exists | Verb::Touch => rule(1, 1, Join::Sum),
        Verb::Del | Verb::Unlink => one_step_rule(1, Join::Sum),
        Verb::Sadd | Verb::Srem | Verb::Hdel | Verb::Zrem => rule(2, 1, Join::Sum),
        Verb::Lpush | Verb::Rpush | Verb::Lpushx | Verb::Rpushx => rule(2, 1, Join::Last),
        Verb::Pfadd => rule(2, 1, Join::Any),
        Verb::Hset => rule(2, 2, Join::Sum),
        Verb::Hmset => rule(2, 2, Join::Ok),
        Verb::Mset => one_step_rule(2, Join::Ok),
        Verb::Smismember | Verb::Hmget | Verb::Zmscore | Verb::Geopos | Verb::Geohash => {
            rule(2, 1, Join::Array)
        }
        Verb::ScriptExists | Verb::CommandInfo => rule(2, 1, Join::Array),
        _ => None,
    }
}

/// The first argument of ZADD's pairs: behind its options.
fn pairs_of_zadd(args: &[&[u8]]) -> Option<usize> {
    let is_option = |arg: &&[u8]| {
        [&b"nx"[..], b"xx", b"gt", b"lt", b"ch"]
            .iter()
            .any(|option| arg.eq_ignore_ascii_case(option))
    };
    let options = args[2..].iter().take_while(|&arg| is_option(arg)).count();
    let is_increment = args
        .get(2 + options)
        .is_some_and(|arg| arg.eq_ignore_ascii_case(b"incr"));
    (!is_increment).then_some(2 + options)
}

/// How many options GEOADD has.
pub(in crate::resp) fn options_of_geoadd(args: &[&[u8]]) -> usize {
    let is_option = |arg: &&&[u8]| {
        let options: [&[u8]; 3] = [b"NX", b"XX", b"CH"];
        options
            .iter()
            .any(|option| arg.eq_ignore_ascii_case(option))
    };
    args.iter().take_while(is_option).count()
}

/// Whether a command takes any number of arguments, because it has steps of its own.
fn paces_itself(verb: Verb) -> bool {
    verb == Verb::Mget
}

/// Most arguments of a command that is one step.
fn args_max(verb: Verb) -> usize {
    match verb {
        Verb::Psubscribe => PSUBSCRIBE_ARGS_MAX,
        Verb::Eval | Verb::EvalRo | Verb::Evalsha | Verb::EvalshaRo => SCRIPT_ARGS_MAX,
        Verb::Fcall | Verb::FcallRo => SCRIPT_ARGS_MAX,
        _ => COMMAND_ARGS_MAX,
    }
}

fn rule_for(command: &Command, args: &[&[u8]]) -> Option<Rule> {
    if command.verb == Verb::Zadd {
        return pairs_of_zadd(args).and_then(|head| rule(head, 2, Join::Sum));
    }
    if command.verb == Verb::Geoadd {
        let head = 2 + options_of_geoadd(&args[2..]);
        return rule(head, 3, Join::Sum);
    }
    rule_of(command.verb)
}

/// A command that is executed in chunks.
#[derive(Debug)]
struct ChunkedCommand {
    command: &'static Command,
    args: Arguments,
    rule: Rule,
    /// The first argument that is not executed yet.
    next: usize,
    /// The end of the next chunk; equal to its start if not determined yet. It stays the same
    /// during the chunk's preparation, even if other clients start to track its keys.
    end: usize,
    sum: i64,
    /// The client's session, as far as such commands need it.
    session: Session,
    is_silent: bool,
}

/// Whether a command has more arguments than one iteration takes, or causes more invalidations.
#[inline]
pub(in crate::resp) fn is_long(call: &Call<'_>) -> bool {
    let count = call.args.len();
    let may_tell = count > FEW_ARGS && !call.session.answers_whole;
    count > STEP_ITEMS || may_tell && has_much_to_tell(call)
}

/// Whether one step would cause too many invalidations.
fn has_much_to_tell(call: &Call<'_>) -> bool {
    changes_keys(call.command.verb)
        && rule_of(call.command.verb)
            .is_some_and(|rule| rule.within(call.args, call.context) < call.args.len() - rule.head)
}

/// Whether the list is one of keys that it changes.
fn changes_keys(verb: Verb) -> bool {
    matches!(verb, Verb::Mset | Verb::Del | Verb::Unlink)
}

impl Rule {
    /// How many arguments of the list cause at most [`TOLD_MAX`] invalidations.
    fn within(&self, args: &[&[u8]], context: Context<'_>) -> usize {
        let keys = args[self.head..].iter().step_by(self.group).copied();
        let tracking = &context.state.observer.tracking;
        self.group * tracking.keys_told_within(keys, TOLD_MAX)
    }
}

/// Runs a command with very many arguments: in chunks, or at once if that is allowed.
///
/// # Errors
/// The error of its handler if it is not in chunks; that it has too many arguments.
pub(in crate::resp) fn run_long(call: &mut Call<'_>) -> Outcome {
    call.context.pass.note_heavy();
    let count = call.args.len();
    if call.session.answers_whole || paces_itself(call.command.verb) {
        return call_handler(call);
    }
    let rule = rule_for(call.command, call.args);
    let rule = rule.filter(|rule| (count - rule.head).is_multiple_of(rule.group));
    let rule = rule.filter(|rule| count > rule.most || has_much_to_tell(call));
    let Some(rule) = rule else {
        if count > args_max(call.command.verb) {
            return Err(Failure::text("ERR too many arguments for one command"));
        }
        return call_handler(call);
    };
    let args = kept_args(call)?;
    let session = call.session.for_steps(call.context.state);
    // Decoding and copying very many arguments is enough for one iteration.
    Ok(Flow::Unfinished(Box::new(ChunkedCommand {
        command: call.command,
        args,
        rule,
        next: rule.head,
        end: rule.head,
        sum: 0,
        session,
        is_silent: call.session.reply_mode != ReplyMode::On,
    })))
}

/// A copy of the arguments; very long ones are copied over several iterations.
///
/// # Errors
/// [`Failure::NoRoomYet`] if the command has to run again.
fn kept_args(call: &Call<'_>) -> Result<Arguments, Failure> {
    let preparation = &call.session.preparation;
    if let Some(args) = preparation.take_arguments() {
        return Ok(args);
    }
    let bytes: usize = call.args.iter().map(|arg| arg.len()).sum();
    if bytes > COPIED_BYTES_MAX && call.session.may_ask_ahead() {
        preparation.ask_arguments(0..call.args.len());
        return Err(Failure::NoRoomYet);
    }
    Ok(Arguments::of(call.args))
}

impl ChunkedCommand {
    /// Where the chunk ends that is next.
    fn end_of_part(&self, context: Context<'_>) -> usize {
        let Rule {
            head, group, most, ..
        } = self.rule;
        let most = if self.session.tracked.is_on {
            most.min(TRACKED_STEP_ITEMS)
        } else {
            most
        };
        let end = (self.next + most).min(self.args.len());
        if !changes_keys(self.command.verb) {
            return end;
        }
        let places = (0..head).chain(self.next..end);
        let args: Vec<&[u8]> = places.map(|place| self.args.get(place)).collect();
        end.min(self.next + self.rule.within(&args, context).max(group))
    }

    /// Executes the next chunk, or a step of its preparation.
    ///
    /// # Errors
    /// The error of the first chunk; for a sum, of any chunk.
    fn work_off(&mut self, context: Context<'_>, output: &mut Output) -> Result<(), Failure> {
        let Rule { head, join, .. } = self.rule;
        if self.end == self.next {
            self.end = self.end_of_part(context);
        }
        let (first, end) = (self.next, self.end);
        let places = (0..head).chain(first..end);
        let args: Vec<&[u8]> = places.map(|place| self.args.get(place)).collect();
        let start = output.bytes().len();
        if self.session.preparation.is_under_way()
            && self.session.preparation.step(&args, context.cache())
        {
            return Ok(());
        }
        let outcome = call_handler(&mut Call {
            command: self.command,
            args: &args,
            key: None,
            session: &mut self.session,
            context,
            output,
        });
        if matches!(outcome, Err(Failure::NoRoomYet)) {
            output.truncate(start);
            return Ok(());
        }
        self.session.preparation.end();
        self.next = end;
        let proto = self.session.proto;
        match join {
            Join::Sum | Join::Any | Join::Last => {
                outcome?;
                let answer = number_of(&output.bytes().split_off(start));
                self.sum = match join {
                    Join::Sum => self.sum + answer,
                    Join::Any => self.sum.max(answer),
                    _ => answer,
                };
            }
            Join::Ok => {
                outcome?;
                output.truncate(start);
            }
            Join::Array => {
                let is_first = first == head;
                match outcome {
                    Err(failure) if is_first => return Err(failure),
                    Err(_) => {
                        output.truncate(start);
                        let mut reply = Reply::new(output.bytes(), proto);
                        (first..end).for_each(|_| reply.null());
                    }
                    Ok(_) => drop_head(output.bytes(), start),
                }
                if is_first {
                    let elements = self.args.len() - head;
                    Reply::new(output.bytes(), proto).array_around(start, elements);
                }
            }
        }
        Ok(())
    }

    /// Executes one chunk, and answers after the last.
    fn next_part(mut self: Box<Self>, context: Context<'_>, output: &mut Output) -> Outcome {
        self.work_off(context, output)?;
        if self.next < self.args.len() {
            return Ok(Flow::Unfinished(self));
        }
        let mut reply = Reply::new(output.bytes(), self.session.proto);
        match self.rule.join {
            Join::Sum | Join::Any | Join::Last => reply.integer(self.sum),
            Join::Ok => reply.ok(),
            Join::Array => {}
        }
        DONE
    }
}

impl Unfinished for ChunkedCommand {
    fn resume(self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        let (start, proto, is_silent) = (output.bytes().len(), self.session.proto, self.is_silent);
        let flow = match self.next_part(context, output) {
            Ok(flow) => flow,
            Err(failure) => {
                append_failure(&failure, proto, context, output);
                Flow::Continue
            }
        };
        if is_silent {
            output.truncate(start);
        }
        flow
    }

    fn has_begun(&self) -> bool {
        self.rule.join == Join::Array
    }

    fn waiting_bytes(&self) -> usize {
        self.args.bytes() + self.session.preparation.held().beside
    }
}

/// The number of an integer's answer.
fn number_of(answer: &[u8]) -> i64 {
    let digits = answer
        .strip_prefix(b":")
        .and_then(|rest| rest.strip_suffix(b"\r\n"));
    digits.and_then(parse_integer).unwrap_or(0)
}

/// Removes the line at `start` with an array's length.
fn drop_head(out: &mut Vec<u8>, start: usize) {
    let line = memchr::memchr(b'\n', &out[start..]).map_or(0, |end| end + 1);
    out.drain(start..start + line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pairs_of_zadd_begin_behind_its_options() {
        for (words, expected) in [
            ("zadd k 1 a", Some(2)),
            ("zadd k NX ch 1 a", Some(4)),
            ("zadd k xx INCR 1 a", None),
            ("zadd k", Some(2)),
        ] {
            let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            assert_eq!(pairs_of_zadd(&args), expected, "{words}");
        }
    }
}

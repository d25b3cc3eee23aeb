//! Script calls: the commands that a script runs, on behalf of its client.
//!
//! They have a session of their own: the client's database, replies in the version the script
//! chose, no transaction. SELECT inside a script has no effect after it.

use std::borrow::Cow;

use cellar_net::output::Output;
use cellar_protocol::resp::command::{Flags, find, of};
use cellar_protocol::resp::{Command, Proto, Reply};
use cellar_script::{Host, SCRIPT_REPLY_BYTES_MAX};

use crate::context::{Context, Flow};
use crate::resp::failure::{REPEATED_BYTES_MAX, repeated};
use crate::resp::run;
use crate::resp::session::Session;
use crate::section::KeySection;

/// Memory for replies that most commands do not exceed.
const SHORT_REPLY_BYTES: usize = 128;

/// Runs commands for a script.
pub(in crate::resp) struct Caller<'c> {
    session: Session,
    context: Context<'c>,
    may_write: bool,
    output: Output,
}

impl<'c> Caller<'c> {
    /// A caller on behalf of this session, to be ended by [`Caller::end`].
    pub(in crate::resp) fn new(
        of: &mut Session,
        context: Context<'c>,
        may_write: bool,
    ) -> Caller<'c> {
        let mut output = Output::default();
        // Without it the first reply would grow in several steps.
        output.bytes().reserve(SHORT_REPLY_BYTES);
        Caller {
            session: of.for_script(context.state),
            context,
            may_write,
            output,
        }
    }

    /// Ends the script's session.
    pub(in crate::resp) fn end(self, of: &mut Session) {
        // The script's SELECT has shown in listings.
        of.select(of.database);
    }

    /// The row of a command that the script may run.
    fn admit(&self, args: &[&[u8]]) -> Result<&'static Command, Cow<'static, str>> {
        const ARITY: &str = "ERR Wrong number of args calling Redis command from script";
        let mut command = find(args[0]).ok_or_else(|| unknown(&args[..1]))?;
        if !command.subcommands.is_empty() {
            let name = args.get(1).ok_or(ARITY)?;
            let sub = command.subcommand(name);
            command = sub.ok_or_else(|| unknown(&args[..2]))?;
        }
        if !command.takes(args.len()) {
            return Err(ARITY.into());
        }
        if command.flags.has(Flags::NOSCRIPT) {
            return Err("ERR This Redis command is not allowed from script".into());
        }
        let writes = [Flags::WRITE, Flags::MAY_REPLICATE];
        if !self.may_write && writes.iter().any(|&flag| command.flags.has(flag)) {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        Ok(command)
    }

    /// Runs a command to its end, or until the script's time limit; the error is the failure's
    /// text.
    fn execute(
        &mut self,
        args: &[&[u8]],
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), Cow<'static, str>> {
        let command = self.admit(args).inspect_err(|_| {
            if let Some(command) = of(args) {
                self.context.counters.times.note_rejected(command.verb);
            }
        })?;
        let (session, output) = (&mut self.session, &mut self.output);
        let mut flow = run(command, args, None, session, self.context, output);
        while let Flow::Unfinished(rest) = flow {
            if output.waiting_bytes() + output.pinned_bytes() > SCRIPT_REPLY_BYTES_MAX {
                break;
            }
            if is_over() {
                return Err("ERR the script was ended".into());
            }
            flow = rest.resume(self.context, output);
        }
        if output.waiting_bytes() + output.pinned_bytes() > SCRIPT_REPLY_BYTES_MAX {
            return Err("ERR the command's reply is too long for a script".into());
        }
        Ok(())
    }
}

/// The error for an unknown command, with its name, which Redis leaves out: a user who migrates to
/// a server without a command has to know which.
#[cold]
fn unknown(words: &[&[u8]]) -> Cow<'static, str> {
    let words: Vec<String> = words
        .iter()
        .map(|word| repeated(word, REPEATED_BYTES_MAX))
        .collect();
    let name = words.join("|");
    format!("ERR Unknown Redis command called from script: '{name}'").into()
}

impl Host for Caller<'_> {
    fn is_given_up(&self) -> bool {
        self.context.section.is_some_and(KeySection::is_given_up)
    }

    fn may_run(&self, args: &[&[u8]]) -> Result<bool, &'static str> {
        const UNKNOWN: &str = "ERR Invalid command passed to redis.acl_check_cmd()";
        let command = of(args).ok_or(UNKNOWN)?;
        Ok(self.session.may_run(command, args))
    }

    fn call(
        &mut self,
        args: &[&[u8]],
        proto: Proto,
        is_over: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]),
    ) {
        self.session.proto = proto;
        if self.is_given_up() {
            return;
        }
        if let Err(text) = self.execute(args, is_over) {
            self.context.state.records.errors.note(&text);
            self.output = Output::default();
            Reply::new(self.output.bytes(), proto).error(&*text);
        }
        if self.output.pinned_bytes() > 0 {
            take(&self.output.take());
        } else {
            take(self.output.bytes());
            self.output.bytes().clear();
        }
    }
}

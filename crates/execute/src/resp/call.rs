//! Call: one command on its way through its handler.

pub(super) mod notify;
mod preparation; // stores that wait for memory first
pub(super) mod steps; // commands that work in steps
pub(super) mod long_command; // commands with very many arguments
pub(super) mod timing; // how long commands take
pub(super) mod help;

use cellar_config::limits::REPLY_BYTES_MAX;
use cellar_engine::{Cache, Deadline, Instant, Intent, Key, Space};
use cellar_net::output::Output;
use cellar_protocol::resp::command::Flags;
use cellar_protocol::resp::{Command, Reply};
use cellar_shared::clients::exclusive_lock::ExclusiveReason;
use cellar_shared::clients::tracking::as_one_step;

use super::PROTOCOL;
use super::failure::Failure;
use super::session::Session;
use crate::context::{Context, Flow, Moment};
use crate::section::{Reach, Wish, keys_of};

/// The result of a handler: its reply is written, or the failure is the reply.
pub(super) type Outcome = Result<Flow, Failure>;

/// A handler has written its reply.
pub(super) const DONE: Outcome = Ok(Flow::Continue);

/// A command, its client, and the destination of its reply.
pub(super) struct Call<'c> {
    /// The command's row; for a container's sub-command, that one's.
    pub(super) command: &'static Command,
    /// All arguments, the command's name first, as many as the row's arity requires.
    pub(super) args: &'c [&'c [u8]],
    /// The first key, hashed.
    pub(super) key: Option<Key<'c>>,
    pub(super) session: &'c mut Session,
    pub(super) context: Context<'c>,
    pub(super) output: &'c mut Output,
}

impl<'c> Call<'c> {
    /// The cache.
    #[inline]
    pub(super) fn cache(&self) -> &'c Cache {
        self.context.cache()
    }

    /// The space of the session's database.
    #[inline]
    pub(super) fn space(&self) -> Space {
        self.session.space(self.context.state)
    }

    /// The present moment of the cache's clock.
    #[inline]
    pub(super) fn now(&self) -> Instant {
        self.cache().now()
    }

    /// Where the reply is written.
    #[inline]
    pub(super) fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.output.bytes(), self.session.proto)
    }

    /// The first key.
    ///
    /// # Errors
    /// [`Failure::KeyTooLong`].
    #[inline]
    pub(super) fn first_key(&self) -> Result<Key<'c>, Failure> {
        match self.key {
            Some(key) => Ok(key),
            None => self.key_at(1),
        }
    }

    /// The key that is argument `index`.
    ///
    /// # Errors
    /// [`Failure::KeyTooLong`].
    pub(super) fn key_at(&self, index: usize) -> Result<Key<'c>, Failure> {
        Ok(self.cache().key_in(self.space(), self.args[index])?)
    }

    /// Runs `run` while no other event loop executes and the clock stands still.
    pub(super) fn exclusively<R>(
        &mut self,
        reason: ExclusiveReason,
        run: impl FnOnce(&mut Call<'_>) -> R,
    ) -> R {
        let context = self.context;
        context.exclusively(reason, || as_one_step(|| run(self)))
    }

    /// Runs `run`, which accesses what the command's arguments name, atomically: other clients see
    /// all of it or nothing.
    pub(super) fn as_step<R>(&mut self, run: impl FnOnce(&mut Call<'_>) -> R) -> R {
        let (cache, space) = (self.cache(), self.space());
        let mut wish = Wish::of(self.intent());
        match Reach::of(self.command, self.args) {
            // Nothing is claimed then.
            _ if self.context.is_in_step() => {}
            Reach::Keys if cache.has_claims() => {
                let keys = keys_of(self.command, self.args, space, cache);
                keys.for_each(|key| cache.want(&mut wish.shards, key));
            }
            _ => return self.exclusively(ExclusiveReason::Command, run),
        }
        self.on_keys((&wish, Moment::Iteration), run)
    }

    /// The same of these keys.
    pub(super) fn as_step_on<R>(
        &mut self,
        keys: &[Key<'_>],
        run: impl FnOnce(&mut Call<'_>) -> R,
    ) -> R {
        let cache = self.cache();
        if !self.context.is_in_step() && !cache.has_claims() {
            return self.exclusively(ExclusiveReason::Command, run);
        }
        let mut wish = Wish::of(self.intent());
        keys.iter()
            .for_each(|&key| cache.want(&mut wish.shards, key));
        self.on_keys((&wish, Moment::Iteration), run)
    }

    /// The same of the keys of a wish.
    pub(super) fn on_keys<R>(
        &mut self,
        at: (&Wish, Moment),
        run: impl FnOnce(&mut Call<'_>) -> R,
    ) -> R {
        self.context.on_keys(at, |context| {
            let mut call = Call {
                command: self.command,
                args: self.args,
                key: self.key,
                session: self.session,
                context,
                output: self.output,
            };
            as_one_step(|| run(&mut call))
        })
    }

    /// How the command uses its keys.
    fn intent(&self) -> Intent {
        match self.command.flags.has(Flags::WRITE) {
            true => Intent::Write,
            false => Intent::Read,
        }
    }

    /// Time left for a script that starts now, in milliseconds. All commands of a transaction
    /// together have as long as a single script.
    pub(super) fn script_ms_left(&self) -> u64 {
        let begun = self.session.in_exec;
        let passed_ms = begun.map_or(0, |watch| watch.us() / 1_000);
        let most_ms = self.context.state.settings.script_time_ms;
        most_ms.saturating_sub(passed_ms)
    }

    /// The Unix time of an engine's moment, in milliseconds.
    pub(super) fn unix_ms(&self, at: Instant) -> u64 {
        self.context.state.wall.unix_ms(at)
    }

    /// The deadline of a key that is stored without a time to live.
    #[inline]
    pub(super) fn default_deadline(&self) -> Deadline {
        self.context
            .default_deadline(PROTOCOL, self.session.database)
    }

    /// Milliseconds until a deadline; `None` for never.
    pub(super) fn left_ms(&self, deadline: Deadline) -> Option<u64> {
        deadline.remaining_ms(self.now())
    }

    /// Answers OK.
    #[inline]
    pub(super) fn ok(&mut self) -> Outcome {
        self.reply().ok();
        DONE
    }

    /// Answers an integer.
    #[inline]
    pub(super) fn integer(&mut self, number: i64) -> Outcome {
        self.reply().integer(number);
        DONE
    }

    /// Whether a reply that began when the output had `start` bytes may become longer.
    ///
    /// # Errors
    /// A text, from 32 MiB on.
    pub(super) fn check_reply(&mut self, start: usize) -> Result<(), Failure> {
        check_length(self.output.bytes().len() - start)
    }
}

/// Whether a reply may have so many bytes.
///
/// # Errors
/// As [`Call::check_reply`].
pub(super) fn check_length(bytes: usize) -> Result<(), Failure> {
    if bytes > REPLY_BYTES_MAX {
        return Err(Failure::text("ERR the reply would be longer than 32 MiB"));
    }
    Ok(())
}

//! Steps: a command splits its work and its reply into pieces and does one in each iteration of
//! the event loop. Short commands finish in the first iteration.
//!
//! A step is a closure that does a piece and says whether that was the last. A client that runs a
//! transaction or a script has its answer at once: there all steps are done one after the other.
//!
//! Invariant: a step appends about [`STEP_BYTES`] at most, or works on about [`STEP_ITEMS`].
//! Why: docs/decisions/0026. Tests: tests/complexity.rs.

use std::fmt;

use crate::clock::Stopwatch;
use crate::execute::context::{Context, Flow, Unfinished};
use crate::execute::resp::call::{Call, DONE, Outcome, check_length};
use crate::execute::resp::failure::Failure;
use crate::execute::resp::session::ReplyMode;
use crate::output::Output;

/// Bytes of an answer that one step appends.
pub(in crate::execute::resp) const STEP_BYTES: usize = 64 << 10;
/// Keys or members that one step works on.
pub(in crate::execute::resp) const STEP_ITEMS: usize = 4_096;
/// The same of keys that are to be remembered, too, for CLIENT TRACKING: to enter one takes longer
/// than to read it, above all if another is dropped for it.
pub(in crate::execute::resp) const TRACKED_STEP_ITEMS: usize = 512;

/// How long a command runs steps in its first event-loop iteration, in microseconds. Most commands
/// finish in that time; to yield would cost more than their remaining steps.
pub(in crate::execute::resp) const FIRST_TURN_US: u64 = 50;

/// What an argument that is kept takes beside its bytes.
const ARG_BYTES: usize = 32;

/// Whether more is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::execute::resp) enum Progress {
    More,
    Last,
}

/// Work that is done in steps.
pub(in crate::execute::resp) trait Work: Send + 'static {
    /// Does the next step.
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress;

    /// Bytes that it has gathered.
    fn held_bytes(&self) -> usize {
        0
    }
}

impl<F: FnMut(Context<'_>, &mut Output) -> Progress + Send + 'static> Work for F {
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        self(context, output)
    }
}

/// The steps that are left.
struct Steps<W> {
    work: W,
    /// Bytes that the request may have left with it.
    args_bytes: usize,
    /// Whether the client wants no reply.
    is_silent: bool,
}

impl<W> fmt::Debug for Steps<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Steps").finish_non_exhaustive()
    }
}

impl<W: Work> Unfinished for Steps<W> {
    fn resume(mut self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        let start = output.bytes().len();
        let step = self.work.step(context, output);
        if self.is_silent {
            output.truncate(start);
        }
        match step {
            Progress::More => Flow::Unfinished(self),
            Progress::Last => Flow::Continue,
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.args_bytes + self.work.held_bytes()
    }
}

impl Call<'_> {
    /// Runs the first steps now, and the others in the connection's next event-loop iterations.
    ///
    /// # Errors
    /// If the answer has to be given at once and is too long for it.
    pub(in crate::execute::resp) fn in_steps(
        &mut self,
        step: impl FnMut(Context<'_>, &mut Output) -> Progress + Send + 'static,
    ) -> Outcome {
        self.work_in_steps(step)
    }

    /// The same of work that gathers something.
    ///
    /// # Errors
    /// As [`Call::in_steps`].
    pub(in crate::execute::resp) fn work_in_steps(&mut self, mut work: impl Work) -> Outcome {
        self.context.pass.note_heavy();
        let start = self.output.bytes().len();
        let stopwatch = Stopwatch::start();
        loop {
            if work.step(self.context, self.output) == Progress::Last {
                return DONE;
            }
            if !self.session.answers_whole {
                let is_short = self.output.bytes().len().saturating_sub(start) < STEP_BYTES;
                if is_short && stopwatch.us() < FIRST_TURN_US {
                    continue;
                }
                let args = self.args.iter();
                let args_bytes = args.map(|arg| arg.len() + ARG_BYTES).sum();
                let is_silent = self.session.reply_mode != ReplyMode::On;
                return Ok(Flow::Unfinished(Box::new(Steps {
                    work,
                    args_bytes,
                    is_silent,
                })));
            }
            self.check_reply(start)?;
            check_length(work.held_bytes())?;
            if self.script_ms_left() == 0 {
                return Err(Failure::text("ERR the transaction took too long"));
            }
        }
    }
}

//! Steps: a command splits its work and its reply into pieces and does one in each iteration of
//! the event loop. Short commands finish in the first iteration.
//!
//! A step is a closure that does a piece and returns whether it was the last. In a transaction or a
//! script the reply is due at once: there all steps run one after the other.
//!
//! A command whose steps gather more than half of `--client-memory` before its reply begins is
//! refused.
//!
//! Invariant: a step appends about [`STEP_BYTES`] at most, or processes about [`STEP_ITEMS`]. A
//! command changes data in its last step, or before it gathers anything.
//! Why: docs/decisions/0026. Tests: server/tests/complexity.rs, server/tests/gathering.rs.

use std::fmt;

use cellar_engine::HeldMark;
use cellar_net::output::Output;
use cellar_protocol::resp::Proto;
use cellar_system::clock::Stopwatch;

use crate::context::{Context, Flow, Unfinished};
use crate::resp::append_failure;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::session::ReplyMode;

/// Bytes of an answer that one step appends.
pub(in crate::resp) const STEP_BYTES: usize = 64 << 10;
/// Keys or members that one step works on.
pub(in crate::resp) const STEP_ITEMS: usize = 4_096;
/// The same for keys that are also registered for CLIENT TRACKING: that takes longer than to read
/// them, above all if another key is dropped from the table.
pub(in crate::resp) const TRACKED_STEP_ITEMS: usize = 512;

/// How long a command runs steps in its first event-loop iteration, in microseconds. Most commands
/// finish in that time; to yield would cost more than their remaining steps.
pub(in crate::resp) const FIRST_TURN_US: u64 = 50;

/// Memory of a kept argument beside its bytes.
const ARG_BYTES: usize = 32;

/// Whether more is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Progress {
    More,
    Last,
}

/// Work that is done in steps.
pub(in crate::resp) trait Work: Send + 'static {
    /// Does the next step.
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress;
}

impl<F: FnMut(Context<'_>, &mut Output) -> Progress + Send + 'static> Work for F {
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        self(context, output)
    }
}

/// The steps that are left.
struct Steps<W> {
    work: W,
    /// Bytes of the heap that its steps have allocated, apart from the reply, and not freed.
    gathered_bytes: isize,
    /// Whether a part of the reply is written.
    has_replied: bool,
    /// Bytes that the request may have left with it.
    args_bytes: usize,
    proto: Proto,
    /// Whether the client wants no reply.
    is_silent: bool,
}

impl<W> fmt::Debug for Steps<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Steps").finish_non_exhaustive()
    }
}

impl<W: Work> Steps<W> {
    /// Does the next step.
    ///
    /// # Errors
    /// If more is gathered than one client may have, and no part of the reply is written.
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Result<Progress, Failure> {
        let (held, allocated) = (HeldMark::now(), output.allocated().bytes());
        let length = output.bytes().len();
        let step = self.work.step(context, output);
        self.has_replied |= output.bytes().len() > length;
        let reply = output.allocated().bytes().cast_signed() - allocated.cast_signed();
        self.gathered_bytes += held.growth() - reply;
        let most = context.state.budget.bytes_max() / 2;
        if step == Progress::More && !self.has_replied && self.gathered() > most {
            return Err(Failure::text(
                "ERR the result is larger than half of the memory for clients (client-memory)",
            ));
        }
        Ok(step)
    }

    fn gathered(&self) -> usize {
        usize::try_from(self.gathered_bytes).unwrap_or(0)
    }
}

impl<W: Work> Unfinished for Steps<W> {
    fn resume(mut self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        let start = output.bytes().len();
        let step = self.step(context, output);
        if let Err(failure) = &step {
            append_failure(failure, self.proto, context, output);
        }
        if self.is_silent {
            output.truncate(start);
        }
        match step {
            Ok(Progress::More) => Flow::Unfinished(self),
            Ok(Progress::Last) | Err(_) => Flow::Continue,
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.args_bytes + self.gathered()
    }
}

impl Call<'_> {
    /// Runs the first steps now, and the others in the connection's next event-loop iterations.
    ///
    /// # Errors
    /// If it gathers more than a client may use, or if the reply is due at once and too long for
    /// that.
    pub(in crate::resp) fn in_steps(
        &mut self,
        step: impl FnMut(Context<'_>, &mut Output) -> Progress + Send + 'static,
    ) -> Outcome {
        self.work_in_steps(step)
    }

    /// The same of work that is a type of its own.
    ///
    /// # Errors
    /// As [`Call::in_steps`].
    pub(in crate::resp) fn work_in_steps(&mut self, work: impl Work) -> Outcome {
        self.context.pass.note_heavy();
        let start = self.output.bytes().len();
        let stopwatch = Stopwatch::start();
        let mut steps = Steps {
            work,
            gathered_bytes: 0,
            has_replied: false,
            args_bytes: 0,
            proto: self.session.proto,
            is_silent: self.session.reply_mode != ReplyMode::On,
        };
        loop {
            if steps.step(self.context, self.output)? == Progress::Last {
                return DONE;
            }
            if !self.session.answers_whole {
                let is_short = self.output.bytes().len().saturating_sub(start) < STEP_BYTES;
                if is_short && stopwatch.us() < FIRST_TURN_US {
                    continue;
                }
                let args = self.args.iter();
                steps.args_bytes = args.map(|arg| arg.len() + ARG_BYTES).sum();
                return Ok(Flow::Unfinished(Box::new(steps)));
            }
            self.check_reply(start)?;
            if self.script_ms_left() == 0 {
                return Err(Failure::text("ERR the transaction took too long"));
            }
        }
    }
}

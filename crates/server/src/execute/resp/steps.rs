//! Steps: answers and work of which a command does one piece in each turn of the event loop.
//!
//! A step is a closure that does a piece and says whether that was the last. A client that runs a
//! transaction or a script has its answer at once: there all steps are done one after the other.
//!
//! Invariant: a step appends about [`STEP_BYTES`] at most, or works on about [`STEP_ITEMS`].
//! Why: docs/decisions/0026. Tests: tests/complexity.rs.

use std::fmt;

use super::call::{Call, DONE, Outcome};
use super::session::ReplyMode;
use crate::execute::context::{Context, Flow, Unfinished};
use crate::output::Output;

/// Bytes of an answer that one step appends.
pub(super) const STEP_BYTES: usize = 64 << 10;
/// Keys or members that one step works on.
pub(super) const STEP_ITEMS: usize = 4_096;

/// Whether more is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    More,
    Last,
}

/// The steps that are left.
struct Steps<F> {
    step: F,
    /// Whether the client wants no reply.
    is_silent: bool,
}

impl<F> fmt::Debug for Steps<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Steps").finish_non_exhaustive()
    }
}

impl<F: FnMut(Context<'_>, &mut Output) -> Step + Send + 'static> Unfinished for Steps<F> {
    fn go_on(mut self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        let start = output.bytes().len();
        let step = (self.step)(context, output);
        if self.is_silent {
            output.truncate(start);
        }
        match step {
            Step::More => Flow::Unfinished(self),
            Step::Last => Flow::Continue,
        }
    }

    fn waiting_bytes(&self) -> usize {
        0
    }
}

impl Call<'_> {
    /// Does the first step now, and the others in the connection's next turns.
    pub(super) fn in_steps(
        &mut self,
        mut step: impl FnMut(Context<'_>, &mut Output) -> Step + Send + 'static,
    ) -> Outcome {
        self.context.pass.note_heavy();
        loop {
            if step(self.context, self.output) == Step::Last {
                return DONE;
            }
            if !self.session.answers_whole {
                let is_silent = self.session.reply_mode != ReplyMode::On;
                return Ok(Flow::Unfinished(Box::new(Steps { step, is_silent })));
            }
        }
    }
}

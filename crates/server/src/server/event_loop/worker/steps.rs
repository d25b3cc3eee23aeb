//! Steps: decodes the bytes of all spans into steps, and executes them.

use cellar_engine::{Cache, Instant};
use cellar_execute::{Codec, Context, DecodedTask, Flow, Found, Task};
use cellar_shared::state::State;

use super::batch::{STEPS_MAX, Span, Step};
use crate::server::event_loop::connection::{CommandStart, Connection, Ending, Input};

/// How far ahead of execution items are fetched.
const ITEM_AHEAD: usize = 10;

/// Decodes spans from index `next` on until the list of steps is full; returns where to resume.
#[inline]
pub(super) fn decode_spans<'a>(
    arena: &'a [u8],
    spans: &mut [Span],
    mut next: usize,
    state: &State,
    steps: &mut Vec<Step<'a>>,
) -> usize {
    while let Some(span) = spans.get_mut(next) {
        while !span.stopped {
            if steps.len() == STEPS_MAX {
                return next;
            }
            let decoded = steps.len();
            decode_next(arena, span, next, state, steps);
            match steps.last() {
                Some(step) if steps.len() > decoded => {
                    if step.hint.is_none() && step.task.ends_decoding() {
                        break;
                    }
                }
                _ => break,
            }
        }
        next += 1;
    }
    next
}

/// Where a span's next task goes.
struct NextStep<'v, 'a> {
    steps: &'v mut Vec<Step<'a>>,
    span: usize,
    /// Where its bytes begin in the arena.
    begin: usize,
    cache: &'v Cache,
}

impl<'a> Found<'a, Task<'a>> for NextStep<'_, 'a> {
    #[inline(always)]
    fn found(self, ahead: DecodedTask<'a, Task<'a>>) {
        let end = self.begin + ahead.used;
        self.steps.push(Step::of(ahead, self.span, end, self.cache));
    }
}

/// Appends the next task of a span, which has this index, if it is whole.
#[inline(always)]
fn decode_next<'a>(
    arena: &'a [u8],
    span: &mut Span,
    index: usize,
    state: &State,
    steps: &mut Vec<Step<'a>>,
) {
    let before = steps.len();
    while span.decoded < span.end {
        let begin = span.decoded;
        let next = NextStep {
            steps,
            span: index,
            begin,
            cache: &state.cache,
        };
        let used = span.codec.decode(&arena[begin..span.end], state, next);
        let Some(used) = used else {
            return;
        };
        let is_all_used = span.from == begin;
        span.decoded += used;
        if steps.len() > before {
            span.found = true;
            return;
        }
        // Blank lines with no pending step before them: they are skipped.
        if is_all_used {
            span.from = span.decoded;
        }
    }
}

/// Decodes the first step of a span that is processed alone.
fn only_step<'a>(arena: &'a [u8], span: &mut Span, state: &State) -> Option<Step<'a>> {
    let mut steps = Vec::with_capacity(1);
    decode_next(arena, span, 0, state, &mut steps);
    steps.pop()
}

/// Prefetches the items that later steps will access.
#[inline]
pub(super) fn fetch_ahead(cache: &Cache, steps: &mut [Step<'_>], index: usize) {
    if index == 0 {
        for step in steps.iter_mut().take(ITEM_AHEAD) {
            hint_item(cache, step);
        }
    }
    if let Some(step) = steps.get_mut(index + ITEM_AHEAD) {
        hint_item(cache, step);
    }
}

#[inline]
fn hint_item(cache: &Cache, step: &mut Step<'_>) {
    if let Some(hint) = step.hint {
        step.hinted = cache.hint_item(hint);
    }
}

/// Executes one step; its replies go to the connection's output.
///
/// Always inlined: it is the body of the loop over all steps, and has many arguments.
#[inline(always)]
pub(super) fn run(
    context: &Context<'_>,
    step: &Step<'_>,
    span: &mut Span,
    arena: &[u8],
    connection: &mut Connection,
    now_ms: u64,
) {
    let begin = std::mem::replace(&mut span.from, step.end);
    let start = connection.mark_start();
    let link = &mut connection.link;
    let flow = link.run(&step.task, step.hinted, context, &mut connection.output);
    if matches!(flow, Flow::Continue) {
        // Requests behind a task that ends decoding wait for the next iteration.
        let is_last = step.hint.is_none() && step.task.ends_decoding();
        span.stopped |= is_last || connection.output.is_full();
    } else {
        go_on(
            *context,
            (flow, begin, start),
            span,
            arena,
            connection,
            now_ms,
        );
    }
}

/// Continues as the result of an execution says if that is not with the next request. The request
/// began at `begin` of the arena, with the memory of `start`.
#[cold]
#[inline(never)]
fn go_on(
    context: Context<'_>,
    (flow, begin, start): (Flow, usize, CommandStart),
    span: &mut Span,
    arena: &[u8],
    connection: &mut Connection,
    now_ms: u64,
) {
    match flow {
        Flow::Feed => {
            connection.start_transfer(now_ms);
            // The requests behind it were not decoded: they wait for the next iteration.
            span.stopped = true;
            feed(context, span, arena, connection);
        }
        Flow::Skip(bytes) => {
            connection.start_transfer(now_ms);
            skip(bytes, span, connection);
        }
        Flow::Again => (span.from, span.stopped) = (begin, true),
        flow => {
            if matches!(flow, Flow::Wait(_)) {
                span.from = begin;
            }
            follow(context, flow, span, connection);
            connection.note_unfinished(&start);
        }
    }
}

/// Continues as the result of an execution says.
fn follow(context: Context<'_>, flow: Flow, span: &mut Span, connection: &mut Connection) {
    connection.losses = context.state().losses();
    let is_last = matches!(flow, Flow::Close);
    if connection.follow(flow) {
        span.stopped = true;
        if is_last {
            span.from = span.end;
        }
    }
}

/// Continues the current request with its bytes in the arena; returns whether it is whole, and was
/// executed.
pub(super) fn feed(
    context: Context<'_>,
    span: &mut Span,
    arena: &[u8],
    connection: &mut Connection,
) -> bool {
    let input = &arena[span.from..span.end];
    let (used, flow) = connection.link.feed(input, context, &mut connection.output);
    span.from += used;
    match flow {
        Some(flow) => follow(context, flow, span, connection),
        None => return false,
    }
    true
}

/// Drops a refused value.
fn skip(bytes: usize, span: &mut Span, connection: &mut Connection) {
    span.stopped = true;
    let dropped = bytes.min(span.end - span.from);
    span.from += dropped;
    if dropped < bytes {
        connection.input = Input::Skip(bytes - dropped);
    }
}

/// The result of trying to run a long command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// It is not whole.
    Incomplete,
    /// It was run.
    Whole,
    /// It waits for the end of a pause.
    Held,
}

/// Runs the command at the beginning of the leftover buffer, if it is whole; returns the used
/// bytes, which may be too many to free at once.
pub(super) fn run_frame(
    context: Context<'_>,
    codec: Codec,
    slot: u32,
    connection: &mut Connection,
    now_ms: u64,
) -> (Ran, Vec<u8>) {
    let mut frame = std::mem::take(&mut connection.leftover);
    let mut span = Span {
        slot,
        codec,
        protocol: codec.protocol(),
        from: 0,
        decoded: 0,
        end: frame.len(),
        found: false,
        stopped: false,
    };
    let paused = context.state().pause.in_force(Instant(now_ms));
    let ran = match only_step(&frame, &mut span, context.state()) {
        None => Ran::Incomplete,
        Some(step)
            if paused.is_some_and(|paused| {
                paused.holds(connection.link.effect(&step.task, context))
            }) =>
        {
            Ran::Held
        }
        Some(step) => {
            run(&context, &step, &mut span, &frame, connection, now_ms);
            Ran::Whole
        }
    };
    let goes_on = connection.ending == Ending::No || connection.ending == Ending::AfterRequests;
    let mut spent = Vec::new();
    match ran {
        Ran::Incomplete => {
            frame.drain(..span.from);
            connection.leftover = frame;
            connection.backlog = false;
        }
        Ran::Held => {
            connection.leftover = frame;
            connection.backlog = true;
        }
        // The request runs again.
        Ran::Whole if goes_on && span.from < span.decoded => {
            frame.drain(..span.from);
            connection.leftover = frame;
            connection.backlog = true;
        }
        Ran::Whole if goes_on => {
            connection.leftover = frame[span.from..].to_vec();
            connection.backlog = !connection.leftover.is_empty();
            if connection.input == Input::Frame {
                connection.input = Input::Requests;
            }
            spent = match &mut connection.unfinished {
                Some(rest) => {
                    let bytes = frame.len();
                    let left = rest.adopt(frame);
                    if left.is_none() {
                        connection.unfinished_bytes += bytes;
                    }
                    left.unwrap_or_default()
                }
                None => frame,
            };
        }
        Ran::Whole => spent = frame,
    }
    let is_incomplete = ran == Ran::Incomplete;
    connection.note_waiting(!is_incomplete, is_incomplete, now_ms);
    connection.link.settle(&span.codec, is_incomplete, now_ms);
    (ran, spent)
}

//! Serve: the phases of a turn over all ready connections.
//!
//! ```text
//! receive   each connection: what is left over, then one read        -> a span of the arena
//! decode    spans in order                                            -> up to STEPS_MAX steps
//! execute   steps in order, memory fetched ahead                      -> outputs
//! settle    each span: keep what is not used, write, line up again
//! ```
//!
//! A large value goes past the arena: its first bytes come with its command line, the rest is
//! received in the cache's memory.

use cellar_engine::Cache;
use cellar_protocol::memcached::{self, Decoded};

use super::Worker;
use super::batch::{Batch, LIMITS, READ_BYTES_MAX, STEPS_MAX, Span, Step, Task, recycle};
use crate::connection::{Connection, Ending, Intake, Received};
use crate::execute::{Context, Flow, memcached as execute};

/// How far ahead of execution index lines are fetched.
const INDEX_AHEAD: usize = 20;
/// How far ahead of execution items are fetched.
const ITEM_AHEAD: usize = 10;
/// Bytes of a large value taken in one turn.
const VALUE_READ_BYTES_MAX: usize = 256 << 10;
/// Bytes of long lines that wait in one loop, to be received or answered; the connection that goes
/// above it is closed.
const LONG_LINES_BYTES_MAX: usize = 32 << 20;
/// A line that counts as long: only a read with very many keys gets there.
const LONG_LINE_BYTES_MIN: usize = 64 << 10;
/// Bytes behind a value that are received together with the next requests.
const LINE_END_BYTES: usize = 2;

impl Worker {
    /// Serves all connections in the ready list once.
    #[inline]
    pub(super) fn serve(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let next_list = std::mem::take(&mut self.resting);
        let mut list = std::mem::replace(&mut self.ready, next_list);
        let mut next = 0;
        while next < list.len() {
            while let Some(&slot) = list.get(next)
                && self.has_room_for(slot)
            {
                self.receive(slot);
                next += 1;
            }
            self.execute_batch();
            for index in 0..self.batch.spans.len() {
                self.settle(index);
            }
            self.batch.clear();
        }
        list.clear();
        self.resting = list;
    }

    #[inline]
    fn has_room_for(&mut self, slot: u32) -> bool {
        let leftover = self
            .table
            .get_mut(slot)
            .map_or(0, |connection| connection.leftover.len());
        self.batch.has_room(leftover)
    }

    /// Takes what a connection has to offer.
    #[inline]
    fn receive(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        // A connection that took the place of a closed one can stand in the list twice.
        if !std::mem::take(&mut connection.queued) || !connection.has_work() {
            return;
        }
        if matches!(connection.ending, Ending::Linger { .. }) {
            self.discard(slot);
        } else if connection.unfinished.is_some() {
            self.resume(slot);
        } else {
            match &connection.intake {
                Intake::Requests => self.receive_requests(slot),
                Intake::Value { upload, .. } if upload.missing() <= LINE_END_BYTES => {
                    self.receive_line_end(slot);
                }
                Intake::Value { .. } => self.receive_value(slot),
                Intake::Skip(_) => self.skip(slot),
            }
        }
    }

    /// Goes on with an answer that is too long for one turn.
    #[cold]
    fn resume(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let Some(unfinished) = connection.unfinished.take() else {
            return;
        };
        connection.output.borrow_buffer(&mut self.spares);
        let context = Context::new(&self.common.state, &self.counters);
        match unfinished.go_on(context, &mut connection.output) {
            Flow::Continue => {}
            Flow::Close => connection.ending = Ending::AfterOutput,
            Flow::Unfinished(rest) => connection.unfinished = Some(rest),
        }
        self.line_up(slot);
    }

    /// Puts a connection's bytes into the arena: what is left over, and one read.
    #[inline]
    fn receive_requests(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let from = self.batch.used;
        let kept = from + connection.leftover.len();
        self.batch.arena[from..kept].copy_from_slice(&connection.leftover);
        let mut end = kept;
        if connection.readable && !connection.backlog {
            match connection.receive(&mut self.batch.arena[kept..kept + READ_BYTES_MAX]) {
                Received::Bytes(bytes) => {
                    end += bytes;
                    connection.active_ms = self.now_ms;
                    self.counters.bytes_read.add(bytes as u64);
                    if bytes == READ_BYTES_MAX {
                        self.counters.conn_yields.add(1);
                    }
                }
                Received::Nothing | Received::End => {}
                Received::Gone => return self.close(slot),
            }
        }
        if end > kept || connection.backlog {
            connection.output.borrow_buffer(&mut self.spares);
            self.batch.add_span(slot, from, end);
        } else {
            self.line_up(slot);
        }
    }

    /// Receives the line end behind a large value, stores the value, and goes on with requests.
    fn receive_line_end(&mut self, slot: u32) {
        let spans = self.batch.spans.len();
        self.receive_requests(slot);
        let Some(span) = self.batch.spans.get_mut(spans) else {
            return;
        };
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let intake = std::mem::take(&mut connection.intake);
        let Intake::Value { mut upload, bytes } = intake else {
            return;
        };
        span.from += upload.fill_from(&self.batch.arena[span.from..span.end]);
        span.decoded = span.from;
        if upload.is_whole() {
            let context = Context::new(&self.common.state, &self.counters);
            execute::finish(*upload, context, &mut connection.output);
        } else {
            connection.intake = Intake::Value { upload, bytes };
        }
    }

    /// Receives more of a large value.
    fn receive_value(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        match connection.receive_value(VALUE_READ_BYTES_MAX) {
            Received::Bytes(bytes) => {
                connection.active_ms = self.now_ms;
                connection.note_moved(bytes, self.now_ms);
                self.counters.bytes_read.add(bytes as u64);
            }
            Received::Nothing | Received::End => {}
            Received::Gone => return self.close(slot),
        }
        self.line_up(slot);
    }

    /// Drops more of a refused value.
    fn skip(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let Intake::Skip(left) = connection.intake else {
            return;
        };
        let wanted = left.min(READ_BYTES_MAX);
        let from = self.batch.used;
        match connection.receive(&mut self.batch.arena[from..from + wanted]) {
            Received::Bytes(bytes) => {
                let left = left - bytes;
                connection.intake = if left > 0 {
                    Intake::Skip(left)
                } else {
                    Intake::Requests
                };
                connection.active_ms = self.now_ms;
                connection.note_moved(bytes, self.now_ms);
                self.counters.bytes_read.add(bytes as u64);
            }
            Received::Nothing | Received::End => {}
            Received::Gone => return self.close(slot),
        }
        self.line_up(slot);
    }

    /// Throws away what a peer still sends after its connection's end.
    #[cold]
    fn discard(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let from = self.batch.used;
        match connection.receive(&mut self.batch.arena[from..from + READ_BYTES_MAX]) {
            Received::Bytes(_) | Received::Nothing => self.enqueue(slot),
            Received::End | Received::Gone => self.close(slot),
        }
    }

    /// Decodes and executes all spans.
    fn execute_batch(&mut self) {
        if self.batch.spans.is_empty() {
            return;
        }
        let Batch {
            arena,
            spans,
            steps: kept,
            ..
        } = &mut self.batch;
        let mut steps = recycle(std::mem::take(kept));
        let context = Context::new(&self.common.state, &self.counters);
        let cache = &self.common.state.cache;
        let mut next = 0;
        loop {
            next = decode_spans(arena, spans, next, cache, &mut steps);
            if steps.is_empty() {
                break;
            }
            for index in 0..steps.len() {
                fetch_ahead(cache, &steps, index);
                let step = &steps[index];
                let span = &mut spans[step.span];
                if span.stopped {
                    continue;
                }
                let connection = self.table.get_mut(span.slot);
                let connection = connection.expect("nothing closes connections in this phase");
                run(context, step, span, arena, connection, self.now_ms);
            }
            steps.clear();
        }
        *kept = recycle(steps);
    }

    /// Keeps what a span did not use, writes, and lines the connection up again.
    #[inline]
    fn settle(&mut self, index: usize) {
        let Span {
            slot,
            from,
            end,
            stopped,
            ..
        } = self.batch.spans[index];
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if from < end {
            connection.leftover.clear();
            connection
                .leftover
                .extend_from_slice(&self.batch.arena[from..end]);
            connection.leftover.shrink_to(2 * (end - from));
        } else if connection.leftover.capacity() > 0 {
            connection.leftover = Vec::new();
        }
        connection.backlog = stopped && from < end;
        if !self.note_long(slot) {
            return self.close(slot);
        }
        self.line_up(slot);
    }

    /// Keeps the sum of long lines that wait in memory; whether it is within its limit.
    #[inline]
    fn note_long(&mut self, slot: u32) -> bool {
        let Some(connection) = self.table.get_mut(slot) else {
            return true;
        };
        let (before, after) = (connection.long_bytes, connection.waiting_line_bytes());
        if before == 0 && after < LONG_LINE_BYTES_MIN {
            return true;
        }
        connection.long_bytes = if after < LONG_LINE_BYTES_MIN {
            0
        } else {
            after
        };
        self.long_bytes = self.long_bytes + connection.long_bytes - before;
        connection.long_bytes <= before || self.long_bytes <= LONG_LINES_BYTES_MAX
    }

    /// Writes what there is, and puts the connection where it belongs: in the ready list, at its
    /// end, or at rest.
    #[inline]
    fn line_up(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.ended && connection.is_through() {
            connection.end_after_output();
        }
        if !connection.blocked {
            self.flush(slot);
        } else {
            self.note_transfer(slot);
        }
        self.end_if_drained(slot);
        self.enqueue(slot);
    }
}

/// Decodes spans from index `next` on until the list of steps is full; where to go on.
#[inline]
fn decode_spans<'a>(
    arena: &'a [u8],
    spans: &mut [Span],
    mut next: usize,
    cache: &Cache,
    steps: &mut Vec<Step<'a>>,
) -> usize {
    while let Some(span) = spans.get_mut(next) {
        while !span.stopped && span.decoded < span.end {
            if steps.len() == STEPS_MAX {
                return next;
            }
            let input = &arena[span.decoded..span.end];
            let (task, used) = match memcached::decode(input, &LIMITS) {
                Decoded::Incomplete => break,
                Decoded::Request { request, used } => {
                    (Task::Run(execute::prepare(request, cache)), used)
                }
                Decoded::Upload {
                    request,
                    used,
                    value_bytes,
                } => (
                    Task::Upload(execute::prepare(request, cache), value_bytes),
                    used,
                ),
                Decoded::Refused(refused) => {
                    let there = input.len() - refused.used;
                    let beyond = refused.swallow.saturating_sub(there);
                    let used = refused.used + refused.swallow.min(there);
                    (Task::Refuse { refused, beyond }, used)
                }
            };
            let is_last = matches!(task, Task::Upload(..));
            span.decoded += used;
            steps.push(Step {
                span: next,
                end: span.decoded,
                task,
            });
            if is_last {
                break;
            }
        }
        next += 1;
    }
    next
}

/// Starts loading what later steps will touch.
#[inline]
fn fetch_ahead(cache: &Cache, steps: &[Step<'_>], index: usize) {
    if index == 0 {
        for step in &steps[..steps.len().min(INDEX_AHEAD)] {
            hint(step, |key| cache.hint_index(key));
        }
        for step in &steps[..steps.len().min(ITEM_AHEAD)] {
            hint(step, |key| cache.hint_item(key));
        }
    }
    if let Some(step) = steps.get(index + INDEX_AHEAD) {
        hint(step, |key| cache.hint_index(key));
    }
    if let Some(step) = steps.get(index + ITEM_AHEAD) {
        hint(step, |key| cache.hint_item(key));
    }
}

#[inline]
fn hint<'a>(step: &Step<'a>, load: impl FnOnce(cellar_engine::Key<'a>)) {
    if let Task::Run(prepared) = &step.task
        && let Some(key) = prepared.key()
    {
        load(key);
    }
}

/// Executes one step; its replies go to the connection's output.
#[inline]
fn run(
    context: Context<'_>,
    step: &Step<'_>,
    span: &mut Span,
    arena: &[u8],
    connection: &mut Connection,
    now_ms: u64,
) {
    span.from = step.end;
    let flow = match &step.task {
        Task::Run(prepared) => execute::execute(prepared, context, &mut connection.output),
        Task::Upload(prepared, value_bytes) => {
            let received =
                execute::receive(prepared, *value_bytes, context, &mut connection.output);
            connection.start_transfer(now_ms);
            begin_value(received, *value_bytes, context, span, arena, connection);
            Flow::Continue
        }
        Task::Refuse { refused, beyond } => {
            if *beyond > 0 {
                connection.start_transfer(now_ms);
                connection.intake = Intake::Skip(*beyond);
            }
            execute::refuse(refused, context, &mut connection.output)
        }
    };
    match flow {
        Flow::Continue => span.stopped |= connection.output.is_full(),
        Flow::Close => {
            connection.end_after_output();
            span.stopped = true;
            span.from = span.end;
        }
        Flow::Unfinished(rest) => {
            connection.unfinished = Some(rest);
            span.stopped = true;
        }
    }
}

/// Starts to receive a large value, or to drop it, with what of it is in the arena.
fn begin_value(
    received: execute::Received,
    value_bytes: usize,
    context: Context<'_>,
    span: &mut Span,
    arena: &[u8],
    connection: &mut Connection,
) {
    let there = &arena[span.from..span.end];
    match received {
        execute::Received::Upload(mut upload) => {
            span.from += upload.fill_from(there);
            if upload.is_whole() {
                execute::finish(*upload, context, &mut connection.output);
            } else {
                connection.intake = Intake::Value {
                    upload,
                    bytes: value_bytes,
                };
            }
        }
        execute::Received::Swallow(bytes) => {
            let dropped = bytes.min(there.len());
            span.from += dropped;
            if dropped < bytes {
                connection.intake = Intake::Skip(bytes - dropped);
            }
        }
    }
    // What follows was not decoded: it waits for the next turn.
    span.stopped = true;
}

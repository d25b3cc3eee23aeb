//! Serve: the phases of an iteration over ready connections, in batches.
//!
//! ```text
//! receive   each connection: its leftover, then one read              -> a span of the arena
//! decode    spans in order                                            -> up to STEPS_MAX steps
//! execute   steps in order, memory fetched ahead                      -> outputs
//! settle    each span: keep unused bytes, write, queue again
//! ```
//!
//! A large value bypasses the arena: its first bytes come with its command line, the rest is
//! received into the cache's memory. Other long requests are gathered in the leftover buffer.
//! Messages from other event loops are delivered after all spans are settled.
//!
//! Each batch is answered before the next one is read. All fresh connections are served first, then
//! the resumed ones; in a long iteration, requests that may take long wait ([`TimeSlice`]).

use std::sync::Arc;

use cellar_config::limits::{LONG_REQUEST_BYTES_MIN, WAITING_BYTES_MAX};
use cellar_engine::Instant;
use cellar_execute::Context;
use cellar_net::mailbox::Home;
use cellar_shared::clients::client::Delivery;
use cellar_shared::clients::exclusive_lock::Pass;
use cellar_system::clock::LoopClock;

use super::Worker;
use super::batch::{Batch, CONNECTIONS_MAX, GOING_ON_MAX, Span, Step, recycle};
use super::login_time::note_request;
use super::run_queue::Turn;
use super::share::{Shares, TimeSlice};
use super::steps::{decode_spans, fetch_ahead, run};
use crate::server::event_loop::connection::Input;

impl Worker {
    /// Serves each fresh connection, and resumed connections as long as time remains.
    #[inline]
    pub(super) fn serve(&mut self) {
        if self.run_queue.is_empty() {
            return;
        }
        let turn = self.run_queue.begin();
        let Turn { fresh, going_on } = &turn;
        let anew = TimeSlice::of_fresh(self.began_us);
        let mut next = 0;
        while next < fresh.len() {
            next += self.serve_some(&fresh[next..], anew);
        }
        let mut served = 0;
        if !going_on.is_empty() {
            let time_slice = TimeSlice::of_going_on(anew, self.common.clock.us());
            while served < going_on.len()
                && !(served > 0 && time_slice.is_over(self.common.clock.us()))
            {
                served += self.serve_some(&going_on[served..], time_slice);
            }
        }
        self.run_queue.end(turn, served);
    }

    /// Serves the first of these connections, a batch at a time; returns how many were taken.
    #[inline]
    fn serve_some(&mut self, slots: &[u32], time_slice: TimeSlice) -> usize {
        let most = match time_slice.is_fresh {
            true => CONNECTIONS_MAX,
            false => GOING_ON_MAX,
        };
        let mut taken = 0;
        for &slot in slots.iter().take(most) {
            let Some(connection) = self.table.get_mut(slot) else {
                taken += 1;
                continue;
            };
            if !self.batch.has_room(connection.turn_bytes_max()) {
                break;
            }
            let waits = connection.may_take_long() && time_slice.is_long(self.common.clock.us());
            if waits && time_slice.is_fresh {
                self.run_queue.push(slot);
            } else if waits && taken > 0 {
                break;
            } else {
                self.receive(slot);
            }
            taken += 1;
            if self.held.has_grown_much() {
                break;
            }
        }
        let served = match self.batch.spans.is_empty() {
            true => 0,
            false => self.execute_batch(time_slice),
        };
        self.common.state.observer.tracking.broadcast();
        // Connections that were not served are queued first, ahead in the next iteration.
        let lined_up = self.run_queue.len();
        for index in served..self.batch.spans.len() {
            self.settle(index);
        }
        if !time_slice.is_fresh && self.run_queue.len() > lined_up {
            self.run_queue.keep_place_since(lined_up);
        }
        for index in 0..served {
            self.settle(index);
        }
        self.batch.clear();
        self.deliver();
        self.check_budget();
        self.teardowns.take_excess_apart(self.held.take_grown());
        taken
    }

    /// Decodes and executes spans until all are done or the replies are enough for one iteration;
    /// returns how many were served.
    fn execute_batch(&mut self, time_slice: TimeSlice) -> usize {
        let mut served = self.batch.spans.len();
        let Batch {
            arena,
            spans,
            steps: kept,
            ..
        } = &mut self.batch;
        let mut steps = recycle(std::mem::take(kept));
        let (state, clock) = (&self.common.state, &self.common.clock);
        let pass = state.exclusive_lock.enter(self.index);
        let context = Context::new(state, &self.counters, &pass);
        let (cache, pause) = (&state.cache, &state.pause);
        let mut paused = pause.in_force(Instant(self.now_ms));
        let mut shares = Shares::new(time_slice);
        let (mut next, mut replied_bytes, most) = (0, 0, state.budget.turn_bytes_max());
        loop {
            next = decode_spans(arena, spans, next, state, &mut steps);
            let Some(last) = steps.last().map(|step| step.span) else {
                break;
            };
            shares.begin_list(next < spans.len(), || clock.us());
            for index in 0..steps.len() {
                fetch_ahead(cache, &mut steps, index);
                let step = &steps[index];
                let span = &mut spans[step.span];
                if span.stopped {
                    continue;
                }
                let Some(connection) = self.table.get_mut(span.slot) else {
                    continue;
                };
                if !step.is_quick && shares.are_spent(|| clock.us()) && step.task.is_heavy() {
                    if time_slice.is_fresh {
                        span.stopped = true;
                        continue;
                    }
                    served = step.span;
                    spans.iter_mut().for_each(|span| span.stopped = true);
                    break;
                }
                if let Some(paused) = paused
                    && paused.holds(connection.link.effect(&step.task, context))
                {
                    // Its bytes stay in the connection, with all behind them.
                    span.stopped = true;
                    connection.is_held = true;
                    self.waiting.add(self.table.token(span.slot), pause);
                    continue;
                }
                run(&context, step, span, arena, connection, self.now_ms);
                let link = &mut connection.link;
                let is_answered = step.is_quick || !link.makes_room() && link.transfer().is_none();
                self.answered[span.protocol as usize] += u64::from(is_answered);
                if !step.is_quick && note_time(step, span, &mut shares, &pass, clock) {
                    // It may have started a pause, or ended one.
                    paused = pause.in_force(Instant(self.now_ms));
                }
                if span.stopped {
                    replied_bytes += connection.replied_bytes();
                    if replied_bytes >= most {
                        served = step.span + 1;
                        spans.iter_mut().for_each(|span| span.stopped = true);
                        break;
                    }
                }
            }
            spans[last].stopped |= shares.end_list(last, || clock.us());
            steps.clear();
        }
        *kept = recycle(steps);
        served
    }

    /// Keeps the unused bytes of a span, writes, and queues the connection again.
    #[inline]
    fn settle(&mut self, index: usize) {
        let Span {
            slot,
            codec,
            from,
            decoded,
            end,
            found,
            stopped,
            ..
        } = self.batch.spans[index];
        // All decoded requests were executed, unless the span stopped; blank lines are not
        // executed.
        let from = if stopped { from } else { decoded };
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
        let is_incomplete = !stopped && from < end;
        connection.link.settle(&codec, is_incomplete, self.now_ms);
        connection.note_waiting(found, is_incomplete, self.now_ms);
        if found {
            note_request(connection, self.now_ms);
        }
        if is_incomplete && end - from >= LONG_REQUEST_BYTES_MIN {
            connection.input = Input::Frame;
        }
        self.line_up(slot);
    }

    /// Writes pending replies, and then queues, parks or ends the connection.
    #[inline]
    pub(super) fn line_up(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.stream.has_ended() && connection.is_through() {
            connection.end_after_output();
        }
        if connection.blocked || connection.holds_replies() {
            self.note_held(slot);
        } else {
            self.flush(slot);
        }
        self.end_if_drained(slot);
        self.park(slot);
        self.enqueue(slot);
    }

    /// Parks a connection if its request waits for another thread.
    #[inline]
    fn park(&mut self, slot: u32) {
        let token = self.table.token(slot);
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.waiter.is_some() && !connection.is_parked {
            return self.rest(slot);
        }
        if let Some(ticket) = connection.waits_for.take() {
            let mailboxes = &self.common.mailboxes;
            connection.is_parked = ticket.waits(|| Home {
                mailboxes: Arc::clone(mailboxes),
                index: self.index,
                token,
            });
            connection.login = connection.is_parked.then_some(ticket);
            if connection.is_parked && connection.stream.is_gone() {
                // The peer has closed, so its request is not executed. A peer that has only shut
                // down its own side may still read: `printf ... | nc -N` sends a login, shuts down,
                // and reads. Over TCP a closed peer looks the same until it is written to.
                return self.close(slot);
            }
            connection.note_leaving();
        }
    }

    /// Hands over what other threads have put into the inboxes of this loop's clients.
    #[inline]
    pub(super) fn deliver(&mut self) {
        let mut calls = std::mem::take(&mut self.calls);
        self.mailbox().take_calls(&mut calls);
        let now = calls.len().min(self.deliveries_left);
        self.deliveries_left -= now;
        for token in calls.drain(..now) {
            if let Some(slot) = self.table.slot(token) {
                self.deliver_to(slot);
            }
        }
        self.calls = calls;
    }

    /// Appends what waits in a client's inbox, unless one of its replies is half written.
    #[cold]
    pub(super) fn deliver_to(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.waiter.is_some() {
            self.take_answer(slot);
        } else if std::mem::take(&mut connection.is_parked) {
            // A wake-up for another reason lets it check again, and park again.
            connection.login = None;
            self.enqueue(slot);
            return self.deliver_to(slot);
        }
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let Some(client) = connection.link.client() else {
            return;
        };
        if connection.unfinished.is_some() && !client.is_overdue() {
            return;
        }
        let Delivery::Bytes(bytes) = client.deliver() else {
            self.counters.connections_slow_closed.add(1);
            return self.close(slot);
        };
        if bytes.is_empty() {
            return;
        }
        connection.output.borrow_buffer(&mut self.spares);
        connection.output.bytes().extend_from_slice(&bytes);
        let bytes_max = self.common.state.budget.inbox_bytes_max();
        if connection.output.waiting_bytes() > bytes_max.saturating_add(WAITING_BYTES_MAX) {
            self.counters.connections_slow_closed.add(1);
            return self.close(slot);
        }
        self.line_up(slot);
    }
}

/// Counts the time of a request that is not quick, which may use up its connection's share; returns
/// whether it may have taken long.
#[inline]
fn note_time(
    step: &Step<'_>,
    span: &mut Span,
    shares: &mut Shares,
    pass: &Pass<'_>,
    clock: &LoopClock,
) -> bool {
    let may_be_long = pass.take_heavy() | step.task.is_heavy();
    span.stopped |= match may_be_long {
        true => shares.note(step.span, clock.us()),
        false => shares.note_short(step.span, || clock.us()),
    };
    may_be_long
}

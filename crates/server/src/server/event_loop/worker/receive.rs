//! Receive: reads bytes from the socket into the memory that they are decoded in.
//!
//! Requests are read into the arena; a large value into the cache's memory; a long command into the
//! connection's leftover buffer.

use cellar_config::limits::{LONG_READ_BYTES_MAX, READ_BYTES_MAX};
use cellar_execute::{Context, Flow, Transfer, serve};
use cellar_net::listener::peer_address;
use cellar_net::stream::Received;
use cellar_shared::auth::wrong_protocol::Spoken;
use cellar_shared::observe::counters::Counters;
use cellar_shared::state::State;

use super::Worker;
use super::steps::{Ran, feed, run_frame};
use crate::server::event_loop::connection::{Connection, Ending, Input};

/// Records the result of a read for a transfer; returns whether the connection is broken.
fn is_broken(
    connection: &mut Connection,
    received: Received,
    counters: &Counters,
    now_ms: u64,
) -> bool {
    if let Received::Bytes(bytes) = received {
        connection.active_ms = now_ms;
        connection.note_moved(bytes, now_ms);
        connection.note_received(bytes);
        counters.bytes_read.add(bytes as u64);
    }
    received == Received::Gone
}

/// Starts the client's time-out for the rest of an incomplete transport record, as for the rest of
/// a request.
#[cold]
fn await_rest(connection: &mut Connection, now_ms: u64) {
    if !connection.is_in_transfer() {
        connection.start_transfer(now_ms);
    }
    connection.is_waiting = true;
}

/// Detects a client that does not speak the protocol of its port, and logs it.
#[inline]
fn recognise(
    connection: &mut Connection,
    so_far: &[u8],
    looked_at: usize,
    state: &State,
    now_ms: u64,
) -> Option<Spoken> {
    let protocol = connection.link.protocol();
    let spoken = connection.beginning.look(protocol, so_far, looked_at)?;
    let peer = || peer_address(&connection.stream);
    state
        .access
        .wrong_protocol
        .note(protocol, spoken, now_ms, peer);
    Some(spoken)
}

impl Worker {
    /// Reads the available bytes of a connection.
    #[inline]
    pub(super) fn receive(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        // A slot can be queued twice: by its closed connection and by the one that reuses it.
        if !std::mem::take(&mut connection.queued) || !connection.has_work() {
            return;
        }
        if std::mem::take(&mut connection.unsent) {
            self.line_up(slot);
        } else if matches!(
            connection.ending,
            Ending::Linger { .. } | Ending::AfterOutput
        ) {
            self.discard(slot);
        } else if connection.reads_ahead() {
            self.read_ahead(slot);
        } else if connection.unfinished.is_some() {
            self.resume(slot);
        } else {
            if connection.link.transfer().is_some() && self.holds_transfer(slot) {
                return self.hold(slot);
            }
            let Some(connection) = self.table.get_mut(slot) else {
                return;
            };
            match (connection.link.transfer(), connection.input) {
                (Some(Transfer::Direct(_)), _) => self.receive_value(slot),
                (Some(Transfer::Fed), _) => self.receive_rest(slot),
                (None, Input::Requests) => self.receive_requests(slot),
                (None, Input::Skip(left)) => self.skip(slot, left),
                (None, Input::Frame) => self.receive_frame(slot),
            }
        }
    }

    /// Resumes a reply that is too long for one iteration.
    #[cold]
    fn resume(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.has_lost_user(&self.common.state) {
            // The user has lost the permission for the rest of the command.
            return self.close(slot);
        }
        let pass = self.common.state.exclusive_lock.enter(self.index);
        let context = Context::new(&self.common.state, &self.counters, &pass);
        if connection.has_lost_slots(context) {
            // The rest may belong to a slot that another node has taken.
            drop(pass);
            return self.close(slot);
        }
        let Some(unfinished) = connection.unfinished.take() else {
            return;
        };
        connection.output.borrow_buffer(&mut self.spares);
        let start = connection.mark_start();
        let flow = unfinished.resume(context, &mut connection.output);
        serve(context);
        drop(pass);
        let is_done = matches!(flow, Flow::Continue);
        connection.follow(flow);
        connection.note_unfinished(&start);
        if is_done {
            self.deliver_to(slot);
        }
        self.line_up(slot);
    }

    /// Reads a connection's bytes into the arena: its leftover, and one read.
    #[inline]
    fn receive_requests(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let from = self.batch.used;
        let kept = from + connection.leftover.len();
        self.batch.arena[from..kept].copy_from_slice(&connection.leftover);
        let mut end = kept;
        if connection.stream.is_readable() && !connection.backlog {
            let room = &mut self.batch.arena[kept..kept + READ_BYTES_MAX];
            match connection.stream.read(room) {
                Received::Bytes(bytes) => {
                    end += bytes;
                    connection.active_ms = self.now_ms;
                    connection.note_received(bytes);
                    self.counters.bytes_read.add(bytes as u64);
                    let so_far = &self.batch.arena[from..end];
                    let state = &self.common.state;
                    if let Some(spoken) =
                        recognise(connection, so_far, kept - from, state, self.now_ms)
                        && spoken.is_hopeless()
                    {
                        return self.turn_away(slot, spoken);
                    }
                    if bytes == READ_BYTES_MAX {
                        self.counters.conn_yields.add(1);
                    }
                }
                Received::Nothing if connection.stream.awaits_rest() => {
                    await_rest(connection, self.now_ms);
                }
                Received::Nothing | Received::End => {}
                Received::Gone => return self.close(slot),
            }
        }
        if end > kept || connection.backlog {
            connection.output.borrow_buffer(&mut self.spares);
            let codec = connection.link.codec(&self.common.state);
            self.batch.add_span(slot, codec, from, end);
        } else {
            self.line_up(slot);
        }
    }

    /// Ends a connection whose further bytes cannot be decoded, with an error.
    #[cold]
    fn turn_away(&mut self, slot: u32, spoken: Spoken) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        self.counters.protocol_errors.add(1);
        let text = spoken.refusal(connection.link.protocol());
        connection.output.bytes().extend_from_slice(&text);
        connection.end_after_output();
        self.line_up(slot);
    }

    /// Receives more of the current request, executes it when it is whole, and continues with the
    /// requests behind it.
    fn receive_rest(&mut self, slot: u32) {
        let spans = self.batch.spans.len();
        self.receive_requests(slot);
        let Some(span) = self.batch.spans.get_mut(spans) else {
            return;
        };
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        connection.note_moved(span.end - span.from, self.now_ms);
        let pass = self.common.state.exclusive_lock.enter(self.index);
        let context = Context::new(&self.common.state, &self.counters, &pass);
        let is_run = feed(context, span, &self.batch.arena, connection);
        drop(pass);
        span.decoded = span.from;
        span.codec = connection.link.codec(&self.common.state);
        self.answered[span.protocol as usize] += u64::from(is_run);
    }

    /// Receives more of a long command into the leftover buffer, and runs it when it is whole.
    #[cold]
    fn receive_frame(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let from = self.batch.used;
        let room = &mut self.batch.arena[from..from + LONG_READ_BYTES_MAX];
        // A whole request is executed before more is read.
        let received = match connection.backlog {
            true => Received::Nothing,
            false => connection.stream.read(room),
        };
        if is_broken(connection, received, &self.counters, self.now_ms) {
            return self.close(slot);
        }
        if let Received::Bytes(bytes) = received {
            connection.leftover.extend_from_slice(&room[..bytes]);
            let looked_at = connection.leftover.len() - bytes;
            let gathered = std::mem::take(&mut connection.leftover);
            let state = &self.common.state;
            let spoken = recognise(connection, &gathered, looked_at, state, self.now_ms);
            connection.leftover = gathered;
            if let Some(spoken) = spoken.filter(|spoken| spoken.is_hopeless()) {
                return self.turn_away(slot, spoken);
            }
            let so_far = &connection.leftover;
            if connection.link.is_still_incomplete(so_far, looked_at) {
                return self.line_up(slot);
            }
        }
        connection.output.borrow_buffer(&mut self.spares);
        let pass = self.common.state.exclusive_lock.enter(self.index);
        let context = Context::new(&self.common.state, &self.counters, &pass);
        let codec = connection.link.codec(&self.common.state);
        let (ran, spent) = run_frame(context, codec, slot, connection, self.now_ms);
        drop(pass);
        let is_answered = ran == Ran::Whole && !connection.link.makes_room();
        if ran == Ran::Held {
            self.hold(slot);
        }
        self.answered[codec.protocol() as usize] += u64::from(is_answered);
        self.teardowns.add_buffer(spent);
        // Its reply is written now, before those of other connections in this iteration.
        self.common.state.observer.tracking.broadcast();
        self.line_up(slot);
    }

    /// Receives more of a large value.
    fn receive_value(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let Some(Transfer::Direct(draft)) = connection.link.transfer() else {
            return;
        };
        let buffer = draft.buffer();
        let wanted = buffer.len().min(LONG_READ_BYTES_MAX);
        let received = connection.stream.read(&mut buffer[..wanted]);
        if let Received::Bytes(bytes) = received {
            draft.advance(bytes);
        }
        let is_complete = draft.is_complete();
        if is_broken(connection, received, &self.counters, self.now_ms) {
            return self.close(slot);
        }
        if is_complete {
            self.finish_value(slot);
        }
        self.line_up(slot);
    }

    /// Stores a large value behind which nothing is missing.
    #[cold]
    fn finish_value(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        connection.output.borrow_buffer(&mut self.spares);
        let pass = self.common.state.exclusive_lock.enter(self.index);
        let context = Context::new(&self.common.state, &self.counters, &pass);
        let (_, flow) = connection.link.feed(&[], context, &mut connection.output);
        drop(pass);
        let Some(flow) = flow else {
            return;
        };
        self.answered[connection.link.protocol() as usize] += 1;
        // Its reply is written now, before those of other connections in this iteration.
        self.common.state.observer.tracking.broadcast();
        connection.follow(flow);
    }

    /// Drops more of a refused value.
    fn skip(&mut self, slot: u32, left: usize) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let wanted = left.min(READ_BYTES_MAX);
        let from = self.batch.used;
        let room = &mut self.batch.arena[from..from + wanted];
        let received = connection.stream.read(room);
        if is_broken(connection, received, &self.counters, self.now_ms) {
            return self.close(slot);
        }
        if let Received::Bytes(bytes) = received {
            connection.input = match left - bytes {
                0 => Input::Requests,
                left => Input::Skip(left),
            };
        }
        self.line_up(slot);
    }

    /// Discards what a peer still sends after its connection's end.
    #[cold]
    fn discard(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let from = self.batch.used;
        let room = &mut self.batch.arena[from..from + READ_BYTES_MAX];
        match connection.stream.read(room) {
            // It may still read its replies.
            Received::End if connection.ending == Ending::AfterOutput => {}
            Received::Bytes(bytes) => {
                connection.note_moved(bytes, self.now_ms);
                self.enqueue(slot);
            }
            Received::Nothing => self.enqueue(slot),
            Received::End | Received::Gone => self.close(slot),
        }
    }
}

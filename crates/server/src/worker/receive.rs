//! Receive: how bytes come in, from the socket to where they are looked at.
//!
//! Requests go through the arena; a large value goes into the cache's memory; a long command is
//! gathered behind what is left over of its connection.

use cellar_protocol::memcached::is_still_incomplete;

use super::Worker;
use super::batch::{Codec, HttpCodec, LIMITS, RespCodec};
use super::steps::{finish, follow, gather_body, run_frame};
use crate::connection::{Connection, Ending, Intake, Received};
use crate::counters::Counters;
use crate::execute::{Context, Flow};
use crate::limits::{LONG_READ_BYTES_MAX, READ_BYTES_MAX};
use crate::listener::Protocol;
use crate::state::State;

/// Bytes behind a value that are received together with the next requests.
const LINE_END_BYTES: usize = 2;

/// How a connection's bytes are to be decoded now.
#[inline]
fn codec(connection: &Connection, state: &State) -> Codec {
    if let Some(link) = &connection.http {
        return Codec::Http(HttpCodec { scan: link.scan });
    }
    match &connection.session {
        None => Codec::Memcached,
        Some(session) => Codec::Resp(RespCodec {
            space: session.space(state),
            limits: session.limits(),
            scan: session.scan,
            tail: session.tail_args(),
        }),
    }
}

/// Notes what a read brought of a transfer; whether the connection is broken.
fn is_broken(
    connection: &mut Connection,
    received: Received,
    counters: &Counters,
    now_ms: u64,
) -> bool {
    if let Received::Bytes(bytes) = received {
        connection.active_ms = now_ms;
        connection.note_moved(bytes, now_ms);
        counters.bytes_read.add(bytes as u64);
    }
    received == Received::Gone
}

impl Worker {
    /// Takes what a connection has to offer.
    #[inline]
    pub(super) fn receive(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        // A connection that took the place of a closed one can stand in the list twice.
        if !std::mem::take(&mut connection.queued) || !connection.has_work() {
            return;
        }
        if std::mem::take(&mut connection.unsent) {
            self.line_up(slot);
        } else if matches!(connection.ending, Ending::Linger { .. }) {
            self.discard(slot);
        } else if connection.unfinished.is_some() {
            self.resume(slot);
        } else {
            match &connection.intake {
                Intake::Requests => self.receive_requests(slot),
                Intake::Value(upload) if upload.missing() <= LINE_END_BYTES => {
                    self.receive_line_end(slot);
                }
                Intake::Value(_) => self.receive_value(slot),
                Intake::Skip(_) => self.skip(slot),
                Intake::Frame => self.receive_frame(slot),
                Intake::Body(_) => self.receive_body(slot),
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
        let pass = self.common.state.gates.enter(self.index);
        let context = Context::new(&self.common.state, &self.counters, &pass);
        let flow = unfinished.go_on(context, &mut connection.output);
        drop(pass);
        match flow {
            Flow::Continue if connection.session.is_some() => self.deliver_to(slot),
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
            let codec = codec(connection, &self.common.state);
            self.batch.add_span(slot, codec, from, end);
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
        let Intake::Value(mut upload) = intake else {
            return;
        };
        let filling = upload.filling();
        span.from += filling.fill_from(&self.batch.arena[span.from..span.end]);
        span.decoded = span.from;
        if !filling.is_whole() {
            connection.intake = Intake::Value(upload);
            return;
        }
        let pass = self.common.state.gates.enter(self.index);
        let context = Context::new(&self.common.state, &self.counters, &pass);
        let flow = finish(upload, context, connection);
        drop(pass);
        self.answered[connection.protocol() as usize] += 1;
        span.codec = codec(connection, &self.common.state);
        if matches!(flow, Flow::Close) {
            connection.end_after_output();
            span.stopped = true;
            span.from = span.end;
        }
    }

    /// Receives more of a long command behind what is there of it, and runs it when it is whole.
    #[cold]
    fn receive_frame(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let from = self.batch.used;
        let room = &mut self.batch.arena[from..from + LONG_READ_BYTES_MAX];
        let received = connection.receive(room);
        if is_broken(connection, received, &self.counters, self.now_ms) {
            return self.close(slot);
        }
        if let Received::Bytes(bytes) = received {
            connection.leftover.extend_from_slice(&room[..bytes]);
            let looked_at = connection.leftover.len() - bytes;
            let is_line = connection.protocol() == Protocol::Memcached;
            if is_line && is_still_incomplete(&connection.leftover, looked_at, &LIMITS) {
                return self.line_up(slot);
            }
        }
        connection.output.borrow_buffer(&mut self.spares);
        let pass = self.common.state.gates.enter(self.index);
        let context = Context::new(&self.common.state, &self.counters, &pass);
        let codec = codec(connection, &self.common.state);
        let is_whole = run_frame(context, codec, slot, connection, self.now_ms);
        drop(pass);
        self.answered[codec.protocol() as usize] += u64::from(is_whole);
        // Its reply is written now, before the others' of this turn.
        self.common.state.observer.tracking.broadcast();
        self.line_up(slot);
    }

    /// Receives more of a large value.
    fn receive_value(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let received = connection.receive_value(LONG_READ_BYTES_MAX);
        if is_broken(connection, received, &self.counters, self.now_ms) {
            return self.close(slot);
        }
        if matches!(&connection.intake, Intake::Value(upload) if upload.missing() == 0) {
            self.finish_value(slot);
        }
        self.line_up(slot);
    }

    /// Stores a large value that nothing follows.
    #[cold]
    fn finish_value(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let Intake::Value(upload) = std::mem::take(&mut connection.intake) else {
            return;
        };
        connection.output.borrow_buffer(&mut self.spares);
        let pass = self.common.state.gates.enter(self.index);
        let context = Context::new(&self.common.state, &self.counters, &pass);
        let flow = finish(upload, context, connection);
        drop(pass);
        self.answered[connection.protocol() as usize] += 1;
        // Its reply is written now, before the others' of this turn.
        self.common.state.observer.tracking.broadcast();
        if matches!(flow, Flow::Close) {
            connection.end_after_output();
        }
    }

    /// Receives more of the body of a request over HTTP, and runs the request when it is whole.
    #[cold]
    fn receive_body(&mut self, slot: u32) {
        let spans = self.batch.spans.len();
        self.receive_requests(slot);
        let Some(span) = self.batch.spans.get_mut(spans) else {
            return;
        };
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let Intake::Body(gather) = std::mem::take(&mut connection.intake) else {
            return;
        };
        connection.note_moved(span.end - span.from, self.now_ms);
        let pass = self.common.state.gates.enter(self.index);
        let context = Context::new(&self.common.state, &self.counters, &pass);
        let flow = gather_body(gather, context, span, &self.batch.arena, connection);
        drop(pass);
        let is_answered = !connection.awaits_value();
        self.answered[connection.protocol() as usize] += u64::from(is_answered);
        span.decoded = span.from;
        follow(flow, span, connection);
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
        let received = connection.receive(&mut self.batch.arena[from..from + wanted]);
        if is_broken(connection, received, &self.counters, self.now_ms) {
            return self.close(slot);
        }
        if let Received::Bytes(bytes) = received {
            connection.intake = match left - bytes {
                0 => Intake::Requests,
                left => Intake::Skip(left),
            };
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
}

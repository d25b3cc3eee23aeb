//! Read-ahead: taking the rest of a pipeline whose client has not begun to read its replies.
//!
//! Many clients send a whole pipeline before they read. While the replies to its beginning fill
//! the socket, nothing further of it is executed; it is received all the same, so that the client
//! can go on to read. The [budget](crate::clients::budget::Budget::grant_ahead) says which
//! connection may have memory for it: one that has to wait asks again every [`RETRY_MS`], for at
//! most `--write-timeout`.
//!
//! A pipeline that does not fit into `--client-memory` is refused: the client gets an error behind
//! the replies to what was executed, and what it still sends is thrown away so that it comes to
//! read that error.
//!
//! Tests: tests/pipelines.rs.

use super::Worker;
use crate::clients::budget::AheadGrant;
use crate::execute::Refusal;
use crate::net::listener::peer_address;
use crate::net::stream::Received;

/// How often connections that wait for memory ask for it again.
const RETRY_MS: u64 = 10;

/// Connections that wait for memory.
#[derive(Debug, Default)]
pub(super) struct AheadQueue {
    tokens: Vec<u64>,
    retry_ms: u64,
}

impl AheadQueue {
    /// How long the loop may sleep for them; for ever if there are none.
    pub(super) fn wait_ms(&self, now_ms: u64) -> u32 {
        if self.tokens.is_empty() {
            return u32::MAX;
        }
        u32::try_from(self.retry_ms.saturating_sub(now_ms)).unwrap_or(u32::MAX)
    }
}

impl Worker {
    /// Takes more of a pipeline while its replies wait.
    #[cold]
    pub(super) fn read_ahead(&mut self, slot: u32) {
        let token = self.table.token(slot);
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        match self.common.state.budget.grant_ahead((self.index, token)) {
            AheadGrant::Now => {}
            AheadGrant::Later => {
                connection.awaits_memory = true;
                if self.ahead_queue.tokens.is_empty() {
                    self.ahead_queue.retry_ms = self.now_ms + RETRY_MS;
                }
                return self.ahead_queue.tokens.push(token);
            }
            AheadGrant::Never => return self.refuse_pipeline(slot),
        }
        let received = connection.stream.read_ahead();
        if connection.stream.ahead_bytes() == 0 {
            // Nothing came: it does not keep others waiting.
            self.common.state.budget.release_ahead((self.index, token));
        }
        match received {
            Received::Bytes(bytes) => {
                connection.active_ms = self.now_ms;
                connection.note_moved(bytes, self.now_ms);
            }
            Received::Nothing | Received::End => {}
            Received::Gone => return self.close(slot),
        }
        self.note_held(slot);
        self.enqueue(slot);
    }

    /// Keeps the sum of what is read ahead.
    #[cold]
    pub(super) fn note_ahead(&mut self, slot: u32, before: usize, after: usize) {
        self.ahead_bytes = self.ahead_bytes - before + after;
        if after == 0 {
            self.release_ahead(self.table.token(slot));
        }
    }

    /// Notes that a connection needs no more memory for its pipeline.
    pub(super) fn release_ahead(&self, token: u64) {
        self.common.state.budget.release_ahead((self.index, token));
    }

    /// Lets the connections that wait for memory ask again.
    #[inline]
    pub(super) fn retry_read_ahead(&mut self) {
        if !self.ahead_queue.tokens.is_empty() && self.ahead_queue.retry_ms <= self.now_ms {
            for token in std::mem::take(&mut self.ahead_queue.tokens) {
                let Some(slot) = self.table.slot(token) else {
                    continue;
                };
                if let Some(connection) = self.table.get_mut(slot) {
                    connection.awaits_memory = false;
                    self.enqueue(slot);
                }
            }
        }
    }

    /// Ends a connection whose pipeline does not fit into the memory for clients, or has waited for
    /// it in vain, with an error behind the replies that wait.
    pub(super) fn refuse_pipeline(&mut self, slot: u32) {
        let token = self.table.token(slot);
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let kept_bytes = connection.stream.ahead_bytes();
        self.counters.connections_pipeline_closed.add(1);
        if let Some(refused) = self.pipeline_report.note(self.now_ms) {
            tracing::warn!(
                refused,
                peer = peer_address(&connection.stream),
                kept_bytes,
                "a pipeline was refused: its requests do not fit into --client-memory while its \
                 replies are not read"
            );
        }
        let chunks = connection.stream.take_ahead();
        self.leave_buffers(chunks);
        self.release_ahead(token);
        self.refuse(slot, Refusal::Pipeline);
    }
}

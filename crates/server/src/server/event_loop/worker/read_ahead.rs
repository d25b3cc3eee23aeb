//! Read-ahead: taking the rest of a pipeline whose client has not begun to read its replies.
//!
//! Many clients send a whole pipeline before they read. While the replies to its beginning fill the
//! socket buffer, nothing further is executed; it is still received, so that the client can begin
//! to read. [`Budget::grant_ahead`](cellar_shared::clients::budget::Budget::grant_ahead) decides
//! which connection gets memory for it: a connection that has to wait asks again every
//! [`RETRY_MS`], for at most `--write-timeout`.
//!
//! A pipeline that does not fit into `--client-memory` is refused: the client gets an error after
//! the replies to the executed requests, and its further bytes are discarded so that it can read
//! that error.
//!
//! Tests: tests/pipelines.rs.

use cellar_execute::Refusal;
use cellar_net::listener::peer_address;
use cellar_net::stream::Received;
use cellar_shared::clients::budget::AheadGrant;

use super::Worker;

/// How often connections that wait for memory ask for it again.
const RETRY_MS: u64 = 10;

/// Connections that wait for memory.
#[derive(Debug, Default)]
pub(super) struct AheadQueue {
    tokens: Vec<u64>,
    retry_ms: u64,
}

impl AheadQueue {
    /// How long the loop may sleep for them; `u32::MAX` if none waits.
    pub(super) fn wait_ms(&self, now_ms: u64) -> u32 {
        if self.tokens.is_empty() {
            return u32::MAX;
        }
        u32::try_from(self.retry_ms.saturating_sub(now_ms)).unwrap_or(u32::MAX)
    }

    fn add(&mut self, token: u64, now_ms: u64) {
        if self.tokens.is_empty() {
            self.retry_ms = now_ms + RETRY_MS;
        }
        self.tokens.push(token);
    }

    /// All of them, once they may ask again.
    #[inline]
    fn take_due(&mut self, now_ms: u64) -> Option<Vec<u64>> {
        let is_due = !self.tokens.is_empty() && self.retry_ms <= now_ms;
        is_due.then(|| std::mem::take(&mut self.tokens))
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
        match self.held.grant_ahead(token) {
            AheadGrant::Now => {}
            AheadGrant::Later => {
                connection.awaits_memory = true;
                return self.ahead_queue.add(token, self.now_ms);
            }
            AheadGrant::Never => return self.refuse_pipeline(slot),
        }
        let received = connection.stream.read_ahead();
        if connection.stream.ahead_bytes() == 0 {
            // No bytes arrived: it releases its memory, so that it does not delay other
            // connections.
            self.held.release_ahead(token);
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

    /// Makes the connections that wait for memory ask again.
    #[inline]
    pub(super) fn retry_read_ahead(&mut self) {
        for token in self.ahead_queue.take_due(self.now_ms).into_iter().flatten() {
            let Some(slot) = self.table.slot(token) else {
                continue;
            };
            if let Some(connection) = self.table.get_mut(slot) {
                connection.awaits_memory = false;
                self.enqueue(slot);
            }
        }
    }

    /// Ends a connection whose pipeline does not fit into the client memory, or has waited for it
    /// too long, with an error after the pending replies.
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
        self.teardowns.add_buffers(chunks);
        self.held.release_ahead(token);
        self.refuse(slot, Refusal::Pipeline);
    }
}

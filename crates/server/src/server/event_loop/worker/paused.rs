//! Paused: connections whose next request waits for the end of a pause.
//!
//! Such a connection does nothing until then: received bytes stay in its buffer, later ones in the
//! socket buffer. After the pause all of them queue behind the ready connections.
//!
//! Tests: tests/pause.rs.

use cellar_engine::Instant;
use cellar_shared::clients::pause::Pause;

use super::Worker;

/// The waiting connections.
#[derive(Debug, Default)]
pub(super) struct PausedLinks {
    tokens: Vec<u64>,
    /// The pause in force when the first of them began to wait.
    word: u64,
}

impl PausedLinks {
    /// Adds a connection, which does not wait yet.
    pub(super) fn add(&mut self, token: u64, pause: &Pause) {
        if self.tokens.is_empty() {
            self.word = pause.word();
        }
        self.tokens.push(token);
        pause.note_held(1);
    }

    /// Time until the pause ends; `u32::MAX` if no connection waits.
    pub(super) fn wait_ms(&self, pause: &Pause, now_ms: u64) -> u32 {
        if self.tokens.is_empty() {
            return u32::MAX;
        }
        u32::try_from(pause.left_ms(Instant(now_ms))).unwrap_or(u32::MAX)
    }

    /// All of them, if their pause has ended.
    #[cold]
    fn take_if_over(&mut self, pause: &Pause, now_ms: u64) -> Vec<u64> {
        let is_in_force = pause.in_force(Instant(now_ms)).is_some();
        if is_in_force && pause.word() == self.word {
            return Vec::new();
        }
        std::mem::take(&mut self.tokens)
    }
}

impl Worker {
    /// Whether a pause holds back the request that a connection is receiving.
    pub(super) fn holds_transfer(&mut self, slot: u32) -> bool {
        let paused = self.common.state.pause.in_force(Instant(self.now_ms));
        let connection = self.table.get_mut(slot);
        paused.is_some_and(|paused| {
            connection.is_some_and(|connection| paused.holds(connection.link.transfer_effect()))
        })
    }

    /// Makes a connection wait for the end of the pause.
    pub(super) fn hold(&mut self, slot: u32) {
        let token = self.table.token(slot);
        if let Some(connection) = self.table.get_mut(slot)
            && !std::mem::replace(&mut connection.is_held, true)
        {
            self.waiting.add(token, &self.common.state.pause);
        }
    }

    /// Resumes all waiting connections if their pause has ended; a new pause stops them again.
    #[inline]
    pub(super) fn release_waiting(&mut self) {
        if self.waiting.tokens.is_empty() {
            return;
        }
        let pause = &self.common.state.pause;
        let tokens = self.waiting.take_if_over(pause, self.now_ms);
        let mut released = 0;
        for token in tokens {
            let Some(slot) = self.table.slot(token) else {
                continue;
            };
            if let Some(connection) = self.table.get_mut(slot)
                && std::mem::take(&mut connection.is_held)
            {
                released += 1;
                connection.active_ms = self.now_ms;
                connection.start_transfer(self.now_ms);
                self.enqueue(slot);
            }
        }
        self.common.state.pause.note_released(released);
    }
}

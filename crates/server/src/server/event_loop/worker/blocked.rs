//! Blocked: connections in a blocking command.
//!
//! Such a connection reads and executes nothing until its command is answered: by the client that
//! stores the value, or by its own loop at the time-out. If the peer shuts down its side, or the
//! server drains, the connection is removed without an answer.
//!
//! Why: docs/decisions/0046. Tests: tests/resp_waits.rs.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellar_execute::{Context, serve};
use cellar_shared::clients::waiters::{WaitEnd, Waiter};
use cellar_shared::state::State;

use super::Worker;

/// Waits that one iteration ends at their time-out, and the keys of these waits.
const ENDS_MAX: usize = 256;
const ENDED_KEYS_MAX: usize = 4_096;

/// The waits of a loop's blocked connections.
pub(super) struct Waits {
    state: Arc<State>,
    /// The loop's index.
    index: usize,
    /// Slots, by the moment of the time-out in engine milliseconds and the waiter's number.
    slots: BTreeMap<(u64, u64), u32>,
}

impl Waits {
    /// None yet, for the loop with this index.
    pub(super) fn new(state: Arc<State>, index: usize) -> Waits {
        Waits {
            state,
            index,
            slots: BTreeMap::new(),
        }
    }

    fn add(&mut self, waiter: &Waiter, slot: u32) {
        if let Some(until_ms) = waiter.request.until_ms {
            self.slots.insert((until_ms, waiter.number), slot);
        }
    }

    fn remove(&mut self, waiter: &Waiter) {
        if let Some(until_ms) = waiter.request.until_ms {
            self.slots.remove(&(until_ms, waiter.number));
        }
    }

    /// How long nothing of this is due.
    pub(super) fn wait_ms(&self, now_ms: u64) -> u64 {
        let first = self.slots.first_key_value();
        // A wait may last until the end of the millisecond that it names.
        first.map_or(u64::MAX, |(&(until_ms, _), _)| {
            (until_ms + 1).saturating_sub(now_ms)
        })
    }

    /// The slot of a connection whose wait has timed out.
    fn due(&self, now_ms: u64) -> Option<u32> {
        let (&(until_ms, _), &slot) = self.slots.first_key_value()?;
        (until_ms < now_ms).then_some(slot)
    }

    /// Removes a waiter from the queues of its keys.
    fn forget(&mut self, waiter: &Arc<Waiter>) {
        self.remove(waiter);
        let _pass = self.state.exclusive_lock.enter(self.index);
        self.state.observer.unwait(waiter);
    }

    /// The same, but leaves its entries in the queues of its keys, where they are ignored.
    pub(super) fn dismiss(&mut self, waiter: &Waiter) {
        self.remove(waiter);
        let _pass = self.state.exclusive_lock.enter(self.index);
        self.state.observer.dismiss(waiter);
    }

    /// Ends a wait at its time-out, unless it was answered.
    fn time_out(&mut self, waiter: &Arc<Waiter>) {
        self.remove(waiter);
        let _pass = self.state.exclusive_lock.enter(self.index);
        self.state.observer.end_wait(waiter, WaitEnd::TimeOut);
    }
}

impl Worker {
    /// Blocks a connection whose command waits.
    #[cold]
    pub(super) fn rest(&mut self, slot: u32) {
        let is_draining = self.timers.is_draining();
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let Some(waiter) = &connection.waiter else {
            return;
        };
        connection.is_parked = true;
        self.waits.add(waiter, slot);
        if connection.stream.is_leaving() {
            self.close(slot);
        } else if is_draining {
            self.end_rest(slot);
        }
    }

    /// Resumes a connection whose command was answered.
    #[cold]
    pub(super) fn take_answer(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let answer = connection
            .waiter
            .as_ref()
            .map(|waiter| waiter.take_answer());
        let (Some(Some(answer)), Some(waiter)) = (answer, &connection.waiter) else {
            return;
        };
        self.waits.remove(waiter);
        connection.waiter = None;
        connection.is_parked = false;
        connection.active_ms = self.now_ms;
        connection.output.borrow_buffer(&mut self.spares);
        connection.output.bytes().extend_from_slice(&answer);
        self.line_up(slot);
    }

    /// Ends a blocked connection: it is answered only if another client has served it already.
    #[cold]
    pub(super) fn end_rest(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let Some(waiter) = connection.waiter.take() else {
            return;
        };
        self.waits.forget(&waiter);
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if let Some(answer) = waiter.take_answer() {
            connection.output.borrow_buffer(&mut self.spares);
            connection.output.bytes().extend_from_slice(&answer);
        }
        connection.end_after_output();
        self.flush(slot);
    }

    /// Answers blocked connections at their time-out, some in each iteration.
    #[inline]
    pub(super) fn end_waits(&mut self) {
        let mut keys = 0;
        for _ in 0..ENDS_MAX {
            let Some(slot) = self.waits.due(self.now_ms) else {
                return;
            };
            keys += self.time_out_wait(slot);
            if keys >= ENDED_KEYS_MAX {
                return;
            }
        }
    }

    /// Answers one at its time-out; returns the number of its keys.
    #[cold]
    fn time_out_wait(&mut self, slot: u32) -> usize {
        let connection = self.table.get_mut(slot);
        let Some(waiter) = connection.and_then(|connection| connection.waiter.clone()) else {
            return 0;
        };
        self.waits.time_out(&waiter);
        // By whomever it was answered.
        self.take_answer(slot);
        waiter.request.keys.len()
    }

    /// Serves the blocked clients that an earlier iteration had no time for.
    #[cold]
    pub(super) fn serve_waiters(&mut self) {
        let pass = self.common.state.exclusive_lock.enter(self.index);
        serve(Context::new(&self.common.state, &self.counters, &pass));
        drop(pass);
        self.deliver();
    }
}

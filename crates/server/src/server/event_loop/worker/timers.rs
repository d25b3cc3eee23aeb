//! Timers: the timed work of an event loop.
//!
//! Time-outs are exact to a second: once a second a loop checks each of its connections, some in
//! each iteration, so that neither their number nor many closes at once make an iteration long. The
//! first loop also records the load. A drain begins here and ends here.

use std::sync::atomic::Ordering;

use cellar_execute::Context;
use cellar_net::listener::peer_address;
use cellar_shared::observe::rates::Sample;
use cellar_shared::state::State;

use super::Worker;
use super::login_time::is_login_overdue;
use crate::server::event_loop::connection::{Connection, Ending};

/// How often the first loop samples the counters.
const TICK_MS: u64 = 100;
/// How often connections are checked.
const SWEEP_MS: u64 = 1_000;
/// Connections that are checked in one iteration.
const LOOKS_MAX: u32 = 512;
/// Connections that one iteration closes at their time-out; each takes the system some ten
/// microseconds.
const CLOSES_MAX: usize = 32;
/// How often they are checked while the server drains.
const DRAIN_SWEEP_MS: u64 = 50;
/// Longest time that a finished connection waits for the peer to close.
pub(super) const LINGER_MS: u64 = 1_000;
/// Longest time that a draining server reads requests that were already sent.
const DRAIN_READ_MS: u64 = 1_000;
/// Time-out of transfers while they hold too much of the cache.
const SHORT_WRITE_TIMEOUT_MS: u64 = 1_000;

/// Shortest time between two log lines of one kind.
const REPORT_MS: u64 = 60_000;

/// Events of one kind that were not logged yet.
#[derive(Debug, Default)]
pub(super) struct Report {
    count: u64,
    next_ms: u64,
}

impl Report {
    /// Counts an event. Returns the number since the last log line if another line is due: one a
    /// minute.
    pub(super) fn note(&mut self, now_ms: u64) -> Option<u64> {
        self.count += 1;
        if now_ms < self.next_ms {
            return None;
        }
        self.next_ms = now_ms + REPORT_MS;
        Some(std::mem::take(&mut self.count))
    }
}

/// When what is due.
#[derive(Debug)]
pub(super) struct Timers {
    tick_ms: u64,
    sweep_ms: u64,
    /// The current check of all connections.
    sweep: Option<Sweep>,
    drain: Option<Drain>,
}

/// A check of all connections, some in each iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sweep {
    /// The first slot that was not checked.
    next: u32,
    /// Whether transfers have a shorter time-out.
    is_short: bool,
    /// Bytes of buffers that were found so far.
    buffer_bytes: usize,
}

/// A drain in progress.
#[derive(Clone, Copy, Debug)]
struct Drain {
    read_until_ms: u64,
    until_ms: u64,
}

impl Timers {
    pub(super) fn starting_at(now_ms: u64) -> Timers {
        Timers {
            tick_ms: now_ms + TICK_MS,
            sweep_ms: now_ms + SWEEP_MS,
            sweep: None,
            drain: None,
        }
    }

    /// How long the loop may sleep.
    pub(super) fn wait_ms(&self, now_ms: u64) -> u32 {
        if self.sweep.is_some() {
            return 0;
        }
        u32::try_from(self.tick_ms.min(self.sweep_ms).saturating_sub(now_ms)).unwrap_or(u32::MAX)
    }

    pub(super) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Whether the drain of a loop with so many connections has ended.
    pub(super) fn is_done(&self, connections: usize, now_ms: u64) -> bool {
        self.drain
            .is_some_and(|drain| connections == 0 || drain.until_ms <= now_ms)
    }

    /// Samples the counters, in the first loop.
    fn tick(&mut self, index: usize, state: &State, now_ms: u64) {
        if index > 0 {
            self.tick_ms = now_ms + SWEEP_MS;
            return;
        }
        let totals = state.statistics.totals();
        let (cycles, busy_us) = state.statistics.loop_work();
        state.records.pace.note(Sample {
            at_ms: now_ms,
            commands: state.statistics.calls().iter().sum(),
            bytes_read: totals.bytes_read,
            bytes_written: totals.bytes_written,
            cycles,
            busy_us,
        });
        self.tick_ms = now_ms + TICK_MS;
    }

    /// Begins a check of all connections, if one is due.
    #[inline]
    fn begin_sweep(&mut self, state: &State, spares: &[Vec<u8>], now_ms: u64) {
        if self.sweep.is_some() || self.sweep_ms > now_ms {
            return;
        }
        self.sweep = Some(Sweep {
            next: 0,
            is_short: state.is_short_of_memory(),
            buffer_bytes: spares.iter().map(Vec::capacity).sum(),
        });
        self.sweep_ms = now_ms
            + match self.is_draining() {
                true => DRAIN_SWEEP_MS,
                false => SWEEP_MS,
            };
    }

    /// Whether the server drains and no longer reads what was sent before.
    fn reads_no_more(&self, now_ms: u64) -> bool {
        self.drain
            .is_some_and(|drain| drain.read_until_ms <= now_ms)
    }

    /// Whether a connection has been idle for so long that its client expects a close.
    pub(super) fn is_idle(&self, connection: &Connection, now_ms: u64) -> bool {
        self.drain.is_some()
            && connection.leftover.is_empty()
            && connection.active_ms + LINGER_MS < now_ms
    }
}

impl Worker {
    /// Does what is due.
    #[inline]
    pub(super) fn run_timers(&mut self) {
        if self.timers.tick_ms <= self.now_ms {
            let state = &self.common.state;
            self.timers.tick(self.index, state, self.now_ms);
        }
        self.end_waits();
        let state = &self.common.state;
        self.timers.begin_sweep(state, &self.spares, self.now_ms);
        if let Some(sweep) = self.timers.sweep {
            self.timers.sweep = self.sweep_on(sweep);
        }
    }

    /// Checks some more connections; returns the rest of the sweep, if any.
    fn sweep_on(&mut self, mut sweep: Sweep) -> Option<Sweep> {
        let slots = self.table.slots().end;
        let connections = self.table.len();
        let until = slots.min(sweep.next + LOOKS_MAX);
        while sweep.next < until {
            let slot = sweep.next;
            sweep.next += 1;
            let connection = self.table.get_mut(slot);
            sweep.buffer_bytes += connection.map_or(0, |connection| connection.buffer_bytes());
            self.check_time(slot, sweep.is_short);
            if connections - self.table.len() == CLOSES_MAX {
                return Some(sweep);
            }
        }
        if until < slots {
            return Some(sweep);
        }
        self.counters
            .load
            .set_buffer_bytes(sweep.buffer_bytes as u64);
        self.keep_to_budget();
        None
    }

    /// Closes a connection at its time-out.
    fn check_time(&mut self, slot: u32, is_short: bool) {
        let now_ms = self.now_ms;
        let settings = &self.common.state.settings;
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        match connection.ending {
            Ending::Linger { until_ms } if until_ms <= now_ms => return self.close(slot),
            Ending::AfterRequests
                if self.timers.reads_no_more(now_ms) && connection.is_through() =>
            {
                connection.end_after_output();
                return self.try_to_end(slot);
            }
            _ => {}
        }
        if connection.has_lost_user(&self.common.state) {
            return self.close(slot);
        }
        let patience_ms = if is_short && connection.noted.cached > 0 {
            settings.write_timeout_ms.min(SHORT_WRITE_TIMEOUT_MS)
        } else {
            settings.write_timeout_ms
        };
        if connection.is_in_transfer() && connection.progress_ms + patience_ms <= now_ms {
            self.counters.connections_slow_closed.add(1);
            if let Some(closed) = self.slow_report.note(now_ms) {
                tracing::warn!(
                    closed,
                    peer = peer_address(&connection.stream),
                    patience_ms,
                    "closed a connection: its client stopped amid a request or a reply"
                );
            }
            return self.give_up(slot);
        }
        if is_login_overdue(connection, settings.login_timeout_ms, now_ms) {
            self.counters.connections_login_closed.add(1);
            return self.close(slot);
        }
        // Relaxed: a setting that orders nothing.
        let idle_s = self.common.state.idle_timeout_s.load(Ordering::Relaxed);
        let idle_ms = idle_s.saturating_mul(1_000);
        if idle_ms > 0
            && connection.ending == Ending::No
            && !connection.is_held
            && connection.output.is_empty()
            && connection.active_ms + idle_ms <= now_ms
            && !connection.awaits_others()
        {
            self.counters.connections_idle_closed.add(1);
            self.close(slot);
        }
    }

    /// Ends a connection whose transfer takes too long; a client that was only slow to send gets an
    /// error, if its protocol has one.
    #[cold]
    fn give_up(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.awaits_memory && connection.ending == Ending::No {
            return self.refuse_pipeline(slot);
        }
        if connection.blocked || connection.ending != Ending::No {
            return self.close(slot);
        }
        let pass = self.common.state.exclusive_lock.enter(self.index);
        let context = Context::new(&self.common.state, &self.counters, &pass);
        let is_told = connection.link.time_out(context, &mut connection.output);
        drop(pass);
        if !is_told {
            return self.close(slot);
        }
        connection.end_after_output();
        self.flush(slot);
    }

    /// Stops accepting; every connection ends after the requests it has sent so far.
    pub(super) fn begin_drain(&mut self) {
        let drain_ms = self.common.state.settings.drain_timeout_ms;
        self.common.state.run.begin_drain();
        // Requests received before are answered.
        self.common.state.pause.end();
        self.timers.drain = Some(Drain {
            read_until_ms: self.now_ms + DRAIN_READ_MS.min(drain_ms / 2),
            until_ms: self.now_ms + drain_ms,
        });
        self.timers.sweep_ms = self.now_ms;
        self.common.acceptor_waker.wake();
        for slot in self.table.slots() {
            self.begin_ending(slot);
        }
    }

    /// Lets a connection end after its received requests.
    pub(super) fn begin_ending(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.waiter.is_some() {
            return self.end_rest(slot);
        }
        if connection.ending == Ending::No {
            connection.ending = Ending::AfterRequests;
            connection.stream.look_again();
        }
        self.enqueue(slot);
    }

    /// Ends a draining connection once nothing of it is left, or moves it to a new process.
    #[inline]
    pub(super) fn end_if_drained(&mut self, slot: u32) {
        if self.handing_over.is_under_way() && self.try_to_move(slot) {
            return;
        }
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.ending == Ending::AfterRequests && connection.is_through() {
            if connection.is_waiting && self.handing_over.waits_for_rest(self.now_ms) {
                return;
            }
            // Requests read before are answered, however slowly the client reads.
            let is_over = self.timers.reads_no_more(self.now_ms);
            if is_over || !connection.stream.is_readable() {
                connection.end_after_output();
            }
        }
        self.try_to_end(slot);
    }
}

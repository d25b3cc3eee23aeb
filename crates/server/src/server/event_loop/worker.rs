//! Worker: one event loop, on its own thread, with its own connections and the shared cache.
//!
//! An iteration: wait for edges; take new connections; serve ready connections in phases: read,
//! decode, execute, write ([`serve`]); then run what is due ([`timers`]). A connection with more
//! than its share continues in the next iteration, behind the newly ready ones ([`run_queue`]).
//!
//! Limits: requests of one iteration live in the arena; unread replies stop a connection's requests
//! ([`Output::is_full`](cellar_net::output::Output::is_full)); an iteration reads once from a
//! socket.

mod table;
mod batch;
mod steps;
mod share; // what a connection may do in one iteration
mod run_queue;
mod held; // the bytes that clients hold
mod client_eviction;
mod paused; // connections that wait for the end of a pause
mod read_ahead; // pipelines whose replies wait
mod receive;
mod login_time; // unauthenticated connections and their time limit
mod blocked; // connections whose command waits for a value
mod serve;
mod timers;
mod hand_over; // connections that go to a new process
mod teardown; // what takes long to be taken apart of connections that have ended

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cellar_config::limits::SPARE_BUFFERS_MAX;
use cellar_config::protocol::PerProtocol;
use cellar_engine::{Instant, mark_waits_in};
use cellar_execute::Link;
use cellar_net::listener::{peer_uid, told_of};
use cellar_net::mailbox::{Arrival, Mailbox};
use cellar_net::output::Written;
use cellar_shared::auth::login_limiter::Source;
use cellar_shared::clients::tracking;
use cellar_shared::observe::counters::Counters;
use cellar_shared::observe::latency_events::LatencyEvent;
use cellar_shared::state::State;
use cellar_system::clock::LoopClock;
use cellar_system::poller::{Interest, Poller, Ready, Waker};
use rustix::io::Errno;

use self::batch::Batch;
use self::run_queue::RunQueue;
use self::table::ConnectionTable;
use crate::server::event_loop::connection::{Connection, Ending};
use crate::upgrade::client_handover::ClientHandover;

/// Token of the mailbox's waker; a connection's slot is far below.
const WAKE_TOKEN: u64 = u64::MAX;
/// New connections taken over in one iteration.
const ARRIVALS_MAX: usize = 64;
/// Inboxes emptied in one iteration; each takes a write, or the end of a connection.
const DELIVERIES_MAX: usize = 256;

/// State shared by all workers.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) state: Arc<State>,
    pub(crate) mailboxes: Arc<Vec<Mailbox>>,
    pub(crate) client_handover: Arc<ClientHandover>,
    pub(crate) clock: LoopClock,
    /// Wakes the acceptor.
    pub(crate) acceptor_waker: Arc<Waker>,
}

/// One event loop.
pub(crate) struct Worker {
    index: usize,
    common: Common,
    counters: Arc<Counters>,
    poller: Poller,
    table: ConnectionTable,
    /// The connections with something to do.
    run_queue: RunQueue,
    /// The connections that wait for the end of a pause.
    waiting: paused::PausedLinks,
    batch: Batch,
    /// Connections with messages in their inboxes, beyond those that one iteration empties.
    calls: Vec<u64>,
    /// Empty reply buffers.
    spares: Vec<Vec<u8>>,
    /// What its connections hold.
    held: held::LoopHeld,
    /// Connections that wait for memory to read more ahead.
    ahead_queue: read_ahead::AheadQueue,
    /// Log reports: refused pipelines, and clients that stopped within a request or a reply.
    pipeline_report: timers::Report,
    slow_report: timers::Report,
    /// Log report: connections closed by client eviction.
    client_eviction_report: client_eviction::ClientEvictionReport,
    /// Requests answered in this iteration.
    answered: PerProtocol<u64>,
    now_ms: u64,
    /// When the iteration began, in microseconds.
    began_us: u64,
    /// Inboxes that may still be emptied in this iteration.
    deliveries_left: usize,
    timers: timers::Timers,
    waits: blocked::Waits,
    handing_over: hand_over::HandingOver,
    teardowns: teardown::Teardowns,
}

impl Worker {
    /// The loop with this index.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub(crate) fn new(index: usize, common: Common) -> Result<Worker, Errno> {
        let poller = Poller::new()?;
        poller.add(&common.mailboxes[index].waker, WAKE_TOKEN, Interest::Reads)?;
        let counters = Arc::clone(&common.state.statistics.loops[index]);
        let now_ms = common.clock.refresh().0;
        Ok(Worker {
            index,
            counters,
            poller,
            table: ConnectionTable::default(),
            run_queue: RunQueue::default(),
            waiting: paused::PausedLinks::default(),
            batch: Batch::new(),
            calls: Vec::new(),
            spares: Vec::new(),
            held: held::LoopHeld::new(Arc::clone(&common.state.budget), index),
            ahead_queue: read_ahead::AheadQueue::default(),
            pipeline_report: timers::Report::default(),
            slow_report: timers::Report::default(),
            client_eviction_report: client_eviction::ClientEvictionReport::default(),
            answered: PerProtocol::default(),
            now_ms,
            began_us: 0,
            deliveries_left: DELIVERIES_MAX,
            timers: timers::Timers::starting_at(now_ms),
            waits: blocked::Waits::new(Arc::clone(&common.state), index),
            handing_over: hand_over::HandingOver::default(),
            teardowns: teardown::Teardowns::new(Arc::clone(&common.state), index),
            common,
        })
    }

    /// Runs the loop until the drain has ended.
    ///
    /// # Errors
    /// The system's, when waiting for sockets fails, which it does not.
    pub(crate) fn run(mut self) -> Result<(), Errno> {
        mark_waits_in(self.common.state.exclusive_lock.claim_mark(self.index));
        while !self.timers.is_done(self.table.len(), self.now_ms) {
            let timeout_ms = self.wait_ms();
            let count = self.poller.wait(timeout_ms)?;
            self.counters.pulse.beat();
            let (now, began_us) = self.common.clock.refresh_us();
            (self.now_ms, self.began_us) = (now.0, began_us);
            self.deliveries_left = DELIVERIES_MAX;
            tracking::begin_turn();
            self.release_waiting();
            self.retry_read_ahead();
            let has_work = count > 0 || !self.run_queue.is_empty();
            for index in 0..count {
                self.dispatch(self.poller.ready(index));
            }
            self.serve();
            if self.common.state.observer.waiters.is_ready() {
                self.serve_waiters();
            }
            if !self.calls.is_empty() {
                self.deliver();
            }
            if has_work {
                self.note_turn();
            }
            self.run_timers();
            self.teardowns.take_apart();
            if self.handing_over.is_under_way() {
                self.go_on_handing_over();
            }
            self.counters.pulse.beat();
        }
        self.close_all();
        Ok(())
    }

    /// How long the loop may sleep.
    fn wait_ms(&self) -> u32 {
        let is_ready = self.common.state.observer.waiters.is_ready();
        let is_idle = self.run_queue.is_empty() && self.calls.is_empty();
        if !is_idle || is_ready || !self.teardowns.is_empty() {
            return 0;
        }
        let waits_ms = self.waits.wait_ms(self.now_ms);
        let waits_ms = u32::try_from(waits_ms).unwrap_or(u32::MAX);
        self.timers
            .wait_ms(self.now_ms)
            .min(waits_ms)
            .min(self.waiting.wait_ms(&self.common.state.pause, self.now_ms))
            .min(self.ahead_queue.wait_ms(self.now_ms))
            .min(self.handing_over.wait_ms())
    }

    /// Counts the requests that an iteration has answered, and its duration.
    #[inline]
    fn note_turn(&mut self) {
        let us = self.common.clock.us().saturating_sub(self.began_us);
        let answered = std::mem::take(&mut self.answered);
        self.counters.load.note_turn(&answered, us);
        let state = &self.common.state;
        state
            .records
            .latency_events
            .note(LatencyEvent::Turn, us, || {
                state.wall.unix_ms(Instant(self.now_ms)) / 1_000
            });
    }

    fn mailbox(&self) -> &Mailbox {
        &self.common.mailboxes[self.index]
    }

    fn dispatch(&mut self, ready: Ready) {
        if let Some(slot) = self.table.slot(ready.token) {
            return self.note_edge(slot, ready);
        }
        if ready.token == WAKE_TOKEN {
            self.open_mailbox();
        }
    }

    #[inline]
    fn note_edge(&mut self, slot: u32, ready: Ready) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        connection.stream.note_edge(&ready);
        let has_left = connection.is_held && connection.stream.is_leaving();
        if has_left || connection.is_parked && connection.is_deserted() {
            return self.close(slot);
        }
        connection.note_leaving();
        if ready.writable && connection.blocked {
            self.flush(slot);
        }
        if self.table.mark_queued(slot) {
            self.run_queue.push_fresh(slot);
        }
    }

    /// Queues a connection that has something left to do.
    #[inline]
    fn enqueue(&mut self, slot: u32) {
        if self.table.mark_queued(slot) {
            self.run_queue.push(slot);
        }
    }

    /// Takes over new connections, and notices the drain.
    fn open_mailbox(&mut self) {
        for arrivals in 0.. {
            if arrivals == ARRIVALS_MAX {
                // The others follow in the next iteration; a drain begins only after them.
                return self.mailbox().waker.wake();
            }
            let Some(arrival) = self.mailbox().take() else {
                break;
            };
            self.take_over(arrival);
        }
        self.deliver();
        self.let_give_way();
        if self.mailbox().was_asked_to_evict() {
            self.evict_clients();
        }
        self.note_handover();
        if self.mailbox().is_draining() && !self.timers.is_draining() {
            self.begin_drain();
        }
    }

    /// Creates a connection from a new arrival.
    fn take_over(&mut self, arrival: Arrival) {
        // A client that returns from a failed hand-over is posted after the hand-over has ended.
        self.note_handover();
        let Arrival {
            stream,
            protocol,
            peer,
            setup,
        } = arrival;
        let (slot, token) = self.table.next();
        if let Err(errno) = self.poller.add(&stream, token, stream.first_interest()) {
            tracing::warn!(error = %errno, "cannot add a connection");
            self.counters.accept_failures.add(1);
            return self.forget();
        }
        let Common {
            state, mailboxes, ..
        } = &self.common;
        let home = (Arc::clone(mailboxes), self.index, token);
        let source = Source::of(&told_of(&peer, peer_uid(&stream)));
        let mut link = Link::new(protocol, (peer, &stream), home, self.now_ms, state);
        let is_restored = setup.is_empty() || link.restore(&setup, state);
        let mut connection = Connection::new(stream, link, self.now_ms);
        connection.source = source;
        if !is_restored {
            // The settings of this process have no such database.
            connection.end_after_output();
        }
        self.table.fill(connection);
        self.note_unauthenticated(slot);
        self.counters.load.note_opened(protocol);
        if self.timers.is_draining() {
            self.begin_ending(slot);
        } else if self.handing_over.is_under_way() {
            self.hand_over(slot);
        }
        // Its first requests may have come with its handshake.
        self.enqueue(slot);
    }

    /// Writes the pending replies of a connection, and continues its end after the last of them.
    fn flush(&mut self, slot: u32) {
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        let written = connection.output.write_to(&mut connection.stream);
        if let Written::All(bytes) | Written::Some(bytes) | Written::Enough(bytes) = written {
            self.counters.bytes_written.add(bytes as u64);
            connection.note_sent(bytes);
        }
        match written {
            Written::All(_) => {
                connection.blocked = false;
                connection
                    .output
                    .return_buffer(&mut self.spares, SPARE_BUFFERS_MAX);
            }
            Written::Some(bytes) => self.block(slot, bytes),
            Written::Enough(_) => self.write_on_later(slot),
            Written::Gone => return self.close(slot),
        }
        self.note_held(slot);
        self.try_to_end(slot);
    }

    /// Serves the other connections before more is written to this one.
    #[cold]
    fn write_on_later(&mut self, slot: u32) {
        let now_ms = self.now_ms;
        if let Some(connection) = self.table.get_mut(slot) {
            connection.blocked = false;
            connection.start_transfer(now_ms);
            connection.unsent = true;
            if !std::mem::replace(&mut connection.queued, true) {
                self.run_queue.push(slot);
            }
        }
    }

    /// Waits for the client to take its replies.
    fn block(&mut self, slot: u32, written: usize) {
        let token = self.table.token(slot);
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.blocked {
            connection.note_moved(written, self.now_ms);
            return;
        }
        connection.blocked = true;
        connection.start_transfer(self.now_ms);
        self.counters.output_pauses.add(1);
        if !connection.watches_room {
            connection.watches_room = true;
            let interest = Interest::ReadsAndWrites;
            if self
                .poller
                .modify(&connection.stream, token, interest)
                .is_err()
            {
                self.close(slot);
            }
        }
    }

    /// Ends a connection whose last reply is written.
    #[inline]
    fn try_to_end(&mut self, slot: u32) {
        let now_ms = self.now_ms;
        let Some(connection) = self.table.get_mut(slot) else {
            return;
        };
        if connection.ending != Ending::AfterOutput || !connection.output.is_empty() {
            return;
        }
        if connection.stream.has_ended() || self.timers.is_idle(connection, now_ms) {
            return self.close(slot);
        }
        connection.stream.end_writing();
        connection.ending = Ending::Linger {
            until_ms: now_ms + timers::LINGER_MS,
        };
        connection.stream.look_again();
        self.enqueue(slot);
    }

    /// Closes a connection and frees all it held, at once or in pieces.
    fn close(&mut self, slot: u32) {
        // A reply written in this iteration is not counted yet.
        self.note_held(slot);
        if let Some(connection) = self.take_out(slot) {
            self.teardowns.add(connection);
        }
    }

    /// Removes a connection from the table and from all lists.
    fn take_out(&mut self, slot: u32) -> Option<Connection> {
        let token = self.table.token(slot);
        let mut connection = self.table.remove(slot)?;
        if connection.is_held {
            self.common.state.pause.note_released(1);
        }
        self.forget_held(&connection);
        if connection.noted_ahead_bytes > 0 {
            self.held.release_ahead(token);
        }
        if let Some(number) = connection.unauthenticated.take() {
            self.common.state.access.unauthenticated.leave(number);
        }
        let protocol = connection.link.protocol();
        self.counters.load.note_closed(protocol);
        connection.link.end(&self.common.state);
        if let Some(waiter) = &connection.waiter {
            self.waits.dismiss(waiter);
        }
        self.forget();
        Some(connection)
    }

    /// Counts one connection less.
    fn forget(&self) {
        self.mailbox().note_closed();
        // Relaxed: a count that orders nothing.
        self.common
            .state
            .connections
            .fetch_sub(1, Ordering::Relaxed);
    }

    fn close_all(&mut self) {
        for slot in self.table.slots() {
            self.close(slot);
        }
    }
}

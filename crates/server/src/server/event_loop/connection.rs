//! Connection: one client connection, and the state of its requests and replies.
//!
//! An idle connection holds no buffer: requests are read into the event loop's arena, only an
//! incomplete one stays here; replies live in a borrowed buffer until they are written; a large
//! value is received straight into the cache's memory.
//!
//! ```text
//!            edge, backlog                  peer's end, quit, error, drain
//!  waiting ----------------> ready ----------------------> Ending::AfterOutput
//!     ^                        |                                   | all written
//!     +------------------------+                                   v
//!       all read and executed             closed <-------- Ending::Linger
//! ```

use std::sync::Arc;

use cellar_config::limits::{LONG_READ_BYTES_MAX, LONG_REQUEST_BYTES_MIN, READ_BYTES_MAX};
use cellar_engine::HeldMark;
use cellar_execute::{Context, Flow, Link, Unfinished};
use cellar_net::mailbox::ClientSetup;
use cellar_net::output::{Allocated, Output};
use cellar_net::stream::Stream;
use cellar_shared::auth::login_limiter::Source;
use cellar_shared::auth::users::Ticket;
use cellar_shared::auth::wrong_protocol::Beginning;
use cellar_shared::clients::budget::Held;
use cellar_shared::clients::client::Client;
use cellar_shared::clients::waiters::Waiter;
use cellar_shared::state::State;
use cellar_system::poller::Interest;

/// Bytes that have to move within one write time-out for a transfer to count as progressing.
const PROGRESS_BYTES_MIN: usize = 16 << 10;

/// How the next received bytes are used, unless the link receives a request itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Input {
    /// Requests.
    #[default]
    Requests,
    /// So many bytes of a refused value.
    Skip(usize),
    /// More of a long request, which begins in the leftover buffer.
    Frame,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Not yet.
    No,
    /// After all requests that were received: the server drains.
    AfterRequests,
    /// As soon as all replies are written.
    AfterOutput,
    /// Nothing more is written; received bytes are discarded until the peer closes or this moment
    /// comes. Closing at once would reset the connection and could lose the last replies.
    Linger {
        /// The moment, in engine milliseconds.
        until_ms: u64,
    },
}

/// One client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// The protocol, and its state for this connection.
    pub(crate) link: Link,
    /// The incomplete request, or requests that wait until the output is not full.
    pub(crate) leftover: Vec<u8>,
    /// Whether `leftover` may hold a complete request.
    pub(crate) backlog: bool,
    /// Whether the rest of a request is awaited.
    pub(crate) is_waiting: bool,
    pub(crate) input: Input,
    /// The ticket that its request waits for, until its loop has registered for the wake-up.
    pub(crate) waits_for: Option<Arc<Ticket>>,
    /// The login whose result it waits for.
    pub(crate) login: Option<Arc<Ticket>>,
    /// The waiter of its blocking command, until it is answered.
    pub(crate) waiter: Option<Arc<Waiter>>,
    /// Whether it is parked until another thread wakes its loop for it.
    pub(crate) is_parked: bool,
    /// Whether its pipeline waits for memory before more of it is read ahead.
    pub(crate) awaits_memory: bool,
    /// Whether its next request, or the value that it receives, waits for the end of a pause.
    pub(crate) is_held: bool,
    /// The reply that resumes when the output has space, before the next request.
    pub(crate) unfinished: Option<Box<dyn Unfinished>>,
    /// Bytes of the heap that it holds, as the allocator has counted them.
    pub(crate) unfinished_bytes: usize,
    /// Bytes of the cache's values that it keeps pinned between its steps.
    pub(crate) unfinished_pins: usize,
    /// The number of losses of slots when its command began.
    pub(crate) losses: u64,
    pub(crate) output: Output,
    pub(crate) ending: Ending,
    /// The first bytes of the connection, as far as wrong-protocol detection needs them.
    pub(crate) beginning: Beginning,
    /// Whether it is in the loop's run queue.
    pub(crate) queued: bool,
    /// Whether the socket buffer is full; replies wait until it is writable.
    pub(crate) blocked: bool,
    /// Whether replies wait for the next iteration although the stream may be writable.
    pub(crate) unsent: bool,
    /// Whether the poller reports writability.
    pub(crate) watches_room: bool,
    /// When bytes last arrived, in engine milliseconds.
    pub(crate) active_ms: u64,
    /// When the current transfer last made progress.
    pub(crate) progress_ms: u64,
    /// Bytes moved since then.
    pub(crate) moved_bytes: usize,
    /// The bytes that its event loop counts for it.
    pub(crate) noted: Held,
    /// The part of them that was read ahead.
    pub(crate) noted_ahead_bytes: usize,
    /// When its time to log in began, in engine milliseconds, as its event loop has noted it; none
    /// if it has logged in or need not.
    pub(crate) unauthenticated_ms: Option<u64>,
    /// Its number among the unauthenticated connections.
    pub(crate) unauthenticated: Option<u64>,
    /// The source that it connects from.
    pub(crate) source: Source,
}

/// Memory that a thread and a reply held when the execution of a command, or its next step, began.
pub(crate) struct CommandStart {
    held: HeldMark,
    reply: Allocated,
    reply_pins: usize,
}

impl Connection {
    pub(crate) fn new(stream: Stream, link: Link, now_ms: u64) -> Connection {
        let watches_room = stream.first_interest() == Interest::ReadsAndWrites;
        let unauthenticated_ms = link.is_unauthenticated().then_some(now_ms);
        Connection {
            stream,
            link,
            leftover: Vec::new(),
            backlog: false,
            is_waiting: false,
            input: Input::Requests,
            waits_for: None,
            waiter: None,
            is_parked: false,
            awaits_memory: false,
            login: None,
            is_held: false,
            unfinished: None,
            unfinished_bytes: 0,
            unfinished_pins: 0,
            losses: 0,
            output: Output::default(),
            ending: Ending::No,
            beginning: Beginning::default(),
            queued: false,
            blocked: false,
            unsent: false,
            watches_room,
            active_ms: now_ms,
            progress_ms: now_ms,
            moved_bytes: 0,
            noted: Held::default(),
            noted_ahead_bytes: 0,
            unauthenticated_ms,
            unauthenticated: None,
            source: Source::default(),
        }
    }

    /// Bytes of its buffers.
    #[inline]
    pub(crate) fn buffer_bytes(&self) -> usize {
        let leftover = self.leftover.capacity().min(2 * LONG_REQUEST_BYTES_MIN);
        leftover.max(self.leftover.len()) + self.output.buffer_bytes()
    }

    /// Bytes of unwritten replies, and of gathered data for one.
    pub(crate) fn replied_bytes(&self) -> usize {
        self.output.waiting_bytes() + self.unfinished_bytes
    }

    /// Whether it has something to do in its next iteration.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        if self.unsent {
            return true;
        }
        match self.ending {
            Ending::No | Ending::AfterRequests => {
                let has_input = self.stream.is_readable() || !self.is_through();
                let may_run = !self.output.is_full() && !self.is_parked && !self.is_held;
                has_input && may_run || self.reads_ahead()
            }
            // A client that still sends will read its replies later.
            Ending::AfterOutput => self.blocked && self.stream.has_more_ahead(),
            Ending::Linger { .. } => self.stream.is_readable(),
        }
    }

    /// Whether to read further into its pipeline although its replies wait: its client may send all
    /// its requests before it reads.
    #[inline]
    pub(crate) fn reads_ahead(&self) -> bool {
        self.blocked
            && self.output.is_full()
            && self.stream.has_more_ahead()
            && self.ending == Ending::No
            && self.unauthenticated_ms.is_none()
            && !self.awaits_memory
    }

    /// Whether no received request waits to be executed.
    #[inline]
    pub(crate) fn is_through(&self) -> bool {
        !self.backlog && self.unfinished.is_none()
    }

    /// Whether its client waits for a reply of which no byte was sent.
    pub(crate) fn awaits_whole_reply(&self) -> bool {
        let is_asked = self.is_waiting || !self.is_through() || !self.output.is_empty();
        let has_begun = self
            .unfinished
            .as_ref()
            .is_some_and(|rest| rest.has_begun());
        let is_open = self.ending == Ending::No && self.waiter.is_none();
        is_open
            && is_asked
            && !has_begun
            && self.output.is_unsent()
            && self.unauthenticated_ms.is_none()
    }

    /// Returns the state that another process needs to continue this connection. None if it cannot:
    /// a request or a reply is in progress, or the connection has state that is not handed over.
    pub(crate) fn setup_to_move(&mut self, state: &State) -> Option<ClientSetup> {
        let rests = self.waiter.is_some() || self.waits_for.is_some() || self.is_parked;
        let writes = self.unsent || self.blocked || !self.output.is_empty();
        let reads = !self.is_through()
            || !self.leftover.is_empty()
            || self.input != Input::Requests
            || self.is_waiting
            || self.link.makes_room()
            || self.link.transfer().is_some();
        let is_open = matches!(self.ending, Ending::No | Ending::AfterRequests);
        let is_busy = rests || writes || reads || self.is_held;
        let can_move = is_open && !is_busy && self.stream.can_move();
        can_move.then(|| self.link.setup(state))?
    }

    /// Whether the user who sent the current request was deleted since, or has lost permissions.
    pub(crate) fn has_lost_user(&self, state: &State) -> bool {
        self.link.has_lost_sender(state)
            || self.unfinished.is_some() && self.link.has_lost_asker(state)
    }

    /// Whether slots were taken from this node, or its lease ended, since the current request
    /// began. The caller holds the exclusive lock: until then other threads may take slots, and
    /// sweep them.
    pub(crate) fn has_lost_slots(&self, context: Context<'_>) -> bool {
        self.losses != context.state().losses() || !context.is_leased()
    }

    /// Whether the client of a parked connection has disconnected. As in Redis, a blocked client
    /// that has shut down its sending side counts as disconnected.
    pub(crate) fn is_deserted(&self) -> bool {
        self.stream.is_gone() || self.waiter.is_some() && self.stream.is_leaving()
    }

    /// Tells the password checker that the peer has shut down its side, if a login is pending.
    #[inline]
    pub(crate) fn note_leaving(&self) {
        if let Some(login) = &self.login
            && self.stream.is_leaving()
        {
            login.leave();
        }
    }

    /// Whether its replies wait until a refused value has arrived.
    #[inline]
    pub(crate) fn holds_replies(&self) -> bool {
        matches!(self.input, Input::Skip(_))
            && self.ending == Ending::No
            && !self.link.answers_early()
    }

    /// Applies the result of an execution; returns whether the next request has to wait.
    pub(crate) fn follow(&mut self, flow: Flow) -> bool {
        match flow {
            Flow::Continue => return self.output.is_full(),
            Flow::Close => self.end_after_output(),
            Flow::Unfinished(rest) => self.unfinished = Some(rest),
            // The loop has handled the bytes of these.
            Flow::Again | Flow::Feed | Flow::Skip(_) => {}
            Flow::Wait(ticket) => self.waits_for = Some(ticket),
            Flow::Park(waiter) => self.waiter = Some(waiter),
        }
        true
    }

    /// Records the memory of the thread and the reply before a command is executed.
    #[inline]
    pub(crate) fn mark_start(&self) -> CommandStart {
        CommandStart {
            held: HeldMark::now(),
            reply: self.output.allocated(),
            reply_pins: self.output.pinned_bytes(),
        }
    }

    /// Counts what a resumable command has allocated and pinned since, apart from its reply.
    #[cold]
    pub(crate) fn note_unfinished(&mut self, start: &CommandStart) {
        if self.unfinished.is_none() {
            (self.unfinished_bytes, self.unfinished_pins) = (0, 0);
            return;
        }
        let growth = |now: usize, then: usize| now.cast_signed() - then.cast_signed();
        let reply = growth(self.output.allocated().bytes(), start.reply.bytes());
        let heap = start.held.growth() - reply;
        self.unfinished_bytes = self.unfinished_bytes.saturating_add_signed(heap);
        let reply = growth(self.output.pinned_bytes(), start.reply_pins);
        let pins = start.held.pinned_growth() - reply;
        self.unfinished_pins = self.unfinished_pins.saturating_add_signed(pins);
    }

    /// Takes no further request, and closes after the last reply is written.
    pub(crate) fn end_after_output(&mut self) {
        if !matches!(self.ending, Ending::Linger { .. }) {
            self.ending = Ending::AfterOutput;
        }
        self.link.abandon();
        self.input = Input::Requests;
        self.unfinished = None;
        if self.leftover.len() < LONG_REQUEST_BYTES_MIN {
            self.leftover = Vec::new();
        }
        // A long one is freed in pieces when the connection is closed.
        self.backlog = false;
        self.is_waiting = false;
    }

    /// Counts bytes that its client has sent, for listings.
    #[inline]
    pub(crate) fn note_received(&self, bytes: usize) {
        if let Some(client) = self.link.client() {
            client.traffic.note_received(bytes);
        }
    }

    /// Counts bytes sent to its client, for listings.
    #[inline]
    pub(crate) fn note_sent(&self, bytes: usize) {
        if let Some(client) = self.link.client() {
            client.traffic.note_sent(bytes);
        }
    }

    /// Records progress of a transfer.
    pub(crate) fn note_moved(&mut self, bytes: usize, now_ms: u64) {
        self.moved_bytes += bytes;
        if self.moved_bytes >= PROGRESS_BYTES_MIN {
            self.start_transfer(now_ms);
        }
    }

    /// Whether it waits for data from other clients: it is blocked in a command, has subscriptions,
    /// or runs MONITOR. As in Redis, such a connection is never idle.
    pub(crate) fn awaits_others(&self) -> bool {
        let listens = |client: &Client| client.is_subscriber() || client.is_monitor();
        self.waiter.is_some() || self.link.client().is_some_and(listens)
    }

    /// Records that a transfer begins.
    pub(crate) fn start_transfer(&mut self, now_ms: u64) {
        self.moved_bytes = 0;
        self.progress_ms = now_ms;
    }

    /// Whether a transfer waits for the client: unread replies, the rest of a value, or the rest of
    /// a request.
    pub(crate) fn is_in_transfer(&mut self) -> bool {
        let is_receiving = self.input != Input::Requests || self.link.transfer().is_some();
        self.blocked || !self.is_held && (self.is_waiting || is_receiving)
    }

    /// Notes whether the rest of a request is awaited, after decoding: `found` says whether a whole
    /// request was decoded, `is_incomplete` whether a partial one follows.
    pub(crate) fn note_waiting(&mut self, found: bool, is_incomplete: bool, now_ms: u64) {
        let is_waiting = is_incomplete || self.link.awaits_tail();
        if is_waiting && (found || !self.is_waiting) {
            self.start_transfer(now_ms);
        }
        self.is_waiting = is_waiting;
    }

    /// Whether its next iteration may take long before anything is decoded: it resumes a reply,
    /// receives a value, or gathers a long command, which runs as soon as it is whole.
    #[inline]
    pub(crate) fn may_take_long(&mut self) -> bool {
        self.unfinished.is_some() || self.input != Input::Requests || self.link.transfer().is_some()
    }

    /// The most bytes that its next iteration reads through the arena.
    #[inline]
    pub(crate) fn turn_bytes_max(&self) -> usize {
        match self.input {
            Input::Frame => LONG_READ_BYTES_MAX,
            _ => self.leftover.len() + READ_BYTES_MAX,
        }
    }
}

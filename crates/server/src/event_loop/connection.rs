//! Connection: one client, and how far its requests and replies have come.
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

use cellar_engine::HeldMark;

use crate::auth::login_limiter::Source;
use crate::auth::users::Ticket;
use crate::auth::wrong_protocol::Beginning;
use crate::clients::client::Client;
use crate::clients::waiters::Waiter;
use crate::config::limits::{LONG_READ_BYTES_MAX, LONG_REQUEST_BYTES_MIN, READ_BYTES_MAX};
use crate::execute::{Context, Flow, Link, Unfinished};
use crate::net::mailbox::ClientSetup;
use crate::net::output::Output;
use crate::net::stream::Stream;
use crate::state::State;
use crate::system::poller::Interest;

/// Bytes that have to move within one write time-out for a transfer to count as going on.
const PROGRESS_BYTES_MIN: usize = 16 << 10;

/// What the next received bytes are, unless they belong to a request that the link receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Input {
    /// Requests.
    #[default]
    Requests,
    /// So many bytes of a refused value.
    Skip(usize),
    /// More of a long request, whose beginning is what is left over.
    Frame,
}

/// How a connection comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Not yet.
    No,
    /// After all requests that were received: the server drains.
    AfterRequests,
    /// As soon as all replies are written.
    AfterOutput,
    /// Nothing more is said; what the peer still sends is thrown away until it hangs up or this
    /// moment comes. Closing at once would reset the connection and could cost it the last replies.
    Linger {
        /// The moment, in engine milliseconds.
        until_ms: u64,
    },
}

/// One client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// What is spoken, and what is kept for it.
    pub(crate) link: Link,
    /// The incomplete request, or the requests that have to wait for the output.
    pub(crate) leftover: Vec<u8>,
    /// Whether `leftover` may hold a complete request.
    pub(crate) backlog: bool,
    /// Whether the rest of a request is waited for.
    pub(crate) is_waiting: bool,
    pub(crate) input: Input,
    /// What its request waits for, until its loop has asked to be called.
    pub(crate) waits_for: Option<Arc<Ticket>>,
    /// The login that it rests for.
    pub(crate) login: Option<Arc<Ticket>>,
    /// What its command waits for, until it is answered.
    pub(crate) waiter: Option<Arc<Waiter>>,
    /// Whether it rests until its loop is called for it.
    pub(crate) is_parked: bool,
    /// Whether its pipeline waits for memory before more of it is read ahead.
    pub(crate) awaits_memory: bool,
    /// Whether its next request, or the value that it receives, waits for the end of a pause.
    pub(crate) is_held: bool,
    /// The answer that goes on when there is room for it, before the next request.
    pub(crate) unfinished: Option<Box<dyn Unfinished>>,
    /// Bytes of the heap that it holds, as the allocator has counted them.
    pub(crate) unfinished_bytes: usize,
    /// Bytes of the cache's values that it keeps pinned between its steps.
    unfinished_pins: usize,
    /// How often slots had been lost when it began.
    pub(crate) losses: u64,
    pub(crate) output: Output,
    pub(crate) ending: Ending,
    /// What is known of how it begins.
    pub(crate) beginning: Beginning,
    /// Whether it stands in the loop's ready list.
    pub(crate) queued: bool,
    /// Whether the stream refused replies; they wait for room.
    pub(crate) blocked: bool,
    /// Whether replies wait for the next turn although the stream may have room for them.
    pub(crate) unsent: bool,
    /// Whether the poller reports room to write.
    pub(crate) watches_room: bool,
    /// When bytes last arrived, in engine milliseconds.
    pub(crate) active_ms: u64,
    /// When the transfer under way last got on.
    pub(crate) progress_ms: u64,
    /// Bytes moved since then.
    moved_bytes: usize,
    /// What [`State::transfer_bytes`](crate::state::State) holds for this connection.
    pub(crate) transfer_bytes: usize,
    /// What its event loop counts for it of the memory that clients hold.
    pub(crate) noted_bytes: usize,
    /// The part of it that was read ahead.
    pub(crate) noted_ahead_bytes: usize,
    /// Since when it has to log in, in engine milliseconds, as its event loop has noted it; none
    /// of one that need not, or has.
    pub(crate) unauthenticated_ms: Option<u64>,
    /// Its number among those.
    pub(crate) unauthenticated: Option<u64>,
    /// Where it comes from.
    pub(crate) source: Source,
}

/// What a thread and a connection's reply held when a command's execution, or its next step, began.
pub(crate) struct CommandStart {
    held: HeldMark,
    reply_bytes: usize,
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
            transfer_bytes: 0,
            noted_bytes: 0,
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

    /// Bytes of replies that wait, and of what is gathered for one.
    pub(crate) fn replied_bytes(&self) -> usize {
        self.output.waiting_bytes() + self.unfinished_bytes
    }

    /// Bytes that it has the server hold outside of the cache's memory.
    #[inline]
    pub(crate) fn held_beside(&self) -> usize {
        let unanswered = self.unfinished.as_ref();
        let unanswered = unanswered.map(|rest| rest.waiting_bytes().max(self.unfinished_bytes));
        let beneath = self.stream.held_bytes();
        let waiting = self.waiter.as_ref().map_or(0, |waiter| waiter.held_bytes());
        self.buffer_bytes() + unanswered.unwrap_or(0) + self.link.held_bytes() + beneath + waiting
    }

    /// Whether there is something to do as soon as its turn comes.
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
            // A client that still sends comes to read its replies.
            Ending::AfterOutput => self.blocked && self.stream.has_more_ahead(),
            Ending::Linger { .. } => self.stream.is_readable(),
        }
    }

    /// Whether more of its pipeline is to be taken although its replies wait: its client may not
    /// read them before all its requests are taken.
    #[inline]
    pub(crate) fn reads_ahead(&self) -> bool {
        self.blocked
            && self.output.is_full()
            && self.stream.has_more_ahead()
            && self.ending == Ending::No
            && self.unauthenticated_ms.is_none()
            && !self.awaits_memory
    }

    /// Whether nothing that was received waits to be executed.
    #[inline]
    pub(crate) fn is_through(&self) -> bool {
        !self.backlog && self.unfinished.is_none()
    }

    /// Whether its client waits for a reply of which nothing was sent.
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

    /// What another process has to know to go on with it. None if it cannot: a request or a reply
    /// is under way, or more is kept for it than goes over.
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

    /// Whether the request under way was begun by a user who is gone since, or may do something
    /// else.
    pub(crate) fn has_lost_user(&self, state: &State) -> bool {
        self.link.has_lost_sender(state)
            || self.unfinished.is_some() && self.link.has_lost_asker(state)
    }

    /// Whether slots were taken from this node, or its lease ended, since the request under way
    /// began. Asked inside the exclusive lock: until then others may take slots, and sweep them.
    pub(crate) fn has_lost_slots(&self, context: Context<'_>) -> bool {
        self.losses != context.state().losses() || !context.is_leased()
    }

    /// Whether nobody is there any more for whom it rests. Who waits for a value and ends its side
    /// is taken for gone, as in Redis.
    pub(crate) fn is_deserted(&self) -> bool {
        self.stream.is_gone() || self.waiter.is_some() && self.stream.is_leaving()
    }

    /// Tells who compares passwords that the peer has ended its side, if it waits for that.
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

    /// Goes on as an execution said; whether its next request has to wait.
    pub(crate) fn follow(&mut self, flow: Flow) -> bool {
        match flow {
            Flow::Continue => return self.output.is_full(),
            Flow::Close => self.end_after_output(),
            Flow::Unfinished(rest) => self.unfinished = Some(rest),
            // The loop has dealt with the bytes of these.
            Flow::Again | Flow::Feed | Flow::Skip(_) => {}
            Flow::Wait(ticket) => self.waits_for = Some(ticket),
            Flow::Park(waiter) => self.waiter = Some(waiter),
        }
        true
    }

    /// What the thread and the reply hold before a command is executed.
    #[inline]
    pub(crate) fn mark_start(&self) -> CommandStart {
        CommandStart {
            held: HeldMark::now(),
            reply_bytes: self.output.allocated_bytes(),
            reply_pins: self.output.pinned_bytes(),
        }
    }

    /// Counts what the command that goes on has allocated and pinned since, apart from its reply.
    #[cold]
    pub(crate) fn note_unfinished(&mut self, start: &CommandStart) {
        if self.unfinished.is_none() {
            (self.unfinished_bytes, self.unfinished_pins) = (0, 0);
            return;
        }
        let growth = |now: usize, then: usize| now.cast_signed() - then.cast_signed();
        let reply = growth(self.output.allocated_bytes(), start.reply_bytes);
        let heap = start.held.growth() - reply;
        self.unfinished_bytes = self.unfinished_bytes.saturating_add_signed(heap);
        let reply = growth(self.output.pinned_bytes(), start.reply_pins);
        let pins = start.held.pinned_growth() - reply;
        self.unfinished_pins = self.unfinished_pins.saturating_add_signed(pins);
    }

    /// Takes no further request, and closes when all replies are written.
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
        // A long one is freed bit by bit when the connection is closed.
        self.backlog = false;
        self.is_waiting = false;
    }

    /// Notes bytes that its client has sent, for listings.
    #[inline]
    pub(crate) fn note_received(&self, bytes: usize) {
        if let Some(client) = self.link.client() {
            client.traffic.note_received(bytes);
        }
    }

    /// Notes bytes that its client was sent, for listings.
    #[inline]
    pub(crate) fn note_sent(&self, bytes: usize) {
        if let Some(client) = self.link.client() {
            client.traffic.note_sent(bytes);
        }
    }

    /// Notes that bytes of a transfer moved.
    pub(crate) fn note_moved(&mut self, bytes: usize, now_ms: u64) {
        self.moved_bytes += bytes;
        if self.moved_bytes >= PROGRESS_BYTES_MIN {
            self.start_transfer(now_ms);
        }
    }

    /// Whether it is there for what others send: it waits in a command, has subscriptions, or is
    /// shown each command as it runs. As in Redis, such a one is never idle.
    pub(crate) fn awaits_others(&self) -> bool {
        let listens = |client: &Client| client.is_subscriber() || client.is_monitor();
        self.waiter.is_some() || self.link.client().is_some_and(listens)
    }

    /// Notes that a transfer begins.
    pub(crate) fn start_transfer(&mut self, now_ms: u64) {
        self.moved_bytes = 0;
        self.progress_ms = now_ms;
    }

    /// Whether a transfer waits for the client: replies to be taken, a value to be sent on, or the
    /// rest of a request.
    pub(crate) fn is_in_transfer(&mut self) -> bool {
        let is_receiving = self.input != Input::Requests || self.link.transfer().is_some();
        self.blocked || !self.is_held && (self.is_waiting || is_receiving)
    }

    /// Bytes of the cache's memory that it holds back now.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        let unanswered = self.unfinished.as_ref().map_or(0, |_| self.unfinished_pins);
        self.link.received_bytes() + self.output.pinned_bytes() + unanswered
    }

    /// Notes what is waited for after a look at its bytes: `found` a request or not, it ends with
    /// one that is not whole, or not.
    pub(crate) fn note_waiting(&mut self, found: bool, is_incomplete: bool, now_ms: u64) {
        let is_waiting = is_incomplete || self.link.awaits_tail();
        if is_waiting && (found || !self.is_waiting) {
            self.start_transfer(now_ms);
        }
        self.is_waiting = is_waiting;
    }

    /// Whether its next turn may take long before anything is decoded: an answer goes on, a value
    /// comes, or a long command, which is run when it is whole.
    #[inline]
    pub(crate) fn may_take_long(&mut self) -> bool {
        self.unfinished.is_some() || self.input != Input::Requests || self.link.transfer().is_some()
    }

    /// How much of its next turn's bytes goes through the arena, at most.
    #[inline]
    pub(crate) fn turn_bytes_max(&self) -> usize {
        match self.input {
            Input::Frame => LONG_READ_BYTES_MAX,
            _ => self.leftover.len() + READ_BYTES_MAX,
        }
    }
}

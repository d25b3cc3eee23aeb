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

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::execute::http::{Gather, Peer};
use crate::execute::resp::Session;
use crate::execute::{HttpScan, Unfinished, Upload};
use crate::limits::{LONG_READ_BYTES_MAX, LONG_REQUEST_BYTES_MIN, READ_BYTES_MAX};
use crate::listener::{Protocol, Transport};
use crate::output::Output;

/// Bytes that have to move within one write time-out for a transfer to count as going on.
const PROGRESS_BYTES_MIN: usize = 16 << 10;

/// What the next received bytes are.
#[derive(Debug, Default)]
pub(crate) enum Intake {
    /// Requests.
    #[default]
    Requests,
    /// The rest of a large value and its line end.
    Value(Upload),
    /// So many bytes of a refused value.
    Skip(usize),
    /// More of a long request, whose beginning is what is left over.
    Frame,
    /// More of the body of a request over HTTP.
    Body(Box<Gather>),
}

/// What is known of a client that speaks HTTP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HttpLink {
    pub(crate) peer: Peer,
    /// How far what is left over was looked at.
    pub(crate) scan: HttpScan,
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
    pub(crate) socket: OwnedFd,
    /// What a client of the Redis protocol has set up; none for other protocols.
    pub(crate) session: Option<Box<Session>>,
    /// What is known of a client that speaks HTTP; none for other protocols.
    pub(crate) http: Option<HttpLink>,
    /// The incomplete request, or the requests that have to wait for the output.
    pub(crate) leftover: Vec<u8>,
    /// Whether `leftover` may hold a complete request.
    pub(crate) backlog: bool,
    /// Whether the rest of a request is waited for.
    pub(crate) is_waiting: bool,
    pub(crate) intake: Intake,
    /// The answer that goes on when there is room for it, before the next request.
    pub(crate) unfinished: Option<Box<dyn Unfinished>>,
    pub(crate) output: Output,
    pub(crate) ending: Ending,
    /// Whether it stands in the loop's ready list.
    pub(crate) queued: bool,
    /// Whether the socket may hold unread bytes.
    pub(crate) readable: bool,
    /// Whether the peer is known to be done, so that a short read is not the last one.
    pub(crate) hung_up: bool,
    /// Whether the end of the peer's bytes was read.
    pub(crate) ended: bool,
    /// Whether the socket refused replies; they wait for room.
    pub(crate) blocked: bool,
    /// Whether replies wait for the next turn although the socket may have room for them.
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
}

/// What became of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// This many bytes arrived.
    Bytes(usize),
    /// Nothing is there for the present.
    Nothing,
    /// The peer has sent all it had.
    End,
    /// The connection is broken.
    Gone,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, transport: Transport, now_ms: u64) -> Connection {
        Connection {
            socket,
            session: None,
            http: None,
            leftover: Vec::new(),
            backlog: false,
            is_waiting: false,
            intake: Intake::Requests,
            unfinished: None,
            output: Output::default(),
            ending: Ending::No,
            queued: false,
            readable: false,
            hung_up: false,
            ended: false,
            blocked: false,
            unsent: false,
            // A UNIX socket reports room after each reply the peer takes, a TCP socket only after
            // it was full.
            watches_room: transport == Transport::Tcp,
            active_ms: now_ms,
            progress_ms: now_ms,
            moved_bytes: 0,
            transfer_bytes: 0,
            noted_bytes: 0,
        }
    }

    /// What is spoken on it.
    #[inline]
    pub(crate) fn protocol(&self) -> Protocol {
        match (&self.session, &self.http) {
            (Some(_), _) => Protocol::Resp,
            (None, Some(_)) => Protocol::Http,
            (None, None) => Protocol::Memcached,
        }
    }

    /// Whether the value or body of a request is still to come.
    #[inline]
    pub(crate) fn awaits_value(&self) -> bool {
        matches!(self.intake, Intake::Value(_) | Intake::Body(_))
    }

    /// Bytes of its buffers.
    #[inline]
    pub(crate) fn buffer_bytes(&self) -> usize {
        let leftover = self.leftover.capacity().min(2 * LONG_REQUEST_BYTES_MIN);
        leftover.max(self.leftover.len()) + self.output.buffer_bytes()
    }

    /// Bytes that it has the server hold outside of the cache's memory.
    #[inline]
    pub(crate) fn held_beside(&self) -> usize {
        let unanswered = self.unfinished.as_ref().map(|rest| rest.waiting_bytes());
        let gathered = match &self.intake {
            Intake::Body(gather) => gather.waiting_bytes(),
            _ => 0,
        };
        let session = self.session.as_ref();
        let set_up = session.map_or(0, |session| session.held_bytes());
        self.buffer_bytes() + unanswered.unwrap_or(0) + gathered + set_up
    }

    /// Reads once into `buffer` and notes whether more may be there.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Received {
        receive(
            &self.socket,
            buffer,
            &mut self.readable,
            &mut self.hung_up,
            &mut self.ended,
        )
    }

    /// Reads once into the value that is being received, at most `bytes_max`.
    pub(crate) fn receive_value(&mut self, bytes_max: usize) -> Received {
        let Intake::Value(upload) = &mut self.intake else {
            return Received::Nothing;
        };
        let filling = upload.filling();
        let room = filling.buffer();
        let wanted = room.len().min(bytes_max);
        let received = receive(
            &self.socket,
            &mut room[..wanted],
            &mut self.readable,
            &mut self.hung_up,
            &mut self.ended,
        );
        if let Received::Bytes(bytes) = received {
            filling.advance(bytes);
        }
        received
    }

    /// Whether there is something to do as soon as its turn comes.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        if self.unsent {
            return true;
        }
        match self.ending {
            Ending::No | Ending::AfterRequests => {
                (self.readable || !self.is_through()) && !self.output.is_full()
            }
            Ending::AfterOutput => false,
            Ending::Linger { .. } => self.readable,
        }
    }

    /// Whether nothing that was received waits to be executed.
    #[inline]
    pub(crate) fn is_through(&self) -> bool {
        !self.backlog && self.unfinished.is_none()
    }

    /// Takes no further request, and closes when all replies are written.
    pub(crate) fn end_after_output(&mut self) {
        if !matches!(self.ending, Ending::Linger { .. }) {
            self.ending = Ending::AfterOutput;
        }
        self.intake = Intake::Requests;
        self.unfinished = None;
        self.leftover = Vec::new();
        self.backlog = false;
        self.is_waiting = false;
    }

    /// Notes that bytes of a transfer moved.
    pub(crate) fn note_moved(&mut self, bytes: usize, now_ms: u64) {
        self.moved_bytes += bytes;
        if self.moved_bytes >= PROGRESS_BYTES_MIN {
            self.start_transfer(now_ms);
        }
    }

    /// Notes that a transfer begins.
    pub(crate) fn start_transfer(&mut self, now_ms: u64) {
        self.moved_bytes = 0;
        self.progress_ms = now_ms;
    }

    /// Whether a transfer waits for the client: replies to be taken, a value to be sent on, or the
    /// rest of a request.
    pub(crate) fn is_in_transfer(&self) -> bool {
        self.blocked || self.is_waiting || !matches!(self.intake, Intake::Requests)
    }

    /// Bytes of the cache's memory that it holds back now.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        let receiving = match &self.intake {
            Intake::Value(upload) => upload.value_bytes(),
            Intake::Requests | Intake::Skip(_) | Intake::Frame | Intake::Body(_) => 0,
        };
        let received = self
            .session
            .as_ref()
            .map_or(0, |session| session.received_bytes());
        receiving + received + self.output.pinned_bytes()
    }

    /// Notes what is waited for after a look at its bytes: `found` a request or not, it ends with
    /// one that is not whole, or not.
    pub(crate) fn note_waiting(&mut self, found: bool, is_incomplete: bool, now_ms: u64) {
        let is_waiting = is_incomplete || self.awaits_tail();
        if is_waiting && (found || !self.is_waiting) {
            self.start_transfer(now_ms);
        }
        self.is_waiting = is_waiting;
    }

    /// Whether a received value waits for the arguments behind it.
    fn awaits_tail(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|session| session.tail_args().is_some())
    }

    /// How much of its next turn's bytes goes through the arena, at most.
    #[inline]
    pub(crate) fn turn_bytes_max(&self) -> usize {
        match self.intake {
            Intake::Frame => LONG_READ_BYTES_MAX,
            _ => self.leftover.len() + READ_BYTES_MAX,
        }
    }
}

/// One read; a read that fills less than its buffer has emptied the socket.
#[inline]
fn receive(
    socket: &OwnedFd,
    buffer: &mut [u8],
    readable: &mut bool,
    hung_up: &mut bool,
    ended: &mut bool,
) -> Received {
    let wanted = buffer.len();
    match rustix::net::recv(socket, buffer, RecvFlags::empty()) {
        Ok((0, _)) => {
            *readable = false;
            *ended = true;
            Received::End
        }
        Ok((bytes, _)) => {
            *readable = bytes == wanted || *hung_up;
            Received::Bytes(bytes)
        }
        Err(Errno::AGAIN) => {
            *readable = false;
            *hung_up = false;
            Received::Nothing
        }
        Err(Errno::INTR) => Received::Nothing,
        Err(_) => {
            *readable = false;
            Received::Gone
        }
    }
}

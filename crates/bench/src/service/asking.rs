//! Asking: which requests are made of a service, and whether the replies are right.

use cellar_load::drive::{self, Drive, Flight, Traffic};
use cellar_load::error::Error;
use cellar_load::wire::Event;

use super::board::Board;
use super::found::Found;
use super::message::{Messages, Method, Writer};

/// The key that each connection asks for before it is measured.
const FIRST_KEY: &[u8] = b"first";

/// Which requests are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Asks {
    /// Half POST of new messages, half GET; so large a share of the reads is for the message
    /// acknowledged last, the others are for any.
    Half {
        /// From 0 to 1.
        read_back_share: f64,
    },
    /// One method: POST of new messages, PUT and GET of any that are there.
    Only(Method),
}

/// What is asked of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) asks: Asks,
    pub(super) messages: Messages,
    /// What a message tells of its time to live, if the server wants to know.
    pub(super) ttl_s: Option<u32>,
    /// Whether the server keeps what it is given; the floor does not.
    pub(super) is_cache: bool,
}

struct Asking<'b> {
    order: Order,
    board: &'b mut Board,
    writer: Writer,
    found: Found,
    scratch: Vec<u8>,
}

/// The reply that is arriving.
#[derive(Default)]
pub(super) struct Arriving {
    is_there: bool,
    body: Vec<u8>,
}

impl Order {
    /// Makes requests until the drive's limit, and waits for all replies.
    ///
    /// # Errors
    /// [`Error`] if a connection ends, the server stops answering or answers nonsense. Messages
    /// that are lost or wrong are counted, not an error.
    pub(super) fn run(self, drive: &Drive, board: &mut Board) -> Result<Found, Error> {
        let asking = Asking {
            order: self,
            board,
            writer: Writer::new(self.messages, self.ttl_s),
            found: Found::default(),
            scratch: Vec::new(),
        };
        let (mut asked, driven) = drive::drive(drive, FIRST_KEY, vec![asking])?;
        let found = asked.pop().map(|asking| asking.found).unwrap_or_default();
        Ok(Found { driven, ..found })
    }
}

impl Asking<'_> {
    /// The next request: its method, and the message it is about.
    fn choose(&mut self, now: u64) -> (Method, u64) {
        let board = &mut *self.board;
        let (method, read_back_share) = match self.order.asks {
            Asks::Only(method) => (method, 0.0),
            Asks::Half { .. } if board.unit() < 0.5 => (Method::Post, 0.0),
            Asks::Half { read_back_share } => (Method::Get, read_back_share),
        };
        if method == Method::Post {
            return (method, board.begin_write(now));
        }
        if read_back_share > 0.0
            && board.unit() < read_back_share
            && let Some(number) = board.freshest()
        {
            self.found.counts.read_back += 1;
            return (method, number);
        }
        match board.any(now) {
            Some(number) => (method, number),
            // Nothing is there to be read or replaced.
            None => (Method::Post, board.begin_write(now)),
        }
    }

    fn is_right(&mut self, number: u64, body: &[u8]) -> bool {
        let messages = self.order.messages;
        !self.order.is_cache || messages.is_content(&mut self.scratch, number, body)
    }
}

impl Traffic for Asking<'_> {
    type Request = (Method, u64);
    type Arriving = Arriving;

    fn push_next(&mut self, out: &mut Vec<u8>, now_ns: u64) -> (Method, u64) {
        let (method, number) = self.choose(now_ns);
        self.writer.push(out, method, number);
        (method, number)
    }

    fn take(
        &mut self,
        flight: Flight<(Method, u64)>,
        arriving: &mut Arriving,
        event: Event<'_>,
        now_ns: u64,
    ) -> Result<(), Error> {
        let (method, number) = flight.request;
        match event {
            Event::Value { .. } => {
                arriving.is_there = true;
                arriving.body.clear();
                return Ok(());
            }
            Event::Data(data) => {
                if method == Method::Get && self.order.is_cache {
                    arriving.body.extend_from_slice(data);
                }
                return Ok(());
            }
            _ => {}
        }
        let ns = now_ns.saturating_sub(flight.start_ns);
        self.found.time(method, flight.start_ns, ns);
        let is_there = std::mem::take(&mut arriving.is_there);
        match (method, event) {
            (Method::Get, Event::GetDone) if is_there => {
                self.found.counts.hits += 1;
                let is_right = self.is_right(number, &arriving.body);
                self.found.counts.wrong += u64::from(!is_right);
            }
            (Method::Get, Event::GetDone) if self.board.may_be_over(number, now_ns) => {
                self.found.counts.expired += 1;
            }
            (Method::Get, Event::GetDone) => self.found.counts.lost += 1,
            (Method::Put | Method::Post, Event::GetDone) if is_there => self.stored(number),
            (Method::Put | Method::Post, Event::SetDone { stored: true }) => self.stored(number),
            (_, event) => {
                self.found.refuse(event);
                self.board.refuse_write(number);
            }
        }
        Ok(())
    }
}

impl Asking<'_> {
    fn stored(&mut self, number: u64) {
        self.found.counts.stored += 1;
        self.board.end_write(number);
    }
}

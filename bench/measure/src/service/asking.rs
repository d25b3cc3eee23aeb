//! Asking: which requests are made of a service, and whether the replies are right.

use cellar_load::{Drive, Error, Event, Flight, Traffic, drive};

use super::board::Board;
use super::found::{Counts, Found};
use super::message::{Messages, Method};

/// The key that each connection asks for before it is measured.
const FIRST_KEY: &[u8] = b"first";

/// How many requests are made for one that has nothing to do with messages, itself included.
pub(super) const HEALTH_EVERY: u64 = 21;

struct Asking<'b> {
    messages: Messages,
    /// Whether the server keeps what it is given; the floor does not.
    is_cache: bool,
    board: &'b mut Board,
    counts: &'b mut Counts,
    asked: u64,
    found: Found,
    scratch: Vec<u8>,
}

/// The reply that is arriving.
#[derive(Default)]
pub(super) struct Arriving {
    is_there: bool,
    body: Vec<u8>,
}

/// Asks one server until the drive's limit, and waits for all replies: half POST of new messages,
/// half GET, half of these of the message acknowledged last, the others of any. Each
/// [`HEALTH_EVERY`]th request asks whether the server is well. Messages that are lost or wrong are
/// counted, unless the server is no cache; [`Error`] if it answers nonsense or not at all.
pub(super) fn ask(
    drive: &Drive,
    messages: Messages,
    is_cache: bool,
    board: &mut Board,
    counts: &mut Counts,
) -> Result<Found, Error> {
    let asking = Asking {
        messages,
        is_cache,
        board,
        counts,
        asked: 0,
        found: Found::default(),
        scratch: Vec::new(),
    };
    let (mut asked, driven) = drive::drive(drive, FIRST_KEY, vec![asking])?;
    let found = asked.pop().map(|asking| asking.found).unwrap_or_default();
    Ok(Found { driven, ..found })
}

impl Asking<'_> {
    /// The next request: its method, and the message it is about.
    fn choose(&mut self, now: u64) -> (Method, u64) {
        self.asked += 1;
        let board = &mut *self.board;
        if self.asked.is_multiple_of(HEALTH_EVERY) {
            return (Method::Health, 0);
        }
        if board.unit() < 0.5 {
            return (Method::Post, board.begin_write(now));
        }
        if board.unit() < 0.5
            && let Some(number) = board.freshest()
        {
            self.counts.read_back += 1;
            return (Method::Get, number);
        }
        match board.any(now) {
            Some(number) => (Method::Get, number),
            // Nothing is there to be read.
            None => (Method::Post, board.begin_write(now)),
        }
    }

    fn is_right(&mut self, number: u64, body: &[u8]) -> bool {
        !self.is_cache || self.messages.is_content(&mut self.scratch, number, body)
    }

    fn stored(&mut self, number: u64) {
        self.counts.stored += 1;
        self.board.end_write(number);
    }
}

impl Traffic for Asking<'_> {
    type Request = (Method, u64);
    type Arriving = Arriving;

    fn push_next(&mut self, out: &mut Vec<u8>, now_ns: u64, _: usize) -> (Method, u64) {
        let (method, number) = self.choose(now_ns);
        self.messages
            .push_request(out, &mut self.scratch, method, number);
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
                if method == Method::Get && self.is_cache {
                    arriving.body.extend_from_slice(data);
                }
                return Ok(());
            }
            _ => {}
        }
        let ns = now_ns.saturating_sub(flight.start_ns);
        self.found.time(method, ns);
        let is_there = std::mem::take(&mut arriving.is_there);
        match (method, event) {
            (Method::Get, Event::GetDone) if is_there => {
                self.counts.hits += 1;
                let is_right = self.is_right(number, &arriving.body);
                self.counts.wrong += u64::from(!is_right);
            }
            (Method::Get, Event::GetDone) if self.board.may_be_over(number, now_ns) => {
                self.counts.expired += 1;
            }
            (Method::Get, Event::GetDone) => self.counts.lost += 1,
            (Method::Health, Event::GetDone) if is_there => self.counts.healthy += 1,
            (Method::Post, Event::GetDone) if is_there => self.stored(number),
            (Method::Post, Event::SetDone { stored: true }) => self.stored(number),
            (_, event) => {
                self.counts.refuse(event);
                self.board.refuse_write(number);
            }
        }
        Ok(())
    }
}

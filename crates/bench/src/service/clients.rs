//! Clients: connections that stay open, and what is asked over them.
//!
//! One thread, epoll. Open loop: requests are due at fixed times; each takes the connection that
//! has been free for longest, or waits for one, and its latency counts from the moment it was due.
//! Closed loop: every connection sends a window and waits for all its replies; latency counts from
//! the write. The thread never sleeps: waking up takes longer than the time to the next request.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use super::board::Board;
use super::found::Found;
use super::http::{self, Method, Reply, Writer};
use super::message::Messages;
use crate::address::Address;
use crate::clock::{NS_PER_S, now_ns};
use crate::error::Error;
use crate::load::Limit;
use crate::usage::cpu_time;

const EVENTS_MAX: usize = 256;
const READ_BYTES: usize = 64 << 10;
/// What a socket takes at least: all requests that one connection may have in flight.
const SEND_BYTES: usize = 256 << 10;
/// Requests in one window at most, so that they fit in [`SEND_BYTES`].
pub(super) const DEPTH_MAX: usize = 16;
/// A server that answers nothing for this long has failed.
const STALL_S: u64 = 10;
const NO_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

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

/// How fast they are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// So many per second, whatever the server does.
    Open {
        /// Requests per second.
        rate_per_s: f64,
    },
    /// As many as the server answers, so many at a time on each connection.
    Closed {
        /// From 1 to [`DEPTH_MAX`].
        depth: usize,
    },
}

/// What a run does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) asks: Asks,
    pub(super) pace: Pace,
    pub(super) limit: Limit,
    /// The process whose processor time counts.
    pub(super) server_pid: u32,
    /// Whether the server keeps what it is given; the floor does not.
    pub(super) is_cache: bool,
}

/// A request that has no reply yet.
#[derive(Clone, Copy, Debug)]
struct Flight {
    method: Method,
    number: u64,
    start_ns: u64,
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    /// The beginning of a reply.
    input: Vec<u8>,
    flights: VecDeque<Flight>,
}

/// Connections to one server.
#[derive(Debug)]
pub(super) struct Clients {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Connections without a request, those that are free for longest first.
    free: VecDeque<usize>,
    writer: Writer,
    messages: Messages,
    output: Vec<u8>,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
}

/// A run that is going on.
struct Run<'a> {
    clients: &'a mut Clients,
    board: &'a mut Board,
    order: Order,
    found: Found,
    /// Requests sent.
    sent: u64,
    /// Requests of the whole run.
    wanted: u64,
    /// When no more are sent.
    stop_ns: u64,
}

impl Clients {
    /// Connects; a message tells its time to live if the server wants to know it.
    ///
    /// # Errors
    /// [`Error::System`] if the server takes no connections.
    pub(super) fn connect(
        address: &Address,
        connections: usize,
        messages: Messages,
        ttl_s: Option<u32>,
    ) -> Result<Clients, Error> {
        let failed = |error| Error::system(format!("connecting to {address}"), error);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut opened = Vec::with_capacity(connections);
        for place in 0..connections {
            let socket = address.connect().map_err(failed)?;
            let socket = socket.into_nonblocking().map_err(failed)?;
            let interest = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
            sockopt::set_socket_send_buffer_size(&socket, SEND_BYTES)
                .and_then(|()| {
                    epoll::add(&epoll, &socket, EventData::new_u64(place as u64), interest)
                })
                .map_err(|error| failed(error.into()))?;
            opened.push(Connection {
                socket,
                input: Vec::new(),
                flights: VecDeque::with_capacity(DEPTH_MAX),
            });
        }
        Ok(Clients {
            epoll,
            free: (0..opened.len()).collect(),
            connections: opened,
            writer: Writer::new(messages, ttl_s),
            messages,
            output: Vec::new(),
            buffer: vec![0; READ_BYTES],
            scratch: Vec::new(),
        })
    }

    /// Makes requests until the limit, and waits for all replies.
    ///
    /// # Errors
    /// [`Error`] if a connection ends, the server stops answering or answers nonsense. Messages
    /// that are lost or wrong are counted, not an error.
    pub(super) fn run(&mut self, order: Order, board: &mut Board) -> Result<Found, Error> {
        let cpu_ns = || {
            let time = cpu_time(order.server_pid);
            let time = time.map_err(|error| Error::system("reading a processor time", error))?;
            Ok(time.ns)
        };
        let before_ns: u64 = cpu_ns()?;
        let mut run = Run::new(self, board, order);
        run.finish()?;
        let mut found = run.found;
        found.server_cpu_ns = cpu_ns()?.saturating_sub(before_ns);
        Ok(found)
    }
}

impl<'a> Run<'a> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "rates and times are not negative and below 2^53"
    )]
    fn new(clients: &'a mut Clients, board: &'a mut Board, order: Order) -> Run<'a> {
        let now = now_ns();
        let (wanted, stop_ns) = match (order.limit, order.pace) {
            (Limit::Requests(requests), _) => (requests, u64::MAX),
            // A server that falls behind gets the same time again.
            (Limit::Nanoseconds(ns), Pace::Open { rate_per_s }) => {
                let wanted = ns as f64 / NS_PER_S as f64 * rate_per_s;
                (wanted as u64, now.saturating_add(ns.saturating_mul(2)))
            }
            (Limit::Nanoseconds(ns), Pace::Closed { .. }) => (u64::MAX, now.saturating_add(ns)),
        };
        let found = Found {
            started_ns: now,
            ..Found::default()
        };
        Run {
            clients,
            board,
            order,
            found,
            sent: 0,
            wanted,
            stop_ns,
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let mut answered_ns = now_ns();
        loop {
            let now = now_ns();
            let is_over = self.sent == self.wanted || now >= self.stop_ns;
            if !is_over {
                self.send(now)?;
            }
            let in_flight = self.sent - self.found.requests();
            if is_over && in_flight == 0 {
                break;
            }
            let replies = self.found.requests();
            self.receive_all(&mut events)?;
            if self.found.requests() > replies || in_flight == 0 {
                answered_ns = now;
            } else if now.saturating_sub(answered_ns) > STALL_S * NS_PER_S {
                return Err(Error::Stalled {
                    seconds: STALL_S,
                    in_flight,
                });
            }
        }
        self.found.ended_ns = now_ns();
        if let Pace::Open { .. } = self.order.pace {
            self.found.unsent = self.wanted - self.sent;
        }
        Ok(())
    }

    /// Sends what is due on the connections that are free.
    fn send(&mut self, now: u64) -> Result<(), Error> {
        match self.order.pace {
            Pace::Closed { depth } => {
                while let Some(place) = self.clients.free.pop_front() {
                    let left = self.wanted - self.sent;
                    let count = usize::try_from(left).map_or(depth, |left| depth.min(left));
                    if count == 0 {
                        self.clients.free.push_front(place);
                        break;
                    }
                    let now = now_ns();
                    self.send_on(place, count, now, now)?;
                }
            }
            Pace::Open { rate_per_s } => {
                let mut now = now;
                while self.sent < self.wanted {
                    let due_ns = self.due_ns(rate_per_s);
                    if due_ns > now {
                        break;
                    }
                    let Some(place) = self.clients.free.pop_front() else {
                        break;
                    };
                    self.send_on(place, 1, due_ns, now)?;
                    now = now_ns();
                }
            }
        }
        Ok(())
    }

    /// When the next request of an open loop is due.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "rates and times are not negative and below 2^53"
    )]
    fn due_ns(&self, rate_per_s: f64) -> u64 {
        let after_ns = self.sent as f64 * NS_PER_S as f64 / rate_per_s;
        self.found.started_ns + after_ns as u64
    }

    /// Sends so many requests in one write; their latency counts from `start_ns`.
    fn send_on(
        &mut self,
        place: usize,
        count: usize,
        start_ns: u64,
        now: u64,
    ) -> Result<(), Error> {
        let clients = &mut *self.clients;
        clients.output.clear();
        let connection = &mut clients.connections[place];
        for _ in 0..count {
            let (method, number) = choose(self.order.asks, self.board, &mut self.found, now);
            clients.writer.push(&mut clients.output, method, number);
            connection.flights.push_back(Flight {
                method,
                number,
                start_ns,
            });
        }
        self.sent += count as u64;
        match send(&connection.socket, &clients.output, SendFlags::NOSIGNAL) {
            Ok(bytes) if bytes == clients.output.len() => Ok(()),
            Ok(_) => Err(Error::Wrong(
                "a socket took only part of a request".to_owned(),
            )),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(self.closed()),
            Err(error) => Err(Error::system("sending", error)),
        }
    }

    fn closed(&self) -> Error {
        Error::Closed {
            replies: self.found.requests(),
        }
    }

    /// Takes the replies that are there. It never sleeps: in a virtual machine, waking another
    /// processor costs a server so much that a slow one would pay twice.
    fn receive_all(&mut self, events: &mut Vec<Event>) -> Result<(), Error> {
        events.clear();
        match epoll::wait(&self.clients.epoll, spare_capacity(events), Some(&NO_WAIT)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::system("waiting for replies", error)),
        }
        for event in events.iter() {
            let place = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            if place < self.clients.connections.len() {
                self.receive(place)?;
            }
        }
        Ok(())
    }

    /// Takes the replies on one connection.
    fn receive(&mut self, place: usize) -> Result<(), Error> {
        // Taken out, so that replies can be borrowed from it.
        let mut buffer = std::mem::take(&mut self.clients.buffer);
        let result = self.receive_into(place, &mut buffer);
        self.clients.buffer = buffer;
        result
    }

    fn receive_into(&mut self, place: usize, buffer: &mut [u8]) -> Result<(), Error> {
        loop {
            let socket = &self.clients.connections[place].socket;
            let bytes = match recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Err(self.closed()),
                Ok((bytes, _)) => bytes,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Error::system("receiving", error)),
            };
            let now = now_ns();
            let mut begun = std::mem::take(&mut self.clients.connections[place].input);
            if begun.is_empty() {
                let used = self.take_all(place, &buffer[..bytes], now)?;
                begun.extend_from_slice(&buffer[used..bytes]);
            } else {
                begun.extend_from_slice(&buffer[..bytes]);
                let used = self.take_all(place, &begun, now)?;
                begun.drain(..used);
            }
            self.clients.connections[place].input = begun;
            if bytes < buffer.len() {
                // After a short read the socket is empty; its next bytes are another event.
                return Ok(());
            }
        }
    }

    /// Takes all whole replies; how many bytes they took.
    fn take_all(&mut self, place: usize, input: &[u8], now: u64) -> Result<usize, Error> {
        let mut used = 0;
        while used < input.len() {
            let Some((reply, bytes)) = http::reply(&input[used..]).map_err(Error::Garbled)? else {
                break;
            };
            used += bytes;
            let connection = &mut self.clients.connections[place];
            let flight = connection.flights.pop_front().ok_or_else(|| {
                Error::Garbled("a reply came that nothing had asked for".to_owned())
            })?;
            if connection.flights.is_empty() {
                self.clients.free.push_back(place);
            }
            self.count(flight, reply, now);
        }
        Ok(used)
    }

    fn count(&mut self, flight: Flight, reply: Reply<'_>, now: u64) {
        let ns = now.saturating_sub(flight.start_ns);
        self.found.time(flight.method, flight.start_ns, ns);
        let Flight { method, number, .. } = flight;
        match (method, reply.status) {
            (Method::Get, 200) => {
                self.found.hits += 1;
                let clients = &mut *self.clients;
                let (messages, scratch) = (clients.messages, &mut clients.scratch);
                let is_right =
                    !self.order.is_cache || messages.is_content(scratch, number, reply.body);
                self.found.wrong += u64::from(!is_right);
            }
            (Method::Get, 404) if self.board.may_be_over(number, now) => self.found.expired += 1,
            (Method::Get, 404) => self.found.lost += 1,
            (Method::Put | Method::Post, 200 | 201 | 204) => {
                self.found.stored += 1;
                self.board.end_write(number);
            }
            (_, status) => {
                self.found.refuse(status, reply.body);
                self.board.refuse_write(number);
            }
        }
    }
}

/// The next request: its method, and the message it is about.
fn choose(asks: Asks, board: &mut Board, found: &mut Found, now: u64) -> (Method, u64) {
    let (method, read_back_share) = match asks {
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
        found.read_back += 1;
        return (method, number);
    }
    match board.any(now) {
        Some(number) => (method, number),
        // Nothing is there to be read or replaced.
        None => (Method::Post, board.begin_write(now)),
    }
}

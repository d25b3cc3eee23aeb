//! One thread of a drive: an epoll loop over its connections.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event as Ready, EventData, EventFlags};
use rustix::io::Errno;

use super::{Drive, Driven, Flight, Limit, STALL_S, Traffic};
use crate::clock::{NS_PER_S, now_ns, thread_cpu_ns};
use crate::error::Error;
use crate::tls::Stream;
use crate::wire::Scanner;

/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 256;
/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;
/// How often a waiting thread looks whether it should end.
const WAIT_NS: u64 = 200_000_000;
/// A request that is due sooner than this is waited for without sleeping: waking up takes longer.
const SPIN_NS: u64 = 100_000;

/// One connection: its requests in flight, its unsent bytes and the reply that is arriving.
struct Connection<T: Traffic> {
    stream: Stream,
    /// Which of the drive's servers is at its other end.
    server: usize,
    scanner: Scanner,
    flights: VecDeque<Flight<T::Request>>,
    arriving: T::Arriving,
    out: Vec<u8>,
    /// Bytes of `out` that the socket has taken.
    sent_bytes: usize,
    /// Whether it is among those that have room, in an open loop.
    is_free: bool,
}

/// One thread.
pub(super) struct Worker<'d, T: Traffic> {
    drive: &'d Drive,
    /// Why another thread has failed.
    failure: &'d OnceLock<Error>,
    traffic: T,
    epoll: OwnedFd,
    connections: Vec<Connection<T>>,
    /// Connections with room in their window, in an open loop; those that wait for longest first.
    free: VecDeque<usize>,
    /// Time between two requests of an open loop.
    interval_ns: Option<f64>,
    /// Requests of the whole run, requests sent, and replies.
    wanted: u64,
    sent: u64,
    replies: u64,
    /// Requests that each server has yet to get.
    left: Vec<u64>,
    /// When no more are sent.
    stop_ns: u64,
    driven: Driven,
    buffer: Vec<u8>,
}

impl<'d, T: Traffic> Worker<'d, T> {
    /// Prepares the thread's loop for connections from the `first` on; to be called on the thread
    /// itself.
    pub(super) fn new(
        drive: &'d Drive,
        threads: usize,
        (first, streams): (usize, Vec<Stream>),
        traffic: T,
        failure: &'d OnceLock<Error>,
    ) -> Result<Worker<'d, T>, Error> {
        let failed = |error: Errno| Error::system("preparing a thread of the load", error);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        for (place, stream) in streams.iter().enumerate() {
            let mark = EventData::new_u64(place as u64);
            epoll::add(&epoll, stream.socket(), mark, interest).map_err(failed)?;
        }
        let connection = |(place, stream)| Connection {
            stream,
            server: (first + place) % drive.servers(),
            scanner: drive.wire.scanner(),
            flights: VecDeque::with_capacity(drive.depth),
            arriving: T::Arriving::default(),
            out: Vec::new(),
            sent_bytes: 0,
            is_free: true,
        };
        let interval_ns = drive.rate_per_s.map(|rate| 1e9 * threads as f64 / rate);
        Ok(Worker {
            drive,
            failure,
            traffic,
            epoll,
            free: (0..streams.len()).collect(),
            connections: streams.into_iter().enumerate().map(connection).collect(),
            interval_ns,
            wanted: 0,
            sent: 0,
            replies: 0,
            left: Vec::new(),
            stop_ns: u64::MAX,
            driven: Driven::default(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Runs to the end of the load.
    pub(super) fn run(mut self, thread: usize, threads: usize) -> Result<(T, Driven), Error> {
        let cpu_before_ns = thread_cpu_ns();
        self.start(thread, threads)?;
        let mut events: Vec<Ready> = Vec::with_capacity(EVENTS_MAX);
        let mut answered_ns = now_ns();
        loop {
            let now = now_ns();
            self.send_due(now)?;
            let in_flight = self.sent - self.replies;
            if in_flight == 0 && self.is_over(now) {
                break;
            }
            if self.failure.get().is_some() {
                let what = "another thread of the load has failed";
                return Err(Error::Wrong(what.to_owned()));
            }
            events.clear();
            let timeout = timespec(self.wait_ns(now));
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::system("waiting for replies", error)),
            }
            let before = self.replies;
            for event in &events {
                self.serve(event)?;
            }
            if self.replies > before || in_flight == 0 {
                answered_ns = now;
            } else if now.saturating_sub(answered_ns) > STALL_S * NS_PER_S {
                let seconds = STALL_S;
                return Err(Error::Stalled { seconds, in_flight });
            }
        }
        self.driven.ended_ns = now_ns();
        self.driven.own_cpu_ns = thread_cpu_ns() - cpu_before_ns;
        if self.interval_ns.is_some() {
            self.driven.unsent = self.wanted - self.sent;
        }
        Ok((self.traffic, self.driven))
    }

    /// Starts the time. An open loop has a number of requests that are due in its time; a server
    /// that falls behind gets the same time again to answer them.
    fn start(&mut self, thread: usize, threads: usize) -> Result<(), Error> {
        let now = now_ns();
        self.driven.started_ns = now;
        let all = match (self.drive.limit, self.drive.rate_per_s) {
            (Limit::Requests(requests), _) => Some(requests),
            (Limit::Nanoseconds(ns), Some(rate)) => {
                self.stop_ns = now.saturating_add(ns.saturating_mul(2));
                Some((ns as f64 / NS_PER_S as f64 * rate) as u64)
            }
            (Limit::Nanoseconds(ns), None) => {
                self.stop_ns = now.saturating_add(ns);
                None
            }
        };
        let own = all.map(|all| part(all, thread, threads));
        self.wanted = own.map_or(u64::MAX, |own| own.end - own.start);
        let servers = self.drive.servers();
        let left = |server| part(self.wanted, server, servers);
        self.left = (0..servers).map(left).map(|it| it.end - it.start).collect();
        for place in 0..self.connections.len() {
            if self.interval_ns.is_none() {
                self.send_window(place, now)?;
            }
        }
        Ok(())
    }

    /// Whether no more requests are to be sent at `now_ns`.
    fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.stop_ns || self.sent == self.wanted
    }

    /// How many of `wanted` requests may be sent to a server at `now_ns`.
    fn allowance(&self, server: usize, wanted: usize, now_ns: u64) -> usize {
        if now_ns >= self.stop_ns {
            return 0;
        }
        usize::try_from(self.left[server]).map_or(wanted, |left| left.min(wanted))
    }

    /// When the next request of an open loop is due.
    fn due_ns(&self, interval_ns: f64) -> u64 {
        self.driven.started_ns + (self.sent as f64 * interval_ns) as u64
    }

    /// Closed loop: sends a whole window on an idle connection.
    fn send_window(&mut self, place: usize, now: u64) -> Result<(), Error> {
        let server = self.connections[place].server;
        let count = self.allowance(server, self.drive.depth, now);
        if count == 0 {
            return Ok(());
        }
        let connection = &mut self.connections[place];
        for _ in 0..count {
            let request = self.traffic.push_next(&mut connection.out, now, server);
            let start_ns = now;
            connection.flights.push_back(Flight { request, start_ns });
        }
        let start_ns = now_ns();
        let flights = connection.flights.iter_mut();
        flights.for_each(|flight| flight.start_ns = start_ns);
        self.sent += count as u64;
        self.left[server] -= count as u64;
        self.flush(place)
    }

    /// Open loop: sends what is due as long as a connection has room.
    fn send_due(&mut self, mut now: u64) -> Result<(), Error> {
        let Some(interval_ns) = self.interval_ns else {
            return Ok(());
        };
        while !self.is_over(now) && self.due_ns(interval_ns) <= now {
            let start_ns = self.due_ns(interval_ns);
            let Some(place) = self.free.pop_front() else {
                break;
            };
            let connection = &mut self.connections[place];
            let server = connection.server;
            let request = self.traffic.push_next(&mut connection.out, now, server);
            connection.flights.push_back(Flight { request, start_ns });
            connection.is_free = connection.flights.len() < self.drive.depth;
            if connection.is_free {
                self.free.push_back(place);
            }
            self.sent += 1;
            self.flush(place)?;
            now = now_ns();
        }
        Ok(())
    }

    /// How long to wait for events.
    fn wait_ns(&self, now: u64) -> u64 {
        if self.drive.is_sleepless {
            return 0;
        }
        match self.interval_ns {
            Some(interval_ns) if !self.free.is_empty() && self.sent < self.wanted => {
                let ahead_ns = self.due_ns(interval_ns).saturating_sub(now);
                ahead_ns.saturating_sub(SPIN_NS).min(WAIT_NS)
            }
            _ => WAIT_NS,
        }
    }

    /// Handles one event of a connection.
    fn serve(&mut self, event: &Ready) -> Result<(), Error> {
        let place = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
        if place >= self.connections.len() {
            return Ok(());
        }
        let readable = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let flags = event.flags;
        if flags.intersects(readable) {
            self.receive(place)?;
        }
        let connection = &mut self.connections[place];
        if connection.sent_bytes < connection.out.len() {
            return self.flush(place);
        }
        if self.interval_ns.is_none() {
            return match connection.flights.is_empty() {
                true => self.send_window(place, now_ns()),
                false => Ok(()),
            };
        }
        if !connection.is_free && connection.flights.len() < self.drive.depth {
            connection.is_free = true;
            self.free.push_back(place);
        }
        Ok(())
    }

    /// Reads and hands on what has arrived; returns when the socket is empty.
    fn receive(&mut self, place: usize) -> Result<(), Error> {
        let connection = &mut self.connections[place];
        loop {
            let (read, is_empty) = match connection.stream.receive(&mut self.buffer) {
                Ok((0, _)) => return Err(self.closed()),
                Ok(received) => received,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    ErrorKind::Interrupted => continue,
                    ErrorKind::ConnectionReset => return Err(self.closed()),
                    _ => return Err(Error::system("receiving", error)),
                },
            };
            self.driven.received_bytes += read as u64;
            let now = now_ns();
            let mut input = &self.buffer[..read];
            let scanner = &mut connection.scanner;
            while let Some(event) = scanner.next(&mut input).map_err(Error::Garbled)? {
                let unasked = || Error::Garbled("a reply came that nothing asked for".to_owned());
                let flight = *connection.flights.front().ok_or_else(unasked)?;
                if event.is_last() {
                    connection.flights.pop_front();
                    self.replies += 1;
                }
                self.traffic
                    .take(flight, &mut connection.arriving, event, now)?;
            }
            if is_empty {
                return Ok(());
            }
        }
    }

    /// Sends what is to be sent, as far as the socket takes it.
    fn flush(&mut self, place: usize) -> Result<(), Error> {
        let connection = &mut self.connections[place];
        while connection.sent_bytes < connection.out.len() {
            let unsent = &connection.out[connection.sent_bytes..];
            match connection.stream.send(unsent) {
                Ok(sent) => connection.sent_bytes += sent,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(()),
                    ErrorKind::Interrupted => {}
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                        return Err(self.closed());
                    }
                    _ => return Err(Error::system("sending", error)),
                },
            }
        }
        connection.out.clear();
        connection.sent_bytes = 0;
        Ok(())
    }

    fn closed(&self) -> Error {
        let replies = self.replies;
        Error::Closed { replies }
    }
}

/// The `index`-th of `parts` nearly equal parts of the numbers below `whole`.
pub(crate) fn part(whole: u64, index: usize, parts: usize) -> std::ops::Range<u64> {
    let border = |index: usize| {
        // At most `whole`, which fits.
        (u128::from(whole) * index as u128 / parts as u128) as u64
    };
    border(index)..border(index + 1)
}

fn timespec(ns: u64) -> Timespec {
    let part = |part| i64::try_from(part).unwrap_or(i64::MAX);
    Timespec {
        tv_sec: part(ns / NS_PER_S),
        tv_nsec: part(ns % NS_PER_S),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_whole_once() {
        for (whole, parts) in [(10, 3), (2, 5), (0, 2), (u64::MAX, 7)] {
            let mut next = 0;
            for index in 0..parts {
                let part = part(whole, index, parts);
                assert_eq!(part.start, next);
                next = part.end;
            }
            assert_eq!(next, whole);
        }
    }
}

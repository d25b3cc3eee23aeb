//! One connection: its requests in flight, its unsent bytes and the reply that is arriving.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::clock::now_ns;
use crate::error::Error;
use crate::load::plan::Plan;
use crate::load::source::{Kind, Request, Source};
use crate::load::tally::Tally;
use crate::record::ValueCheck;
use crate::wire::{Event, Scanner};

/// A request that has no reply yet.
#[derive(Clone, Copy, Debug)]
struct Flight {
    request: Request,
    /// When it was sent, or in an open loop when it was due.
    start_ns: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    scanner: Scanner,
    flights: VecDeque<Flight>,
    out: Vec<u8>,
    /// Bytes of `out` that the socket has taken.
    sent_bytes: usize,
    /// The value that is arriving, if values are checked.
    check: ValueCheck,
    value_came: bool,
    key_fits: bool,
    /// Requests sent since the start; decides when the next one of an open loop is due.
    pub(super) requests: u64,
}

impl Connection {
    pub(super) fn new(plan: &Plan, socket: OwnedFd) -> Connection {
        Connection {
            socket,
            scanner: plan.wire.scanner(),
            flights: VecDeque::with_capacity(plan.depth),
            out: Vec::new(),
            sent_bytes: 0,
            check: ValueCheck::default(),
            value_came: false,
            key_fits: true,
            requests: 0,
        }
    }

    /// Requests without a reply.
    pub(super) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Whether all that was to be sent is sent.
    pub(super) fn is_flushed(&self) -> bool {
        self.sent_bytes == self.out.len()
    }

    /// Reads and counts what has arrived; returns when the socket is empty.
    pub(super) fn receive(
        &mut self,
        plan: &Plan,
        source: &mut Source<'_>,
        tally: &mut Tally,
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        loop {
            let read = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET) => {
                    return Err(Error::Closed {
                        replies: tally.replies(),
                    });
                }
                Ok((read, _)) => read,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Error::system("receiving", error)),
            };
            tally.received_bytes += read as u64;
            let now = now_ns();
            let mut input = &buffer[..read];
            while let Some(event) = self.scanner.next(&mut input).map_err(Error::Garbled)? {
                match event {
                    Event::Value { key, bytes } => {
                        self.value_came = true;
                        if plan.verify
                            && let Some(flight) = self.flights.front()
                        {
                            let number = flight.request.number;
                            self.check.begin(number, bytes);
                            self.key_fits = key.is_none_or(|key| key == source.key_of(number));
                        }
                    }
                    Event::Data(data) => {
                        if plan.verify {
                            self.check.feed(data);
                        }
                    }
                    Event::GetDone => {
                        let good = !plan.verify
                            || !self.value_came
                            || (self.key_fits && self.check.is_good(&plan.records));
                        let start_ns = land(&mut self.flights, Some(Kind::Get))?.start_ns;
                        tally.got(self.value_came, good, now.saturating_sub(start_ns));
                        tally.keep(start_ns, now.saturating_sub(start_ns));
                        self.value_came = false;
                    }
                    Event::SetDone { stored } => {
                        let start_ns = land(&mut self.flights, Some(Kind::Set))?.start_ns;
                        tally.set(stored, now.saturating_sub(start_ns));
                    }
                    Event::CountDone { .. } => {
                        let what = "the reply to a count came for a get or a set";
                        return Err(Error::Garbled(what.to_owned()));
                    }
                    Event::Refused(line) => {
                        let flight = land(&mut self.flights, None)?;
                        self.value_came = false;
                        tally.refused(
                            flight.request.kind,
                            line,
                            now.saturating_sub(flight.start_ns),
                        );
                    }
                }
            }
            if read < buffer.len() {
                // After a short read the socket is empty; its next bytes are another event.
                return Ok(());
            }
        }
    }

    /// Adds `count` requests of an open loop; `due_ns` tells when the connection's n-th is due.
    pub(super) fn push_due(
        &mut self,
        source: &mut Source<'_>,
        count: usize,
        due_ns: impl Fn(u64) -> u64,
    ) {
        self.forget_sent();
        for _ in 0..count {
            let request = source.push_next(&mut self.out);
            self.flights.push_back(Flight {
                request,
                start_ns: due_ns(self.requests),
            });
            self.requests += 1;
        }
    }

    /// Adds `count` requests that start with the write that follows.
    pub(super) fn push_window(&mut self, source: &mut Source<'_>, count: usize) {
        self.forget_sent();
        for _ in 0..count {
            let request = source.push_next(&mut self.out);
            self.flights.push_back(Flight {
                request,
                start_ns: 0,
            });
        }
        let start_ns = now_ns();
        self.flights
            .iter_mut()
            .for_each(|flight| flight.start_ns = start_ns);
        self.requests += count as u64;
    }

    /// Sends what is to be sent, as far as the socket takes it.
    pub(super) fn flush(&mut self, tally: &mut Tally) -> Result<(), Error> {
        while self.sent_bytes < self.out.len() {
            match send(
                &self.socket,
                &self.out[self.sent_bytes..],
                SendFlags::NOSIGNAL,
            ) {
                Ok(sent) => {
                    self.sent_bytes += sent;
                    tally.sent_bytes += sent as u64;
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => {
                    return Err(Error::Closed {
                        replies: tally.replies(),
                    });
                }
                Err(error) => return Err(Error::system("sending", error)),
            }
        }
        Ok(())
    }

    fn forget_sent(&mut self) {
        if self.is_flushed() {
            self.out.clear();
            self.sent_bytes = 0;
        }
    }
}

/// The oldest request in flight, which the reply is for; `kind` is what the reply answers.
fn land(flights: &mut VecDeque<Flight>, kind: Option<Kind>) -> Result<Flight, Error> {
    let flight = flights
        .pop_front()
        .ok_or_else(|| Error::Garbled("a reply came that nothing had asked for".to_owned()))?;
    if kind.is_some_and(|kind| kind != flight.request.kind) {
        return Err(Error::Garbled(format!(
            "the reply to a {kind:?} came for a {:?}",
            flight.request.kind
        )));
    }
    Ok(flight)
}

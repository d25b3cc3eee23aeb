//! Poller: reports to an event loop which sockets are ready.
//!
//! Edge-triggered epoll: a connection is registered once and never touched again while its requests
//! flow. After an edge the loop has to continue until nothing is left, which the connection's
//! `cellar_net::stream::Stream` knows.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// Events taken from the system in one call.
const EVENTS_MAX: usize = 512;

/// The events to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Edges of readability.
    Reads,
    /// Edges of readability and writability.
    ReadsAndWrites,
    /// Reported in each wait while the socket is readable.
    Level,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Reads => EventFlags::IN | EventFlags::RDHUP | EventFlags::ET,
            Interest::ReadsAndWrites => {
                EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET
            }
            Interest::Level => EventFlags::IN,
        }
    }
}

/// One ready socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token it was registered with.
    pub token: u64,
    /// The socket is readable, or its end was received.
    pub readable: bool,
    /// The socket may be writable.
    pub writable: bool,
    /// The peer is done sending or the connection is broken: read to the end.
    pub hung_up: bool,
    /// The connection is closed in both directions: no reply can be read.
    pub gone: bool,
}

/// An epoll instance.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<Ready>,
}

impl Poller {
    /// An empty poller.
    ///
    /// # Errors
    /// The system's, when it is out of files or memory.
    pub fn new() -> Result<Poller, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poller {
            epoll,
            ready: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Registers a socket; closing the socket unregisters it.
    ///
    /// # Errors
    /// The system's, when it is out of memory.
    pub fn add(&self, socket: impl AsFd, token: u64, interest: Interest) -> Result<(), Errno> {
        epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(token),
            interest.flags(),
        )
    }

    /// Changes the events that a registered socket waits for; a pending edge is reported again.
    ///
    /// # Errors
    /// The system's, when it is out of memory.
    pub fn modify(&self, socket: impl AsFd, token: u64, interest: Interest) -> Result<(), Errno> {
        epoll::modify(
            &self.epoll,
            socket,
            EventData::new_u64(token),
            interest.flags(),
        )
    }

    /// Unregisters a socket that stays open.
    ///
    /// # Errors
    /// The system's, when the socket is not registered.
    pub fn remove(&self, socket: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, socket)
    }

    /// Waits at most `timeout_ms` for ready sockets, which [`Poller::ready`] then lists.
    ///
    /// # Errors
    /// None that a correct program can meet.
    #[inline]
    pub fn wait(&mut self, timeout_ms: u32) -> Result<usize, Errno> {
        self.ready.clear();
        let timeout = Timespec {
            tv_sec: i64::from(timeout_ms / 1_000),
            tv_nsec: i64::from(timeout_ms % 1_000) * 1_000_000,
        };
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Ok((events, _)) => self
                .ready
                .extend(events.iter().map(|event| Ready::of(*event))),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(self.ready.len())
    }

    /// The `index`th ready socket of the last wait.
    ///
    /// # Panics
    /// If the last wait found fewer.
    #[inline]
    #[must_use]
    pub fn ready(&self, index: usize) -> Ready {
        self.ready[index]
    }
}

impl Ready {
    fn of(event: Event) -> Ready {
        let (data, flags) = (event.data, event.flags);
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        Ready {
            token: data.u64(),
            readable: hung_up || flags.contains(EventFlags::IN),
            writable: hung_up || flags.contains(EventFlags::OUT),
            hung_up,
            gone: flags.intersects(EventFlags::HUP | EventFlags::ERR),
        }
    }
}

/// Wakes an event loop from another thread.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// Creates a waker, to be registered with [`Interest::Reads`]: each call is an edge, so it need
    /// not be read.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub fn new() -> Result<Waker, Errno> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Waker)
    }

    /// Wakes the loop, or lets its next wait return at once.
    pub fn wake(&self) {
        // The count overflows after 2^64 - 2 calls only.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn an_edge_is_reported_once_and_a_new_one_again() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&reader, 7, Interest::Reads).unwrap();
        assert_eq!(poller.wait(0), Ok(0));
        writer.write_all(b"a").unwrap();
        assert_eq!(poller.wait(1_000), Ok(1));
        assert_eq!((poller.ready(0).token, poller.ready(0).hung_up), (7, false));
        assert_eq!(poller.wait(0), Ok(0));
        drop(writer);
        assert_eq!(poller.wait(1_000), Ok(1));
        assert!(poller.ready(0).hung_up && poller.ready(0).readable);
    }

    #[test]
    fn a_waker_wakes_each_time_without_being_read() {
        let mut poller = Poller::new().unwrap();
        let waker = Waker::new().unwrap();
        poller.add(&waker, 1, Interest::Reads).unwrap();
        for _ in 0..3 {
            waker.wake();
            assert_eq!(poller.wait(1_000), Ok(1));
            assert_eq!(poller.wait(0), Ok(0));
        }
    }
}

//! Mailbox: messages to an event loop from other threads: a new connection, or a wake-up for the
//! inbox of a connection that it serves.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cellar_config::protocol::Protocol;
use cellar_system::poller::Waker;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::stream::Stream;

/// A connection on its way to the loop that serves it.
#[derive(Debug)]
pub struct Arrival {
    /// Its bytes.
    pub stream: Stream,
    /// The protocol of the connection.
    pub protocol: Protocol,
    /// The peer's address, for listings; empty if it has none.
    pub peer: String,
    /// Its state in the process that served it before.
    pub setup: ClientSetup,
}

/// The state of a Redis client's connection, which moves with it to another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSetup {
    /// Whether it sent `HELLO 3`.
    pub is_resp3: bool,
    /// The database of its last `SELECT`.
    pub database: u32,
    /// Its name, by `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// The name and the version of its library, by `CLIENT SETINFO`.
    pub library: [Vec<u8>; 2],
}

impl ClientSetup {
    /// Whether nothing was set up.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == ClientSetup::default()
    }

    /// Bytes of its names.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.name.len() + self.library.iter().map(Vec::len).sum::<usize>()
    }
}

/// Where a connection is served: an event loop, and its token there.
#[derive(Clone, Debug)]
pub struct Home {
    /// The mailboxes of all loops.
    pub mailboxes: Arc<Vec<Mailbox>>,
    /// Which of them is the loop's.
    pub index: usize,
    /// The connection's token.
    pub token: u64,
}

impl Home {
    /// Makes the loop check the connection.
    pub fn call(&self) {
        self.mailboxes[self.index].call(self.token);
    }

    /// Makes the loop close the connection for a new one, unless it has logged in since.
    pub fn give_way(&self) {
        self.mailboxes[self.index].give_way(self.token);
    }
}

/// One event loop's mailbox. `max_connections` bounds what waits in all of them together.
#[derive(Debug)]
pub struct Mailbox {
    /// Wakes the loop.
    pub waker: Waker,
    waiting: Mutex<VecDeque<Arrival>>,
    /// Tokens of the connections with new messages in their inboxes.
    called: Mutex<Vec<u64>>,
    /// Tokens of the unauthenticated connections to close for new ones.
    leaving: Mutex<VecDeque<u64>>,
    // AcqRel and Release: a thread that sees the flag sees the token. Relaxed: a check without the
    // lock, which the waker repeats if it was too early.
    is_called: AtomicBool,
    /// Connections that the loop serves or that are queued here.
    // Relaxed: a guess about load needs no order.
    connections: AtomicUsize,
    // Release and Acquire: a loop that sees the flag sees every connection posted before.
    draining: AtomicBool,
    /// Whether the loop has to check the memory of its clients.
    // Relaxed: the checked sum orders nothing.
    asked_to_evict: AtomicBool,
}

impl Mailbox {
    /// An empty mailbox.
    ///
    /// # Errors
    /// The system's, when it is out of files.
    pub fn new() -> Result<Mailbox, Errno> {
        Ok(Mailbox {
            waker: Waker::new()?,
            waiting: Mutex::default(),
            called: Mutex::default(),
            leaving: Mutex::default(),
            is_called: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            asked_to_evict: AtomicBool::new(false),
        })
    }

    /// Hands a connection to the loop with the fewest.
    ///
    /// # Panics
    /// If there is no loop.
    pub fn post(all: &[Mailbox], arrival: Arrival) {
        // Relaxed: a guess about load needs no order.
        let load = |mailbox: &&Mailbox| mailbox.connections.load(Ordering::Relaxed);
        let mailbox = all
            .iter()
            .min_by_key(load)
            .expect("there is at least one event loop");
        mailbox.connections.fetch_add(1, Ordering::Relaxed);
        mailbox.waiting.lock().push_back(arrival);
        mailbox.waker.wake();
    }

    /// Connections that the loop serves or that are queued here.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The connection that was queued first.
    pub fn take(&self) -> Option<Arrival> {
        self.waiting.lock().pop_front()
    }

    /// Counts a connection that the loop has closed.
    pub fn note_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Makes all loops finish.
    pub fn drain(all: &[Mailbox]) {
        for mailbox in all {
            // Release and Acquire: a loop that sees the flag sees every connection posted before.
            mailbox.draining.store(true, Ordering::Release);
            mailbox.waker.wake();
        }
    }

    /// Whether the loop is to finish.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Makes the loop close connections if its clients hold too much.
    pub fn ask_to_evict(&self) {
        // Relaxed: the checked sum orders nothing.
        if !self.asked_to_evict.swap(true, Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// Whether it was asked to since the last time.
    pub fn was_asked_to_evict(&self) -> bool {
        self.asked_to_evict.load(Ordering::Relaxed)
            && self.asked_to_evict.swap(false, Ordering::Relaxed)
    }

    /// Notifies the loop of messages in the inbox of the connection with this token.
    pub fn call(&self, token: u64) {
        let mut called = self.called.lock();
        called.push(token);
        // Release and Acquire: a thread that sees the flag sees the token.
        let was_called = self.is_called.swap(true, Ordering::AcqRel);
        drop(called);
        if !was_called {
            self.waker.wake();
        }
    }

    /// Takes the tokens of all connections that were called, into `tokens`.
    #[inline]
    pub fn take_calls(&self, tokens: &mut Vec<u64>) {
        if self.is_called.load(Ordering::Relaxed) {
            let mut called = self.called.lock();
            self.is_called.store(false, Ordering::Release);
            tokens.append(&mut called);
        }
    }

    fn give_way(&self, token: u64) {
        self.leaving.lock().push_back(token);
        self.waker.wake();
    }

    /// The token of the next connection to close for a new one.
    pub fn take_leaving(&self) -> Option<u64> {
        self.leaving.lock().pop_front()
    }
}

//! Mailbox: how connections get from the loop that accepts them to the loop that serves them.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::listener::Transport;
use crate::poller::Waker;

/// One event loop's mailbox. `max_connections` bounds what waits in all of them together.
#[derive(Debug)]
pub struct Mailbox {
    /// Wakes the loop.
    pub waker: Waker,
    waiting: Mutex<VecDeque<(OwnedFd, Transport)>>,
    /// Connections that the loop serves or that wait here.
    connections: AtomicUsize,
    draining: AtomicBool,
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
            connections: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
        })
    }

    /// Hands a connection to the loop with the fewest.
    ///
    /// # Panics
    /// If there is no loop.
    pub fn post(all: &[Mailbox], socket: OwnedFd, transport: Transport) {
        // Relaxed: a guess about load needs no order.
        let load = |mailbox: &&Mailbox| mailbox.connections.load(Ordering::Relaxed);
        let mailbox = all
            .iter()
            .min_by_key(load)
            .expect("there is at least one event loop");
        mailbox.connections.fetch_add(1, Ordering::Relaxed);
        mailbox.lock().push_back((socket, transport));
        mailbox.waker.wake();
    }

    /// The connection that has waited longest.
    pub fn take(&self) -> Option<(OwnedFd, Transport)> {
        self.lock().pop_front()
    }

    /// Notes that the loop closed a connection.
    pub fn note_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Tells all loops to finish.
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

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(OwnedFd, Transport)>> {
        self.waiting
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

//! Teardown: frees in pieces what closed connections held.
//!
//! A client with thousands of subscriptions, watched keys or keys of a blocking command, or with
//! many megabytes of a request, may disconnect at any moment, and thousands of them at once. Its
//! connection ends at once and is invisible from then on; its state is freed a piece per iteration,
//! and counts as client memory until then.
//!
//! Clients that connect and disconnect in a loop could create state faster than it is freed: while
//! a loop has more than its part of
//! [`Budget::torn_down_bytes_max`](cellar_shared::clients::budget::Budget::torn_down_bytes_max), it
//! frees larger pieces, and as much as connections create meanwhile, which takes them longer.
//!
//! Invariant: no other client sees or serves a connection that is in here.
//! Why: docs/decisions/0060. Tests: tests/complexity.rs, tests/client_memory.rs.

use std::collections::VecDeque;
use std::sync::Arc;

use cellar_config::limits::ENTRY_BYTES;
use cellar_execute::{Link, Unfinished};
use cellar_shared::clients::waiters::Waiter;
use cellar_shared::state::State;

use crate::server::event_loop::connection::Connection;

/// Names that one iteration frees.
const NAMES_MAX: usize = 1_024;
/// The same while the loop is above its limit: about a millisecond.
const EXCESS_NAMES_MAX: usize = 4_096;
/// Bytes that count as one name: freeing each page costs the system some time.
const BYTES_PER_NAME: usize = 8 << 10;
/// Smallest state in bytes that is not freed at once.
const HEAVY_BYTES_MIN: usize = 64 << 10;
/// Smallest buffer of an answered request that is not freed at once: 8 MiB take a millisecond.
const LONG_BUFFER_BYTES_MIN: usize = 8 << 20;
/// Smallest number of names of a waiter that is not freed at once.
const HEAVY_NAMES_MIN: usize = 128;

/// All pending teardowns of a loop.
pub(super) struct Teardowns {
    state: Arc<State>,
    /// The loop's index.
    index: usize,
    waiting: VecDeque<Teardown>,
    bytes: usize,
}

impl Teardowns {
    /// None yet, for the loop with this index.
    pub(super) fn new(state: Arc<State>, index: usize) -> Teardowns {
        Teardowns {
            state,
            index,
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Frees what a connection held, or keeps large state for the next iterations.
    pub(super) fn add(&mut self, connection: Connection) {
        let Connection {
            link,
            waiter,
            leftover,
            output,
            unfinished,
            unfinished_bytes,
            mut stream,
            noted,
            ..
        } = connection;
        let waiter = waiter.filter(|waiter| {
            let is_heavy = waiter.names().len() >= HEAVY_NAMES_MIN;
            if !is_heavy {
                self.leave_lines(waiter);
            }
            is_heavy
        });
        let mut buffers = vec![leftover, output.into_bytes()];
        buffers.extend(stream.take_ahead());
        buffers.retain(|buffer| buffer.len() >= HEAVY_BYTES_MIN);
        self.push(Teardown {
            waiter: waiter.map(|waiter| (waiter, 0)),
            link: (link.held().beside >= HEAVY_BYTES_MIN).then_some(link),
            unfinished: unfinished
                .filter(|rest| rest.waiting_bytes().max(unfinished_bytes) >= HEAVY_BYTES_MIN),
            buffers,
            bytes: noted.beside,
        });
    }

    /// Frees an answered request, in the next iterations if it is long.
    pub(super) fn add_buffer(&mut self, buffer: Vec<u8>) {
        if buffer.len() >= LONG_BUFFER_BYTES_MIN {
            self.add_buffers(vec![buffer]);
        }
    }

    /// Frees buffers in the next iterations.
    pub(super) fn add_buffers(&mut self, buffers: Vec<Vec<u8>>) {
        let bytes = buffers.iter().map(Vec::len).sum();
        self.add_requests(buffers, None, bytes);
    }

    /// Frees requests and replies of a connection that held `bytes`, in the next iterations.
    pub(super) fn add_requests(
        &mut self,
        mut buffers: Vec<Vec<u8>>,
        unfinished: Option<Box<dyn Unfinished>>,
        bytes: usize,
    ) {
        buffers.retain(|buffer| !buffer.is_empty());
        self.push(Teardown {
            unfinished,
            buffers,
            bytes,
            ..Teardown::default()
        });
    }

    /// Takes the next piece apart.
    #[inline]
    pub(super) fn take_apart(&mut self) {
        if !self.is_empty() {
            self.take_piece(if self.are_in_excess() {
                EXCESS_NAMES_MAX
            } else {
                NAMES_MAX
            });
        }
    }

    /// While the loop is above its limit: frees as much as connections have grown since the last
    /// call, and lets other loops run between the pieces.
    #[inline]
    pub(super) fn take_excess_apart(&mut self, mut grown_bytes: usize) {
        while grown_bytes > 0 && self.are_in_excess() {
            let before = self.bytes;
            self.take_piece(NAMES_MAX);
            let freed = before - self.bytes;
            grown_bytes = grown_bytes.saturating_sub(freed.max(NAMES_MAX * ENTRY_BYTES));
        }
    }

    fn push(&mut self, teardown: Teardown) {
        if !teardown.is_empty() {
            self.bytes += teardown.bytes;
            self.waiting.push_back(teardown);
            self.publish();
        }
    }

    fn leave_lines(&self, waiter: &Waiter) {
        let _pass = self.state.exclusive_lock.enter(self.index);
        let waiters = &self.state.observer.waiters;
        waiters.leave_lines(waiter, 0..waiter.names().len());
    }

    /// Frees up to `most` names.
    #[cold]
    fn take_piece(&mut self, most: usize) {
        let pass = self.state.exclusive_lock.enter(self.index);
        let mut left = most;
        while left > 0
            && let Some(first) = self.waiting.front_mut()
        {
            let before = first.bytes;
            left -= first.take_apart(left, &self.state).min(left);
            if first.is_empty() {
                first.bytes = 0;
            }
            self.bytes -= before - first.bytes;
            if first.is_empty() {
                self.waiting.pop_front();
            }
        }
        drop(pass);
        self.publish();
    }

    fn are_in_excess(&self) -> bool {
        self.bytes > self.state.budget.torn_down_bytes_max()
    }

    fn publish(&self) {
        self.state.budget.set_torn_down(self.index, self.bytes);
    }
}

/// The remains of one connection.
#[derive(Debug, Default)]
struct Teardown {
    /// Its waiter, dismissed but still in the queues of its keys, and the first name not yet
    /// removed.
    waiter: Option<(Arc<Waiter>, usize)>,
    link: Option<Link>,
    unfinished: Option<Box<dyn Unfinished>>,
    /// Requests that were not executed, and unread replies.
    buffers: Vec<Vec<u8>>,
    /// The bytes that the rest of it counts for.
    bytes: usize,
}

impl Teardown {
    /// Records that `bytes` of it are freed.
    fn note_freed(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn is_empty(&self) -> bool {
        let has_names = self.waiter.is_some() || self.link.is_some();
        !has_names && self.unfinished.is_none() && self.buffers.is_empty()
    }

    /// Frees some of it, worth up to `most` names; returns how many names that was worth. The
    /// caller holds the exclusive lock.
    fn take_apart(&mut self, most: usize, state: &State) -> usize {
        if let Some((waiter, next)) = &mut self.waiter {
            let end = waiter.names().len().min(*next + most);
            state.observer.waiters.leave_lines(waiter, *next..end);
            let names = end - std::mem::replace(next, end);
            if end == waiter.names().len() {
                self.waiter = None;
            }
            self.note_freed(names * ENTRY_BYTES);
            return names;
        }
        if let Some(link) = &mut self.link {
            let before = link.held().beside;
            let names = link.take_apart(most, state);
            let after = link.held().beside;
            if names < most {
                self.link = None;
            }
            self.note_freed(before - after);
            return names.max((before - after) / BYTES_PER_NAME);
        }
        if let Some(rest) = self.unfinished.take() {
            let bytes = rest.waiting_bytes();
            let Some(buffer) = rest.into_buffer() else {
                return bytes / BYTES_PER_NAME;
            };
            self.buffers.push(buffer);
        }
        let Some(buffer) = self.buffers.last_mut() else {
            return 0;
        };
        let before = buffer.len();
        buffer.truncate(before.saturating_sub(most * BYTES_PER_NAME));
        buffer.shrink_to_fit();
        let freed = before - buffer.len();
        if buffer.is_empty() {
            self.buffers.pop();
        }
        self.note_freed(freed);
        freed / BYTES_PER_NAME
    }
}

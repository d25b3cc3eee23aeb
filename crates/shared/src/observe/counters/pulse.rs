//! Pulse: whether an event loop is running, and the request that it began last.
//!
//! The loop counts the beginning and the end of each iteration, so the count is odd while it has
//! work; an odd count that stays is a stalled loop. Waiting for sockets is even.
//!
//! The watchdog reads it, and is the only writer of the stall time.

use super::Counter;

/// The value of [`Pulse::began`] for a memcached request.
const MEMCACHED: u64 = 1;
/// The same for HTTP.
const HTTP: u64 = 2;
/// The same for the first Redis command; the others follow.
const RESP: u64 = 3;

/// One event loop's pulse.
#[derive(Debug, Default)]
pub struct Pulse {
    turns: Counter,
    began: Counter,
    stalls: Counter,
    stalled_ms: Counter,
}

/// The request that an event loop began last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Began {
    /// Nothing so far.
    Nothing,
    /// A request over memcached's protocol.
    Memcached,
    /// A request over HTTP.
    Http,
    /// A command of Redis's protocol, by its `verb as usize`.
    Resp(usize),
}

impl Pulse {
    /// Marks the beginning or the end of an iteration; only the loop calls this.
    #[inline]
    pub fn beat(&self) {
        self.turns.add(1);
    }

    /// A request over memcached's protocol begins.
    #[inline]
    pub fn begin_memcached(&self) {
        self.began.set(MEMCACHED);
    }

    /// A request over HTTP begins.
    #[inline]
    pub fn begin_http(&self) {
        self.began.set(HTTP);
    }

    /// A command of Redis's protocol begins.
    #[inline]
    pub fn begin_resp(&self, verb: usize) {
        self.began.set(RESP + verb as u64);
    }

    /// Number of beginnings and ends of iterations; even while the loop waits for sockets.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.turns.read()
    }

    /// The number of the current iteration; `None` while the loop waits for sockets.
    #[must_use]
    pub fn turn(&self) -> Option<u64> {
        let turns = self.turns.read();
        (!turns.is_multiple_of(2)).then_some(turns)
    }

    /// The request that it began last.
    #[must_use]
    pub fn began(&self) -> Began {
        match self.began.read() {
            0 => Began::Nothing,
            MEMCACHED => Began::Memcached,
            HTTP => Began::Http,
            verb => Began::Resp(usize::try_from(verb - RESP).unwrap_or(usize::MAX)),
        }
    }

    /// Counts a stall; only the watchdog calls this.
    pub fn note_stall(&self) {
        self.stalls.add(1);
    }

    /// Records how long it has stalled, zero if it is running; only the watchdog calls this.
    pub fn note_stalled_ms(&self, ms: u64) {
        self.stalled_ms.set(ms);
    }

    /// How often it stood still.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls.read()
    }

    /// How long it has been stalled so far, in milliseconds.
    #[must_use]
    pub fn stalled_ms(&self) -> u64 {
        self.stalled_ms.read()
    }
}

//! Pulse: whether an event loop goes on, and what it began last.
//!
//! The loop counts when a turn begins and when it ends, so the count is odd while it has something
//! to do; an odd count that stays is a loop that stands still. Waiting for sockets is none.
//!
//! Who looks: the watchdog, which alone writes what it has found.

use super::Counter;

/// What [`Pulse::began`] says of a request over memcached's protocol.
const MEMCACHED: u64 = 1;
/// The same over HTTP.
const HTTP: u64 = 2;
/// The same of the first command of Redis's protocol; the others follow.
const RESP: u64 = 3;

/// One event loop's pulse.
#[derive(Debug, Default)]
pub struct Pulse {
    turns: Counter,
    began: Counter,
    stalls: Counter,
    stalled_ms: Counter,
}

/// What an event loop began last.
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
    /// A turn begins, or ends; only the loop calls this.
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

    /// How often an iteration of the loop has begun or ended; even while it waits for sockets.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.turns.read()
    }

    /// The number of the turn that is under way; `None` while the loop waits for sockets.
    #[must_use]
    pub fn turn(&self) -> Option<u64> {
        let turns = self.turns.read();
        (!turns.is_multiple_of(2)).then_some(turns)
    }

    /// What it began last.
    #[must_use]
    pub fn began(&self) -> Began {
        match self.began.read() {
            0 => Began::Nothing,
            MEMCACHED => Began::Memcached,
            HTTP => Began::Http,
            verb => Began::Resp(usize::try_from(verb - RESP).unwrap_or(usize::MAX)),
        }
    }

    /// Counts a time that it stood still; only the watchdog calls this.
    pub fn note_stall(&self) {
        self.stalls.add(1);
    }

    /// Notes for how long it has stood still, zero if it goes on; only the watchdog calls this.
    pub fn note_stalled_ms(&self, ms: u64) {
        self.stalled_ms.set(ms);
    }

    /// How often it stood still.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls.read()
    }

    /// For how long it has stood still by now, in milliseconds.
    #[must_use]
    pub fn stalled_ms(&self) -> u64 {
        self.stalled_ms.read()
    }
}

//! Budget: the limit on the memory that all clients together use outside of the cache.
//!
//! Each event loop reports the sum of its connections ([`Budget::set_connections`]); a thread that
//! puts bytes into an inbox takes them from the budget ([`Budget::take_inbox`]). Above the limit
//! each loop above its part closes its largest connections (worker/client_eviction.rs).
//! Unauthenticated connections together have a limit of their own ([`UNAUTHENTICATED_EIGHTHS`]);
//! above it, and above the whole limit, they are closed before all others, on every loop.
//!
//! A reply made in one step counts while it grows ([`Budget::admits_reply`]); after one that found
//! too little memory, connections are closed until the next would fit.
//!
//! Invariant: inboxes alone never hold more than half of the limit.
//! Tests: at the end of this file, server/tests/client_memory.rs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cellar_config::limits::{REPLY_BYTES_MAX, TURN_REPLY_BYTES_MAX};
use cellar_engine::exclude_from_heap_count;
use parking_lot::Mutex;

/// The part of the limit down to which connections are closed, in eighths.
const KEPT_EIGHTHS: usize = 7;
/// The growth allowed in one iteration before the next check of the limit, in eighths of it.
const TURN_EIGHTHS: usize = 1;
/// The part of the limit that unauthenticated connections may use together, in eighths.
const UNAUTHENTICATED_EIGHTHS: usize = 1;

/// The part of the limit that read-ahead of all pipelines may share, in eighths.
const AHEAD_EIGHTHS: usize = 2;
/// Free memory that one more read requires.
const AHEAD_READ_BYTES: usize = 128 << 10;

/// A client with more unread bytes is slow: senders that can wait slow down for it.
const UNREAD_BYTES_MIN: usize = 1 << 20;

/// The part of the limit that closed connections may still hold, in eighths. Above it, they are
/// freed as fast as open ones grow.
const TORN_DOWN_EIGHTHS: usize = 2;

/// The memory of the clients of one event loop, on its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LoopShare {
    // Relaxed: sums that order nothing, written by their own loop.
    connections: AtomicUsize,
    // Relaxed: a sum that orders nothing; a part of the one above.
    unauthenticated: AtomicUsize,
    /// The size of the reply being made; not yet part of the connections' bytes.
    // Relaxed: a sum that orders nothing.
    growing: AtomicUsize,
    // Relaxed: a sum that orders nothing.
    inboxes: AtomicUsize,
    /// Bytes of closed connections that are not freed yet.
    // Relaxed: a sum that orders nothing.
    torn_down: AtomicUsize,
    /// Bytes of pipelines read ahead; a part of the connections' bytes.
    // Relaxed: a sum that orders nothing.
    ahead: AtomicUsize,
}

/// The bytes that a client, or a part of its state, holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Outside of the cache's memory: they count for the budget.
    pub beside: usize,
    /// In the cache's memory: a value being received, and values that are pinned.
    pub cached: usize,
}

/// A connection: the index of its event loop, and its token there.
pub type ConnectionId = (usize, u64);

/// Whether a connection may read more of its pipeline ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AheadGrant {
    /// It may read once.
    Now,
    /// When other pipelines need less.
    Later,
    /// Its pipeline does not fit.
    Never,
}

impl LoopShare {
    fn bytes(&self) -> usize {
        // Relaxed, here and below: sums that order nothing.
        self.connections.load(Ordering::Relaxed) + self.inboxes.load(Ordering::Relaxed)
    }

    fn torn_down_bytes(&self) -> usize {
        self.torn_down.load(Ordering::Relaxed)
    }

    fn unauthenticated_bytes(&self) -> usize {
        self.unauthenticated.load(Ordering::Relaxed)
    }

    /// The bytes of authenticated clients.
    fn known_bytes(&self) -> usize {
        self.bytes().saturating_sub(self.unauthenticated_bytes())
    }
}

/// The memory that clients use, and its limit.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    parts: Box<[LoopShare]>,
    /// The highest sum since the heap last returned memory to the system.
    // Relaxed: a number to compare with, which orders nothing.
    peak: AtomicUsize,
    /// The sum at the last check for a fall.
    // Relaxed: as the peak.
    seen: AtomicUsize,
    /// Free memory required for another reply like the last one that did not fit; zero once it is
    /// free.
    // Relaxed: a number to compare with, which orders nothing.
    wanted: AtomicUsize,
    /// Whether a slow client was sent more.
    // Relaxed: a hint, which orders nothing.
    has_slow_reader: AtomicBool,
    /// The one connection whose pipeline may take more than its part of the shared read-ahead.
    /// A leaf in the order of locks.
    largest_ahead: Mutex<Option<ConnectionId>>,
}

impl Default for Budget {
    /// One loop without a limit.
    fn default() -> Budget {
        Budget::new(usize::MAX, 1)
    }
}

impl Budget {
    /// Creates a budget of `bytes_max` for this number of event loops.
    #[must_use]
    pub fn new(bytes_max: usize, loops: usize) -> Budget {
        Budget {
            bytes_max,
            parts: (0..loops).map(|_| LoopShare::default()).collect(),
            peak: AtomicUsize::new(0),
            seen: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            has_slow_reader: AtomicBool::new(false),
            largest_ahead: Mutex::new(None),
        }
    }

    /// The limit.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The bytes of all clients, with those of closed connections not freed yet.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let torn_down = self.parts.iter().map(LoopShare::torn_down_bytes);
        self.present_bytes() + torn_down.sum::<usize>()
    }

    /// The bytes of open connections alone: no connection is closed for those already closed.
    fn present_bytes(&self) -> usize {
        self.parts.iter().map(LoopShare::bytes).sum()
    }

    /// The bytes of unauthenticated connections.
    fn unauthenticated_bytes(&self) -> usize {
        self.parts
            .iter()
            .map(LoopShare::unauthenticated_bytes)
            .sum()
    }

    /// The limit for all unauthenticated connections together.
    fn unauthenticated_bytes_max(&self) -> usize {
        self.bytes_max / 8 * UNAUTHENTICATED_EIGHTHS
    }

    /// Records what the connections of a loop hold beside their inboxes, and the part of it that
    /// unauthenticated connections hold. A reply in progress moves into it.
    #[inline]
    pub fn set_connections(&self, index: usize, bytes: usize, of_unauthenticated: usize) {
        let part = &self.parts[index];
        part.connections.store(bytes, Ordering::Relaxed);
        part.growing.store(0, Ordering::Relaxed);
        part.unauthenticated
            .store(of_unauthenticated, Ordering::Relaxed);
    }

    /// Records the bytes of a loop's closed clients that are not freed yet.
    pub fn set_torn_down(&self, index: usize, bytes: usize) {
        self.parts[index].torn_down.store(bytes, Ordering::Relaxed);
    }

    /// Records the bytes that pipelines of a loop have read ahead.
    pub fn set_ahead(&self, index: usize, bytes: usize) {
        self.parts[index].ahead.store(bytes, Ordering::Relaxed);
    }

    /// Whether a connection may read more of its pipeline ahead of its replies.
    ///
    /// All pipelines share [`AHEAD_EIGHTHS`] of the limit. Above that one at a time may grow, up to
    /// the limit of all connections, and the others wait for it: so each pipeline that fits is
    /// served, however many are sent at once.
    #[must_use]
    pub fn grant_ahead(&self, connection: ConnectionId) -> AheadGrant {
        let is_free = self.present_bytes() + AHEAD_READ_BYTES <= kept_of(self.bytes_max);
        // Relaxed: sums that order nothing.
        let ahead = |part: &LoopShare| part.ahead.load(Ordering::Relaxed);
        let all_ahead: usize = self.parts.iter().map(ahead).sum();
        let mut largest = self.largest_ahead.lock();
        if *largest != Some(connection) {
            if is_free && all_ahead + AHEAD_READ_BYTES <= self.bytes_max / 8 * AHEAD_EIGHTHS {
                return AheadGrant::Now;
            }
            if largest.is_some() {
                return AheadGrant::Later;
            }
            *largest = Some(connection);
        }
        match is_free {
            true => AheadGrant::Now,
            false => AheadGrant::Never,
        }
    }

    /// Records that a connection needs no more read-ahead: its pipeline is executed or refused, or
    /// the connection is closed.
    pub fn release_ahead(&self, connection: ConnectionId) {
        let mut largest = self.largest_ahead.lock();
        largest.take_if(|one| *one == connection);
    }

    /// Records the size of a reply that a loop is making; returns whether memory for it is
    /// available. If not, connections are closed from now on until the next such reply fits.
    #[must_use]
    pub fn admits_reply(&self, index: usize, bytes: usize) -> bool {
        // Relaxed, here and below: sums that order nothing.
        self.parts[index].growing.store(bytes, Ordering::Relaxed);
        let growing = |part: &LoopShare| part.growing.load(Ordering::Relaxed);
        let all_growing: usize = self.parts.iter().map(growing).sum();
        let is_admitted = self.bytes() + all_growing <= self.bytes_max;
        if !is_admitted {
            let wanted = REPLY_BYTES_MAX.min(self.bytes_max / 2);
            self.wanted.store(wanted, Ordering::Relaxed);
        }
        is_admitted
    }

    /// Records that a loop has finished its reply: it is written, or its connection holds it.
    #[inline]
    pub fn end_reply(&self, index: usize) {
        let growing = &self.parts[index].growing;
        if growing.load(Ordering::Relaxed) > 0 {
            growing.store(0, Ordering::Relaxed);
        }
    }

    /// Whether a reply found too little memory, and another one like it still would.
    #[inline]
    #[must_use]
    pub fn is_wanting(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Growth of one loop's connections that requires a check before more requests are served.
    #[inline]
    #[must_use]
    pub fn turn_bytes_max(&self) -> usize {
        TURN_REPLY_BYTES_MAX.min(self.bytes_max / 8 * TURN_EIGHTHS)
    }

    /// The current limit for connections.
    fn connection_bytes_max(&self) -> usize {
        self.bytes_max - self.wanted.load(Ordering::Relaxed)
    }

    /// The limit for a loop's closed connections that are not freed yet: freeing keeps the sum at
    /// or below this and what the connections held when they closed.
    #[must_use]
    pub fn torn_down_bytes_max(&self) -> usize {
        self.bytes_max / 8 * TORN_DOWN_EIGHTHS / self.parts.len()
    }

    /// Whether the sum of all, or of unauthenticated connections, exceeds its limit; also updates
    /// the peak.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.peak.fetch_max(self.bytes(), Ordering::Relaxed);
        let is_over = self.present_bytes() > self.connection_bytes_max();
        if !is_over {
            self.wanted.store(0, Ordering::Relaxed);
        }
        is_over || self.unauthenticated_bytes() > self.unauthenticated_bytes_max()
    }

    /// Bytes of unauthenticated connections that a loop has to free now: those above their limit,
    /// and while the sum of all clients is above the limit, as many as are needed or available.
    #[must_use]
    pub fn excess_of_unauthenticated(&self, index: usize) -> usize {
        let (all, own) = (
            self.present_bytes(),
            self.parts[index].unauthenticated_bytes(),
        );
        let mut excess = 0;
        let bytes_max = self.connection_bytes_max();
        if all > bytes_max {
            excess = own.min(all - kept_of(bytes_max));
        }
        let (unauthenticated, most) = (
            self.unauthenticated_bytes(),
            self.unauthenticated_bytes_max(),
        );
        if unauthenticated > most {
            let kept = kept_of(most);
            let above_part = own.saturating_sub(kept / self.parts.len());
            excess = excess.max(above_part.min(unauthenticated - kept));
        }
        excess
    }

    /// Bytes of authenticated connections that a loop has to free now: while they exceed the limit
    /// without any unauthenticated ones, the loop's bytes above its part.
    #[must_use]
    pub fn excess_of(&self, index: usize) -> usize {
        let all: usize = self.parts.iter().map(LoopShare::known_bytes).sum();
        let bytes_max = self.connection_bytes_max();
        if all <= bytes_max {
            return 0;
        }
        let kept = kept_of(bytes_max);
        let own = self.parts[index].known_bytes();
        let above_part = own.saturating_sub(kept / self.parts.len());
        above_part.min(all - kept)
    }

    /// Most bytes that all inboxes may hold together.
    #[must_use]
    pub fn inbox_bytes_max(&self) -> usize {
        self.bytes_max / 2
    }

    /// Records a client's number of unread bytes.
    pub fn note_unread(&self, bytes: usize) {
        if bytes > UNREAD_BYTES_MIN.min(self.inbox_bytes_max() / 2) {
            // Relaxed: as it says where it is declared.
            self.has_slow_reader.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a slow client was sent more since the last call.
    #[must_use]
    pub fn take_slow_reader(&self) -> bool {
        // Relaxed: as it says where it is declared.
        self.has_slow_reader.load(Ordering::Relaxed)
            && self.has_slow_reader.swap(false, Ordering::Relaxed)
    }

    /// Takes bytes for the inbox of a client of this loop; returns whether they were available.
    #[must_use]
    pub fn take_inbox(&self, index: usize, bytes: usize) -> bool {
        self.parts[index]
            .inboxes
            .fetch_add(bytes, Ordering::Relaxed);
        let inboxes = |part: &LoopShare| part.inboxes.load(Ordering::Relaxed);
        let is_there = self.parts.iter().map(inboxes).sum::<usize>() <= self.inbox_bytes_max();
        match is_there {
            // The sending client does not own them.
            true => exclude_from_heap_count(bytes),
            false => self.give_inbox(index, bytes),
        }
        is_there
    }

    /// Gives back what was taken.
    pub fn give_inbox(&self, index: usize, bytes: usize) {
        self.parts[index]
            .inboxes
            .fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Raises the peak by memory that was freed but is not counted here, such as a script's.
    pub fn note_freed(&self, bytes: usize) {
        self.peak.fetch_max(self.bytes() + bytes, Ordering::Relaxed);
    }

    /// Whether so much less is held than at the peak that the heap has something to give back, and
    /// it falls no further; then a new peak begins.
    #[must_use]
    pub fn has_fallen(&self, bytes: usize) -> bool {
        let now = self.bytes();
        let peak = self.peak.fetch_max(now, Ordering::Relaxed).max(now);
        let is_falling = now < self.seen.swap(now, Ordering::Relaxed);
        let has_fallen = peak - now >= bytes && !is_falling;
        if has_fallen {
            self.peak.store(now, Ordering::Relaxed);
        }
        has_fallen
    }
}

/// The part of a limit down to which connections are closed.
fn kept_of(bytes_max: usize) -> usize {
    bytes_max / 8 * KEPT_EIGHTHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_have_a_share_of_their_own_and_go_before_anybody_else() {
        let budget = Budget::new(8_000, 2);
        // Unauthenticated connections below their limit, and all below the whole limit.
        budget.set_connections(0, 7_000, 0);
        budget.set_connections(1, 1_000, 1_000);
        assert!(!budget.is_over());
        // Above it, though all together hold little.
        budget.set_connections(0, 100, 0);
        budget.set_connections(1, 1_200, 1_200);
        assert!(budget.is_over());
        assert_eq!(budget.excess_of_unauthenticated(1), 325);
        assert_eq!(
            (budget.excess_of_unauthenticated(0), budget.excess_of(1)),
            (0, 0)
        );
        // Above the limit only unauthenticated connections are closed, on every loop that has them.
        budget.set_connections(0, 7_800, 0);
        budget.set_connections(1, 900, 900);
        assert!(budget.is_over());
        assert_eq!((budget.excess_of(0), budget.excess_of(1)), (0, 0));
        assert_eq!(budget.excess_of_unauthenticated(1), 900);
        // The others only for the memory of their own loop.
        budget.set_connections(0, 8_001, 0);
        budget.set_connections(1, 0, 0);
        assert_eq!(budget.excess_of(0), 1_001);
    }

    #[test]
    fn the_loop_that_holds_more_than_its_part_lets_go() {
        let budget = Budget::new(800, 2);
        budget.set_connections(0, 700, 0);
        budget.set_connections(1, 100, 0);
        assert_eq!((budget.excess_of(0), budget.excess_of(1)), (0, 0));
        budget.set_connections(1, 200, 0);
        assert!(budget.is_over());
        assert_eq!((budget.excess_of(0), budget.excess_of(1)), (200, 0));
        // Whatever exceeds the limit, some loop has to free memory.
        budget.set_connections(0, 401, 0);
        budget.set_connections(1, 400, 0);
        assert!(budget.excess_of(0) > 0 && budget.excess_of(1) > 0);
    }

    #[test]
    fn pipelines_share_a_part_and_beyond_it_grow_one_at_a_time() {
        const MIB: usize = 1 << 20;
        let budget = Budget::new(64 * MIB, 2);
        let (first, second) = ((0, 1), (1, 1));
        let hold = |index: usize, bytes: usize| {
            budget.set_connections(index, bytes, 0);
            budget.set_ahead(index, bytes);
        };
        hold(0, 8 * MIB);
        hold(1, 7 * MIB);
        assert_eq!(budget.grant_ahead(first), AheadGrant::Now);
        assert_eq!(budget.grant_ahead(second), AheadGrant::Now);
        hold(1, 8 * MIB);
        assert_eq!(budget.grant_ahead(first), AheadGrant::Now);
        assert_eq!(budget.grant_ahead(second), AheadGrant::Later);
        hold(0, 47 * MIB);
        assert_eq!(budget.grant_ahead(first), AheadGrant::Now);
        hold(0, 48 * MIB);
        assert_eq!(budget.grant_ahead(first), AheadGrant::Never);
        budget.release_ahead(second);
        assert_eq!(budget.grant_ahead(second), AheadGrant::Later);
        // The second grows as soon as the first needs no more.
        hold(0, 0);
        budget.release_ahead(first);
        hold(1, 40 * MIB);
        assert_eq!(budget.grant_ahead(second), AheadGrant::Now);
    }

    #[test]
    fn a_reply_that_finds_no_memory_has_connections_closed_until_the_next_one_would() {
        let budget = Budget::new(800, 2);
        budget.set_connections(0, 300, 0);
        budget.set_connections(1, 300, 0);
        assert!(budget.admits_reply(0, 100) && budget.admits_reply(1, 100));
        // Together they exceed the limit, though each alone would not.
        assert!(!budget.admits_reply(0, 101));
        budget.set_connections(0, 400, 0);
        budget.set_connections(1, 300, 0);
        assert!(budget.is_over());
        assert!(budget.excess_of(0) > 0 && budget.excess_of(1) > 0);
        budget.set_connections(0, 200, 0);
        budget.set_connections(1, 200, 0);
        assert!(!budget.is_over());
        assert!(budget.admits_reply(0, 400));
        assert!(!budget.admits_reply(1, 1));
        // A reply that its client has read belongs to no connection.
        budget.end_reply(0);
        assert!(budget.admits_reply(1, 1));
    }

    #[test]
    fn inboxes_hold_at_most_half() {
        let budget = Budget::new(1_000, 2);
        assert!(budget.take_inbox(0, 300) && budget.take_inbox(1, 200));
        assert!(!budget.take_inbox(1, 1));
        budget.give_inbox(0, 300);
        assert!(budget.take_inbox(1, 300));
        assert_eq!(budget.bytes(), 500);
    }

    #[test]
    fn the_heap_gives_back_once_for_each_fall() {
        let budget = Budget::new(1_000, 1);
        budget.set_connections(0, 900, 0);
        assert!(!budget.is_over() && !budget.has_fallen(500));
        budget.set_connections(0, 300, 0);
        assert!(!budget.has_fallen(500));
        // While it falls, more may follow.
        budget.set_connections(0, 100, 0);
        assert!(!budget.has_fallen(500));
        assert!(budget.has_fallen(500) && !budget.has_fallen(500));
        budget.note_freed(600);
        assert!(budget.has_fallen(500) && !budget.has_fallen(500));
    }
}

//! Budget: what all clients together have the server hold outside of the cache's memory.
//!
//! Each event loop notes the sum of its connections ([`Budget::set_connections`]); who puts
//! something into an inbox takes its bytes ([`Budget::take_inbox`]). Above the limit each loop that
//! holds more than its part closes its largest connections (worker/client_eviction.rs).
//! Unauthenticated connections, which have to log in and have not, together have a share of their
//! own ([`UNAUTHENTICATED_EIGHTHS`]); beyond it, and above the limit, they go before anybody else,
//! on every loop.
//!
//! A reply that is made in one step counts while it grows ([`Budget::admits_reply`]); one that
//! finds no memory has connections closed until the next one would.
//!
//! Invariant: inboxes alone never hold more than half of the limit.
//! Tests: at the end of this file, tests/client_memory.rs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cellar_engine::exclude_from_heap_count;

use crate::config::limits::{REPLY_BYTES_MAX, TURN_REPLY_BYTES_MAX};

/// What stays when connections are closed for their memory, in eighths of the limit.
const KEPT_EIGHTHS: usize = 7;
/// What one turn may add before the next look at the limit, in eighths of it.
const TURN_EIGHTHS: usize = 1;
/// What unauthenticated connections may hold together, in eighths of the limit.
const UNAUTHENTICATED_EIGHTHS: usize = 1;

/// What read-ahead may take as long as it is shared by all pipelines, in eighths of the limit.
const AHEAD_EIGHTHS: usize = 2;
/// Free memory that one more read needs.
const AHEAD_READ_BYTES: usize = 128 << 10;

/// A client that has more to read is slow: who can wait with sending it more does.
const UNREAD_BYTES_MIN: usize = 1 << 20;

/// What clients may have left behind, not freed yet, before it goes as fast as others set up, in
/// eighths of the limit.
const TORN_DOWN_EIGHTHS: usize = 2;

/// What the clients of one event loop hold, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LoopShare {
    // Relaxed: sums that order nothing, written by their own loop.
    connections: AtomicUsize,
    // Relaxed: a sum that orders nothing; a part of the one above.
    unauthenticated: AtomicUsize,
    /// What the reply that is being made holds; no part of the connections' bytes yet.
    // Relaxed: a sum that orders nothing.
    growing: AtomicUsize,
    // Relaxed: a sum that orders nothing.
    inboxes: AtomicUsize,
    /// What clients have left behind that is not freed yet.
    // Relaxed: a sum that orders nothing.
    torn_down: AtomicUsize,
    /// What pipelines hold that were read ahead; a part of the connections' bytes.
    // Relaxed: a sum that orders nothing.
    ahead: AtomicUsize,
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

    /// What those hold who are let in.
    fn known_bytes(&self) -> usize {
        self.bytes().saturating_sub(self.unauthenticated_bytes())
    }
}

/// What clients hold, and what they may.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    parts: Box<[LoopShare]>,
    /// Most that was seen since the heap gave back memory last.
    // Relaxed: a figure to compare with, which orders nothing.
    peak: AtomicUsize,
    /// What was held at the last look for a fall.
    // Relaxed: as the peak.
    seen: AtomicUsize,
    /// What has to be free for the next reply like one that found too little, until it is.
    // Relaxed: a figure to compare with, which orders nothing.
    wanted: AtomicUsize,
    /// Whether a client with much to read was sent more.
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
    /// A budget of so many bytes for so many event loops.
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

    /// What all hold, and what those have left who are gone.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let torn_down = self.parts.iter().map(LoopShare::torn_down_bytes);
        self.present_bytes() + torn_down.sum::<usize>()
    }

    /// What those hold who are there: nobody is closed for what others have left.
    fn present_bytes(&self) -> usize {
        self.parts.iter().map(LoopShare::bytes).sum()
    }

    /// What unauthenticated connections hold.
    fn unauthenticated_bytes(&self) -> usize {
        self.parts
            .iter()
            .map(LoopShare::unauthenticated_bytes)
            .sum()
    }

    /// What unauthenticated connections may hold together.
    fn unauthenticated_bytes_max(&self) -> usize {
        self.bytes_max / 8 * UNAUTHENTICATED_EIGHTHS
    }

    /// Notes what the connections of a loop hold beside their inboxes, and how much of it
    /// unauthenticated connections hold. A reply that was being made is a part of it.
    #[inline]
    pub fn set_connections(&self, index: usize, bytes: usize, of_unauthenticated: usize) {
        let part = &self.parts[index];
        part.connections.store(bytes, Ordering::Relaxed);
        part.growing.store(0, Ordering::Relaxed);
        part.unauthenticated
            .store(of_unauthenticated, Ordering::Relaxed);
    }

    /// Notes what clients of a loop have left behind that is not freed yet.
    pub fn set_torn_down(&self, index: usize, bytes: usize) {
        self.parts[index].torn_down.store(bytes, Ordering::Relaxed);
    }

    /// Notes what pipelines of a loop hold that were read ahead.
    pub fn set_ahead(&self, index: usize, bytes: usize) {
        self.parts[index].ahead.store(bytes, Ordering::Relaxed);
    }

    /// Whether a connection may read more of its pipeline ahead of its replies.
    ///
    /// All pipelines share [`AHEAD_EIGHTHS`] of the limit. Beyond that one at a time may grow, as
    /// far as connections may hold memory at all, and the others wait for it: so each pipeline
    /// that fits is served, however many are sent at once.
    #[must_use]
    pub fn grant_ahead(&self, connection: ConnectionId) -> AheadGrant {
        let is_free = self.present_bytes() + AHEAD_READ_BYTES <= kept_of(self.bytes_max);
        // Relaxed: sums that order nothing.
        let ahead = |part: &LoopShare| part.ahead.load(Ordering::Relaxed);
        let all_ahead: usize = self.parts.iter().map(ahead).sum();
        let mut largest = self.lock_largest();
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

    /// Notes that a connection needs no more read-ahead: its pipeline is executed or refused, or it
    /// is gone.
    pub fn release_ahead(&self, connection: ConnectionId) {
        let mut largest = self.lock_largest();
        largest.take_if(|one| *one == connection);
    }

    fn lock_largest(&self) -> std::sync::MutexGuard<'_, Option<ConnectionId>> {
        let largest = self.largest_ahead.lock();
        largest.unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a reply holds that a loop is making; whether there is memory for it. If not, from
    /// here on connections are closed until the next one finds some.
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

    /// Notes that a loop makes no reply any more: it is written, or its connection holds it.
    #[inline]
    pub fn end_reply(&self, index: usize) {
        let growing = &self.parts[index].growing;
        if growing.load(Ordering::Relaxed) > 0 {
            growing.store(0, Ordering::Relaxed);
        }
    }

    /// Whether a reply found too little memory, and the next one like it still would.
    #[inline]
    #[must_use]
    pub fn is_wanting(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// What connections of one loop may come to hold before connections are closed for it.
    #[inline]
    #[must_use]
    pub fn turn_bytes_max(&self) -> usize {
        TURN_REPLY_BYTES_MAX.min(self.bytes_max / 8 * TURN_EIGHTHS)
    }

    /// What connections may hold at present.
    fn connection_bytes_max(&self) -> usize {
        self.bytes_max - self.wanted.load(Ordering::Relaxed)
    }

    /// What a loop's clients may have left behind: what is more becomes no more than that and what
    /// was held when they left.
    #[must_use]
    pub fn torn_down_bytes_max(&self) -> usize {
        self.bytes_max / 8 * TORN_DOWN_EIGHTHS / self.parts.len()
    }

    /// Whether all together, or unauthenticated connections, hold too much; also keeps the peak.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.peak.fetch_max(self.bytes(), Ordering::Relaxed);
        let is_over = self.present_bytes() > self.connection_bytes_max();
        if !is_over {
            self.wanted.store(0, Ordering::Relaxed);
        }
        is_over || self.unauthenticated_bytes() > self.unauthenticated_bytes_max()
    }

    /// How many bytes of unauthenticated connections a loop has to let go now: what they hold above
    /// their share, and as long as all together hold too much, as much as there is of them.
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

    /// How many bytes of those who are let in a loop has to let go now: as long as they hold too
    /// much without any unauthenticated connections, what it holds above its part.
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

    /// Notes that a client has so much to read.
    pub fn note_unread(&self, bytes: usize) {
        if bytes > UNREAD_BYTES_MIN.min(self.inbox_bytes_max() / 2) {
            // Relaxed: as it says where it is declared.
            self.has_slow_reader.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a client had much to read, and more was put into its inbox, since the last call.
    #[must_use]
    pub fn take_slow_reader(&self) -> bool {
        // Relaxed: as it says where it is declared.
        self.has_slow_reader.load(Ordering::Relaxed)
            && self.has_slow_reader.swap(false, Ordering::Relaxed)
    }

    /// Takes bytes for the inbox of a client of this loop; whether there were so many.
    #[must_use]
    pub fn take_inbox(&self, index: usize, bytes: usize) -> bool {
        self.parts[index]
            .inboxes
            .fetch_add(bytes, Ordering::Relaxed);
        let inboxes = |part: &LoopShare| part.inboxes.load(Ordering::Relaxed);
        let is_there = self.parts.iter().map(inboxes).sum::<usize>() <= self.inbox_bytes_max();
        match is_there {
            // Whoever has sent them does not hold them.
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

/// What of a limit stays when connections are closed for it.
fn kept_of(bytes_max: usize) -> usize {
    bytes_max / 8 * KEPT_EIGHTHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_have_a_share_of_their_own_and_go_before_anybody_else() {
        let budget = Budget::new(8_000, 2);
        // Within their share, beside others within the limit.
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
        // Above the limit only unauthenticated connections go, whichever loop has them.
        budget.set_connections(0, 7_800, 0);
        budget.set_connections(1, 900, 900);
        assert!(budget.is_over());
        assert_eq!((budget.excess_of(0), budget.excess_of(1)), (0, 0));
        assert_eq!(budget.excess_of_unauthenticated(1), 900);
        // The others only for what they hold themselves.
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
        // Whatever is over, some loop has to let go of something.
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
        // Both together hold too much, though each alone would not.
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
        // One that its client has read is no connection's.
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

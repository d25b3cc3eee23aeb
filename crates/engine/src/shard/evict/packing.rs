//! Packing: which items are compressed when they move, and which segments are emptied for that.
//!
//! Values are compressed in an insertion's share of the work and by background maintenance, never
//! while an operation waits for space: an operation finds an item in the form in which it first saw
//! it.
//!
//! Why: docs/decisions/0084, 0100. Tests: tests/compress.rs.

use super::{Purpose, Reclaimer, Victim};
use crate::base::clock::Instant;
use crate::interface::config::Effort;
use crate::log::policy::small_bytes;
use crate::log::segment::{Flow, Queue, Stream};
use crate::store::{Form, HOT_READS, Located, Store};

/// Segments that one call looks at for plain values.
const LOOKS_MAX: usize = 8;
/// The small queue is compressed beyond so many times its share: items in the rest are soon evicted
/// or moved.
const SMALL_SHARES: usize = 2;
/// Free segments that background maintenance leaves for insertions.
const FREE_BESIDE: usize = 4;
/// Frequency of an item that has stayed plain. Until its segment is evicted again, it needs as many
/// reads as it lacks of [`HOT_READS`] to stay so; without any read it is compressed.
pub(super) const PLAIN_FREQUENCY: u8 = 1;
/// Pause between two segments that background maintenance compresses in a shard.
const PAUSE_MS: u64 = 20;

/// Whether an item that moves may stay plain: it is in the main queue, and will be compressed there
/// if not.
pub(super) fn may_stay_plain(store: &Store, victim: &Victim, located: &Located) -> bool {
    let log = store.log();
    let is_main = log.segment(victim.segment).queue == Queue::Main;
    is_main && !log.is_extent(victim.segment) && store.is_packable(located)
}

/// Whether one that may, and that was read since it last moved, stays plain.
pub(super) fn stays_plain(store: &Store, victim: &Victim, frequency: u8) -> bool {
    match victim.purpose {
        Purpose::Evict => frequency >= HOT_READS,
        _ => store.keeps_read_plain(victim.segment),
    }
}

impl Reclaimer {
    /// The form that a moved item gets.
    pub(super) fn form(&self, stays_plain: bool) -> Form {
        match self.may_pack && !stays_plain {
            true => Form::Packed,
            false => Form::Kept,
        }
    }

    /// Where the items of a victim go that stay in their queue.
    pub(super) fn stream_of(&self, purpose: Purpose, queue: Queue) -> Stream {
        let flow = match purpose {
            Purpose::Pack => Flow::Lasting,
            _ => Flow::Fresh,
        };
        Stream { queue, flow }
    }

    /// Makes a segment whose plain values are to be compressed the victim, before any live item is
    /// evicted, if there is one; returns whether there was.
    pub(super) fn pack(&mut self, store: &mut Store) -> bool {
        if !self.may_pack || !store.packing().is_any() {
            return false;
        }
        let all = store.queue_bytes(Queue::Small).0 + store.queue_bytes(Queue::Main).0;
        let share = small_bytes(all, store.log().small_percent(), store.few_items_bytes());
        let is_much = store.queue_bytes(Queue::Small).1 > SMALL_SHARES * share;
        let queues: &[Queue] = match is_much {
            true => &[Queue::Main, Queue::Small],
            false => &[Queue::Main],
        };
        self.pack_of(store, queues)
    }

    /// The same by background maintenance, while memory is short or is to go back to the system.
    pub(super) fn pack_in_background(
        &mut self,
        store: &mut Store,
        effort: Effort,
        now: Instant,
    ) -> bool {
        let is_wanted =
            store.packing().is_any() && (effort.release || store.log().is_budget_short());
        if !is_wanted || now < self.pack_at || store.log().available(FREE_BESIDE) < FREE_BESIDE {
            return false;
        }
        self.pack_at = Instant(now.0 + PAUSE_MS);
        self.pack_of(store, &[Queue::Main, Queue::Small])
    }

    fn pack_of(&mut self, store: &mut Store, queues: &[Queue]) -> bool {
        let mut looks = 0;
        for &queue in queues {
            for at in 0..store.log().sealed(queue).len() {
                let segment = store.log().sealed(queue)[at];
                if store.log().is_extent(segment)
                    || store.log().is_pinned(segment)
                    || store.packing().is_looked(segment)
                {
                    continue;
                }
                if store.is_worth_packing(segment) {
                    self.set_victim(store, segment, Purpose::Pack, 0);
                    return true;
                }
                looks += 1;
                if looks == LOOKS_MAX {
                    return false;
                }
            }
        }
        false
    }

    /// Stops compressing a segment: an operation waits for space.
    pub(super) fn leave_packing(&mut self) {
        self.victim = self.victim.filter(|one| one.purpose != Purpose::Pack);
    }
}

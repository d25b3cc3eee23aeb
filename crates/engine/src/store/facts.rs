//! Facts: an item's data besides its value, notifications to the observer, and the store's sums.
//!
//! Tests: tests/listing.rs, tests/lease.rs, tests/observer.rs.

use super::{Located, Store};
use crate::base::clock::{Deadline, Instant};
use crate::base::space::Space;
use crate::interface::observer::Happened;
use crate::interface::outcome::{Item, KeyFacts, Uses};
use crate::interface::stats::Stats;
use crate::key::Key;
use crate::log::item::Spec;
use crate::log::segment::Queue;

impl Store {
    /// All fields of an item's header.
    pub(crate) fn spec_of(&self, located: &Located) -> Spec {
        located.layout.spec(self.log.arena())
    }

    /// Whether the item was ever fetched.
    pub(crate) fn is_fetched(&self, located: &Located) -> bool {
        self.index.is_fetched(located.slot)
    }

    /// How often the item was used of late: 0 to 3.
    #[inline]
    pub(crate) fn frequency(&self, located: &Located) -> u8 {
        self.index.frequency(located.slot)
    }

    /// Restores the recorded uses of an item.
    pub(crate) fn set_uses(&mut self, located: &Located, uses: Uses) {
        self.index
            .set_uses(located.slot, uses.fetched, uses.frequency);
        let patch = uses
            .access_s
            .and_then(|at_s| located.layout.patch_access(at_s));
        if let Some(patch) = patch {
            self.patch(&patch);
        }
    }

    /// The space and the key of an item.
    #[inline]
    pub(crate) fn name_of(&self, located: &Located) -> (Space, &[u8]) {
        (located.layout.space(), self.key_of(&located.layout))
    }

    /// Facts about an item, for listings. Inlined: no caller needs all of them.
    #[inline]
    pub(crate) fn facts(&self, located: &Located, now: Instant) -> KeyFacts<'_> {
        let layout = &located.layout;
        let arena = self.log.arena();
        KeyFacts {
            key: self.key_of(layout),
            space: layout.space(),
            kind: layout.kind(arena),
            value_bytes: self.plain_bytes(located),
            stored_bytes: layout.total_bytes(),
            flags: layout.flags(arena),
            deadline: layout.deadline,
            idle_s: self.idle_s(located, now),
            version: layout.version(arena).unwrap_or(0),
            changed: layout.is_changed_string(arena),
            fetched: self.is_fetched(located),
            frequency: self.frequency(located),
            main: self.log.segment(located.segment).queue == Queue::Main,
            uses: Uses {
                fetched: self.is_fetched(located),
                frequency: self.frequency(located),
                access_s: layout.access_s(arena),
            },
        }
    }

    /// Seconds since the last access, or since the store if no access is recorded.
    #[inline]
    pub(crate) fn idle_s(&self, located: &Located, now: Instant) -> u64 {
        let since = match located.layout.access_s(self.log.arena()) {
            Some(second) => u64::from(second),
            None => {
                let start = self.log.start_of(located.segment);
                let segment = self.log.segment(located.segment);
                segment.stored_s(located.layout.offset - start)
            }
        };
        (now.0 / 1000).saturating_sub(since)
    }

    /// Adds this store's figures to `stats`.
    pub(crate) fn add_to(&self, stats: &mut Stats, now: Instant) {
        let counts = &self.counts;
        let (mut written, mut dead, mut overdue) = (0, 0, 0);
        for (_, segment) in self.log.segments() {
            written += segment.written_bytes();
            dead += segment.dead_bytes(now);
            overdue += segment.all_overdue_bytes(now);
            stats.segments += 1;
        }
        // Unchecked bytes count as live.
        written += self.unchecked_bytes();
        self.packing.add_to(stats);
        stats.items += self.live_items(now);
        stats.items_total += counts.stored;
        stats.live_bytes += (written - dead) as u64;
        stats.dead_bytes += dead as u64;
        stats.overdue_bytes += overdue as u64;
        stats.free_bytes += (self.log.resident_bytes() - written) as u64;
        stats.index_bytes += self.index.bytes() as u64;
        stats.overhead_bytes += self.log.overhead_bytes() as u64;
        stats.evicted += counts.evicted;
        stats.evicted_unfetched += counts.evicted_unfetched;
        stats.evicted_bytes += counts.evicted_bytes;
        stats.expired += counts.expired;
        stats.expired_unfetched += counts.expired_unfetched;
        stats.misses_expired += counts.misses_expired;
        stats.misses_flushed += counts.misses_flushed;
        stats.copied += counts.copied;
        stats.copied_bytes += counts.copied_bytes;
        stats.segments_freed += counts.segments_freed;
        let max = &mut stats.dead_at_eviction_max_ppm;
        *max = (*max).max(counts.dead_at_eviction_max_ppm);
    }

    /// Reports what happens to an item that is removed, whose key is only in the item.
    #[inline]
    pub(crate) fn report_gone(&self, located: &Located, happened: Happened) {
        if self.report.is_any() {
            self.report_gone_now(located, happened);
        }
    }

    #[inline(never)]
    fn report_gone_now(&self, located: &Located, happened: Happened) {
        if self.report.is_wanted() {
            let key = self.hashed_key_of(&located.layout);
            self.with_item(located, |item| {
                self.report.tell(key, happened, || Some(item))
            });
        }
    }

    /// Notifies the observer of a change to an item that gets this deadline.
    #[inline]
    pub(crate) fn report_with_deadline(
        &self,
        key: Key<'_>,
        happened: Happened,
        located: &Located,
        deadline: Deadline,
    ) {
        if self.report.is_wanted() {
            self.report_with_deadline_now(key, happened, located, deadline);
        }
    }

    #[cold]
    #[inline(never)]
    fn report_with_deadline_now(
        &self,
        key: Key<'_>,
        happened: Happened,
        located: &Located,
        deadline: Deadline,
    ) {
        self.with_item(located, |item| {
            let item = Item { deadline, ..item };
            self.report.tell(key, happened, || Some(item));
        });
    }
}

//! Shard: one complete cache, written as single-threaded code.
//!
//! The cache is an array of shards behind a lock each; `cache.rs` picks the shard. Every operation
//! finds its item, decides, writes, and then does its share of reclaiming. Reads with side effects
//! are in `lookup.rs`, counters in `counter.rs`, values that come in pieces in `receive.rs`.
//!
//! Order inside an operation: [`Shard::begin`], the operation, [`Shard::end`]. Making room may move
//! or drop any item, so items are located anew after it.
//! Why: docs/decisions/0006. Tests: tests/model.rs.

use crate::clock::{Deadline, Instant};
use crate::error::Error;
use crate::evict::{Newest, Reclaimer};
use crate::index::SlotRef;
use crate::item::{Layout, LeaseState, Spec};
use crate::key::Key;
use crate::observer::Happened;
use crate::options::{
    DeleteOptions, Deleted, End, Item, KeyFacts, SetOptions, Stats, Stored, When,
};
use crate::sample::Action;
use crate::segment::Queue;
use crate::space::Kind;
use crate::store::{Located, Store};
use crate::watch::Watch;

/// Items of this size have a version from the start, so that attaching one never copies them.
pub(crate) const VERSIONED_VALUE_BYTES: usize = 16 << 10;

/// Buckets that are swept for items of spaces that are gone: in one tick, and by an insertion while
/// memory is short.
const SWEPT_PER_TICK: usize = 64;
const SWEPT_PER_INSERT: usize = 4;
/// How often expired items are looked for while somebody wants to hear of them.
const EXPIRY_SWEEP_MS: u64 = 100;

/// Where an item's new value comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// The caller's bytes.
    Bytes(&'a [u8]),
    /// The old value, unchanged.
    Old,
    /// The old value with the caller's bytes at one end.
    Extended(End, &'a [u8]),
}

/// One shard. What every operation touches comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shard {
    flush_at: Option<Instant>,
    /// Bytes appended for which reclaiming is still to be done.
    pub(crate) due_bytes: usize,
    /// When expired items are looked for again.
    expiry_sweep_at: Instant,
    pub(crate) watch: Watch,
    pub(crate) store: Store,
    pub(crate) reclaimer: Reclaimer,
    /// The last version given to an item, and how far it is to the next: as many as there are
    /// shards, so that no two items of a cache get the same.
    version: u64,
    version_step: u64,
}

impl Shard {
    /// A shard over an empty store; versions count from `version` in steps of `version_step`.
    pub(crate) fn new(store: Store, watch: Watch, version: u64, version_step: u64) -> Shard {
        let reclaimer = Reclaimer::new();
        Shard {
            watch,
            store,
            reclaimer,
            version,
            version_step,
            flush_at: None,
            due_bytes: 0,
            expiry_sweep_at: Instant(0),
        }
    }

    /// Runs a delayed flush whose time has come; every operation begins with it.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant) {
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush_at = None;
            self.store.flush();
            self.store.report.tell_flushed(None);
        }
    }

    /// Does the reclaiming that an operation's appended bytes call for; every operation that may
    /// write ends with it.
    #[inline]
    pub(crate) fn end(&mut self, now: Instant) {
        if self.due_bytes > 0 {
            let bytes = std::mem::take(&mut self.due_bytes);
            self.reclaimer.step(&mut self.store, bytes, now);
            if self.store.tally.has_gone() && self.store.log.is_budget_short() {
                self.store.sweep(SWEPT_PER_INSERT);
            }
        }
    }

    /// Lets the newest large item leave, or protects it again.
    pub(crate) fn set_newest(&mut self, newest: Newest) {
        self.reclaimer.set_newest(newest);
    }

    /// Makes every item a miss at `at`, or now if that has passed; the caller reports the latter.
    pub(crate) fn flush_at(&mut self, at: Instant, now: Instant) {
        self.begin(now);
        if at <= now {
            self.flush_at = None;
            self.store.flush();
        } else {
            self.flush_at = Some(at);
        }
    }

    /// A version no item of this shard had before.
    pub(crate) fn next_version(&mut self) -> u64 {
        self.version += self.version_step;
        self.version
    }

    /// Finds a live item and counts the use: a whole operation, it needs no `begin` and no `end`.
    #[inline]
    pub(crate) fn get(&mut self, key: Key<'_>, now: Instant) -> Option<Item<'_>> {
        self.begin(now);
        let located = self.find_to_read(key, now)?;
        self.mark_used(&located, now);
        Some(self.store.item(&located))
    }

    /// Finds a live item for a read, which is counted as a hit or a miss.
    #[inline]
    pub(crate) fn find_to_read(&mut self, key: Key<'_>, now: Instant) -> Option<Located> {
        self.watch.count_get(key, now);
        let Some(located) = self.store.find(key, now) else {
            self.watch.note_miss(key, now);
            return None;
        };
        self.note(key, Action::Hit, &located, now);
        Some(located)
    }

    /// Tells the insights what happened to an item, as it is after that.
    #[inline]
    pub(crate) fn note(&mut self, key: Key<'_>, action: Action, item: &Located, now: Instant) {
        let facts = (item.layout.total_bytes(), item.layout.deadline);
        self.watch.note(key, action, facts, now);
    }

    /// Counts a use of the item: for eviction, and its last access if that is kept.
    #[inline]
    pub(crate) fn mark_used(&mut self, located: &Located, now: Instant) {
        self.store.index.mark_used(located.slot);
        if located.layout.is_extended()
            && let Some(patch) = located.layout.patch_access((now.0 / 1000) as u32)
        {
            self.store.patch(&patch);
        }
    }

    /// Stores a value if the condition holds.
    pub(crate) fn set(
        &mut self,
        key: Key<'_>,
        value: &[u8],
        options: &SetOptions,
        now: Instant,
    ) -> Result<Stored, Error> {
        self.reclaimer.prefetch(key.hash());
        let old = self.store.find(key, now);
        let spec = match self.decide(key, value.len(), old.as_ref(), options, now) {
            Ok(spec) => spec,
            Err(refused) => return Ok(refused),
        };
        let done = self.put(key, old, &spec, Content::Bytes(value), now)?;
        Ok(done.map_or(Stored::NotStored, |located| {
            self.stored(key, &located, &spec, now)
        }))
    }

    /// Notes a store.
    #[inline]
    pub(crate) fn stored(
        &mut self,
        key: Key<'_>,
        located: &Located,
        spec: &Spec,
        now: Instant,
    ) -> Stored {
        self.note(key, Action::Set, located, now);
        self.store.index.reset_fetched(located.slot);
        self.store.counts.stored += 1;
        self.store.report.tell(key, Happened::Stored);
        Stored::Done {
            version: spec.version.unwrap_or(0),
        }
    }

    /// Checks the condition of a store and makes the new item's header out of it.
    pub(crate) fn decide(
        &mut self,
        key: Key<'_>,
        value_bytes: usize,
        old: Option<&Located>,
        options: &SetOptions,
        now: Instant,
    ) -> Result<Spec, Stored> {
        let before = old.map(|old| old.layout.spec(self.store.log.arena()));
        let mut spec = Spec {
            kind: options.kind,
            flags: options.flags,
            access_s: before
                .and_then(|b| b.access_s)
                .map(|_| (now.0 / 1000) as u32),
            ..Spec::of_key(key, value_bytes, options.deadline)
        };
        match (options.when, &before) {
            (When::Absent, Some(_)) | (When::Present, None) => return Err(Stored::NotStored),
            (When::Version(_), None) => return Err(Stored::NotFound),
            (When::Version(asked), Some(before)) if before.version != Some(asked) => {
                // An item without a version was stored after any version was given out for it.
                let is_older = asked < before.version.unwrap_or(self.version + 1);
                if !(options.accept_older && is_older) {
                    return Err(Stored::Exists);
                }
                spec.deadline = before.deadline;
                spec.lease = LeaseState {
                    stale: true,
                    ..before.lease
                };
            }
            _ => {}
        }
        let wants_version = options.version
            || options.new_version.is_some()
            || matches!(options.when, When::Version(_))
            || before.is_some_and(|before| before.version.is_some())
            || value_bytes >= VERSIONED_VALUE_BYTES;
        if wants_version {
            spec.version = Some(options.new_version.unwrap_or_else(|| self.next_version()));
        }
        Ok(spec)
    }

    /// Writes an item: over the old one if it fits there, else at the end of the log.
    ///
    /// `None` if `content` needs the old value and making room pushed that out.
    ///
    /// # Errors
    /// [`Error::Busy`] if there is no room and nothing may leave.
    pub(crate) fn put(
        &mut self,
        key: Key<'_>,
        old: Option<Located>,
        spec: &Spec,
        content: Content<'_>,
        now: Instant,
    ) -> Result<Option<Located>, Error> {
        if let Some(old) = &old
            && let Content::Bytes(value) = content
            && self.store.fits_in_place(old, spec)
        {
            let layout = self.store.overwrite(old, spec, key.bytes());
            self.store.log.write(layout.value_at(), value);
            return Ok(Some(Located { layout, ..*old }));
        }
        let queue = match &old {
            Some(old) => self.store.log.segment(old.segment).queue,
            None => self.reclaimer.queue_for_new(key.hash()),
        };
        let (room, old) = match self.store.take_room(queue, spec, now) {
            Some(room) => (room, old),
            None => {
                let room = self.reclaimer.make_room(&mut self.store, queue, spec, now);
                (room.ok_or(Error::Busy)?, self.store.find(key, now))
            }
        };
        let bytes = spec.total_bytes(self.store.log.segment(room.segment).scale());
        if old.is_none() && !matches!(content, Content::Bytes(_)) {
            self.store.waste_room(room, bytes);
            return Ok(None);
        }
        let layout = self.store.write_item(room, spec, key.bytes());
        self.fill(&layout, old.as_ref(), content);
        let slot = self.link(key, old.as_ref(), &layout);
        self.due_bytes += bytes;
        Ok(Some(Located {
            slot,
            layout,
            segment: room.segment,
        }))
    }

    fn fill(&mut self, layout: &Layout, old: Option<&Located>, content: Content<'_>) {
        let to = layout.value_at();
        let old = old.map(|old| (old.layout.value_at(), old.layout.value_bytes));
        match (content, old) {
            (Content::Bytes(value), _) => self.store.log.write(to, value),
            (Content::Old, Some((from, len))) => self.store.log.copy(from, to, len),
            (Content::Extended(End::Back, bytes), Some((from, len))) => {
                self.store.log.copy(from, to, len);
                self.store.log.write(to + len, bytes);
            }
            (Content::Extended(End::Front, bytes), Some((from, len))) => {
                self.store.log.write(to, bytes);
                self.store.log.copy(from, to + bytes.len(), len);
            }
            (_, None) => unreachable!("the old value was checked to be there"),
        }
    }

    /// Points the index to a newly written item and buries the old one.
    pub(crate) fn link(&mut self, key: Key<'_>, old: Option<&Located>, new: &Layout) -> SlotRef {
        match old {
            Some(old) => {
                let frequency = self.store.index.frequency(old.slot);
                self.store.replace(old, new, frequency);
                old.slot
            }
            None => self.store.link(key.hash(), new.offset),
        }
    }

    /// Extends a value at one end; see [`Cache::extend`](crate::Cache::extend).
    pub(crate) fn extend(
        &mut self,
        key: Key<'_>,
        end: End,
        bytes: &[u8],
        options: &SetOptions,
        value_bytes_max: usize,
        now: Instant,
    ) -> Result<Stored, Error> {
        let Some(old) = self.store.find(key, now) else {
            return Ok(Stored::NotStored);
        };
        let before = old.layout.spec(self.store.log.arena());
        if before.kind != Kind::STRING {
            return Ok(Stored::NotStored);
        }
        if let When::Version(asked) = options.when
            && before.version != Some(asked)
        {
            return Ok(Stored::Exists);
        }
        let value_bytes = before.value_bytes + bytes.len();
        if value_bytes > value_bytes_max {
            return Err(Error::TooLarge {
                bytes: value_bytes,
                max: value_bytes_max,
            });
        }
        let options = SetOptions {
            kind: Kind::STRING,
            deadline: before.deadline,
            flags: before.flags,
            accept_older: false,
            ..*options
        };
        let spec = match self.decide(key, value_bytes, Some(&old), &options, now) {
            Ok(spec) => spec,
            Err(refused) => return Ok(refused),
        };
        let done = self.put(key, Some(old), &spec, Content::Extended(end, bytes), now)?;
        Ok(done.map_or(Stored::NotStored, |located| {
            self.stored(key, &located, &spec, now)
        }))
    }

    /// Gives a live item a new deadline.
    pub(crate) fn touch(
        &mut self,
        key: Key<'_>,
        deadline: Deadline,
        now: Instant,
    ) -> Result<bool, Error> {
        let Some(located) = self.store.find(key, now) else {
            return Ok(false);
        };
        self.mark_used(&located, now);
        self.retime(key, &located, deadline, now)?;
        Ok(true)
    }

    /// Gives an item another deadline, in place or by writing it anew.
    pub(crate) fn retime(
        &mut self,
        key: Key<'_>,
        located: &Located,
        deadline: Deadline,
        now: Instant,
    ) -> Result<(), Error> {
        let mut is_there = self.store.retime(located, deadline);
        if !is_there {
            let spec = Spec {
                deadline,
                ..located.layout.spec(self.store.log.arena())
            };
            let kept = self.put(key, Some(*located), &spec, Content::Old, now)?;
            is_there = kept.is_some();
        }
        self.watch.note(key, Action::Touch, (0, deadline), now);
        if is_there {
            self.store.report.tell(key, Happened::Retimed);
        }
        Ok(())
    }

    /// Deletes or marks an item.
    pub(crate) fn delete(
        &mut self,
        key: Key<'_>,
        options: &DeleteOptions,
        now: Instant,
    ) -> Result<Deleted, Error> {
        let is_plain = !options.mark_stale && !options.drop_value;
        let Some(located) = self.store.find(key, now) else {
            if is_plain {
                self.note_deleted(key, now);
            }
            return Ok(Deleted::NotFound);
        };
        let before = located.layout.spec(self.store.log.arena());
        if options.when_version.is_some() && before.version != options.when_version {
            return Ok(Deleted::Exists);
        }
        if is_plain {
            self.remove(key, &located, now);
            return Ok(Deleted::Done);
        }
        let mut spec = before;
        if options.drop_value {
            (spec.value_bytes, spec.flags, spec.lease) = (0, 0, LeaseState::default());
            spec.kind = Kind::STRING;
            spec.version = options.new_version.or(spec.version);
        }
        if options.mark_stale {
            spec.lease = LeaseState {
                stale: true,
                until_ms: 0,
            };
            spec.version = Some(options.new_version.unwrap_or_else(|| self.next_version()));
        }
        if let Some(deadline) = options.touch {
            spec.deadline = deadline;
        }
        let content = if options.drop_value {
            Content::Bytes(&[])
        } else {
            Content::Old
        };
        if let Some(kept) = self.put(key, Some(located), &spec, content, now)? {
            if options.drop_value {
                self.store.index.reset_fetched(kept.slot);
            }
            self.store.report.tell(key, Happened::Stored);
        }
        Ok(Deleted::Done)
    }

    /// Deletes an item.
    pub(crate) fn remove(&mut self, key: Key<'_>, located: &Located, now: Instant) {
        self.note_deleted(key, now);
        self.store.remove(located);
        self.store.shrink_index(1);
        self.store.report.tell(key, Happened::Removed);
    }

    fn note_deleted(&mut self, key: Key<'_>, now: Instant) {
        self.watch
            .note(key, Action::Delete, (0, Deadline::NEVER), now);
    }

    /// Facts about an item, for listings.
    pub(crate) fn facts(&self, located: &Located, now: Instant) -> KeyFacts<'_> {
        let layout = &located.layout;
        let arena = self.store.log.arena();
        KeyFacts {
            key: self.store.key_of(layout),
            space: layout.space(),
            kind: layout.kind(arena),
            value_bytes: layout.value_bytes,
            stored_bytes: layout.total_bytes(),
            flags: layout.flags(arena),
            deadline: layout.deadline,
            idle_s: self.idle_s(located, now),
            version: layout.version(arena).unwrap_or(0),
            fetched: self.store.index.is_fetched(located.slot),
            main: self.store.log.segment(located.segment).queue == Queue::Main,
        }
    }

    /// Seconds since the last access, or since the store if that is all that is known.
    pub(crate) fn idle_s(&self, located: &Located, now: Instant) -> u64 {
        let segment = self.store.log.segment(located.segment);
        let since = match located.layout.access_s(self.store.log.arena()) {
            Some(second) => u64::from(second),
            None => {
                let start = self.store.log.start_of(located.segment);
                segment.stored_s(located.layout.offset - start)
            }
        };
        (now.0 / 1000).saturating_sub(since)
    }

    /// Upkeep off the request path; whether some of it is left.
    pub(crate) fn tick(&mut self, release: bool, now: Instant) -> bool {
        self.begin(now);
        self.watch.try_hand_over();
        self.store.sweep(SWEPT_PER_TICK);
        if self.store.report.is_wanted() && now.0 >= self.expiry_sweep_at.0 {
            self.expiry_sweep_at = Instant(now.0 + EXPIRY_SWEEP_MS);
            self.store.sweep_expired(now);
        }
        self.store.index.forget_scans(now);
        let is_left = self.reclaimer.tick(&mut self.store, release, now);
        is_left || self.store.tally.has_gone()
    }

    /// Gives memory back to the shared budget for another shard; keeps `floor` bytes.
    pub(crate) fn give_up_memory(&mut self, bytes: usize, floor: usize, now: Instant) {
        self.reclaimer
            .give_up_memory(&mut self.store, bytes, floor, now);
    }

    /// Bytes the ghosts take.
    pub(crate) fn ghost_bytes(&self) -> usize {
        self.reclaimer.ghost_bytes()
    }

    /// Adds this shard's figures to `stats`.
    pub(crate) fn add_to(&self, stats: &mut Stats, now: Instant) {
        let (store, log, counts) = (&self.store, &self.store.log, &self.store.counts);
        let (mut written, mut dead) = (0, 0);
        for number in log.in_use() {
            written += log.segment(number).written_bytes();
            dead += log.segment(number).dead_bytes(now);
            stats.segments += 1;
        }
        stats.items += store.items() as u64;
        stats.items_total += counts.stored;
        stats.live_bytes += (written - dead) as u64;
        stats.dead_bytes += dead as u64;
        stats.free_bytes += (log.resident_bytes() - written) as u64;
        stats.index_bytes += store.index.bytes() as u64;
        stats.overhead_bytes += (log.overhead_bytes() + self.reclaimer.ghost_bytes()) as u64;
        stats.evicted += counts.evicted;
        stats.evicted_unfetched += counts.evicted_unfetched;
        stats.evicted_bytes += counts.evicted_bytes;
        stats.expired += counts.expired;
        stats.expired_unfetched += counts.expired_unfetched;
        stats.misses_expired += counts.misses_expired;
        stats.copied += counts.copied;
        stats.copied_bytes += counts.copied_bytes;
        stats.segments_freed += counts.segments_freed;
        stats.samples_dropped += self.watch.dropped();
        let max = &mut stats.dead_at_eviction_max_ppm;
        *max = (*max).max(counts.dead_at_eviction_max_ppm);
    }
}

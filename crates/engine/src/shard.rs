//! Shard: one complete cache, written as single-threaded code.
//!
//! The cache is an array of shards behind a lock each; `cache.rs` picks the shard. Every operation
//! finds its item, decides, writes, and then does its share of reclaiming. Reads with side effects
//! are in `lookup.rs`, counters in `counter.rs`, values that arrive in pieces in `cache/drafts.rs`.
//!
//! Order inside an operation: [`Shard::begin`], the operation, [`Shard::end`]. Reclaiming space may
//! move or drop any item, so items are located again after it.
//! Why: docs/decisions/0006. Tests: tests/model.rs.

pub(crate) mod expire; // how an item expires
pub(crate) mod compaction; // how much is reclaimable, which segment is compacted for it
pub(crate) mod evict; // which items are evicted when memory is full
pub(crate) mod unpack; // compressed items that are stored plain
pub(crate) mod lookup; // leases, versions, reads that change something
pub(crate) mod counter; // numbers that count
pub(crate) mod extend; // values that get longer at one end
pub(crate) mod update; // to read and then decide, as one step

use self::evict::room::Reclaimed;
use self::evict::{Newest, Reclaimer};
use self::expire::Sweep;
use crate::base::clock::{Deadline, Instant};
use crate::base::error::Error;
use crate::base::serialize::{Serialize, Serializer};
use crate::base::space::{Kind, Space};
use crate::insight::sample::Action;
use crate::insight::watch::Watch;
use crate::interface::config::Effort;
use crate::interface::observer::Happened;
use crate::interface::options::{DeleteOptions, SetOptions, When};
use crate::interface::outcome::{Deleted, Item, Stored};
use crate::interface::stats::Stats;
use crate::key::Key;
use crate::log::Room;
use crate::log::item::{LeaseState, Spec};
use crate::log::segment::Queue;
use crate::memory::table::Hint;
use crate::store::{Content, Located, Store};

/// Items of this size have a version from the start, so that attaching one never copies them.
pub(crate) const VERSIONED_VALUE_BYTES: usize = 16 << 10;

/// Buckets that are purged of items of spaces that are gone: in one tick, and by an insertion while
/// memory is short.
const PURGED_PER_TICK: usize = 64;
const PURGED_PER_INSERT: usize = 4;

/// Segments that stay free in addition to those that values are to fill: otherwise filling them
/// would empty others.
const FREE_BESIDE: usize = 3;

/// Versions that are noted at once as given out.
const VERSIONS_AHEAD: u64 = 1 << 20;

/// One shard. What every operation touches comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shard {
    flush_at: Option<Instant>,
    /// Bytes appended for which reclaiming is still to be done.
    pub(crate) due_bytes: usize,
    sweep: Sweep,
    pub(crate) watch: Watch,
    pub(crate) store: Store,
    pub(crate) reclaimer: Reclaimer,
    /// The last version given to an item, and how far it is to the next: as many as there are
    /// shards, so that no two items of a cache get the same.
    version: u64,
    version_step: u64,
    /// Versions up to this one may have been assigned, as the metadata records for the next
    /// process.
    versions_upto: u64,
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
            versions_upto: 0,
            flush_at: None,
            due_bytes: 0,
            sweep: Sweep::new(),
        }
    }

    /// Runs a delayed flush whose time has come; every operation begins with it.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant) {
        if self.flush_at.is_some_and(|at| at <= now) {
            self.store.flush();
            self.set_flush_at(None);
            self.store.report.tell_flushed(None);
        }
    }

    /// Does the reclaiming that an operation's appended bytes call for; every operation that may
    /// write ends with it.
    #[inline]
    pub(crate) fn end(&mut self, now: Instant) {
        if self.due_bytes > 0 || self.store.log().may_have_emptied() {
            self.reclaim(now);
        }
    }

    #[inline(never)]
    fn reclaim(&mut self, now: Instant) {
        if let Some(extent) = self.store.take_emptied() {
            self.reclaimer.retire_emptied(&mut self.store, extent);
        }
        if self.due_bytes > 0 {
            let bytes = std::mem::take(&mut self.due_bytes);
            self.reclaimer.step(&mut self.store, bytes, now);
            if self.store.tally.has_gone() && self.store.log().is_budget_short() {
                self.store.purge(PURGED_PER_INSERT);
            }
        }
    }

    /// Whether lock-free reads see the truth: no delayed flush is pending.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.flush_at.is_none()
    }

    /// Allows the eviction of the newest large item, or protects it again.
    pub(crate) fn set_newest(&mut self, newest: Newest) {
        self.reclaimer.set_newest(newest);
    }

    /// Makes every item a miss at `at`, or now if that has passed; the caller reports the latter.
    pub(crate) fn flush_at(&mut self, at: Instant, now: Instant) {
        self.begin(now);
        if at <= now {
            self.store.flush();
            self.set_flush_at(None);
        } else {
            self.set_flush_at(Some(at));
        }
    }

    fn set_flush_at(&mut self, at: Option<Instant>) {
        self.flush_at = at;
        self.store.log().metadata().set_flush_at(at);
    }

    /// A version no item of this shard had before.
    pub(crate) fn next_version(&mut self) -> u64 {
        self.version += self.version_step;
        if self.version > self.versions_upto {
            // Ahead, so that the next process, if it restores this shard, assigns none of them
            // again.
            self.versions_upto = self.version + VERSIONS_AHEAD * self.version_step;
            self.store.log().metadata().set_versions(self.versions_upto);
        }
        self.version
    }

    /// Restores the state of another process: versions continue after `version`, and a delayed
    /// flush and pending reclaiming are resumed.
    pub(crate) fn go_on(
        &mut self,
        version: u64,
        flush_at: Option<Instant>,
        reclaiming: Option<(Reclaimer, usize)>,
    ) {
        self.version = self.version.max(version);
        self.note_versions();
        self.set_flush_at(flush_at);
        if let Some((reclaimer, due_bytes)) = reclaiming {
            (self.reclaimer, self.due_bytes) = (reclaimer, due_bytes);
        }
    }

    /// Serializes its state besides its memory, for the process that restores it.
    pub(crate) fn serialize(&self, out: &mut Serializer) {
        self.store.serialize(out);
        self.reclaimer.serialize(out);
        self.due_bytes.serialize(out);
    }

    /// Notes exactly which versions were given out.
    pub(crate) fn note_versions(&mut self) {
        self.versions_upto = self.version;
        self.store.log().metadata().set_versions(self.version);
    }

    /// Finds a live item and counts the use: a whole operation, it needs no `begin` and no `end`.
    #[inline]
    pub(crate) fn get<R>(
        &mut self,
        key: Key<'_>,
        now: Instant,
        read: impl FnOnce(Item<'_>) -> R,
    ) -> Option<R> {
        self.begin(now);
        let located = self.find_to_read(key, now)?;
        self.store.mark_used(&located, now);
        if located.layout.is_packed() {
            self.store.count_packed_read(&located);
        }
        Some(self.store.with_item(&located, read))
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
        self.watch.note(key.hash(), action, facts, now);
    }

    /// Stores a value if the condition holds.
    ///
    /// Most stores write over a value of the same length, or a new item at the end of the log.
    #[inline]
    pub(crate) fn set(
        &mut self,
        key: Key<'_>,
        hint: Hint,
        value: &[u8],
        options: &SetOptions,
        now: Instant,
    ) -> Result<Stored, Error> {
        if options.is_plain()
            && let Hint::At(candidate) = hint
            && let Some(mut old) = self.store.plain_at(key, candidate)
            && !self.store.is_over(&old, now)
            && self.store.replace_value(&mut old, value, options.deadline)
        {
            let happened = Happened::of_store(Some(&old));
            return Ok(self.stored(key, &old, 0, happened, now));
        }
        if matches!(hint, Hint::Absent) {
            return self.insert_plain(key, value, options, now);
        }
        self.set_anywhere(key, hint, value, options, now)
    }

    /// Stores a value under a key that has no item: most are short, and there is room for them at
    /// once.
    #[inline(never)]
    fn insert_plain(
        &mut self,
        key: Key<'_>,
        value: &[u8],
        options: &SetOptions,
        now: Instant,
    ) -> Result<Stored, Error> {
        let is_plain = options.is_plain()
            && options.when == When::Always
            && key.space() == Space::MAIN
            && value.len() < VERSIONED_VALUE_BYTES;
        if !is_plain || self.reclaimer.offered().is_some() {
            return self.set_anywhere(key, Hint::Absent, value, options, now);
        }
        self.reclaimer.prefetch(key.hash());
        let queue = self.reclaimer.queue_for_new(key.hash());
        let content = (key.bytes(), value);
        let appended = self
            .store
            .append_plain(queue.into(), content, options.deadline, now);
        let Some((layout, segment)) = appended else {
            self.reclaimer.take_back(key.hash(), queue);
            return self.set_anywhere(key, Hint::Absent, value, options, now);
        };
        self.due_bytes += layout.total_bytes();
        let located = Located {
            slot: self.store.link(key, None, &layout, now)?,
            layout,
            segment,
        };
        Ok(self.stored(key, &located, 0, Happened::of_store::<()>(None), now))
    }

    /// Stores a value if the condition holds, wherever it has to.
    #[inline(never)]
    pub(crate) fn set_anywhere(
        &mut self,
        key: Key<'_>,
        hint: Hint,
        value: &[u8],
        options: &SetOptions,
        now: Instant,
    ) -> Result<Stored, Error> {
        self.reclaimer.prefetch(key.hash());
        let old = match hint {
            Hint::Absent => None,
            Hint::At(_) | Hint::Unknown => self.store.find(key, now),
        };
        let spec = match self.decide(key, value.len(), old.as_ref(), options, now) {
            Ok(spec) => spec,
            Err(refused) => return Ok(refused),
        };
        let version = spec.version.unwrap_or(0);
        let done = self.put(key, old, &spec, Content::Bytes(value), now)?;
        Ok(done.map_or(Stored::NotStored, |located| {
            let happened = Happened::of_store(old.as_ref());
            self.stored(key, &located, version, happened, now)
        }))
    }

    /// Notes a store, of a new item or over an old one; `version` is zero for an item without one.
    #[inline]
    pub(crate) fn stored(
        &mut self,
        key: Key<'_>,
        located: &Located,
        version: u64,
        happened: Happened,
        now: Instant,
    ) -> Stored {
        self.note(key, Action::Set, located, now);
        self.store.reset_fetched(located.slot);
        self.store.counts.stored += 1;
        let deadline = located.layout.deadline;
        self.store
            .report_with_deadline(key, happened, located, deadline);
        Stored::Done { version }
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
        let before = old.map(|old| self.store.spec_of(old));
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
    /// `None` if `content` needs the old value and reclaiming space evicted it.
    ///
    /// # Errors
    /// [`Error::Busy`] if no space is free and nothing may be evicted; [`Error::NoRoomYet`] if
    /// nothing may be evicted at once.
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
            let layout = self.store.overwrite(old, spec, key.bytes(), value);
            return Ok(Some(Located { layout, ..*old }));
        }
        self.put_elsewhere(key, old, spec, 0, content, now)
    }

    /// Writes an item to the end of the log as [`Shard::put`] does, with room for `slack` bytes
    /// behind it if there is as much.
    pub(crate) fn put_elsewhere(
        &mut self,
        key: Key<'_>,
        old: Option<Located>,
        spec: &Spec,
        slack: usize,
        content: Content<'_>,
        now: Instant,
    ) -> Result<Option<Located>, Error> {
        let was_there = old.is_some();
        let queue = match &old {
            Some(old) => self.store.log().segment(old.segment).queue,
            None => self.reclaimer.queue_for_new(key.hash()),
        };
        let taken = Spec {
            value_bytes: spec.value_bytes + slack,
            ..*spec
        };
        self.store.begin_rewrite(old.as_ref(), spec);
        let copied_before = self.store.counts.copied_bytes;
        let room = match self.take_offered(queue, &taken, now) {
            None => self.store.take_room(queue.into(), &taken, now),
            room => room,
        };
        let (room, old) = match room {
            Some(room) => (Some(room), old),
            None if self.waits_for_room(&taken, now) => {
                self.store.end_rewrite();
                let bytes = taken.value_bytes;
                return Err(Error::NoRoomYet { bytes });
            }
            None => {
                let store = &mut self.store;
                let room = self.reclaimer.make_room(store, queue, &taken, now);
                (room, self.store.find(key, now))
            }
        };
        self.store.end_rewrite();
        let is_gone = was_there && old.is_none();
        let Some(room) = room else {
            return match slack {
                0 => self.put_by_force(key, old, spec, content).map(Some),
                _ if is_gone => Ok(None),
                _ => self.put_elsewhere(key, old, spec, 0, content, now),
            };
        };
        let bytes = taken.total_bytes(self.store.log().segment(room.segment).encoding());
        if is_gone && !matches!(content, Content::Bytes(_)) {
            self.store.waste_room(room, bytes);
            return Ok(None);
        }
        let layout = self.store.write_item(room, spec, key.bytes());
        self.store.fill(&layout, old.as_ref(), content);
        self.store.leave_slack(room, &layout, bytes);
        // A write that copied items for its own space adds no debt.
        if self.store.counts.copied_bytes == copied_before {
            self.due_bytes += bytes;
        }
        let slot = self.store.link(key, old.as_ref(), &layout, now)?;
        Ok(Some(Located {
            slot,
            layout,
            segment: room.segment,
        }))
    }

    /// The space that was reserved before this operation, if an item of `spec` goes there.
    fn take_offered(&mut self, queue: Queue, spec: &Spec, now: Instant) -> Option<Room> {
        let extent = self.reclaimer.offered()?;
        let room = self.store.take_provided(extent, queue, spec, now)?;
        self.reclaimer.wait_for_room(None);
        Some(room)
    }

    /// Whether an item of `spec` is to wait for space instead of evicting other items at once.
    /// Where nothing may be evicted, reclaiming does not take long.
    fn waits_for_room(&self, spec: &Spec, now: Instant) -> bool {
        self.reclaimer.waits_for_room()
            && !self.store.never_evicts()
            && self.store.wants_extent(spec, now)
    }

    /// Writes an item over a longer one when no space is free and nothing may be evicted: a write
    /// that makes a value shorter is not refused for lack of memory.
    #[cold]
    fn put_by_force(
        &mut self,
        key: Key<'_>,
        old: Option<Located>,
        spec: &Spec,
        content: Content<'_>,
    ) -> Result<Located, Error> {
        match (old, content) {
            (Some(old), Content::Bytes(value))
                if self.store.never_evicts() && self.store.fits_by_force(&old, spec) =>
            {
                let layout = self.store.overwrite(&old, spec, key.bytes(), value);
                Ok(Located { layout, ..old })
            }
            _ => Err(self.store.refuse()),
        }
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
        self.store.mark_used(&located, now);
        self.retime(key, &located, deadline, now)?;
        Ok(true)
    }

    /// Gives an item another deadline, in place or by rewriting it.
    pub(crate) fn retime(
        &mut self,
        key: Key<'_>,
        located: &Located,
        deadline: Deadline,
        now: Instant,
    ) -> Result<(), Error> {
        let mut retimed = self.store.retime(located, deadline).then_some(*located);
        if retimed.is_none() {
            let spec = Spec {
                deadline,
                ..self.store.spec_of(located)
            };
            retimed = self.put(key, Some(*located), &spec, Content::Old, now)?;
        }
        self.watch
            .note(key.hash(), Action::Touch, (0, deadline), now);
        if let Some(located) = &retimed {
            let happened = Happened::Retimed;
            self.store
                .report_with_deadline(key, happened, located, deadline);
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
        let before = self.store.spec_of(&located);
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
            spec.is_packed = false;
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
                self.store.reset_fetched(kept.slot);
            }
            let happened = Happened::Stored;
            self.store
                .report_with_deadline(key, happened, &kept, spec.deadline);
        }
        Ok(Deleted::Done)
    }

    /// Deletes an item.
    pub(crate) fn remove(&mut self, key: Key<'_>, located: &Located, now: Instant) {
        self.note_deleted(key, now);
        self.store.remove(located);
        self.store.shrink_index(1);
        self.store.report.tell(key, Happened::Removed, || None);
    }

    fn note_deleted(&mut self, key: Key<'_>, now: Instant) {
        self.watch
            .note(key.hash(), Action::Delete, (0, Deadline::NEVER), now);
    }

    /// Maintenance off the request path; whether some of it is left.
    pub(crate) fn tick(&mut self, effort: Effort, now: Instant) -> bool {
        self.begin(now);
        self.watch.try_hand_over();
        self.store.purge(PURGED_PER_TICK);
        self.sweep.step(&mut self.store, now);
        self.store.forget_scans(now);
        let is_left = self.store.count_deadlines(now);
        let is_left = self.reclaimer.tick(&mut self.store, effort, now) || is_left;
        is_left || self.store.tally.has_gone()
    }

    /// Whether background maintenance has partly emptied a segment and can continue at once.
    pub(crate) fn is_emptying(&self, now: Instant) -> bool {
        self.reclaimer.is_emptying(now)
    }

    /// Gives memory back to the shared budget for another shard; keeps `floor` bytes.
    pub(crate) fn give_up_memory(&mut self, bytes: usize, floor: usize, now: Instant) {
        self.reclaimer
            .give_up_memory(&mut self.store, bytes, floor, now);
    }

    /// Frees about `bytes` for a long value, or as much as one call may; `copy_bytes` may still be
    /// copied for it.
    pub(crate) fn reclaim_some(
        &mut self,
        bytes: usize,
        copy_bytes: &mut usize,
        now: Instant,
    ) -> Reclaimed {
        self.reclaimer
            .reclaim_some(&mut self.store, bytes, copy_bytes, now)
    }

    /// Frees about `bytes` of memory in which nothing lives, or as much as one call may; how many
    /// bytes it was.
    pub(crate) fn reclaim_dead(&mut self, bytes: usize, now: Instant) -> usize {
        self.reclaimer.reclaim_dead(&mut self.store, bytes, now)
    }

    /// Frees segments for so many bytes of short values, as far as one call may.
    pub(crate) fn free_some(
        &mut self,
        bytes: usize,
        copy_bytes: &mut usize,
        now: Instant,
    ) -> Reclaimed {
        let segments = bytes.div_ceil(self.store.log().segment_bytes()) + FREE_BESIDE;
        self.reclaimer
            .free_some(&mut self.store, segments, copy_bytes, now)
    }

    /// Gives a piece of an extent back that no value has needed for a while; whether there was one.
    pub(crate) fn release_idle_piece(&mut self, now: Instant) -> bool {
        self.store.release_idle_piece(now) > 0
    }

    /// Bytes the ghosts take.
    pub(crate) fn ghost_bytes(&self) -> usize {
        self.reclaimer.ghost_bytes()
    }

    /// Adds this shard's figures to `stats`.
    pub(crate) fn add_to(&self, stats: &mut Stats, now: Instant) {
        self.store.add_to(stats, now);
        stats.overhead_bytes += self.reclaimer.ghost_bytes() as u64;
        stats.samples_dropped += self.watch.dropped();
    }
}

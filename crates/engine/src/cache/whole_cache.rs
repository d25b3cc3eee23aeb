//! Whole cache: the operations on all items, and those of the cache's owner.
//!
//! Each is left to the part of the cache that owns the data. Tests: tests/.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::Cache;
use super::attached::AttachedState;
use super::audit;
use super::check::check_all;
use super::checkpoint::{Checkpoint, take_back};
use super::geometry::Geometry;
use super::hot_keys;
use super::huge_pages;
use super::listing::{self, SCAN_ENTRIES, list};
use super::maintenance::Waiting;
use super::memory::Memory;
use super::no_eviction::NoEvictionStats;
use super::spaces;
use super::timeline::ExpiryTimeline;
use crate::base::clock::Instant;
use crate::base::error::Error;
use crate::base::space::{Kind, Space};
use crate::compress::PrivatePrefixes;
use crate::interface::config::Config;
use crate::interface::observer::Report;
use crate::interface::options::ScanCursor;
use crate::interface::outcome::{Item, KeyFacts};
use crate::interface::stats::{
    FamilyStats, HotKey, MissRatioCurve, MissReasons, ReclaimLag, SpaceStats, Stats,
};
use crate::key::Key;
#[cfg(test)]
use crate::shard::Shard;
use crate::state::Restored;
use crate::store::{Audit, Inconsistency};

impl Cache {
    /// The memory that it uses, or is about to.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.shards.memory().bytes()
    }

    /// The least memory that [`Cache::set_memory_bytes`] takes of a cache that was made with so
    /// much; the most is all, for which addresses are reserved.
    #[must_use]
    pub fn least_memory_bytes(reserved: usize) -> usize {
        Memory::least_bytes(reserved)
    }

    /// Changes how much memory it uses; with less, the next steps of background maintenance evict
    /// items.
    ///
    /// # Errors
    /// [`Error::MemoryTooSmall`] below a quarter of its original memory plus all no-eviction
    /// shares, [`Error::TooLarge`] above its original memory.
    pub fn set_memory_bytes(&self, bytes: usize) -> Result<(), Error> {
        self.shards.memory().set_bytes(bytes)
    }

    /// Addresses that a cache configured like this reserves, in bytes; they take memory only as it
    /// is used. A process that may have fewer cannot make the cache.
    #[must_use]
    pub fn address_bytes(config: &Config) -> usize {
        Geometry::address_bytes(config)
    }

    /// Makes every item stored before this call a miss. Cost: a mark on each segment.
    pub fn flush(&self) {
        self.flush_at(self.now());
    }

    /// Makes every item stored before `at` a miss from `at` on; replaces an earlier delayed flush.
    pub fn flush_at(&self, at: Instant) {
        let now = self.now();
        self.insights.flush_at(&self.shards, at, now);
        for cell in self.shards.iter() {
            cell.lock().flush_at(at, now);
        }
        if at <= now {
            self.report_flushed(None);
        }
    }

    /// Makes every item of a space a miss; the space may be used again at once.
    ///
    /// Cost for the main space: a mark on each segment. Another space is emptied item by item:
    /// rather take a new one and end this ([`Cache::retire_space`]).
    pub fn flush_space(&self, space: Space) {
        let now = self.now();
        if space == Space::MAIN && spaces::has_most(&self.shards, space, now) {
            self.insights.flush_at(&self.shards, now, now);
        }
        spaces::flush(&self.shards, space);
        self.report_flushed(Some(space));
    }

    /// Retires a space: its items become misses, and its number must not be used again. The main
    /// space is flushed instead.
    ///
    /// Cost: a moment in each shard, however many items there are. They are purged by
    /// [`Cache::tick`], by insertions while memory is short, and when a lookup finds one; only
    /// purged items count as reclaimable ([`Stats::dead_bytes`](crate::Stats::dead_bytes)).
    pub fn retire_space(&self, space: Space) {
        if space == Space::MAIN {
            self.flush_space(space);
            return;
        }
        spaces::retire(&self.shards, space);
        self.report_flushed(Some(space));
    }

    fn report_flushed(&self, space: Option<Space>) {
        Report::to(self.config().observer.clone()).tell_flushed(space);
    }

    /// How many items a space has; locks one shard after the other. Expired items are not counted,
    /// as long as [`Cache::tick`] is called.
    #[must_use]
    pub fn space_stats(&self, space: Space) -> SpaceStats {
        spaces::stats(&self.shards, space)
    }

    /// Counts and byte sums over all shards; locks one after the other.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let now = self.now();
        let mut stats = Stats {
            memory_bytes: self.memory_bytes() as u64,
            segment_bytes: self.shards.memory().segment_bytes() as u64,
            shards: self.shards.len() as u64,
            ..Stats::default()
        };
        self.shards.each(|shard| shard.add_to(&mut stats, now));
        self.training.add_to(&mut stats);
        self.insights.add_to(&mut stats, &self.shards);
        stats
    }

    /// How long after their deadlines the memory of expired items was taken back; locks one shard
    /// after the other.
    #[must_use]
    pub fn reclaim_lag(&self) -> ReclaimLag {
        let mut lag = ReclaimLag::default();
        self.shards
            .each(|shard| lag.add(&shard.store.counts.reclaim_lag));
        lag
    }

    /// The statistics of each share of [`Config::keep`], in their order; locks the shards one after
    /// the other.
    #[must_use]
    pub fn no_eviction_stats(&self) -> Vec<NoEvictionStats> {
        let now = self.now();
        let partitions = self.shards.memory().partitions().iter();
        let cells = self.shards.iter().skip(self.shards.sharing());
        let stats = cells.zip(partitions);
        stats
            .map(|(cell, partition)| partition.stats(&cell.lock_beside_claims(), now))
            .collect()
    }

    /// Estimates when items expire; see [`ExpiryTimeline`].
    ///
    /// Cost: a few words for each bin of each segment's histogram, some thousands in
    /// all; each shard is locked while its own are copied.
    #[must_use]
    pub fn expiry_timeline(&self) -> ExpiryTimeline {
        ExpiryTimeline::of(&self.shards)
    }

    /// How many reads would have missed with a quarter to four times the memory, since the cache
    /// was made.
    ///
    /// An estimate from simulations of this cache on a sample of the keys, with the items' sizes
    /// and TTLs; typically within 0.02 of the true miss ratio, and exact at the present size.
    /// Always on. Takes each shard's lock for a moment.
    #[must_use]
    pub fn miss_ratio_curve(&self) -> MissRatioCurve {
        self.insights.miss_ratio_curve(&self.shards)
    }

    /// Why reads missed, since the cache was made: estimated counts from a sample of the keys.
    ///
    /// Always on. Takes each shard's lock for a moment.
    #[must_use]
    pub fn miss_reasons(&self) -> MissReasons {
        self.insights.miss_reasons(&self.shards)
    }

    /// The `most` keys that were read most in the last minute or so, the hottest first.
    ///
    /// Estimates from one read in 128; keys of more than 250 bytes are not listed. A key that gets
    /// less than about a hundredth of its shard's reads may be missing. Takes the lock of each
    /// shard's list for a moment, and no shard's.
    #[must_use]
    pub fn hottest_keys(&self, most: usize) -> Vec<HotKey> {
        hot_keys::hottest(&self.shards, most)
    }

    /// Reads of a key in the last minute or so, if it is among those that are read most; else 0.
    ///
    /// An estimate as in [`Cache::hottest_keys`]. Cost: a walk over the list of one shard.
    #[must_use]
    pub fn recent_gets(&self, key: Key<'_>) -> u64 {
        hot_keys::recent_gets(&self.shards, key)
    }

    /// Lists the live keys of a stretch of the cache, of all spaces; start with
    /// [`ScanCursor::START`] and continue with the returned cursor until it is `None`.
    ///
    /// Each call locks one shard for some 500 keys at most, fewer if they are long. An item that
    /// exists during the whole listing is listed once, however the cache grows, shrinks or moves
    /// items meanwhile. Some are listed twice if the listing takes no step for a minute, if a
    /// cursor is used twice, if more than 16 listings go through one shard, or if more items than
    /// 32,768 and a sixteenth of a shard's are moved meanwhile. A cursor that was never returned
    /// lists something or nothing. Expired items on the way are removed.
    pub fn keys(
        &self,
        cursor: ScanCursor,
        mut each: impl FnMut(KeyFacts<'_>),
    ) -> Option<ScanCursor> {
        list(&self.shards, cursor, SCAN_ENTRIES, |store, located, now| {
            let facts = store.facts(located, now);
            let bytes = facts.key.len();
            each(facts);
            (bytes, true)
        })
    }

    /// The same as [`Cache::keys`], for callers that need no more than the keys: it reads nothing
    /// else of an item.
    pub fn names(
        &self,
        cursor: ScanCursor,
        mut each: impl FnMut(Space, &[u8]),
    ) -> Option<ScanCursor> {
        list(&self.shards, cursor, SCAN_ENTRIES, |store, located, _| {
            let (space, key) = store.name_of(located);
            each(space, key);
            (key.len(), true)
        })
    }

    /// The same as [`Cache::keys`], for callers that need no more than the length of each value: of
    /// a string in bytes, of another value as `len` counts it.
    pub fn lengths(
        &self,
        cursor: ScanCursor,
        len: impl Fn(Item<'_>) -> usize,
        mut each: impl FnMut(Space, Kind, usize),
    ) -> Option<ScanCursor> {
        list(&self.shards, cursor, SCAN_ENTRIES, |store, located, now| {
            let facts = store.facts(located, now);
            let length = match facts.kind {
                Kind::STRING => facts.value_bytes,
                _ => store.with_item(located, &len),
            };
            each(facts.space, facts.kind, length);
            (facts.key.len(), true)
        })
    }

    /// The same as [`Cache::keys`], in a stretch that ends soon after `each` has said that it wants
    /// no more: with the bucket, which has at most eight keys.
    pub fn keys_while(
        &self,
        cursor: ScanCursor,
        mut each: impl FnMut(KeyFacts<'_>) -> bool,
    ) -> Option<ScanCursor> {
        list(&self.shards, cursor, 0, |store, located, now| {
            let facts = store.facts(located, now);
            (facts.key.len(), each(facts))
        })
    }

    /// Shows some live item of a space, each with about the same probability if `random` is
    /// uniform; `None` if there is none.
    ///
    /// Cost: each shard's lock for a moment, then some slots of one shard if the space has a good
    /// part of the items, else a walk over a part of that shard.
    pub fn sample_key<R>(
        &self,
        space: Space,
        random: u64,
        read: impl FnOnce(KeyFacts<'_>) -> R,
    ) -> Option<R> {
        listing::sample_key(&self.shards, space, random, read)
    }

    /// Changes [`Config::expire_effort`], from the next background maintenance on.
    pub fn set_expire_effort(&self, effort: u8) {
        self.maintenance.set_expire_effort(effort);
    }

    /// Changes [`Config::release_memory`], from the next background maintenance on.
    pub fn set_release_memory(&self, release: bool) {
        self.maintenance.set_release_memory(release);
    }

    /// Has background maintenance release memory for the next ten seconds, as with
    /// [`Config::release_memory`].
    pub fn purge(&self) {
        self.maintenance.purge(self.now());
    }

    /// A bounded piece of background maintenance in each shard: empties segments whose items have
    /// all expired, and others while more than 1.2 % of the stored bytes are overdue, or 4.5 %
    /// reclaimable; shrinks an index that has become too large, touches the memory that a growing
    /// shard needs next, brings deadlines that come near into the counts, makes checksums of memory
    /// that outlives the process, and gives memory back to the system that was free for ten
    /// seconds; with [`Config::release_memory`] half a second, and it compacts segments with
    /// reclaimable bytes for that. Returns whether more work is waiting.
    ///
    /// To be called as [`Maintenance`](super::Maintenance) does: ten times a second, and every two
    /// milliseconds or sooner while more is waiting. Holds each shard's lock for some 128 items at
    /// most, and every two minutes for a look at the deadlines of one segment.
    pub fn tick(&self) -> bool {
        self.maintain().is_some()
    }

    /// As [`Cache::tick`]; returns the work that is waiting.
    pub(super) fn maintain(&self) -> Waiting {
        let now = self.shards.settled();
        if self.shards.is_handed_over() {
            return Waiting::default();
        }
        if let Some(attached) = &self.attached {
            attached.beat(now);
        }
        self.maintenance
            .step(&self.shards, now, self.attached.is_some())
    }

    /// Moves one stretch of fully used memory, of the index or of the log of some shard, to a huge
    /// page. Returns whether there was any: none while the cache grows, because copying takes
    /// memory bandwidth, and none in a small cache, because the page is taken in addition to its
    /// memory.
    ///
    /// To be called now and then from a thread that serves no clients. It may itself take
    /// milliseconds, for a page beside the stretch; it holds a shard's lock while 2 MiB are copied.
    pub fn use_huge_pages(&self) -> bool {
        huge_pages::use_one(&self.shards)
    }

    /// Has values be compressed from here on, or no more; what is compressed is read either way.
    pub fn set_compress(&self, is_on: bool) {
        self.training.set_on(is_on);
    }

    /// Whether values are compressed.
    #[must_use]
    pub fn compresses(&self) -> bool {
        self.training.is_on()
    }

    /// Key prefixes of users that may use no other keys: from here on no dictionary is made of
    /// values within and without one of them. Replaces those that were given before.
    pub fn set_private_prefixes(&self, prefixes: impl IntoIterator<Item = Box<[u8]>>) {
        let private = PrivatePrefixes::new(prefixes);
        self.training.set_private_prefixes(&self.shards, private);
    }

    /// A piece of the search for families that are worth compressing; whether more of it is
    /// waiting.
    ///
    /// To be called by a thread that serves nobody, once a second, and after some milliseconds
    /// while more is waiting. Holds a shard's lock for a look at 512 items; a step that makes a
    /// dictionary takes some 30 ms without any lock.
    pub fn train(&self) -> bool {
        self.train_in(|_| true)
    }

    /// The same, if values are to be compressed in some spaces alone: those for which this is true.
    /// Families in others lose their dictionaries for new values.
    pub fn train_in(&self, is_compressed: impl Fn(Space) -> bool) -> bool {
        self.training.step(&self.shards, &is_compressed)
    }

    /// The families that were looked at.
    #[must_use]
    pub fn families(&self) -> Vec<FamilyStats> {
        self.training.families()
    }

    /// Counts the whole contents entry by entry, and checks the engine's own sums against it.
    ///
    /// For tests and measurements: walks all memory, shard by shard under its lock, and is
    /// consistent only while no other thread uses the cache.
    ///
    /// # Errors
    /// The first [`Inconsistency`], which is a defect of the engine.
    pub fn audit(&self) -> Result<Audit, Inconsistency> {
        self.check_left(1, || true);
        audit::audit(&self.shards, self.training.bytes())
    }

    /// The result of restoring the previous process's memory; `None` if the memory does not outlive
    /// the process. While items are being checked, it counts those checked so far.
    #[must_use]
    pub fn restored(&self) -> Option<Restored> {
        self.attached.as_ref().map(AttachedState::restored)
    }

    /// A number that is its memory's alone, if that outlives this process.
    #[must_use]
    pub fn state_id(&self) -> Option<u64> {
        self.attached.as_ref().map(AttachedState::id)
    }

    /// Stores that were refused because the file system of the cache's memory was full.
    #[must_use]
    pub fn state_refused(&self) -> u64 {
        self.attached.as_ref().map_or(0, AttachedState::refused)
    }

    /// The open state file, for `StateDir::open_with`; `None` if the memory does not outlive the
    /// process.
    #[must_use]
    pub fn state_file(&self) -> Option<BorrowedFd<'_>> {
        self.attached.as_ref().map(AttachedState::file)
    }

    /// Whether items of a killed process are not checked yet.
    #[must_use]
    pub fn has_unchecked(&self) -> bool {
        let attached = self.attached.as_ref();
        attached.is_some_and(|attached| !attached.progress().is_done())
    }

    /// Checks all items that a killed process left and that are not checked yet, by so many
    /// threads, as long as `goes_on` says so; whether none is left.
    pub fn check_left(&self, threads: usize, goes_on: impl Fn() -> bool + Sync) -> bool {
        self.check_all(threads, &goes_on, |_| ())
    }

    /// The same in half of each thread's time, while requests are served.
    pub fn check_beside(&self, threads: usize, goes_on: impl Fn() -> bool + Sync) -> bool {
        self.check_all(threads, &goes_on, std::thread::sleep)
    }

    fn check_all(
        &self,
        threads: usize,
        goes_on: &(impl Fn() -> bool + Sync),
        pause: fn(Duration),
    ) -> bool {
        self.attached.as_ref().is_none_or(|attached| {
            check_all(attached.progress(), &self.shards, threads, goes_on, pause)
        })
    }

    /// Saves the state for another process; `None` if the memory does not outlive this one. Holds
    /// all shards, so that nothing changes any more.
    pub fn checkpoint(&self) -> Option<Checkpoint<'_>> {
        let attached = self.attached.as_ref();
        let attached = attached.filter(|_| !self.shards.is_handed_over())?;
        // Nothing is saved of items that are not checked.
        self.check_left(self.config().threads, || true);
        let (training, insights) = (&self.training, &self.insights);
        Some(Checkpoint::of(attached, &self.shards, training, insights))
    }

    /// Hands the memory to another process and does not change it any more. Until
    /// [`Cache::take_back`], only statistics of this cache may be read. Values that are still being
    /// read stay where they are until the other process calls [`Cache::release_read_before`].
    /// Returns whether there is such memory.
    pub fn hand_over(&self) -> bool {
        let checkpoint = self.checkpoint();
        let has_memory = checkpoint.is_some();
        if let Some(checkpoint) = checkpoint {
            checkpoint.hand_over(&self.shards);
        }
        has_memory
    }

    /// Goes on with memory that was handed over: the other process did not come to use it.
    pub fn take_back(&self) {
        if let Some(attached) = &self.attached
            && self.shards.is_handed_over()
        {
            take_back(attached, &self.shards);
        }
    }

    /// Whether segments are held in which the process before still reads.
    #[must_use]
    pub fn is_read_before(&self) -> bool {
        let attached = self.attached.as_ref();
        attached.is_some_and(|attached| !attached.read_before().is_empty())
    }

    /// Releases the segments that the previous process was still reading: it has finished.
    pub fn release_read_before(&self) {
        if let Some(attached) = &self.attached {
            attached.read_before().clear();
        }
    }

    /// Shows one shard after the other.
    #[cfg(test)]
    pub(crate) fn each_shard(&self, look: impl FnMut(&mut Shard)) {
        self.shards.each(look);
    }
}

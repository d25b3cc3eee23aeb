//! Optimistic reads: a get of a short value that takes no lock.
//!
//! A get finds its item in index and log while others may change both, copies the value out, and
//! checks the shard's sequence number ([`Sequence`](super::sequence::Sequence)). If a writer has
//! changed the shard, the get tries again, up to [`TRIES_MAX`] times: a lock taken at once would
//! disturb the other readers, which would then all take it. The get takes the lock for a miss, an
//! expired item, a long value, rare fields other than flags, and while a delayed flush is pending.
//! A hit of a key in the statistics' sample takes it afterwards, to be noted there.
//!
//! Invariant: nothing that was read is trusted before the sequence number is checked. Offsets and
//! lengths are compared with the arena's bounds, and the value is copied to the reader's memory.
//! After that the read is counted in the slot by one compare-and-exchange; if the slot has changed,
//! the count is lost.
//! Why: docs/decisions/0054, 0066, 0098.
//! Tests: tests/optimistic.rs, tests/stress.rs, tests/loom.rs.

use std::hint::spin_loop;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cell::ShardCell;
use super::claims::Snapshot;
use super::{Cache, GROUP_KEYS, IndexHint};
use crate::base::clock::{Deadline, Instant, thread_number};
use crate::base::space::{Kind, Space};
use crate::insight::hot::GAP_MEAN;
use crate::insight::sample::{Action, part};
use crate::interface::outcome::Item;
use crate::key::Key;
use crate::log::item;
use crate::memory::arena::Pinner;
use crate::memory::table::Candidate;

/// Longest value that is copied out without the lock: it lies on the reader's stack.
const VALUE_BYTES_MAX: usize = 2 << 10;
/// Times that a read is tried without the lock. Between two of them it waits twice as long each
/// time, about as long as an insertion takes in all.
const TRIES_MAX: u32 = 6;
/// Counts that threads share among them, so that few of them meet at one: as many as threads, but
/// at least and at most so many.
const STRIPES_MIN: usize = 16;
const STRIPES_MAX: usize = 256;

/// Where the values of reads without the lock lie until the caller has seen them.
#[derive(Debug)]
pub struct Scratch([MaybeUninit<u8>; VALUE_BYTES_MAX]);

impl Scratch {
    /// A buffer for one value; costs nothing.
    #[inline(always)]
    #[must_use]
    pub fn new() -> Scratch {
        Scratch([MaybeUninit::uninit(); VALUE_BYTES_MAX])
    }
}

/// Where [`Cache::append_many`] puts what it reads.
pub trait ValueSink {
    /// The buffer that short values are appended to.
    fn bytes(&mut self) -> &mut Vec<u8>;

    /// Appends what stands before a value of so many bytes.
    fn begin(out: &mut Vec<u8>, value_bytes: usize);

    /// Appends what stands behind a value.
    fn end(out: &mut Vec<u8>);

    /// Takes an item that is not short or not a plain one, or `None` for a miss.
    fn take_other(&mut self, item: Option<Item<'_>>);
}

/// How the items of a group of keys are read.
pub(super) trait GroupRead {
    /// Reads the item of a key without the lock, if that is possible at once; whether it was.
    fn read_copied(&mut self, position: usize, key: Key<'_>, from: (&ShardCell, Instant)) -> bool;

    /// Takes an item that was read in another way, or `None` for a miss.
    fn take(&mut self, position: usize, item: Option<Item<'_>>);
}

/// Shows each item, copied, to a closure.
pub(super) struct Show<F>(pub(super) F);

impl<F: FnMut(usize, Option<Item<'_>>)> GroupRead for Show<F> {
    #[inline(always)]
    fn read_copied(&mut self, position: usize, key: Key<'_>, from: (&ShardCell, Instant)) -> bool {
        let (cell, now) = from;
        match cell.try_copied(key, now, &mut Scratch::new()) {
            Ok(item) => {
                (self.0)(position, Some(item));
                true
            }
            Err(_) => false,
        }
    }

    fn take(&mut self, position: usize, item: Option<Item<'_>>) {
        (self.0)(position, item);
    }
}

/// Appends each value to a buffer.
pub(super) struct Append<'o, S>(pub(super) &'o mut S);

impl<S: ValueSink> GroupRead for Append<'_, S> {
    #[inline(always)]
    fn read_copied(&mut self, _position: usize, key: Key<'_>, from: (&ShardCell, Instant)) -> bool {
        let (cell, now) = from;
        let out = self.0.bytes();
        let is_appended = cell
            .try_append(key, now, out, |out, bytes, _| S::begin(out, bytes))
            .is_some();
        if is_appended {
            S::end(out);
        }
        is_appended
    }

    fn take(&mut self, _position: usize, item: Option<Item<'_>>) {
        self.0.take_other(item);
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

/// Why a read could not do without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptimisticFailure {
    /// Another thread changed the shard meanwhile: a retry may succeed.
    Disturbed,
    /// There is more to do than to copy.
    NeedsLock,
}

/// Hits of reads without the lock.
#[derive(Debug)]
pub(super) struct Hits(Box<[Stripe]>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

impl Hits {
    /// No hits yet, of so many threads.
    pub(super) fn of(threads: usize) -> Hits {
        let stripes = threads.next_power_of_two().clamp(STRIPES_MIN, STRIPES_MAX);
        Hits((0..stripes).map(|_| Stripe::default()).collect())
    }

    /// Counts some of the calling thread; their number before.
    #[inline]
    fn add(&self, hits: u64) -> u64 {
        let mine = thread_number() & (self.0.len() - 1);
        // Relaxed: a sum that orders nothing.
        self.0[mine].0.fetch_add(hits, Ordering::Relaxed)
    }

    /// All of them.
    pub(super) fn sum(&self) -> u64 {
        // Relaxed: as above.
        let counts = self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed));
        counts.sum()
    }
}

/// Which of the reads behind so many others counts for its key's heat, if that is one of the next
/// [`GAP_MEAN`]: each of them with the same chance, in an order without a rhythm.
#[inline]
fn next_for_heat(before: u64) -> u32 {
    const _: () = assert!(GAP_MEAN.is_power_of_two(), "a mask is taken of it");
    let mixed = before.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as u32 & (GAP_MEAN - 1)
}

/// Whether the read behind so many others counts for its key's heat: one in [`GAP_MEAN`].
#[inline]
fn counts_for_heat(before: u64) -> bool {
    next_for_heat(before) == 0
}

impl Cache {
    /// Shows the item of `key` to `read`, if that can be had without the lock; else gives `read`
    /// back.
    #[inline]
    pub(super) fn read_optimistic<R, F: FnOnce(Item<'_>) -> R>(
        &self,
        cell: &ShardCell,
        key: Key<'_>,
        now: Instant,
        read: F,
    ) -> Result<R, F> {
        if key.space() != Space::MAIN {
            return Err(read);
        }
        let answer = cell.read_optimistic(key, now, read)?;
        if counts_for_heat(self.insights.hits().add(1)) {
            cell.count_heat(key, now);
        }
        Ok(answer)
    }

    /// An item with a short value, copied to `scratch`, if that is possible at once and without the
    /// lock. Counts as [`Cache::get`] does, which the caller has to use if this returns none.
    ///
    /// For the fast path of requests: the code that uses the item is inlined into it.
    #[inline(always)]
    pub fn get_copied<'s>(&self, key: Key<'_>, scratch: &'s mut Scratch) -> Option<Item<'s>> {
        let (cell, now) = (self.shards.cell(key), self.shards.now());
        if key.space() != Space::MAIN {
            return None;
        }
        let item = cell.try_copied(key, now, scratch).ok()?;
        if counts_for_heat(self.insights.hits().add(1)) {
            cell.count_heat(key, now);
        }
        Some(item)
    }

    /// Appends a short value to `out` if that is possible at once and without the lock; whether it
    /// was. Before it, `begin` appends what it makes of the value's length and of the item's flags.
    /// Counts as [`Cache::get`] does, which the caller has to use if this returns `false`.
    ///
    /// For the fast path of requests: the value is copied once, and `begin` is inlined.
    #[inline(always)]
    pub fn append_copied(
        &self,
        key: Key<'_>,
        out: &mut Vec<u8>,
        begin: impl FnOnce(&mut Vec<u8>, usize, u32),
    ) -> bool {
        let (cell, now) = (self.shards.cell(key), self.shards.now());
        if key.space() != Space::MAIN || cell.try_append(key, now, out, begin).is_none() {
            return false;
        }
        if counts_for_heat(self.insights.hits().add(1)) {
            cell.count_heat(key, now);
        }
        true
    }

    /// Reads at most [`GROUP_KEYS`] items, whose keys were hinted, in the order of their keys, of
    /// which so many were read before. Those that need the lock are read under it, as part of
    /// `snapshot` if there is one.
    #[inline(always)]
    pub(super) fn read_group(
        &self,
        keys: &[Key<'_>],
        (hints, hinted): (&[IndexHint; GROUP_KEYS], &[Option<Candidate>; GROUP_KEYS]),
        mut snapshot: Option<&mut Snapshot<'_>>,
        (now, first, reads): (Instant, usize, &mut impl GroupRead),
    ) {
        let mut hit = 0_u32;
        for (position, ((key, hint), &hinted)) in keys.iter().zip(hints).zip(hinted).enumerate() {
            let cell = &self.shards[hint.shard as usize];
            let ahead = key.hinted_at(hinted);
            if key.space() == Space::MAIN && reads.read_copied(first + position, ahead, (cell, now))
            {
                hit |= 1 << position;
                continue;
            }
            // By reference: a copy for this rare case would be made for each key.
            let mut show = |item: Option<Item<'_>>| reads.take(first + position, item);
            if self.read_apart(cell, key, snapshot.as_deref_mut(), now, &mut show) {
                hit |= 1 << position;
            }
        }
        let hits = hit.count_ones();
        if hits == 0 {
            return;
        }
        let before = self.insights.hits().add(u64::from(hits));
        // At most one read of a group counts: a group has fewer than `GAP_MEAN` keys.
        let nth = next_for_heat(before);
        if nth < hits {
            (0..nth).for_each(|_| hit &= hit - 1);
            let key = keys[hit.trailing_zeros() as usize];
            self.shards.cell(key).count_heat(key, now);
        }
    }

    /// Reads one item of a group that cannot be had at once; whether that took no lock.
    #[cold]
    #[inline(never)]
    fn read_apart(
        &self,
        cell: &ShardCell,
        key: &Key<'_>,
        snapshot: Option<&mut Snapshot<'_>>,
        now: Instant,
        show: &mut dyn FnMut(Option<Item<'_>>),
    ) -> bool {
        let key = *key;
        if key.space() == Space::MAIN
            && cell
                .read_optimistic(key, now, |item| show(Some(item)))
                .is_ok()
        {
            return true;
        }
        let read = |item: Item<'_>| show(Some(item));
        let found = match snapshot {
            Some(snapshot) => snapshot.lock_to_read(key, |shard| shard.get(key, now, read)),
            None => self.get_locked(cell, key, now, read),
        };
        if found.is_none() {
            show(None);
        }
        false
    }
}

/// Lets the thread that disturbed a read for the `nth` time finish.
#[cold]
#[inline(never)]
fn wait(nth: u32) {
    (0..1_u32 << nth).for_each(|_| spin_loop());
}

impl ShardCell {
    /// Counts a read for its key's heat.
    #[cold]
    #[inline(never)]
    fn count_heat(&self, key: Key<'_>, now: Instant) {
        self.hot.lock().count(key, now);
    }

    /// Whether hits of the key are noted for the insights; also while a flush is pending.
    #[inline]
    fn is_sampled(&self, key: Key<'_>) -> bool {
        // Relaxed: whether a key is in the sample may be known a moment late.
        part(key.hash()) < self.sampled_below.load(Ordering::Relaxed)
    }

    /// Notes a hit for the insights. It takes the mutex alone, which disturbs no lock-free reader.
    #[cold]
    #[inline(never)]
    fn note_hit(&self, hash: u64, item: (usize, Deadline), now: Instant) {
        let mut shard = self.mutex();
        shard.watch.note(hash, Action::Hit, item, now);
        self.publish_sample(&shard);
    }

    /// Shows the key's item to `read` if some try finds it undisturbed; else gives `read` back.
    #[inline]
    fn read_optimistic<R, F: FnOnce(Item<'_>) -> R>(
        &self,
        key: Key<'_>,
        now: Instant,
        read: F,
    ) -> Result<R, F> {
        match self.try_copied(key, now, &mut Scratch::new()) {
            Ok(item) => Ok(read(item)),
            Err(OptimisticFailure::NeedsLock) => Err(read),
            // While a flush is pending, no retry would succeed.
            Err(OptimisticFailure::Disturbed) if self.is_sampled(key) => Err(read),
            Err(OptimisticFailure::Disturbed) => self.retry_optimistic(key, now, read),
        }
    }

    /// Retries until no other thread disturbs it, but not for long.
    #[cold]
    #[inline(never)]
    fn retry_optimistic<R, F: FnOnce(Item<'_>) -> R>(
        &self,
        key: Key<'_>,
        now: Instant,
        read: F,
    ) -> Result<R, F> {
        for nth in 1..TRIES_MAX {
            // A section's writes stay hidden until it ends, which may take long.
            if self.lock.claim.is_held() {
                break;
            }
            wait(nth - 1);
            match self.try_copied(key, now, &mut Scratch::new()) {
                Ok(item) => return Ok(read(item)),
                Err(OptimisticFailure::NeedsLock) => break,
                Err(OptimisticFailure::Disturbed) => {}
            }
        }
        Err(read)
    }

    /// Copies the value of the key's item into `scratch`.
    #[inline(always)]
    fn try_copied<'s>(
        &self,
        key: Key<'_>,
        now: Instant,
        scratch: &'s mut Scratch,
    ) -> Result<Item<'s>, OptimisticFailure> {
        self.try_optimistic(key, now, |bytes, _| scratch.0.get_mut(..bytes))
    }

    /// Appends the value of the key's item to `out`, behind what `begin` appends; `None`, and `out`
    /// is as before, if that does not succeed at once.
    #[inline(always)]
    fn try_append(
        &self,
        key: Key<'_>,
        now: Instant,
        out: &mut Vec<u8>,
        begin: impl FnOnce(&mut Vec<u8>, usize, u32),
    ) -> Option<()> {
        let start = out.len();
        let to = &mut *out;
        let copied = self.try_optimistic(key, now, move |bytes, flags| {
            if bytes > VALUE_BYTES_MAX {
                return None;
            }
            begin(to, bytes, flags);
            to.reserve(bytes);
            to.spare_capacity_mut().get_mut(..bytes)
        });
        let Ok(value_bytes) = copied.map(|item| item.value.len()) else {
            out.truncate(start);
            return None;
        };
        let len = out.len() + value_bytes;
        assert!(len <= out.capacity(), "the value was copied to the buffer");
        // SAFETY: inside the capacity by the assert. The bytes behind the old length are the ones
        // that the closure lent, as many as the item has, and all of them were written.
        unsafe { out.set_len(len) };
        Some(())
    }

    /// Copies the value of the key's item to where `place` says, which gets its length and the
    /// item's flags; both may be wrong if this fails. The index is searched, and the item
    /// prefetched, unless the hinted slot is unchanged; if it belongs to another key by now,
    /// comparing the keys detects it.
    #[inline(always)]
    fn try_optimistic<'s>(
        &self,
        key: Key<'_>,
        now: Instant,
        place: impl FnOnce(usize, u32) -> Option<&'s mut [MaybeUninit<u8>]>,
    ) -> Result<Item<'s>, OptimisticFailure> {
        let seen = self.lock.sequence.seen();
        let seen = seen.ok_or(OptimisticFailure::Disturbed)?;
        let candidate = match key.hinted() {
            Some(candidate) if self.table.is_still(candidate) => candidate,
            _ => {
                let candidate = self.table.candidate(self.table.probe(key.hash()));
                let candidate = candidate.ok_or(OptimisticFailure::NeedsLock)?;
                self.prefetch_rest(candidate.offset());
                candidate
            }
        };
        let copied = self.copy_out(key, candidate, now, place);
        if !self.lock.sequence.is_still(seen) {
            return Err(OptimisticFailure::Disturbed);
        }
        let (item, total_bytes) = copied.ok_or(OptimisticFailure::NeedsLock)?;
        let is_old = || !self.arena.is_young(candidate.offset());
        self.table.mark_used(candidate, is_old);
        if self.is_sampled(key) {
            self.note_hit(key.hash(), (total_bytes, item.deadline), now);
        }
        Ok(item)
    }

    /// The same without a check for concurrent changes: its result may be inconsistent. Also the
    /// bytes of the whole item.
    #[inline(always)]
    fn copy_out<'s>(
        &self,
        key: Key<'_>,
        candidate: Candidate,
        now: Instant,
        place: impl FnOnce(usize, u32) -> Option<&'s mut [MaybeUninit<u8>]>,
    ) -> Option<(Item<'s>, usize)> {
        let (arena, offset) = (&self.arena, candidate.offset());
        let encoding = arena.optimistic_encoding(offset)?;
        let first_bytes = arena.optimistic_first_bytes(offset)?;
        let (layout, flags) = match item::read_short(first_bytes, offset, encoding) {
            Some(layout) => (layout, 0),
            None => {
                let more = u128::from(arena.optimistic_first_bytes(offset + 8)?) << 64;
                item::read_flagged(u128::from(first_bytes) | more, offset, encoding)?
            }
        };
        let is_it = layout.key_word == key.word() && arena.are_at(layout.key_at, key.bytes());
        if !is_it || layout.deadline.has_passed(now) {
            return None;
        }
        let to = place(layout.value_bytes, flags)?;
        let item = Item {
            value: arena.optimistic_copy(layout.value_at(), to)?,
            kind: Kind::STRING,
            flags,
            deadline: layout.deadline,
            pinner: Pinner::Copied,
        };
        Some((item, layout.total_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::config::Config;

    #[test]
    fn heat_is_counted_and_told_while_somebody_has_the_shard() {
        let cache = Cache::new(Config::with_memory(1 << 20)).unwrap();
        let key = cache.key(b"key").unwrap();
        let cell = cache.shards.cell(key);
        let shard = cell.lock();
        cell.count_heat(key, cache.now());
        assert_eq!(cache.hottest_keys(1)[0].key, b"key");
        drop(shard);
    }

    #[test]
    fn each_read_of_a_group_counts_for_heat_with_the_same_chance() {
        const GROUPS: [u32; 4] = [32, 32, 32, 4];
        let (mut before, mut counted) = (0, [0_u32; 32]);
        for hits in GROUPS.into_iter().cycle().take(100_000) {
            let nth = next_for_heat(before);
            if nth < hits {
                counted[nth as usize] += 1;
            }
            before += u64::from(hits);
        }
        let (all, few) = (100_000 / GAP_MEAN, 75_000 / GAP_MEAN);
        for (nth, count) in counted.into_iter().enumerate() {
            let expected = if nth < 4 { all } else { few };
            assert!(count.abs_diff(expected) < expected / 10, "{counted:?}");
        }
    }

    #[test]
    fn hits_of_more_threads_than_counts_are_all_in_the_sum() {
        let hits = Hits::of(3);
        assert_eq!(hits.0.len(), STRIPES_MIN);
        assert_eq!(Hits::of(100).0.len(), 128);
        assert_eq!(Hits::of(usize::MAX / 4).0.len(), STRIPES_MAX);
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES_MIN {
                scope.spawn(|| {
                    for _ in 0..100 {
                        hits.add(1);
                    }
                });
            }
        });
        assert_eq!(hits.sum(), 200 * STRIPES_MIN as u64);
    }
}

//! Stats: statistics of a whole cache.
//!
//! Plain data; the modules that count fill it in.

use crate::base::space::Space;

/// How many items a space has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStats {
    /// Items now. One that expires is no longer counted a quarter of a second later, whether its
    /// memory was taken back or not.
    pub items: u64,
    /// Of those, items with a deadline.
    pub with_deadline: u64,
    /// The mean of the milliseconds that these have left, to a quarter of a second; 0 without any.
    pub mean_ttl_ms: u64,
}

/// How long after their deadlines the memory of expired items was reclaimed, over all shards and
/// since start. For very many that expire together it is an estimate: each counts by its segment's
/// expiry histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimLag {
    /// Items in each bin; bin `n` holds lags below [`ReclaimLag::below_ms`]`(n)` and not below that
    /// of the bin before.
    pub items: [u64; ReclaimLag::BINS],
}

impl ReclaimLag {
    /// Number of bins; the last holds all longer lags.
    pub const BINS: usize = 26;

    /// The bin of a lag.
    pub(crate) fn bin_of(lag_ms: u64) -> usize {
        let bin = u64::BITS - lag_ms.leading_zeros();
        (bin as usize).min(Self::BINS - 1)
    }

    /// The lag in milliseconds that all of a bin's items are below: 1, 2, 4, ...; `None` for the
    /// last bin.
    #[must_use]
    pub fn below_ms(bin: usize) -> Option<u64> {
        (bin + 1 < Self::BINS).then(|| 1 << bin)
    }
}

/// A family of values that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyStats {
    /// The space that its keys lie in.
    pub space: Space,
    /// The part of its keys before the first `:` or `/`.
    pub prefix: Vec<u8>,
    /// Whether its values are compressed.
    pub is_packed: bool,
    /// Bytes of the values that showed what compression saves; zero if there were too few.
    pub sample_bytes: u64,
    /// Bytes that compression left of them.
    pub packed_bytes: u64,
}

impl FamilyStats {
    /// Compressed over plain bytes of the sample, 0 to 1; `None` if there was none.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.sample_bytes > 0).then(|| self.packed_bytes as f64 / self.sample_bytes as f64)
    }
}

/// Counts and byte sums over all shards; monotonic counts since start unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items now. One that expires is no longer counted a quarter of a second later, whether its
    /// memory was taken back or not.
    pub items: u64,
    /// Items stored since start.
    pub items_total: u64,
    /// Bytes of live items now, headers and keys included; an estimate while items expire.
    pub live_bytes: u64,
    /// Bytes of expired, deleted and overwritten items now that are not yet reclaimed; an estimate.
    /// Items of a space that has ended count once they are purged, as live until then.
    pub dead_bytes: u64,
    /// Of those, bytes of expired items; an estimate.
    pub overdue_bytes: u64,
    /// Bytes of resident memory now that hold no item.
    pub free_bytes: u64,
    /// Bytes of the index now.
    pub index_bytes: u64,
    /// Bytes of all other bookkeeping now: segment tables, ghosts, and the insights' part of the
    /// configured memory.
    pub overhead_bytes: u64,
    /// The configured memory.
    pub memory_bytes: u64,
    /// Live items that left because memory was needed.
    pub evicted: u64,
    /// Of those, items that were never fetched.
    pub evicted_unfetched: u64,
    /// Bytes of live items that left because memory was needed.
    pub evicted_bytes: u64,
    /// Expired items whose memory was taken back.
    pub expired: u64,
    /// Of those, items that were never fetched.
    pub expired_unfetched: u64,
    /// Reads that found an item past its deadline.
    pub misses_expired: u64,
    /// Reads that found an item that was flushed.
    pub misses_flushed: u64,
    /// Items copied to keep them: promotion, second chance and compaction.
    pub copied: u64,
    /// Bytes of the items that were copied.
    pub copied_bytes: u64,
    /// Values that were compressed.
    pub compressed: u64,
    /// Their bytes before.
    pub compressed_from_bytes: u64,
    /// Their bytes after.
    pub compressed_to_bytes: u64,
    /// Compressed values that were stored plain again: they are read often, or were changed.
    pub decompressed: u64,
    /// Reads of compressed values.
    pub compressed_gets: u64,
    /// Nanoseconds of processor time that values were compressed and decompressed, and dictionaries
    /// trained; an estimate.
    pub compression_ns: u64,
    /// Dictionaries now.
    pub dictionaries: u64,
    /// Bytes of memory that they take now, with their bookkeeping; a part of `overhead_bytes`.
    pub dictionary_bytes: u64,
    /// Segments freed.
    pub segments_freed: u64,
    /// Segments in use now.
    pub segments: u64,
    /// Bytes in one segment.
    pub segment_bytes: u64,
    /// Shards.
    pub shards: u64,
    /// The small queue's share of memory now, in percent: the simulated share with the fewest
    /// misses.
    pub small_queue_percent: u64,
    /// Largest reclaimable share of memory, in millionths, when a live item was evicted.
    pub dead_at_eviction_max_ppm: u64,
    /// Sampled requests that the insights did not see because another thread held them.
    pub samples_dropped: u64,
    /// Reads: every key asked for counts.
    pub gets: u64,
    /// Reads that missed.
    pub misses: u64,
    /// Reads that would have missed with a quarter of the memory; like the next three an estimate,
    /// see [`MissRatioCurve`].
    pub misses_at_quarter: u64,
    /// Reads that would have missed with half of the memory.
    pub misses_at_half: u64,
    /// Reads that would have missed with twice the memory.
    pub misses_at_double: u64,
    /// Reads that would have missed with four times the memory.
    pub misses_at_fourfold: u64,
    /// Misses of keys that were never stored; like the next three an estimate: [`MissReasons`].
    pub missed_never_stored: u64,
    /// Misses of items whose deadline had passed.
    pub missed_expired: u64,
    /// Misses of items that were evicted before their deadline.
    pub missed_evicted: u64,
    /// Misses of items that were deleted or flushed before their deadline.
    pub missed_deleted: u64,
}

/// Reads, and the misses they would have been at several memory sizes, since the cache was made.
///
/// The misses are estimates from a sample of the keys; at the present size they are exact. All
/// numbers only grow, so a window is the difference of two curves ([`MissRatioCurve::since`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissRatioCurve {
    /// Reads: every key asked for counts.
    pub gets: u64,
    /// A quarter, half, once, twice and four times the present memory.
    pub points: [CurvePoint; 5],
}

impl MissRatioCurve {
    /// Factors by which the points' memory differs from the present one.
    pub const FACTORS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

    /// The difference from `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &MissRatioCurve) -> MissRatioCurve {
        let mut curve = *self;
        curve.gets = self.gets.saturating_sub(earlier.gets);
        for (point, before) in curve.points.iter_mut().zip(&earlier.points) {
            point.misses = point.misses.saturating_sub(before.misses).min(curve.gets);
        }
        curve
    }

    /// The share of reads that would have missed at each point, 0 to 1; zero without reads.
    #[must_use]
    pub fn miss_ratios(&self) -> [f64; 5] {
        let gets = self.gets.max(1) as f64;
        self.points.map(|point| point.misses as f64 / gets)
    }
}

/// One memory size of a [`MissRatioCurve`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CurvePoint {
    /// Memory of the imagined cache, in bytes.
    pub memory_bytes: u64,
    /// Reads that would have missed.
    pub misses: u64,
}

/// Why reads missed: estimated counts since the cache was made. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissReasons {
    /// The key was never stored, or so long ago that it is forgotten.
    pub never_stored: u64,
    /// The item's deadline had passed by the time of the miss, whatever removed the item.
    pub expired: u64,
    /// The item was evicted before its deadline.
    pub evicted: u64,
    /// The item was deleted or flushed before its deadline.
    pub deleted: u64,
}

/// A key that is read often; the figures speak of the last minute or so.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The key.
    pub key: Vec<u8>,
    /// The space it lies in.
    pub space: Space,
    /// Reads of it in a second; an estimate.
    pub gets_per_s: f64,
    /// Its share of all reads, 0 to 1; an estimate.
    pub share: f64,
}

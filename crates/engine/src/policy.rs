//! Policy: the numbers of S3-FIFO that eviction and the simulations share.
//!
//! Why: docs/decisions/0005. Tests: tests/evict.rs, tests/insight.rs.

/// The small queue's share of memory, in percent.
pub(crate) const SMALL_PERCENT: usize = 10;
/// As many ghosts as items, up to this share of memory, in percent.
pub(crate) const GHOSTS_PERCENT_MAX: usize = 2;
/// Items of more than so many times the mean size need two reads to stay, of so many three: in
/// their place, several others could stay.
const LARGE_MEANS: [usize; 2] = [2, 8];

/// How often an item of `bytes` must have been read to stay when its segment is evicted, where
/// `items` share `memory_bytes`.
pub(crate) fn reads_needed(bytes: usize, memory_bytes: usize, items: usize) -> u8 {
    let mean = memory_bytes / items.max(1);
    1 + LARGE_MEANS
        .iter()
        .filter(|&&means| bytes > means * mean)
        .count() as u8
}

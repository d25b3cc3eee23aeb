//! Memory: the sizes of a cache's memory, and the budgets that its shards draw on.
//!
//! No-eviction partitions have memory and a budget of their own. The rest is one budget, which all
//! other shards share, and of which a [`Balloon`] takes what is not to be used.
//!
//! Tests: tests/resize.rs, tests/keep.rs.

use std::sync::Arc;

use super::no_eviction::NoEvictionPartition;
use super::resize::Balloon;
use crate::base::error::Error;
use crate::interface::config::Config;
use crate::memory::Budget;
use crate::shard::update::UpdateLimits;

/// The least part of its memory that a cache uses, as a divisor.
const LEAST_PART: usize = 4;

/// The memory of a cache.
#[derive(Debug)]
pub(super) struct Memory {
    /// All of it, as the cache was made.
    reserved_bytes: usize,
    /// Bytes of all partitions.
    kept_bytes: usize,
    segment_bytes: usize,
    /// The longest value that is configured.
    value_bytes_max: usize,
    budget: Arc<Budget>,
    partitions: Box<[NoEvictionPartition]>,
    balloon: Balloon,
}

impl Memory {
    /// The memory of a cache like `config`, all of which is used.
    pub(super) fn new(
        config: &Config,
        segment_bytes: usize,
        budget: Arc<Budget>,
        partitions: Box<[NoEvictionPartition]>,
    ) -> Memory {
        Memory {
            reserved_bytes: config.memory_bytes,
            kept_bytes: partitions.iter().map(|partition| partition.bytes).sum(),
            segment_bytes,
            value_bytes_max: config.value_bytes_max.min(Config::VALUE_BYTES_LIMIT),
            budget,
            partitions,
            balloon: Balloon::default(),
        }
    }

    /// Bytes that are used, or about to be.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.reserved_bytes - self.balloon.wanted()
    }

    /// The same without those of partitions.
    #[inline]
    pub(super) fn shared_bytes(&self) -> usize {
        self.bytes() - self.kept_bytes
    }

    /// Bytes that are no partition's, as the cache was made.
    pub(super) fn sharing_bytes(&self) -> usize {
        self.reserved_bytes - self.kept_bytes
    }

    /// Bytes of a segment of the shards that share the memory.
    #[inline]
    pub(super) fn segment_bytes(&self) -> usize {
        self.segment_bytes
    }

    /// The budget of the shards that share the memory.
    #[inline]
    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The no-eviction partitions, in the order of their shards.
    #[inline]
    pub(super) fn partitions(&self) -> &[NoEvictionPartition] {
        &self.partitions
    }

    /// Bytes that were taken out of the budget because they are not to be used.
    pub(super) fn unused_bytes(&self) -> usize {
        self.balloon.bytes()
    }

    /// The longest string.
    #[inline]
    pub(super) fn value_bytes_max(&self) -> usize {
        self.value_bytes_max.min(self.shared_bytes() / 2)
    }

    /// The longest value of another kind.
    #[inline]
    pub(super) fn collection_bytes_max(&self) -> usize {
        Config::VALUE_BYTES_LIMIT.min(self.shared_bytes() / 2)
    }

    /// What [`Cache::update`](super::Cache::update) is held to.
    pub(super) fn update_limits(&self) -> UpdateLimits {
        UpdateLimits {
            string_bytes: self.value_bytes_max(),
            other_bytes: self.collection_bytes_max(),
        }
    }

    /// Checks the length of a string.
    #[inline]
    pub(super) fn check_value(&self, bytes: usize, max: usize) -> Result<(), Error> {
        let max = self.value_bytes_max().min(max);
        if bytes > max {
            Err(Error::TooLarge { bytes, max })
        } else {
            Ok(())
        }
    }

    /// The least memory that a cache with so much reserved memory can be told to use.
    pub(super) fn least_bytes(reserved: usize) -> usize {
        reserved.div_ceil(LEAST_PART)
    }

    /// Changes how much is used, from the next background maintenance on.
    ///
    /// # Errors
    /// As [`Cache::set_memory_bytes`](super::Cache::set_memory_bytes).
    pub(super) fn set_bytes(&self, bytes: usize) -> Result<(), Error> {
        let max = self.reserved_bytes;
        let min = self.kept_bytes + Memory::least_bytes(self.sharing_bytes());
        if bytes < min {
            return Err(Error::MemoryTooSmall { bytes, min });
        }
        if bytes > max {
            return Err(Error::TooLarge { bytes, max });
        }
        self.balloon.want(max - bytes);
        Ok(())
    }

    /// Comes nearer to the memory that is to be used, by one segment; whether more is to be done.
    /// `collect` makes shards release memory until so many bytes are left in the budget.
    pub(super) fn resize_step(&self, collect: impl FnOnce(usize)) -> bool {
        self.balloon.step(&self.budget, self.segment_bytes, collect)
    }
}

//! Errors: why the engine refuses an operation.
//!
//! A miss is not an error, and a full cache is not one either: only limits are, and a full
//! no-eviction space.

use crate::base::space::Space;

/// Why the engine refused a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The key is longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
    KeyLength {
        /// Length of the refused key.
        bytes: usize,
        /// Longest key the engine takes.
        max: usize,
    },
    /// The value is longer than [`Config::value_bytes_max`](crate::Config::value_bytes_max), or
    /// longer than this cache's memory can hold.
    TooLarge {
        /// Length of the refused value.
        bytes: usize,
        /// Longest value this cache takes.
        max: usize,
    },
    /// So many values are being received or sent at this moment that no memory can be freed, or
    /// that one more would leave too little for the others.
    Busy,
    /// The file system of [`Config::state`](crate::Config::state) has no space left for the memory
    /// of the cache.
    StateFull,
    /// A long value needs more space than is free without an eviction, which
    /// [`Cache::update_without_eviction`](crate::Cache::update_without_eviction) leaves to
    /// [`Cache::reserve_extent`](crate::Cache::reserve_extent).
    NoRoomYet {
        /// Length of the value.
        bytes: usize,
    },
    /// The key's space has memory of its own, from which nothing may be evicted, and too little is
    /// left.
    Full,
    /// The shares of memory that are spaces' own are too many, too small, or more than half of it.
    Keep {
        /// Bytes of all of them.
        bytes: usize,
        /// Most that they may have together.
        max: usize,
    },
    /// The configured memory is below the least a cache can work with.
    MemoryTooSmall {
        /// The configured memory.
        bytes: usize,
        /// The least memory that works.
        min: usize,
    },
    /// The directory for memory that outlives the process cannot be used: which, and why.
    State(String),
    /// The operating system refused to reserve the configured memory.
    Reserve {
        /// Bytes of address space that were asked for.
        bytes: usize,
        /// The operating system's error code.
        code: i32,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::KeyLength { bytes, max } => {
                write!(f, "a key has at most {max} bytes, this one has {bytes}")
            }
            Error::TooLarge { bytes, max } => {
                write!(f, "a value has at most {max} bytes, this one has {bytes}")
            }
            Error::Busy => write!(f, "values in transfer use all memory; try again"),
            Error::StateFull => write!(f, "the file system of the cache's memory is full"),
            Error::NoRoomYet { bytes } => {
                write!(f, "there is no room yet for a value of {bytes} bytes")
            }
            Error::Full => write!(f, "the memory that is kept for this space is full"),
            Error::Keep { bytes, max } => write!(
                f,
                "{bytes} bytes cannot be kept: at most {max}, in {} shares of 1 MiB or more",
                Space::SHARES_MAX
            ),
            Error::MemoryTooSmall { bytes, min } => {
                write!(
                    f,
                    "{bytes} bytes of memory are too little; at least {min} bytes are needed"
                )
            }
            Error::State(why) => f.write_str(why),
            Error::Reserve { bytes, code } => {
                write!(
                    f,
                    "the system refused to reserve {bytes} bytes (error {code})"
                )
            }
        }
    }
}

impl std::error::Error for Error {}

//! Limits: what one client may have the server hold outside of the cache's memory.
//!
//! Tests: tests/client_memory.rs.

/// Bytes taken from one socket in one turn.
pub const READ_BYTES_MAX: usize = 16 << 10;
/// Bytes of a large value or a long request taken from one socket in one turn.
pub const LONG_READ_BYTES_MAX: usize = 256 << 10;
/// A request that is not whole and has so many bytes is gathered outside of the arena.
pub const LONG_REQUEST_BYTES_MIN: usize = 64 << 10;
/// The arena of an event loop: what one connection can have left over and is read behind it, and
/// room for some sixty full reads. The system gives memory to the part that is used.
pub const ARENA_BYTES: usize = LONG_READ_BYTES_MAX + (1 << 20);
const _: () = assert!(
    LONG_REQUEST_BYTES_MIN + 2 * READ_BYTES_MAX <= LONG_READ_BYTES_MAX
        && LONG_READ_BYTES_MAX + READ_BYTES_MAX <= ARENA_BYTES,
    "what is left over of one connection has room in an empty arena"
);

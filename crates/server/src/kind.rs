//! Kinds: what a value is to Redis's protocol. The engine keeps the number and knows no more.

use cellar_engine::Kind;

/// Bytes without further meaning: all that memcached's protocol knows.
pub const STRING: Kind = Kind::STRING;
/// Fields and their values.
pub const HASH: Kind = Kind(1);
/// Members.
pub const SET: Kind = Kind(2);
/// Members and their scores.
pub const SORTED_SET: Kind = Kind(3);

/// The name that TYPE answers and SCAN asks for.
#[must_use]
pub fn name(kind: Kind) -> &'static str {
    match kind {
        STRING => "string",
        HASH => "hash",
        SET => "set",
        SORTED_SET => "zset",
        _ => "unknown",
    }
}

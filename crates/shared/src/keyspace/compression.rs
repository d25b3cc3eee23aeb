//! Compression: what it saves, by database and key prefix.
//!
//! Tests: server/tests/compress.rs.

use std::cmp::Reverse;

use cellar_engine::Cache;

use super::databases::Databases;
use crate::auth::users::User;

/// Values of one database whose keys have a common prefix.
#[derive(Clone, Debug, PartialEq)]
pub struct CompressedPrefix {
    /// The database.
    pub database: u32,
    /// The prefix: the key up to its first `:` or `/`, or a prefix of a user.
    pub prefix: Vec<u8>,
    /// Whether the values are compressed.
    pub is_compressed: bool,
    /// Compressed over plain bytes of the last sample, 0 to 1; none if the sample was too small.
    pub ratio: Option<f64>,
}

/// The sampled prefixes, those that save the most bytes of their sample first; only those of which
/// `user`, if limited, may read all keys.
pub fn prefixes<'a>(
    cache: &Cache,
    databases: &'a Databases,
    user: Option<&'a User>,
) -> impl Iterator<Item = CompressedPrefix> + 'a {
    let mut families = cache.families();
    families.sort_by_key(|one| Reverse(one.sample_bytes.saturating_sub(one.packed_bytes)));
    let shown = families.into_iter().filter_map(|one| {
        Some(CompressedPrefix {
            // Keys of a database that was flushed belong to none.
            database: databases.database_of(one.space)?,
            ratio: one.ratio(),
            prefix: one.prefix,
            is_compressed: one.is_packed,
        })
    });
    shown.filter(move |one| {
        user.is_none_or(|user| user.may_use(&one.prefix) && user.may_use_database(one.database))
    })
}

//! Kind: what a value is to Redis: its names, and the deadline of a key that holds it.
//!
//! The deadline that the engine knows can be earlier than the key's own one: a hash whose fields
//! all have deadlines goes with the last of them. What tells or changes the deadline of a key asks
//! [`own_deadline`] and [`with_own_deadline`].

use cellar_engine::{Change, Deadline, Item, Kind};

pub use crate::collection::{HASH, LIST, SET, SORTED_SET};

use crate::collection::members::LINEAR_MAX;
use crate::collection::{Hash, Set, SortedSet, hash, set};

/// Bytes.
pub const STRING: Kind = Kind::STRING;
/// Longest string that Redis keeps with its head.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Longest member that a short list has in Redis.
const LISTED_BYTES_MAX: usize = 64;
/// Most integers that Redis keeps as integers in a set.
const INTEGERS_MAX: usize = 512;

/// The name that TYPE answers.
#[must_use]
pub fn name(kind: Kind) -> &'static str {
    match kind {
        STRING => "string",
        HASH => "hash",
        SET => "set",
        SORTED_SET => "zset",
        LIST => "list",
        _ => "unknown",
    }
}

/// The name that OBJECT ENCODING answers: how Redis would keep such a value.
#[must_use]
pub fn encoding(item: Item<'_>) -> &'static str {
    let value = item.value;
    match item.kind {
        HASH => {
            let hash = Hash::view(value, cellar_engine::Instant(0));
            let is_short = |bytes: &[u8]| bytes.len() <= LISTED_BYTES_MAX;
            let fits = hash.len() <= LINEAR_MAX
                && hash
                    .iter()
                    .all(|field| is_short(field.name) && is_short(field.value));
            if fits { "listpack" } else { "hashtable" }
        }
        SET => encoding_of_set(&Set::view(value)),
        // Redis 7.0 keeps all lists alike.
        LIST => "quicklist",
        SORTED_SET => {
            let set = SortedSet::view(value);
            let fits = set.len() <= LINEAR_MAX
                && (0..set.len()).all(|rank| set.at(rank).0.len() <= LISTED_BYTES_MAX);
            if fits { "listpack" } else { "skiplist" }
        }
        _ if set::is_integer(value) => "int",
        _ if value.len() <= EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    }
}

fn encoding_of_set(set: &Set<&[u8]>) -> &'static str {
    if set.len() <= INTEGERS_MAX && set.is_of_integers() {
        return "intset";
    }
    let fits = set.len() <= LINEAR_MAX;
    if fits && set.iter().all(|member| member.len() <= LISTED_BYTES_MAX) {
        "listpack"
    } else {
        "hashtable"
    }
}

/// The key's own deadline: what TTL and its like answer, and what a copy gets.
#[must_use]
pub fn own_deadline(item: Item<'_>) -> Deadline {
    match item.kind {
        HASH => hash::own_deadline(item.value, item.deadline),
        _ => item.deadline,
    }
}

/// What gives a key its own deadline: EXPIRE, PERSIST and their like. For a
/// [`Cache::update`](cellar_engine::Cache::update), whose scratch buffer this may fill.
#[must_use]
pub fn with_own_deadline(item: Item<'_>, own: Deadline, scratch: &mut Vec<u8>) -> Change {
    let place = match item.kind {
        HASH => hash::own_deadline_place(item.value),
        _ => None,
    };
    let Some(place) = place else {
        return Change::Retime(own);
    };
    scratch.extend_from_slice(item.value);
    scratch[place].copy_from_slice(&hash::raw(own).to_le_bytes());
    Change::Store {
        kind: item.kind,
        deadline: hash::item_deadline(item.value, own),
        flags: item.flags,
    }
}

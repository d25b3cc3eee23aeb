//! Kind: how Redis sees a value: its type and encoding names, and the deadline of its key.
//!
//! The deadline that the engine knows can be earlier than the key's own: a hash whose fields all
//! have deadlines expires with the last of them, and so does a set with its members. Code that
//! reads or changes the deadline of a key uses [`own_deadline`] and [`with_own_deadline`].

use cellar_config::parameters::Encodings;
use cellar_engine::{Change, Deadline, Item, Kind};

pub use cellar_values::{HASH, LIST, SET, SORTED_SET};

use cellar_values::{Hash, Set, SortedSet, has_member_deadlines, hash, is_paged, set};

/// Bytes.
pub const STRING: Kind = Kind::STRING;
/// Longest string that Redis keeps with its head.
const EMBEDDED_BYTES_MAX: usize = 44;

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

/// Whether Redis has such a kind, in any case; streams and modules are kinds that nothing has here.
#[must_use]
pub fn is_name(text: &[u8]) -> bool {
    const NAMES: [&str; 7] = ["string", "list", "set", "zset", "hash", "stream", "module"];
    NAMES
        .iter()
        .any(|name| text.eq_ignore_ascii_case(name.as_bytes()))
}

/// The name for OBJECT ENCODING: how Redis would encode such a value.
///
/// `is_changed` is whether a part of a string was written after it was stored.
#[must_use]
pub fn encoding(item: Item<'_>, is_changed: bool, encodings: &Encodings) -> &'static str {
    let value = item.value;
    match item.kind {
        HASH => {
            let (hash, short) = (Hash::view(value, cellar_engine::Instant(0)), encodings.hash);
            let is_short = |bytes: &[u8]| bytes.len() <= short.bytes_max;
            let fits = hash.len() <= short.entries_max
                && hash
                    .iter()
                    .all(|field| is_short(&field.name) && is_short(&field.value));
            if fits { "listpack" } else { "hashtable" }
        }
        SET => encoding_of_set(&Set::view(value, cellar_engine::Instant(0)), encodings),
        // Redis 7.0 encodes all lists the same way.
        LIST => "quicklist",
        SORTED_SET => {
            let (set, short) = (SortedSet::view(value), encodings.sorted_set);
            let fits = set.len() <= short.entries_max
                && set
                    .iter_from(0)
                    .all(|(member, _)| member.len() <= short.bytes_max);
            if fits { "listpack" } else { "skiplist" }
        }
        _ if is_changed => "raw",
        _ if set::is_integer(value) => "int",
        _ if value.len() <= EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    }
}

fn encoding_of_set(set: &Set<'_>, encodings: &Encodings) -> &'static str {
    if set.len() <= encodings.integers_max && set.is_of_integers() {
        return "intset";
    }
    let short = encodings.set;
    let fits = set.len() <= short.entries_max;
    if fits && set.iter().all(|member| member.len() <= short.bytes_max) {
        "listpack"
    } else {
        "hashtable"
    }
}

/// The key's own deadline: the one that TTL returns, and that a copy gets.
#[must_use]
pub fn own_deadline(item: Item<'_>) -> Deadline {
    if has_member_deadlines(item.kind, item.value) {
        return hash::own_deadline(item.value, item.deadline);
    }
    item.deadline
}

/// The change that gives a key its own deadline, for EXPIRE, PERSIST and the like. Used in a
/// [`Cache::update`](cellar_engine::Cache::update), whose scratch buffer it may fill.
#[must_use]
pub fn with_own_deadline(item: Item<'_>, own: Deadline, scratch: &mut Vec<u8>) -> Change {
    let has_place = has_member_deadlines(item.kind, item.value);
    let place = has_place.then(|| hash::own_deadline_place(item.value));
    let place = place.flatten();
    let Some(place) = place else {
        return Change::Retime(own);
    };
    let deadline = hash::item_deadline(item.value, own);
    let raw = hash::raw(own).to_le_bytes();
    if is_paged(item.value) {
        scratch.extend_from_slice(&raw);
        return Change::Edit {
            more: 0,
            deadline,
            apply: hash::SET_OWN_DEADLINE,
        };
    }
    scratch.extend_from_slice(item.value);
    scratch[place].copy_from_slice(&raw);
    Change::Store {
        kind: item.kind,
        deadline,
        flags: item.flags,
    }
}

//! Keysizes: the section of INFO with the lengths of all values, in histograms of powers of two.
//!
//! Redis 8 updates these counts with each write. Here the section is computed only if requested by
//! name, from all keys of all databases, in steps. Changes between two steps may or may not be
//! counted, as in SCAN.
//!
//! Source: redis.io/docs/latest/commands/info, "keysizes". Tests: server/tests/resp_admin.rs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cellar_engine::{Instant, Item, Kind, ScanCursor};
use cellar_net::output::Output;
use cellar_protocol::resp::{Proto, Reply};
use cellar_shared::keyspace::kind;

use crate::context::Context;
use crate::resp::call::steps::{Progress, STEP_ITEMS, Work};
use crate::resp::call::{Call, Outcome};
use cellar_values::{Hash, List, Set, SortedSet};

/// Kinds of values in the order of the lines, with what a line counts.
const LINES: [(Kind, &str); 5] = [
    (kind::STRING, "strings_sizes"),
    (kind::LIST, "lists_items"),
    (kind::SET, "sets_items"),
    (kind::SORTED_SET, "zsets_items"),
    (kind::HASH, "hashes_items"),
];
/// One for nothing, and one for each power of two.
const BINS: usize = u64::BITS as usize + 1;

/// INFO with the section behind `text`, the other sections.
///
/// # Errors
/// As [`Call::work_in_steps`].
pub(super) fn append(call: &mut Call<'_>, text: String) -> Outcome {
    let proto = call.session.proto;
    call.work_in_steps(KeySizes {
        text,
        proto,
        at: ScanCursor::START,
        counts: BTreeMap::new(),
    })
}

struct KeySizes {
    text: String,
    proto: Proto,
    at: ScanCursor,
    /// By database and line.
    counts: BTreeMap<(u32, usize), [u64; BINS]>,
}

impl Work for KeySizes {
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        let mut looked_at = 0;
        let (cache, databases) = (context.cache(), &context.state().databases);
        let now = cache.now();
        while looked_at < STEP_ITEMS {
            let counts = &mut self.counts;
            let next = cache.lengths(
                self.at,
                |item| items_in(item, now),
                |space, of, length| {
                    looked_at += 1;
                    let line = LINES.iter().position(|(kind, _)| *kind == of);
                    if let Some(place) = databases.database_of(space).zip(line) {
                        counts.entry(place).or_insert([0; BINS])[bin(length as u64)] += 1;
                    }
                },
            );
            // A stretch without keys counts as well.
            looked_at += 1;
            let Some(next) = next else {
                self.write();
                Reply::new(output.bytes(), self.proto).verbatim(&self.text);
                return Progress::Last;
            };
            self.at = next;
        }
        Progress::More
    }
}

impl KeySizes {
    /// Writes the section.
    fn write(&mut self) {
        let text = &mut self.text;
        let gap = if text.is_empty() { "" } else { "\r\n" };
        // Writing to a string does not fail.
        let _ = write!(text, "{gap}# Keysizes\r\n");
        for ((database, line), counts) in &self.counts {
            let name = LINES[*line].1;
            let _ = write!(text, "db{database}_distrib_{name}:");
            let mut comma = "";
            for (bin, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let _ = write!(text, "{comma}{}={count}", label(bin));
                comma = ",";
            }
            text.push_str("\r\n");
        }
    }
}

/// Number of elements of a value that is not a string.
fn items_in(item: Item<'_>, now: Instant) -> usize {
    match item.kind {
        kind::HASH => Hash::view(item.value, now).len(),
        kind::SET => Set::view(item.value, now).len(),
        kind::SORTED_SET => SortedSet::view(item.value).len(),
        kind::LIST => List::view(item.value).len(),
        _ => 0,
    }
}

/// The bin of a length: those from a power of two up to the next one share it.
fn bin(length: u64) -> usize {
    (u64::BITS - length.leading_zeros()) as usize
}

/// The least length in a bin, as Redis writes it.
fn label(bin: usize) -> String {
    let Some(power) = bin.checked_sub(1) else {
        return "0".to_owned();
    };
    let unit = ["", "K", "M", "G", "T", "P", "E"][power / 10];
    format!("{}{unit}", 1_u64 << (power % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_is_called_by_the_least_length_in_it() {
        for (length, name) in [
            (0, "0"),
            (1, "1"),
            (5, "4"),
            (1_023, "512"),
            (1_024, "1K"),
            (3 << 20, "2M"),
            (u64::MAX, "8E"),
        ] {
            assert_eq!(label(bin(length)), name, "{length}");
        }
    }
}

//! Prefixes: which keys share a dictionary.
//!
//! Tests: at the end of this file, tests/compress.rs.

use std::cmp::Reverse;
use std::collections::HashSet;

use crate::base::space::Space;
use crate::key::Hasher;

/// Longest common prefix that makes a family.
const PREFIX_BYTES_MAX: usize = 64;

/// Key prefixes of users that may use no other keys. Their values share no dictionary with values
/// of other keys, and other values none with theirs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PrivatePrefixes {
    prefixes: HashSet<Box<[u8]>>,
    /// The lengths that they have, each once, the greatest first.
    lengths: Vec<usize>,
}

impl PrivatePrefixes {
    pub(crate) fn new(prefixes: impl IntoIterator<Item = Box<[u8]>>) -> PrivatePrefixes {
        let prefixes: HashSet<Box<[u8]>> = prefixes.into_iter().collect();
        let mut lengths: Vec<usize> = prefixes.iter().map(|prefix| prefix.len()).collect();
        lengths.sort_unstable_by_key(|&length| Reverse(length));
        lengths.dedup();
        PrivatePrefixes { prefixes, lengths }
    }

    /// The prefix that makes a key's family: the longest private one, or the part before the first
    /// separator if that is longer. Empty for a key with neither.
    pub(crate) fn prefix_of<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        let common = common_prefix(key);
        let longer = self.lengths.iter().take_while(|&&n| n > common.len());
        let mut candidates = longer.filter_map(|&length| key.get(..length));
        let private = candidates.find(|prefix| self.prefixes.contains(*prefix));
        private.unwrap_or(common)
    }

    /// The number of a key's family.
    pub(crate) fn family_of(&self, hasher: &Hasher, space: Space, key: &[u8]) -> u64 {
        hasher.known(space, self.prefix_of(key)).hash()
    }

    /// Whether values of a family may be of keys that have a private prefix here and had none
    /// before.
    pub(crate) fn divide(&self, before: &PrivatePrefixes, prefix: &[u8]) -> bool {
        let mut fresh = self.prefixes.difference(&before.prefixes);
        fresh.any(|one| one.len() > prefix.len() && one.starts_with(prefix))
    }
}

/// The part of a key before its first separator.
fn common_prefix(key: &[u8]) -> &[u8] {
    let front = &key[..key.len().min(PREFIX_BYTES_MAX)];
    let end = front.iter().position(|byte| matches!(byte, b':' | b'/'));
    &front[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private(prefixes: &[&str]) -> PrivatePrefixes {
        PrivatePrefixes::new(prefixes.iter().map(|prefix| prefix.as_bytes().into()))
    }

    #[test]
    fn a_prefix_ends_at_the_first_separator() {
        for (key, prefix) in [
            ("user:1", "user"),
            ("page/a:b", "page"),
            ("a:", "a"),
            (":a", ""),
            ("plain", ""),
            ("", ""),
        ] {
            let found = private(&[]).prefix_of(key.as_bytes()).to_vec();
            assert_eq!(found, prefix.as_bytes(), "{key}");
        }
        assert_eq!(private(&[]).prefix_of(&[b'a'; 100]), b"");
    }

    #[test]
    fn no_family_has_keys_within_and_without_a_private_prefix() {
        let some = private(&["app:a:", "app:b", "app:a:x:", "sess"]);
        for (key, prefix) in [
            ("app:1", "app"),
            ("app:a:1", "app:a:"),
            ("app:a:x:1", "app:a:x:"),
            ("app:a:x", "app:a:"),
            ("app:b1", "app:b"),
            ("app:a", "app"),
            ("sess:1", "sess"),
            ("session:1", "session"),
            ("sess1", "sess"),
            ("other", ""),
        ] {
            assert_eq!(some.prefix_of(key.as_bytes()), prefix.as_bytes(), "{key}");
        }
    }

    #[test]
    fn a_new_private_prefix_divides_the_families_that_had_its_keys() {
        let (before, after) = (private(&["a:x"]), private(&["a:x", "a:y"]));
        for (prefix, is_divided) in [("", true), ("a", true), ("a:x", false), ("a:y", false)] {
            assert_eq!(
                after.divide(&before, prefix.as_bytes()),
                is_divided,
                "{prefix}"
            );
        }
        assert!(!before.divide(&after, b"a"));
    }
}

//! By source: numbered members, grouped by source, so that the source with most members loses one
//! first.
//!
//! A greater number means a later arrival. All operations but a count take logarithmic time.
//!
//! Tests: at the end of this file.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use crate::auth::login_limiter::Source;

/// Members by their sources.
#[derive(Debug, Default)]
pub struct BySource {
    members: HashMap<Source, BTreeSet<u64>>,
    /// Sources by number of members; among equals, the one with the oldest member is last.
    sizes: BTreeSet<(usize, Reverse<u64>, Source)>,
}

impl BySource {
    /// Adds a member that is not there.
    pub fn add(&mut self, source: Source, number: u64) {
        self.change(source, |members| members.insert(number));
    }

    /// Removes a member, if present.
    pub fn remove(&mut self, source: Source, number: u64) {
        self.change(source, |members| members.remove(&number));
    }

    /// How many members a source has.
    #[must_use]
    pub fn count_of(&self, source: Source) -> usize {
        self.members.get(&source).map_or(0, BTreeSet::len)
    }

    /// The oldest member of a source.
    #[must_use]
    pub fn oldest_of(&self, source: Source) -> Option<u64> {
        self.members.get(&source)?.first().copied()
    }

    /// The oldest member of the source with most members.
    #[must_use]
    pub fn oldest_of_most(&self) -> Option<u64> {
        self.sizes.last().map(|&(_, Reverse(number), _)| number)
    }

    fn change(&mut self, source: Source, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let members = self.members.entry(source).or_default();
        if let Some(&oldest) = members.first() {
            self.sizes.remove(&(members.len(), Reverse(oldest), source));
        }
        change(members);
        match members.first() {
            Some(&oldest) => {
                self.sizes.insert((members.len(), Reverse(oldest), source));
            }
            None => {
                self.members.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_with_most_gives_way_and_its_oldest_goes() {
        let (one, two) = (Source::of("192.0.2.1:1"), Source::of("192.0.2.2:1"));
        let mut by_source = BySource::default();
        assert_eq!(
            (by_source.oldest_of_most(), by_source.count_of(one)),
            (None, 0)
        );
        by_source.add(one, 1);
        by_source.add(two, 2);
        // Among equals, the source with the oldest member.
        assert_eq!(by_source.oldest_of_most(), Some(1));
        by_source.add(two, 3);
        assert_eq!(by_source.oldest_of_most(), Some(2));
        assert_eq!(by_source.oldest_of(two), Some(2));
        by_source.remove(two, 2);
        by_source.remove(two, 2);
        assert_eq!(
            (by_source.oldest_of_most(), by_source.count_of(two)),
            (Some(1), 1)
        );
        by_source.remove(one, 1);
        assert_eq!(
            (by_source.oldest_of(one), by_source.oldest_of_most()),
            (None, Some(3))
        );
        by_source.remove(two, 3);
        assert!(by_source.members.is_empty() && by_source.sizes.is_empty());
    }
}

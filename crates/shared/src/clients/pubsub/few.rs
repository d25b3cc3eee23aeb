//! Few: a map that allocates nothing for its first entry.
//!
//! Most channels and patterns have one subscriber, and most patterns a prefix of their own: a tree
//! allocates memory for eleven entries at once.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::mem;
use std::ops::{Bound, RangeBounds};

/// A map in the order of its keys.
#[derive(Debug, Default)]
pub(super) enum Few<K, V> {
    #[default]
    None,
    One(K, V),
    Many(BTreeMap<K, V>),
}

impl<K: Ord, V> Few<K, V> {
    pub(super) fn len(&self) -> usize {
        match self {
            Few::None => 0,
            Few::One(..) => 1,
            Few::Many(map) => map.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            Few::None => None,
            Few::One(own, value) => ((*own).borrow() == key).then_some(value),
            Few::Many(map) => map.get_mut(key),
        }
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        *self = match mem::take(self) {
            Few::One(own, first) if own != key => {
                Few::Many(BTreeMap::from([(own, first), (key, value)]))
            }
            Few::None | Few::One(..) => Few::One(key, value),
            Few::Many(mut map) => {
                map.insert(key, value);
                Few::Many(map)
            }
        };
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        *self = match mem::take(self) {
            Few::One(own, _) if own.borrow() == key => Few::None,
            Few::Many(mut map) => {
                map.remove(key);
                Few::Many(map)
            }
            other => other,
        };
        if let Few::Many(map) = self
            && map.len() <= 1
        {
            let last = map.pop_first();
            *self = last.map_or(Few::None, |(key, value)| Few::One(key, value));
        }
    }

    /// The entries from a key on.
    pub(super) fn from<Q: Ord + ?Sized>(&self, from: Bound<&Q>) -> impl Iterator<Item = (&K, &V)>
    where
        K: Borrow<Q>,
    {
        let range = (from, Bound::Unbounded);
        let (one, many) = match self {
            Few::None => (None, None),
            Few::One(key, value) => (range.contains(key.borrow()).then_some((key, value)), None),
            Few::Many(map) => (None, Some(map.range((from, Bound::Unbounded)))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.from::<K>(Bound::Unbounded).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_map_whatever_is_put_in_and_taken_out() {
        let (mut few, mut model) = (Few::default(), BTreeMap::new());
        let mut random = 1_u64;
        for round in 0..10_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = random >> 40 & 3;
            if random >> 33 & 1 == 0 {
                few.insert(key, round);
                model.insert(key, round);
            } else {
                few.remove(&key);
                model.remove(&key);
            }
            assert_eq!((few.len(), few.is_empty()), (model.len(), model.is_empty()));
            assert_eq!(few.get_mut(&key), model.get_mut(&key));
            assert!(few.values().eq(model.values()));
            for from in [Bound::Included(&key), Bound::Excluded(&key)] {
                assert!(few.from(from).eq(model.range((from, Bound::Unbounded))));
            }
        }
    }
}

//! History: stores and deletes of sampled keys, remembered long after their items were removed.
//!
//! A fixed number of entries in sets of eight, the latest first. A key is known by its part of the
//! sample order, its set by other bits of the hash. In a full set, keys that fell out of the sample
//! are replaced first, then the one not requested for the longest time: that one is forgotten, and
//! counted.
//!
//! Why: docs/decisions/0011. Tests: at the end of this file.

use crate::base::serialize::serialize;
use crate::insight::sample::{Coarse, part};

const WAYS: usize = 8;

/// The stored facts about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    part: u32,
    /// The deadline of the item that was stored last.
    pub(crate) deadline: Coarse,
    /// How long it was to live from its store, or from the last touch.
    pub(crate) ttl: Coarse,
}

/// A TTL that marks a deleted item.
const DELETED: Coarse = Coarse(u32::MAX - 1);
/// No entry.
const NOTHING: Fate = Fate {
    part: u32::MAX,
    deadline: Coarse(0),
    ttl: Coarse(0),
};

serialize!(Fate {
    part,
    deadline,
    ttl
});
serialize!(History { sets, forgotten });

impl Fate {
    /// Whether the item was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.ttl == DELETED
    }
}

/// A bounded memory of keys.
#[derive(Debug)]
pub(crate) struct History {
    sets: Box<[[Fate; WAYS]]>,
    /// Keys of the sample that were replaced.
    forgotten: u32,
}

impl History {
    /// A memory of `keys` keys, about.
    pub(crate) fn of(keys: usize) -> History {
        let sets = keys.div_ceil(WAYS).max(1);
        History {
            sets: vec![[NOTHING; WAYS]; sets].into_boxed_slice(),
            forgotten: 0,
        }
    }

    /// Keys it remembers.
    pub(crate) fn keys_max(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// Bytes of a memory of `keys` keys.
    pub(crate) const fn bytes_for(keys: usize) -> usize {
        keys * size_of::<Fate>()
    }

    fn set_of(&mut self, hash: u64) -> &mut [Fate; WAYS] {
        let upper = hash.wrapping_mul(0xa076_1d64_78bd_642f);
        let set = (u128::from(upper) * self.sets.len() as u128) >> 64;
        &mut self.sets[set as usize]
    }

    /// Looks a key up, and makes it the most recent of its set.
    pub(crate) fn find(&mut self, hash: u64) -> Option<&mut Fate> {
        let set = self.set_of(hash);
        let way = set.iter().position(|fate| fate.part == part(hash))?;
        set[..=way].rotate_right(1);
        Some(&mut set[0])
    }

    /// Remembers an item's deadline; keys whose part is not `below` may be forgotten for it.
    pub(crate) fn store(&mut self, hash: u64, below: u32, deadline: Coarse, now: Coarse) {
        let set = self.set_of(hash);
        let known = set.iter().position(|fate| fate.part == part(hash));
        let way = known.or_else(|| set.iter().rposition(|fate| fate.part >= below));
        let to_forget = way.is_none();
        set[..=way.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = Fate {
            part: part(hash),
            deadline,
            ttl: deadline.since(now),
        };
        self.forgotten += u32::from(to_forget);
    }

    /// Keys forgotten since the last call.
    pub(crate) fn take_forgotten(&mut self) -> u32 {
        std::mem::take(&mut self.forgotten)
    }

    /// Remembers that an item was deleted, if it is known.
    pub(crate) fn delete(&mut self, hash: u64) {
        if let Some(fate) = self.find(hash) {
            fate.ttl = DELETED;
        }
    }

    /// Remembers that all items were deleted.
    pub(crate) fn flush(&mut self) {
        for fate in self.sets.iter_mut().flatten() {
            fate.ttl = DELETED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Hasher;

    fn hash(number: u64) -> u64 {
        Hasher::with_seed(1).hash(&number.to_le_bytes())
    }

    fn knows(history: &mut History, number: u64) -> bool {
        let fate = history.find(hash(number));
        fate.is_some_and(|fate| fate.deadline == Coarse(number as u32))
    }

    #[test]
    fn the_keys_asked_for_last_are_remembered() {
        let mut history = History::of(1_000);
        for number in 0..20_000 {
            let at = Coarse(number as u32);
            history.store(hash(number), u32::MAX, at, Coarse(0));
            assert_eq!(history.find(hash(7)).is_some(), number >= 7);
        }
        let late = (19_500..20_000).filter(|&n| knows(&mut history, n));
        assert!(late.count() > 470);
        let early = (8..10_000).filter(|&n| knows(&mut history, n));
        assert!(early.count() < 20);
        assert_eq!(history.take_forgotten(), 19_000);
        assert_eq!(history.take_forgotten(), 0);
    }

    #[test]
    fn keys_out_of_the_sample_make_room_first() {
        let mut history = History::of(1_000);
        (0..1_000).for_each(|n| history.store(hash(n), u32::MAX, Coarse(n as u32), Coarse(0)));
        history.take_forgotten();
        let below = u32::MAX / 4;
        let is_in = |n: &u64| part(hash(*n)) < below;
        for n in (1_000..2_000).filter(is_in) {
            history.store(hash(n), below, Coarse(n as u32), Coarse(0));
        }
        let kept = (0..2_000).filter(is_in).filter(|&n| knows(&mut history, n));
        assert!(kept.count() > 450);
        assert!(history.take_forgotten() < 25);
    }

    #[test]
    fn a_stored_key_is_no_longer_deleted() {
        let mut history = History::of(8);
        let store = |history: &mut History| history.store(hash(1), u32::MAX, Coarse(9), Coarse(4));
        history.delete(hash(1));
        assert_eq!(history.find(hash(1)), None);
        store(&mut history);
        assert_eq!(history.find(hash(1)).map(|fate| fate.ttl), Some(Coarse(5)));
        history.flush();
        assert!(history.find(hash(1)).is_some_and(|fate| fate.is_deleted()));
        store(&mut history);
        assert!(!history.find(hash(1)).is_some_and(|fate| fate.is_deleted()));
        history.delete(hash(1));
        assert!(history.find(hash(1)).is_some_and(|fate| fate.is_deleted()));
    }
}

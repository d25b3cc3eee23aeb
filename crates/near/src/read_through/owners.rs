//! Owners: which node of a cluster owns which slot, by which copies are validated.
//!
//! A copy that was read from a node is valid as long as the node owns the slot of its key. One word
//! for each slot has its owner and the number of changes of owner; a copy stores the second number
//! ([`Tenure`]), which is compared with the word whenever the copy is served.
//!
//! Invariant: a tenure that has ended never holds again, also when the slot comes back to the node.
//! Why: docs/decisions/0062-copies-of-moved-slots.md, 0063.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16_384;
/// Bits of a word below the number of the tenure: the number of the node.
const NODE_BITS: u32 = 32;

/// Which node has each slot.
#[derive(Debug)]
pub(crate) struct SlotOwners {
    // Acquire and Release: a thread that sees a slot's owner sees all changes made before it was
    // set.
    words: Box<[AtomicU64]>,
}

/// One node's time with one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenure {
    /// The how many-th it is of this slot.
    number: NonZeroU32,
    slot: u16,
}

impl SlotOwners {
    /// Slots without owners.
    pub(crate) fn new() -> SlotOwners {
        SlotOwners {
            words: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Sets the owner of a slot, 0 for none; returns whether another node owned it.
    pub(crate) fn give(&self, slot: u16, node: u32) -> bool {
        let before = self.change(slot, |before| (before != node).then_some(node));
        before.is_some_and(|before| before != 0)
    }

    /// Ends this node's time with a slot, if it has it, and begins the next one: its later answers
    /// may be cached, in case it still owns the slot.
    pub(crate) fn end(&self, slot: u16, node: u32) {
        let _ = self.change(slot, |before| (before == node).then_some(node));
    }

    /// Begins the time of the node that `next` makes of the one that has the slot; which that was.
    fn change(&self, slot: u16, next: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let word = &self.words[usize::from(slot % SLOTS)];
        let changed = |word| {
            let (number, before) = parts(word);
            let number = u64::from(number.wrapping_add(1).max(1));
            Some(number << NODE_BITS | u64::from(next(before)?))
        };
        // Release: as it says where they are declared. Relaxed where nothing is changed.
        let before = word.fetch_update(Ordering::Release, Ordering::Relaxed, changed);
        before.ok().map(|before| parts(before).1)
    }

    /// This node's time with this slot; none unless it has it.
    pub(crate) fn tenure(&self, slot: u16, node: u32) -> Option<Tenure> {
        let word = self.words[usize::from(slot % SLOTS)].load(Ordering::Acquire);
        let (number, owner) = parts(word);
        let number = NonZeroU32::new(number).filter(|_| owner == node)?;
        Some(Tenure { number, slot })
    }

    /// Whether it has not ended.
    #[inline]
    pub(crate) fn lasts(&self, tenure: Tenure) -> bool {
        let word = self.words[usize::from(tenure.slot % SLOTS)].load(Ordering::Acquire);
        parts(word).0 == tenure.number.get()
    }
}

/// The number of the tenure, and of the node whose it is.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "each is one half of the word"
)]
fn parts(word: u64) -> (u32, u32) {
    ((word >> NODE_BITS) as u32, word as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenure_ends_with_the_next_owner_and_never_holds_again() {
        let owners = SlotOwners::new();
        assert_eq!(owners.tenure(7, 1), None, "it is nobody's");
        assert!(!owners.give(7, 1));
        let first = owners.tenure(7, 1).unwrap();
        assert!(owners.lasts(first) && owners.tenure(7, 2).is_none());
        assert!(!owners.give(7, 1) && owners.lasts(first), "it stays");
        assert!(owners.give(7, 2) && !owners.lasts(first));
        assert!(owners.give(7, 1) && !owners.lasts(first));
        assert!(owners.lasts(owners.tenure(7, 1).unwrap()));
        let other = {
            owners.give(8, 1);
            owners.tenure(8, 1).unwrap()
        };
        let last = owners.tenure(7, 1).unwrap();
        assert!(owners.give(7, 0) && !owners.lasts(last) && owners.lasts(other));
    }

    #[test]
    fn a_node_that_has_lost_a_slot_ends_its_own_time_alone() {
        let owners = SlotOwners::new();
        owners.give(7, 1);
        owners.give(8, 1);
        let [lost, kept] = [7, 8].map(|slot| owners.tenure(slot, 1).unwrap());
        owners.end(7, 1);
        assert!(!owners.lasts(lost) && owners.lasts(kept));
        assert!(owners.tenure(7, 1).is_some_and(|again| again != lost));
        // The map was faster.
        owners.give(7, 2);
        let next = owners.tenure(7, 2).unwrap();
        owners.end(7, 1);
        assert!(owners.lasts(next));
    }

    #[test]
    fn a_tenure_costs_a_copy_one_word() {
        assert_eq!(size_of::<Option<Tenure>>(), size_of::<u64>());
    }
}

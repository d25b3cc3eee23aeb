//! Holdings: which slots a node may serve when the map changes, and which it has to empty first.
//!
//! ```text
//!             the map gives it        it is empty
//!   foreign -------------------> own -------------> served
//!      ^                                               |
//!      +------ emptied -------- unswept <--------------+
//!                                       the map takes it
//! ```
//!
//! Invariant: a slot that was served once and lost is not served before a walk over the whole cache
//! that began afterwards has dropped its items.

use super::slot::SlotSet;

/// The slots of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// What the map gives to this node.
    owned: SlotSet,
    /// What it serves.
    served: SlotSet,
    /// What it has lost and may still hold items of.
    unswept: SlotSet,
}

impl Holdings {
    /// Takes over another map.
    pub fn follow(&mut self, owned: SlotSet) {
        let lost = self.served.without(&owned);
        self.unswept = self.unswept.or(&lost);
        self.owned = owned;
        self.gain();
    }

    /// Notes that a walk which began when these were unswept has dropped their items.
    pub fn swept(&mut self, slots: &SlotSet) {
        self.unswept = self.unswept.without(slots);
        self.gain();
    }

    /// What is served now.
    #[must_use]
    pub fn served(&self) -> &SlotSet {
        &self.served
    }

    /// What has to be emptied.
    #[must_use]
    pub fn unswept(&self) -> &SlotSet {
        &self.unswept
    }

    /// Serves what the map gives, but for what is not empty.
    fn gain(&mut self) {
        self.served = self.owned.without(&self.unswept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(first: u16, end: u16) -> SlotSet {
        SlotSet::of(|slot| (first..end).contains(&slot))
    }

    #[test]
    fn a_slot_that_is_lost_and_regained_waits_until_it_was_emptied() {
        let mut holdings = Holdings::default();
        holdings.follow(slots(0, 100));
        assert_eq!(holdings.served(), &slots(0, 100));
        holdings.follow(slots(50, 100));
        let walk = holdings.unswept().clone();
        assert_eq!(walk, slots(0, 50));
        holdings.follow(slots(0, 100));
        assert_eq!(holdings.served(), &slots(50, 100));
        // It goes and comes while the walk is under way, which has been through some of it.
        holdings.follow(slots(0, 70));
        holdings.follow(slots(0, 100));
        holdings.swept(&walk);
        assert_eq!(holdings.served(), &slots(0, 70));
        holdings.swept(&slots(70, 100));
        assert_eq!(holdings.served(), &slots(0, 100));
    }
}

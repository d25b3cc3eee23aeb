//! Holdings: the slots that a node may serve when the map changes, and those to empty first.
//!
//! ```text
//!             the map gives it        it is empty, and others have released it
//!   foreign -------------------> own -------------------------------------------> served
//!      ^                                                                             |
//!      +----------- emptied ------------ unswept <-----------------------------------+
//!                                                 the map takes it, or the lease is lost
//! ```
//!
//! Invariant: a slot that was served once and lost is not served before a walk over the whole cache
//! that began afterwards has dropped its items.

use super::slot::SlotSet;

/// The slots of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// The slots that the map gives to this node.
    owned: SlotSet,
    /// The slots that it serves.
    served: SlotSet,
    /// The slots that it has lost and may still hold items of.
    unswept: SlotSet,
    /// Whether no other node serves the slots that the map gives to this one.
    is_agreed: bool,
}

impl Holdings {
    /// Adopts another map, whatever other nodes use.
    pub fn follow(&mut self, owned: SlotSet) {
        self.give_up_for(owned);
        self.agree();
    }

    /// Releases the slots that another map takes; those that it gives wait for [`Holdings::agree`].
    pub fn give_up_for(&mut self, owned: SlotSet) {
        self.lose(self.served.without(&owned));
        self.owned = owned;
        self.is_agreed = false;
    }

    /// Records that no other node serves the slots that the map gives to this one, nor will before
    /// this one has adopted another map.
    pub fn agree(&mut self) {
        self.is_agreed = true;
        self.gain();
    }

    /// Releases all slots, because other nodes may serve them.
    pub fn lose_all(&mut self) {
        self.give_up_for(SlotSet::default());
    }

    /// Records that a walk which began when these were unswept has removed their items.
    pub fn swept(&mut self, slots: &SlotSet) {
        self.unswept = self.unswept.without(slots);
        self.gain();
    }

    /// The slots served now.
    #[must_use]
    pub fn served(&self) -> &SlotSet {
        &self.served
    }

    /// The slots that have to be emptied.
    #[must_use]
    pub fn unswept(&self) -> &SlotSet {
        &self.unswept
    }

    fn lose(&mut self, slots: SlotSet) {
        self.served = self.served.without(&slots);
        self.unswept = self.unswept.or(&slots);
    }

    /// Serves the slots that the map gives, except those that are not empty.
    fn gain(&mut self) {
        if self.is_agreed {
            self.served = self.owned.without(&self.unswept);
        }
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
        // It is lost and given back during the walk, which has passed some of it.
        holdings.follow(slots(0, 70));
        holdings.follow(slots(0, 100));
        holdings.swept(&walk);
        assert_eq!(holdings.served(), &slots(0, 70));
        holdings.swept(&slots(70, 100));
        assert_eq!(holdings.served(), &slots(0, 100));
    }

    #[test]
    fn what_is_new_waits_for_the_others_and_what_stays_does_not() {
        let mut holdings = Holdings::default();
        holdings.give_up_for(slots(0, 10));
        assert_eq!(holdings.served().count(), 0);
        holdings.agree();
        holdings.give_up_for(slots(5, 20));
        assert_eq!(holdings.served(), &slots(5, 10));
        holdings.swept(&slots(0, 5));
        assert_eq!(holdings.served(), &slots(5, 10), "the others may serve it");
        holdings.agree();
        assert_eq!(holdings.served(), &slots(5, 20));
        holdings.lose_all();
        assert_eq!(holdings.served().count(), 0);
        assert_eq!(holdings.unswept(), &slots(5, 20));
        holdings.give_up_for(slots(5, 20));
        holdings.agree();
        assert_eq!(holdings.served().count(), 0, "they are not empty");
        holdings.swept(&slots(5, 20));
        assert_eq!(holdings.served(), &slots(5, 20));
    }
}

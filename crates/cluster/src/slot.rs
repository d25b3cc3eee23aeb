//! Slot set: some of the slots of a cluster.

pub use cellar_protocol::resp::slot::{SLOTS, slot_of, tag_of};

/// Words of a set of slots.
const WORDS: usize = SLOTS as usize / 64;

/// Some of the slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSet(Box<[u64; WORDS]>);

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet(Box::new([0; WORDS]))
    }
}

impl SlotSet {
    /// The slots for which `is_in` holds.
    #[must_use]
    pub fn of(is_in: impl Fn(u16) -> bool) -> SlotSet {
        let mut set = SlotSet::default();
        for slot in (0..SLOTS).filter(|slot| is_in(*slot)) {
            set.0[usize::from(slot / 64)] |= 1 << (slot % 64);
        }
        set
    }

    /// Whether a slot is among them.
    #[inline]
    #[must_use]
    pub fn has(&self, slot: u16) -> bool {
        self.0[usize::from(slot / 64) % WORDS] >> (slot % 64) & 1 == 1
    }

    /// Number of slots.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The intersection.
    #[must_use]
    pub fn and(&self, other: &SlotSet) -> SlotSet {
        self.combine(other, |one, other| one & other)
    }

    /// The union.
    #[must_use]
    pub fn or(&self, other: &SlotSet) -> SlotSet {
        self.combine(other, |one, other| one | other)
    }

    /// The difference.
    #[must_use]
    pub fn without(&self, other: &SlotSet) -> SlotSet {
        self.combine(other, |one, other| one & !other)
    }

    /// Its bits, 64 slots per word, the lowest first.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// The first and the last of each run of slots that follow each other.
    #[must_use]
    pub fn runs(&self) -> Vec<(u16, u16)> {
        let mut runs: Vec<(u16, u16)> = Vec::new();
        for slot in (0..SLOTS).filter(|slot| self.has(*slot)) {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => runs.push((slot, slot)),
            }
        }
        runs
    }

    fn combine(&self, other: &SlotSet, by: impl Fn(u64, u64) -> u64) -> SlotSet {
        let mut set = self.clone();
        let words = set.0.iter_mut().zip(other.0.iter());
        words.for_each(|(one, other)| *one = by(*one, *other));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_all_slots_of_a_set_and_no_others() {
        let set = SlotSet::of(|slot| slot < 3 || slot == 63 || slot == 64 || slot == SLOTS - 1);
        assert_eq!(set.runs(), [(0, 2), (63, 64), (SLOTS - 1, SLOTS - 1)]);
        assert_eq!(SlotSet::default().runs(), []);
        assert_eq!(SlotSet::of(|_| true).runs(), [(0, SLOTS - 1)]);
    }
}

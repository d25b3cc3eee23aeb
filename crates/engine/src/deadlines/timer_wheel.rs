//! Timer wheel: how many items of a space have expired, without a look at any of them.
//!
//! A wheel counts the items that expire in each slot of a quarter of a second, up to a *horizon*
//! two to four minutes ahead; the count of a slot that has passed is added to the expired ones. A
//! deadline beyond the horizon is not in the wheel. When the horizon moves on, background
//! maintenance goes through the segments in which something expires before the new one
//! (`store/counting.rs`); each segment records which of the two horizons it has.
//!
//! Invariant: an item counts as expired if its slot has passed, is in the wheel if its slot lies
//! between now and the horizon of its segment, and is in neither otherwise. So its deadline and its
//! segment suffice to take it out again.
//!
//! Cost: a store or a removal of an item with a deadline changes one number of the wheel.
//! Why: docs/decisions/0037. Tests: tests/counting.rs, tests/model.rs.

use crate::base::clock::{Deadline, Instant};
use crate::base::serialize::serialize;

/// log2 of the milliseconds of a slot.
const SLOT_SHIFT: u32 = 8;
/// Length of a slot.
pub(crate) const SLOT_MS: u64 = 1 << SLOT_SHIFT;
/// Slots of a wheel.
const SLOTS: usize = 1024;
/// Distance of horizons in slots, so that there is time to go through all segments.
const STRIDE: u64 = SLOTS as u64 / 2;

/// Bytes of a wheel.
pub(crate) const WHEEL_BYTES: usize = SLOTS * size_of::<u32>();

/// The first slot in which an item is expired; `None` if it never expires.
#[inline]
fn slot_of(deadline: Deadline) -> Option<u64> {
    let at = deadline.instant()?;
    Some((at.0 >> SLOT_SHIFT) + u64::from(at.0 & (SLOT_MS - 1) != 0))
}

/// Which horizon a segment has: there are never more than two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// Horizons are odd and even in turn.
    is_odd: bool,
}

/// When an item ends, as the wheels count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Not before its segment's beginning: what ended earlier may be kept as that.
    pub(crate) deadline: Deadline,
    /// That of its segment.
    pub(crate) horizon: Horizon,
}

/// How far the wheels of a shard have turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WheelPosition {
    /// All slots before this one have passed.
    next: u64,
    /// The first slot behind the horizon that segments should have, and behind the one before it.
    end: u64,
    end_before: u64,
    horizon: Horizon,
}

impl WheelPosition {
    /// At the clock's beginning.
    pub(crate) const fn new() -> WheelPosition {
        WheelPosition {
            next: 0,
            end: SLOTS as u64,
            end_before: SLOTS as u64,
            horizon: Horizon { is_odd: false },
        }
    }

    /// The first slot that has not passed at `now`.
    fn next_at(now: Instant) -> u64 {
        (now.0 >> SLOT_SHIFT) + 1
    }

    /// The horizon that segments should have.
    #[inline]
    pub(crate) fn horizon(self) -> Horizon {
        self.horizon
    }

    /// The first slot behind a horizon.
    #[inline]
    fn end_of(self, horizon: Horizon) -> u64 {
        if horizon == self.horizon {
            self.end
        } else {
            self.end_before
        }
    }

    /// Whether an item due then, or sooner in the same segment, counts as expired.
    pub(crate) fn has_passed(self, due: Due) -> bool {
        let end = self.end_of(due.horizon).min(self.next);
        slot_of(due.deadline).is_some_and(|slot| slot < end)
    }

    /// The deadlines between the last horizon and the present one: after the first moment and not
    /// after the second.
    pub(crate) fn between(self) -> (Instant, Instant) {
        let last = |end: u64| Instant((end - 1) << SLOT_SHIFT);
        (last(self.end_before), last(self.end))
    }

    /// Moves the horizon to where it should be: between half of the wheel and all of it ahead.
    /// Whether it moved; all segments must have the present one.
    pub(crate) fn look_further(&mut self) -> bool {
        let end = (self.next / STRIDE + 2) * STRIDE;
        if end == self.end {
            return false;
        }
        (self.end_before, self.end) = (self.end, end);
        self.horizon.is_odd = !self.horizon.is_odd;
        true
    }
}

/// A number of items, and the sum of their slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    items: u64,
    /// Wraps around, and back when items are taken out.
    slots: u64,
}

impl Sum {
    #[inline]
    fn add(&mut self, items: u64, slot: u64) {
        self.items += items;
        self.slots = self.slots.wrapping_add(items.wrapping_mul(slot));
    }

    #[inline]
    fn take(&mut self, slot: u64) {
        debug_assert!(self.items > 0, "an item was counted before it goes");
        self.items = self.items.saturating_sub(1);
        self.slots = self.slots.wrapping_sub(slot);
    }
}

/// The deadlines of one space's items in a shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimerWheel {
    /// Whether it has no slots and never gets them, so that nothing counts as expired.
    is_plain: bool,
    /// All items with a deadline.
    timed: Sum,
    /// Of these, the expired ones.
    over: Sum,
    /// Items that end in each slot ahead.
    slots: Option<Box<[u32; SLOTS]>>,
}

serialize!(Horizon { is_odd });
serialize!(WheelPosition {
    next,
    end,
    end_before,
    horizon
});
serialize!(Sum { items, slots });
serialize!(TimerWheel {
    is_plain,
    timed,
    over,
    slots
});

/// The items of a space that have a deadline, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timed {
    /// Items that have expired and are still stored.
    pub(crate) over: u64,
    /// Items whose deadline lies in the future.
    pub(crate) ahead: u64,
    /// The sum of their remaining milliseconds, to a quarter of a second each.
    pub(crate) left_ms: u128,
}

impl TimerWheel {
    /// A wheel without items, and without slots if it is a plain one.
    pub(crate) fn new(is_plain: bool) -> TimerWheel {
        TimerWheel {
            is_plain,
            ..TimerWheel::default()
        }
    }

    /// Counts an item.
    #[inline]
    pub(crate) fn add(&mut self, due: Due, position: WheelPosition) {
        let Some(slot) = slot_of(due.deadline) else {
            return;
        };
        self.timed.add(1, slot);
        if slot < position.end_of(due.horizon) {
            self.place(slot, position);
        }
    }

    /// Takes an item out that was counted so.
    #[inline]
    pub(crate) fn take(&mut self, due: Due, position: WheelPosition) {
        let Some(slot) = slot_of(due.deadline) else {
            return;
        };
        self.timed.take(slot);
        if self.is_plain || slot >= position.end_of(due.horizon) {
            return;
        }
        if slot < position.next {
            self.over.take(slot);
        } else if let Some(counts) = &mut self.slots {
            let items = &mut counts[slot as usize % SLOTS];
            debug_assert!(*items > 0, "an item was counted before it goes");
            *items = items.saturating_sub(1);
        }
    }

    /// Takes so many expired items out. Their slots stay in both sums, of which only the difference
    /// is used.
    pub(crate) fn take_over(&mut self, items: u64) {
        debug_assert!(self.over.items >= items, "items were counted as over");
        self.timed.items = self.timed.items.saturating_sub(items);
        self.over.items = self.over.items.saturating_sub(items);
    }

    /// Counts an item in its slot if that lies between the last horizon, which its segment had, and
    /// the present one.
    pub(crate) fn come_near(&mut self, deadline: Deadline, position: WheelPosition) {
        let near = position.end_before..position.end;
        if let Some(slot) = slot_of(deadline).filter(|slot| near.contains(slot)) {
            self.place(slot, position);
        }
    }

    #[inline]
    fn place(&mut self, slot: u64, position: WheelPosition) {
        if self.is_plain {
            return;
        }
        if slot < position.next {
            self.over.add(1, slot);
        } else {
            let counts = self.slots.get_or_insert_with(|| Box::new([0; SLOTS]));
            counts[slot as usize % SLOTS] += 1;
        }
    }

    /// Counts as over what ends in the slots from one to another, that one left out.
    fn turn(&mut self, from: u64, to: u64) {
        let Some(counts) = &mut self.slots else {
            return;
        };
        for slot in from..to.min(from + SLOTS as u64) {
            let items = std::mem::take(&mut counts[slot as usize % SLOTS]);
            self.over.add(u64::from(items), slot);
        }
    }

    /// The expired items at `now`, and the remaining time of the others.
    pub(crate) fn at(&self, now: Instant, position: WheelPosition) -> Timed {
        let mut over = self.over;
        if let Some(counts) = &self.slots {
            let next = WheelPosition::next_at(now).min(position.next + SLOTS as u64);
            for slot in position.next..next {
                over.add(u64::from(counts[slot as usize % SLOTS]), slot);
            }
        }
        let ahead = self.timed.items.saturating_sub(over.items);
        let slots = self.timed.slots.wrapping_sub(over.slots);
        let ends_ms = u128::from(slots) << SLOT_SHIFT;
        Timed {
            over: over.items,
            ahead,
            left_ms: ends_ms.saturating_sub(u128::from(now.0) * u128::from(ahead)),
        }
    }
}

/// Two that count the same; empty slots equal none, and which spaces have slots depends on
/// which came first.
impl PartialEq for TimerWheel {
    fn eq(&self, other: &TimerWheel) -> bool {
        if self.is_plain || other.is_plain {
            return self.timed == other.timed;
        }
        let ahead = |one: &TimerWheel| one.timed.slots.wrapping_sub(one.over.slots);
        let items = |one: &TimerWheel| (one.timed.items, one.over.items);
        let counts = |wheel: &TimerWheel| -> [u32; SLOTS] {
            wheel.slots.as_deref().copied().unwrap_or([0; SLOTS])
        };
        items(self) == items(other) && ahead(self) == ahead(other) && counts(self) == counts(other)
    }
}

/// Turns the wheels of a shard to `now`.
pub(crate) fn turn<'a>(
    position: &mut WheelPosition,
    wheels: impl Iterator<Item = &'a mut TimerWheel>,
    now: Instant,
) {
    let from = position.next;
    position.next = WheelPosition::next_at(now).max(from);
    if position.next > from {
        wheels.for_each(|wheel| wheel.turn(from, position.next));
    }
}

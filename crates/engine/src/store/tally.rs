//! Tally: how many items each space has in a shard, how many of them have expired, and which spaces
//! are retired.
//!
//! A space that was retired, or the main space after a flush of its own, is empty at once: its
//! items count as expired, and separately, until a purge, an eviction or a lookup has removed the
//! last. Only then do their bytes count as reclaimable.
//!
//! Why: docs/decisions/0015. Tests: tests/space.rs, tests/model.rs.

use std::collections::HashMap;

use rapidhash::fast::RandomState;

use crate::base::clock::Instant;
use crate::base::serialize::serialize;
use crate::base::space::Space;
use crate::deadlines::timer_wheel::{self, Due, Timed, TimerWheel, WheelPosition};
use crate::log::segment::Flushed;

/// Spaces besides the main one whose timer wheel has slots. Further ones count expired items until
/// a lookup finds them: a wheel is allocated in addition to the cache's memory.
const WHEELS_MAX: usize = 64;

/// A map by space. The standard library's hash, which clients cannot predict, took more time than
/// the counting itself; the numbers of spaces are the caller's.
type BySpace<T> = HashMap<Space, T, RandomState>;

/// The spaces of one shard.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    position: WheelPosition,
    main: Held,
    others: BySpace<Held>,
    /// Items still to be removed of each space that is gone.
    gone: BySpace<u64>,
    /// Items that were flushed, with all others, alone, or with their space, and still have an
    /// entry.
    flushed: usize,
}

/// The stored items of a space.
#[derive(Clone, Debug, Default, PartialEq)]
struct Held {
    /// Items, expired ones included.
    items: u64,
    timer_wheel: TimerWheel,
}

/// The items of a space in a shard at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    /// Items that have not expired, to a quarter of a second.
    pub(crate) items: u64,
    pub(crate) timed: Timed,
}

serialize!(Held { items, timer_wheel });
serialize!(Tally {
    position,
    main,
    others,
    gone,
    flushed
});

impl Held {
    #[inline]
    fn add(&mut self, due: Due, position: WheelPosition) {
        self.items += 1;
        self.timer_wheel.add(due, position);
    }

    #[inline]
    fn take(&mut self, due: Due, position: WheelPosition) {
        self.items -= 1;
        self.timer_wheel.take(due, position);
    }

    fn count(&self, position: WheelPosition, now: Instant) -> Count {
        let timed = self.timer_wheel.at(now, position);
        Count {
            items: self.items.saturating_sub(timed.over),
            timed,
        }
    }
}

impl Tally {
    /// No items, at the clock's start or at the position of another tally.
    pub(crate) fn new(position: WheelPosition) -> Tally {
        Tally {
            position,
            main: Held::default(),
            others: BySpace::default(),
            gone: BySpace::default(),
            flushed: 0,
        }
    }

    /// Items that were flushed and have not left.
    #[inline]
    pub(crate) fn flushed(&self) -> usize {
        self.flushed
    }

    /// Whether an item of `space` was flushed that lies in a segment of which so much was.
    #[inline(never)]
    pub(crate) fn is_flushed(&self, flushed: Flushed, space: Space) -> bool {
        match (flushed, space) {
            (Flushed::All, _) | (Flushed::Main, Space::MAIN) => true,
            (_, Space::MAIN) => false,
            (_, space) => self.is_gone(space),
        }
    }

    /// The count of a space in this shard at `now`.
    pub(crate) fn of(&self, space: Space, now: Instant) -> Count {
        let held = if space == Space::MAIN {
            Some(&self.main)
        } else {
            self.others.get(&space)
        };
        held.map_or_else(Count::default, |held| held.count(self.position, now))
    }

    /// Items of all spaces that have expired at `now` and are not removed yet.
    pub(crate) fn over(&self, now: Instant) -> u64 {
        let others = self.others.values();
        let over = |held: &Held| held.timer_wheel.at(now, self.position).over;
        over(&self.main) + others.map(over).sum::<u64>()
    }

    /// How far the timer wheels have turned.
    #[inline]
    pub(crate) fn position(&self) -> WheelPosition {
        self.position
    }

    /// Turns the timer wheels to `now`.
    pub(crate) fn turn(&mut self, now: Instant) {
        let others = self.others.values_mut().map(|held| &mut held.timer_wheel);
        let all = std::iter::once(&mut self.main.timer_wheel).chain(others);
        timer_wheel::turn(&mut self.position, all, now);
    }

    /// Moves the horizon on if it is time; whether it moved. All segments must have the present
    /// one.
    pub(crate) fn look_further(&mut self) -> bool {
        self.position.look_further()
    }

    /// Counts the deadline of an item whose segment had the last horizon and gets the present one.
    pub(crate) fn come_near(&mut self, space: Space, due: Due) {
        let held = if space == Space::MAIN {
            Some(&mut self.main)
        } else {
            self.others.get_mut(&space)
        };
        if let Some(held) = held {
            held.timer_wheel.come_near(due.deadline, self.position);
        }
    }

    /// Whether another space than the main one has items.
    pub(crate) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// The other spaces that have items.
    pub(crate) fn others(&self) -> impl Iterator<Item = Space> + '_ {
        self.others.keys().copied()
    }

    /// Whether no space but this one, another than the main one, has items.
    pub(crate) fn has_only(&self, space: Space) -> bool {
        self.main.items == 0 && self.others.keys().all(|&other| other == space)
    }

    /// Whether items of spaces that are gone are still to be removed.
    #[inline]
    pub(crate) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Whether the space, another than the main one, is gone.
    #[inline]
    pub(crate) fn is_gone(&self, space: Space) -> bool {
        self.has_gone() && self.gone.contains_key(&space)
    }

    /// Counts an item that was stored.
    #[inline]
    pub(crate) fn add(&mut self, space: Space, due: Due) {
        if space == Space::MAIN {
            self.main.add(due, self.position);
        } else {
            self.add_other(space, due);
        }
    }

    #[inline(never)]
    fn add_other(&mut self, space: Space, due: Due) {
        if let Some(left) = self.gone.get_mut(&space) {
            *left += 1;
            return;
        }
        let is_plain = self.others.len() >= WHEELS_MAX;
        let held = self.others.entry(space).or_insert_with(|| Held {
            items: 0,
            timer_wheel: TimerWheel::new(is_plain),
        });
        held.add(due, self.position);
    }

    /// Takes an item out that was removed and was not gone with its space.
    #[inline]
    pub(crate) fn take(&mut self, space: Space, due: Due) {
        if space == Space::MAIN {
            self.main.take(due, self.position);
        } else {
            self.take_other(space, due);
        }
    }

    #[inline(never)]
    fn take_other(&mut self, space: Space, due: Due) {
        let held = self.others.get_mut(&space);
        let held = held.expect("an item's space is known");
        held.take(due, self.position);
        if held.items == 0 {
            self.others.remove(&space);
        }
    }

    /// Takes so many expired items out, the last of them at `last`; `false`, and nothing has
    /// changed, if some may be of another space than the main one or do not count as expired yet.
    pub(crate) fn take_over(&mut self, items: u64, last: Due) -> bool {
        let is_known = !self.has_others() && !self.has_gone() && self.position.has_passed(last);
        if is_known {
            self.main.items -= items;
            self.main.timer_wheel.take_over(items);
        }
        is_known
    }

    /// Counts that an item which is not gone has another deadline, where it lies.
    pub(crate) fn retime(&mut self, space: Space, before: Due, after: Due) {
        if before != after {
            // In this order, so that a space with one item stays.
            self.add(space, after);
            self.take(space, before);
        }
    }

    /// Takes an item out that was flushed, whose segment was so.
    pub(crate) fn take_flushed(&mut self, space: Space, flushed: Flushed) {
        self.flushed -= 1;
        if flushed != Flushed::All {
            self.take_gone(space);
        }
    }

    /// Takes all items of a segment out that was flushed.
    pub(crate) fn take_all_flushed(&mut self, items: usize) {
        self.flushed -= items;
    }

    /// Takes an item out that was gone with its space.
    fn take_gone(&mut self, space: Space) {
        let left = self.gone.get_mut(&space);
        let left = left.expect("an item that is gone was counted");
        *left -= 1;
        if *left == 0 {
            self.gone.remove(&space);
        }
    }

    /// Flushes all items of a space: it is gone.
    pub(crate) fn retire(&mut self, space: Space) {
        let held = if space == Space::MAIN {
            std::mem::take(&mut self.main)
        } else {
            self.others.remove(&space).unwrap_or_default()
        };
        if held.items > 0 {
            *self.gone.entry(space).or_default() += held.items;
        }
        self.flushed += held.items as usize;
    }

    /// Flushes an item alone.
    pub(crate) fn flush_one(&mut self, space: Space, due: Due) {
        self.take(space, due);
        self.flushed += 1;
    }

    /// Flushes all items of the shard: so many have an entry.
    pub(crate) fn flush_all(&mut self, items: usize) {
        *self = Tally::new(self.position);
        self.flushed = items;
    }

    /// Compares the counts with those that were found, and with `gone` items of retired spaces that
    /// were found.
    ///
    /// # Errors
    /// The first difference that was found.
    pub(crate) fn check(&self, found: &Tally, gone: u64) -> Result<(), String> {
        let known_gone: u64 = self.gone.values().sum();
        if known_gone != gone {
            return Err(format!(
                "{known_gone} items of spaces that are gone, {gone} found"
            ));
        }
        if (&self.main, &self.others) != (&found.main, &found.others) {
            return Err(format!("spaces: {self:?} accounted, {found:?} found"));
        }
        Ok(())
    }
}

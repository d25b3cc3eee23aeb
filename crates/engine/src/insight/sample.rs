//! Sampling: which requests the insights look at, and how they get from a shard to the simulation.
//!
//! A key belongs to the sample if its [`part`] lies below a threshold, so all requests for one key
//! are seen or none. A shard notes its sampled requests in a small buffer under its own lock; the
//! insights take them from there in batches. When the buffer is full, because other threads hold
//! the insights all the time, requests are dropped and counted: no thread ever waits.
//!
//! Why: docs/decisions/0011. Tests: at the end of this file.

use crate::base::clock::{Deadline, Instant};
use crate::base::serialize::{Deserializer, Serialize, Serializer};

/// Events a shard's buffer holds, and how many are worth taking away.
const EVENTS_MAX: usize = 64;
const EVENTS_WORTH_TAKING: usize = 16;
/// log2 of the milliseconds in the insights' unit of time.
const UNIT_SHIFT: u32 = 5;

/// The position of a key in the sample order, from 0 to 2^32: independent of the hash bits that
/// pick the shard, the index bucket, the tag and the ghost.
#[inline]
pub(crate) fn part(hash: u64) -> u32 {
    (hash.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as u32
}

/// A moment or a span in the insights' coarse time, which reaches four years in 32 bits; `NEVER`
/// has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Coarse(pub(crate) u32);

impl Serialize for Coarse {
    fn serialize(&self, out: &mut Serializer) {
        self.0.serialize(out);
    }

    fn deserialize(from: &mut Deserializer<'_>) -> Option<Coarse> {
        u32::deserialize(from).map(Coarse)
    }
}

impl Coarse {
    pub(crate) const NEVER: Coarse = Coarse(u32::MAX);

    /// At least so many milliseconds.
    pub(crate) const fn span_ms(ms: u32) -> Coarse {
        Coarse(ms.div_ceil(1 << UNIT_SHIFT))
    }

    /// The milliseconds of a span.
    pub(crate) fn ms(self) -> u64 {
        u64::from(self.0) << UNIT_SHIFT
    }

    /// The unit in which a moment lies.
    #[inline]
    pub(crate) fn moment(now: Instant) -> Coarse {
        let units = u32::try_from(now.0 >> UNIT_SHIFT).unwrap_or(u32::MAX);
        Coarse(units.min(u32::MAX - 1))
    }

    /// The unit in which a deadline lies: from its beginning on, the item is gone.
    #[inline]
    pub(crate) fn deadline(deadline: Deadline) -> Coarse {
        deadline.instant().map_or(Coarse::NEVER, Coarse::moment)
    }

    /// The deadline this span from `now`.
    pub(crate) fn from(self, now: Coarse) -> Coarse {
        if self == Coarse::NEVER {
            return self;
        }
        Coarse(now.0.saturating_add(self.0).min(u32::MAX - 1))
    }

    /// The span from `now` to this deadline.
    pub(crate) fn since(self, now: Coarse) -> Coarse {
        if self == Coarse::NEVER {
            return self;
        }
        Coarse(self.0.saturating_sub(now.0))
    }
}

/// How a request used a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read it.
    Hit,
    /// Asked for it in vain.
    Miss,
    /// Stored it.
    Set,
    /// Gave it another deadline, if it was there.
    Touch,
    /// Deleted it, if it was there.
    Delete,
}

/// A sampled request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) hash: u64,
    pub(crate) action: Action,
    /// Bytes of the item in the log; zero without an item.
    pub(crate) bytes: u32,
    /// The item's deadline after the request.
    pub(crate) deadline: Coarse,
    pub(crate) now: Coarse,
}

/// One shard's sampled requests that wait to be looked at.
#[derive(Debug)]
pub(crate) struct Sampler {
    events: Vec<Event>,
    pub(crate) dropped: u64,
}

impl Sampler {
    pub(crate) fn new() -> Sampler {
        Sampler {
            events: Vec::with_capacity(EVENTS_MAX),
            dropped: 0,
        }
    }

    /// Records a sampled request, or drops it if the buffer is full. Of several writes of one key
    /// in a row the last one is noted.
    pub(crate) fn note(&mut self, event: Event) {
        let last = self.events.last_mut();
        let is_write = |one: &Event| matches!(one.action, Action::Set);
        let same = last.filter(|last| last.hash == event.hash && is_write(last));
        if let Some(last) = same.filter(|_| is_write(&event)) {
            *last = event;
        } else if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        } else {
            self.dropped += 1;
        }
    }

    /// Whether enough has gathered to be taken away.
    #[inline]
    pub(crate) fn is_worth_taking(&self) -> bool {
        self.events.len() >= EVENTS_WORTH_TAKING
    }

    /// Moves all events to `into`, which is empty, and takes its room instead.
    pub(crate) fn take(&mut self, into: &mut Vec<Event>) {
        into.clear();
        into.reserve(EVENTS_MAX);
        std::mem::swap(&mut self.events, into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(hash: u64) -> Event {
        Event {
            hash,
            action: Action::Miss,
            bytes: 0,
            deadline: Coarse::NEVER,
            now: Coarse(0),
        }
    }

    #[test]
    fn a_full_buffer_drops_and_counts() {
        let mut sampler = Sampler::new();
        (0..EVENTS_MAX as u64 + 5).for_each(|hash| sampler.note(event(hash)));
        assert_eq!(sampler.dropped, 5);
        let mut taken = Vec::new();
        sampler.take(&mut taken);
        assert_eq!(taken.len(), EVENTS_MAX);
        sampler.note(event(1));
        assert_eq!((sampler.dropped, sampler.is_worth_taking()), (5, false));
    }

    #[test]
    fn of_writes_of_one_key_in_a_row_the_last_one_is_kept() {
        let mut sampler = Sampler::new();
        let write = |hash, bytes| Event {
            action: Action::Set,
            bytes,
            ..event(hash)
        };
        for noted in [
            write(1, 10),
            write(1, 20),
            event(1),
            write(1, 30),
            write(2, 40),
        ] {
            sampler.note(noted);
        }
        let mut taken = Vec::new();
        sampler.take(&mut taken);
        let bytes: Vec<u32> = taken.iter().map(|event| event.bytes).collect();
        assert_eq!(bytes, [20, 0, 30, 40]);
    }

    #[test]
    fn the_sample_does_not_hang_on_the_bits_that_others_use() {
        let mut of_shard = [0_u32; 8];
        let mut of_bucket = [0_u32; 8];
        for number in 1..80_000_u64 {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ number;
            let hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let hash = hash ^ hash >> 31;
            if part(hash) < u32::MAX / 8 {
                of_shard[(hash >> 61) as usize] += 1;
                of_bucket[(hash & 7) as usize] += 1;
            }
        }
        for count in of_shard.into_iter().chain(of_bucket) {
            assert!(count.abs_diff(1_250) < 150, "{of_shard:?} {of_bucket:?}");
        }
    }

    #[test]
    fn coarse_deadlines_never_come_late() {
        assert_eq!(Coarse::moment(Instant(63)), Coarse(1));
        assert_eq!(Coarse::deadline(Deadline::at(Instant(63))), Coarse(1));
        assert_eq!(Coarse::deadline(Deadline::at(Instant(64))), Coarse(2));
        assert_eq!(Coarse::deadline(Deadline::NEVER), Coarse::NEVER);
        assert_ne!(Coarse::deadline(Deadline::FARTHEST), Coarse::NEVER);
        assert_eq!(Coarse(9).since(Coarse(5)).from(Coarse(7)), Coarse(11));
        assert_eq!(Coarse::NEVER.since(Coarse(5)), Coarse::NEVER);
    }
}

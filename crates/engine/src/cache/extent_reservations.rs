//! Extent reservations: memory for a value that is computed from the old one, before it is
//! computed.
//!
//! Its length is not known before it is computed, and computing and storing it is one step. So
//! [`Cache::update_without_eviction`] stores what finds free space, and otherwise returns the
//! length of the value. The caller then reserves an extent of that length in steps
//! ([`Cache::reserve_extent`]) and repeats the update with it; the excess is released.
//!
//! Invariant: an [`ExtentReservation`] ends with a whole extent without an item. When it is
//! dropped, all of it is released.
//!
//! Why: docs/decisions/0059. Tests: tests/extent_reservations.rs.

use std::cell::Cell;

use super::Cache;
use super::reservation::{DraftPart, Reservation};
use crate::base::error::Error;
use crate::interface::options::{Change, End, SetOptions};
use crate::interface::outcome::{Item, Stored};
use crate::key::Key;
use crate::memory::arena::Pin;

/// Additional space, as a part of the requested space: other clients may make the value longer
/// meanwhile.
const SPARE_SHARE: usize = 64;

/// An extent that is reserved, or being reserved, for the next value of a key.
///
/// It is no [`Draft`](crate::Draft), because a draft belongs to one value of known length.
#[derive(Debug)]
pub struct ExtentReservation {
    value_bytes: usize,
    reservation: Reservation,
    /// The extent, once it is whole.
    extent: Option<Pin>,
    /// Its part of the memory of all drafts.
    _part: DraftPart,
}

impl ExtentReservation {
    /// Whether all the memory is reserved.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.extent.is_some()
    }

    /// Takes the next step towards its memory, if some is missing.
    ///
    /// # Errors
    /// As [`Cache::try_reserve`]; then no more can be had.
    pub fn extend(&mut self, cache: &Cache) -> Result<(), Error> {
        if self.extent.is_none() {
            self.extent = cache.enlarge(&mut self.reservation, cache.now())?;
        }
        Ok(())
    }

    /// Bytes of the value that the memory is, or will be, enough for.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The segment of the whole extent, if it is in this shard.
    fn extent_in(&self, number: usize) -> Option<u32> {
        let extent = self.extent.as_ref();
        let extent = extent.filter(|_| self.reservation.number() == number);
        extent.map(Pin::segment)
    }
}

impl Cache {
    /// Begins to reserve an extent for a value of `key` of about `value_bytes`, as
    /// [`Cache::try_reserve`] does.
    ///
    /// # Errors
    /// As [`Cache::try_reserve`].
    pub fn reserve_extent(
        &self,
        key: Key<'_>,
        value_bytes: usize,
    ) -> Result<ExtentReservation, Error> {
        let most = self.shards.memory().value_bytes_max();
        let bytes = (value_bytes + value_bytes / SPARE_SHARE).min(most);
        let part = self.drafts.take(bytes).ok_or(Error::Busy)?;
        let mut reservation = ExtentReservation {
            value_bytes: bytes,
            reservation: self.reservation(key, bytes, true)?,
            extent: None,
            _part: part,
        };
        reservation.extend(self)?;
        Ok(reservation)
    }

    /// As [`Cache::update`], but nothing is evicted for a long value for which no space is free.
    ///
    /// # Errors
    /// [`Error::NoRoomYet`] for such a value if `reservation` has not enough either: nothing has
    /// changed then. Else as [`Cache::update`].
    pub fn update_without_eviction<R>(
        &self,
        key: Key<'_>,
        scratch: &mut Vec<u8>,
        reservation: Option<ExtentReservation>,
        mut decide: impl FnMut(Option<Item<'_>>, &mut Vec<u8>) -> (R, Change),
    ) -> Result<R, Error> {
        let limits = self.shards.memory().update_limits();
        let value_bytes = Cell::new(0);
        let number = self.shards.number_of(key);
        let own = reservation.as_ref();
        let mut extent = own.and_then(|reservation| reservation.extent_in(number));
        self.write_with_room(
            key,
            || value_bytes.get(),
            |shard, now| {
                shard.reclaimer.wait_for_room(extent.take());
                let result = shard.update(key, scratch, &limits, &value_bytes, &mut decide, now);
                shard.reclaimer.end_waiting();
                result
            },
        )
    }

    /// As [`Cache::extend`], but nothing is evicted for a long value for which no space is free.
    ///
    /// # Errors
    /// As [`Cache::update_without_eviction`].
    pub fn extend_without_eviction(
        &self,
        key: Key<'_>,
        (end, bytes): (End, &[u8]),
        options: &SetOptions,
        reservation: Option<ExtentReservation>,
    ) -> Result<Stored, Error> {
        let max = self
            .shards
            .memory()
            .value_bytes_max()
            .min(options.value_bytes_max);
        let number = self.shards.number_of(key);
        let own = reservation.as_ref();
        let extent = own.and_then(|reservation| reservation.extent_in(number));
        self.shards.write(key, |shard, now| {
            shard.reclaimer.wait_for_room(extent);
            let result = shard.extend(key, end, bytes, options, max, now);
            shard.reclaimer.end_waiting();
            result
        })
    }
}

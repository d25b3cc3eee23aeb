//! Provisions: room for a value that is made of the old one, made before the value is.
//!
//! How long such a value is, nobody knows before it is made, and to make it and to store it is one
//! step. So [`Cache::update_ahead`] stores what finds room without anything leaving, and tells how
//! long what does not was. Who asked makes room for so much, in steps ([`Cache::provide`]), and
//! asks again with what it was given; what of that is too much goes back.
//!
//! A provision is a reservation whose extent is whole and has no item. Dropped, it goes back so.
//!
//! Why: docs/decisions/0059. Tests: tests/provision.rs.

use std::cell::Cell;

use super::Cache;
use super::drafts::Reservation;
use crate::error::Error;
use crate::key::Key;
use crate::options::{Change, End, SetOptions};
use crate::outcome::{Item, Stored};

/// Room that is made beside what is asked for, as a part of it: others may make the value longer
/// meanwhile.
const SPARE_SHARE: usize = 64;

/// Room that is made, or being made, for the next value of a key.
#[derive(Debug)]
pub struct Provision {
    reservation: Reservation,
    is_whole: bool,
}

impl Provision {
    /// Whether all the room is there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Bytes of the value that there is, or will be, room for.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.reservation.value_bytes()
    }

    /// The segment of the whole extent, if it is in this shard.
    fn extent_in(&self, number: usize) -> Option<u32> {
        let extent = self.reservation.extent_in(number);
        extent.filter(|_| self.is_whole)
    }
}

impl Cache {
    /// Begins to make room for a value of `key` of about `value_bytes`, as [`Cache::try_reserve`]
    /// does.
    ///
    /// # Errors
    /// As [`Cache::try_reserve`].
    pub fn provide(&self, key: Key<'_>, value_bytes: usize) -> Result<Provision, Error> {
        let most = self.value_bytes_max();
        let bytes = (value_bytes + value_bytes / SPARE_SHARE).min(most);
        let mut provision = Provision {
            reservation: self.reservation(key, bytes, true)?,
            is_whole: false,
        };
        self.provide_more(&mut provision)?;
        Ok(provision)
    }

    /// Takes the next step, if the room is not whole.
    ///
    /// # Errors
    /// As [`Cache::try_reserve`]; then no more can be had.
    pub fn provide_more(&self, provision: &mut Provision) -> Result<(), Error> {
        if !provision.is_whole
            && let Some(extent) = self.enlarge(&mut provision.reservation, self.now())?
        {
            provision.reservation.keep_whole(extent);
            provision.is_whole = true;
        }
        Ok(())
    }

    /// As [`Cache::update`], but nothing leaves for a long value that finds no room.
    ///
    /// # Errors
    /// [`Error::NoRoomYet`] for such a value if `provision` has not enough either: nothing has
    /// changed then. Else as [`Cache::update`].
    pub fn update_ahead<R>(
        &self,
        key: Key<'_>,
        scratch: &mut Vec<u8>,
        provision: Option<Provision>,
        mut decide: impl FnMut(Option<Item<'_>>, &mut Vec<u8>) -> (R, Change),
    ) -> Result<R, Error> {
        let limits = self.update_limits();
        let value_bytes = Cell::new(0);
        let number = self.number_of(key);
        let own = provision.as_ref();
        let mut extent = own.and_then(|provision| provision.extent_in(number));
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

    /// As [`Cache::extend`], but nothing leaves for a long value that finds no room.
    ///
    /// # Errors
    /// As [`Cache::update_ahead`].
    pub fn extend_ahead(
        &self,
        key: Key<'_>,
        (end, bytes): (End, &[u8]),
        options: &SetOptions,
        provision: Option<Provision>,
    ) -> Result<Stored, Error> {
        let max = self.value_bytes_max().min(options.value_bytes_max);
        let number = self.number_of(key);
        let own = provision.as_ref();
        let extent = own.and_then(|provision| provision.extent_in(number));
        self.write(key, |shard, now| {
            shard.reclaimer.wait_for_room(extent);
            let result = shard.extend(key, end, bytes, options, max, now);
            shard.reclaimer.end_waiting();
            result
        })
    }
}

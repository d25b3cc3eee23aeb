//! Preparation of stores: memory for a long value is made before the command stores it.
//!
//! A command that is a part of a larger one, or has changed something already, stores at once.
//!
//! Why: docs/decisions/0059. Tests: server/tests/room_ahead.rs.

use std::cell::Cell;

use cellar_engine::{Change, Error, Handle, Item, Key, SetOptions, Stored, When};

use crate::resp::call::Call;
use crate::resp::failure::Failure;
use crate::resp::session::preparation::{AHEAD_BYTES_MIN, LongValue, PIECE_BYTES, ValueOrigin};

/// Bytes that a loop keeps for the next command that changes a value.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// Where a command makes a new value.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Call<'_> {
    /// Passes the item of `key` to `decide` and applies its decision; see
    /// [`Cache::update`](cellar_engine::Cache::update).
    ///
    /// # Errors
    /// The cache's; [`Error::NoRoomYet`] if the command has to run again.
    pub(in crate::resp) fn change<R>(
        &self,
        key: Key<'_>,
        mut decide: impl FnMut(Option<Item<'_>>, &mut Vec<u8>) -> (R, Change),
    ) -> Result<R, Error> {
        let mut scratch = SCRATCH.take();
        let changed = self.change_with(key, &mut scratch, &mut decide);
        if scratch.capacity() <= SCRATCH_BYTES_MAX {
            SCRATCH.set(scratch);
        }
        changed
    }

    fn change_with<R>(
        &self,
        key: Key<'_>,
        scratch: &mut Vec<u8>,
        mut decide: impl FnMut(Option<Item<'_>>, &mut Vec<u8>) -> (R, Change),
    ) -> Result<R, Error> {
        let (cache, preparation) = (self.cache(), &self.session.preparation);
        if self.session.may_ask_ahead() || preparation.is_again() {
            let reservation = preparation.take_room(key);
            match cache.update_without_eviction(key, scratch, reservation, &mut decide) {
                Err(Error::NoRoomYet { bytes })
                    if !(self.session.may_ask_ahead()
                        && preparation.ask_room(key, bytes, cache)) => {}
                changed => return changed,
            }
        }
        cache.update(key, scratch, decide)
    }

    /// Stores an argument if the condition in `options` holds.
    ///
    /// # Errors
    /// The cache's; [`Failure::NoRoomYet`] if the command has to run again.
    pub(in crate::resp) fn set(
        &self,
        key: Key<'_>,
        value: &[u8],
        options: &SetOptions,
    ) -> Result<Stored, Failure> {
        if value.len() < AHEAD_BYTES_MIN {
            return Ok(self.cache().set(key, value, options)?);
        }
        let place = self.place_of(value);
        self.set_long(key, value, ValueOrigin::Argument(place), options)
    }

    /// Stores a value that is another key's.
    ///
    /// # Errors
    /// As [`Call::set`].
    pub(in crate::resp) fn set_pinned(
        &self,
        key: Key<'_>,
        value: Handle,
        options: &SetOptions,
    ) -> Result<Stored, Failure> {
        if value.len() < AHEAD_BYTES_MIN {
            return Ok(self.cache().set(key, &value, options)?);
        }
        self.set_long(key, &[], ValueOrigin::Pinned(value), options)
    }

    fn set_long(
        &self,
        key: Key<'_>,
        value: &[u8],
        origin: ValueOrigin,
        options: &SetOptions,
    ) -> Result<Stored, Failure> {
        let (cache, preparation) = (self.cache(), &self.session.preparation);
        let is_there = || cache.facts(key, |_| ()).is_some();
        match options.when {
            // A value that is not stored is not copied either.
            When::Absent if is_there() => return Ok(Stored::NotStored),
            When::Present if !is_there() => return Ok(Stored::NotStored),
            _ => {}
        }
        if let Some(draft) = preparation.take_value(key, &origin) {
            return Ok(cache.commit(draft, options)?);
        }
        let value = match &origin {
            ValueOrigin::Argument(_) => value,
            ValueOrigin::Pinned(value) => &value[..],
        };
        let bytes = value.len();
        if self.session.may_ask_ahead() && bytes <= cache.value_bytes_max() {
            preparation.ask_values([LongValue::of(key, bytes, origin)], None);
            return Err(Failure::NoRoomYet);
        }
        Ok(cache.set(key, value, options)?)
    }

    /// Copies the long ones of several values to their final memory, and reclaims memory for the
    /// others, before the first of them is stored.
    ///
    /// # Errors
    /// [`Failure::NoRoomYet`] if the command has to run again.
    pub(in crate::resp) fn foresee(&self, pairs: &[(Key<'_>, &[u8])]) -> Result<(), Failure> {
        let preparation = &self.session.preparation;
        let bytes: usize = pairs.iter().map(|(_, value)| value.len()).sum();
        if bytes >= AHEAD_BYTES_MIN && !preparation.is_again() && self.session.may_ask_ahead() {
            let is_long = |value: &[u8]| value.len() >= AHEAD_BYTES_MIN;
            let long = pairs.iter().filter(|(_, value)| is_long(value));
            let long = long.map(|&(key, value)| {
                LongValue::of(
                    key,
                    value.len(),
                    ValueOrigin::Argument(self.place_of(value)),
                )
            });
            let short = pairs.iter().filter(|(_, value)| !is_long(value));
            let plan = self
                .cache()
                .plan_reclaim(short.map(|(key, value)| (*key, value.len())));
            preparation.ask_values(long, Some(plan));
            return Err(Failure::NoRoomYet);
        }
        preparation.note_begun();
        Ok(())
    }

    /// An owned copy of an argument.
    ///
    /// # Errors
    /// [`Failure::NoRoomYet`] if the command has to run again.
    pub(in crate::resp) fn copy_of(&self, place: usize) -> Result<Vec<u8>, Failure> {
        let preparation = &self.session.preparation;
        if let Some(copy) = preparation.take_arguments() {
            return Ok(copy.into_bytes());
        }
        if self.args[place].len() >= PIECE_BYTES && self.session.may_ask_ahead() {
            preparation.ask_arguments(place..place + 1);
            return Err(Failure::NoRoomYet);
        }
        Ok(self.args[place].to_vec())
    }

    /// Which argument a value is.
    fn place_of(&self, value: &[u8]) -> usize {
        let is_it = |arg: &&[u8]| std::ptr::eq(*arg, value);
        let place = self.args.iter().position(is_it);
        place.expect("a value that is stored is one of the arguments")
    }
}

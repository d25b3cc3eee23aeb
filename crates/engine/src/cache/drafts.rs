//! Drafts: space for values that arrive in pieces or are made in place, reserved in steps for a
//! long one.
//!
//! [`Cache::reserve`] takes the first step, [`Cache::go_on`] the next ones; between two of them no
//! lock is held, and other threads store, read and evict. A reservation owns bytes pledged from the
//! budget, and the part of an extent that has memory. When it is dropped, the pledge is released at
//! once, and the extent like one whose last reader has finished.
//!
//! Why: docs/decisions/0009 and 0053. Tests: tests/room.rs, tests/handles.rs.

use super::Cache;
use crate::arena::{Draft, DraftPart, Pin};
use crate::clock::Instant;
use crate::config::Config;
use crate::error::Error;
use crate::evict::Newest;
use crate::evict::room::{Reclaimed, STEP_BYTES};
use crate::item::HEADER_BYTES_MAX;
use crate::key::Key;
use crate::log::{PIECE_BYTES, extent_bytes, is_better_off_alone};
use crate::memory::Pledge;
use crate::options::SetOptions;
use crate::outcome::Stored;
use crate::shard::Shard;
use crate::space::Space;

/// Most walks over all memory for one value: twice as many as it takes until the most used items
/// may be evicted.
const WALKS_MAX: usize = 8;
/// A shard releases memory for another shard's value down to this part of its share, or below if no
/// other shard has anything to release.
const FLOOR_SHARE: usize = 2;
/// Segments whose live items may be copied for a value in a no-eviction partition.
const KEPT_COPIES: usize = 2;

/// The result of one step of a reservation.
#[derive(Debug)]
pub enum Reserved {
    /// The space is reserved.
    Draft(Draft),
    /// More steps are needed.
    More(Reservation),
}

/// Space for a long value, as far as it is reserved; see [`Cache::reserve`].
pub struct Reservation {
    key: Box<[u8]>,
    space: Space,
    value_bytes: usize,
    /// Bytes of header, key and value, and of the whole extent.
    item_bytes: usize,
    extent_bytes: usize,
    /// The key's shard.
    number: usize,
    part: DraftPart,
    pledge: Pledge,
    extent: Option<Pin>,
    /// Bytes of the extent that have memory.
    grown: usize,
    /// Bytes that may still be copied, and walked over.
    copy_bytes: usize,
    walk_bytes: usize,
    donors: Donors,
    /// Whether the caller can do without the space, so that a failure is not counted as a refusal.
    is_trial: bool,
}

/// Which shards give memory up for a value.
#[derive(Debug)]
struct Donors {
    /// Whether the oldest items of all shards are evicted first, because a value this large
    /// displaces items of all shards.
    is_shared: bool,
    /// How often another shard was asked.
    turn: usize,
    /// How many in a row had nothing to give.
    idle: usize,
    /// Whether all shards were asked in vain, so that now any item may be evicted.
    is_pressing: bool,
    /// Whether no segment without a live item was left when all were looked at.
    is_without_dead: bool,
}

impl Reservation {
    /// Length of the value.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Keeps an extent that is whole.
    pub(super) fn keep_whole(&mut self, extent: Pin) {
        self.extent = Some(extent);
    }

    /// The segment of its extent, if it is in this shard.
    pub(super) fn extent_in(&self, number: usize) -> Option<u32> {
        let extent = self.extent.as_ref().filter(|_| self.number == number);
        extent.map(Pin::segment)
    }

    /// Records the bytes that one call has reclaimed for it; returns how many.
    ///
    /// # Errors
    /// [`Error::Busy`] if too much was walked over for it.
    fn note_reclaimed(&mut self, reclaimed: Reclaimed) -> Result<usize, Error> {
        let walk_left = self.walk_bytes.checked_sub(reclaimed.walked_bytes);
        self.walk_bytes = walk_left.ok_or(Error::Busy)?;
        self.donors.idle = 0;
        Ok(reclaimed.bytes)
    }

    fn piece_bytes(&self) -> usize {
        PIECE_BYTES.min(self.extent_bytes - self.grown)
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation")
            .field("value_bytes", &self.value_bytes)
            .field("grown", &self.grown)
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// Memory inside the cache for a value of `value_bytes` that is still being received, so that
    /// large values need no other buffer. Takes all the steps of [`Cache::reserve`] at once.
    ///
    /// # Errors
    /// As [`Cache::reserve`].
    pub fn draft(&self, key: Key<'_>, value_bytes: usize) -> Result<Draft, Error> {
        let mut reserved = self.reserve(key, value_bytes)?;
        loop {
            match reserved {
                Reserved::Draft(draft) => return Ok(draft),
                Reserved::More(reservation) => reserved = self.go_on(reservation)?,
            }
        }
    }

    /// Begins to reclaim space for a value of `value_bytes` that is still being received: for about
    /// a millisecond, or all of it for a short value.
    ///
    /// # Errors
    /// As [`Cache::set`]; [`Error::Busy`] also if this draft and others would hold more than half
    /// of the memory, [`Error::Full`] at once if the value's space never has so much.
    pub fn reserve(&self, key: Key<'_>, value_bytes: usize) -> Result<Reserved, Error> {
        self.begin(key, value_bytes, false)
    }

    /// As [`Cache::reserve`] for a caller that can do without: a failure is not counted as a
    /// refusal.
    ///
    /// # Errors
    /// As [`Cache::reserve`].
    pub fn try_reserve(&self, key: Key<'_>, value_bytes: usize) -> Result<Reserved, Error> {
        self.begin(key, value_bytes, true)
    }

    fn begin(&self, key: Key<'_>, value_bytes: usize, is_trial: bool) -> Result<Reserved, Error> {
        self.shards
            .memory()
            .check_value(value_bytes, Config::VALUE_BYTES_LIMIT)?;
        let segment_bytes = 1 << self.shards.cell(key).arena.segment_shift();
        let item_bytes = HEADER_BYTES_MAX + key.bytes().len() + value_bytes;
        if is_better_off_alone(item_bytes, segment_bytes) {
            return self.go_on(self.reservation(key, value_bytes, is_trial)?);
        }
        let part = self.drafts.take(value_bytes).ok_or(Error::Busy)?;
        let mut draft = self.write_with_room(
            key,
            || value_bytes,
            |shard, now| shard.draft(key, value_bytes, now),
        )?;
        draft.part = Some(part);
        Ok(Reserved::Draft(draft))
    }

    /// A reservation of an extent, of which nothing is made yet.
    pub(super) fn reservation(
        &self,
        key: Key<'_>,
        value_bytes: usize,
        is_trial: bool,
    ) -> Result<Reservation, Error> {
        let part = self.drafts.take(value_bytes).ok_or(Error::Busy)?;
        let number = self.shards.number_of(key);
        let cell = &self.shards[number];
        let segment_bytes = 1 << cell.arena.segment_shift();
        let item_bytes = HEADER_BYTES_MAX + key.bytes().len() + value_bytes;
        let extent_bytes = extent_bytes(item_bytes, segment_bytes);
        let kept = number.checked_sub(self.shards.sharing());
        let mut shard = cell.lock_beside_claims();
        if kept.is_some() && !shard.store.log().may_ever_take(extent_bytes) {
            return Err(refusal(&mut shard, is_trial));
        }
        let is_shared = kept.is_none() && !shard.store.log().counts(extent_bytes);
        drop(shard);
        let budget = {
            let memory = self.shards.memory();
            kept.map_or(memory.budget(), |kept| &memory.partitions()[kept].budget)
        };
        Ok(Reservation {
            key: key.bytes().into(),
            space: key.space(),
            value_bytes,
            item_bytes,
            extent_bytes,
            number,
            part,
            pledge: Pledge::of(budget),
            extent: None,
            grown: 0,
            copy_bytes: kept.map_or(extent_bytes, |_| KEPT_COPIES * segment_bytes),
            walk_bytes: WALKS_MAX * self.shards.config().memory_bytes,
            donors: Donors {
                is_shared,
                turn: 0,
                idle: 0,
                is_pressing: false,
                is_without_dead: false,
            },
            is_trial,
        })
    }

    /// Takes the next step of a reservation.
    ///
    /// # Errors
    /// As [`Cache::reserve`]; then everything that it had reserved is released.
    pub fn go_on(&self, mut reservation: Reservation) -> Result<Reserved, Error> {
        let now = self.shards.now();
        match self.enlarge(&mut reservation, now)? {
            Some(extent) => self.finish(reservation, &extent, now).map(Reserved::Draft),
            None => Ok(Reserved::More(reservation)),
        }
    }

    /// Takes the next step of a reservation; its extent once that is whole.
    pub(super) fn enlarge(
        &self,
        reservation: &mut Reservation,
        now: Instant,
    ) -> Result<Option<Pin>, Error> {
        let Some(extent) = self.extent_of(reservation, now)? else {
            return Ok(None);
        };
        let piece = reservation.piece_bytes();
        if piece > 0 && self.pledge_bytes(reservation, piece, now)? {
            let cell = &self.shards[reservation.number];
            let mut shard = cell.lock_beside_claims();
            let pledge = &mut reservation.pledge;
            let at = shard.store.grow_extent(&extent, piece, pledge);
            drop(shard);
            // Only this reservation uses these bytes, so the lock is not needed.
            if !cell.arena.region().populate(at, piece) {
                return Err(self.busy(piece));
            }
            reservation.grown += piece;
        }
        if reservation.grown < reservation.extent_bytes {
            reservation.extent = Some(extent);
            return Ok(None);
        }
        Ok(Some(extent))
    }

    /// The extent of a reservation; none if there is no place for it yet.
    fn extent_of(&self, reservation: &mut Reservation, now: Instant) -> Result<Option<Pin>, Error> {
        if let Some(extent) = reservation.extent.take() {
            return Ok(Some(extent));
        }
        let mut shard = self.shards[reservation.number].lock_beside_claims();
        let extent = shard.store.begin_extent(reservation.item_bytes);
        drop(shard);
        let Some((extent, grown)) = extent else {
            self.reclaim(reservation, STEP_BYTES, now)?;
            return Ok(None);
        };
        reservation.grown = grown;
        Ok(Some(extent))
    }

    /// Sees to it that `bytes` are pledged to a reservation; whether they are.
    fn pledge_bytes(
        &self,
        reservation: &mut Reservation,
        bytes: usize,
        now: Instant,
    ) -> Result<bool, Error> {
        for is_won in [false, true] {
            let missing = bytes.saturating_sub(reservation.pledge.bytes());
            if missing == 0 || self.pledge(reservation, missing) {
                return Ok(true);
            }
            if !is_won {
                let reclaimed = self.reclaim(reservation, missing, now)?;
                // Taken at once, before others can.
                let _ = reclaimed > 0 && reservation.pledge.take(reclaimed.min(missing));
            }
        }
        Ok(false)
    }

    /// Pledges bytes of the remaining budget, if the key's shard may have them.
    fn pledge(&self, reservation: &mut Reservation, bytes: usize) -> bool {
        let mut shard = self.shards[reservation.number].lock_beside_claims();
        let gathered = reservation.grown + reservation.pledge.bytes();
        // In a no-eviction partition, a value for which there is not enough takes nothing from
        // others. It has gathered more than it needs while no addresses are free for its extent.
        let missing = reservation.extent_bytes.saturating_sub(gathered);
        let is_enough = shard.store.log().may_take(missing);
        is_enough && shard.store.pledge(bytes, &mut reservation.pledge)
    }

    /// Makes some shard release about so many bytes; returns how many it was.
    ///
    /// # Errors
    /// If none has anything to release.
    fn reclaim(
        &self,
        reservation: &mut Reservation,
        bytes: usize,
        now: Instant,
    ) -> Result<usize, Error> {
        let dead_bytes = self.reclaim_dead(reservation, bytes, now);
        if dead_bytes > 0 {
            return Ok(dead_bytes);
        }
        if reservation.donors.is_shared {
            let reclaimed = self.reclaim_oldest(reservation, bytes, now);
            if reclaimed.is_any {
                return reservation.note_reclaimed(reclaimed);
            }
        }
        let (number, is_own) = self.donor(reservation);
        let donors = &mut reservation.donors;
        let mut shard = self.shards[number].lock_beside_claims();
        shard.begin(now);
        if donors.is_pressing {
            shard.set_newest(Newest::MayLeave);
        }
        let floor = shard.store.log().share_bytes() / FLOOR_SHARE;
        if is_own || donors.is_pressing || shard.store.log().resident_bytes() > floor {
            let reclaimed = shard.reclaim_some(bytes, &mut reservation.copy_bytes, now);
            shard.set_newest(Newest::Stays);
            if reclaimed.is_any {
                return reservation.note_reclaimed(reclaimed);
            }
        }
        drop(shard);
        donors.idle += 1;
        let all = if is_own && number >= self.shards.sharing() {
            1
        } else {
            self.shards.sharing()
        };
        if donors.idle >= all {
            donors.idle = 0;
            if std::mem::replace(&mut donors.is_pressing, true) {
                self.take_last(reservation, bytes)?;
            }
        }
        Ok(0)
    }

    /// Reclaims about `bytes` of memory without live items, in any shard; returns how many bytes it
    /// was. A long value takes such memory before it evicts a live item.
    ///
    /// Cost: once for each value all segments are looked at; one call empties those of one shard.
    fn reclaim_dead(&self, reservation: &mut Reservation, bytes: usize, now: Instant) -> usize {
        let (own, sharing) = (reservation.number, self.shards.sharing());
        let others = (own < sharing).then(|| (0..sharing).filter(move |&other| other != own));
        let mut reclaimed = 0;
        for number in std::iter::once(own).chain(others.into_iter().flatten()) {
            let mut shard = self.shards[number].lock_beside_claims();
            while reclaimed < bytes {
                match shard.store.release_piece() {
                    0 => break,
                    piece_bytes => reclaimed += piece_bytes,
                }
            }
            if reclaimed == 0 && !reservation.donors.is_without_dead {
                shard.begin(now);
                reclaimed = shard.reclaim_dead(bytes, now);
            }
            if reclaimed >= bytes {
                break;
            }
        }
        reservation.donors.is_without_dead |= reclaimed == 0;
        reclaimed
    }

    /// The shard that gives something up next, and whether it is the key's own.
    fn donor(&self, reservation: &mut Reservation) -> (usize, bool) {
        let (own, donors) = (reservation.number, &mut reservation.donors);
        let is_first = !donors.is_shared && donors.idle == 0 && !donors.is_pressing;
        if own >= self.shards.sharing() || is_first {
            return (own, true);
        }
        let number = (own + donors.turn) % self.shards.sharing();
        donors.turn += 1;
        (number, number == own)
    }

    /// Evicts the oldest items of all shards: about so many bytes of short items, or one long one,
    /// after which another shard's may be older.
    fn reclaim_oldest(
        &self,
        reservation: &mut Reservation,
        bytes: usize,
        now: Instant,
    ) -> Reclaimed {
        let Some(number) = self.shard_of_oldest() else {
            return Reclaimed::default();
        };
        let mut shard = self.shards[number].lock_beside_claims();
        shard.begin(now);
        let oldest = shard.reclaimer.oldest(&shard.store);
        let is_long = oldest.is_some_and(|oldest| shard.store.log().is_extent(oldest));
        let bytes = if is_long { 1 } else { bytes };
        shard.reclaim_some(bytes, &mut reservation.copy_bytes, now)
    }

    /// The shard whose next victim is older than those of the others.
    fn shard_of_oldest(&self) -> Option<usize> {
        let cells = self.shards.sharers().iter().enumerate();
        let oldest = cells.filter_map(|(number, cell)| {
            let shard = cell.lock_beside_claims();
            let oldest = shard.reclaimer.oldest(&shard.store)?;
            Some((shard.store.log().segment(oldest).encoding().base_ms, number))
        });
        oldest.min().map(|(_, number)| number)
    }

    /// Pledges the rest of all memory, because nothing can be evicted.
    fn take_last(&self, reservation: &mut Reservation, bytes: usize) -> Result<(), Error> {
        let cell = &self.shards[reservation.number];
        cell.lock_beside_claims().store.set_in_need(true);
        let is_pledged = self.pledge(reservation, bytes);
        let mut shard = cell.lock_beside_claims();
        shard.store.set_in_need(false);
        if is_pledged {
            Ok(())
        } else {
            Err(refusal(&mut shard, reservation.is_trial))
        }
    }

    /// Makes a draft of a whole extent.
    fn finish(&self, reservation: Reservation, extent: &Pin, now: Instant) -> Result<Draft, Error> {
        let key = self.key_in(reservation.space, &reservation.key)?;
        let mut shard = self.shards[reservation.number].lock_beside_claims();
        let mut draft = shard.draft_in(extent, key, reservation.value_bytes, now);
        drop(shard);
        draft.part = Some(reservation.part);
        Ok(draft)
    }

    /// Stores a received value if the condition holds; otherwise its memory is released.
    ///
    /// # Errors
    /// As [`Cache::set`].
    pub fn commit(&self, mut draft: Draft, options: &SetOptions) -> Result<Stored, Error> {
        let bytes = std::mem::take(&mut draft.key);
        let key = self.key_in(draft.space, &bytes)?;
        self.shards.write(key, |shard, now| {
            shard.commit(key, &mut draft, options, now)
        })
    }
}

/// The error for a caller for whom no space can be reclaimed.
fn refusal(shard: &mut Shard, is_trial: bool) -> Error {
    match is_trial {
        true => Error::Busy,
        false => shard.store.refuse(),
    }
}

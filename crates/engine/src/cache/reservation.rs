//! Reservation: memory for a long value, reserved in steps.
//!
//! A [`Draft`](super::Draft) takes the steps for a value that is received, and an
//! [`ExtentReservation`](super::ExtentReservation) for one that is computed. Between two steps no
//! lock is held, and other threads store, read and evict. A reservation owns bytes pledged from the
//! budget, and the part of an extent that has memory. When it is dropped, the pledge is released at
//! once, and the extent like one whose last reader has finished.
//!
//! Why: docs/decisions/0053. Tests: tests/room.rs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Cache;
use crate::base::clock::Instant;
use crate::base::error::Error;
use crate::key::Key;
use crate::log::item::HEADER_BYTES_MAX;
use crate::log::{PIECE_BYTES, extent_bytes};
use crate::memory::Pledge;
use crate::memory::arena::Pin;
use crate::shard::Shard;
use crate::shard::evict::Newest;
use crate::shard::evict::room::{Reclaimed, STEP_BYTES};

/// Most walks over all memory for one value: twice as many as it takes until the most used items
/// may be evicted.
const WALKS_MAX: usize = 8;
/// A shard releases memory for another shard's value down to this part of its share, or below if no
/// other shard has anything to release.
const FLOOR_SHARE: usize = 2;
/// Segments whose live items may be copied for a value in a no-eviction partition.
const KEPT_COPIES: usize = 2;

/// An extent for a long value, as far as it is reserved.
pub(super) struct Reservation {
    /// Bytes of header, key and value, and of the whole extent.
    item_bytes: usize,
    extent_bytes: usize,
    /// The key's shard.
    number: usize,
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
    /// The key's shard.
    pub(super) fn number(&self) -> usize {
        self.number
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
            .field("extent_bytes", &self.extent_bytes)
            .field("grown", &self.grown)
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// A reservation of an extent for a value, of which nothing is reserved yet.
    ///
    /// # Errors
    /// [`Error::Full`] if the key's space never has so much.
    pub(super) fn reservation(
        &self,
        key: Key<'_>,
        value_bytes: usize,
        is_trial: bool,
    ) -> Result<Reservation, Error> {
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
            item_bytes,
            extent_bytes,
            number,
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

    /// Takes the next step of a reservation; its extent once that is whole.
    ///
    /// # Errors
    /// As [`Cache::reserve`].
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
}

/// The error for a caller for whom no space can be reclaimed.
fn refusal(shard: &mut Shard, is_trial: bool) -> Error {
    match is_trial {
        true => Error::Busy,
        false => shard.store.refuse(),
    }
}

/// The memory of all drafts of a cache: at most half of its memory, so that other values can still
/// be stored while drafts are received. A single draft may always exceed the limit.
#[derive(Debug)]
pub(crate) struct DraftShare {
    // Relaxed: a sum that orders nothing.
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl DraftShare {
    /// The share of a cache with so much memory.
    pub(super) fn of(memory_bytes: usize) -> DraftShare {
        DraftShare {
            bytes: AtomicUsize::new(0),
            bytes_max: memory_bytes / 2,
        }
    }

    /// Takes a part for one draft; none if the others hold too much.
    pub(super) fn take(self: &Arc<DraftShare>, bytes: usize) -> Option<DraftPart> {
        // Relaxed: a sum that orders nothing.
        let others = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let part = DraftPart {
            share: Arc::clone(self),
            bytes,
        };
        (others == 0 || others.saturating_add(bytes) <= self.bytes_max).then_some(part)
    }
}

/// One draft's part of the limit of all drafts, released when dropped.
#[derive(Debug)]
pub(super) struct DraftPart {
    share: Arc<DraftShare>,
    bytes: usize,
}

impl Drop for DraftPart {
    fn drop(&mut self) {
        self.share.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

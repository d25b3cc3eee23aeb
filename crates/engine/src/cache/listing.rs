//! Listing: the keys of a cache, stretch by stretch, one at random, or one looked at in passing.
//!
//! A listing goes through a shard twice: first for the entries in their home buckets, then for the
//! others. `index/scan.rs` explains why no entry is missed or listed twice.
//!
//! Tests: tests/listing.rs, tests/model.rs.

use std::cell::Cell;

use super::Cache;
use crate::clock::Instant;
use crate::error::Error;
use crate::index::{Phase, SCAN_MASK};
use crate::key::Key;
use crate::options::ScanCursor;
use crate::outcome::{Item, KeyFacts, Uses};
use crate::shard::Shard;
use crate::space::{Kind, Space};
use crate::store::{Located, Store};

/// Buckets that one call of [`Cache::keys`] visits at most.
const SCAN_BUCKETS_MAX: usize = 256;
/// Entries from which on it visits no further bucket.
const SCAN_ENTRIES: usize = 500;
/// Bytes of keys from which on it visits no further bucket.
const SCAN_BYTES: usize = 64 << 10;
/// Segments that one call checks of those that a killed process left, at most.
const CHECKS_MAX: usize = 16;
/// A cursor holds from its low end: how far the scan has come, its number, the half, and the shard.
/// Clients that keep numbers as doubles need it below 2^53.
const AT_BITS: u32 = 30;
const AT_MASK: u64 = (1 << AT_BITS) - 1;
const NUMBER_BITS: u32 = 12;
const HALF_SHIFT: u32 = AT_BITS + NUMBER_BITS;

const _: () = assert!(
    SCAN_MASK as u32 + 1 == 1 << NUMBER_BITS,
    "a scan's number has its bits in a cursor"
);

/// Slots of a shard that are drawn for a random key before all are looked at.
const DRAWS_MAX: u64 = 128;
/// How far ahead of such a look the items are fetched.
const WALK_AHEAD: usize = 16;

impl Cache {
    /// Lists the live keys of a stretch of the cache, of all spaces; start with
    /// [`ScanCursor::START`] and continue with the returned cursor until it is `None`.
    ///
    /// Each call locks one shard for some 500 keys at most, fewer if they are long. An item that
    /// exists during the whole listing is listed once, however the cache grows, shrinks or moves
    /// items meanwhile. Some are listed twice if the listing takes no step for a minute, if a
    /// cursor is used twice, if more than 16 listings go through one shard, or if more items than
    /// 32,768 and a sixteenth of a shard's are moved meanwhile. A cursor that was never returned
    /// lists something or nothing. Expired items on the way are removed.
    pub fn keys(
        &self,
        cursor: ScanCursor,
        mut each: impl FnMut(KeyFacts<'_>),
    ) -> Option<ScanCursor> {
        self.list(cursor, SCAN_ENTRIES, |store, located, now| {
            let facts = store.facts(located, now);
            let bytes = facts.key.len();
            each(facts);
            (bytes, true)
        })
    }

    /// The same as [`Cache::keys`], for callers that need no more than the keys: it reads nothing
    /// else of an item.
    pub fn names(
        &self,
        cursor: ScanCursor,
        mut each: impl FnMut(Space, &[u8]),
    ) -> Option<ScanCursor> {
        self.list(cursor, SCAN_ENTRIES, |store, located, _| {
            let (space, key) = store.name_of(located);
            each(space, key);
            (key.len(), true)
        })
    }

    /// The same as [`Cache::keys`], for callers that need no more than the length of each value: of
    /// a string in bytes, of another value as `len` counts it.
    pub fn lengths(
        &self,
        cursor: ScanCursor,
        len: impl Fn(Item<'_>) -> usize,
        mut each: impl FnMut(Space, Kind, usize),
    ) -> Option<ScanCursor> {
        self.list(cursor, SCAN_ENTRIES, |store, located, now| {
            let facts = store.facts(located, now);
            let length = match facts.kind {
                Kind::STRING => facts.value_bytes,
                _ => store.with_item(located, &len),
            };
            each(facts.space, facts.kind, length);
            (facts.key.len(), true)
        })
    }

    /// The same as [`Cache::keys`], in a stretch that ends soon after `each` has said that it wants
    /// no more: with the bucket, which has at most eight keys.
    pub fn keys_while(
        &self,
        cursor: ScanCursor,
        mut each: impl FnMut(KeyFacts<'_>) -> bool,
    ) -> Option<ScanCursor> {
        self.list(cursor, 0, |store, located, now| {
            let facts = store.facts(located, now);
            (facts.key.len(), each(facts))
        })
    }

    /// The same; a shard of at most `few` items is listed at once, bucket after bucket as they lie
    /// in memory, most of which are empty. `each` says how many bytes its key has, and whether it
    /// wants more.
    fn list(
        &self,
        cursor: ScanCursor,
        few: usize,
        mut each: impl FnMut(&Store, &Located, Instant) -> (usize, bool),
    ) -> Option<ScanCursor> {
        let position = Position::of(cursor);
        let cell = self.shards.get(position.shard)?;
        let now = self.shards.now();
        let mut shard = cell.lock();
        shard.begin(now);
        let items = shard.store.all_items();
        let is_at_once = position.known().is_none() && items <= few && !shard.store.has_unchecked();
        let mut scan = (items > 0 && !is_at_once).then(|| shard.store.take_scan(position.known()));
        let (entries, bytes) = (Cell::new(0), Cell::new(0));
        let wants_more = Cell::new(true);
        let mut over = Vec::new();
        let mut show = |store: &Store, located: &Located| {
            entries.set(entries.get() + 1);
            if store.is_over(located, now) {
                over.push(located.slot);
                return;
            }
            let (key_bytes, is_more) = each(store, located, now);
            bytes.set(bytes.get() + key_bytes);
            wants_more.set(is_more);
        };
        let is_enough =
            || !wants_more.get() || entries.get() >= SCAN_ENTRIES || bytes.get() >= SCAN_BYTES;
        let mut is_left = scan.is_some();
        if let Some(scan) = &mut scan {
            let mut ahead = shard.store.load_ahead(scan);
            let mut checks = 0;
            for _ in 0..SCAN_BUCKETS_MAX {
                if !is_left || is_enough() || checks >= CHECKS_MAX {
                    break;
                }
                checks += shard.store.check_scan(scan, now);
                let store = &shard.store;
                is_left = store.scan(scan, |located| show(store, located));
                store.load_on(&mut ahead);
            }
        } else if items > 0 {
            let store = &shard.store;
            store.each_item(|located| show(store, located));
        }
        shard.store.remove_over(&over, now);
        if let Some(scan) = scan.filter(|_| is_left) {
            let next = position.shard;
            let next = Position::in_shard(next, scan.number, scan.phase, scan.at);
            shard.store.put_scan(scan, now);
            return Some(next.cursor());
        }
        let next = position.shard + 1;
        let begins = Position::in_shard(next, 0, Phase::AtHome, 0);
        (next < self.shards.len()).then(|| begins.cursor())
    }

    /// Facts about one item, without counting as a use; `None` is a miss.
    pub fn facts<R>(&self, key: Key<'_>, read: impl FnOnce(KeyFacts<'_>) -> R) -> Option<R> {
        self.shards.write(key, |shard, now| {
            let located = shard.store.find(key, now)?;
            Some(read(shard.store.facts(&located, now)))
        })
    }

    /// Restores the recorded uses of an item, so that reads since then do not count.
    pub fn set_uses(&self, key: Key<'_>, uses: Uses) {
        self.shards.write(key, |shard, now| {
            if let Some(located) = shard.store.find(key, now) {
                shard.store.set_uses(&located, uses);
            }
        });
    }

    /// Records the second of each use of an item from now on, whatever its value; its header grows
    /// by four bytes.
    ///
    /// # Errors
    /// [`Error::Busy`] if the item has to be rewritten and no space is free.
    pub fn note_uses(&self, key: Key<'_>) -> Result<(), Error> {
        self.shards
            .write(key, |shard, now| shard.note_uses(key, now))
    }

    /// Shows one item with its value, without counting as a read or a use; `None` is a miss.
    pub fn peek<R>(&self, key: Key<'_>, read: impl FnOnce(Item<'_>) -> R) -> Option<R> {
        self.shards.write(key, |shard, now| {
            let located = shard.store.find(key, now)?;
            Some(shard.store.with_item(&located, read))
        })
    }

    /// As above, for an item that no client requested: if it has expired, no miss is counted.
    pub fn meet<R>(&self, key: Key<'_>, read: impl FnOnce(Item<'_>) -> R) -> Option<R> {
        self.shards.write(key, |shard, now| {
            let store = &mut shard.store;
            let located = store.find_stored(key, now)?;
            if store.is_over(&located, now) {
                store.remove_expired(&located, now);
                return None;
            }
            Some(store.with_item(&located, read))
        })
    }

    /// Shows some live item of a space, each with about the same probability if `random` is
    /// uniform; `None` if there is none.
    ///
    /// Cost: each shard's lock for a moment, then some slots of one shard if the space has a good
    /// part of the items, else a walk over a part of that shard.
    pub fn sample_key<R>(
        &self,
        space: Space,
        random: u64,
        read: impl FnOnce(KeyFacts<'_>) -> R,
    ) -> Option<R> {
        let now = self.shards.now();
        let counts: Vec<u64> = self
            .shards
            .iter()
            .map(|cell| {
                let mut shard = cell.lock();
                let mut checks = 0..CHECKS_MAX;
                while shard.store.tally.of(space, now).items == 0
                    && checks.next().is_some()
                    && shard.store.check_next(now)
                {}
                shard.store.tally.of(space, now).items
            })
            .collect();
        let total: u64 = counts.iter().sum();
        let mut draws = Draws(random);
        let mut left = draws.below(total.max(1));
        let first = counts.iter().position(|&count| {
            let is_here = left < count;
            left = left.saturating_sub(count);
            is_here
        })?;
        // Other shards are tried only if all items of the first one have expired.
        for number in (first..counts.len()).chain(0..first) {
            let mut shard = self.shards[number].lock();
            shard.begin(now);
            if let Some(facts) = draw(&shard, space, &mut draws, now) {
                return Some(read(facts));
            }
        }
        None
    }
}

/// A cursor, taken apart.
#[derive(Clone, Copy)]
struct Position {
    shard: usize,
    /// Whether it is behind the entries in their home buckets.
    is_second: bool,
    number: u16,
    at: u64,
}

impl Position {
    fn of(cursor: ScanCursor) -> Position {
        let half = cursor.0 >> HALF_SHIFT;
        Position {
            shard: (half >> 1) as usize,
            is_second: half & 1 == 1,
            number: (cursor.0 >> AT_BITS) as u16 & SCAN_MASK,
            at: cursor.0 & AT_MASK,
        }
    }

    /// That of a scan in a shard.
    fn in_shard(shard: usize, number: u16, phase: Phase, at: u64) -> Position {
        Position {
            shard,
            is_second: phase != Phase::AtHome,
            number,
            at: at & AT_MASK,
        }
    }

    fn cursor(self) -> ScanCursor {
        let half = (self.shard as u64) << 1 | u64::from(self.is_second);
        ScanCursor(half << HALF_SHIFT | u64::from(self.number) << AT_BITS | self.at)
    }

    /// The scan to continue; `None` where one begins.
    fn known(self) -> Option<(u16, bool, u64)> {
        let is_beginning = !self.is_second && self.at == 0;
        (!is_beginning).then_some((self.number, self.is_second, self.at))
    }
}

/// Some live item of a space in a shard.
fn draw<'s>(
    shard: &'s Shard,
    space: Space,
    draws: &mut Draws,
    now: Instant,
) -> Option<KeyFacts<'s>> {
    let store = &shard.store;
    if store.tally.of(space, now).items == 0 {
        return None;
    }
    let facts_at = |number: u64| {
        let located = store.drawn(number as usize)?;
        let facts = store.facts(&located, now);
        (facts.space == space && !store.is_over(&located, now)).then_some(facts)
    };
    let slots = store.slots() as u64;
    for _ in 0..DRAWS_MAX {
        let facts = facts_at(draws.below(slots));
        if facts.is_some() {
            return facts;
        }
    }
    // The space has few of the items: what all the others are costs a look at each.
    let first = draws.below(slots);
    let mut walk = (first..slots).chain(0..first);
    let mut ahead = walk.clone().skip(WALK_AHEAD);
    walk.find_map(|number| {
        if let Some(number) = ahead.next() {
            store.prefetch_drawn(number as usize);
        }
        facts_at(number)
    })
}

/// Numbers drawn from a first one.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(bound)) >> 64) as u64
    }
}

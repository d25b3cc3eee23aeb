//! Listing: the keys of a cache, stretch by stretch, or one at random.
//!
//! A listing goes through a shard twice: first for the entries in their home buckets, then for the
//! others. `index/scan.rs` explains why no entry is missed or listed twice.
//!
//! Tests: tests/listing.rs, tests/model.rs.

use std::cell::Cell;

use super::shards::Shards;
use crate::base::clock::Instant;
use crate::base::space::Space;
use crate::index::{Phase, SCAN_MASK};
use crate::interface::options::ScanCursor;
use crate::interface::outcome::KeyFacts;
use crate::shard::Shard;
use crate::store::{LoadedAhead, Located, Store};

/// Buckets that one call of [`list`] visits at most.
const SCAN_BUCKETS_MAX: usize = 256;
/// Entries from which on it visits no further bucket.
pub(super) const SCAN_ENTRIES: usize = 500;
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

/// Lists a stretch of the cache from `cursor` on; returns where the next one begins. `each` says
/// how many bytes its key has, and whether it wants more.
///
/// A shard of at most `few` items is listed at once, bucket after bucket as they lie in memory,
/// most of which are empty.
pub(super) fn list(
    shards: &Shards,
    cursor: ScanCursor,
    few: usize,
    mut each: impl FnMut(&Store, &Located, Instant) -> (usize, bool),
) -> Option<ScanCursor> {
    let position = Position::of(cursor);
    let cell = shards.get(position.shard)?;
    let now = shards.now();
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
        let mut ahead = LoadedAhead::of(&shard.store, scan);
        let mut checks = 0;
        for _ in 0..SCAN_BUCKETS_MAX {
            if !is_left || is_enough() || checks >= CHECKS_MAX {
                break;
            }
            checks += shard.store.check_scan(scan, now);
            let store = &shard.store;
            is_left = store.scan(scan, |located| show(store, located));
            ahead.load_on(store);
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
    (next < shards.len()).then(|| begins.cursor())
}

/// Shows some live item of a space, each with about the same probability if `random` is uniform;
/// `None` if there is none.
pub(super) fn sample_key<R>(
    shards: &Shards,
    space: Space,
    random: u64,
    read: impl FnOnce(KeyFacts<'_>) -> R,
) -> Option<R> {
    let now = shards.now();
    let counts: Vec<u64> = shards
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
        let mut shard = shards[number].lock();
        shard.begin(now);
        if let Some(facts) = draw(&shard, space, &mut draws, now) {
            return Some(read(facts));
        }
    }
    None
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
    let slots = store.index().slots() as u64;
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

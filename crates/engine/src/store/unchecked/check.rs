//! Check: which items of an unchecked segment stay.
//!
//! The entries of a segment are found from its items: they lie in a gapless row, and each one's key
//! leads to its slots. If these are fewer than lead into the segment, the whole index is looked
//! through for them. An entry is kept if the item is plausible, its key has the entry's tag, its
//! blocks match their checksums, its length agrees with the next item, a compressed value is whole
//! and has its dictionary, and it is neither expired nor flushed. The item that was being changed
//! is dropped.
//!
//! Why: docs/decisions/0085. Tests: tests/unchecked.rs, tests/killed.rs, tests/restart.rs.

use super::{Rebuilt, Unchecked, UncheckedSegment};
use crate::base::clock::Instant;
use crate::base::space::Space;
use crate::index::Index;
use crate::key::Hasher;
use crate::log::Log;
use crate::log::item::{self, Entry, HEADER_BYTES_MAX, Layout, is_plausible, plausible_bytes};
use crate::log::metadata::SegmentMetadata;
use crate::log::segment::Flushed;
use crate::store::packing::Packing;
use crate::store::sums::{Damage, damage};

/// Items whose buckets are loaded before they are looked at.
const BUCKETS_AHEAD: usize = 24;

/// Memory that the check of a segment uses, and then that of another.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    leads: Vec<Lead>,
    survivors: Vec<Survivor>,
}

impl Scratch {
    /// Empties it for the next check.
    pub(super) fn clear(&mut self) {
        self.leads.clear();
        self.survivors.clear();
    }

    /// The items that stay.
    pub(super) fn survivors(&mut self) -> &mut Vec<Survivor> {
        &mut self.survivors
    }
}

/// Where an entry leads, the number of its slot, and the hash of the key there if it is known.
#[derive(Clone, Copy, Debug)]
struct Lead {
    offset: usize,
    slot: usize,
    hash: Option<u64>,
}

/// An item whose entry stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Survivor {
    pub(super) layout: Layout,
    pub(super) slot: usize,
}

impl Survivor {
    fn end(&self) -> usize {
        self.layout.offset + self.layout.total_bytes()
    }
}

/// How the check classifies an entry.
enum Entered {
    Kept(Survivor),
    /// It is expired or flushed.
    Ended,
    Doubtful,
}

/// The check of one segment.
pub(super) struct Check<'c> {
    index: &'c mut Index,
    log: &'c Log,
    packing: &'c Packing,
    hasher: &'c Hasher,
    unchecked: &'c Unchecked,
    number: u32,
    recorded: SegmentMetadata,
    /// Entries that lead into it.
    entries: usize,
    now: Instant,
    found: Rebuilt,
    /// Where the last surviving item ends.
    end: usize,
    /// The blocks that do not match their checksums.
    damage: Damage,
}

impl<'c> Check<'c> {
    pub(super) fn new(
        index: &'c mut Index,
        (log, packing, hasher): (&'c Log, &'c Packing, &'c Hasher),
        unchecked: &'c Unchecked,
        (number, segment): (u32, &UncheckedSegment),
        now: Instant,
    ) -> Check<'c> {
        Check {
            index,
            log,
            packing,
            hasher,
            unchecked,
            number,
            recorded: segment.recorded,
            entries: segment.entries,
            now,
            found: Rebuilt::default(),
            end: 0,
            damage: Damage::default(),
        }
    }

    /// What was dropped.
    pub(super) fn found(&self) -> Rebuilt {
        self.found
    }

    /// Removes the entries of all items that do not stay.
    pub(super) fn run(&mut self, scratch: &mut Scratch) {
        let Scratch { leads, survivors } = scratch;
        let has_memory = self.log.has_memory(self.number, &self.recorded);
        if !(has_memory && self.find_leads(leads)) {
            self.find_leads_in_index(leads);
        }
        if has_memory {
            self.damage = damage(self.log, self.number, self.recorded.room_bytes);
            self.look_at_all(leads, survivors);
        } else {
            self.found.dropped += leads.len() as u64;
            leads.iter().for_each(|lead| self.index.wipe(lead.slot));
        }
    }

    /// Finds the entries that lead into a segment by the items that lie there; `false` if these are
    /// not all.
    fn find_leads(&self, leads: &mut Vec<Lead>) -> bool {
        let encoding = self.recorded.encoding;
        let start = self.log.start_of(self.number);
        let end = start + self.recorded.room_bytes;
        let mut at = start;
        let mut ahead = [(0, 0); BUCKETS_AHEAD];
        let (mut first, mut behind) = (0, 0);
        leads.clear();
        loop {
            while at < end && behind - first < BUCKETS_AHEAD {
                let front = self.log.bytes(at, (end - at).min(HEADER_BYTES_MAX));
                let Some(bytes) = plausible_bytes(front, end - at, encoding) else {
                    at = end;
                    break;
                };
                if let Entry::Item(layout) = item::read(self.log.arena(), at, encoding) {
                    let hash = self.hash_of(&layout);
                    self.index.table().probe(hash);
                    ahead[behind % BUCKETS_AHEAD] = (at, hash);
                    behind += 1;
                }
                at += bytes;
            }
            if first == behind {
                break;
            }
            let (offset, hash) = ahead[first % BUCKETS_AHEAD];
            first += 1;
            self.index.each_leading_to(hash, offset, |slot| {
                let hash = Some(hash);
                leads.push(Lead { offset, slot, hash });
            });
            if leads.len() >= self.entries {
                break;
            }
        }
        leads.len() == self.entries
    }

    /// Finds the entries that lead into a segment by a look at all entries.
    fn find_leads_in_index(&self, leads: &mut Vec<Lead>) {
        leads.clear();
        for slot in 0..self.index.slots() {
            if let Some(offset) = self.index.leads_to(slot)
                && self.log.segment_of(offset) == self.number
            {
                let hash = None;
                leads.push(Lead { offset, slot, hash });
            }
        }
        leads.sort_unstable_by_key(|lead| lead.offset);
    }

    /// Checks the entries that point into a segment, in the order of their items; removes those
    /// that fail.
    fn look_at_all(&mut self, leads: &[Lead], survivors: &mut Vec<Survivor>) {
        for lead in leads {
            let entered = match self.unchecked.changing {
                Some(changing) if changing == lead.offset => Entered::Doubtful,
                _ => self.look_at(lead),
            };
            match entered {
                Entered::Kept(survivor) => self.keep_apart(survivor, survivors),
                Entered::Ended => self.index.wipe(lead.slot),
                Entered::Doubtful => {
                    self.index.wipe(lead.slot);
                    self.found.dropped += 1;
                }
            }
        }
        self.drop_misfits(leads, survivors);
    }

    /// Drops items whose length does not agree with where the next item begins: a segment is a
    /// gapless row of entries. The last of a segment has none behind it to be compared with, nor
    /// has one before an entry that was being changed.
    fn drop_misfits(&mut self, leads: &[Lead], survivors: &mut Vec<Survivor>) {
        let mut leads = leads.iter().peekable();
        survivors.retain(|one| {
            while leads
                .next_if(|lead| lead.offset <= one.layout.offset)
                .is_some()
            {}
            let fits = leads.peek().is_none_or(|next| {
                let changing = self.unchecked.changing;
                changing.is_some_and(|at| (one.end()..=next.offset).contains(&at))
                    || leads_on(self.log, one.end(), next.offset, &self.recorded)
            });
            if !fits {
                self.found.dropped += 1;
                self.index.wipe(one.slot);
            }
            fits
        });
    }

    fn look_at(&self, lead: &Lead) -> Entered {
        let Some(layout) = plausible(self.log, lead.offset, &self.recorded) else {
            return Entered::Doubtful;
        };
        // A wrong length does no harm: then the block that contains it is wrong.
        let end = lead.offset + layout.total_bytes();
        if self.damage.touches(lead.offset, end) {
            return Entered::Doubtful;
        }
        let hash = lead.hash.unwrap_or_else(|| self.hash_of(&layout));
        // An entry where no lookup comes was not made by a process: it is dropped as well.
        if !self.index.is_found_in(lead.slot, hash) {
            return Entered::Doubtful;
        }
        let packed = || self.log.bytes(layout.value_at(), layout.value_bytes);
        if layout.is_packed() && !self.packing.is_sound(packed()) {
            return Entered::Doubtful;
        }
        let is_gone = match (self.recorded.flushed, layout.space()) {
            (Flushed::All, _) | (Flushed::Main, Space::MAIN) => true,
            (_, Space::MAIN) => false,
            (_, space) => self.unchecked.is_gone(space),
        };
        if is_gone || layout.deadline.has_passed(self.now) {
            return Entered::Ended;
        }
        let slot = lead.slot;
        Entered::Kept(Survivor { layout, slot })
    }

    /// Keeps an item behind those before it: one of two entries that lead to the same, and neither
    /// of two that have bytes in common.
    fn keep_apart(&mut self, one: Survivor, kept: &mut Vec<Survivor>) {
        let last = kept.last();
        if last.is_some_and(|last| last.layout.offset == one.layout.offset) {
            // A move was interrupted: either may stay.
            self.index.wipe(one.slot);
            return;
        }
        if one.layout.offset >= self.end {
            self.end = one.end();
            kept.push(one);
            return;
        }
        self.found.dropped += 1;
        self.index.wipe(one.slot);
        if let Some(last) = kept.pop_if(|last| one.layout.offset < last.end()) {
            self.found.dropped += 1;
            self.index.wipe(last.slot);
        }
        self.end = self.end.max(one.end());
    }

    /// The hash of the key of an item.
    fn hash_of(&self, layout: &Layout) -> u64 {
        let key = self.log.bytes(layout.key_at, layout.key_bytes());
        self.hasher.known(layout.space(), key).hash()
    }
}

/// Whether entries without a gap lie between two offsets.
fn leads_on(log: &Log, mut at: usize, to: usize, recorded: &SegmentMetadata) -> bool {
    while at < to {
        let room = to - at;
        let front = log.bytes(at, room.min(HEADER_BYTES_MAX));
        match plausible_bytes(front, room, recorded.encoding) {
            Some(bytes) => at += bytes,
            None => return false,
        }
    }
    at == to
}

/// The item at an offset of a recorded segment, if what lies there can be one.
pub(in crate::store) fn plausible(
    log: &Log,
    offset: usize,
    recorded: &SegmentMetadata,
) -> Option<Layout> {
    let start = log.start_of(log.segment_of(offset));
    let room = (start + recorded.room_bytes).checked_sub(offset)?;
    let front = log.bytes(offset, room.min(HEADER_BYTES_MAX));
    if !is_plausible(front, room, recorded.encoding) {
        return None;
    }
    match item::read(log.arena(), offset, recorded.encoding) {
        Entry::Item(layout) => Some(layout),
        _ => None,
    }
}

//! Rebuild: how a store continues with the items that another process left in persistent memory.
//!
//! After a clean stop it reads what that process serialized ([`Store::restore`]) and looks at no
//! item: the caller has checked that nothing has changed since. Counters of events start at zero.
//!
//! After a kill, [`Store::rebuild`] walks the index, segment by segment. It keeps an entry if the
//! segment is recorded, the item's key has the entry's tag, the blocks match their checksums, and
//! the item is neither expired nor flushed. It re-inserts an entry that an interrupted split left
//! in a bucket where no lookup comes. It drops the item that was being changed. The kept items are
//! counted, and the bytes between them become holes.
//!
//! Invariant: the walk is idempotent, so an interrupted one can be repeated.
//! Why: docs/decisions/0058. Tests: tests/restart.rs, tests/clean_stop.rs.

use super::Store;
use super::sums::Damage;
use crate::arena::Pin;
use crate::clock::Instant;
use crate::item::{Entry, HEADER_BYTES_MAX, Layout, is_plausible, plausible_bytes};
use crate::log::Adopted;
use crate::metadata::{SegmentMetadata, ShardMetadata};
use crate::segment::Flushed;
use crate::serialize::{Deserializer, Serialize, Serializer};
use crate::space::Space;
use crate::table::Shape;

/// Items that are loaded ahead of the one that is looked at, and bytes of each.
const ITEMS_AHEAD: usize = 12;
const FRONT_BYTES: usize = 128;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rebuilt {
    /// Items that are there, and their bytes.
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    /// Entries that led to no item one could believe in.
    pub(crate) dropped: u64,
}

/// Where an entry leads, and the number of its slot.
#[derive(Clone, Copy, Debug, Default)]
struct Lead {
    offset: usize,
    slot: usize,
}

/// All entries, those that lead into one segment beside each other.
struct Leads {
    all: Vec<Lead>,
    /// Where those of a segment begin, by its number; one more for the end.
    begins: Vec<usize>,
}

/// An item whose entry was found, and the number of its slot; none while it is a stray.
#[derive(Clone, Copy, Debug)]
struct Survivor {
    layout: Layout,
    bytes: usize,
    hash: u64,
    slot: Option<usize>,
}

impl Survivor {
    fn end(&self) -> usize {
        self.layout.offset + self.bytes
    }
}

/// What is made of an entry.
enum Entered {
    Kept(Survivor),
    /// It is over, or flushed.
    Ended,
    Doubtful,
}

/// What a walk through a shard knows of it.
struct RebuildWalk<'w> {
    found: &'w ShardMetadata,
    living: Option<&'w [Space]>,
    now: Instant,
    rebuilt: Rebuilt,
    strays: Vec<Survivor>,
    adopted: Adopted,
    /// Where the last item that was kept ends.
    end: usize,
    /// Where the entries of the present segment lead, in their order.
    bounds: Vec<Bound>,
    /// What of the present segment does not agree with its checksums.
    damage: Option<Damage>,
}

/// Where an entry leads, and whether what lies there was being changed.
#[derive(Clone, Copy, Debug)]
struct Bound {
    offset: usize,
    is_changing: bool,
}

impl Store {
    /// Takes on what another process left of this shard; of spaces other than the main one only
    /// those that are `living`, and only what agrees with its checksums. `None` if that cannot be
    /// made out; then the store is no more use.
    pub(crate) fn rebuild(
        &mut self,
        found: &ShardMetadata,
        living: Option<&[Space]>,
        now: Instant,
    ) -> Option<Rebuilt> {
        let before = self.index.bytes();
        if !self.index.adopt_shape(Shape::unpack(found.shape)) {
            return None;
        }
        if !self.take_memory(self.index.bytes().saturating_sub(before)) {
            return None;
        }
        self.tally.turn(now);
        self.tally.look_further();
        self.log.set_horizon(self.tally.position().horizon());
        let mut walk = RebuildWalk {
            found,
            living,
            now,
            rebuilt: Rebuilt::default(),
            strays: Vec::new(),
            adopted: Adopted::default(),
            end: 0,
            bounds: Vec::new(),
            damage: None,
        };
        let Leads { mut all, begins } = self.leads(&mut walk.rebuilt);
        let mut survivors = Vec::new();
        for (number, bounds) in (0..).zip(begins.windows(2)) {
            let group = &mut all[bounds[0]..bounds[1]];
            if !group.is_empty() {
                group.sort_unstable_by_key(|lead| lead.offset);
                survivors.clear();
                self.walk_segment(number, group, &mut survivors, &mut walk);
            }
        }
        let RebuildWalk {
            mut rebuilt,
            strays,
            adopted,
            ..
        } = walk;
        self.log.end_adoption(adopted);
        self.index
            .count_found(rebuilt.items as usize - strays.len());
        self.index.release_rest();
        for stray in strays {
            self.enter_stray(&stray, &mut rebuilt);
        }
        self.note_shape();
        self.log.metadata().end_change();
        Some(rebuilt)
    }

    /// Makes a new store ready whose memory is to outlive the process; `false` if there is none.
    pub(crate) fn begin(&mut self) -> bool {
        self.note_shape();
        self.index.begin()
    }

    /// Where all entries lead; those that lead nowhere are taken out.
    ///
    /// The index is gone through twice, as it lies, so that items are met as they lie after: to
    /// visit them in the index's order takes many times as long.
    fn leads(&mut self, rebuilt: &mut Rebuilt) -> Leads {
        let slots = self.index.slots_left();
        let segments = self.log.arena().segments();
        let mut begins = vec![0; segments + 2];
        for slot in 0..slots {
            match self.index.leads_to(slot) {
                Some(offset) if (self.log.segment_of(offset) as usize) < segments => {
                    begins[self.log.segment_of(offset) as usize + 2] += 1;
                }
                None if !self.index.is_nonsense(slot) => {}
                _ => {
                    self.index.wipe(slot);
                    rebuilt.dropped += 1;
                }
            }
        }
        for segment in 2..begins.len() {
            begins[segment] += begins[segment - 1];
        }
        let mut all = vec![Lead::default(); begins[segments + 1]];
        for slot in 0..slots {
            if let Some(offset) = self.index.leads_to(slot) {
                // Once all are entered it has become where the next segment's begin.
                let next = &mut begins[self.log.segment_of(offset) as usize + 1];
                all[*next] = Lead { offset, slot };
                *next += 1;
            }
        }
        begins.truncate(segments + 1);
        Leads { all, begins }
    }

    /// Looks at the entries that lead into a segment, in the order in which their items lie there,
    /// and takes it on with those that are kept.
    fn walk_segment(
        &mut self,
        number: u32,
        group: &[Lead],
        survivors: &mut Vec<Survivor>,
        walk: &mut RebuildWalk<'_>,
    ) {
        let recorded = self.log.recorded(number);
        let recorded = recorded.filter(|recorded| self.log.has_memory(number, recorded));
        let Some(recorded) = recorded else {
            walk.rebuilt.dropped += group.len() as u64;
            group.iter().for_each(|lead| self.index.wipe(lead.slot));
            return;
        };
        for lead in group.iter().take(ITEMS_AHEAD) {
            self.log.arena().prefetch(lead.offset, FRONT_BYTES);
        }
        walk.bounds.clear();
        walk.damage = Some(self.damage(number, recorded.room_bytes));
        for (position, &Lead { offset, slot }) in group.iter().enumerate() {
            if let Some(lead) = group.get(position + ITEMS_AHEAD) {
                self.log.arena().prefetch(lead.offset, FRONT_BYTES);
            }
            let entered = match walk.found.changing {
                Some(changing) if changing == offset => Entered::Doubtful,
                _ => self.look_at(slot, offset, &recorded, walk),
            };
            walk.bounds.push(Bound {
                offset,
                is_changing: walk.found.changing == Some(offset),
            });
            match entered {
                Entered::Kept(survivor) => {
                    if survivor.slot.is_none() {
                        self.index.wipe(slot);
                    }
                    self.keep_apart(survivor, survivors, walk);
                }
                Entered::Ended => self.index.wipe(slot),
                Entered::Doubtful => {
                    self.index.wipe(slot);
                    walk.rebuilt.dropped += 1;
                }
            }
        }
        self.drop_misfits(survivors, &recorded, walk);
        if !survivors.is_empty() {
            self.adopt_group(number, &recorded, survivors, walk);
        }
    }

    /// Drops items whose length does not agree with where the next item begins: a segment is a
    /// gapless row of entries. The last of a segment has none behind it to be compared with, nor
    /// has one before an entry that was being changed.
    fn drop_misfits(
        &mut self,
        survivors: &mut Vec<Survivor>,
        recorded: &SegmentMetadata,
        walk: &mut RebuildWalk<'_>,
    ) {
        let mut bounds = walk.bounds.iter().peekable();
        survivors.retain(|one| {
            while bounds
                .next_if(|bound| bound.offset <= one.layout.offset)
                .is_some()
            {}
            let fits = bounds.peek().is_none_or(|next| {
                let changing = walk
                    .found
                    .changing
                    .filter(|at| (one.end()..next.offset).contains(at));
                next.is_changing
                    || changing.is_some()
                    || self.leads_on(one.end(), next.offset, recorded)
            });
            if !fits {
                walk.rebuilt.dropped += 1;
                one.slot.into_iter().for_each(|slot| self.index.wipe(slot));
            }
            fits
        });
    }

    /// Whether entries without a gap lie between two offsets.
    fn leads_on(&self, mut at: usize, to: usize, recorded: &SegmentMetadata) -> bool {
        while at < to {
            let room = to - at;
            let front = self.log.bytes(at, room.min(HEADER_BYTES_MAX));
            match plausible_bytes(front, room, recorded.encoding) {
                Some(bytes) => at += bytes,
                None => return false,
            }
        }
        at == to
    }

    fn look_at(
        &self,
        slot: usize,
        offset: usize,
        recorded: &SegmentMetadata,
        walk: &RebuildWalk<'_>,
    ) -> Entered {
        let Some(layout) = self.plausible(offset, recorded) else {
            return Entered::Doubtful;
        };
        // A wrong length is no matter: the block it stands in is wrong then.
        let end = offset + layout.total_bytes();
        if walk
            .damage
            .as_ref()
            .is_some_and(|damage| damage.touches(offset, end))
        {
            return Entered::Doubtful;
        }
        let key = self.hashed_key_of(&layout);
        let (hash, space) = (key.hash(), key.space());
        if !self.index.has_tag_of(slot, hash) {
            return Entered::Doubtful;
        }
        let is_gone = match (recorded.flushed, space) {
            (Flushed::All, _) | (Flushed::Main, Space::MAIN) => true,
            (_, Space::MAIN) => false,
            (_, space) => walk.living.is_some_and(|living| !living.contains(&space)),
        };
        if is_gone || layout.deadline.has_passed(walk.now) {
            return Entered::Ended;
        }
        Entered::Kept(Survivor {
            bytes: layout.total_bytes(),
            layout,
            hash,
            slot: self.index.is_found_in(slot, hash).then_some(slot),
        })
    }

    /// The item at an offset of a recorded segment, if what lies there can be one.
    fn plausible(&self, offset: usize, recorded: &SegmentMetadata) -> Option<Layout> {
        let start = self.log.start_of(self.log.segment_of(offset));
        let room = (start + recorded.room_bytes).checked_sub(offset)?;
        let front = self.log.bytes(offset, room.min(HEADER_BYTES_MAX));
        if !is_plausible(front, room, recorded.encoding) {
            return None;
        }
        match crate::item::read(self.log.arena(), offset, recorded.encoding) {
            Entry::Item(layout) => Some(layout),
            _ => None,
        }
    }

    /// Keeps an item behind those before it: one of two entries that lead to the same, and neither
    /// of two that have bytes in common.
    fn keep_apart(&mut self, one: Survivor, kept: &mut Vec<Survivor>, walk: &mut RebuildWalk<'_>) {
        let last = kept.last_mut();
        if let Some(last) = last.filter(|last| last.layout.offset == one.layout.offset) {
            // A move was interrupted: the one that is found is kept, or either.
            if last.slot.is_none() {
                last.slot = one.slot;
            } else if let Some(slot) = one.slot {
                self.index.wipe(slot);
            }
            return;
        }
        if one.layout.offset >= walk.end {
            walk.end = one.end();
            kept.push(one);
            return;
        }
        walk.rebuilt.dropped += 1;
        one.slot.into_iter().for_each(|slot| self.index.wipe(slot));
        if let Some(last) = kept.pop_if(|last| one.layout.offset < last.end()) {
            walk.rebuilt.dropped += 1;
            last.slot.into_iter().for_each(|slot| self.index.wipe(slot));
        }
        walk.end = walk.end.max(one.end());
    }

    /// Takes on a segment with its items, in the order in which they lie there.
    fn adopt_group(
        &mut self,
        number: u32,
        recorded: &SegmentMetadata,
        group: &[Survivor],
        walk: &mut RebuildWalk<'_>,
    ) {
        // A deadline that the segment's encoding has no room for stands in the item.
        let has_own = |one: &Survivor| {
            one.layout.deadline.instant().is_some() && !self.log.wants_extent(one.bytes)
        };
        let is_timed = group.len() > 1 && recorded.encoding.width > 0 || group.iter().any(has_own);
        if !self
            .log
            .adopt(number, recorded, is_timed, &mut walk.adopted)
        {
            walk.rebuilt.dropped += group.len() as u64;
            for slot in group.iter().filter_map(|one| one.slot) {
                self.index.wipe(slot);
            }
            return;
        }
        for one in group {
            let layout = &one.layout;
            self.log.adopt_item(number, layout);
            let due = self.log.segment(number).due(layout.deadline);
            self.tally.add(layout.space(), due);
            walk.rebuilt.items += 1;
            walk.rebuilt.bytes += one.bytes as u64;
            if one.slot.is_none() {
                walk.strays.push(*one);
            }
        }
    }

    /// Enters an item anew whose entry no lookup came by.
    fn enter_stray(&mut self, stray: &Survivor, rebuilt: &mut Rebuilt) {
        let layout = &stray.layout;
        let key = self.hashed_key_of(layout);
        let is_alone = self.find_stored(key).is_none();
        if is_alone && self.index.insert(stray.hash, layout.offset).is_some() {
            return;
        }
        let segment = self.log.segment(self.log.segment_of(layout.offset));
        self.tally
            .take(layout.space(), segment.due(layout.deadline));
        self.log.bury(layout);
        rebuilt.items -= 1;
        rebuilt.bytes -= stray.bytes as u64;
        rebuilt.dropped += 1;
    }
}

impl Store {
    /// Whether nothing is half done outside of the shard's lock.
    pub(crate) fn is_quiescent(&self) -> bool {
        self.log.is_quiescent()
    }

    /// Writes down what it knows.
    pub(crate) fn serialize(&self, out: &mut Serializer) {
        self.index.serialize(out);
        self.log.serialize(out);
        self.tally.serialize(out);
        (self.flushed_items, self.purge_at).serialize(out);
        self.counting.serialize(out);
    }

    /// Goes on with what another store wrote down over the same memory. Items of spaces other than
    /// the main one and those that are `living` are gone.
    pub(crate) fn restore(
        &mut self,
        from: &mut Deserializer<'_>,
        living: Option<&[Space]>,
        now: Instant,
    ) -> Option<(Rebuilt, Vec<Pin>)> {
        let before = self.index.bytes();
        if !self.index.deserialize(from) {
            return None;
        }
        let grown = self.index.bytes().saturating_sub(before);
        if !self.log.budget().take(grown) {
            return None;
        }
        let pins = self.log.restore(from)?;
        self.tally = Serialize::deserialize(from)?;
        (self.flushed_items, self.purge_at) = Serialize::deserialize(from)?;
        self.counting = Serialize::deserialize(from)?;
        let others: Vec<Space> = self.tally.others().collect();
        let is_gone = |space: &Space| living.is_some_and(|living| !living.contains(space));
        for space in others.into_iter().filter(is_gone) {
            self.retire_space(space);
        }
        self.note_shape();
        let bytes = self.segments().map(|(_, segment)| match segment.flushed {
            Flushed::All => 0,
            _ => segment.written_bytes() - segment.dead_bytes(now),
        });
        let rebuilt = Rebuilt {
            items: self.live_items(now),
            bytes: bytes.sum::<usize>() as u64,
            dropped: 0,
        };
        Some((rebuilt, pins))
    }
}

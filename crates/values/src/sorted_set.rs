//! Sorted set: members with scores, in order of score and then of member.
//!
//! A packed one has its entries in that order.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::convert::Infallible;
use std::ops::Range;

use cellar_engine::{Apply, Change, Deadline, Instant, Kind, ValueBytes};
use smallvec::SmallVec;

use crate::bytes::{u32_at, u64_at};
use crate::collection::{Collection, Family, Members, Rules, SORTED_SET, Seen, apply_all, store};
use crate::edit::Edit;
use crate::entry::{Entry, Form, SHORT_BYTES};
use crate::ordered::{Entries, key_score, score_key};
use crate::packed::{self, Packed, Shape};
use crate::page::Tree;
use crate::pending::{Op, OpKind};
use crate::table::Place;
use crate::view::{Spot, View};

/// Bytes of a packed score that is short.
const SHORT_SCORE_BYTES: usize = 4;

/// A score.
#[derive(Debug)]
pub(crate) struct Scored;

impl Shape for Scored {
    fn payload_bytes(_bytes: &[u8], is_short: bool) -> usize {
        if is_short { SHORT_SCORE_BYTES } else { 8 }
    }
}

impl Rules for Scored {
    const FORMS: [Form; 2] = [Form::MEMBERS, Form::KEYED];
    const APPLY: Apply = Apply(apply_all::<Scored>);

    fn key_of(tail: u64) -> [u8; 8] {
        score_key(f64::from_bits(tail))
    }

    fn apply(edit: &mut Edit<'_, dyn ValueBytes + '_>, op: &Op<'_>) {
        if op.kind == OpKind::RemoveRange {
            return remove_ranks(edit, op);
        }
        let place = op.place_in(&edit.view());
        let old = place.found.and_then(|spot| edit.view().entry(spot).tail());
        match (op.kind, place.found) {
            (OpKind::Put, Some(spot)) => edit.set_tail(spot, op.tail.unwrap_or(0)),
            (OpKind::Put, None) => edit.put_sure(&place, [op.member, &[]], op.tail),
            (OpKind::Remove, Some(spot)) => edit.take(Tree::First, spot),
            _ => return,
        }
        // Equal scores may have other bits.
        let old = old.map(Scored::key_of);
        let new = op.tail.map(Scored::key_of);
        match (old, new) {
            (Some(old), Some(new)) if old != new => edit.rekey(old, new, op.keyed, op.member),
            (Some(old), None) => edit.take_keyed(old, op.member),
            (None, Some(new)) => edit.add_keyed_at(op.keyed, new, op.member),
            _ => {}
        }
    }
}

/// Removes the members of some ranks.
fn remove_ranks(edit: &mut Edit<'_, dyn ValueBytes + '_>, op: &Op<'_>) {
    let first = op.tail.unwrap_or(0) as usize;
    let mut count = [0; 8];
    count.copy_from_slice(op.second);
    let mut known = op.keyed;
    for _ in 0..u64::from_le_bytes(count) {
        let view = edit.view();
        let spot = known.take();
        let spot = spot.unwrap_or_else(|| view.at(Tree::Second, first));
        let member = view.bytes_of(view.entry(spot).text());
        let member: SmallVec<[u8; SHORT_BYTES]> = SmallVec::from_slice(&member);
        edit.take(Tree::Second, spot);
        if let Some(spot) = edit.view().find(&member).found {
            edit.take(Tree::First, spot);
        }
    }
}

/// Sorted sets, for code that changes one.
#[derive(Debug)]
pub struct SortedSets;

impl Family for SortedSets {
    type Of<'v> = SortedSet<'v>;
}

/// Members beside each other in the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The position of the first, as in [`SortedSet::member_at`].
    pub position: usize,
    /// How many they are.
    pub len: usize,
}

impl Run {
    fn of(entries: Entries) -> Run {
        match entries.len {
            0 => Run::default(),
            len => Run {
                position: entries.first.to_number(),
                len,
            },
        }
    }
}

/// A sorted set. No score is NaN.
#[derive(Debug)]
pub struct SortedSet<'v> {
    own: Deadline,
    is_changed: bool,
    pub(crate) members: Members<'v, Scored>,
}

impl<'v> SortedSet<'v> {
    /// The sorted set in the bytes of a value. Cost: none that depends on its length.
    #[must_use]
    pub fn view(value: &'v [u8]) -> SortedSet<'v> {
        SortedSet {
            own: Deadline::NEVER,
            is_changed: false,
            members: Members::read(value, value),
        }
    }

    /// A sorted set that no key has yet, in a copy of the bytes of a large one, for which
    /// [`is_paged`](crate::is_paged) holds. Cost: none that depends on its length.
    #[must_use]
    pub fn of_copy(value: Vec<u8>) -> SortedSet<'static> {
        SortedSet {
            own: Deadline::NEVER,
            is_changed: false,
            members: Members::Built(value),
        }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none; of a value that is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A member's score. Cost: O(log n).
    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.seen(member).0
    }

    /// A member's score, and where it is, or would be, in pages, if nothing is pending for it.
    fn seen(&self, member: &[u8]) -> (Option<f64>, Option<Place>) {
        if let Members::Packed(packed) = &self.members {
            return (packed.find(member).map(|entry| score(entry)), None);
        }
        let Seen { tail, place } = self.members.seen(member);
        (tail.flatten().map(f64::from_bits), place)
    }

    /// A stored member's rank, and its score. Cost: O(log n).
    #[must_use]
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        if let Members::Packed(packed) = &self.members {
            let mut entries = packed.iter().enumerate();
            let found = entries.find(|(_, entry)| entry.member == member);
            return found.map(|(rank, entry)| (rank, score(entry)));
        }
        let score = self.score(member)?;
        let view = self.members.view()?;
        Some((view.rank(view.spot_of(score_key(score), member)), score))
    }

    /// The stored member of a rank, and its score. Cost: O(log n).
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn at(&self, rank: usize) -> (Cow<'_, [u8]>, f64) {
        if let Some(view) = self.members.view() {
            let entry = view.entry(view.at(Tree::Second, rank));
            return (view.bytes_of(entry.text()), keyed_score(entry));
        }
        let found = self.iter_from(rank).next();
        found.expect("a rank below the number of members")
    }

    /// The member at a position in the order, its score and the position after it; the first
    /// position is zero. Pending operations are not seen. Cost: does not depend on the number of
    /// members.
    #[must_use]
    pub fn member_at(&self, at: usize) -> Option<(Cow<'_, [u8]>, f64, usize)> {
        if let Members::Packed(packed) = &self.members {
            return (at < packed.bytes()).then(|| {
                let entry = packed.entry(at);
                (Cow::Borrowed(entry.member), score(entry), entry.end)
            });
        }
        let view = self.members.view()?;
        let (entry, next) = view.entry_at(Tree::Second, at)?;
        Some((view.bytes_of(entry.text()), keyed_score(entry), next))
    }

    /// The stored members from a rank on, with their scores.
    pub fn iter_from(&self, rank: usize) -> impl Iterator<Item = (Cow<'_, [u8]>, f64)> {
        let packed = match &self.members {
            Members::Packed(packed) => Some(packed.iter().skip(rank)),
            _ => None,
        };
        let packed = packed.into_iter().flatten();
        let packed = packed.map(|entry| (Cow::Borrowed(entry.member), score(entry)));
        let paged = self.members.view().map(|view| {
            let entries = view.iter_from(view.at(Tree::Second, rank));
            entries.map(move |(_, entry)| (view.bytes_of(entry.text()), keyed_score(entry)))
        });
        packed.chain(paged.into_iter().flatten())
    }

    /// The stored members before a rank, the nearest first, with their scores.
    pub fn iter_back(&self, rank: usize) -> impl Iterator<Item = (Cow<'_, [u8]>, f64)> {
        let packed = match &self.members {
            Members::Packed(packed) => packed.iter().take(rank).collect(),
            _ => Vec::new(),
        };
        let packed = packed.into_iter().rev();
        let packed = packed.map(|entry| (Cow::Borrowed(entry.member), score(entry)));
        let paged = self.members.view().map(|view| {
            let entries = view.iter_back(view.at(Tree::Second, rank));
            entries.map(move |(_, entry)| (view.bytes_of(entry.text()), keyed_score(entry)))
        });
        packed.chain(paged.into_iter().flatten())
    }

    /// The stored members whose scores are not `before`, up to the first that is not `within`.
    /// Scores that are `before` come before all others, and are `within` as well. Cost: O(log n).
    #[must_use]
    pub fn run_of_scores(&self, before: impl Fn(f64) -> bool, within: impl Fn(f64) -> bool) -> Run {
        if let Members::Packed(packed) = &self.members {
            return run_of_packed(
                packed,
                |entry| before(score(entry)),
                |entry| within(score(entry)),
            );
        }
        let run = self.members.view().map(|view| {
            view.run_of_keys(|key| before(key_score(key)), |key| within(key_score(key)))
        });
        run.map_or(Run::default(), Run::of)
    }

    /// The same of members that all have one score, by their names.
    #[must_use]
    pub fn run_of_members(
        &self,
        before: impl Fn(&[u8]) -> bool,
        within: impl Fn(&[u8]) -> bool,
    ) -> Run {
        if let Members::Packed(packed) = &self.members {
            return run_of_packed(
                packed,
                |entry| before(entry.member),
                |entry| within(entry.member),
            );
        }
        let view = self.members.view();
        let run = view.map(|view| view.run_of_members(before, within));
        run.map_or(Run::default(), Run::of)
    }

    /// Shows about `count` members whose hashes are not before `cursor`, and returns the next
    /// cursor; zero at the end. A small set is shown in one call.
    pub fn scan(&self, cursor: u64, count: usize, mut show: impl FnMut(&[u8], f64)) -> u64 {
        match (&self.members, self.members.view()) {
            (Members::Packed(packed), _) => {
                packed
                    .iter()
                    .for_each(|entry| show(entry.member, score(entry)));
                0
            }
            (_, Some(view)) => view.scan(cursor, count, |entry| {
                let score = entry.tail().map_or(0.0, f64::from_bits);
                show(&view.bytes_of(entry.text()), score);
            }),
            (_, None) => 0,
        }
    }

    /// Gives a member a score; whether it is new.
    pub fn set(&mut self, member: &[u8], score: f64) -> bool {
        let Ok((old, _)) = self.update::<Infallible>(member, |_| Ok(Some(score)));
        old.is_none()
    }

    /// Replaces a member's score by the result of `decide`, if it returns one; returns both scores.
    ///
    /// # Errors
    /// Those of `decide`; then nothing is changed.
    pub fn update<E>(
        &mut self,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Result<Option<f64>, E>,
    ) -> Result<(Option<f64>, Option<f64>), E> {
        let (old, place) = self.seen(member);
        let decided = decide(old)?;
        let Some(score) = decided.filter(|_| decided != old) else {
            return Ok((old, decided));
        };
        self.is_changed = true;
        self.unpack_if_large(member.len() + 8);
        match &mut self.members {
            Members::Packed(packed) => place_in(packed, (member, score), old.is_some()),
            members => members.apply(&Op {
                place,
                ..Op::put(member, &[], Some(score.to_bits()), old.is_none())
            }),
        }
        Ok((old, decided))
    }

    /// Adds a member that is not there and belongs behind all others.
    pub fn push(&mut self, member: &[u8], score: f64) {
        self.is_changed = true;
        self.unpack_if_large(member.len() + 8);
        if let Members::Packed(packed) = &mut self.members {
            let end = packed.bytes();
            insert(packed, end, (member, score));
        } else {
            let tail = Some(score.to_bits());
            self.members.apply(&Op::put(member, &[], tail, true));
        }
    }

    fn unpack_if_large(&mut self, more: usize) {
        self.members
            .unpack_if_large(more, Scored::FORMS, |out, entry| {
                let tail = score(*entry).to_bits();
                Op::put(entry.member, &[], Some(tail), true).write(out);
            });
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let (score, place) = self.seen(member);
        if score.is_some() {
            self.is_changed = true;
            self.members.remove(member, place);
        }
        score.is_some()
    }

    /// The stored members of these ranks, which must exist. Cost: O(log n).
    #[must_use]
    pub fn run_of_ranks(&self, ranks: Range<usize>) -> Run {
        let position = match (&self.members, self.members.view()) {
            (Members::Packed(packed), _) => packed.offset_of(ranks.start),
            (_, Some(view)) => view.at(Tree::Second, ranks.start).to_number(),
            (_, None) => 0,
        };
        Run {
            position,
            len: ranks.len(),
        }
    }

    /// The ranks of the members of a run. Cost: O(log n).
    #[must_use]
    pub fn ranks(&self, run: Run) -> Range<usize> {
        let before = match (&self.members, self.members.view()) {
            _ if run.len == 0 => 0,
            (Members::Packed(packed), _) => {
                let entries = packed.iter();
                entries.take_while(|entry| entry.at < run.position).count()
            }
            (_, Some(view)) => view.rank(Spot::of_number(run.position)),
            (_, None) => 0,
        };
        before..before + run.len
    }

    /// The stored members of a run, with their scores.
    pub fn iter_run(&self, run: Run) -> impl Iterator<Item = (Cow<'_, [u8]>, f64)> {
        let mut at = run.position;
        let members = std::iter::from_fn(move || {
            let (member, score, next) = self.member_at(at)?;
            at = next;
            Some((member, score))
        });
        members.take(run.len)
    }

    /// Removes the members of a run; nothing else is pending.
    pub fn remove_run(&mut self, run: Run) {
        if run.len == 0 {
            return;
        }
        self.is_changed = true;
        // The first one is known by its position.
        let ranks = match (&self.members, run.len) {
            (Members::Paged(..), 1) => 0..1,
            _ => self.ranks(run),
        };
        if let Members::Packed(packed) = &mut self.members {
            return packed.remove_range(ranks);
        }
        self.members.apply(&Op {
            kind: OpKind::RemoveRange,
            member: &[],
            second: &(run.len as u64).to_le_bytes(),
            tail: Some(ranks.start as u64),
            added: -(run.len as isize),
            place: None,
            keyed: Some(Spot::of_number(run.position)),
        });
    }
}

/// Puts a member into its place among others, and takes it out of the one where it was.
fn place_in(packed: &mut Packed<'_, Scored>, (member, score): (&[u8], f64), is_there: bool) {
    if is_there && let Some(at) = packed.find(member).map(|entry| entry.at) {
        packed.remove(at);
    }
    let is_before = |entry: &packed::Entry<'_>| {
        compare((entry.member, self::score(*entry)), (member, score)).is_lt()
    };
    let before = packed.iter().take_while(is_before).last();
    let at = before.map_or(0, |entry| entry.end);
    insert(packed, at, (member, score));
}

/// Inserts a member before the one at an offset. Of a score whose low bytes are zero, as those of
/// integers up to two million are, only the high ones are stored.
fn insert(packed: &mut Packed<'_, Scored>, at: usize, (member, score): (&[u8], f64)) {
    let bytes = score.to_le_bytes();
    let (low, high) = bytes.split_at(bytes.len() - SHORT_SCORE_BYTES);
    let is_short = low.iter().all(|byte| *byte == 0);
    let stored = if is_short { high } else { &bytes };
    packed.insert(at, member, (&[stored, &[], &[]], is_short));
}

fn run_of_packed(
    packed: &Packed<'_, Scored>,
    before: impl Fn(packed::Entry<'_>) -> bool,
    within: impl Fn(packed::Entry<'_>) -> bool,
) -> Run {
    let mut entries = packed.iter();
    let Some(first) = entries.find(|entry| !before(*entry)) else {
        return Run::default();
    };
    if !within(first) {
        return Run::default();
    }
    Run {
        position: first.at,
        len: 1 + entries.take_while(|entry| within(*entry)).count(),
    }
}

fn score(entry: packed::Entry<'_>) -> f64 {
    let bits = match entry.payload.len() {
        SHORT_SCORE_BYTES => u64::from(u32_at(entry.payload, 0)) << 32,
        _ => u64_at(entry.payload, 0),
    };
    f64::from_bits(bits)
}

fn keyed_score(entry: Entry<'_>) -> f64 {
    key_score(u64_at(entry.rest, 0).swap_bytes())
}

fn compare(one: (&[u8], f64), other: (&[u8], f64)) -> Ordering {
    let scores = one.1.partial_cmp(&other.1).unwrap_or(Ordering::Equal);
    scores.then_with(|| one.0.cmp(other.0))
}

impl<'v> Collection<'v> for SortedSet<'v> {
    const KIND: Kind = SORTED_SET;

    fn empty(deadline: Deadline, _now: Instant) -> SortedSet<'v> {
        SortedSet {
            own: deadline,
            is_changed: false,
            members: Members::empty(),
        }
    }

    fn open(value: &'v [u8], deadline: Deadline, _now: Instant) -> SortedSet<'v> {
        SortedSet {
            own: deadline,
            ..SortedSet::view(value)
        }
    }

    fn is_changed(&self) -> bool {
        self.is_changed
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_heavy(&self) -> bool {
        self.members.is_heavy()
    }

    fn finish(mut self, scratch: &mut Vec<u8>) -> Change {
        if let Some(copy) = self.members.bytes_to_repack() {
            let copy = View::of(&copy, Scored::FORMS);
            let mut packed: Packed<'_, Scored> = Packed::empty();
            for entry in copy.iter(Tree::Second) {
                let (member, at) = (copy.bytes_of(entry.text()), packed.bytes());
                insert(&mut packed, at, (&member, keyed_score(entry)));
            }
            packed.write(scratch);
            return store(SORTED_SET, self.own);
        }
        self.members.finish_paged(SORTED_SET, self.own, scratch)
    }
}

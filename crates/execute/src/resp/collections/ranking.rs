//! Ranking: the members of several sorted sets with the scores that they have together, in order.
//!
//! Members are gathered in parts; each part is sorted by itself, and then the lowest of all parts
//! comes next.

use std::cmp::Ordering;
use std::ops::Range;

use cellar_config::limits::RESULT_BYTES_MAX;
use cellar_engine::{Handle, Instant, Item};
use cellar_shared::keyspace::kind;

use crate::resp::call::steps::Progress;
use crate::resp::collections::copied::{Copied, Extent};
use crate::resp::collections::gathered::{Added, Gathered, Place};
use crate::resp::failure::Failure;
use cellar_values::{Set, SortedSet, SortedSetBuilder, is_paged};

/// Which members are in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Algebra {
    Union,
    Intersection,
    Difference,
}

/// What becomes of the scores of a member that several have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum Aggregate {
    Sum,
    Min,
    Max,
    /// How many have the member, each with its weight, whatever the scores are.
    Count,
}

impl Aggregate {
    pub(in crate::resp) fn parse(name: &[u8]) -> Option<Aggregate> {
        match name.to_ascii_uppercase().as_slice() {
            b"SUM" => Some(Aggregate::Sum),
            b"MIN" => Some(Aggregate::Min),
            b"MAX" => Some(Aggregate::Max),
            b"COUNT" => Some(Aggregate::Count),
            _ => None,
        }
    }

    /// What a score counts before others are joined to it.
    fn begin(self, weight: f64, score: f64) -> f64 {
        match self {
            Aggregate::Count => weight,
            _ => weighted(weight, score),
        }
    }

    /// What a further score counts.
    fn further(self, weight: f64, score: f64) -> f64 {
        match self {
            Aggregate::Count => weight,
            _ => weight * score,
        }
    }

    /// Infinities of both signs have no sum and count as zero.
    fn join(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum | Aggregate::Count if (one + other).is_nan() => 0.0,
            Aggregate::Sum | Aggregate::Count => one + other,
            Aggregate::Min if other < one => other,
            Aggregate::Max if other > one => other,
            Aggregate::Min | Aggregate::Max => one,
        }
    }
}

/// A value that has members.
#[derive(Debug)]
pub(in crate::resp) enum Operand {
    Nothing,
    /// All its members have the score 1.
    Set(Handle, Instant),
    Sorted(Handle),
}

impl Operand {
    /// The members of an item at a moment.
    ///
    /// # Errors
    /// [`Failure::WrongType`].
    pub(in crate::resp) fn of(item: Item<'_>, now: Instant) -> Result<Operand, Failure> {
        match item.kind {
            kind::SET => Ok(Operand::Set(item.pin(), now)),
            kind::SORTED_SET => Ok(Operand::Sorted(item.pin())),
            _ => Err(Failure::WrongType),
        }
    }

    /// Its members and the bytes of its value.
    fn extent(&self) -> Extent {
        let bytes = match self {
            Operand::Nothing => 0,
            Operand::Set(value, _) | Operand::Sorted(value) => value.len(),
        };
        Extent {
            members: self.view().len(),
            bytes,
        }
    }

    fn view(&self) -> OperandView<'_> {
        match self {
            Operand::Nothing => OperandView::Nothing,
            Operand::Set(value, now) => OperandView::Set(Set::view(value, *now)),
            Operand::Sorted(value) => OperandView::Sorted(SortedSet::view(value)),
        }
    }
}

enum OperandView<'a> {
    Nothing,
    Set(Set<'a>),
    Sorted(SortedSet<'a>),
}

impl OperandView<'_> {
    fn len(&self) -> usize {
        match self {
            OperandView::Nothing => 0,
            OperandView::Set(set) => set.len(),
            OperandView::Sorted(set) => set.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            OperandView::Nothing => None,
            OperandView::Set(set) => set.has(member).then_some(1.0),
            OperandView::Sorted(set) => set.score(member),
        }
    }

    /// Shows members from a place on until `show` is false; the place to go on from, none at the
    /// end. The first place is zero.
    fn show_from(&self, at: usize, mut show: impl FnMut(&[u8], f64) -> bool) -> Option<usize> {
        match self {
            OperandView::Nothing => {}
            OperandView::Set(set) => {
                let mut from = at;
                for (member, next) in set.iter_from(at) {
                    if !show(&member, 1.0) {
                        return Some(from);
                    }
                    from = next;
                }
            }
            OperandView::Sorted(set) => {
                for (rank, (member, score)) in (at..).zip(set.iter_from(at)) {
                    if !show(&member, score) {
                        return Some(rank);
                    }
                }
            }
        }
        None
    }
}

/// The lowest member of a part that was not shown.
#[derive(Clone, Copy, Debug)]
struct Head {
    score: f64,
    part: usize,
    rank: usize,
}

/// By score, and then by bytes.
fn compare(one: (&[u8], &f64), other: (&[u8], &f64)) -> Ordering {
    let scores = one.1.partial_cmp(other.1).unwrap_or(Ordering::Equal);
    scores.then_with(|| one.0.cmp(other.0))
}

/// What the members of the other sources do to a copy of one source.
#[derive(Clone, Copy, Debug)]
enum Change {
    Add,
    Remove,
}

/// A result: built in steps, then read in order.
pub(in crate::resp) struct Ranking {
    operation: Algebra,
    aggregate: Aggregate,
    sources: Vec<(Operand, f64)>,
    /// The sources whose members are looked at, and the place in the first of them.
    left: Range<usize>,
    at: usize,
    gathered: Gathered<f64>,
    /// The sorted set that it becomes, if it is to become one, and how far that has its members.
    making: Option<(SortedSetBuilder, Place)>,
    makes_set: bool,
    /// The copy of one of the sources that becomes the result, if one does.
    copied: Option<(Copied<SortedSet<'static>>, Change)>,
    sorted: usize,
    /// Of each part that has members left the lowest one: a heap, the lowest of all first.
    heads: Vec<Head>,
    counts_only: bool,
    most: usize,
    /// Members found, and their bytes.
    pub(in crate::resp) count: usize,
    pub(in crate::resp) bytes: usize,
    /// The result is abandoned above so many bytes.
    pub(in crate::resp) bytes_max: usize,
}

impl Ranking {
    /// An empty result of these sources with their weights.
    pub(in crate::resp) fn of(
        operation: Algebra,
        aggregate: Aggregate,
        mut sources: Vec<(Operand, f64)>,
    ) -> Ranking {
        if operation != Algebra::Difference {
            // Sums of floats depend on the order, which is Redis's.
            sources.sort_by_cached_key(|(source, _)| source.view().len());
        }
        let left = match operation {
            Algebra::Union => 0..sources.len(),
            _ => 0..1,
        };
        let most = match sources.is_empty() {
            // Without sources, members are added one by one, and their number is unknown.
            true => usize::MAX,
            false => {
                let lengths = sources[left.clone()].iter().map(|one| one.0.view().len());
                lengths.sum()
            }
        };
        Ranking {
            operation,
            aggregate,
            sources,
            left,
            at: 0,
            gathered: Gathered::new(most),
            making: None,
            makes_set: false,
            copied: None,
            sorted: 0,
            heads: Vec::new(),
            counts_only: false,
            most: usize::MAX,
            count: 0,
            bytes: 0,
            bytes_max: RESULT_BYTES_MAX,
        }
    }

    /// Only counts members, up to `most`.
    pub(in crate::resp) fn count_only(&mut self, most: usize) {
        (self.counts_only, self.most) = (true, most);
    }

    /// Builds a sorted set of the result.
    pub(in crate::resp) fn make_set(&mut self) {
        self.makes_set = true;
        self.copy_if_similar();
    }

    /// Makes the result of a copy of one of the sources, if the others have few members beside it:
    /// then only theirs are gathered.
    fn copy_if_similar(&mut self) {
        let (copied, change) = match self.operation {
            // The last one is the longest, and its scores are joined to those of the others last.
            Algebra::Union if self.aggregate != Aggregate::Count => {
                (self.sources.len().saturating_sub(1), Change::Add)
            }
            Algebra::Difference => (0, Change::Remove),
            _ => return,
        };
        let Some((Operand::Sorted(value), 1.0)) = self.sources.get(copied) else {
            return;
        };
        if !is_paged(value) {
            return;
        }
        let all = Extent::sum(self.sources.iter().map(|(source, _)| source.extent()));
        let own = self.sources[copied].0.extent();
        if !own.should_be_copied(all) {
            return;
        }
        if let (Operand::Sorted(value), _) = self.sources.remove(copied) {
            self.copied = Some((Copied::of(value), change));
            self.operation = Algebra::Union;
            self.left = 0..self.sources.len();
            self.gathered = Gathered::new(all.members - own.members);
        }
    }

    /// Does a step of the copy.
    fn change(&mut self) -> Progress {
        let Some((copied, change)) = &mut self.copied else {
            return Progress::Last;
        };
        let aggregate = self.aggregate;
        let step = copied.step(&self.gathered, SortedSet::of_copy, |set, member, &score| {
            match change {
                Change::Remove => _ = set.remove(member),
                Change::Add => {
                    let its = set.score(member);
                    let score = its.map_or(score, |its| aggregate.join(score, its));
                    // What is stored has no negative zero.
                    set.set(member, score + 0.0);
                }
            }
        });
        self.count = copied.collection().map_or(0, SortedSet::len);
        step
    }

    /// Whether it begins as a copy that takes several steps.
    pub(in crate::resp) fn is_large_copy(&self) -> bool {
        let copied = self.copied.as_ref();
        copied.is_some_and(|(copied, _)| copied.is_large())
    }

    /// The sorted set to which its members are pushed by their scores; all steps are done.
    pub(in crate::resp) fn take_set(&mut self) -> SortedSetBuilder {
        let copied = self.copied.take();
        if let Some(set) = copied.and_then(|(copied, _)| copied.into_collection()) {
            return set.into();
        }
        let made = self.making.take();
        made.map_or_else(SortedSetBuilder::default, |(builder, _)| builder)
    }

    /// Adds a member that no source has; whether it is new.
    pub(in crate::resp) fn put(&mut self, member: &[u8], score: f64) -> bool {
        let is_new = matches!(self.gathered.add(member, score), Added::New);
        if is_new {
            self.count += 1;
            self.bytes += member.len();
        }
        is_new
    }

    /// Looks at some members more, or sorts some.
    pub(in crate::resp) fn step(&mut self, items: usize) -> Progress {
        let mut left = items;
        while !self.left.is_empty() {
            if self.gather(&mut left) {
                return Progress::More;
            }
        }
        if self.counts_only {
            return Progress::Last;
        }
        if self.copied.is_some() {
            return self.change();
        }
        if self.makes_set && self.sorted == 0 {
            let gathered = &mut self.gathered;
            let (builder, next) = self.making.get_or_insert_with(|| {
                let (count, bytes) = (gathered.count(), gathered.bytes());
                let builder = SortedSetBuilder::hashed(gathered.hasher(), count, bytes);
                (builder, Place::default())
            });
            let show = |member: &[u8], score: &f64, hash| {
                // What is stored has no negative zero.
                builder.push_hashed(member, score + 0.0, hash);
            };
            if gathered.show_by_hash(next, left, show) == Progress::More {
                return Progress::More;
            }
        }
        while let Some(len) = self.gathered.part_len(self.sorted) {
            if left == 0 {
                return Progress::More;
            }
            left = left.saturating_sub(len);
            if len > 0 {
                self.gathered.sort_part(self.sorted, compare);
                self.heads.push(self.head(self.sorted, 0));
                self.rise();
            }
            self.sorted += 1;
        }
        Progress::Last
    }

    fn head(&self, part: usize, rank: usize) -> Head {
        let (_, &score) = self.gathered.at(part, rank);
        Head { score, part, rank }
    }

    fn is_lower(&self, one: usize, other: usize) -> bool {
        let member = |head: &Head| self.gathered.at(head.part, head.rank);
        let (one, other) = (&self.heads[one], &self.heads[other]);
        match one.score.partial_cmp(&other.score) {
            Some(Ordering::Less) => true,
            Some(Ordering::Greater) => false,
            _ => compare(member(one), member(other)).is_lt(),
        }
    }

    /// Moves the last head to its place.
    fn rise(&mut self) {
        let mut at = self.heads.len() - 1;
        while at > 0 && self.is_lower(at, (at - 1) / 2) {
            self.heads.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// Moves the first head to its place.
    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let children = at * 2 + 1..(at * 2 + 3).min(self.heads.len());
            let mut lowest = at;
            for child in children {
                if self.is_lower(child, lowest) {
                    lowest = child;
                }
            }
            if lowest == at {
                return;
            }
            self.heads.swap(at, lowest);
            at = lowest;
        }
    }

    /// Looks at members of the next source; whether there are more of them than are left.
    fn gather(&mut self, left: &mut usize) -> bool {
        let source = self.left.start;
        let others = match self.operation {
            Algebra::Union => &[][..],
            _ => &self.sources[1..],
        };
        let others: Vec<(OperandView<'_>, f64)> = others
            .iter()
            .map(|(other, weight)| (other.view(), *weight))
            .collect();
        let (values, weight) = &self.sources[source];
        let (operation, aggregate) = (self.operation, self.aggregate);
        let mut is_over = false;
        let next = values.view().show_from(self.at, |member, score| {
            if *left == 0 || is_over {
                return false;
            }
            *left -= 1;
            let mut score = aggregate.begin(*weight, score);
            for (other, weight) in &others {
                *left = left.saturating_sub(1);
                match (operation, other.score(member)) {
                    (Algebra::Intersection, Some(its)) => {
                        score = aggregate.join(score, aggregate.further(*weight, its));
                    }
                    (Algebra::Difference, None) => {}
                    _ => return true,
                }
            }
            if self.counts_only {
                self.count += 1;
            } else {
                match self.gathered.add(member, score) {
                    Added::New => {
                        self.count += 1;
                        self.bytes += member.len();
                    }
                    Added::Known(before) => *before = aggregate.join(*before, score),
                }
            }
            is_over = self.count >= self.most || self.bytes > self.bytes_max;
            true
        });
        if is_over {
            self.left = 0..0;
            return false;
        }
        self.at = next.unwrap_or(0);
        self.left.start += usize::from(next.is_none());
        next.is_some()
    }

    /// Shows the next member in order; whether there was one.
    pub(in crate::resp) fn next(&mut self, show: impl FnOnce(&[u8], f64)) -> bool {
        let Some(&Head { part, rank, .. }) = self.heads.first() else {
            return false;
        };
        let (member, score) = self.gathered.at(part, rank);
        show(member, *score);
        if Some(rank + 1) < self.gathered.part_len(part) {
            self.heads[0] = self.head(part, rank + 1);
        } else {
            self.heads.swap_remove(0);
        }
        self.sink();
        true
    }
}

/// Nothing times infinity is nothing.
fn weighted(weight: f64, score: f64) -> f64 {
    let score = weight * score;
    if score.is_nan() { 0.0 } else { score }
}

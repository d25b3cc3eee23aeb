//! Builder: a collection that is made of the entries of a dump, an entry at a time.

use cellar_engine::{Change, Deadline, Instant, Kind};

use crate::context::Context;
use crate::resp::arguments::Arguments;
use crate::resp::call::steps::{Progress, STEP_ITEMS};
use crate::resp::collections::ranking::{Aggregate, Algebra, Ranking};
use crate::resp::failure::Failure;
use cellar_values::dump::{BadDump, DumpEntry, Holds};
use cellar_values::list::{List, Side};
use cellar_values::{Collection, HASH, Hash, LIST, SET, SORTED_SET, Set, SortedSetBuilder};

/// The cost of a step over so many members, as bytes of work.
const STEP_COST: usize = 1 << 20;

/// A collection being built.
pub(super) struct Builder {
    growing: Growing,
    /// Entries that were read, and their bytes.
    count: usize,
    bytes: usize,
    bytes_max: usize,
    now: Instant,
}

enum Growing {
    List(Arguments, Deadline),
    Set(Set<'static>, Deadline),
    Hash(Box<Hash<'static>>),
    /// Members in the order of their scores go from the one to the other.
    Sorted(Box<Ranking>, Option<SortedSetBuilder>, Deadline),
}

impl Builder {
    /// One without entries, of a key that goes at `deadline`.
    pub(super) fn of(holds: Holds, deadline: Deadline, context: Context<'_>) -> Builder {
        let now = context.cache().now();
        let growing = match holds {
            Holds::List => Growing::List(Arguments::default(), deadline),
            Holds::Set => Growing::Set(Set::empty(deadline, now), deadline),
            Holds::Hash => Growing::Hash(Box::new(Hash::empty(deadline, now))),
            Holds::SortedSet => {
                let mut ranking = Ranking::of(Algebra::Union, Aggregate::Sum, Vec::new());
                ranking.make_set();
                Growing::Sorted(Box::new(ranking), None, deadline)
            }
        };
        Builder {
            growing,
            count: 0,
            bytes: 0,
            bytes_max: context.cache().collection_bytes_max(),
            now,
        }
    }

    /// Whether no entry was read.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The resulting kind.
    pub(super) fn kind(&self) -> Kind {
        match self.growing {
            Growing::List(..) => LIST,
            Growing::Set(..) => SET,
            Growing::Hash(_) => HASH,
            Growing::Sorted(..) => SORTED_SET,
        }
    }

    /// Adds an entry, which must not be there.
    ///
    /// # Errors
    /// If it is, or the collection becomes longer than a value.
    pub(super) fn add(&mut self, entry: &DumpEntry, context: Context<'_>) -> Result<(), Failure> {
        self.count += 1;
        self.bytes += entry.name.len() + entry.value.len() + 1;
        if self.bytes > self.bytes_max {
            return Err(too_long());
        }
        let is_new = match &mut self.growing {
            Growing::List(elements, _) => {
                elements.extend(&[&entry.name]);
                true
            }
            Growing::Set(set, _) => set.add(&entry.name),
            Growing::Sorted(ranking, ..) => ranking.put(&entry.name, entry.score + 0.0),
            Growing::Hash(hash) => {
                let deadline = match i64::try_from(entry.expires_ms) {
                    Ok(0) => Deadline::NEVER,
                    Ok(ms) => {
                        let at = context.state().wall.instant(ms);
                        at.map_or(Deadline::PASSED, Deadline::at)
                    }
                    Err(_) => return Err(BadDump.into()),
                };
                // Expired fields need not be stored.
                deadline.has_passed(self.now) || hash.set(&entry.name, &entry.value, deadline)
            }
        };
        is_new.then_some(()).ok_or_else(|| BadDump.into())
    }

    /// Orders some members; whether all are in order.
    pub(super) fn step(&mut self, left: &mut usize) -> bool {
        let Growing::Sorted(ranking, set, _) = &mut self.growing else {
            return true;
        };
        if set.is_none() {
            if ranking.step(STEP_ITEMS) == Progress::More {
                *left = 0;
                return false;
            }
            *set = Some(ranking.take_set());
        }
        let set = set.get_or_insert_default();
        for _ in 0..STEP_ITEMS {
            if !ranking.next(|member, score| set.push(member, score)) {
                return true;
            }
        }
        *left = left.saturating_sub(STEP_COST);
        false
    }

    /// The bytes of the value, none if nothing is in it, and when it goes.
    ///
    /// # Errors
    /// If they are longer than a value.
    pub(super) fn finish(self, context: Context<'_>) -> Result<(Vec<u8>, Deadline), Failure> {
        let mut value = Vec::new();
        let deadline = match self.growing {
            Growing::List(elements, deadline) => {
                let elements: Vec<&[u8]> = elements.iter().collect();
                List::empty().push(Side::Right, &elements, &mut value);
                deadline
            }
            Growing::Set(set, deadline) => written(set, &mut value).min(deadline),
            Growing::Hash(hash) if hash.is_empty() => Deadline::PASSED,
            Growing::Hash(hash) => written(*hash, &mut value),
            Growing::Sorted(_, set, deadline) => {
                let set = set.unwrap_or_default().finish();
                written(set, &mut value).min(deadline)
            }
        };
        if value.len() > context.cache().collection_bytes_max() {
            return Err(too_long());
        }
        Ok((value, deadline))
    }
}

/// Encodes a newly made collection; returns its deadline.
fn written<'v, C: Collection<'v>>(collection: C, value: &mut Vec<u8>) -> Deadline {
    match collection.finish(value) {
        Change::Store { deadline, .. } => deadline,
        _ => Deadline::NEVER,
    }
}

fn too_long() -> Failure {
    Failure::text("ERR collection exceeds maximum allowed size (max-value)")
}

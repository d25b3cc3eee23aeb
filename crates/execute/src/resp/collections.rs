//! Collections: how commands read and change one, which is the value of one key.

pub(super) mod member_scan;
pub(super) mod fields;
mod field_options; // options of commands that change the deadlines of fields
pub(super) mod hash_expiry;
pub(super) mod hashes;
mod gathered; // members of several collections, each once
mod copied; // a result that differs little from one of the collections
pub(super) mod set_algebra;
pub(super) mod sets;
pub(super) mod set_expiry;
pub(super) mod sorted_members;
pub(super) mod ranking; // members of several sorted sets, in order
pub(super) mod sorted_ranges;
mod sorted_store; // results on their way into a sorted set
pub(super) mod sorted_algebra;
pub(super) mod sorted_sets;
pub(super) mod sorted_moves;
pub(super) mod geo;
mod geo_request; // what a search asks for
pub(super) mod geo_search;
pub(super) mod lists;
pub(super) mod list_moves;

use cellar_engine::{Change, Deadline, Error, Handle, Key, Kind};

use super::call::Call;
use super::failure::Failure;
use cellar_values::{Collection, Family};

/// A collection from this length on takes more than constant time.
const HEAVY_BYTES_MIN: usize = 16 << 10;

/// How long a member, field, value or element may be; zero if all together are too long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Longest(usize);

impl Longest {
    /// Whether a value of so many bytes fits into a collection.
    ///
    /// # Errors
    /// That it is too long.
    pub(super) fn check(self, bytes: usize) -> Result<(), Failure> {
        match bytes > self.0 {
            true => Err(too_long()),
            false => Ok(()),
        }
    }
}

/// The result of editing a collection.
pub(super) struct Edited<R> {
    pub(super) answer: R,
    pub(super) is_changed: bool,
    /// Whether its last member went, and the key with it.
    pub(super) is_gone: bool,
}

/// A whole collection that was made for a key; one without members has no bytes.
pub(super) struct Made {
    value: Vec<u8>,
    kind: Kind,
    deadline: Deadline,
    count: usize,
}

impl Made {
    /// Encodes a newly made collection.
    pub(super) fn of<'v, C: Collection<'v>>(collection: C, count: usize) -> Made {
        let (mut value, mut deadline) = (Vec::new(), Deadline::NEVER);
        if !collection.is_empty()
            && let Change::Store { deadline: its, .. } = collection.finish(&mut value)
        {
            deadline = its;
        }
        Made {
            value,
            kind: C::KIND,
            deadline,
            count,
        }
    }

    /// The kind of collection.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// How many members it has.
    pub(super) fn count(&self) -> usize {
        self.count
    }
}

impl Call<'_> {
    /// The value of a key, which has to be of this kind; none if the key does not exist.
    ///
    /// # Errors
    /// [`Failure::WrongType`].
    pub(super) fn value(&self, key: Key<'_>, kind: Kind) -> Result<Option<Handle>, Failure> {
        let found = self.cache().get(key, |item| {
            let is_wanted = item.kind == kind;
            is_wanted.then(|| item.pin())
        });
        match found {
            Some(None) => Err(Failure::WrongType),
            Some(value) => Ok(value),
            None => Ok(None),
        }
    }

    /// Changes the collection of a key in one step; one that does not exist begins without
    /// members and time to live, one that has none in the end does not exist. `decide` may run more
    /// than once.
    ///
    /// # Errors
    /// [`Failure::WrongType`], what `decide` says, and what the cache says to the new value.
    pub(super) fn edit<F: Family, R>(
        &self,
        key: Key<'_>,
        mut decide: impl FnMut(&mut F::Of<'_>) -> Result<R, Failure>,
    ) -> Result<Edited<R>, Failure> {
        let (now, default) = (self.now(), self.default_deadline());
        let (kind, pass) = (F::Of::KIND, self.context.pass);
        // Of what is stored: which members had expired, and when the next one does.
        let (mut expired, mut next) = (Vec::new(), Deadline::NEVER);
        let edited = self.change(key, |old, scratch| {
            let mut collection = match old {
                Some(item) if item.kind != kind => {
                    return (Err(Failure::WrongType), Change::Keep);
                }
                Some(item) => F::Of::open(item.value, item.deadline, now),
                None => F::Of::empty(default, now),
            };
            (expired, next) = (collection.take_expired(), Deadline::NEVER);
            let had_members = old.is_some() && !collection.is_empty();
            if !had_members {
                collection = F::Of::empty(default, now);
            }
            let answer = match decide(&mut collection) {
                Ok(answer) => answer,
                Err(failure) => return (Err(failure), Change::Keep),
            };
            let is_empty = collection.is_empty();
            let mut edited = Edited {
                answer,
                is_changed: collection.is_changed(),
                is_gone: had_members && is_empty,
            };
            if collection.is_heavy() {
                pass.note_heavy();
            }
            let change = if is_empty {
                edited.is_changed &= had_members;
                Change::Remove
            } else if edited.is_changed {
                next = collection.next_deadline();
                collection.finish(scratch)
            } else {
                expired.clear();
                Change::Keep
            };
            (Ok(edited), change)
        });
        if matches!(edited, Ok(Ok(_))) {
            let observer = &self.context.state.observer;
            observer.note_deadline(key, Deadline::NEVER, next);
            observer.note_expired_fields((key, kind), expired.len(), expired, true);
        }
        edited.map_err(failure_of)?
    }

    /// How long a member, field, value or element of this command may be.
    pub(super) fn longest(&self) -> Longest {
        let bytes: usize = self.args.iter().map(|arg| arg.len()).sum();
        // They would be copied before they are refused.
        match bytes > self.cache().collection_bytes_max() {
            true => Longest(0),
            false => Longest(self.cache().value_bytes_max()),
        }
    }

    /// Stores a whole collection under a key without a time to live, whatever was there; one
    /// without members removes the key. Returns the kind of value that the key had.
    ///
    /// # Errors
    /// The cache's error.
    pub(super) fn store(&self, key: Key<'_>, made: &Made) -> Result<Option<Kind>, Failure> {
        if made.value.len() > self.cache().collection_bytes_max() {
            // It would be copied before it is refused.
            return Err(too_long());
        }
        let deadline = made.deadline.min(self.default_deadline());
        let replaced = self.change(key, |old, scratch| {
            let change = if made.value.is_empty() {
                Change::Remove
            } else {
                scratch.extend_from_slice(&made.value);
                Change::Store {
                    kind: made.kind,
                    deadline,
                    flags: 0,
                }
            };
            (old.map(|item| item.kind), change)
        });
        replaced.map_err(failure_of)
    }
}

fn failure_of(error: Error) -> Failure {
    match error {
        Error::TooLarge { .. } => too_long(),
        error => error.into(),
    }
}

fn too_long() -> Failure {
    Failure::text("ERR collection exceeds maximum allowed size (max-value)")
}

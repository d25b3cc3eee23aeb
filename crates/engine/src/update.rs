//! Update: to read an item and then decide what becomes of it, as one step.
//!
//! The one primitive for commands that depend on the old value: the shard's lock is held from the
//! read to the write, so nothing comes between.
//!
//! Why: docs/decisions/0015. Tests: tests/update.rs, tests/model.rs.

use crate::clock::{Deadline, Instant};
use crate::error::Error;
use crate::item::Spec;
use crate::key::Key;
use crate::observer::Happened;
use crate::options::{Change, Splice};
use crate::outcome::Item;
use crate::shard::{Shard, VERSIONED_VALUE_BYTES};
use crate::store::{Content, Located, Store};

impl Shard {
    /// Shows `decide` the item of `key` and does what it says; `scratch` is empty for it, and holds
    /// the new value after it. An item that is there counts as used.
    pub(crate) fn update<R>(
        &mut self,
        key: Key<'_>,
        scratch: &mut Vec<u8>,
        value_bytes_max: usize,
        decide: &mut impl FnMut(Option<Item<'_>>, &mut Vec<u8>) -> (R, Change),
        now: Instant,
    ) -> Result<R, Error> {
        let old = self.store.find(key, now);
        if let Some(old) = &old {
            self.store.mark_used(old, now);
        }
        scratch.clear();
        let (result, change) = decide(old.as_ref().map(|old| self.store.item(old)), scratch);
        match (change, old) {
            (Change::Keep, _) | (Change::Remove | Change::Retime(_) | Change::Splice(_), None) => {}
            (Change::Splice(splices), Some(old)) => {
                if !self.splice(key, &old, &splices, scratch, now)? {
                    // It had to leave for its own successor: there is nothing to change.
                    return self.update(key, scratch, value_bytes_max, decide, now);
                }
            }
            (Change::Remove, Some(old)) => self.remove(key, &old, now),
            (Change::Retime(deadline), Some(old)) => self.retime(key, &old, deadline, now)?,
            (
                Change::Store {
                    kind,
                    deadline,
                    flags,
                },
                old,
            ) => {
                if scratch.len() > value_bytes_max {
                    return Err(Error::TooLarge {
                        bytes: scratch.len(),
                        max: value_bytes_max,
                    });
                }
                let spec = Spec {
                    kind,
                    flags,
                    ..self.next_spec(key, old.as_ref(), scratch.len(), deadline, now)
                };
                let located = self.put(key, old, &spec, Content::Bytes(scratch), now)?;
                let located = located.expect("the new value does not need the old one");
                let happened = Happened::of_store(old.as_ref());
                self.stored(key, &located, spec.version.unwrap_or(0), happened, now);
            }
        }
        Ok(result)
    }

    /// Writes over parts of a value; `false` if the item had to leave for lack of room.
    fn splice(
        &mut self,
        key: Key<'_>,
        old: &Located,
        splices: &[Splice],
        scratch: &[u8],
        now: Instant,
    ) -> Result<bool, Error> {
        let before = self.store.spec_of(old);
        let spec = Spec {
            kind: before.kind,
            flags: before.flags,
            ..self.next_spec(key, Some(old), before.value_bytes, before.deadline, now)
        };
        let splice = |store: &mut Store, located: &Located| {
            for splice in splices {
                let bytes = &scratch[splice.from..splice.from + splice.len];
                store.write_value(located, splice.at, bytes);
            }
        };
        let located = if self.store.keeps_its_place(old, &spec) {
            self.store.in_place(old, |store| {
                let located = store.rewrite_front(old, &spec, key.bytes());
                splice(store, &located);
                located
            })
        } else {
            let Some(located) = self.put(key, Some(*old), &spec, Content::Old, now)? else {
                return Ok(false);
            };
            self.store
                .in_place(&located, |store| splice(store, &located));
            located
        };
        self.stored(
            key,
            &located,
            spec.version.unwrap_or(0),
            Happened::Stored,
            now,
        );
        Ok(true)
    }

    /// The item that follows `old`: it has the fields that `old` has, and its lease has ended.
    fn next_spec(
        &mut self,
        key: Key<'_>,
        old: Option<&Located>,
        value_bytes: usize,
        deadline: Deadline,
        now: Instant,
    ) -> Spec {
        let before = old.map(|old| self.store.spec_of(old));
        let has_version = before.is_some_and(|before| before.version.is_some());
        let wants_version = has_version || value_bytes >= VERSIONED_VALUE_BYTES;
        let keeps_access = before.is_some_and(|before| before.access_s.is_some());
        Spec {
            version: wants_version.then(|| self.next_version()),
            access_s: keeps_access.then_some((now.0 / 1000) as u32),
            ..Spec::of_key(key, value_bytes, deadline)
        }
    }
}

//! Update: to read an item and then decide what becomes of it, as one step.
//!
//! The one primitive for commands that depend on the old value: the shard's lock is held from the
//! read to the write, so nothing comes between.
//!
//! Why: docs/decisions/0015. Tests: tests/update.rs, tests/model.rs.

use std::cell::Cell;

use crate::base::clock::{Deadline, Instant};
use crate::base::error::Error;
use crate::base::space::Kind;
use crate::interface::observer::Happened;
use crate::interface::options::{Apply, Change, Splice};
use crate::interface::outcome::Item;
use crate::key::Key;
use crate::log::item::{MARKED_BYTES_MAX, Spec};
use crate::shard::extend::slack_bytes;
use crate::shard::{Shard, VERSIONED_VALUE_BYTES};
use crate::store::{Content, Located};

/// How long values may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateLimits {
    pub(crate) string_bytes: usize,
    pub(crate) other_bytes: usize,
}

impl UpdateLimits {
    /// Checks the length of a value.
    fn check(&self, kind: Kind, bytes: usize) -> Result<(), Error> {
        let max = match kind {
            Kind::STRING => self.string_bytes,
            _ => self.other_bytes,
        };
        match bytes > max {
            true => Err(Error::TooLarge { bytes, max }),
            false => Ok(()),
        }
    }
}

/// The space that a [`Change::Edit`] needs.
#[derive(Clone, Copy)]
struct EditSpace {
    more: usize,
    deadline: Deadline,
}

/// How often a writer looks whether a reader still uses a value, before it copies the value: such
/// readers are other threads that copy a part of it out.
const PIN_LOOKS: usize = 1_000;

/// The parameters of a [`Change::Splice`].
struct Edit<'a> {
    parts: &'a [Splice],
    bytes: &'a [u8],
    bytes_min: usize,
    deadline: Deadline,
}

impl<'a> Edit<'a> {
    fn of(parts: &'a [Splice], bytes: &'a [u8], bytes_min: usize, deadline: Deadline) -> Self {
        Edit {
            parts,
            bytes,
            bytes_min,
            deadline,
        }
    }
}

impl Shard {
    /// Passes the item of `key` to `decide` and applies its decision; `scratch` is empty before,
    /// and holds the value that `decide` has written after. An existing item counts as used.
    ///
    /// `wanted_bytes` receives the length of the new value, even if no space is free for it.
    pub(crate) fn update<R>(
        &mut self,
        key: Key<'_>,
        scratch: &mut Vec<u8>,
        limits: &UpdateLimits,
        wanted_bytes: &Cell<usize>,
        decide: &mut impl FnMut(Option<Item<'_>>, &mut Vec<u8>) -> (R, Change),
        now: Instant,
    ) -> Result<R, Error> {
        let old = self.store.find(key, now);
        scratch.clear();
        let (result, change) = match &old {
            None => decide(None, scratch),
            Some(old) => self
                .store
                .with_used(old, now, |item| decide(Some(item), scratch)),
        };
        match (change, old) {
            (Change::Keep, _)
            | (Change::Remove | Change::Retime(_) | Change::Edit { .. }, None) => {}
            (
                Change::Splice {
                    parts,
                    bytes_min,
                    deadline,
                },
                old,
            ) => {
                let edit = Edit::of(&parts, scratch, bytes_min, deadline);
                if !self.edit(key, old.as_ref(), &edit, limits, wanted_bytes, now)? {
                    // The item was evicted for its own successor: nothing is left to change.
                    return self.update(key, scratch, limits, wanted_bytes, decide, now);
                }
            }
            (
                Change::Edit {
                    more,
                    deadline,
                    apply,
                },
                Some(old),
            ) => {
                let space = EditSpace { more, deadline };
                if !self.edit_pages(
                    key,
                    &old,
                    space,
                    (apply, scratch),
                    limits,
                    wanted_bytes,
                    now,
                )? {
                    return self.update(key, scratch, limits, wanted_bytes, decide, now);
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
                limits.check(kind, scratch.len())?;
                wanted_bytes.set(scratch.len());
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

    /// Lets a function change a value; `false` if the item had to be evicted for lack of space.
    #[expect(clippy::too_many_arguments, reason = "they are those of an update")]
    fn edit_pages(
        &mut self,
        key: Key<'_>,
        old: &Located,
        space: EditSpace,
        (apply, scratch): (Apply, &[u8]),
        limits: &UpdateLimits,
        wanted_bytes: &Cell<usize>,
        now: Instant,
    ) -> Result<bool, Error> {
        let plain = self.plain(key, Some(*old), now)?;
        let old = plain.as_ref().unwrap_or(old);
        let Some(old) = self.editable(key, old, space, limits, wanted_bytes, now)? else {
            return Ok(false);
        };
        let spec = self.next_as(key, &old, old.layout.value_bytes, space.deadline, now);
        let edited = self
            .store
            .edit(&old, &spec, space.more, |value| apply.0(value, scratch));
        let happened = Happened::of_store(Some(&edited));
        self.stored(key, &edited, spec.version.unwrap_or(0), happened, now);
        Ok(true)
    }

    /// The item where it can be edited: in place, with more memory behind it, or a copy; `None` if
    /// it had to be evicted for lack of space.
    fn editable(
        &mut self,
        key: Key<'_>,
        old: &Located,
        space: EditSpace,
        limits: &UpdateLimits,
        wanted_bytes: &Cell<usize>,
        now: Instant,
    ) -> Result<Option<Located>, Error> {
        let EditSpace { more, deadline } = space;
        let value_bytes = old.layout.value_bytes;
        if more > 0 {
            limits.check(self.store.spec_of(old).kind, value_bytes + more)?;
        }
        let mut looks = 0..PIN_LOOKS;
        while self.store.log().is_pinned(old.segment) && looks.next().is_some() {
            std::hint::spin_loop();
        }
        if !self.store.log().is_pinned(old.segment)
            && (self.store.can_edit(old, more, deadline)
                || self
                    .reclaimer
                    .make_room_behind(&mut self.store, old, more, now)
                    && self.store.can_edit(old, more, deadline))
        {
            return Ok(Some(*old));
        }
        // With more than it needs now it is not copied again at once.
        let ample = 2 * more + slack_bytes(value_bytes + more, limits.other_bytes);
        for slack in [ample, more] {
            wanted_bytes.set(value_bytes + slack);
            let Some(old) = self.store.find(key, now) else {
                return Ok(None);
            };
            let spec = Spec {
                is_edited: true,
                ..self.next_as(key, &old, value_bytes, deadline, now)
            };
            let before = self.store.leave_addresses(true);
            let put = self.put_elsewhere(key, Some(old), &spec, slack, Content::Old, now);
            self.store.leave_addresses(before);
            // No reader has a reference to the copy, whatever else of its segment is read.
            match put? {
                Some(copy) if self.store.can_edit(&copy, more, deadline) => return Ok(Some(copy)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        Err(self.store.refuse())
    }

    /// Writes over parts of a value and makes it longer; `false` if the item had to be evicted for
    /// lack of space.
    fn edit(
        &mut self,
        key: Key<'_>,
        old: Option<&Located>,
        edit: &Edit<'_>,
        limits: &UpdateLimits,
        wanted_bytes: &Cell<usize>,
        now: Instant,
    ) -> Result<bool, Error> {
        let old = self.plain(key, old.copied(), now)?;
        let old = old.as_ref();
        let before = old.map(|old| self.store.spec_of(old));
        let old_bytes = before.map_or(0, |before| before.value_bytes);
        let value_bytes = old_bytes.max(edit.bytes_min);
        if before.is_none() && value_bytes == 0 {
            return Ok(true);
        }
        let kind = before.map_or(Kind::STRING, |before| before.kind);
        if value_bytes > old_bytes {
            limits.check(kind, value_bytes)?;
        }
        let deadline = before.map_or(edit.deadline, |before| before.deadline);
        let spec = Spec {
            kind,
            flags: before.map_or(0, |before| before.flags),
            is_edited: value_bytes <= MARKED_BYTES_MAX,
            ..self.next_spec(key, old, value_bytes, deadline, now)
        };
        let in_place = old.filter(|old| self.store.grows_in_place(old, &spec));
        let located = if let Some(old) = in_place {
            self.store
                .grow_in_place(old, &spec, key.bytes(), |store, grown| {
                    let from = grown.layout.value_at() + old_bytes;
                    store.zero(from, value_bytes - old_bytes);
                    store.write_parts(&grown.layout, edit.parts, edit.bytes);
                })
        } else {
            let slack = match before.is_some() && value_bytes > old_bytes {
                true => slack_bytes(value_bytes, limits.string_bytes),
                false => 0,
            };
            wanted_bytes.set(value_bytes + slack);
            let content = Content::Edited(edit.parts, edit.bytes);
            let put = self.put_elsewhere(key, old.copied(), &spec, slack, content, now)?;
            let Some(located) = put else {
                return Ok(false);
            };
            located
        };
        let happened = Happened::of_store(old);
        self.stored(key, &located, spec.version.unwrap_or(0), happened, now);
        Ok(true)
    }

    /// The item that follows `old` and is of its kind, with its flags.
    fn next_as(
        &mut self,
        key: Key<'_>,
        old: &Located,
        value_bytes: usize,
        deadline: Deadline,
        now: Instant,
    ) -> Spec {
        let before = self.store.spec_of(old);
        Spec {
            kind: before.kind,
            flags: before.flags,
            ..self.next_after(key, Some(&before), value_bytes, deadline, now)
        }
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
        self.next_after(key, before.as_ref(), value_bytes, deadline, now)
    }

    /// The same of an item that is read already.
    fn next_after(
        &mut self,
        key: Key<'_>,
        before: Option<&Spec>,
        value_bytes: usize,
        deadline: Deadline,
        now: Instant,
    ) -> Spec {
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

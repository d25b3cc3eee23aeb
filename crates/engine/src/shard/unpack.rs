//! Unpack: compressed items that are stored plain, to be changed or because they are read often.
//!
//! Why: docs/decisions/0084. Tests: tests/compress.rs.

use crate::base::clock::Instant;
use crate::base::error::Error;
use crate::interface::outcome::Item;
use crate::key::Key;
use crate::shard::Shard;
use crate::store::{Content, Located};

impl Shard {
    /// Stores a compressed item plain, because it is about to be changed or is read often.
    #[inline(never)]
    pub(crate) fn unpacked(
        &mut self,
        key: Key<'_>,
        located: &Located,
        now: Instant,
    ) -> Result<Located, Error> {
        let (value, spec) = self.store.unpacked(located);
        let content = Content::Bytes(&value);
        let plain = self.put(key, Some(*located), &spec, content, now)?;
        Ok(plain.expect("the value does not need the old one"))
    }

    /// Shows a read item to `read`; one that is read often is stored plain then.
    pub(crate) fn show<R>(
        &mut self,
        key: Key<'_>,
        located: &Located,
        now: Instant,
        read: impl FnOnce(Item<'_>) -> R,
    ) -> R {
        if located.layout.is_packed() {
            self.store.count_packed_read(located);
        }
        let answer = self.store.with_item(located, read);
        if self.store.packing().take_hot() {
            self.unpack(key, now);
        }
        answer
    }

    /// The item, if there is one, plain: its bytes are to be changed.
    pub(crate) fn plain(
        &mut self,
        key: Key<'_>,
        old: Option<Located>,
        now: Instant,
    ) -> Result<Option<Located>, Error> {
        match old.filter(|old| old.layout.is_packed()) {
            Some(packed) => self.unpacked(key, &packed, now).map(Some),
            None => Ok(old),
        }
    }

    /// Stores the item of a key plain, if there is one.
    pub(crate) fn unpack(&mut self, key: Key<'_>, now: Instant) {
        let found = self.store.find(key, now);
        if let Some(located) = found.filter(|found| found.layout.is_packed()) {
            // Without free space it stays unchanged.
            let _ = self.unpacked(key, &located, now);
        }
    }
}

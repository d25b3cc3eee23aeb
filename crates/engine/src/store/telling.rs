//! Telling: what the observer hears of the store's items, with their plain values.
//!
//! Tests: tests/observer.rs.

use super::{Located, Store};
use crate::clock::Deadline;
use crate::key::Key;
use crate::observer::Happened;
use crate::outcome::Item;

impl Store {
    /// Tells what happens to an item that goes, whose key is at hand only where it is stored.
    pub(crate) fn report_gone(&self, located: &Located, happened: Happened) {
        if self.report.is_wanted() {
            let key = self.hashed_key_of(&located.layout);
            self.with_item(located, |item| {
                self.report.tell(key, happened, || Some(item))
            });
        }
    }

    /// Tells what was done with an item that goes at `deadline`.
    #[inline]
    pub(crate) fn report_kept(
        &self,
        key: Key<'_>,
        happened: Happened,
        located: &Located,
        deadline: Deadline,
    ) {
        if self.report.is_any() {
            self.tell_kept(key, happened, located, deadline);
        }
    }

    #[inline(never)]
    fn tell_kept(&self, key: Key<'_>, happened: Happened, located: &Located, deadline: Deadline) {
        if self.report.is_wanted() {
            self.with_item(located, |item| {
                let item = Item { deadline, ..item };
                self.report.tell(key, happened, || Some(item));
            });
        }
    }
}

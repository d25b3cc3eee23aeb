//! Observer: notifications of changes to items, whichever code path makes them.
//!
//! A shard notifies the observer of every change under its lock, so the next holder of the lock
//! sees the change, and an observer sees the changes of one key in their order. While the observer
//! wants no notifications, a change costs a branch.
//!
//! Why: docs/decisions/0015. Tests: tests/observer.rs, tests/model.rs.

use std::sync::Arc;

use crate::base::space::Space;
use crate::interface::outcome::Item;
use crate::key::Key;

/// Hears of changes; see [`Config::observer`](crate::Config::observer).
pub trait Observer: Send + Sync {
    /// Whether notifications are wanted at present; called at each change, so it has to be cheap.
    fn is_wanted(&self) -> bool;

    /// Whether a notification of each expired item is wanted. While it is, items are removed one by
    /// one, because each notification must precede the next store of its key. Has to be as cheap.
    fn hears_of_expiry(&self) -> bool {
        self.is_wanted()
    }

    /// The item of `key` has changed: `item` is the new item, or the one that expired or was
    /// evicted; `None` for a removal.
    ///
    /// Called under the shard's lock: must be short, must not block and must not call the cache.
    fn changed(&self, key: Key<'_>, happened: Happened, item: Option<Item<'_>>);

    /// All items of a space are gone, or of all spaces (`None`), without a call for each.
    ///
    /// Called once after a flush, but from each shard for one whose time comes later
    /// ([`Cache::flush_at`](crate::Cache::flush_at)): items stored between these calls stay.
    fn flushed(&self, space: Option<Space>);
}

/// The kind of a change to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Happened {
    /// The item was stored and did not exist before.
    Created,
    /// It has another value, or was marked as stale.
    Stored,
    /// It was deleted.
    Removed,
    /// It was given a deadline; the value is the same.
    Retimed,
    /// It was past its deadline when it was found or its memory was reclaimed.
    Expired,
    /// It was evicted to free memory.
    Evicted,
}

impl Happened {
    /// A store, over an older item or not.
    #[inline]
    pub(crate) fn of_store<T>(old: Option<&T>) -> Happened {
        match old {
            None => Happened::Created,
            Some(_) => Happened::Stored,
        }
    }
}

/// A shard's handle to the observer, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Report(Option<Arc<dyn Observer>>);

impl Report {
    pub(crate) fn to(observer: Option<Arc<dyn Observer>>) -> Report {
        Report(observer)
    }

    /// Whether there is an observer, which may want notifications.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.is_some()
    }

    /// Whether notifications are wanted.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        match &self.0 {
            Some(observer) => observer.is_wanted(),
            None => false,
        }
    }

    /// Whether a notification of each expired item is wanted.
    pub(crate) fn hears_of_expiry(&self) -> bool {
        let observer = self.0.as_ref();
        observer.is_some_and(|observer| observer.hears_of_expiry())
    }

    /// Notifies the observer of a change, if that is wanted.
    #[inline]
    pub(crate) fn tell<'i>(
        &self,
        key: Key<'_>,
        happened: Happened,
        item: impl FnOnce() -> Option<Item<'i>>,
    ) {
        if let Some(observer) = &self.0 {
            tell(&**observer, key, happened, item);
        }
    }

    /// Notifies the observer of a flush, if that is wanted.
    pub(crate) fn tell_flushed(&self, space: Option<Space>) {
        if let Some(observer) = &self.0
            && observer.is_wanted()
        {
            observer.flushed(space);
        }
    }
}

#[inline(never)]
fn tell<'i>(
    observer: &dyn Observer,
    key: Key<'_>,
    happened: Happened,
    item: impl FnOnce() -> Option<Item<'i>>,
) {
    if observer.is_wanted() {
        observer.changed(key, happened, item());
    }
}

impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Report").field(&self.0.is_some()).finish()
    }
}

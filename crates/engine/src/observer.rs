//! Observer: who hears of changes to items, whatever path they take.
//!
//! A shard tells of every change under its lock, so whoever takes the lock next sees the change,
//! and an observer hears the changes of one key in their order. While nobody wants to hear, a
//! change costs a branch.
//!
//! Why: docs/decisions/0015. Tests: tests/observer.rs, tests/model.rs.

use std::sync::Arc;

use crate::key::Key;
use crate::outcome::Item;
use crate::space::Space;

/// Hears of changes; see [`Config::observer`](crate::Config::observer).
pub trait Observer: Send + Sync {
    /// Whether anybody wants to hear of changes at present; asked at each change, so cheap.
    fn is_wanted(&self) -> bool;

    /// Whether anybody wants to hear of each item that expires. While that is so, items leave one
    /// by one: who hears of one has to hear before its key is stored anew. As cheap.
    fn hears_of_expiry(&self) -> bool {
        self.is_wanted()
    }

    /// Something happened to the item of `key`: `item` is what is there from now on, or what has
    /// expired or was evicted; `None` for what was removed.
    ///
    /// Called under the shard's lock: must be short, must not block and must not call the cache.
    fn changed(&self, key: Key<'_>, happened: Happened, item: Option<Item<'_>>);

    /// All items of a space are gone, or of all spaces (`None`), without a call for each.
    ///
    /// Called once after a flush, but from each shard for one whose time comes later
    /// ([`Cache::flush_at`](crate::Cache::flush_at)): items stored between these calls stay.
    fn flushed(&self, space: Option<Space>);
}

/// What happened to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Happened {
    /// It is there, and was not before.
    Created,
    /// It has another value, or was marked as stale.
    Stored,
    /// It was deleted.
    Removed,
    /// It was given a deadline; the value is the same.
    Retimed,
    /// It was past its deadline when somebody met it or its memory was taken back.
    Expired,
    /// It had to make room.
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

/// A shard's way to tell the observer, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Report(Option<Arc<dyn Observer>>);

impl Report {
    pub(crate) fn to(observer: Option<Arc<dyn Observer>>) -> Report {
        Report(observer)
    }

    /// Whether there is an observer, who may want to hear.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.is_some()
    }

    /// Whether somebody wants to hear.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        match &self.0 {
            Some(observer) => observer.is_wanted(),
            None => false,
        }
    }

    /// Whether somebody wants to hear of each item that expires.
    pub(crate) fn hears_of_expiry(&self) -> bool {
        let observer = self.0.as_ref();
        observer.is_some_and(|observer| observer.hears_of_expiry())
    }

    /// Tells what happened, if somebody wants to hear.
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

    /// Tells of a flush, if somebody wants to hear.
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

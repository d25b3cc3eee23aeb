//! The keys that this thread is loading: a loader that requests its own key would wait for ever.

use std::cell::RefCell;

use crate::read_through::error::Error;

/// A key of a cache, as [`crate::Near`] numbers it.
type Identity = (usize, u64);

thread_local! {
    static LOADING: RefCell<Vec<Identity>> = const { RefCell::new(Vec::new()) };
}

/// Refuses to wait for a key that this thread is loading.
pub(super) fn refuse(identity: Identity) -> Result<(), Error> {
    match LOADING.with_borrow(|loading| loading.contains(&identity)) {
        true => Err(Error::OwnLoad),
        false => Ok(()),
    }
}

/// The time in which this thread runs a loader.
pub(super) struct OwnLoad;

impl OwnLoad {
    pub(super) fn begin(identity: Identity) -> OwnLoad {
        LOADING.with_borrow_mut(|loading| loading.push(identity));
        OwnLoad
    }
}

impl Drop for OwnLoad {
    fn drop(&mut self) {
        // Loaders of one thread are nested, so the last to begin is the first to end.
        LOADING.with_borrow_mut(Vec::pop);
    }
}

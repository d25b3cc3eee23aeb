//! A local store, whatever its keys and values.
//!
//! [`open`] chooses one of the stores that are compiled, by the kind of keys; [`AnyStore`] is their
//! common interface.
#![allow(unsafe_code, reason = "keys and drafts are pointers from C")]

use std::ffi::c_void;
use std::time::Duration;

use cellar_near::{InsertOptions, LoadingOf, LocalOf, LocalStats, Policy};

use crate::border::{CELLAR_UNSET, Failure, border, reference, time};
use crate::key::{BytesKey, KeyIn, StoreKey};
use crate::value::{DraftOut, HeldOut, Maker, Slot};

/// Keys are bytes.
pub const CELLAR_KEYS_BYTES: i32 = 0;
/// Keys are numbers of 64 bits.
pub const CELLAR_KEYS_NUMBERS: i32 = 1;

/// Evicts entries that were read only once early; best unless plain LRU is required.
pub const CELLAR_S3_FIFO: i32 = 0;
/// Evicts the least recently used entry.
pub const CELLAR_LRU: i32 = 1;

/// The bytes that an entry takes beside key and value, as counted against `bytes_max`.
pub(crate) const ENTRY_BYTES: usize = 80;

/// The policy of this number.
pub(crate) fn policy(number: i32) -> Result<Policy, Failure> {
    match number {
        CELLAR_S3_FIFO => Ok(Policy::S3Fifo),
        CELLAR_LRU => Ok(Policy::Lru),
        other => Err(Failure::argument(format!("there is no policy {other}"))),
    }
}

/// A loader's value, to be stored.
#[derive(Debug)]
pub(crate) struct FilledDraft<'a> {
    /// None once it is taken.
    pub(crate) draft: &'a mut DraftOut,
    /// Unless set, the store's own.
    pub(crate) ttl_ms: u64,
    /// Bytes that the value has elsewhere.
    pub(crate) more_bytes: u64,
}

/// A loader, as a store calls it.
pub(crate) type Loading<'a, 'd> = &'a mut dyn FnMut() -> Result<Option<FilledDraft<'d>>, Failure>;

/// How C reads from a store of one type: a value with a count for the caller, or null.
pub(crate) type GetIn = unsafe extern "C" fn(store: *const c_void, key: KeyIn) -> *const c_void;

/// A local store behind its C functions.
///
/// The caller has to release the values that it returns.
pub(crate) trait AnyStore: Send + Sync {
    /// The function that reads from it, and the store pointer to pass to it.
    fn reader(&self) -> (*const c_void, GetIn);

    /// # Safety
    /// As [`StoreKey::look`].
    unsafe fn get(&self, key: &KeyIn) -> Result<Option<HeldOut>, Failure>;

    /// # Safety
    /// As [`StoreKey::look`]; drafts that `loader` returns as [`Slot::filled`].
    unsafe fn get_or_load(
        &self,
        key: &KeyIn,
        wait_max: Option<Duration>,
        loader: Loading<'_, '_>,
    ) -> Result<Option<HeldOut>, Failure>;

    /// # Safety
    /// As [`StoreKey::look`]; the draft as [`Slot::filled`].
    unsafe fn insert(&self, key: &KeyIn, draft: FilledDraft<'_>) -> Result<(), Failure>;

    /// # Safety
    /// As [`StoreKey::look`].
    unsafe fn remove(&self, key: &KeyIn) -> Result<bool, Failure>;

    fn clear(&self);

    fn reclaim(&self);

    fn stats(&self) -> LocalStats;
}

/// How a store is bounded and cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreSettings {
    pub(crate) entries_max: u64,
    /// Instead of entries, if it is not zero.
    pub(crate) bytes_max: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) shards: usize,
    pub(crate) policy: Policy,
}

/// A store for these keys and values.
pub(crate) fn open(
    keys: i32,
    maker: Maker,
    settings: StoreSettings,
) -> Result<Box<dyn AnyStore>, Failure> {
    match keys {
        CELLAR_KEYS_BYTES => Ok(Box::new(KeyedStore::<BytesKey>::new(maker, settings))),
        CELLAR_KEYS_NUMBERS => Ok(Box::new(KeyedStore::<u64>::new(maker, settings))),
        other => Err(Failure::argument(format!("there are no keys {other}"))),
    }
}

/// A store of keys of one kind.
struct KeyedStore<K> {
    store: LoadingOf<K, Slot, Failure>,
    maker: Maker,
    is_weighed: bool,
}

impl<K: StoreKey> KeyedStore<K> {
    fn new(maker: Maker, settings: StoreSettings) -> Self {
        let local = LocalOf::<K, Slot>::builder().policy(settings.policy);
        let is_weighed = settings.bytes_max > 0;
        let local = match is_weighed {
            true => local.bytes_max(settings.bytes_max, |_, head| head.weight()),
            false => local.entries_max(settings.entries_max),
        };
        let local = match settings.shards {
            0 => local,
            shards => local.shards(shards),
        };
        let local = match time(settings.ttl_ms) {
            Some(ttl) => local.ttl(ttl),
            None => local,
        };
        KeyedStore {
            store: LoadingOf::new(local.build()),
            maker,
            is_weighed,
        }
    }

    /// The value of a draft, and how it is stored.
    ///
    /// # Safety
    /// As [`Slot::filled`].
    unsafe fn accept(
        &self,
        look: &K::Look,
        draft: FilledDraft<'_>,
    ) -> Result<(Slot, InsertOptions), Failure> {
        let weight = match self.is_weighed {
            true => {
                let more = usize::try_from(draft.more_bytes).unwrap_or(usize::MAX);
                let whole = more.saturating_add(K::weight(look) + self.maker.size() + ENTRY_BYTES);
                u32::try_from(whole).unwrap_or(u32::MAX)
            }
            false => 1,
        };
        // SAFETY: as the caller promises.
        let value = unsafe { Slot::filled(draft.draft, self.maker, weight) }?;
        let options = InsertOptions::default();
        Ok(match draft.ttl_ms {
            CELLAR_UNSET => (value, options),
            ttl_ms => (value, options.ttl(Duration::from_millis(ttl_ms))),
        })
    }
}

impl<K: StoreKey> AnyStore for KeyedStore<K> {
    fn reader(&self) -> (*const c_void, GetIn) {
        (std::ptr::from_ref(self).cast(), get::<K>)
    }

    unsafe fn get(&self, key: &KeyIn) -> Result<Option<HeldOut>, Failure> {
        // SAFETY: as the caller promises.
        let look = unsafe { K::look(key) }?;
        Ok(self.store.get(look).map(HeldOut::of_slot))
    }

    unsafe fn get_or_load(
        &self,
        key: &KeyIn,
        wait_max: Option<Duration>,
        loader: Loading<'_, '_>,
    ) -> Result<Option<HeldOut>, Failure> {
        // SAFETY: as the caller promises.
        let look = unsafe { K::look(key) }?;
        let found = self.store.get_or_load(look, wait_max, || {
            let Some(draft) = loader()? else {
                return Ok(None);
            };
            // SAFETY: as the caller promises.
            unsafe { self.accept(look, draft) }.map(Some)
        })?;
        Ok(found.map(HeldOut::of_slot))
    }

    unsafe fn insert(&self, key: &KeyIn, draft: FilledDraft<'_>) -> Result<(), Failure> {
        // SAFETY: as the caller promises.
        let look = unsafe { K::look(key) }?;
        // SAFETY: as the caller promises.
        let (value, options) = unsafe { self.accept(look, draft) }?;
        self.store.insert_with(look.to_owned(), value, options);
        Ok(())
    }

    unsafe fn remove(&self, key: &KeyIn) -> Result<bool, Failure> {
        // SAFETY: as the caller promises.
        let look = unsafe { K::look(key) }?;
        Ok(self.store.remove(look).is_some())
    }

    fn clear(&self) {
        self.store.clear();
    }

    fn reclaim(&self) {
        self.store.local().reclaim();
    }

    fn stats(&self) -> LocalStats {
        self.store.local().stats()
    }
}

/// Reads from a store of one type: all of a hit in one function, whose answer is one register.
///
/// # Safety
/// `store` is a `KeyedStore<K>` that lives meanwhile, and the key's bytes are there.
unsafe extern "C" fn get<K: StoreKey>(store: *const c_void, key: KeyIn) -> *const c_void {
    let mut value = std::ptr::null();
    border(std::ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let store = unsafe { reference(store.cast::<KeyedStore<K>>()) }?;
        // SAFETY: as the caller promises.
        let look = unsafe { K::look(&key) }?;
        if let Some(slot) = store.store.get(look) {
            value = slot.into_raw();
        }
        Ok(())
    });
    value
}

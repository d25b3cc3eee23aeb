//! The local store's functions.
#![allow(unsafe_code, reason = "the caller's pointers are followed here")]

use std::ffi::c_void;

use crate::border::{
    CELLAR_NONE, CELLAR_OK, CELLAR_UNSET, ErrorOut, Failure, Foreign, Status, border, bytes,
    change, close_handle, open_handle, reference, time, write,
};
use crate::key::KeyIn;
use crate::store::{
    AnyStore, CELLAR_KEYS_BYTES, CELLAR_S3_FIFO, FilledDraft, StoreSettings, open, policy,
};
use crate::value::{CELLAR_BYTES_MAX, DraftOut, HeldOut, Holder, Maker, SLOTS, Slot, ValueType};

/// Default bound of a store, in entries.
const ENTRIES_MAX: u64 = 10_000;

/// A store in this process. Any thread may use it; `cellar_local_close` closes it.
pub struct LocalHandle {
    store: Box<dyn AnyStore>,
    maker: Maker,
}

/// The limits, shards and key type of a store. `cellar_local_defaults` fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LocalOptions {
    /// Limit of entries; 10,000 by default.
    pub entries_max: u64,
    /// If not zero, the limit in bytes, instead of `entries_max`: the key, the size of the value's
    /// slot, 80 for the store itself, and `more_bytes`. Each shard has an equal part of them.
    pub bytes_max: u64,
    /// The TTL of an entry in milliseconds; `CELLAR_UNSET`, the default: none.
    pub ttl_ms: u64,
    /// The number of shards; 0, the default: chosen for the machine.
    pub shards: usize,
    /// `CELLAR_S3_FIFO`, the default, or `CELLAR_LRU`.
    pub policy: i32,
    /// `CELLAR_KEYS_BYTES`, the default, or `CELLAR_KEYS_NUMBERS`.
    pub keys: i32,
    /// The type of its values; all zero, the default: `cellar_bytes`.
    pub values: ValueType,
}

/// The result of a loader.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LoadedOut {
    /// A draft of the store that contains the value. The library takes it.
    pub draft: DraftOut,
    /// The TTL in milliseconds; `CELLAR_UNSET`, the initial value: that of the store.
    pub ttl_ms: u64,
    /// Bytes that the value has outside of its slot; initially 0.
    pub more_bytes: u64,
}

/// Creates a missing value: fills `made` and returns `CELLAR_OK`, or returns `CELLAR_NONE`, or
/// another status with a text in `error`.
///
/// It runs on the calling thread, must not throw, and may use the store for other keys.
pub type LoaderIn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        made: *mut LoadedOut,
        error: *mut ErrorOut,
    ) -> Status,
>;

/// Counters and contents of a store.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LocalFigures {
    /// Reads that found a live entry.
    pub hits: u64,
    /// Reads that missed.
    pub misses: u64,
    /// Values that were stored.
    pub inserts: u64,
    /// Values that were evicted to free space.
    pub evictions: u64,
    /// Values that expired.
    pub expirations: u64,
    /// Values that were replaced.
    pub replacements: u64,
    /// Values that were removed.
    pub removals: u64,
    /// Current entries, including expired ones that are not removed yet.
    pub entries: u64,
    /// Their weight: bytes, or one for each entry.
    pub weight: u64,
}

impl LocalOptions {
    fn settings(&self) -> Result<StoreSettings, Failure> {
        Ok(StoreSettings {
            entries_max: self.entries_max,
            bytes_max: self.bytes_max,
            ttl_ms: self.ttl_ms,
            shards: self.shards,
            policy: policy(self.policy)?,
        })
    }
}

/// Returns the defaults: 10,000 entries, keys and values of bytes, no TTL.
#[unsafe(no_mangle)]
pub extern "C" fn cellar_local_defaults() -> LocalOptions {
    LocalOptions {
        entries_max: ENTRIES_MAX,
        bytes_max: 0,
        ttl_ms: CELLAR_UNSET,
        shards: 0,
        policy: CELLAR_S3_FIFO,
        keys: CELLAR_KEYS_BYTES,
        values: ValueType {
            size: 0,
            alignment: 0,
            drop: None,
        },
    }
}

/// Opens a store.
///
/// # Safety
/// Pointers are null or point to what their types say; `values.drop` may be called with a value of
/// the type by any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_open(
    options: *const LocalOptions,
    local: *mut *mut LocalHandle,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let options = unsafe { reference(options) }?;
        let maker = Maker::of(options.values)?;
        let store = open(options.keys, maker, options.settings()?)?;
        // SAFETY: as the caller promises.
        unsafe { open_handle(local, LocalHandle { store, maker }) }
    })
}

/// Closes a store and sets the pointer to null, so a second call has no effect. Held values stay
/// valid.
///
/// # Safety
/// `local` is null, or points to null or to an open store; no other thread uses it during the call
/// or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_close(
    local: *mut *mut LocalHandle,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises, of a handle that `cellar_local_open` has opened.
        unsafe { close_handle(local) }
    })
}

/// Returns memory for a value. The caller fills and stores it, or frees it with
/// `cellar_draft_free`.
///
/// # Safety
/// `local` is null or an open store, `draft` null or memory for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_draft(
    local: *const LocalHandle,
    draft: *mut DraftOut,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(local) }?;
        // SAFETY: as the caller promises.
        unsafe { handle.maker.hand_out(draft) }
    })
}

/// Returns a draft with a copy of `length` bytes, for a loader; only for stores without a type of
/// values. The bytes leak if the loader does not return the draft.
///
/// # Safety
/// `local` is null or an open store, `draft` null or memory for one; the bytes are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_draft_bytes(
    local: *const LocalHandle,
    data: *const u8,
    length: usize,
    draft: *mut DraftOut,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(local) }?;
        // SAFETY: as the caller promises.
        unsafe { handle.maker.hand_out_bytes(data, length, draft) }
    })
}

/// Stores the value that the caller has created in a draft, and replaces an older one.
///
/// If it returns `CELLAR_OK`, the library takes the draft and sets it to none; otherwise the caller
/// keeps it. `ttl_ms` is the TTL, or `CELLAR_UNSET`; zero expires at once. `more_bytes` is its size
/// outside of its slot, and counts against `bytes_max`.
///
/// # Safety
/// `local` is null or an open store; the bytes of `key` are readable; `draft` is null, none, or a
/// draft of this store with a complete value, which no other thread uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_insert(
    local: *const LocalHandle,
    key: KeyIn,
    draft: *mut DraftOut,
    ttl_ms: u64,
    more_bytes: u64,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(local) }?;
        let draft = FilledDraft {
            // SAFETY: as the caller promises.
            draft: unsafe { change(draft) }?,
            ttl_ms,
            more_bytes,
        };
        // SAFETY: as the caller promises.
        unsafe { handle.store.insert(&key, draft) }
    })
}

/// Stores a copy of `length` bytes; only for stores without a type of values.
///
/// # Safety
/// `local` is null or an open store; the bytes of `key` and `data` are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_insert_bytes(
    local: *const LocalHandle,
    key: KeyIn,
    data: *const u8,
    length: usize,
    ttl_ms: u64,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(local) }?;
        // SAFETY: as the caller promises.
        let data = unsafe { bytes(data, length, CELLAR_BYTES_MAX) }?;
        let mut draft = handle.maker.draft_of_bytes(data)?;
        let filled = FilledDraft {
            draft: &mut draft,
            ttl_ms,
            more_bytes: data.len() as u64,
        };
        // SAFETY: the key as the caller promises; the draft was made and filled above.
        unsafe { handle.store.insert(&key, filled) }.inspect_err(|_| {
            // SAFETY: a draft that was not taken; filled now, so that its bytes end with it.
            drop(unsafe { Slot::filled(&mut draft, handle.maker, 0) });
        })
    })
}

/// Returns the value of `key`, to be released with `cellar_release`; `CELLAR_NONE` if there is none
/// or it has expired.
///
/// # Safety
/// `local` is null or an open store; the bytes of `key` are readable; `held` is null or memory for
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_get(
    local: *const LocalHandle,
    key: KeyIn,
    held: *mut HeldOut,
) -> Status {
    border(std::ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        unsafe { write(held, HeldOut::NONE) }?;
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(local) }?;
        // SAFETY: as the caller promises.
        let found = unsafe { handle.store.get(&key) }?;
        // SAFETY: as above, where it was not null.
        unsafe { write(held, found.ok_or_else(Failure::none)?) }
    })
}

/// Reads a store or near cache with one call that returns one register: for loops of hits.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ReaderOut {
    /// The first argument of `get`, valid while the store or cache is open.
    pub store: *const c_void,
    /// Returns the value of `key`, which is its own token, or null on a miss or an error.
    pub get: unsafe extern "C" fn(store: *const c_void, key: KeyIn) -> *const c_void,
    /// The holder of the values that `get` returns.
    pub holder: *const Holder,
}

/// Returns the reader of this store, whose `get` does the same as `cellar_local_get`.
///
/// # Safety
/// `local` is null or an open store, `reader` null or memory for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_reader(
    local: *const LocalHandle,
    reader: *mut ReaderOut,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let (store, get) = unsafe { reference(local) }?.store.reader();
        // SAFETY: as the caller promises.
        unsafe {
            write(
                reader,
                ReaderOut {
                    store,
                    get,
                    holder: &raw const SLOTS,
                },
            )
        }
    })
}

/// Returns the value of `key`; on a miss, `loader` creates it, or this thread waits for another
/// one's load, at most `wait_max_ms` (`CELLAR_UNSET`: without limit).
///
/// If several threads miss the key, one loader runs, and all get its value, or its status and text.
/// Errors and missing values are not cached.
///
/// # Safety
/// As `cellar_local_get`; `loader` is null or obeys its type, and may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_get_or_load(
    local: *const LocalHandle,
    key: KeyIn,
    loader: LoaderIn,
    context: *mut c_void,
    wait_max_ms: u64,
    held: *mut HeldOut,
    error: *mut ErrorOut,
) -> Status {
    let context = Foreign(context);
    border(error, || {
        // SAFETY: as the caller promises.
        unsafe { write(held, HeldOut::NONE) }?;
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(local) }?;
        let loader = loader.ok_or_else(|| Failure::argument("no loader"))?;
        let mut made = LoadedOut {
            draft: DraftOut::NONE,
            ttl_ms: CELLAR_UNSET,
            more_bytes: 0,
        };
        let mut given = Some(&mut made);
        let mut load = || {
            // A store asks its loader once.
            let Some(made) = given.take() else {
                return Ok(None);
            };
            let mut told = ErrorOut::empty();
            // SAFETY: as the caller promises; both are room of this function's.
            match unsafe { loader(context.0, &raw mut *made, &raw mut told) } {
                CELLAR_OK => Ok(Some(FilledDraft {
                    draft: &mut made.draft,
                    ttl_ms: made.ttl_ms,
                    more_bytes: made.more_bytes,
                })),
                CELLAR_NONE => Ok(None),
                status => Err(Failure::of_callback(status, &told)),
            }
        };
        let wait_max = time(wait_max_ms);
        // SAFETY: as the caller promises, of the loader's drafts too.
        let found = unsafe { handle.store.get_or_load(&key, wait_max, &mut load) }?;
        // SAFETY: as above, where it was not null.
        unsafe { write(held, found.ok_or_else(Failure::none)?) }
    })
}

/// Removes `key`; `CELLAR_NONE` if it did not exist.
///
/// # Safety
/// `local` is null or an open store; the bytes of `key` are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_remove(
    local: *const LocalHandle,
    key: KeyIn,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(local) }?;
        // SAFETY: as the caller promises.
        match unsafe { handle.store.remove(&key) }? {
            true => Ok(()),
            false => Err(Failure::none()),
        }
    })
}

/// Removes all entries.
///
/// # Safety
/// `local` is null or an open store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_clear(
    local: *const LocalHandle,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        unsafe { reference(local) }?.store.clear();
        Ok(())
    })
}

/// Removes expired entries, in up to 16,384 slots of each shard; reads never return them in any
/// case.
///
/// # Safety
/// `local` is null or an open store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_reclaim(
    local: *const LocalHandle,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        unsafe { reference(local) }?.store.reclaim();
        Ok(())
    })
}

/// Reads the counters.
///
/// # Safety
/// `local` is null or an open store, `figures` null or memory for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_local_stats(
    local: *const LocalHandle,
    figures: *mut LocalFigures,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let stats = unsafe { reference(local) }?.store.stats();
        let told = LocalFigures {
            hits: stats.hits,
            misses: stats.misses,
            inserts: stats.inserts,
            evictions: stats.evictions,
            expirations: stats.expirations,
            replacements: stats.replacements,
            removals: stats.removals,
            entries: stats.entries,
            weight: stats.weight,
        };
        // SAFETY: as the caller promises.
        unsafe { write(figures, told) }
    })
}

//! The near cache's functions.
#![allow(unsafe_code, reason = "the caller's pointers are followed here")]

use std::ffi::c_void;

use cellar_near::{BlockingNear, Held};

use crate::border::{
    CELLAR_NONE, CELLAR_OK, CELLAR_UNSET, ErrorOut, Failure, Foreign, Status, border, change,
    close_handle, open_handle, reference, time, write,
};
use crate::key::{BytesKey, KeyIn, Sought, StoreKey};
use crate::local::{LoadedOut, LoaderIn, ReaderOut};
use crate::near_options::NearOptions;
use crate::value::{DraftOut, HeldOut, Maker, SLOTS, Slot};

/// A cache in front of a server. Any thread may use it; `cellar_near_close` closes it.
pub struct NearHandle {
    near: BlockingNear<BytesKey, Slot>,
    maker: Maker,
}

/// Counters and contents of a near cache; see docs/near.md.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NearFigures {
    /// Reads answered from memory.
    pub hits: u64,
    /// Reads that sent a request or waited.
    pub misses: u64,
    /// Requests to the server.
    pub loads: u64,
    /// Misses that waited for the request of another thread.
    pub shared: u64,
    /// Requests and loaders that failed.
    pub errors: u64,
    /// Reads of out-of-date entries because the server failed.
    pub stale_served: u64,
    /// Invalidations of single keys.
    pub invalidations: u64,
    /// Times when all entries became invalid.
    pub flushes: u64,
    /// Answers that were not stored because they are larger than a shard's part of `bytes_max`.
    pub too_heavy: u64,
    /// Refreshes that failed.
    pub refreshes_failed: u64,
    /// Current entries.
    pub entries: u64,
    /// Their weight: bytes, or one for each entry.
    pub weight: u64,
}

/// Opens a near cache and starts its thread. It connects at the first read or write.
///
/// # Safety
/// Pointers are null or point to values of their types; any thread may call the functions of
/// `values` and `codec` until the cache and its last value are gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_open(
    options: *const NearOptions,
    near: *mut *mut NearHandle,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let options = unsafe { reference(options) }?;
        let maker = Maker::of(options.values)?;
        // SAFETY: as the caller promises.
        let builder = unsafe { options.builder(maker) }?;
        let mut opened = options.adjust(builder)?.build_blocking()?;
        if let Some(most) = time(options.wait_max_ms) {
            opened = opened.wait_max(most);
        }
        let opened = NearHandle {
            near: opened,
            maker,
        };
        // SAFETY: as the caller promises.
        unsafe { open_handle(near, opened) }
    })
}

/// Closes a near cache with its thread and connections, and sets the pointer to null, so a second
/// call has no effect. Held values stay valid.
///
/// # Safety
/// `near` is null, or points to null or to an open cache; no other thread uses it during the call
/// or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_close(
    near: *mut *mut NearHandle,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises, of a handle that `cellar_near_open` has opened.
        unsafe { close_handle(near) }
    })
}

/// Returns memory for a value. The caller fills and stores it, or frees it with
/// `cellar_draft_free`.
///
/// # Safety
/// `near` is null or an open cache, `draft` null or memory for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_draft(
    near: *const NearHandle,
    draft: *mut DraftOut,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(near) }?;
        // SAFETY: as the caller promises.
        unsafe { handle.maker.hand_out(draft) }
    })
}

/// Returns a draft with a copy of `length` bytes, as `cellar_local_draft_bytes`.
///
/// # Safety
/// `near` is null or an open cache, `draft` null or memory for one; the bytes are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_draft_bytes(
    near: *const NearHandle,
    data: *const u8,
    length: usize,
    draft: *mut DraftOut,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(near) }?;
        // SAFETY: as the caller promises.
        unsafe { handle.maker.hand_out_bytes(data, length, draft) }
    })
}

/// Writes a hit to the caller.
///
/// # Safety
/// `to` points to space for one.
unsafe fn hand_out(found: Option<Held<Slot>>, to: *mut HeldOut) -> Result<(), Failure> {
    let held = found.ok_or_else(Failure::none)?;
    let is_stale = held.is_stale();
    // SAFETY: as the caller promises.
    unsafe { write(to, HeldOut::of_entry(held.into_entry(), is_stale)) }
}

/// Returns the value of `key` from memory or from the server, to be released with `cellar_release`;
/// `CELLAR_NONE` if there is none. Threads that miss the same key share one request.
///
/// # Safety
/// `near` is null or an open cache; the bytes of `key` are readable; `held` is null or memory for
/// one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_get(
    near: *const NearHandle,
    key: KeyIn,
    held: *mut HeldOut,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        unsafe { write(held, HeldOut::NONE) }?;
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(near) }?;
        // SAFETY: as the caller promises.
        let look = unsafe { BytesKey::look(&key) }?;
        // SAFETY: as above, where it was not null.
        unsafe { hand_out(handle.near.get::<Sought>(look)?, held) }
    })
}

/// Returns the reader of this cache. Its `get` returns a value that is in memory and not due for a
/// refresh. If it returns null, call `cellar_near_get`.
///
/// # Safety
/// `near` is null or an open cache, `reader` null or memory for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_reader(
    near: *const NearHandle,
    reader: *mut ReaderOut,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(near) }?;
        let read = ReaderOut {
            store: std::ptr::from_ref(handle).cast(),
            get: get_fresh,
            holder: &raw const SLOTS,
        };
        // SAFETY: as the caller promises.
        unsafe { write(reader, read) }
    })
}

/// All of a hit in one function, whose answer is one register.
///
/// # Safety
/// `near` is an open cache; the key's bytes are there.
unsafe extern "C" fn get_fresh(near: *const c_void, key: KeyIn) -> *const c_void {
    let mut value = std::ptr::null();
    border(std::ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(near.cast::<NearHandle>()) }?;
        // SAFETY: as the caller promises.
        let look = unsafe { BytesKey::look(&key) }?;
        let read = handle
            .near
            .near()
            .read_fresh::<Sought, _>(look, Slot::clone);
        if let Some(slot) = read {
            value = slot.into_raw();
        }
        Ok(())
    });
    value
}

/// As `cellar_near_get`, but only from memory; sends no request.
///
/// # Safety
/// As `cellar_near_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_peek(
    near: *const NearHandle,
    key: KeyIn,
    held: *mut HeldOut,
) -> Status {
    let mut status = CELLAR_OK;
    let ended = border(std::ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        unsafe { write(held, HeldOut::NONE) }?;
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(near) }?;
        // SAFETY: as the caller promises.
        let look = unsafe { BytesKey::look(&key) }?;
        match handle.near.peek::<Sought>(look) {
            // SAFETY: as above, where it was not null.
            Some(found) => unsafe { hand_out(Some(found), held) },
            None => {
                status = CELLAR_NONE;
                Ok(())
            }
        }
    });
    if ended == CELLAR_OK { status } else { ended }
}

/// Returns the value of `key`; if neither memory nor the server has one, `loader` creates it, and
/// it is stored on the server and read back. Its `ttl_ms` and `more_bytes` are ignored.
///
/// If several threads miss the key, one loader runs; on a server with leases this includes other
/// processes. All get its value, or its status and text.
///
/// # Safety
/// As `cellar_near_get`; `loader` is null or obeys its type, and may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_get_or_load(
    near: *const NearHandle,
    key: KeyIn,
    loader: LoaderIn,
    context: *mut c_void,
    held: *mut HeldOut,
    error: *mut ErrorOut,
) -> Status {
    let context = Foreign(context);
    border(error, || {
        // SAFETY: as the caller promises.
        unsafe { write(held, HeldOut::NONE) }?;
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(near) }?;
        // SAFETY: as the caller promises.
        let look = unsafe { BytesKey::look(&key) }?;
        let loader = loader.ok_or_else(|| Failure::argument("no loader"))?;
        let load = || {
            let mut made = LoadedOut {
                draft: DraftOut::NONE,
                ttl_ms: CELLAR_UNSET,
                more_bytes: 0,
            };
            let mut told = ErrorOut::empty();
            // SAFETY: as the caller promises; both are room of this function's.
            match unsafe { loader(context.0, &raw mut made, &raw mut told) } {
                // SAFETY: a draft that the loader has filled, by the promise of its type.
                CELLAR_OK => unsafe { Slot::filled(&mut made.draft, handle.maker, 0) }.map(Some),
                CELLAR_NONE => Ok(None),
                status => Err(Failure::of_callback(status, &told)),
            }
        };
        let found = handle.near.get_or_load::<Sought, _, _>(look, load)?;
        // SAFETY: as above, where it was not null.
        unsafe { hand_out(found, held) }
    })
}

/// Stores the value that the caller has created in a draft on the server; reads of this cache
/// return it as soon as this returns. If the draft is set to none, the library has taken it,
/// whatever the status; otherwise the caller keeps it. `ttl_ms` is the TTL on the server, or
/// `CELLAR_UNSET`.
///
/// # Safety
/// `near` is null or an open cache; the bytes of `key` are readable; `draft` is null, none, or a
/// draft of this cache with a complete value, which no other thread uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_set(
    near: *const NearHandle,
    key: KeyIn,
    draft: *mut DraftOut,
    ttl_ms: u64,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(near) }?;
        // SAFETY: as the caller promises.
        let look = unsafe { BytesKey::look(&key) }?;
        // SAFETY: as the caller promises.
        let draft = unsafe { change(draft) }?;
        // SAFETY: as the caller promises.
        let value = unsafe { Slot::filled(draft, handle.maker, 0) }?;
        match time(ttl_ms) {
            Some(ttl) => handle.near.set_for::<Sought>(look, &value, ttl)?,
            None => handle.near.set::<Sought>(look, &value)?,
        }
        Ok(())
    })
}

/// Removes `key` on the server and in memory; `CELLAR_NONE` if the server had none.
///
/// # Safety
/// `near` is null or an open cache; the bytes of `key` are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_remove(
    near: *const NearHandle,
    key: KeyIn,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(near) }?;
        // SAFETY: as the caller promises.
        let look = unsafe { BytesKey::look(&key) }?;
        match handle.near.remove::<Sought>(look)? {
            true => Ok(()),
            false => Err(Failure::none()),
        }
    })
}

/// Drops the copy of `key` in memory, without a request to the server.
///
/// # Safety
/// As `cellar_near_remove`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_forget(
    near: *const NearHandle,
    key: KeyIn,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let handle = unsafe { reference(near) }?;
        // SAFETY: as the caller promises.
        let look = unsafe { BytesKey::look(&key) }?;
        handle.near.forget::<Sought>(look);
        Ok(())
    })
}

/// Reads the counters.
///
/// # Safety
/// `near` is null or an open cache, `figures` null or memory for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_near_stats(
    near: *const NearHandle,
    figures: *mut NearFigures,
    error: *mut ErrorOut,
) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let stats = unsafe { reference(near) }?.near.stats();
        let told = NearFigures {
            hits: stats.hits,
            misses: stats.misses,
            loads: stats.loads,
            shared: stats.shared,
            errors: stats.errors,
            stale_served: stats.stale_served,
            invalidations: stats.invalidations,
            flushes: stats.flushes,
            too_heavy: stats.too_heavy,
            refreshes_failed: stats.refreshes_failed,
            entries: stats.entries,
            weight: stats.weight,
        };
        // SAFETY: as the caller promises.
        unsafe { write(figures, told) }
    })
}

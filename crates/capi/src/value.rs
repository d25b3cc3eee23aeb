//! Values of the caller's types, in memory of the library.
//!
//! A value lies in one allocation with its [`Head`], which counts its holders, so a hit touches no
//! other line. It is a draft, which only the caller has, until it is stored; from then on it does
//! not change. The count is the library's own, so that the header for C++ may change it directly
//! ([`Holder::end`]).
//!
//! Invariant: a slot is the address behind a [`Head`], and each slot that C has, like each
//! [`Slot`], owns one of its counts.
#![allow(unsafe_code, reason = "values are handed to C as pointers")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cellar_near::Entry;

use crate::border::{ErrorOut, Failure, Status, border, bytes, change, reference};

/// Largest value that fits in a slot; for a larger one store a pointer.
pub const CELLAR_VALUE_BYTES_MAX: usize = 4096;
/// Largest alignment of a slot.
pub const CELLAR_VALUE_ALIGNMENT_MAX: usize = 16;
/// Offset of the reference count, 64 bits, before a value that is its own token.
pub const CELLAR_COUNT_BEFORE: usize = 16;
/// Limit of bytes in a `cellar_bytes`.
pub const CELLAR_BYTES_MAX: usize = 512 << 20;

/// Types of values in one process.
const KINDS_MAX: usize = 1024;

/// The type of values. All zero: the values are `cellar_bytes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ValueType {
    /// Its size, at most `CELLAR_VALUE_BYTES_MAX`.
    pub size: usize,
    /// Its alignment, a power of two and at most `CELLAR_VALUE_ALIGNMENT_MAX`.
    pub alignment: usize,
    /// Destroys a value when its last reference is gone, on any thread; may be null. It must not
    /// throw.
    pub drop: Option<unsafe extern "C" fn(value: *mut c_void)>,
}

/// The value of stores and caches that were opened without a type: bytes. Owned by the library;
/// read only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The first byte.
    pub data: *const u8,
    /// The number of bytes.
    pub length: usize,
}

/// The functions for the reference count of a held value, which the library provides.
#[repr(C)]
#[derive(Debug)]
pub struct Holder {
    /// Increments the count.
    pub retain: unsafe extern "C" fn(token: *const c_void),
    /// Decrements the count.
    pub release: unsafe extern "C" fn(token: *const c_void),
    /// For a value that is its own token. The caller may then count itself, with atomic additions
    /// to the 64 bits `CELLAR_COUNT_BEFORE` bytes before the value. If its decrement, with release
    /// ordering, removes the last reference, it calls this instead of `release`.
    pub end: Option<unsafe extern "C" fn(token: *const c_void)>,
    /// Whether the value is out of date and was returned because the server failed.
    pub is_stale: bool,
}

/// A value that the caller holds until it releases it. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeldOut {
    /// The value, read-only, or null.
    pub value: *const c_void,
    /// The handle of the value for its holder.
    pub token: *const c_void,
    /// The functions for its reference count.
    pub holder: *const Holder,
}

/// Memory for a value that the caller creates. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DraftOut {
    /// The memory, or null.
    pub slot: *mut c_void,
    /// Internal.
    pub kind: *const c_void,
}

/// The facts about all values of one type.
#[derive(Debug)]
pub(crate) struct Kind {
    /// From one on.
    number: u32,
    size: usize,
    drop: Option<unsafe extern "C" fn(value: *mut c_void)>,
}

/// The header before each value.
#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct Head {
    /// The number of holders. C++ changes it too.
    // Relaxed to increment: the caller already holds one. Release to decrement, Acquire before the
    // end.
    count: AtomicU64,
    /// The number of its kind, and [`FILLED`] once there is a value, which has to be ended.
    kind: u32,
    weight: u32,
}

/// The bit of a head's kind that is set once there is a value.
const FILLED: u32 = 1 << 31;

// Values follow it, aligned.
const _: () = assert!(size_of::<Head>() == CELLAR_COUNT_BEFORE);
const _: () = assert!(align_of::<Head>() == CELLAR_VALUE_ALIGNMENT_MAX);

impl Head {
    /// The value's weight, as the store counted it.
    pub(crate) fn weight(&self) -> u32 {
        self.weight
    }
}

impl Kind {
    /// The room of a head and a value behind it.
    fn layout(&self) -> Result<Layout, Failure> {
        let bytes = size_of::<Head>() + self.size;
        Layout::from_size_align(bytes, align_of::<Head>())
            .map_err(|_| Failure::argument("values of no size"))
    }

    /// Room in which there is no value yet, behind its head.
    fn room(&self) -> Result<NonNull<c_void>, Failure> {
        let layout = self.layout()?;
        // SAFETY: a head at least, so not of size zero.
        let Some(head) = NonNull::new(unsafe { alloc(layout) }.cast::<Head>()) else {
            handle_alloc_error(layout)
        };
        // SAFETY: new memory, large enough and aligned for a head; the value behind it lies inside
        // it.
        unsafe {
            head.write(Head {
                count: AtomicU64::new(1),
                kind: self.number,
                weight: 0,
            });
            Ok(head.add(1).cast())
        }
    }
}

/// The head before a value.
///
/// # Safety
/// `value` is a slot of the library's.
unsafe fn head_of(value: NonNull<c_void>) -> NonNull<Head> {
    // SAFETY: as the caller promises: a head is before it in the same allocation.
    unsafe { value.cast::<Head>().sub(1) }
}

/// One of a value's counts, given back when it is dropped.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Slot(NonNull<c_void>);

// SAFETY: the library reads nothing of the room; that values may be read and ended by any thread is
// the caller's promise, where it names the type.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Deref for Slot {
    type Target = Head;

    fn deref(&self) -> &Head {
        // SAFETY: a slot owns a count, so its head exists, and only its count changes.
        unsafe { head_of(self.0).as_ref() }
    }
}

impl Clone for Slot {
    #[inline]
    fn clone(&self) -> Slot {
        self.count.fetch_add(1, Ordering::Relaxed);
        Slot(self.0)
    }
}

impl Drop for Slot {
    #[inline]
    fn drop(&mut self) {
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            // SAFETY: the last count was this one.
            unsafe { end(self.0) };
        }
    }
}

/// Ends a value, if there is one, and its room.
///
/// # Safety
/// `value` is a slot whose last count has just been taken away.
#[cold]
unsafe fn end(value: NonNull<c_void>) {
    // SAFETY: as the caller promises.
    let head = unsafe { head_of(value) };
    // SAFETY: as above. Acquire: all uses by former holders come before the end.
    let head_seen = unsafe { head.as_ref() };
    head_seen.count.load(Ordering::Acquire);
    let kind = head_seen.kind;
    let Some(known) = kind_of(kind & !FILLED) else {
        return;
    };
    if let Some(drop) = known.drop.filter(|_| kind & FILLED != 0) {
        // SAFETY: the last holder is gone, the value is whole, and it ends once, because this does.
        unsafe { drop(value.as_ptr()) };
    }
    if let Ok(layout) = known.layout() {
        // SAFETY: of this layout, by `Kind::room`, and there are no holders any more.
        unsafe { dealloc(head.as_ptr().cast(), layout) };
    }
}

impl Slot {
    /// The value in a draft, which becomes shared; the draft becomes none.
    ///
    /// # Safety
    /// `draft` is none, or one of the library's whose memory holds a complete value and which no
    /// other code uses.
    pub(crate) unsafe fn filled(
        draft: &mut DraftOut,
        maker: Maker,
        weight: u32,
    ) -> Result<Slot, Failure> {
        let value = NonNull::new(draft.slot).filter(|_| std::ptr::eq(draft.kind.cast(), maker.0));
        let value = value.ok_or_else(|| Failure::argument("no draft of this store"))?;
        // SAFETY: a draft of this kind, so a slot.
        let head = unsafe { head_of(value) };
        // SAFETY: as above; of a value that was stored, which others may hold, it is only read.
        if unsafe { (*head.as_ptr()).kind } != maker.0.number {
            return Err(Failure::argument("no draft, but a value that was stored"));
        }
        // SAFETY: a draft, which no other code uses.
        unsafe {
            (*head.as_ptr()).kind |= FILLED;
            (*head.as_ptr()).weight = weight;
        }
        *draft = DraftOut::NONE;
        Ok(Slot(value))
    }

    /// Where the value lies.
    #[inline]
    pub(crate) fn value(&self) -> *const c_void {
        self.0.as_ptr()
    }

    /// The value, whose count is the caller's from now on.
    #[inline]
    pub(crate) fn into_raw(self) -> *const c_void {
        std::mem::ManuallyDrop::new(self).value()
    }
}

/// # Safety
/// `slot` owns a count.
unsafe extern "C" fn retain(slot: *const c_void) {
    if let Some(slot) = NonNull::new(slot.cast_mut()) {
        // SAFETY: as the caller promises. Relaxed: as at its declaration.
        unsafe { head_of(slot).as_ref() }
            .count
            .fetch_add(1, Ordering::Relaxed);
    }
}

/// # Safety
/// `slot` owns a count, which ends here.
unsafe extern "C" fn release(slot: *const c_void) {
    border(std::ptr::null_mut(), || {
        drop(NonNull::new(slot.cast_mut()).map(Slot));
        Ok(())
    });
}

/// # Safety
/// `slot` is one whose last count its holder has taken away.
unsafe extern "C" fn end_counted(slot: *const c_void) {
    border(std::ptr::null_mut(), || {
        if let Some(slot) = NonNull::new(slot.cast_mut()) {
            // SAFETY: as the caller promises.
            unsafe { end(slot) };
        }
        Ok(())
    });
}

/// The holder of a store's values, whatever their type.
pub(crate) static SLOTS: Holder = Holder {
    retain,
    release,
    end: Some(end_counted),
    is_stale: false,
};

/// Makes the drafts of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maker(&'static Kind);

/// The registered kinds: one for each type that a program stores, in the order of registration.
static KINDS: [OnceLock<Kind>; KINDS_MAX] = [const { OnceLock::new() }; KINDS_MAX];
/// Held while a kind is added.
static ADDING: Mutex<()> = Mutex::new(());

/// The kind of this number; none for zero.
fn kind_of(number: u32) -> Option<&'static Kind> {
    KINDS.get((number as usize).checked_sub(1)?)?.get()
}

impl Maker {
    /// The one for values of this type.
    pub(crate) fn of(what: ValueType) -> Result<Maker, Failure> {
        let is_bytes = what.size == 0 && what.alignment == 0 && what.drop.is_none();
        let what = match is_bytes {
            true => ValueType {
                size: size_of::<Bytes>(),
                alignment: align_of::<Bytes>(),
                drop: Some(drop_bytes),
            },
            false => what,
        };
        let fits = what.alignment.is_power_of_two() && what.alignment <= CELLAR_VALUE_ALIGNMENT_MAX;
        let size = what.size;
        if !fits || size > CELLAR_VALUE_BYTES_MAX {
            return Err(Failure::argument(format!(
                "values of {} bytes, aligned to {}: store pointers to them",
                what.size, what.alignment
            )));
        }
        let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |kind: &Kind| kind.size == size && address(kind.drop) == address(what.drop);
        for (number, kind) in (1..).zip(&KINDS) {
            let kind = kind.get_or_init(|| Kind {
                number,
                size,
                drop: what.drop,
            });
            if is_it(kind) {
                return Ok(Maker(kind));
            }
        }
        Err(Failure::argument(format!("more than {KINDS_MAX} types")))
    }

    /// How much room its values have.
    pub(crate) fn size(self) -> usize {
        self.0.size
    }

    /// Whether its values are the library's bytes.
    pub(crate) fn makes_bytes(self) -> bool {
        address(self.0.drop) == address(Some(drop_bytes))
    }

    /// Room for one more, the caller's until it is stored or given back.
    pub(crate) fn draft(self) -> Result<DraftOut, Failure> {
        Ok(DraftOut {
            slot: self.0.room()?.as_ptr(),
            kind: std::ptr::from_ref(self.0).cast(),
        })
    }

    /// Writes a draft to the caller.
    ///
    /// # Safety
    /// `to` is null, or space for one that no other code uses meanwhile.
    pub(crate) unsafe fn hand_out(self, to: *mut DraftOut) -> Result<(), Failure> {
        // SAFETY: as the caller promises.
        let to = unsafe { change(to) }?;
        *to = self.draft()?;
        Ok(())
    }

    /// Hands out a draft with a copy of `length` bytes in it, of a maker of bytes.
    ///
    /// # Safety
    /// As for [`Maker::hand_out`], and the bytes are there.
    pub(crate) unsafe fn hand_out_bytes(
        self,
        data: *const u8,
        length: usize,
        to: *mut DraftOut,
    ) -> Result<(), Failure> {
        // SAFETY: as the caller promises.
        let data = unsafe { bytes(data, length, CELLAR_BYTES_MAX) }?;
        // Before a draft exists, which would leak. SAFETY: as the caller promises.
        let to = unsafe { change(to) }?;
        *to = self.draft_of_bytes(data)?;
        Ok(())
    }

    /// A draft with a copy of `data` in it, of a maker of bytes.
    pub(crate) fn draft_of_bytes(self, data: &[u8]) -> Result<DraftOut, Failure> {
        if !self.makes_bytes() {
            return Err(Failure::argument(
                "values of a type of the caller's, not bytes",
            ));
        }
        let (length, copy) = (data.len(), Box::<[u8]>::from(data));
        let bytes = Bytes {
            data: Box::into_raw(copy).cast(),
            length,
        };
        let draft = self.draft()?;
        // SAFETY: a draft that no other code has; its memory is large enough and aligned for
        // `Bytes`, because its maker is one of bytes.
        unsafe { draft.slot.cast::<Bytes>().write(bytes) };
        Ok(draft)
    }
}

fn address(drop: Option<unsafe extern "C" fn(value: *mut c_void)>) -> Option<usize> {
    drop.map(|drop| drop as usize)
}

/// # Safety
/// `value` holds `Bytes` that [`Maker::draft_of_bytes`] made, and ends.
unsafe extern "C" fn drop_bytes(value: *mut c_void) {
    // SAFETY: as the caller promises.
    let Bytes { data, length } = unsafe { value.cast::<Bytes>().read() };
    let all = std::ptr::slice_from_raw_parts_mut(data.cast_mut(), length);
    // SAFETY: the box whose pointer was written there, dropped once.
    drop(unsafe { Box::from_raw(all) });
}

/// The bytes in a slot of a maker of bytes.
///
/// # Safety
/// `slot` owns a count that outlives `'a`, and its memory is filled.
pub(crate) unsafe fn bytes_in<'a>(slot: *const c_void) -> Result<&'a [u8], Failure> {
    // SAFETY: as the caller promises: a slot of bytes, which do not change.
    let held = unsafe { reference(slot.cast::<Bytes>()) }?;
    // SAFETY: `Bytes` are made by `draft_of_bytes`, of a slice.
    unsafe { bytes(held.data, held.length, CELLAR_BYTES_MAX) }
}

/// An entry of a near cache, as C holds it.
type SlotEntry = Entry<Slot>;

/// # Safety
/// `entry` owns a count of a [`SlotEntry`].
unsafe extern "C" fn retain_entry(entry: *const c_void) {
    // SAFETY: as the caller promises.
    unsafe { Arc::increment_strong_count(entry.cast::<SlotEntry>()) };
}

/// # Safety
/// `entry` owns a count of a [`SlotEntry`], which ends here.
unsafe extern "C" fn release_entry(entry: *const c_void) {
    border(std::ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        drop(unsafe { Arc::from_raw(entry.cast::<SlotEntry>()) });
        Ok(())
    });
}

/// Holders of a near cache's entries: of one that is good, and of one that is served although the
/// server failed.
static ENTRIES: [Holder; 2] = [entries(false), entries(true)];

const fn entries(is_stale: bool) -> Holder {
    Holder {
        retain: retain_entry,
        release: release_entry,
        end: None,
        is_stale,
    }
}

impl DraftOut {
    /// None.
    pub(crate) const NONE: DraftOut = DraftOut {
        slot: std::ptr::null_mut(),
        kind: std::ptr::null(),
    };

    /// Frees it, and becomes none.
    ///
    /// # Safety
    /// It is none, or one of the library's, which no other code uses and in which no value has to
    /// be dropped.
    pub(crate) unsafe fn give_back(&mut self) {
        let given = std::mem::replace(self, DraftOut::NONE);
        drop(NonNull::new(given.slot).map(Slot));
    }
}

impl HeldOut {
    /// None.
    pub(crate) const NONE: HeldOut = HeldOut {
        value: std::ptr::null(),
        token: std::ptr::null(),
        holder: std::ptr::null(),
    };

    /// A value of a store.
    pub(crate) fn of_slot(slot: Slot) -> HeldOut {
        let value = slot.into_raw();
        HeldOut {
            value,
            token: value,
            holder: &raw const SLOTS,
        }
    }

    /// A value of a near cache.
    pub(crate) fn of_entry(entry: Arc<SlotEntry>, is_stale: bool) -> HeldOut {
        let Some(slot) = entry.value() else {
            return HeldOut::NONE;
        };
        HeldOut {
            value: slot.value(),
            token: Arc::into_raw(entry).cast(),
            holder: &raw const ENTRIES[usize::from(is_stale)],
        }
    }

    /// Its holder, if it is held.
    ///
    /// # Safety
    /// It is none, or one that the library has returned.
    unsafe fn holder<'a>(self) -> Option<&'a Holder> {
        // SAFETY: holders live for ever: those of kinds, and the two of entries.
        unsafe { self.holder.as_ref() }
    }
}

/// Adds a reference to a held value and returns it; it must be released separately.
///
/// # Safety
/// `held` is null, or points to a held value of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_retain(held: *const HeldOut) -> HeldOut {
    let mut again = HeldOut::NONE;
    border(std::ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let held = *unsafe { reference(held) }?;
        // SAFETY: as the caller promises.
        if let Some(holder) = unsafe { held.holder() } {
            // SAFETY: the holder's own token, whose count the caller has.
            unsafe { (holder.retain)(held.token) };
        }
        again = held;
        Ok(())
    });
    again
}

/// Releases a held value and sets it to none, so a second call has no effect. The value is
/// destroyed with its last reference, which may be the cache's.
///
/// # Safety
/// `held` is null, or points to a held value of the caller; no other thread uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_release(held: *mut HeldOut) {
    border(std::ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let held = unsafe { change(held) }?;
        let given = std::mem::replace(held, HeldOut::NONE);
        // SAFETY: as the caller promises.
        if let Some(holder) = unsafe { given.holder() } {
            // SAFETY: the holder's own token, whose count the caller gives.
            unsafe { (holder.release)(given.token) };
        }
        Ok(())
    });
}

/// Frees a draft that is not stored, and sets it to none. It does not destroy a value that the
/// caller has created in it.
///
/// # Safety
/// `draft` is null, or points to none or to a draft; no other thread uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_draft_free(draft: *mut DraftOut, error: *mut ErrorOut) -> Status {
    border(error, || {
        // SAFETY: as the caller promises.
        let draft = unsafe { change(draft) }?;
        // SAFETY: as the caller promises.
        unsafe { draft.give_back() };
        Ok(())
    })
}

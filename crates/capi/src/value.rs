//! Values of the caller's types, in room of ours.
//!
//! A value lies in one allocation with the counts of its [`Arc`], which stand right before it, so a
//! hit leads to the value itself; what has to be known at its end stands behind it ([`Foot`]). Room
//! comes in a few sizes ([`SIZES`]). It is a draft, which the caller alone has, until it is stored;
//! from then on the value is shared and nobody changes it.
//!
//! Invariant: a slot is the address of an [`Inline`] whose Arc was made into a pointer, and each
//! slot that C has stands for one of the Arc's counts.
#![allow(unsafe_code, reason = "values are handed to C as pointers")]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cellar_near::Entry;

use crate::border::{ErrorOut, Failure, Status, border, bytes, change, reference};

/// Largest value that lies in a slot; of a larger one store a pointer.
pub const CELLAR_VALUE_BYTES_MAX: usize = 248;
/// Strictest alignment that a slot has.
pub const CELLAR_VALUE_ALIGNMENT_MAX: usize = 16;
/// Most bytes that `cellar_bytes` can have.
pub const CELLAR_BYTES_MAX: usize = 512 << 20;

/// The sizes in which there is room; with what stands behind it each is a multiple of 16.
pub(crate) const SIZES: [usize; 6] = [8, 24, 40, 72, 120, CELLAR_VALUE_BYTES_MAX];

/// Types of values in one process.
const KINDS_MAX: usize = 1024;

/// A type of values. All zero: the values are `cellar_bytes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ValueType {
    /// Its size, at most `CELLAR_VALUE_BYTES_MAX`.
    pub size: usize,
    /// Its alignment, a power of two and at most `CELLAR_VALUE_ALIGNMENT_MAX`.
    pub alignment: usize,
    /// Ends a value whose last holder is gone, on whichever thread that was; may be null. It must
    /// not throw.
    pub drop: Option<unsafe extern "C" fn(value: *mut c_void)>,
}

/// The value of stores and caches that were opened without a type: bytes. The library's; read only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The first of them.
    pub data: *const u8,
    /// How many.
    pub length: usize,
}

/// Who keeps the count of a value that is held. The library's.
#[repr(C)]
#[derive(Debug)]
pub struct Holder {
    /// One more holder.
    pub retain: unsafe extern "C" fn(token: *const c_void),
    /// One less.
    pub release: unsafe extern "C" fn(token: *const c_void),
    /// Whether what it keeps was served out of date.
    pub is_stale: bool,
}

/// A value that the caller holds until it gives it back. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeldOut {
    /// The value, for reading, or null.
    pub value: *const c_void,
    /// What its holder knows it by.
    pub token: *const c_void,
    /// Its holder.
    pub holder: *const Holder,
}

/// Room for a value that the caller makes. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DraftOut {
    /// The room, or null.
    pub slot: *mut c_void,
    /// The library's own.
    pub kind: *const c_void,
}

/// What is known of all values of one type.
#[derive(Debug)]
pub(crate) struct Kind {
    /// From one on.
    number: u32,
    size: usize,
    drop: Option<unsafe extern "C" fn(value: *mut c_void)>,
    holder: Holder,
}

/// What stands behind each value.
#[derive(Debug)]
struct Foot {
    /// The number of its kind once there is a value, which has to be ended; zero before.
    kind: u32,
    weight: u32,
}

/// Room for a value of at most `N` bytes.
#[repr(C, align(16))]
pub(crate) struct Inline<const N: usize> {
    room: UnsafeCell<[MaybeUninit<u8>; N]>,
    foot: Foot,
}

const _: () = assert!(size_of::<Inline<8>>() == 16 && size_of::<Inline<24>>() == 32);
const _: () = assert!(size_of::<Inline<40>>() == 48 && size_of::<Inline<72>>() == 80);
const _: () = assert!(size_of::<Inline<120>>() == 128 && align_of::<Inline<120>>() == 16);

// SAFETY: the library reads nothing of the room; that values may be read and ended by any thread is
// the caller's promise, where it names the type.
unsafe impl<const N: usize> Send for Inline<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Inline<N> {}

impl<const N: usize> Drop for Inline<N> {
    fn drop(&mut self) {
        if let Some(drop) = kind_of(self.foot.kind).and_then(|kind| kind.drop) {
            // SAFETY: the last holder is gone, the value is whole (it has a kind), and it ends
            // once, because this does.
            unsafe { drop(self.room.get().cast()) };
        }
    }
}

impl<const N: usize> Inline<N> {
    /// What the value weighs, as its store was told.
    pub(crate) fn weight(&self) -> u32 {
        self.foot.weight
    }

    /// The value in a draft, from now on shared, and the draft is none.
    ///
    /// # Safety
    /// `draft` is none, or one of the library's whose room holds a whole value and which nobody
    /// else uses.
    pub(crate) unsafe fn filled(
        draft: &mut DraftOut,
        maker: Maker,
        weight: u32,
    ) -> Result<Arc<Inline<N>>, Failure> {
        if draft.slot.is_null() || !std::ptr::eq(draft.kind.cast(), maker.0) {
            return Err(Failure::argument("no draft of this store"));
        }
        // SAFETY: a draft of this kind, so of this `N` (`Maker::of`), whose count the caller gives.
        let mut value = unsafe { Arc::from_raw(draft.slot.cast_const().cast::<Inline<N>>()) };
        let foot = Arc::get_mut(&mut value).map(|inline| &mut inline.foot);
        let Some(foot) = foot.filter(|foot| foot.kind == 0) else {
            // The count stays where it was.
            let _ = Arc::into_raw(value);
            return Err(Failure::argument("no draft, but a value that was stored"));
        };
        *foot = Foot {
            kind: maker.0.number,
            weight,
        };
        *draft = DraftOut::NONE;
        Ok(value)
    }

    /// # Safety
    /// `slot` stands for a count of an `Inline<N>`.
    unsafe extern "C" fn retain(slot: *const c_void) {
        // SAFETY: as the caller promises.
        unsafe { Arc::increment_strong_count(slot.cast::<Inline<N>>()) };
    }

    /// # Safety
    /// `slot` stands for a count of an `Inline<N>`, which ends here.
    unsafe extern "C" fn release(slot: *const c_void) {
        border(std::ptr::null_mut(), || {
            // SAFETY: as the caller promises.
            drop(unsafe { Arc::from_raw(slot.cast::<Inline<N>>()) });
            Ok(())
        });
    }

    const HOLDER: Holder = Holder {
        retain: Inline::<N>::retain,
        release: Inline::<N>::release,
        is_stale: false,
    };

    /// Room in which there is no value yet.
    fn empty() -> *mut c_void {
        let inline = Arc::new(Inline {
            room: UnsafeCell::new([MaybeUninit::<u8>::uninit(); N]),
            foot: Foot { kind: 0, weight: 0 },
        });
        Arc::into_raw(inline).cast_mut().cast()
    }
}

/// What makes the drafts of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maker(&'static Kind);

/// The kinds that there are: one for each type that a program stores, in the order in which they
/// came to be.
static KINDS: [OnceLock<Kind>; KINDS_MAX] = [const { OnceLock::new() }; KINDS_MAX];
/// Held by who adds one.
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
        let size = SIZES.into_iter().find(|&size| size >= what.size);
        let (Some(size), true) = (size, fits) else {
            return Err(Failure::argument(format!(
                "values of {} bytes, aligned to {}: store pointers to them",
                what.size, what.alignment
            )));
        };
        let _adding = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |kind: &Kind| kind.size == size && address(kind.drop) == address(what.drop);
        for (number, kind) in (1..).zip(&KINDS) {
            let kind = kind.get_or_init(|| Kind {
                number,
                size,
                drop: what.drop,
                holder: holder_of(size),
            });
            if is_it(kind) {
                return Ok(Maker(kind));
            }
        }
        Err(Failure::argument(format!("more than {KINDS_MAX} types")))
    }

    /// How much room its values have: one of [`SIZES`].
    pub(crate) fn size(self) -> usize {
        self.0.size
    }

    /// Whether its values are the library's bytes.
    pub(crate) fn makes_bytes(self) -> bool {
        address(self.0.drop) == address(Some(drop_bytes))
    }

    /// A value of one of its stores, for C to hold.
    #[inline]
    pub(crate) fn hold<const N: usize>(self, value: Arc<Inline<N>>) -> HeldOut {
        let slot = Arc::into_raw(value).cast();
        HeldOut {
            value: slot,
            token: slot,
            holder: &raw const self.0.holder,
        }
    }

    /// Room for one more, the caller's until it is stored or given back.
    pub(crate) fn draft(self) -> DraftOut {
        let slot = match self.size() {
            8 => Inline::<8>::empty(),
            24 => Inline::<24>::empty(),
            40 => Inline::<40>::empty(),
            72 => Inline::<72>::empty(),
            120 => Inline::<120>::empty(),
            _ => Inline::<CELLAR_VALUE_BYTES_MAX>::empty(),
        };
        DraftOut {
            slot,
            kind: std::ptr::from_ref(self.0).cast(),
        }
    }

    /// Hands out a draft.
    ///
    /// # Safety
    /// `to` is null, or room for one that nobody else uses meanwhile.
    pub(crate) unsafe fn hand_out(self, to: *mut DraftOut) -> Result<(), Failure> {
        // SAFETY: as the caller promises.
        let to = unsafe { change(to) }?;
        *to = self.draft();
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
        // Before there is a draft, which nobody would end.
        // SAFETY: as the caller promises.
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
        let draft = self.draft();
        // SAFETY: a draft that nobody else has; its room is large enough and aligned for `Bytes`,
        // because its maker is one of bytes.
        unsafe { draft.slot.cast::<Bytes>().write(bytes) };
        Ok(draft)
    }
}

fn address(drop: Option<unsafe extern "C" fn(value: *mut c_void)>) -> Option<usize> {
    drop.map(|drop| drop as usize)
}

fn holder_of(size: usize) -> Holder {
    match size {
        8 => Inline::<8>::HOLDER,
        24 => Inline::<24>::HOLDER,
        40 => Inline::<40>::HOLDER,
        72 => Inline::<72>::HOLDER,
        120 => Inline::<120>::HOLDER,
        _ => Inline::<CELLAR_VALUE_BYTES_MAX>::HOLDER,
    }
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
/// `slot` stands for a count that outlives `'a`, and its room is filled.
pub(crate) unsafe fn bytes_in<'a>(slot: *const c_void) -> Result<&'a [u8], Failure> {
    // SAFETY: as the caller promises: a slot of bytes, which nobody changes.
    let held = unsafe { reference(slot.cast::<Bytes>()) }?;
    // SAFETY: `Bytes` are made by `draft_of_bytes`, of a slice.
    unsafe { bytes(held.data, held.length, CELLAR_BYTES_MAX) }
}

/// One of a value's counts, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slot: *const c_void,
    kind: &'static Kind,
}

// SAFETY: as for `Inline`: a slot only leads to one.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    /// # Safety
    /// As [`Inline::filled`], whatever the size.
    pub(crate) unsafe fn filled(draft: &mut DraftOut, maker: Maker) -> Result<Slot, Failure> {
        unsafe fn slot_of<const N: usize>(
            draft: &mut DraftOut,
            maker: Maker,
        ) -> Result<*const c_void, Failure> {
            // SAFETY: as the caller promises.
            let value = unsafe { Inline::<N>::filled(draft, maker, 0) }?;
            Ok(Arc::into_raw(value).cast())
        }
        let of_size = match maker.size() {
            8 => slot_of::<8>,
            24 => slot_of::<24>,
            40 => slot_of::<40>,
            72 => slot_of::<72>,
            120 => slot_of::<120>,
            _ => slot_of::<CELLAR_VALUE_BYTES_MAX>,
        };
        Ok(Slot {
            // SAFETY: as the caller promises.
            slot: unsafe { of_size(draft, maker) }?,
            kind: maker.0,
        })
    }

    /// Where the value lies.
    pub(crate) fn value(&self) -> *const c_void {
        self.slot
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: a slot stands for a count, which ends here; the function is its kind's own.
        unsafe { (self.kind.holder.release)(self.slot) };
    }
}

/// An entry of a near cache, as C holds it.
type SlotEntry = Entry<Slot>;

/// # Safety
/// `entry` stands for a count of a [`SlotEntry`].
unsafe extern "C" fn retain_entry(entry: *const c_void) {
    // SAFETY: as the caller promises.
    unsafe { Arc::increment_strong_count(entry.cast::<SlotEntry>()) };
}

/// # Safety
/// `entry` stands for a count of a [`SlotEntry`], which ends here.
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
        is_stale,
    }
}

impl DraftOut {
    /// None.
    pub(crate) const NONE: DraftOut = DraftOut {
        slot: std::ptr::null_mut(),
        kind: std::ptr::null(),
    };

    /// Gives it back, and is none.
    ///
    /// # Safety
    /// It is none, or one of the library's, which nobody else uses and in which no value is to be
    /// ended.
    pub(crate) unsafe fn give_back(&mut self) {
        let given = std::mem::replace(self, DraftOut::NONE);
        if given.slot.is_null() {
            return;
        }
        // SAFETY: a draft's kind is one of those that live for ever.
        if let Some(kind) = unsafe { given.kind.cast::<Kind>().as_ref() } {
            // SAFETY: as the caller promises; the function is its kind's own.
            unsafe { (kind.holder.release)(given.slot) };
        }
    }
}

impl HeldOut {
    /// None.
    pub(crate) const NONE: HeldOut = HeldOut {
        value: std::ptr::null(),
        token: std::ptr::null(),
        holder: std::ptr::null(),
    };

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
    /// It is none, or what the library has handed out.
    unsafe fn holder<'a>(self) -> Option<&'a Holder> {
        // SAFETY: holders live for ever: those of kinds, and the two of entries.
        unsafe { self.holder.as_ref() }
    }
}

/// One more holder of what is held: the same again, to be released for itself.
///
/// # Safety
/// `held` is null, or points to what the caller holds.
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

/// Gives back what is held and leaves none, so that a second call does nothing. The value ends with
/// its last holder, the cache among them.
///
/// # Safety
/// `held` is null, or points to what the caller holds; nobody else uses it meanwhile.
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

/// Gives back a draft that is not stored and leaves none. What the caller has made in it is not
/// ended.
///
/// # Safety
/// `draft` is null, or points to none or to a draft; nobody else uses it meanwhile.
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

//! The border: pointers, statuses and texts that cross between C and Rust, and panics, which never
//! do.
//!
//! A function of the interface is `border(error, || ...)`. A panic inside becomes
//! [`CELLAR_PANIC`]; a null pointer or a length that no object has becomes
//! [`CELLAR_BAD_ARGUMENT`]. Texts are cut, not allocated.
#![allow(unsafe_code, reason = "pointers from C are read and written here")]

use std::any::Any;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use cellar_near::LoadError;

/// The status of a call: one of the `CELLAR_` numbers below.
pub type Status = i32;

/// Success, or there is a value.
pub const CELLAR_OK: Status = 0;
/// There is no value. Not an error.
pub const CELLAR_NONE: Status = 1;
/// A null pointer, a length that is too large, or a setting that does not exist.
pub const CELLAR_BAD_ARGUMENT: Status = 2;
/// An internal error; the cache can still be used.
pub const CELLAR_PANIC: Status = 3;
/// The loader failed, here or in the thread that this one waited for.
pub const CELLAR_LOADER: Status = 4;
/// There was no answer in time.
pub const CELLAR_TIMEOUT: Status = 5;
/// The loader of a key requests the same key: it would wait for itself.
pub const CELLAR_OWN_LOAD: Status = 6;
/// The server cannot be reached, or the connection ended before the answer.
pub const CELLAR_CONNECTION: Status = 7;
/// The server returned an error.
pub const CELLAR_REFUSED: Status = 8;
/// The server's answer is invalid.
pub const CELLAR_PROTOCOL: Status = 9;
/// The bytes cannot be decoded, or the value cannot be encoded.
pub const CELLAR_CODEC: Status = 10;
/// The key is too long for the server.
pub const CELLAR_KEY_TOO_LONG: Status = 11;
/// The thread of a near cache could not be started.
pub const CELLAR_THREAD: Status = 12;
/// Any other error; see the text.
pub const CELLAR_OTHER: Status = 13;

/// The value of a time that is not set.
pub const CELLAR_UNSET: u64 = u64::MAX;

/// Size of the text of an error, with its terminating zero.
pub const CELLAR_TEXT_MAX: usize = 252;

/// The error of a call. The caller provides the memory, which is only written on failure; may be
/// null everywhere.
#[repr(C)]
pub struct ErrorOut {
    /// One of the `CELLAR_` numbers.
    pub status: Status,
    /// The error message in English, zero-terminated; a long one is truncated.
    pub text: [c_char; CELLAR_TEXT_MAX],
}

/// Why a call failed, on this side of the border.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    status: Status,
    text: Arc<str>,
}

impl Failure {
    pub(crate) fn new(status: Status, text: impl AsRef<str>) -> Failure {
        Failure {
            status,
            text: Arc::from(text.as_ref()),
        }
    }

    /// The status that there is no value.
    pub(crate) fn none() -> Failure {
        Failure::new(CELLAR_NONE, "")
    }

    /// An argument that is no good.
    #[cold]
    pub(crate) fn argument(text: impl AsRef<str>) -> Failure {
        Failure::new(CELLAR_BAD_ARGUMENT, text)
    }

    /// The failure of a callback that returned `status`.
    pub(crate) fn of_callback(status: Status, told: &ErrorOut) -> Failure {
        // The zero bytes behind the text, or the room's end, end it.
        let bytes = told.text.iter().map(|&c| c.cast_unsigned());
        let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        Failure::new(status, String::from_utf8_lossy(&bytes))
    }

    /// Writes it to the caller's room, if there is any.
    fn tell(&self, error: *mut ErrorOut) -> Status {
        if !error.is_null() {
            // SAFETY: the caller's promise: null, or space for one error that no other thread uses.
            unsafe { error.write(ErrorOut::of(self.status, &self.text)) };
        }
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl From<LoadError<Failure>> for Failure {
    fn from(error: LoadError<Failure>) -> Failure {
        match error {
            LoadError::Loader(failure) => failure,
            LoadError::OwnLoad => Failure::new(CELLAR_OWN_LOAD, own_load_text()),
            LoadError::Timeout(_) => Failure::new(CELLAR_TIMEOUT, error.to_string()),
            other => Failure::new(CELLAR_OTHER, other.to_string()),
        }
    }
}

impl From<cellar_near::Error> for Failure {
    fn from(error: cellar_near::Error) -> Failure {
        use cellar_near::Error;
        let status = match &error {
            // A failure of the caller's own callback is returned unchanged.
            Error::Loader(inner) => match inner.downcast_ref::<Failure>() {
                Some(failure) => return failure.clone(),
                None => CELLAR_LOADER,
            },
            Error::Timeout(_) => CELLAR_TIMEOUT,
            Error::OwnLoad => CELLAR_OWN_LOAD,
            Error::Connection(_) => CELLAR_CONNECTION,
            Error::Refused(_) => CELLAR_REFUSED,
            Error::Protocol(_) => CELLAR_PROTOCOL,
            Error::Codec(_) => CELLAR_CODEC,
            Error::KeyTooLong { .. } => CELLAR_KEY_TOO_LONG,
            Error::Thread(_) => CELLAR_THREAD,
            _ => CELLAR_OTHER,
        };
        Failure::new(status, error.to_string())
    }
}

fn own_load_text() -> String {
    cellar_near::Error::OwnLoad.to_string()
}

impl ErrorOut {
    /// An error without a text.
    pub(crate) fn empty() -> ErrorOut {
        ErrorOut::of(CELLAR_OK, "")
    }

    fn of(status: Status, text: &str) -> ErrorOut {
        let mut out = ErrorOut {
            status,
            text: [0; CELLAR_TEXT_MAX],
        };
        let end = text.floor_char_boundary(CELLAR_TEXT_MAX - 1);
        for (to, from) in out.text.iter_mut().zip(text[..end].bytes()) {
            // A zero byte would end it for C.
            *to = from.max(1).cast_signed();
        }
        out
    }
}

/// Runs `work`; its result or panic becomes a status, and a text in `error`.
#[inline]
pub(crate) fn border(error: *mut ErrorOut, work: impl FnOnce() -> Result<(), Failure>) -> Status {
    // Unwind safe: the caller holds caches, which stay consistent when a loader panics.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => CELLAR_OK,
        Ok(Err(failure)) => failure.tell(error),
        Err(panic) => tell_panic(panic, error),
    }
}

#[cold]
fn tell_panic(panic: Box<dyn Any + Send>, error: *mut ErrorOut) -> Status {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    // The panic's payload may panic again when it is dropped; that second payload is leaked.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    let text = text.unwrap_or_else(|| "a panic without a text".into());
    Failure::new(CELLAR_PANIC, text).tell(error)
}

/// What `pointer` points to.
///
/// # Safety
/// `pointer` is null, or points to a `T` that lives and is not changed while `'a` lasts.
#[inline]
pub(crate) unsafe fn reference<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(null)
}

/// The object that `pointer` points to, to be changed.
///
/// # Safety
/// `pointer` is null, or points to a `T` that lives while `'a` lasts and that no other code uses.
#[inline]
pub(crate) unsafe fn change<'a, T>(pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_mut() }.ok_or_else(null)
}

/// Writes `value` where `to` points.
///
/// # Safety
/// `to` is null, or points to space for a `T` that no other code uses meanwhile.
#[inline]
pub(crate) unsafe fn write<T>(to: *mut T, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(null());
    }
    // SAFETY: not null, so as the caller promises.
    unsafe { to.write(value) };
    Ok(())
}

/// Takes the pointer that `from` points to and leaves null.
///
/// # Safety
/// `from` is null, or points to a pointer that no other code uses meanwhile.
unsafe fn take<T>(from: *mut *mut T) -> Result<*mut T, Failure> {
    if from.is_null() {
        return Err(null());
    }
    // SAFETY: not null, so as the caller promises.
    Ok(unsafe { from.replace(std::ptr::null_mut()) })
}

/// Writes a handle of the library to the caller, who ends it by [`close_handle`]; it ends at once
/// if `to` is null.
///
/// # Safety
/// As for [`write`].
pub(crate) unsafe fn open_handle<T>(to: *mut *mut T, handle: T) -> Result<(), Failure> {
    let handle = Box::into_raw(Box::new(handle));
    // SAFETY: as the caller promises.
    unsafe { write(to, handle) }.inspect_err(|_| {
        // SAFETY: the box from above, whose address was not passed to the caller.
        drop(unsafe { Box::from_raw(handle) });
    })
}

/// Ends a handle and leaves null, so that a second call does nothing.
///
/// # Safety
/// As for [`take`]; the pointer is null or one of [`open_handle`], and the object behind it is no
/// longer used.
pub(crate) unsafe fn close_handle<T>(from: *mut *mut T) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    let handle = unsafe { take(from) }?;
    if !handle.is_null() {
        // SAFETY: not null, so a box of `open_handle`, which ends once.
        drop(unsafe { Box::from_raw(handle) });
    }
    Ok(())
}

/// The bytes from `data` on.
///
/// # Safety
/// `data` is null, or points to `length` bytes that live and are not changed while `'a` lasts.
#[inline]
pub(crate) unsafe fn bytes<'a>(
    data: *const u8,
    length: usize,
    length_max: usize,
) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(null());
    }
    if length > length_max {
        return Err(too_long(length, length_max));
    }
    // SAFETY: not null and not longer than an object can be, so as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

#[cold]
fn null() -> Failure {
    Failure::argument("a null pointer")
}

#[cold]
fn too_long(length: usize, length_max: usize) -> Failure {
    Failure::argument(format!("{length} bytes, at most {length_max} are allowed"))
}

/// A time in milliseconds, unless it is [`CELLAR_UNSET`].
pub(crate) fn time(milliseconds: u64) -> Option<Duration> {
    (milliseconds != CELLAR_UNSET).then(|| Duration::from_millis(milliseconds))
}

/// A pointer of the caller's, handed through to its functions from whichever thread calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreign(pub(crate) *mut c_void);

// SAFETY: the library never looks behind it; that the caller's functions may be given it from any
// thread is the caller's promise, where it gives it for longer than one call.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

/// Panics inside the library and returns `CELLAR_PANIC`: to test how callers continue.
///
/// # Safety
/// `error` is null or points to memory for an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_provoke_panic(error: *mut ErrorOut) -> Status {
    border(error, || std::panic::panic_any("provoked on purpose"))
}

/// Returns the library's version, zero-terminated; never freed.
#[unsafe(no_mangle)]
pub extern "C" fn cellar_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(work: impl FnOnce() -> Result<(), Failure>) -> (Status, String) {
        let mut error = ErrorOut::empty();
        let status = border(&raw mut error, work);
        let text = Failure::of_callback(status, &error).to_string();
        assert_eq!(error.status, status);
        (status, text)
    }

    #[test]
    fn what_fails_or_panics_is_a_status_and_a_text() {
        let refused = || Err(Failure::argument("no"));
        assert_eq!(told(refused), (CELLAR_BAD_ARGUMENT, "no".into()));
        assert_eq!(told(|| panic!("at {}", 7)), (CELLAR_PANIC, "at 7".into()));
        assert_eq!(told(|| panic!("plain")), (CELLAR_PANIC, "plain".into()));
        let odd = || std::panic::panic_any(7);
        assert_eq!(told(odd).1, "a panic without a text");
        let panics = || panic!("nobody is told");
        assert_eq!(border(std::ptr::null_mut(), panics), CELLAR_PANIC);
    }

    #[test]
    fn a_panic_whose_payload_panics_too_stays_inside() {
        struct Worse;
        impl Drop for Worse {
            fn drop(&mut self) {
                panic!("while it is dropped");
            }
        }
        assert_eq!(told(|| std::panic::panic_any(Worse)).0, CELLAR_PANIC);
    }

    #[test]
    fn a_text_is_cut_between_characters_and_has_no_zero_in_it() {
        let long = "ä".repeat(CELLAR_TEXT_MAX);
        let (_, text) = told(|| Err(Failure::argument(&long)));
        assert_eq!(text, "ä".repeat((CELLAR_TEXT_MAX - 1) / 2));
        let (_, text) = told(|| Err(Failure::argument("a\0b")));
        assert_eq!(text, "a\u{1}b");
    }

    #[test]
    fn null_and_lengths_of_no_object_are_refused() {
        let status = |result: Result<(), Failure>| told(|| result).0;
        // SAFETY: null is allowed everywhere.
        let refused = unsafe {
            [
                reference::<u8>(std::ptr::null()).map(drop),
                write(std::ptr::null_mut(), 1),
                take::<u8>(std::ptr::null_mut()).map(drop),
                bytes(std::ptr::null(), 1, 10).map(drop),
                // Refused before anybody looks.
                bytes([1].as_ptr(), usize::MAX, 10).map(drop),
            ]
        };
        for result in refused {
            assert_eq!(status(result), CELLAR_BAD_ARGUMENT);
        }
        // SAFETY: nothing is read where the length is zero.
        assert_eq!(unsafe { bytes(std::ptr::null(), 0, 10) }, Ok(&[][..]));
    }
}

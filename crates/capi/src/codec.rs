//! The caller's values as the bytes of an origin.
#![allow(unsafe_code, reason = "the caller's functions are called here")]

use std::ffi::c_void;
use std::sync::Arc;

use cellar_near::{Codec, Error};

use crate::border::{CELLAR_OK, ErrorOut, Failure, Foreign, Status, border, bytes, change};
use crate::store::ENTRY_BYTES;
use crate::value::{CELLAR_BYTES_MAX, Maker, Slot, bytes_in};

/// The buffer in which a codec writes the bytes of a value.
pub struct Sink(Vec<u8>);

/// Encodes values as bytes and decodes them. All zero if the values are `cellar_bytes`.
///
/// Any thread may call both functions, including threads of the library. They must not throw and
/// must not use the cache.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CodecIn {
    /// Passed to both functions.
    pub context: *mut c_void,
    /// Creates the value of `length` bytes in `slot`, which is uninitialised. With any status
    /// except `CELLAR_OK` it must leave no value there.
    pub decode: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            data: *const u8,
            length: usize,
            slot: *mut c_void,
            error: *mut ErrorOut,
        ) -> Status,
    >,
    /// Writes the bytes of `value` with `cellar_sink_write`.
    pub encode: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            value: *const c_void,
            sink: *mut Sink,
            error: *mut ErrorOut,
        ) -> Status,
    >,
}

/// Appends bytes to a value that is being encoded.
///
/// # Safety
/// `sink` is null or the argument of the codec's current call; the bytes are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellar_sink_write(
    sink: *mut Sink,
    data: *const u8,
    length: usize,
) -> Status {
    border(std::ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let sink = unsafe { change(sink) }?;
        // SAFETY: as the caller promises.
        let data = unsafe { bytes(data, length, CELLAR_BYTES_MAX) }?;
        sink.0.extend_from_slice(data);
        Ok(())
    })
}

/// A codec of the caller's, or none for bytes.
#[derive(Debug)]
pub(crate) struct SlotCodec {
    maker: Maker,
    context: Foreign,
    functions: CodecFunctions,
}

#[derive(Debug)]
enum CodecFunctions {
    Plain,
    Foreign {
        decode: unsafe extern "C" fn(
            *mut c_void,
            *const u8,
            usize,
            *mut c_void,
            *mut ErrorOut,
        ) -> Status,
        encode:
            unsafe extern "C" fn(*mut c_void, *const c_void, *mut Sink, *mut ErrorOut) -> Status,
    },
}

impl SlotCodec {
    pub(crate) fn new(maker: Maker, codec: CodecIn) -> Result<SlotCodec, Failure> {
        let functions = match (codec.decode, codec.encode) {
            (Some(decode), Some(encode)) => CodecFunctions::Foreign { decode, encode },
            (None, None) if maker.makes_bytes() => CodecFunctions::Plain,
            _ => {
                return Err(Failure::argument(
                    "a type of values takes a codec, both ways",
                ));
            }
        };
        Ok(SlotCodec {
            maker,
            context: Foreign(codec.context),
            functions,
        })
    }
}

impl Codec<Slot> for SlotCodec {
    fn encode(&self, value: &Slot) -> Result<Vec<u8>, Error> {
        match self.functions {
            CodecFunctions::Plain => {
                // SAFETY: a filled slot of this cache, whose maker makes bytes.
                let held = unsafe { bytes_in(value.value()) }.map_err(Error::codec)?;
                Ok(held.to_vec())
            }
            CodecFunctions::Foreign { encode, .. } => {
                let (mut sink, mut told) = (Sink(Vec::new()), ErrorOut::empty());
                let (sink_at, told_at) = (&raw mut sink, &raw mut told);
                // SAFETY: the caller's promise for its codec; sink and error are room of this
                // function's, the value is filled and of the type that the cache was opened for.
                let status = unsafe { encode(self.context.0, value.value(), sink_at, told_at) };
                match status {
                    CELLAR_OK => Ok(sink.0),
                    status => Err(refused(status, &told)),
                }
            }
        }
    }

    fn decode(&self, bytes: Vec<u8>) -> Result<Slot, Error> {
        let mut draft = match self.functions {
            CodecFunctions::Plain => self.maker.draft_of_bytes(&bytes).map_err(Error::codec)?,
            CodecFunctions::Foreign { decode, .. } => {
                let mut draft = self.maker.draft().map_err(Error::codec)?;
                let mut told = ErrorOut::empty();
                let slot = draft.slot;
                let (data, length) = (bytes.as_ptr(), bytes.len());
                // SAFETY: the caller's promise for its codec; the bytes, the draft and the error
                // are this function's.
                let status = unsafe { decode(self.context.0, data, length, slot, &raw mut told) };
                if status != CELLAR_OK {
                    // SAFETY: a draft of this function's, empty as the codec promises.
                    unsafe { draft.give_back() };
                    return Err(refused(status, &told));
                }
                draft
            }
        };
        let weight = self.maker.size() + bytes.len() + ENTRY_BYTES;
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        // SAFETY: a draft of this maker, filled above.
        unsafe { Slot::filled(&mut draft, self.maker, weight) }.map_err(Error::codec)
    }
}

fn refused(status: Status, told: &ErrorOut) -> Error {
    Error::Codec(Arc::from(Failure::of_callback(status, told).to_string()))
}

//! Upload: a large value on its way from the socket into the cache's memory.
//!
//! ```text
//! PROTOCOL/upload.rs   the head of a request -> an Upload, whose Draft reserves memory; for a long
//!                      value in steps, one an iteration, and each time the head is decoded again
//! worker/receive.rs    socket -> Draft::buffer, until the value is complete
//! Upload::fill_from    the line end behind it, if it has one
//! PROTOCOL/upload.rs   Cache::commit stores the value, and the request is answered
//! ```
//!
//! Dropping an upload frees its memory.

use cellar_engine::Draft;

use super::context::{Flow, Transfer};

/// Longest value that is decoded with its request; a longer one goes straight to the engine.
pub(super) const SMALL_VALUE_BYTES_MAX: usize = 16 << 10;

/// A value being received, and the request that stores it: what of its head the protocol needs
/// later.
#[derive(Debug)]
pub(super) struct Upload<R> {
    pub(super) key: Box<[u8]>,
    pub(super) draft: Draft,
    line_end: LineEnd,
    pub(super) request: R,
}

/// The line end behind a value, as far as it is missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineEnd {
    missing: &'static [u8],
    is_wrong: bool,
}

/// The location of a value to be stored.
pub(super) enum ValueSource<'v> {
    /// In the input.
    Bytes(&'v [u8]),
    /// In the engine's memory already.
    Draft(Draft),
}

impl<R> Upload<R> {
    /// One of which nothing was received yet.
    pub(super) fn new(key: &[u8], draft: Draft, line_end: LineEnd, request: R) -> Box<Upload<R>> {
        Box::new(Upload {
            key: key.into(),
            draft,
            line_end,
            request,
        })
    }

    /// How its connection continues: while memory is being reserved, with the same bytes.
    pub(super) fn flow(&self) -> Flow {
        match self.draft.is_reserved() {
            true => Flow::Feed,
            false => Flow::Again,
        }
    }

    /// How the next bytes are received, if memory is reserved: a line end together with the
    /// requests behind it.
    #[inline]
    pub(super) fn transfer(&mut self) -> Option<Transfer<'_>> {
        if !self.draft.is_reserved() {
            None
        } else if !self.draft.is_complete() {
            Some(Transfer::Direct(&mut self.draft))
        } else {
            Some(Transfer::Fed)
        }
    }

    /// Takes what it can from `input`; returns how many bytes that was.
    ///
    /// # Panics
    /// If not all memory is reserved.
    pub(super) fn fill_from(&mut self, input: &[u8]) -> usize {
        let of_value = self.draft.fill_from(input);
        of_value + self.line_end.take(&input[of_value..])
    }

    /// Whether value and line end are there.
    pub(super) fn is_complete(&self) -> bool {
        self.draft.is_complete() && self.line_end.missing.is_empty()
    }

    /// Whether other bytes came than the line end.
    pub(super) fn has_wrong_end(&self) -> bool {
        self.line_end.is_wrong
    }
}

impl LineEnd {
    /// Nothing follows the value.
    pub(super) const NONE: LineEnd = LineEnd::of(b"");
    /// As in text protocols.
    pub(super) const CRLF: LineEnd = LineEnd::of(b"\r\n");

    const fn of(missing: &'static [u8]) -> LineEnd {
        LineEnd {
            missing,
            is_wrong: false,
        }
    }

    /// How a connection continues whose value of so many bytes was refused: without both.
    pub(super) fn skip(self, value_bytes: usize) -> Flow {
        Flow::Skip(value_bytes + self.missing.len())
    }

    /// Takes its bytes from `input`; returns how many.
    fn take(&mut self, input: &[u8]) -> usize {
        let bytes = self.missing.len().min(input.len());
        let (expected, missing) = self.missing.split_at(bytes);
        self.is_wrong |= input[..bytes] != *expected;
        self.missing = missing;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_end_is_taken_in_pieces_and_no_byte_behind_it() {
        for (input, is_wrong) in [(b"\r\nget", false), (b"\n\rget", true), (b"\rxget", true)] {
            for at in 0..=2 {
                let mut line_end = LineEnd::CRLF;
                let mut taken = line_end.take(&input[..at]);
                taken += line_end.take(&input[at..]);
                assert_eq!((taken, line_end.is_wrong), (2, is_wrong), "{at}");
            }
        }
        let mut none = LineEnd::NONE;
        assert_eq!(none.take(b"get"), 0);
    }
}

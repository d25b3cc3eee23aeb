//! Filling: a large value being received from the socket into the engine's memory.
//!
//! Memory for a long one is reserved in steps ([`Filling::make_room`]), one per iteration; its
//! request is decoded again in each, and no byte of the value is consumed. Then the worker reads
//! bytes into [`Filling::buffer`] and calls [`Filling::advance`]. Dropping a filling frees its
//! memory.

use cellar_engine::{Cache, Draft, Error, Reserved};

/// Longest value that is decoded with its request; a longer one goes straight to the engine.
pub(super) const SMALL_VALUE_BYTES_MAX: usize = 16 << 10;
/// The line end behind a value.
pub(super) const LINE_END: [u8; 2] = *b"\r\n";

/// How the rest of a request is received.
#[derive(Debug)]
pub enum Transfer<'f> {
    /// The next bytes are read straight into this value.
    Direct(&'f mut Filling),
    /// The next bytes are read as requests are, and fed to it.
    Fed,
}

/// The location of a value to be stored.
pub(super) enum ValueSource<'v> {
    /// In the input.
    Bytes(&'v [u8]),
    /// In the engine's memory already.
    Draft(Draft),
}

/// A value and its line end, if it has one, as far as they were received.
#[derive(Debug)]
pub struct Filling {
    /// The reserved memory; none after a refusal.
    room: Option<Reserved>,
    value_bytes: usize,
    received: usize,
    line_end: [u8; LINE_END.len()],
    line_end_bytes: usize,
}

impl Filling {
    /// An empty one.
    pub(super) fn of(room: Reserved, value_bytes: usize) -> Filling {
        Filling {
            room: Some(room),
            value_bytes,
            received: 0,
            line_end: [0; LINE_END.len()],
            line_end_bytes: LINE_END.len(),
        }
    }

    /// An empty one of a value that nothing follows.
    pub(super) fn without_line_end(room: Reserved, value_bytes: usize) -> Filling {
        Filling {
            line_end_bytes: 0,
            ..Filling::of(room, value_bytes)
        }
    }

    /// Whether memory for the value is reserved.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        matches!(self.room, Some(Reserved::Draft(_)))
    }

    /// Takes the next step towards reserving memory for the value.
    ///
    /// # Errors
    /// If no memory is available; then nothing stays reserved.
    pub(super) fn make_room(&mut self, cache: &Cache) -> Result<(), Error> {
        if let Some(Reserved::More(reservation)) = self.room.take_if(|room| is_underway(room)) {
            self.room = Some(cache.go_on(reservation)?);
        }
        Ok(())
    }

    fn draft_mut(&mut self) -> &mut Draft {
        match &mut self.room {
            Some(Reserved::Draft(draft)) => draft,
            _ => panic!("a value is received when there is room for it"),
        }
    }

    /// Length of the value.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The buffer for the next bytes; empty when the value is complete.
    ///
    /// # Panics
    /// If no memory is reserved yet.
    pub fn buffer(&mut self) -> &mut [u8] {
        match self.received.checked_sub(self.value_bytes) {
            None => {
                let (from, to) = (self.received, self.value_bytes);
                &mut self.draft_mut().value_mut()[from..to]
            }
            Some(of_end) => &mut self.line_end[..self.line_end_bytes][of_end..],
        }
    }

    /// Records that the first `bytes` of [`Filling::buffer`] are filled.
    ///
    /// # Panics
    /// If that is more than the buffer holds.
    pub fn advance(&mut self, bytes: usize) {
        assert!(
            bytes <= self.buffer().len(),
            "only bytes that fit can have been received"
        );
        self.received += bytes;
    }

    /// Takes what it can from `input`; returns how much that was.
    pub fn fill_from(&mut self, input: &[u8]) -> usize {
        let mut taken = 0;
        while taken < input.len() && !self.is_whole() {
            let buffer = self.buffer();
            let bytes = buffer.len().min(input.len() - taken);
            buffer[..bytes].copy_from_slice(&input[taken..taken + bytes]);
            self.advance(bytes);
            taken += bytes;
        }
        taken
    }

    /// How the next bytes are received, if memory is reserved: the last ones together with the
    /// requests behind them.
    #[inline]
    pub(super) fn transfer(&mut self) -> Option<Transfer<'_>> {
        if !self.has_room() {
            None
        } else if self.missing() > LINE_END.len() {
            Some(Transfer::Direct(self))
        } else {
            Some(Transfer::Fed)
        }
    }

    /// Whether value and line end are there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.missing() == 0
    }

    /// Bytes to come, the line end included.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.value_bytes + self.line_end_bytes - self.received
    }

    /// The value.
    ///
    /// # Panics
    /// If bytes are missing.
    pub(super) fn finish(self) -> Draft {
        assert!(self.is_whole(), "it is finished when all bytes are there");
        match self.room {
            Some(Reserved::Draft(draft)) => draft,
            _ => panic!("a whole value has its room"),
        }
    }

    /// The value, if a line end follows it.
    ///
    /// # Panics
    /// As [`Filling::finish`].
    pub(super) fn finish_line(self) -> Option<Draft> {
        let is_ended = self.line_end == LINE_END;
        let draft = self.finish();
        is_ended.then_some(draft)
    }
}

fn is_underway(room: &Reserved) -> bool {
    matches!(room, Reserved::More(_))
}

//! Output: replies of one connection that wait to be written.
//!
//! Small replies are bytes in one buffer; large values are handles on the engine's memory, sent
//! from there without a copy.

use cellar_engine::Handle;

/// Replies in the order they will be written.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
}

impl Output {
    /// The buffer that small replies are appended to.
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a value that is sent from the engine's memory.
    pub fn push_value(&mut self, value: Handle) {
        self.bytes.extend_from_slice(&value);
    }

    /// Takes all that waits as one copy.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

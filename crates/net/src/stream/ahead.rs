//! Read-ahead: bytes that were taken from a connection before they can be used.
//!
//! A client that sends a whole pipeline before it reads its first reply waits until all its
//! requests are taken. While its replies fill the socket, its further requests are kept here, in
//! chunks that are freed one by one as they are read.

use std::collections::VecDeque;

/// Size of a chunk: freed at once, and large enough for few calls of the system.
const CHUNK_BYTES: usize = 64 << 10;

/// Bytes in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    chunks: VecDeque<Vec<u8>>,
    /// How much of the first chunk is read.
    read: usize,
    /// How much of the last chunk is filled.
    filled: usize,
    /// Bytes that wait to be read.
    len: usize,
}

impl ReadAhead {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that it takes.
    pub(super) fn held_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES + self.chunks.capacity() * size_of::<Vec<u8>>()
    }

    /// Free space behind the last byte; never empty.
    pub(super) fn free(&mut self) -> &mut [u8] {
        if self.chunks.is_empty() || self.filled == CHUNK_BYTES {
            self.chunks.push_back(vec![0; CHUNK_BYTES]);
            self.filled = 0;
        }
        let last = self.chunks.back_mut();
        last.map_or(&mut [], |last| &mut last[self.filled..])
    }

    /// Records that `bytes` of the free space were filled.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.filled += bytes;
        self.len += bytes;
    }

    /// Moves the first bytes to a buffer; how many.
    pub(super) fn read(&mut self, mut buffer: &mut [u8]) -> usize {
        let wanted = buffer.len().min(self.len);
        while !buffer.is_empty() && self.len > 0 {
            let is_last = self.chunks.len() == 1;
            let end = if is_last { self.filled } else { CHUNK_BYTES };
            let bytes = buffer.len().min(end - self.read);
            let (now, later) = buffer.split_at_mut(bytes);
            now.copy_from_slice(&self.chunks[0][self.read..self.read + bytes]);
            buffer = later;
            self.read += bytes;
            self.len -= bytes;
            if self.read == end {
                self.chunks.pop_front();
                self.read = 0;
            }
        }
        wanted
    }

    /// Its chunks, to be freed in pieces.
    pub(super) fn into_chunks(self) -> Vec<Vec<u8>> {
        self.chunks.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_order_and_chunks_are_freed() {
        let mut ahead = ReadAhead::default();
        let sent: Vec<u8> = (0..400_000_u32)
            .map(|number| (number % 251) as u8)
            .collect();
        let mut rest = &sent[..];
        let mut received = Vec::new();
        let mut buffer = [0; 9_999];
        while received.len() < sent.len() {
            for _ in 0..3 {
                let free = ahead.free();
                let bytes = free.len().min(rest.len()).min(7_001);
                free[..bytes].copy_from_slice(&rest[..bytes]);
                ahead.advance(bytes);
                rest = &rest[bytes..];
            }
            let bytes = ahead.read(&mut buffer);
            received.extend_from_slice(&buffer[..bytes]);
        }
        assert!(received == sent && ahead.is_empty());
        assert_eq!(ahead.read(&mut buffer), 0);
        assert!(
            ahead.held_bytes() <= 2 * CHUNK_BYTES,
            "{}",
            ahead.held_bytes()
        );
    }
}

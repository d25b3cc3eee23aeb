//! LZF: strings that Redis compresses in its dumps, read a piece at a time.
//!
//! | control byte | means |
//! |---|---|
//! | `000nnnnn` | n + 1 bytes follow as they are |
//! | `nnnddddd dddddddd` | n + 2 bytes that stand d + 1 bytes back |
//! | `111ddddd nnnnnnnn dddddddd` | n + 9 of them |
//!
//! Why not a crate: existing ones decompress a whole string, which takes too long for one step.

use super::BadDump;

/// Most bytes that a compressed one expands to, rounded up: 264 from three.
pub(super) const RATIO_MAX: usize = 128;

/// How far a string is decompressed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inflating {
    read: usize,
    written: usize,
}

impl Inflating {
    /// Writes about `most` bytes more of `out`, which is as long as the string; whether that is
    /// whole.
    ///
    /// # Errors
    /// If the compressed bytes are none, or of a string of another length.
    pub fn step(&mut self, packed: &[u8], out: &mut [u8], most: usize) -> Result<bool, BadDump> {
        let until = self.written.saturating_add(most);
        while self.read < packed.len() && self.written < until {
            self.piece(packed, out)?;
        }
        if self.read < packed.len() {
            return Ok(false);
        }
        if self.written == out.len() {
            Ok(true)
        } else {
            Err(BadDump)
        }
    }

    fn piece(&mut self, packed: &[u8], out: &mut [u8]) -> Result<(), BadDump> {
        let mut byte = || {
            let byte = packed.get(self.read).copied().ok_or(BadDump);
            self.read += 1;
            byte.map(usize::from)
        };
        let control = byte()?;
        if control < 32 {
            let literal = packed
                .get(self.read..self.read + control + 1)
                .ok_or(BadDump)?;
            let place = out.get_mut(self.written..self.written + literal.len());
            place.ok_or(BadDump)?.copy_from_slice(literal);
            self.read += literal.len();
            self.written += literal.len();
            return Ok(());
        }
        let length = match control >> 5 {
            7 => byte()? + 9,
            length => length + 2,
        };
        let back = ((control & 31) << 8 | byte()?) + 1;
        let from = self.written.checked_sub(back).ok_or(BadDump)?;
        let end = self.written + length;
        if end > out.len() {
            return Err(BadDump);
        }
        // It may overlap its own output.
        for place in 0..length {
            out[self.written + place] = out[from + place];
        }
        self.written = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_string_comes_out_in_pieces() {
        // Two bytes as they are, then 20 that repeat them.
        let packed = b"\x01ab\xe0\x0b\x01";
        let (mut out, mut inflating) = ([0; 22], Inflating::default());
        assert_eq!(inflating.step(packed, &mut out, 1), Ok(false));
        assert_eq!(inflating.step(packed, &mut out, 1), Ok(true));
        assert_eq!(&out, b"ababababababababababab");
        for length in [21, 23] {
            let mut out = vec![0; length];
            let mut inflating = Inflating::default();
            assert_eq!(inflating.step(packed, &mut out, 99), Err(BadDump));
        }
        let mut out = [0; 9];
        assert_eq!(
            Inflating::default().step(b"\x20\x00", &mut out, 99),
            Err(BadDump)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_decompressed(
            packed in proptest::collection::vec(any::<u8>(), 0..200),
            length in 0_usize..3_000,
        ) {
            let mut out = vec![0; length];
            let mut inflating = Inflating::default();
            while inflating.step(&packed, &mut out, 100) == Ok(false) {}
        }
    }
}

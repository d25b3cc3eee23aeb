//! Windows: copies of the parts of a string that a command reads and changes, instead of all of it.

use std::ops::Range;

use cellar_engine::Splice;

/// Parts of a string in a scratch buffer, in their order and without bytes in common.
#[derive(Debug)]
pub(in crate::resp) struct Windows(Vec<Splice>);

impl Windows {
    /// Copies these parts of a string to the end of `scratch`; behind its end are zeros. Cost: the
    /// length of the parts, and to sort them.
    pub(in crate::resp) fn of(
        ranges: impl Iterator<Item = Range<usize>>,
        value: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Windows {
        let mut ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut windows: Vec<Splice> = Vec::with_capacity(ranges.len());
        for Range { start, end } in ranges {
            let upto = match windows.last_mut() {
                Some(last) if start <= last.at + last.len => {
                    let upto = last.at + last.len;
                    last.len = last.len.max(end - last.at);
                    upto
                }
                _ => {
                    let from = scratch.len();
                    windows.push(Splice {
                        at: start,
                        from,
                        len: end - start,
                    });
                    start
                }
            };
            let length = scratch.len() + end.saturating_sub(upto);
            if upto < end && upto < value.len() {
                scratch.extend_from_slice(&value[upto..end.min(value.len())]);
            }
            scratch.resize(length, 0);
        }
        Windows(windows)
    }

    /// The position in the scratch buffer of a range of the string, which has to be in one window.
    ///
    /// # Panics
    /// If it is in none.
    pub(in crate::resp) fn place(&self, range: Range<usize>) -> Range<usize> {
        let next = self.0.partition_point(|window| window.at <= range.start);
        let window = self.0[next - 1];
        assert!(range.end <= window.at + window.len, "a window has it whole");
        let from = window.from + range.start - window.at;
        from..from + range.len()
    }

    /// The parts to write back to a string of this length.
    pub(in crate::resp) fn parts(mut self, value_bytes: usize) -> Vec<Splice> {
        for part in &mut self.0 {
            part.len = part.len.min(value_bytes.saturating_sub(part.at));
        }
        self.0.retain(|part| part.len > 0);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_touch_are_one_and_end_with_zeros() {
        let value: Vec<u8> = (1..=20).collect();
        let mut scratch = Vec::new();
        let ranges = [18..22, 3..5, 4..6, 6..7, 4..5, 9..9, 30..31];
        let windows = Windows::of(ranges.into_iter(), &value, &mut scratch);
        assert_eq!(scratch, [4, 5, 6, 7, 19, 20, 0, 0, 0]);
        assert_eq!(windows.place(5..7), 2..4);
        assert_eq!(windows.place(19..21), 5..7);
        assert_eq!(windows.place(30..31), 8..9);
        let splice = |at, from, len| Splice { at, from, len };
        assert_eq!(windows.parts(21), [splice(3, 0, 4), splice(18, 4, 3)]);
    }
}

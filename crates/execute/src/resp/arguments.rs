//! Arguments: copies of arguments for commands that outlive their input.

use std::ops::Range;

use smallvec::SmallVec;

/// Arguments kept while a command waits, or runs over several iterations.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    bytes: Vec<u8>,
    /// Without an allocation for a few, which most commands take.
    ends: SmallVec<[u32; 4]>,
}

impl Arguments {
    /// A copy. Cost: one pass, two allocations at most.
    pub(super) fn of(args: &[&[u8]]) -> Arguments {
        let mut kept = Arguments {
            bytes: Vec::with_capacity(args.iter().map(|arg| arg.len()).sum()),
            ends: SmallVec::with_capacity(args.len()),
        };
        kept.extend(args);
        kept
    }

    /// Adds a copy of these.
    pub(super) fn extend(&mut self, args: &[&[u8]]) {
        for arg in args {
            self.append(arg);
            self.end_one();
        }
    }

    /// Adds bytes to the one that is being added.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Reserves capacity for so many bytes more.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// All their bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Ends the one that is being added.
    pub(super) fn end_one(&mut self) {
        let end = u32::try_from(self.bytes.len());
        self.ends
            .push(end.expect("what is kept for one client is shorter than 4 GiB"));
    }

    /// The memory that these take, as counted by [`Arguments::bytes`].
    pub(super) fn bytes_of(args: &[&[u8]]) -> usize {
        args.iter().map(|arg| arg.len() + size_of::<u32>()).sum()
    }

    /// Number of arguments.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(self.ends.as_slice())
    }

    /// All of them, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.part(0..self.len())
    }

    /// The arguments at these positions.
    pub(super) fn part(&self, places: Range<usize>) -> impl Iterator<Item = &[u8]> {
        places.map(|place| self.get(place))
    }

    /// The argument at a position.
    pub(super) fn get(&self, place: usize) -> &[u8] {
        let end_of = |place: usize| self.ends[place] as usize;
        let start = place.checked_sub(1).map_or(0, end_of);
        &self.bytes[start..end_of(place)]
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;

    #[test]
    fn they_are_kept_with_their_borders() {
        let kept = Arguments::of(&[b"one", b"", b"three"]);
        assert_eq!(kept.len(), 3);
        assert_eq!(
            [0, 1, 2].map(|place| kept.get(place)),
            [&b"one"[..], b"", b"three"]
        );
    }
}

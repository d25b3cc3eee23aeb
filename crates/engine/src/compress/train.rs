//! Train: makes a family's dictionary from sampled values, and measures its saving.
//!
//! Three of four values train, the fourth measures what the dictionary saves on values that it has
//! not seen.
//!
//! Why: docs/decisions/0084. Tests: those of `compress.rs`, tests/compress.rs.

use super::{Dictionary, Timer, pack};

/// Bytes of a family's sample: as many as are gathered, and as there must be.
pub(crate) const SAMPLE_BYTES: usize = 512 << 10;
pub(crate) const SAMPLE_BYTES_MIN: usize = 128 << 10;
const DICTIONARY_BYTES: usize = 32 << 10;
/// One of so many values measures what a dictionary saves.
const SHOWN_SHARE: usize = 4;
/// Where a trained dictionary has its own number, which no frame needs.
const ID_BYTES: std::ops::Range<usize> = 4..8;

/// A dictionary, and its saving on values of its family.
#[derive(Debug)]
pub(crate) struct Trained {
    pub(crate) dictionary: Dictionary,
    /// The bytes from which the dictionary was made.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the values that measure its saving.
    pub(crate) plain_bytes: usize,
    /// Bytes of these as they would be stored, with this dictionary and with the one before.
    pub(crate) packed_bytes: usize,
    pub(crate) before_bytes: usize,
}

/// Makes a dictionary of values, and compares it with the one that the family has; `None` if the
/// values are too few or have nothing in common.
pub(crate) fn train(values: &[Vec<u8>], before: Option<&Dictionary>) -> Option<Trained> {
    let (mut samples, mut lengths) = (Vec::new(), Vec::new());
    for (_, value) in values.iter().enumerate().filter(|one| !is_shown(one.0)) {
        samples.extend_from_slice(value);
        lengths.push(value.len());
    }
    let mut bytes = vec![0; DICTIONARY_BYTES];
    let trained = zstd_safe::train_from_buffer(&mut bytes[..], &samples, &lengths);
    bytes.truncate(trained.ok()?);
    bytes.get_mut(ID_BYTES)?.fill(0);
    let dictionary = Dictionary::of(&bytes)?;
    let shown = || values.iter().enumerate().filter(|one| is_shown(one.0));
    let left = |dictionary: &Dictionary| {
        let (mut packed, timer) = (Vec::new(), Timer::default());
        let stored =
            shown().map(
                |(_, value)| match pack((0, dictionary), &timer, value, &mut packed) {
                    true => packed.len(),
                    false => value.len(),
                },
            );
        stored.sum::<usize>()
    };
    let plain_bytes = shown().map(|(_, value)| value.len()).sum();
    Some(Trained {
        packed_bytes: left(&dictionary),
        before_bytes: before.map_or(plain_bytes, left),
        plain_bytes,
        dictionary,
        bytes,
    })
}

fn is_shown(position: usize) -> bool {
    position % SHOWN_SHARE == SHOWN_SHARE - 1
}

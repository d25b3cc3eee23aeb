//! HyperLogLog: a string that estimates how many different elements were added to it.
//!
//! Bytes: `HYLL`; 0 for dense, 1 for sparse; 3 unused; 8 for the cached count, whose top bit says
//! that it is out of date; the registers.
//!
//! An element's hash has 14 bits for its register and 50 more, of which the register stores the
//! longest row of zeros, plus one. Dense registers have 6 bits each, the lowest first. Sparse ones
//! are runs ([`sparse`]); one that does not fit becomes dense. Format, hash and estimate are
//! Redis's, so either server can read the other's HyperLogLogs, and both return the same counts.
//!
//! Strings of clients may be malformed: a command checks the parts that it reads, as Redis does.
//! Estimate: O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017.
//! Tests: at the end of this file, server/tests/resp_hyperloglog.rs.

mod sparse;

use std::ops::Range;

use cellar_engine::base::vector::Wide;

use sparse::{Raise, Start, Stretch};

/// Registers of a HyperLogLog.
pub const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// Bits of a hash beside those of its register.
const ROW_BITS: usize = 50;
/// Bytes before the registers.
const HEAD_BYTES: usize = 16;
/// Bits of a dense register.
const REGISTER_BITS: usize = 6;
/// Length of a dense HyperLogLog.
pub const DENSE_BYTES: usize = HEAD_BYTES + REGISTERS * REGISTER_BITS / 8;
/// Longest sparse HyperLogLog that a change leaves sparse.
const SPARSE_BYTES_MAX: usize = 3_000;
/// No sparse HyperLogLog is longer: a run has one register at least, and takes two bytes at most.
const RUNS_BYTES_MAX: usize = 2 * REGISTERS;
/// A change of a sparse HyperLogLog adds no more.
const CHANGE_BYTES: usize = 5;
const MAGIC: &[u8] = b"HYLL";
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// Where the cached count begins, and its byte with the bit for "out of date".
const COUNT_AT: usize = 8;
const STALE_AT: usize = 15;
const STALE_BIT: u8 = 0x80;
/// The head of a dense HyperLogLog without a cached count.
const UNCOUNTED_HEAD: [u8; HEAD_BYTES] = *b"HYLL\0\0\0\0\0\0\0\0\0\0\0\x80";
/// The seed of the elements' hash.
const SEED: u64 = 0xadc8_3b19;

/// Why a string is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is no HyperLogLog.
    NotHyperLogLog,
    /// It begins as a HyperLogLog does, but its registers are no such.
    Corrupted,
}

/// Whether a string begins and is as long as a HyperLogLog.
///
/// # Errors
/// [`Flaw::NotHyperLogLog`].
pub fn check_head(bytes: &[u8]) -> Result<(), Flaw> {
    let is_one = bytes.len() >= HEAD_BYTES
        && bytes.starts_with(MAGIC)
        && match bytes[4] {
            DENSE => bytes.len() == DENSE_BYTES,
            encoding => encoding == SPARSE,
        };
    is_one.then_some(()).ok_or(Flaw::NotHyperLogLog)
}

/// Whether a string with such a head is a dense HyperLogLog.
#[must_use]
pub fn is_dense(bytes: &[u8]) -> bool {
    bytes[4] == DENSE
}

/// The register of a dense HyperLogLog.
#[must_use]
pub fn dense_register(bytes: &[u8], index: usize) -> u8 {
    dense_at(bytes, index)
}

/// The bytes of a dense HyperLogLog that have a part of a register.
#[must_use]
pub fn register_bytes(index: usize) -> Range<usize> {
    let (at, _) = dense_place(index);
    at..DENSE_BYTES.min(at + 2)
}

/// Raises a register to a value, if it is lower, in those bytes of it.
pub fn raise_register(bytes: &mut [u8], index: usize, value: u8) {
    let (_, bit) = dense_place(index);
    if register_in(bytes, bit) < value {
        set_register(bytes, bit, value);
    }
}

/// The byte that says whether the cached count is out of date.
pub const STALE_BYTE: Range<usize> = STALE_AT..STALE_AT + 1;

/// Says in that byte that it is.
pub fn make_stale(byte: &mut [u8]) {
    byte[0] |= STALE_BIT;
}

/// The cached count of a string with this head, if it is not out of date.
#[must_use]
pub fn told(bytes: &[u8]) -> Option<u64> {
    let count = bytes[COUNT_AT..HEAD_BYTES].iter().rev();
    let count = count.fold(0, |count, &byte| count << 8 | u64::from(byte));
    (bytes[STALE_AT] & STALE_BIT == 0).then_some(count)
}

/// The bytes of a cached count, and their range.
#[must_use]
pub fn telling(count: u64) -> ([u8; 8], usize) {
    (count.to_le_bytes(), COUNT_AT)
}

/// Raises each register of a dense HyperLogLog to that of a string with such a head.
///
/// # Errors
/// [`Flaw::Corrupted`], and some registers are raised.
pub fn merge(bytes: &[u8], dense: &mut [u8]) -> Result<(), Flaw> {
    if is_dense(bytes) {
        let (ours, theirs) = (&mut dense[HEAD_BYTES..], &bytes[HEAD_BYTES..]);
        match Wide::of_processor() {
            Some(wide) => wide.run(|| merge_dense(theirs, ours)),
            None => merge_dense(theirs, ours),
        }
        return Ok(());
    }
    let mut at = 0;
    sparse::each_run(&bytes[HEAD_BYTES..], |run| {
        if run.value > 0 {
            for index in at..at + run.length {
                raise_dense(dense, index, run.value);
            }
        }
        at += run.length;
    })
}

/// A dense HyperLogLog with the registers of another, without a cached count.
#[must_use]
pub fn uncounted(dense: &[u8]) -> Vec<u8> {
    let mut bytes = dense.to_vec();
    bytes[..HEAD_BYTES].copy_from_slice(&UNCOUNTED_HEAD);
    bytes
}

/// Takes over the count of a string with such a head, and says that it is out of date: so does a
/// Redis that changes a HyperLogLog.
pub fn copy_count(bytes: &[u8], dense: &mut [u8]) {
    dense[COUNT_AT..HEAD_BYTES].copy_from_slice(&bytes[COUNT_AT..HEAD_BYTES]);
    dense[STALE_AT] |= STALE_BIT;
}

/// A dense HyperLogLog without elements, without a cached count.
#[must_use]
pub fn no_elements() -> Vec<u8> {
    let mut bytes = vec![0; DENSE_BYTES];
    bytes[..HEAD_BYTES].copy_from_slice(&UNCOUNTED_HEAD);
    bytes
}

/// How many elements a string with such a head was given, about.
///
/// # Errors
/// [`Flaw::Corrupted`].
pub fn count(bytes: &[u8]) -> Result<u64, Flaw> {
    let mut histogram = [0; 64];
    if is_dense(bytes) {
        histogram = histogram_of(bytes);
    } else {
        sparse::each_run(&bytes[HEAD_BYTES..], |run| {
            histogram[usize::from(run.value)] += run.length;
        })?;
    }
    Ok(estimate(&histogram))
}

/// The register of an element, and the value that it has there at least.
#[must_use]
pub fn row_of(element: &[u8]) -> (usize, u8) {
    let mut hash = ElementHash::of(element);
    hash.go_on(element, usize::MAX);
    hash.row(element)
}

/// A HyperLogLog that can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperLogLog(Vec<u8>);

impl HyperLogLog {
    /// One without elements.
    #[must_use]
    pub fn empty() -> HyperLogLog {
        let mut bytes = MAGIC.to_vec();
        bytes.push(SPARSE);
        bytes.resize(HEAD_BYTES, 0);
        sparse::push(
            &mut bytes,
            Stretch {
                value: 0,
                length: REGISTERS,
            },
        );
        HyperLogLog(bytes)
    }

    /// A copy of a string that has the head of a HyperLogLog, with spare capacity for a change.
    ///
    /// # Errors
    /// [`Flaw::NotHyperLogLog`], and [`Flaw::Corrupted`] if it is longer than any HyperLogLog.
    pub fn of(bytes: &[u8]) -> Result<HyperLogLog, Flaw> {
        check_head(bytes)?;
        if !is_dense(bytes) && bytes.len() > HEAD_BYTES + RUNS_BYTES_MAX {
            return Err(Flaw::Corrupted);
        }
        let mut copy = Vec::with_capacity(bytes.len() + CHANGE_BYTES);
        copy.extend_from_slice(bytes);
        Ok(HyperLogLog(copy))
    }

    /// Its bytes, without a cached count.
    #[must_use]
    pub fn stale(mut self) -> Vec<u8> {
        self.0[STALE_AT] |= STALE_BIT;
        self.0
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Raises a register to a value; whether it was lower.
    ///
    /// # Errors
    /// [`Flaw::Corrupted`], and nothing is changed.
    pub fn raise(&mut self, index: usize, value: u8) -> Result<bool, Flaw> {
        if !is_dense(&self.0) {
            let mut start = Start::of_all(HEAD_BYTES);
            match self.raise_sparse(&mut start, index, value)? {
                Some(is_raised) => return Ok(is_raised),
                None => self.make_dense()?,
            }
        }
        let is_lower = dense_at(&self.0, index) < value;
        if is_lower {
            set_dense(&mut self.0, index, value);
        }
        Ok(is_lower)
    }

    /// Raises each register to that of a dense HyperLogLog, as [`HyperLogLog::raise`] does one
    /// after the other. Cost: one pass over both.
    ///
    /// # Errors
    /// [`Flaw::Corrupted`], and some registers are raised.
    pub fn raise_all(&mut self, dense: &[u8]) -> Result<(), Flaw> {
        let mut start = Start::of_all(HEAD_BYTES);
        if !is_dense(&self.0) {
            for (index, value) in values_set(dense) {
                if self.raise_sparse(&mut start, index, value)?.is_none() {
                    self.make_dense()?;
                    break;
                }
            }
        }
        match is_dense(&self.0) {
            true => merge(dense, &mut self.0),
            false => Ok(()),
        }
    }

    /// Raises a register of a sparse one from a start on; none if it has to become dense for that.
    fn raise_sparse(
        &mut self,
        start: &mut Start,
        index: usize,
        value: u8,
    ) -> Result<Option<bool>, Flaw> {
        let raise = Raise {
            index,
            value,
            bytes_max: SPARSE_BYTES_MAX,
        };
        sparse::raise(&mut self.0, start, raise)
    }

    /// Makes it dense, if it is not.
    ///
    /// # Errors
    /// [`Flaw::Corrupted`], and nothing is changed.
    pub fn make_dense(&mut self) -> Result<(), Flaw> {
        if is_dense(&self.0) {
            return Ok(());
        }
        let mut dense = no_elements();
        copy_count(&self.0, &mut dense);
        merge(&self.0, &mut dense)?;
        self.0 = dense;
        Ok(())
    }
}

/// Where a dense register begins: the byte, and the bit in it.
fn dense_place(index: usize) -> (usize, usize) {
    let bit = index * REGISTER_BITS;
    (HEAD_BYTES + bit / 8, bit % 8)
}

/// The two bytes in which a dense register lies; the last one has no second byte.
fn pair(bytes: &[u8]) -> u16 {
    u16::from(bytes[0]) | u16::from(bytes.get(1).copied().unwrap_or(0)) << 8
}

/// The register that begins at a bit of the first byte.
fn register_in(bytes: &[u8], bit: usize) -> u8 {
    (pair(bytes) >> bit & 63) as u8
}

fn set_register(bytes: &mut [u8], bit: usize, value: u8) {
    let both = pair(bytes) & !(63 << bit) | u16::from(value & 63) << bit;
    bytes[0] = both as u8;
    if let Some(second) = bytes.get_mut(1) {
        *second = (both >> 8) as u8;
    }
}

/// Raises a register of a dense HyperLogLog to a value, if it is lower.
#[inline]
fn raise_dense(bytes: &mut [u8], index: usize, value: u8) {
    let (at, bit) = dense_place(index);
    let Some(pair) = bytes[at..].first_chunk_mut() else {
        return raise_register(&mut bytes[at..], index, value);
    };
    let both = u16::from_le_bytes(*pair);
    let register = both >> bit & 63;
    if register < u16::from(value) {
        *pair = (both ^ (register ^ u16::from(value & 63)) << bit).to_le_bytes();
    }
}

fn dense_at(bytes: &[u8], index: usize) -> u8 {
    let (at, bit) = dense_place(index);
    register_in(&bytes[at..], bit)
}

fn set_dense(bytes: &mut [u8], index: usize, value: u8) {
    let (at, bit) = dense_place(index);
    set_register(&mut bytes[at..], bit, value);
}

/// Raises the registers of one dense HyperLogLog to those of another; both without their heads.
#[inline(always)]
fn merge_dense(theirs: &[u8], ours: &mut [u8]) {
    let (ours, _) = ours.as_chunks_mut::<8>();
    let (theirs, _) = theirs.as_chunks::<8>();
    for (ours, theirs) in ours.chunks_exact_mut(3).zip(theirs.chunks_exact(3)) {
        let [a, b, c, d] = groups(ours);
        let [e, f, g, h] = groups(theirs);
        let (a, b, c, d) = (highest(a, e), highest(b, f), highest(c, g), highest(d, h));
        ours[0] = (a | b << 48).to_le_bytes();
        ours[1] = (b >> 16 | c << 32).to_le_bytes();
        ours[2] = (c >> 32 | d << 16).to_le_bytes();
    }
}

/// The registers of a group of eight with an even number, and the bit above each.
const EVEN: u64 = 0x03f0_3f03_f03f;
const ABOVE: u64 = 0x0400_4004_0040;

/// The four groups of eight dense registers, 48 bits each, that lie in three words.
#[inline(always)]
fn groups(words: &[[u8; 8]]) -> [u64; 4] {
    const GROUP: u64 = 0xffff_ffff_ffff;
    let a = u64::from_le_bytes(words[0]);
    let b = u64::from_le_bytes(words[1]);
    let c = u64::from_le_bytes(words[2]);
    [
        a & GROUP,
        (a >> 48 | b << 16) & GROUP,
        (b >> 32 | c << 32) & GROUP,
        c >> 16,
    ]
}

/// The higher one of each two registers of two groups.
#[inline(always)]
fn highest(one: u64, other: u64) -> u64 {
    let mask = at_least(one, other) | at_least(one >> 6, other >> 6) << 6;
    other ^ (one ^ other) & mask
}

/// The bits of each even register of a group that is at least that of another.
#[inline(always)]
fn at_least(one: u64, other: u64) -> u64 {
    // Above a register that is at least the other one, the bit stays; none borrows from the next.
    let above = ((one & EVEN | ABOVE) - (other & EVEN)) & ABOVE;
    above - (above >> 6)
}

/// Registers that lie in three words.
const TRIPLE: usize = 32;

/// The groups of a dense HyperLogLog: those of three words at a time that are not all zero, and the
/// first register of these.
#[inline(always)]
fn groups_set(bytes: &[u8]) -> impl Iterator<Item = (usize, [u64; 4])> {
    let (words, _) = bytes[HEAD_BYTES..].as_chunks::<8>();
    let (triples, _) = words.as_chunks::<3>();
    let set = (0..).zip(triples);
    let set = set.filter(|(_, [one, two, three])| {
        let [one, two, three] = [one, two, three].map(|word| u64::from_le_bytes(*word));
        one | two | three != 0
    });
    set.map(|(triple, words)| (triple * TRIPLE, groups(words)))
}

/// The registers of a group, each in a byte.
fn spread(group: u64) -> u64 {
    let fours = group & 0x00ff_ffff | (group & 0xffff_ff00_0000) << 8;
    let pairs = fours & 0x0000_0fff_0000_0fff | (fours & 0x00ff_f000_00ff_f000) << 4;
    pairs & 0x003f_003f_003f_003f | (pairs & 0x0fc0_0fc0_0fc0_0fc0) << 2
}

/// The registers of a dense HyperLogLog that are not zero, and their values.
fn values_set(dense: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    groups_set(dense).flat_map(|(first, groups)| {
        let eights = groups.into_iter().map(spread);
        let values = eights.flat_map(u64::to_le_bytes);
        (first..).zip(values).filter(|&(_, value)| value > 0)
    })
}

/// How many registers of a dense HyperLogLog have each value.
fn histogram_of(dense: &[u8]) -> [usize; 64] {
    const PAIR_BITS: usize = 2 * REGISTER_BITS;
    const PAIR: u64 = (1 << PAIR_BITS) - 1;
    // Two neighbours are counted at once, by the values of both.
    let mut pairs = [[0_u16; 64]; 64];
    let mut looked_at = 0;
    for (_, groups) in groups_set(dense) {
        looked_at += TRIPLE;
        for group in groups {
            for at in (0..8 * REGISTER_BITS).step_by(PAIR_BITS) {
                pairs.as_flattened_mut()[(group >> at & PAIR) as usize] += 1;
            }
        }
    }
    let mut histogram = [0; 64];
    histogram[0] = (REGISTERS - looked_at) as u16;
    for (second, row) in pairs.iter().enumerate() {
        for (sum, count) in histogram.iter_mut().zip(row) {
            *sum += count;
        }
        histogram[second] += row.iter().sum::<u16>();
    }
    histogram.map(usize::from)
}

/// The estimated number of elements if so many registers have each value.
fn estimate(histogram: &[usize; 64]) -> u64 {
    /// Half of the reciprocal of the logarithm of two.
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let all = REGISTERS as f64;
    let part = |count: usize| count as f64 / all;
    let mut sum = all * tau(part(REGISTERS - histogram[ROW_BITS + 1].min(REGISTERS)));
    for value in (1..=ROW_BITS).rev() {
        sum = (sum + histogram[value] as f64) * 0.5;
    }
    sum += all * sigma(part(histogram[0]));
    (ALPHA * all * all / sum).round() as u64
}

/// The contribution to the estimate of registers that are zero.
fn sigma(mut part: f64) -> f64 {
    if part == 1.0 {
        return f64::INFINITY;
    }
    let (mut weight, mut sum) = (1.0, part);
    loop {
        part *= part;
        let before = sum;
        sum += part * weight;
        weight += weight;
        if before == sum {
            return sum;
        }
    }
}

/// The contribution to the estimate of registers with the highest value.
fn tau(mut part: f64) -> f64 {
    if part == 0.0 || part == 1.0 {
        return 0.0;
    }
    let (mut weight, mut sum) = (1.0, 1.0 - part);
    loop {
        part = part.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - part) * (1.0 - part) * weight;
        if before == sum {
            return sum / 3.0;
        }
    }
}

/// The hash of an element (MurmurHash2 for 64 bits, A. Appleby's second variant), computed in
/// steps: that of a long one takes many milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct ElementHash {
    hash: u64,
    /// Bytes that are hashed, whole words.
    done: usize,
}

impl ElementHash {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;

    /// Of an element of which nothing is hashed yet.
    #[must_use]
    pub fn of(element: &[u8]) -> ElementHash {
        ElementHash {
            hash: SEED ^ (element.len() as u64).wrapping_mul(Self::FACTOR),
            done: 0,
        }
    }

    /// Hashes up to `most` more bytes of the element; returns how many it were.
    pub fn go_on(&mut self, element: &[u8], most: usize) -> usize {
        let rest = element.get(self.done..).unwrap_or_default();
        let bytes = rest.len().min(most) / 8 * 8;
        for word in rest[..bytes].chunks_exact(8) {
            let mut word = number(word).wrapping_mul(Self::FACTOR);
            word ^= word >> Self::SHIFT;
            self.hash = (self.hash ^ word.wrapping_mul(Self::FACTOR)).wrapping_mul(Self::FACTOR);
        }
        self.done += bytes;
        bytes
    }

    /// Whether all words of the element are hashed.
    #[must_use]
    pub fn is_over(&self, element: &[u8]) -> bool {
        element.len() - self.done < 8
    }

    fn finish(self, element: &[u8]) -> u64 {
        let (mut hash, rest) = (self.hash, &element[self.done..]);
        if !rest.is_empty() {
            hash = (hash ^ number(rest)).wrapping_mul(Self::FACTOR);
        }
        hash ^= hash >> Self::SHIFT;
        hash = hash.wrapping_mul(Self::FACTOR);
        hash ^ hash >> Self::SHIFT
    }

    /// As [`row_of`] the element, of which all words are hashed.
    #[must_use]
    pub fn row(self, element: &[u8]) -> (usize, u8) {
        let hash = self.finish(element);
        let row = hash >> INDEX_BITS | 1 << ROW_BITS;
        // There are at most 50 zeros.
        let value = row.trailing_zeros() as u8 + 1;
        ((hash & (REGISTERS as u64 - 1)) as usize, value)
    }
}

/// Bytes as a number, the lowest first.
fn number(bytes: &[u8]) -> u64 {
    match bytes.try_into() {
        Ok(word) => u64::from_le_bytes(word),
        Err(_) => {
            let bytes = bytes.iter().rev();
            bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn registers(hll: &HyperLogLog) -> Vec<u8> {
        let mut dense = no_elements();
        merge(hll.bytes(), &mut dense).unwrap();
        (0..REGISTERS)
            .map(|index| dense_at(&dense, index))
            .collect()
    }

    fn add(hll: &mut HyperLogLog, element: &str) -> bool {
        let (index, value) = row_of(element.as_bytes());
        hll.raise(index, value).unwrap()
    }

    #[test]
    fn an_element_that_is_hashed_in_pieces_has_the_same_row() {
        let element: Vec<u8> = (0..1_003_u32).map(|n| (n * 7) as u8).collect();
        for length in [0, 1, 7, 8, 9, 64, 1_000, 1_003] {
            let element = &element[..length];
            let (mut hash, mut pieces) = (ElementHash::of(element), 0);
            while !hash.is_over(element) {
                assert_eq!(
                    hash.go_on(element, 100),
                    (element.len() - pieces * 96).min(96) / 8 * 8
                );
                pieces += 1;
            }
            assert_eq!(pieces, (length / 8 * 8).div_ceil(96));
            assert_eq!(hash.row(element), row_of(element));
        }
    }

    #[test]
    fn sparse_and_dense_hyperloglogs_count_the_same() {
        let (mut sparse, mut dense) = (HyperLogLog::empty(), HyperLogLog::empty());
        dense.make_dense().unwrap();
        for number in 0..20_000_u64 {
            let element = format!("element:{number}");
            assert_eq!(add(&mut sparse, &element), add(&mut dense, &element));
            if number % 997 == 0 {
                assert_eq!(registers(&sparse), registers(&dense));
                let told = count(sparse.bytes()).unwrap();
                assert_eq!(told, count(dense.bytes()).unwrap());
                assert!((told as f64 - number as f64).abs() <= 2.0 + number as f64 * 0.03);
            }
        }
        assert!(is_dense(sparse.bytes()));
        assert_eq!(sparse.bytes().len(), DENSE_BYTES);
    }

    #[test]
    fn registers_that_are_raised_together_make_the_same_bytes_as_one_by_one() {
        for (elements, others) in [
            (0, 7),
            (7, 0),
            (40, 40),
            (300, 900),
            (1_500, 600),
            (9, 4_000),
        ] {
            let (mut one, mut other) = (HyperLogLog::empty(), HyperLogLog::empty());
            for number in 0..elements {
                add(&mut one, &format!("one:{number}"));
            }
            for number in 0..others {
                add(&mut other, &format!("other:{number}"));
            }
            let mut dense = no_elements();
            merge(other.bytes(), &mut dense).unwrap();
            let mut together = one.clone();
            together.raise_all(&dense).unwrap();
            for index in 0..REGISTERS {
                one.raise(index, dense_at(&dense, index)).unwrap();
            }
            assert!(one == together, "{elements} and {others} elements");
        }
    }

    #[test]
    fn the_last_register_is_kept_as_any_other() {
        let mut hll = HyperLogLog::empty();
        assert_eq!(hll.raise(REGISTERS - 1, 7), Ok(true));
        assert_eq!(hll.raise(REGISTERS - 1, 6), Ok(false));
        hll.make_dense().unwrap();
        assert_eq!(dense_at(hll.bytes(), REGISTERS - 1), 7);
        assert_eq!(hll.raise(REGISTERS - 1, 51), Ok(true));
        assert_eq!(hll.raise(0, 33), Ok(true));
        assert_eq!(dense_at(hll.bytes(), REGISTERS - 1), 51);
        assert_eq!(registers(&hll)[REGISTERS - 1], 51);
    }

    #[test]
    fn dense_hyperloglogs_merge_register_by_register() {
        let raised = |factor: usize| {
            let mut hll = HyperLogLog::empty();
            hll.make_dense().unwrap();
            for index in 0..REGISTERS {
                hll.raise(index, (index * factor % 64) as u8).unwrap();
            }
            hll
        };
        let (one, other) = (raised(7), raised(11));
        let mut merged = one.bytes().to_vec();
        merge(other.bytes(), &mut merged).unwrap();
        for index in 0..REGISTERS {
            let values = [7, 11].map(|factor| (index * factor % 64) as u8);
            assert_eq!(
                Some(&dense_at(&merged, index)),
                values.iter().max(),
                "{index}"
            );
        }
        let mut copied = no_elements();
        merge(one.bytes(), &mut copied).unwrap();
        assert_eq!(copied, one.stale());
    }

    #[test]
    fn extreme_registers_have_counts() {
        let mut full = HyperLogLog::empty().stale();
        full[4] = DENSE;
        full.resize(DENSE_BYTES, 0xff);
        full[HEAD_BYTES..].fill(0xff);
        assert_eq!(told(&full), None);
        assert!(count(&full).unwrap() > 1 << 50);
        assert_eq!(count(HyperLogLog::empty().bytes()), Ok(0));
        assert_eq!(told(HyperLogLog::empty().bytes()), Some(0));
    }

    proptest! {
        #[test]
        fn any_string_is_refused_or_counted(
            encoding in 0_u8..3,
            rest in proptest::collection::vec(any::<u8>(), 0..400),
            missing in 0_usize..3,
        ) {
            let mut bytes = [MAGIC, &[encoding], &[0; 11], &rest].concat();
            if encoding == SPARSE {
                // Most are about as long as they should be.
                let mut at = 0;
                let _ = sparse::each_run(&rest, |run| at += run.length);
                if at < REGISTERS {
                    sparse::push(&mut bytes, Stretch { value: 0, length: REGISTERS - at });
                }
                bytes.truncate(bytes.len() - missing.min(1));
            }
            let mut dense = no_elements();
            if check_head(&bytes).is_ok() && merge(&bytes, &mut dense).is_ok() {
                let mut hll = HyperLogLog::of(&bytes).unwrap();
                prop_assert_eq!(count(&bytes), count(&dense));
                for index in (0..REGISTERS).step_by(37) {
                    let value = dense_at(&dense, index);
                    prop_assert_eq!(hll.raise(index, value), Ok(false));
                    prop_assert_eq!(hll.clone().raise(index, value + 1), Ok(true));
                }
                for number in 0..50 {
                    add(&mut hll, &number.to_string());
                }
                prop_assert!(count(hll.bytes()).is_ok());
            } else if check_head(&bytes).is_ok() {
                let mut hll = HyperLogLog::of(&bytes).unwrap();
                for number in 0..50 {
                    let (index, value) = row_of(number.to_string().as_bytes());
                    // Some are raised before the flaw; none behind it.
                    let _ = hll.raise(index, value);
                }
                prop_assert_eq!(hll.make_dense(), Err(Flaw::Corrupted));
                prop_assert_eq!(count(&bytes), Err(Flaw::Corrupted));
                prop_assert_eq!(merge(&bytes, &mut dense), Err(Flaw::Corrupted));
            }
        }

        #[test]
        fn raised_registers_are_the_highest_of_what_they_were_given(
            raises in proptest::collection::vec((0_usize..600, 1_u8..40), 0..900),
            spread in 1_usize..27,
        ) {
            let (mut hll, mut model) = (HyperLogLog::empty(), vec![0; REGISTERS]);
            for (index, value) in raises {
                let index = index * spread;
                prop_assert_eq!(hll.raise(index, value), Ok(model[index] < value));
                model[index] = model[index].max(value);
            }
            prop_assert!(count(hll.bytes()).is_ok());
            prop_assert!(registers(&hll) == model);
        }
    }
}

//! Bit counts: BITCOUNT and BITPOS, over all bits of a string or a part of them.
//!
//! A long string is scanned in steps. Source: redis.io/docs/latest/commands/bitcount and bitpos.
//! Arguments are validated in the order of redis-server 7.2, before the key; BITCOUNT without an
//! end counts to the last byte, as in Valkey 8.1.

use std::ops::Range;

use cellar_engine::Handle;
use cellar_engine::base::vector::Wide;
use cellar_protocol::resp::Reply;
use cellar_protocol::resp::number::parse_integer;

use crate::resp::call::steps::Progress;
use crate::resp::call::{Call, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::values::{as_string, count_read};

/// Bits scanned in one step.
const STEP_BITS: usize = 8 * (4 << 20);
/// Bytes that are compared at once with a chunk that has no wanted bit.
const CHUNK_BYTES: usize = 64;

/// The string of the first key.
fn string(call: &Call<'_>) -> Result<Option<Handle>, Failure> {
    let key = call.first_key()?;
    let found = (call.cache()).get(key, |item| as_string(Some(item)).map(|_| item.pin()));
    count_read(call, found.is_some());
    found.transpose()
}

fn integer(text: &[u8]) -> Result<i64, Failure> {
    parse_integer(text).ok_or(Failure::NotInteger)
}

/// Whether a range counts bits rather than bytes.
fn is_of_bits(unit: Option<&&[u8]>) -> Result<bool, Failure> {
    match unit {
        None => Ok(false),
        Some(unit) if unit.eq_ignore_ascii_case(b"BYTE") => Ok(false),
        Some(unit) if unit.eq_ignore_ascii_case(b"BIT") => Ok(true),
        Some(_) => Err(Failure::Syntax),
    }
}

/// The bits from one place to another, both included; negative places count from the end.
fn bits_between(bytes: usize, start: i64, end: i64, of_bits: bool) -> Range<usize> {
    let unit = if of_bits { 1 } else { 8 };
    let total = i64::try_from(bytes * 8 / unit).unwrap_or(i64::MAX);
    let from_start = |place: i64| if place < 0 { place + total } else { place }.max(0);
    let (start, end) = (from_start(start), from_start(end).min(total - 1));
    if start > end {
        return 0..0;
    }
    // Both lie within the value.
    start as usize * unit..(end as usize + 1) * unit
}

pub(in crate::resp) fn bitcount(call: &mut Call<'_>) -> Outcome {
    // Invalid arguments are reported whether the key exists or not.
    let range = match call.args {
        [_, _] => None,
        [_, _, start] => Some((integer(start)?, -1, false)),
        [_, _, start, end, unit @ ..] if unit.len() <= 1 => {
            let (start, end) = (integer(start)?, integer(end)?);
            Some((start, end, is_of_bits(unit.first())?))
        }
        _ => return Err(Failure::Syntax),
    };
    let Some(value) = string(call)? else {
        return call.integer(0);
    };
    let mut bits = match range {
        None => 0..value.len() * 8,
        Some((start, end, _)) if start < 0 && end < 0 && start > end => {
            return call.integer(0);
        }
        Some((start, end, of_bits)) => bits_between(value.len(), start, end, of_bits),
    };
    let (proto, mut count) = (call.session.proto, 0);
    call.in_steps(move |_, output| {
        let end = bits.end.min(bits.start.saturating_add(STEP_BITS));
        count += count_ones(&value, bits.start..end);
        bits.start = end;
        if !bits.is_empty() {
            return Progress::More;
        }
        Reply::new(output.bytes(), proto).integer(count);
        Progress::Last
    })
}

/// How many of these bits are set.
fn count_ones(value: &[u8], bits: Range<usize>) -> i64 {
    if bits.is_empty() {
        return 0;
    }
    let (first, last) = (bits.start / 8, (bits.end - 1) / 8);
    let head = 0xff >> (bits.start % 8);
    let tail = 0xff << (7 - (bits.end - 1) % 8);
    if first == last {
        return i64::from((value[first] & head & tail).count_ones());
    }
    let edges = (value[first] & head).count_ones() + (value[last] & tail).count_ones();
    let between = &value[first + 1..last];
    let between = match Wide::of_processor() {
        Some(wide) => wide.run(|| count_bytes(between)),
        None => count_bytes(between),
    };
    between as i64 + i64::from(edges)
}

/// How many bits are set in bytes.
#[inline(always)]
fn count_bytes(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    let (words, rest) = rest.as_chunks::<8>();
    let words = words
        .iter()
        .map(|&word| u64::from_ne_bytes(word).count_ones());
    let rest = rest.iter().map(|byte| byte.count_ones());
    count_blocks(blocks) + u64::from(words.chain(rest).sum::<u32>())
}

/// Words that are added bitwise in parallel: as many as two registers of any processor hold.
type Lanes = [u64; 4];
/// Bytes that are counted together.
const BLOCK_BYTES: usize = 16 * size_of::<Lanes>();

/// How many bits are set in blocks: the words of one are added as binary numbers of one bit, and
/// only the sixteens are counted one by one (W. Harley's and R. Seal's method).
#[inline(always)]
fn count_blocks(blocks: &[[u8; BLOCK_BYTES]]) -> u64 {
    let mut digits = [[0; 4]; 4];
    let mut sixteens = 0;
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        let (words, _) = words.as_chunks::<4>();
        let mut carries = [[0; 4]; 8];
        for (carry, pair) in carries.iter_mut().zip(words.chunks_exact(2)) {
            *carry = add(&mut digits[0], lanes(&pair[0]), lanes(&pair[1]));
        }
        for (digit, pairs) in digits[1..].iter_mut().zip([4, 2, 1]) {
            for pair in 0..pairs {
                carries[pair] = add(digit, carries[2 * pair], carries[2 * pair + 1]);
            }
        }
        sixteens += ones_of(carries[0]);
    }
    let digits = digits.iter().rev();
    digits.fold(sixteens, |sum, &lanes| 2 * sum + ones_of(lanes))
}

#[inline(always)]
fn lanes(words: &[[u8; 8]; 4]) -> Lanes {
    let [a, b, c, d] = words;
    [
        u64::from_ne_bytes(*a),
        u64::from_ne_bytes(*b),
        u64::from_ne_bytes(*c),
        u64::from_ne_bytes(*d),
    ]
}

#[inline(always)]
fn ones_of([a, b, c, d]: Lanes) -> u64 {
    u64::from(a.count_ones() + b.count_ones() + c.count_ones() + d.count_ones())
}

/// Adds two numbers of one bit in each place to a third; the carries.
#[inline(always)]
fn add(sum: &mut Lanes, one: Lanes, other: Lanes) -> Lanes {
    let mut carries = [0; 4];
    for lane in 0..4 {
        let (a, b, c) = (sum[lane], one[lane], other[lane]);
        sum[lane] = a ^ b ^ c;
        carries[lane] = a & b | (a ^ b) & c;
    }
    carries
}

pub(in crate::resp) fn bitpos(call: &mut Call<'_>) -> Outcome {
    let wanted = match integer(call.args[2])? {
        0 => false,
        1 => true,
        _ => return Err(Failure::text("ERR The bit argument must be 1 or 0.")),
    };
    let range = match call.args {
        [_, _, _] => None,
        [_, _, _, start] => Some((integer(start)?, -1, false)),
        [_, _, _, start, end, unit @ ..] if unit.len() <= 1 => {
            let start = integer(start)?;
            let of_bits = is_of_bits(unit.first())?;
            Some((start, integer(end)?, of_bits))
        }
        _ => return Err(Failure::Syntax),
    };
    let has_end = call.args.len() > 4;
    let Some(value) = string(call)? else {
        return call.integer(if wanted { -1 } else { 0 });
    };
    let bits = match range {
        None => 0..value.len() * 8,
        Some((start, end, of_bits)) => bits_between(value.len(), start, end, of_bits),
    };
    // Zeros continue behind the end of a string, unless the client gave an end.
    let otherwise = if wanted || has_end || bits.is_empty() {
        -1
    } else {
        bits.end as i64
    };
    let (proto, mut bits) = (call.session.proto, bits);
    call.in_steps(move |_, output| {
        let end = bits.end.min(bits.start.saturating_add(STEP_BITS));
        let found = find(&value, bits.start..end, wanted);
        bits.start = end;
        if found.is_none() && !bits.is_empty() {
            return Progress::More;
        }
        let place = found.map_or(otherwise, |place| place as i64);
        Reply::new(output.bytes(), proto).integer(place);
        Progress::Last
    })
}

/// The first of these bits that is set, or clear.
fn find(value: &[u8], bits: Range<usize>, wanted: bool) -> Option<usize> {
    if bits.is_empty() {
        return None;
    }
    let (none, invert) = if wanted { (0, 0) } else { (0xff, 0xff) };
    let bit_of = |byte: usize, found: u8| byte * 8 + found.leading_zeros() as usize;
    let (first, last) = (bits.start / 8, (bits.end - 1) / 8);
    let head = (value[first] ^ invert) & (0xff >> (bits.start % 8));
    let place = if head != 0 {
        bit_of(first, head)
    } else {
        let inner = &value[first + 1..last + 1];
        let is_empty = |chunk: &[u8]| chunk.iter().fold(0, |all, byte| all | (byte ^ none)) == 0;
        let skipped = inner
            .chunks(CHUNK_BYTES)
            .take_while(|chunk| is_empty(chunk));
        let from = skipped.map(<[u8]>::len).sum::<usize>();
        let byte = from + inner[from..].iter().position(|byte| *byte != none)?;
        bit_of(first + 1 + byte, inner[byte] ^ invert)
    };
    (place < bits.end).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::{bits_between, count_ones, find};

    /// The bits of a value, one by one.
    fn bits(value: &[u8]) -> Vec<bool> {
        let of = |byte: &u8| {
            (0..8)
                .map(|bit| byte << bit & 0x80 != 0)
                .collect::<Vec<_>>()
        };
        value.iter().flat_map(of).collect()
    }

    #[test]
    fn any_range_is_counted_and_searched_as_bit_by_bit() {
        let mut value = vec![0; 70];
        value.extend([0x13, 0xff, 0x80, 0x01]);
        value.extend([0xff; 66]);
        value.extend([0x7f, 0xf0]);
        let all = bits(&value);
        for start in (0..=all.len()).step_by(3) {
            for end in (start..=all.len()).step_by(5).chain([all.len()]) {
                let part = &all[start..end];
                let ones = part.iter().filter(|bit| **bit).count();
                assert_eq!(count_ones(&value, start..end), ones as i64);
                for wanted in [false, true] {
                    let place = part.iter().position(|bit| *bit == wanted);
                    let expected = place.map(|place| start + place);
                    assert_eq!(find(&value, start..end, wanted), expected, "{start} {end}");
                }
            }
        }
    }

    #[test]
    fn long_values_are_counted_as_byte_by_byte() {
        let value: Vec<u8> = (0..5_000_u32)
            .map(|number| (number.wrapping_mul(0x9e37_79b9) >> 24) as u8)
            .collect();
        for bytes in [511, 512, 513, 514, 1_026, 2_050, 5_000] {
            let ones: u32 = value[..bytes].iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(count_ones(&value[..bytes], 0..bytes * 8), i64::from(ones));
        }
        assert_eq!(count_ones(&[0xff; 4_098], 0..4_098 * 8), 4_098 * 8);
    }

    #[test]
    fn a_range_counts_bytes_or_bits_from_both_ends() {
        assert_eq!(bits_between(3, 0, -1, false), 0..24);
        assert_eq!(bits_between(3, 1, 1, false), 8..16);
        assert_eq!(bits_between(3, -5, 7, true), 0..0);
        assert_eq!(bits_between(3, -20, 7, true), 4..8);
        assert_eq!(bits_between(3, i64::MIN, i64::MAX, true), 0..24);
        assert_eq!(bits_between(3, 2, 1, false), 0..0);
        assert_eq!(bits_between(0, 0, -1, false), 0..0);
    }
}

//! Plausible: whether untrusted bytes are an item.
//!
//! All code that reads items trusts their headers. Memory left by a process that was killed during
//! a change, or a state file that another program has written, is checked here first.

use super::{
    DRAFT, EXTENDED, FIELD_DEADLINE, FIELD_FLAGS_8, FIELD_FLAGS_32, FIELD_SPACE, FIELDS_BYTES,
    HOLE, HOLE_OF_ONE, PACKED, PLAIN_KEY_BYTES_MAX, key_length_bytes,
};
use crate::deadlines::deadline_encoding::DeadlineEncoding;

/// Whether an item begins with `front`, of which `room` bytes may be its own: then it is read
/// without going beyond these. `front` has all of them, or as many as the longest header.
pub(crate) fn is_plausible(front: &[u8], room: usize, encoding: DeadlineEncoding) -> bool {
    header_and_rest(front, encoding).is_some_and(|(header, rest)| header + rest <= room)
}

/// Bytes of the entry that begins with `front`, of which `room` bytes may be its own; `None` if
/// what lies there is no entry.
pub(crate) fn plausible_bytes(
    front: &[u8],
    room: usize,
    encoding: DeadlineEncoding,
) -> Option<usize> {
    let bytes = match *front.first()? {
        HOLE_OF_ONE => 1,
        HOLE | DRAFT => base_128(front.get(1..)?)?.0,
        _ => header_and_rest(front, encoding).map(|(header, rest)| header + rest)?,
    };
    (1..=room).contains(&bytes).then_some(bytes)
}

/// Bytes of the header, and of key and value behind it.
fn header_and_rest(front: &[u8], encoding: DeadlineEncoding) -> Option<(usize, usize)> {
    let first = *front.first()?;
    if usize::from(first) <= PLAIN_KEY_BYTES_MAX {
        let (value_bytes, length) = base_128(front.get(1..)?)?;
        let header = 1 + length + usize::from(encoding.width);
        return is_inside(header, front).then_some((header, usize::from(first) + value_bytes));
    }
    if ![EXTENDED, PACKED].contains(&first) {
        return None;
    }
    let fields = *front.get(1)?;
    let both = FIELD_FLAGS_8 | FIELD_FLAGS_32;
    if fields & both == both {
        return None;
    }
    let key_width = key_length_bytes(fields);
    let key = front.get(2..2 + key_width)?;
    let key_bytes = key
        .iter()
        .rev()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let (value_bytes, length) = base_128(front.get(2 + key_width..)?)?;
    let width = match fields & FIELD_DEADLINE {
        0 => usize::from(encoding.width),
        _ => 0,
    };
    let header = 2 + key_width + length + width + FIELDS_BYTES[usize::from(fields)];
    // The space is read from right before the key.
    let is_whole = fields & FIELD_SPACE == 0 || header >= 5;
    (is_whole && is_inside(header, front)).then_some((header, key_bytes + value_bytes))
}

fn is_inside(header: usize, front: &[u8]) -> bool {
    header <= front.len()
}

/// A number, and how many bytes it takes.
fn base_128(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    for (step, byte) in bytes.iter().take(5).enumerate() {
        number |= usize::from(byte & 0x7f) << (7 * step);
        if byte & 0x80 == 0 {
            return Some((number, step + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, HEADER_BYTES_MAX, read};
    use super::*;
    use crate::base::clock::Instant;
    use crate::memory::arena::Arena;

    #[test]
    fn whatever_is_plausible_can_be_read_and_stays_in_its_room() {
        const ROOM: usize = 1 << 12;
        let arena = Arena::reserve(1, 12, Instant(0), None).unwrap();
        let mut state = 1_u64;
        let (mut plausible, mut random) = (0, || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        });
        for round in 0..if cfg!(miri) { 200 } else { 200_000 } {
            let mut front = [0; HEADER_BYTES_MAX];
            front.iter_mut().for_each(|byte| *byte = random() as u8);
            match round % 3 {
                0 => front[0] = EXTENDED,
                1 => front[0] = PACKED,
                _ => {}
            }
            front[3] &= 0x3f;
            let at = ROOM - 300 - random() as usize % 1_000;
            let width = DeadlineEncoding::WIDTHS[random() as usize % 4];
            let encoding = DeadlineEncoding::new(1 << 20, width);
            // SAFETY: only this test uses the arena.
            unsafe { arena.write(at, &front) };
            if is_plausible(&front, ROOM - at, encoding) {
                plausible += 1;
                match read(&arena, at, encoding) {
                    Entry::Item(layout) => assert!(at + layout.total_bytes() <= ROOM),
                    other => panic!("{front:?} is {other:?}"),
                }
            }
        }
        assert!(plausible > 10, "{plausible}");
    }
}

//! Slot: the slot of a key, of 16,384.
//!
//! Source: redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec, "Key distribution
//! model": CRC16 (XMODEM) of the key, or of its hash tag, the text between its first braces.

/// Slots that there are.
pub const SLOTS: u16 = 16_384;

/// Bytes that are reckoned with at once.
const STRIDE: usize = 8;
/// CRC16 of each byte, for the polynomial 0x1021, followed by as many bytes of zero as the table's
/// index: the bytes of one stride are looked up independently of each other.
static TABLES: [[u16; 256]; STRIDE] = tables();
const ONES: u64 = u64::MAX / 0xff;
const BRACES: u64 = ONES * b'{' as u64;

const fn tables() -> [[u16; 256]; STRIDE] {
    let mut tables = [[0; 256]; STRIDE];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut place = 0;
        while place < STRIDE {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x8000 == 0 {
                    crc << 1
                } else {
                    crc << 1 ^ 0x1021
                };
                bit += 1;
            }
            tables[place][byte] = crc;
            place += 1;
        }
        byte += 1;
    }
    tables
}

/// The slot of a key.
#[inline]
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    let (crc, has_brace) = crc16(key);
    if has_brace {
        return slot_of_part(key);
    }
    crc % SLOTS
}

/// Characters of a [hash tag](tag_of).
const TAG_CHARACTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A text that is a key of this slot, and so a hash tag for others: each slot has one of three
/// characters.
#[must_use]
pub fn tag_of(slot: u16) -> [u8; 3] {
    let characters = || TAG_CHARACTERS.iter().copied();
    let pairs = characters().flat_map(|one| characters().map(move |other| [one, other]));
    let mut tags = pairs.flat_map(|[one, other]| characters().map(move |last| [one, other, last]));
    tags.find(|tag| slot_of(tag) == slot).unwrap_or_default()
}

/// The slot of a key in which a brace opens.
#[cold]
fn slot_of_part(key: &[u8]) -> u16 {
    crc16(hashed_part(key)).0 % SLOTS
}

/// The hash tag: the text between the first braces, or the whole key if that is empty or missing.
fn hashed_part(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else {
        return key;
    };
    let rest = &key[open + 1..];
    match memchr::memchr(b'}', rest) {
        None | Some(0) => key,
        Some(length) => &rest[..length],
    }
}

/// The CRC16 of bytes, and whether a brace opens in them.
#[inline]
fn crc16(bytes: &[u8]) -> (u16, bool) {
    let (head, strides) = bytes.as_rchunks::<STRIDE>();
    let (mut crc, mut braces) = (0, 0);
    if !head.is_empty() {
        // A CRC that begins with zero is the same with zeros before the first byte.
        let word = match bytes.first_chunk::<STRIDE>() {
            Some(first) => u64::from_be_bytes(*first) >> (8 * (STRIDE - head.len())),
            None => head
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        (crc, braces) = (stirred(word), self::braces(word));
    }
    for stride in strides {
        let word = u64::from_be_bytes(*stride);
        braces |= self::braces(word);
        crc = stirred(word ^ u64::from(crc) << 48);
    }
    (crc, braces != 0)
}

/// The CRC16 of a word's bytes, the highest first.
#[inline]
fn stirred(word: u64) -> u16 {
    let bytes = word.to_le_bytes().into_iter().zip(&TABLES);
    bytes.fold(0, |crc, (byte, table)| crc ^ table[usize::from(byte)])
}

/// Not zero if a byte of the word opens a brace.
#[inline]
fn braces(word: u64) -> u64 {
    let zeros = word ^ BRACES;
    zeros.wrapping_sub(ONES) & !zeros & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_is_as_good_as_its_bytes() {
        let one_by_one = |bytes: &[u8]| {
            bytes.iter().fold(0_u16, |crc, byte| {
                (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
                    crc << 1 ^ if crc >> 15 == 1 { 0x1021 } else { 0 }
                })
            })
        };
        let bytes: Vec<u8> = (0..=255_u8).map(|n| n.wrapping_mul(97)).collect();
        for length in 0..=bytes.len() {
            let bytes = &bytes[bytes.len() - length..];
            let has_brace = bytes.contains(&b'{');
            assert_eq!(
                crc16(bytes),
                (one_by_one(bytes), has_brace),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn each_slot_has_a_tag() {
        for slot in (0..SLOTS).step_by(101) {
            assert_eq!(slot_of(&tag_of(slot)), slot);
        }
        assert_eq!(&tag_of(0), b"06S");
    }

    #[test]
    fn keys_lie_where_redis_puts_them() {
        // What `CLUSTER KEYSLOT` of redis-server 7 answers.
        for (key, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{user1000}.following", 3_443),
            ("{user1000}.followers", 3_443),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("foo{bar}{zap}", 5_061),
            ("bar", 5_061),
            ("{", 4_092),
            ("", 0),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }
}

//! Slot: which of the 16,384 slots a key lies in.
//!
//! Source: redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec, "Key distribution
//! model": CRC16 (XMODEM) of the key, or of what stands between its first braces.

/// Slots that there are.
pub const SLOTS: u16 = 16_384;

/// CRC16 of each byte, for the polynomial 0x1021.
const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x1021
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// The slot of a key.
#[inline]
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hashed_part(key)) % SLOTS
}

/// What stands between the first braces, unless that is nothing; else the whole key.
#[inline]
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

#[inline]
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

/// Words of a set of slots.
const WORDS: usize = SLOTS as usize / 64;

/// Some of the slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSet(Box<[u64; WORDS]>);

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet(Box::new([0; WORDS]))
    }
}

impl SlotSet {
    /// The slots for which `is_in` holds.
    #[must_use]
    pub fn of(is_in: impl Fn(u16) -> bool) -> SlotSet {
        let mut set = SlotSet::default();
        for slot in (0..SLOTS).filter(|slot| is_in(*slot)) {
            set.0[usize::from(slot / 64)] |= 1 << (slot % 64);
        }
        set
    }

    /// Whether a slot is among them.
    #[inline]
    #[must_use]
    pub fn has(&self, slot: u16) -> bool {
        self.0[usize::from(slot / 64) % WORDS] >> (slot % 64) & 1 == 1
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Those that are also in the other.
    #[must_use]
    pub fn and(&self, other: &SlotSet) -> SlotSet {
        self.combine(other, |one, other| one & other)
    }

    /// These and those of the other.
    #[must_use]
    pub fn or(&self, other: &SlotSet) -> SlotSet {
        self.combine(other, |one, other| one | other)
    }

    /// Those that are not in the other.
    #[must_use]
    pub fn without(&self, other: &SlotSet) -> SlotSet {
        self.combine(other, |one, other| one & !other)
    }

    /// Its bits, 64 slots a word, the lowest first.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }

    /// The first and the last of each run of slots that follow each other.
    #[must_use]
    pub fn runs(&self) -> Vec<(u16, u16)> {
        let mut runs: Vec<(u16, u16)> = Vec::new();
        for slot in (0..SLOTS).filter(|slot| self.has(*slot)) {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => runs.push((slot, slot)),
            }
        }
        runs
    }

    fn combine(&self, other: &SlotSet, by: impl Fn(u64, u64) -> u64) -> SlotSet {
        let mut set = self.clone();
        let words = set.0.iter_mut().zip(other.0.iter());
        words.for_each(|(one, other)| *one = by(*one, *other));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_all_slots_of_a_set_and_no_others() {
        let set = SlotSet::of(|slot| slot < 3 || slot == 63 || slot == 64 || slot == SLOTS - 1);
        assert_eq!(set.runs(), [(0, 2), (63, 64), (SLOTS - 1, SLOTS - 1)]);
        assert_eq!(SlotSet::default().runs(), []);
        assert_eq!(SlotSet::of(|_| true).runs(), [(0, SLOTS - 1)]);
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

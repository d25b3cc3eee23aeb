//! Compress: values that are stored compressed, each by itself, with the dictionary of its family.
//!
//! ```text
//! [dictionary 1][value bytes 2][check 2][zstd frame without its magic number]
//! ```
//!
//! A family is the database and the key's prefix: up to the first `:` or `/`, or a private prefix
//! of some users, so that no dictionary has values of others in it. [`Codecs`] says which
//! dictionary a family has, and holds all dictionaries that some item still needs.
//!
//! Invariant: zstd decompresses what [`pack`] wrote and nothing else: the check is a hash of all
//! bytes before and after it ([`is_sound`]).
//! Why: docs/decisions/0084, 0087. Tests: at the end of this file, tests/compress.rs.

mod prefixes; // which keys share a dictionary
mod train; // how a dictionary is made of sampled values

pub(crate) use self::prefixes::PrivatePrefixes;
pub(crate) use self::train::{SAMPLE_BYTES, SAMPLE_BYTES_MIN, Trained, train};

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::base::clock::Stopwatch;
use crate::state::DICTIONARIES_MAX;

/// Values that are compressed: shorter ones save too little, longer ones are sent to clients from
/// where they lie.
pub(crate) const VALUE_BYTES: std::ops::Range<usize> = 128..16 << 10;
/// The least saving that compression must reach on a value, and on a family's sample, in percent.
pub(crate) const SAVED_PERCENT_MIN: usize = 15;
/// One of so many values is timed when it is compressed or decompressed.
const TIMED_SHARE: u32 = 64;
const LEVEL: i32 = 1;
/// Bytes before the frame; the last four replace the frame's magic number.
const FRONT_BYTES: usize = 5;
const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

const _: () = assert!(
    VALUE_BYTES.end <= 1 << 16,
    "two bytes have a value's length"
);

/// A dictionary, ready for use in both directions.
pub(crate) struct Dictionary {
    packs: CDict<'static>,
    unpacks: DDict<'static>,
}

impl Dictionary {
    /// Of bytes as they are trained.
    pub(crate) fn of(bytes: &[u8]) -> Option<Dictionary> {
        Some(Dictionary {
            packs: CDict::try_create(bytes, LEVEL)?,
            unpacks: DDict::try_create(bytes)?,
        })
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.packs.sizeof() + self.unpacks.sizeof()
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// Whether a value of so many bytes may be compressed.
pub(crate) fn may_pack(value_bytes: usize) -> bool {
    VALUE_BYTES.contains(&value_bytes)
}

/// The dictionaries of a cache, and which of them new values of a family are compressed with.
#[derive(Clone, Debug)]
pub(crate) struct Codecs {
    /// By number; none where no item needs one.
    pub(crate) dictionaries: [Option<Arc<Dictionary>>; DICTIONARIES_MAX],
    /// Families with the number of their dictionary, in order.
    pub(crate) families: Vec<(u64, u8)>,
    /// Which keys are a family.
    pub(crate) private: Arc<PrivatePrefixes>,
    /// Grows with each change of the families.
    pub(crate) generation: u32,
}

impl Default for Codecs {
    fn default() -> Codecs {
        Codecs {
            dictionaries: [const { None }; DICTIONARIES_MAX],
            families: Vec::new(),
            private: Arc::default(),
            generation: 0,
        }
    }
}

impl Codecs {
    /// The dictionary for new values of a family, and its number.
    pub(crate) fn of_family(&self, family: u64) -> Option<(u8, &Dictionary)> {
        let at = self.families.binary_search_by_key(&family, |one| one.0);
        let number = self.families[at.ok()?].1;
        Some((number, self.numbered(number)?))
    }

    /// A dictionary by its number; there is one while an item needs it.
    fn numbered(&self, number: u8) -> Option<&Dictionary> {
        let dictionary = self.dictionaries.get(usize::from(number))?;
        dictionary.as_deref()
    }

    /// The numbers of all dictionaries, a bit each.
    pub(crate) fn numbers(&self) -> u64 {
        let dictionaries = self.dictionaries.iter().zip(0..);
        dictionaries.fold(0, |all, (one, number)| {
            all | u64::from(one.is_some()) << number
        })
    }
}

/// How long compressing and decompressing has taken, as some of the values show.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    untimed: Cell<u32>,
    ns: Cell<u64>,
}

impl Timer {
    /// Nanoseconds since the timer was made; an estimate.
    pub(crate) fn ns(&self) -> u64 {
        self.ns.get()
    }

    fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let untimed = self.untimed.get();
        if let Some(fewer) = untimed.checked_sub(1) {
            self.untimed.set(fewer);
            return work();
        }
        self.untimed.set(TIMED_SHARE - 1);
        let stopwatch = Stopwatch::start();
        let result = work();
        let ns = stopwatch.ns() * u64::from(TIMED_SHARE);
        self.ns.set(self.ns.get() + ns);
        result
    }
}

/// The compression and decompression contexts of a thread.
struct Contexts {
    packs: CCtx<'static>,
    unpacks: DCtx<'static>,
    /// A packed value with the magic number in place.
    frame: Vec<u8>,
    /// A plain value; taken out while it is being read.
    plain: Vec<u8>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::new(Contexts {
        packs: CCtx::create(),
        unpacks: DCtx::create(),
        frame: Vec::new(),
        plain: Vec::new(),
    });
}

/// Compresses a value into `packed`; `false` if that does not save enough.
pub(crate) fn pack(
    (number, dictionary): (u8, &Dictionary),
    timer: &Timer,
    value: &[u8],
    packed: &mut Vec<u8>,
) -> bool {
    let bytes_max = value.len() * (100 - SAVED_PERCENT_MIN) / 100;
    packed.clear();
    packed.resize(bytes_max.max(FRONT_BYTES), 0);
    packed[0] = number;
    let frame = &mut packed[1..];
    let written = timer.time(|| {
        CONTEXTS.with_borrow_mut(|contexts| {
            let packs = &mut contexts.packs;
            packs.compress_using_cdict(frame, value, &dictionary.packs)
        })
    });
    // An error says that the frame is longer than it may be.
    let Ok(frame_bytes) = written else {
        return false;
    };
    packed.truncate(1 + frame_bytes);
    let length = (value.len() as u16).to_le_bytes();
    packed[1..3].copy_from_slice(&length);
    let check = check_of(packed);
    packed[3..FRONT_BYTES].copy_from_slice(&check);
    true
}

/// The check of a packed value.
fn check_of(packed: &[u8]) -> [u8; 2] {
    let [number, low, high, ..] = *packed else {
        return [0; 2];
    };
    let front = u64::from_le_bytes([number, low, high, 0, 0, 0, 0, 0]);
    let hash = rapidhash::v3::rapidhash_v3(&packed[FRONT_BYTES..]);
    let mixed = (hash ^ front).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    (mixed as u16).to_le_bytes()
}

/// Bytes of the value that a packed one holds.
pub(crate) fn plain_bytes(packed: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([packed[1], packed[2]]))
}

/// Whether a packed value is unchanged since [`pack`] and its dictionary is present. It is not if
/// another program has changed the memory, or the state file of the previous process.
pub(crate) fn is_sound(codecs: &Codecs, packed: &[u8]) -> bool {
    dictionary_of(codecs, packed).is_some()
}

/// The dictionary of a packed value that is sound.
fn dictionary_of<'c>(codecs: &'c Codecs, packed: &[u8]) -> Option<&'c Dictionary> {
    let is_whole = packed.len() > FRONT_BYTES && packed[3..FRONT_BYTES] == check_of(packed);
    is_whole.then(|| codecs.numbered(packed[0])).flatten()
}

/// Passes the decompressed value to `read`, or an empty one if it is not sound. How long it takes
/// without `read` goes to the timer.
pub(crate) fn unpack<R>(
    codecs: &Codecs,
    timer: &Timer,
    packed: &[u8],
    read: impl FnOnce(&[u8]) -> R,
) -> R {
    let Some(dictionary) = dictionary_of(codecs, packed) else {
        return read(&[]);
    };
    let plain = timer.time(|| decompressed(dictionary, packed));
    let result = read(&plain);
    CONTEXTS.with_borrow_mut(|contexts| contexts.plain = plain);
    result
}

/// The value of a packed one that is sound, in the thread's own buffer.
fn decompressed(dictionary: &Dictionary, packed: &[u8]) -> Vec<u8> {
    CONTEXTS.with_borrow_mut(|contexts| {
        contexts.frame.clear();
        contexts.frame.extend_from_slice(&MAGIC);
        contexts.frame.extend_from_slice(&packed[FRONT_BYTES..]);
        let mut plain = std::mem::take(&mut contexts.plain);
        plain.resize(plain_bytes(packed), 0);
        let (frame, unpacks) = (&contexts.frame, &mut contexts.unpacks);
        let bytes = unpacks.decompress_using_ddict(&mut plain[..], frame, &dictionary.unpacks);
        if bytes != Ok(plain.len()) {
            plain.clear();
        }
        plain
    })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn values() -> Vec<Vec<u8>> {
        let value = |n: u32| {
            let mixed = n.wrapping_mul(0x9e37_79b9);
            let text = format!(
                "{{\"id\":{n},\"name\":\"user {mixed}\",\"active\":{}}}",
                n % 2
            );
            text.repeat(1 + (n % 5) as usize * 3).into_bytes()
        };
        (0..4_000).map(value).collect()
    }

    fn codecs() -> Codecs {
        let trained = train(&values(), None).expect("documents have much in common");
        let mut codecs = Codecs::default();
        codecs.dictionaries[7] = Some(Arc::new(trained.dictionary));
        codecs.families = vec![(3, 7)];
        codecs
    }

    #[test]
    fn a_packed_value_is_shorter_and_comes_back() {
        let codecs = codecs();
        let (known, timer) = (codecs.of_family(3).expect("it has one"), Timer::default());
        let (mut packed, mut bytes, mut packed_bytes) = (Vec::new(), 0, 0);
        for value in values() {
            if pack(known, &timer, &value, &mut packed) {
                assert_eq!(plain_bytes(&packed), value.len());
                unpack(&codecs, &timer, &packed, |plain| assert_eq!(plain, value));
                packed_bytes += packed.len();
            } else {
                packed_bytes += value.len();
            }
            bytes += value.len();
        }
        assert!(packed_bytes * 3 < bytes, "{packed_bytes} of {bytes}");
        assert!(timer.ns() > 0);
        assert!(codecs.of_family(4).is_none());
    }

    #[test]
    fn a_value_within_a_value_is_read_while_the_other_is() {
        let codecs = codecs();
        let (known, timer) = (codecs.of_family(3).expect("it has one"), Timer::default());
        let values = values();
        let packed = |value: &[u8]| {
            let mut packed = Vec::new();
            assert!(pack(known, &timer, value, &mut packed));
            packed
        };
        let (one, other) = (packed(&values[101]), packed(&values[202]));
        unpack(&codecs, &timer, &one, |first| {
            unpack(&codecs, &timer, &other, |second| {
                assert_eq!(second, values[202])
            });
            assert_eq!(first, values[101]);
        });
    }

    #[test]
    fn each_changed_byte_is_noticed_before_zstd_sees_it() {
        let codecs = codecs();
        let (known, timer) = (codecs.of_family(3).expect("it has one"), Timer::default());
        let mut packed = Vec::new();
        assert!(pack(known, &timer, &values()[77], &mut packed));
        for at in 0..packed.len() {
            let mut changed = packed.clone();
            changed[at] ^= 0x10;
            assert_ne!(changed[3..FRONT_BYTES], check_of(&changed), "byte {at}");
        }
    }

    #[test]
    fn random_bytes_stay_plain() {
        let codecs = codecs();
        let (known, timer) = (codecs.of_family(3).expect("it has one"), Timer::default());
        let mut state = 1_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u8
        };
        let mut packed = Vec::new();
        for bytes in [128, 200, 1_000, 16_383] {
            let value: Vec<u8> = (0..bytes).map(|_| random()).collect();
            assert!(!pack(known, &timer, &value, &mut packed));
        }
    }
}

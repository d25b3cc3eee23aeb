//! FileHeader: the first page of a cache's file.
//!
//! Its first part is written once, with a check, and contains layout, boot, hash seed and sizes,
//! which identify the file. Its second part, the words of [`LiveHeader`], changes while the cache
//! is in use. It is read without a mapping, so a file that is too short cannot cause a fault.
//!
//! Tests: at the end of this file, tests/restart.rs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::clock::Instant;
use crate::base::space::Space;
use crate::memory::{PAGE_BYTES, Region};

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = PAGE_BYTES;
/// The magic number at the start of the file.
const MAGIC: u64 = u64::from_le_bytes(*b"cellar\x1a\n");
/// The layout version that this build writes and reads; with another one the cache starts empty.
/// Every change to the layout of items, slots, records or this header raises it.
const LAYOUT: u64 = 8;
/// The ABI that the next process must share: byte order and word length.
const ABI: u64 = (cfg!(target_endian = "little") as u64) << 8 | size_of::<usize>() as u64;
/// Words of the first part.
const WORDS: usize = 15 + Space::SHARES_MAX;
/// Where the second part begins.
const LIVE_WORDS_AT: usize = 1024;
/// Offset of the owner's number and its check, after these words.
const NOTE_AT: u64 = LIVE_WORDS_AT as u64 + size_of::<LiveWords>() as u64;
/// The value of [`LiveHeader`] after a clean stop, and after data was lost.
const STOPPED: u64 = u64::from_le_bytes(*b"sealed\x0d\x07");
const SPOILT: u64 = u64::from_le_bytes(*b"spoilt\x0d\x07");

/// The first part of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// A number that is this file's alone.
    pub(crate) id: u64,
    pub(crate) seed: u64,
    pub(crate) clock_origin: u64,
    /// When the cache was made.
    pub(crate) made: Instant,
    pub(crate) memory_bytes: u64,
    /// Memory by which it is divided: that with which it was made.
    pub(crate) shape_bytes: u64,
    /// Shards that share it.
    pub(crate) shards: u64,
    /// Shares of spaces' own.
    pub(crate) keep: Vec<u64>,
    pub(crate) file_bytes: u64,
}

impl FileHeader {
    /// The page.
    pub(crate) fn bytes(&self) -> [u8; HEADER_BYTES] {
        let boot = boot_id();
        let mut words = vec![
            MAGIC,
            LAYOUT,
            ABI,
            boot[0],
            boot[1],
            self.id,
            self.seed,
            self.clock_origin,
            self.made.0,
            self.memory_bytes,
            self.shape_bytes,
            self.shards,
            self.file_bytes,
            self.keep.len() as u64,
        ];
        words.extend(&self.keep);
        words.resize(WORDS - 1, 0);
        words.push(check(&words));
        let mut page = [0; HEADER_BYTES];
        for (place, word) in page.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        page
    }

    /// Its first part, without the words that change.
    pub(super) fn first_bytes(&self) -> [u8; LIVE_WORDS_AT] {
        let page = self.bytes();
        page[..LIVE_WORDS_AT]
            .try_into()
            .expect("a header is longer than its first part")
    }

    /// The header of a file, or why its memory cannot be used.
    pub(super) fn read(file: &File) -> Result<FileHeader, String> {
        let found_bytes = file.metadata().map_or(0, |file| file.len());
        if found_bytes == 0 {
            return Err("no state was found".to_owned());
        }
        let mut page = [0; HEADER_BYTES];
        file.read_exact_at(&mut page, 0)
            .map_err(|_| "the file is too short".to_owned())?;
        let header = FileHeader::parse(&page, boot_id())?;
        if header.file_bytes != found_bytes {
            return Err(format!(
                "the file has {found_bytes} bytes instead of {}",
                header.file_bytes
            ));
        }
        Ok(header)
    }

    /// Parses the header page; `boot` identifies the current boot of the machine.
    fn parse(page: &[u8; HEADER_BYTES], boot: [u64; 2]) -> Result<FileHeader, String> {
        let words: Vec<u64> = words_of(page).take(WORDS).collect();
        if words[0] != MAGIC {
            return Err("the file is not a state file of Cellar".to_owned());
        }
        if words[1] != LAYOUT {
            return Err(format!(
                "the file has layout {}, this server needs {LAYOUT}",
                words[1]
            ));
        }
        if words[2] != ABI {
            return Err("a server for another processor architecture wrote the file".to_owned());
        }
        if check(&words[..WORDS - 1]) != words[WORDS - 1] {
            return Err("the file's header is damaged".to_owned());
        }
        if words[3..5] != boot {
            return Err("the machine was rebooted".to_owned());
        }
        if words_of(page).nth(LIVE_WORDS_AT / 8) == Some(SPOILT) {
            return Err("what belongs to it could not be written".to_owned());
        }
        let shares = usize::try_from(words[13]).ok();
        let keep = shares.and_then(|shares| words[14..WORDS - 1].get(..shares));
        Ok(FileHeader {
            id: words[5],
            seed: words[6],
            clock_origin: words[7],
            made: Instant(words[8]),
            memory_bytes: words[9],
            shape_bytes: words[10],
            shards: words[11],
            file_bytes: words[12],
            keep: keep.ok_or("the file's header is damaged")?.to_vec(),
        })
    }

    /// The process that has a file, for messages.
    pub(super) fn owner(file: &File) -> u64 {
        let mut word = [0; 8];
        let _ = file.read_exact_at(&mut word, LIVE_WORDS_AT as u64 + 8);
        u64::from_le_bytes(word)
    }

    /// Whether the previous process stopped cleanly, and when it was last alive.
    pub(crate) fn before(file: &File) -> (bool, Instant) {
        let mut words = [0; 24];
        let _ = file.read_exact_at(&mut words, LIVE_WORDS_AT as u64);
        let words: Vec<u64> = words_of(&words).collect();
        (words[0] == STOPPED, Instant(words[2]))
    }

    /// Keeps a number for the cache's owner.
    pub(super) fn set_note(file: &File, note: u64) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&note.to_le_bytes());
        bytes[8..].copy_from_slice(&check(&[note]).to_le_bytes());
        // At once: a process is killed before it or behind it.
        let _ = file.write_all_at(&bytes, NOTE_AT);
    }

    /// The number that was stored last; `None` if there is no valid one.
    pub(super) fn note(file: &File) -> Option<u64> {
        let mut bytes = [0; 16];
        file.read_exact_at(&mut bytes, NOTE_AT).ok()?;
        let words: Vec<u64> = words_of(&bytes).collect();
        (check(&words[..1]) == words[1]).then_some(words[0])
    }

    /// Makes the file invalid.
    pub(super) fn spoil(file: &File) {
        // The mapping shows the same page; if the write fails, so does any other.
        let _ = file.write_all_at(&SPOILT.to_le_bytes(), LIVE_WORDS_AT as u64);
    }
}

fn words_of(page: &[u8]) -> impl Iterator<Item = u64> + '_ {
    page.chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes were taken")))
}

/// A number that vouches for words.
pub(super) fn check(words: &[u64]) -> u64 {
    words.iter().fold(MAGIC, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
    })
}

/// The number that the machine drew when it started.
fn boot_id() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).unwrap_or(0);
    [(number >> 64) as u64, number as u64]
}

/// The words of a header that change while the cache lives, which are mapped.
#[derive(Debug)]
pub(crate) struct LiveHeader {
    region: Arc<Region>,
}

#[repr(C)]
struct LiveWords {
    state: AtomicU64,
    owner: AtomicU64,
    alive_ms: AtomicU64,
}

impl LiveHeader {
    /// The live words of the header at the start of a region.
    pub(crate) fn of(region: &Arc<Region>) -> LiveHeader {
        assert!(region.bytes() >= HEADER_BYTES, "a header is a page");
        LiveHeader {
            region: Arc::clone(region),
        }
    }

    fn words(&self) -> &LiveWords {
        // SAFETY: inside the region by the assert in `of`, aligned, and of atomics, for which any
        // bytes do; the region lives as long as `self`.
        unsafe { &*self.region.base().add(LIVE_WORDS_AT).cast_const().cast() }
    }

    /// Records that this process uses the memory, so that it counts as killed until a clean stop.
    pub(crate) fn begin(&self, now: Instant) {
        // Relaxed, both: the file's lock orders processes.
        let words = self.words();
        let owner = u64::from(std::process::id());
        words.owner.store(owner, Ordering::Relaxed);
        words.alive_ms.store(now.0, Ordering::Relaxed);
        // SeqCst: before anything is changed.
        words.state.store(0, Ordering::SeqCst);
    }

    /// Notes that it is alive.
    pub(crate) fn beat(&self, now: Instant) {
        // Relaxed: it orders nothing.
        self.words().alive_ms.store(now.0, Ordering::Relaxed);
    }

    /// Notes that it has come to its end, unless something was lost.
    pub(crate) fn stop(&self, now: Instant) {
        self.beat(now);
        let state = &self.words().state;
        // Release: after all changes. Relaxed: any other value stays.
        let _ = state.compare_exchange(0, STOPPED, Ordering::Release, Ordering::Relaxed);
    }

    /// Takes that back: this process continues.
    pub(crate) fn resume(&self) {
        let state = &self.words().state;
        // SeqCst: before anything is changed. Relaxed: any other value stays.
        let _ = state.compare_exchange(STOPPED, 0, Ordering::SeqCst, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: FileHeader = FileHeader {
        id: 1,
        seed: 2,
        clock_origin: 3,
        made: Instant(4),
        memory_bytes: 5,
        shape_bytes: 5,
        shards: 6,
        keep: Vec::new(),
        file_bytes: 8,
    };

    #[test]
    fn a_header_is_read_back_as_it_was_written() {
        for keep in [vec![], vec![7], vec![9; Space::SHARES_MAX]] {
            let header = FileHeader { keep, ..HEADER };
            assert_eq!(FileHeader::parse(&header.bytes(), boot_id()), Ok(header));
        }
    }

    #[test]
    fn no_header_is_believed_in_which_a_bit_is_wrong() {
        let page = HEADER.bytes();
        for bit in 0..WORDS * 64 {
            let mut page = page;
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(FileHeader::parse(&page, boot_id()).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn another_boot_layout_or_processor_is_told_apart() {
        let page = HEADER.bytes();
        let [high, low] = boot_id();
        let why = FileHeader::parse(&page, [high, low ^ 1]).unwrap_err();
        assert_eq!(why, "the machine was rebooted");
        let with = |at: usize, byte: u8| {
            let mut page = page;
            page[at] = byte;
            FileHeader::parse(&page, boot_id()).unwrap_err()
        };
        assert_eq!(
            with(8, 9),
            format!("the file has layout 9, this server needs {LAYOUT}")
        );
        assert_eq!(
            with(16, 4),
            "a server for another processor architecture wrote the file"
        );
        assert_eq!(with(0, 0), "the file is not a state file of Cellar");
        assert_eq!(with(72, 1), "the file's header is damaged");
    }
}

//! Dump: values as DUMP writes and RESTORE reads them, the format of Redis's files.
//!
//! A dump is a byte for the form, the value in that form, the version of the format in two bytes
//! and a checksum in eight, the lowest first. Forms before the packed ones of later versions have
//! been read by every Redis since 4.0: these are written. All forms of strings, lists, sets, sorted
//! sets and hashes are read ([`DumpReader`]), an entry at a time: a long one takes many steps.
//!
//! Invariant: a dump from another source is validated before use: no length allocates memory that
//! its bytes do not fill.
//! Why: docs/decisions/0048. Tests: at the end of the children, server/tests/resp_dump.rs.

mod lzf; // strings that are compressed
mod bytes; // lengths and strings of a dump
mod packed; // entries that lie in one string
mod reader; // which entries a dump has
mod writer; // dumps that DUMP returns
mod libraries; // libraries of functions

pub use libraries::{BadLibraries, read_libraries, write_libraries};
pub use lzf::Inflating;
pub use reader::{DumpReader, OpenedDump, open};
pub use writer::{DumpWriter, VERSION, footer, head_of_string};

use crc::{CRC_64_REDIS, Crc, Digest, Table};

/// The checksum of a dump.
static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);
/// Bytes behind the value: the version and the checksum.
pub const FOOTER_BYTES: usize = 10;

/// A checksum that is being made.
pub type Checksum = Digest<'static, u64, Table<16>>;

/// The bytes are no dump, or are inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadDump;

/// The type of a dump's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Elements in their order.
    List,
    /// Members.
    Set,
    /// Members with scores.
    SortedSet,
    /// Fields with values, and perhaps deadlines.
    Hash,
}

/// One entry of a dump.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DumpEntry {
    /// The element, member or field.
    pub name: Vec<u8>,
    /// A field's value.
    pub value: Vec<u8>,
    /// A member's score.
    pub score: f64,
    /// The Unix time in milliseconds at which a field expires; zero for never.
    pub expires_ms: u64,
}

/// A checksum of nothing yet.
#[must_use]
pub fn checksum() -> Checksum {
    CHECKSUM.digest()
}

/// Whether a version of the format is supported: Redis's up to 8, Valkey's 9.
#[must_use]
pub fn is_readable(version: u16) -> bool {
    /// The last of Redis's that is known.
    const REDIS_MAX: u16 = 13;
    /// Valkey counts on from here.
    const VALKEY: u16 = 80;
    (1..=REDIS_MAX).contains(&version) || version == VALKEY
}

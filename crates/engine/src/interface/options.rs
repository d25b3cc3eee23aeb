//! Options: parameters of the cache's operations.
//!
//! Plain data, shared by all protocols. Where a rule comes from memcached's protocol (leases, stale
//! items, versions), the field names the flag of its meta commands. Results are in `outcome.rs`.

use crate::base::clock::Deadline;
use crate::base::space::Kind;
use crate::interface::config::Config;

/// A read with side effects: meta `mg`, and `gets`, `gat`. It sees strings only; another kind of
/// value is a miss, and stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup {
    /// T: gives a found item this deadline.
    pub touch: Option<Deadline>,
    /// N: on a miss stores an empty item with this deadline and wins its lease; on a hit wins a
    /// lease that its holder let lapse.
    pub vivify: Option<Deadline>,
    /// R: wins the lease when fewer than this many milliseconds are left.
    pub recache_ms: Option<u64>,
    /// How long a lease that is won blocks others, in milliseconds, if other than
    /// [`Config::lease_ms`].
    pub lease_ms: Option<u64>,
    /// c: the caller wants [`Found::version`](crate::Found::version). The first request attaches a
    /// version to the item.
    pub version: bool,
    /// E: the version for an item that `vivify` creates.
    pub new_version: Option<u64>,
    /// u: does not count as a use for eviction, hit-before or last access.
    pub quiet: bool,
    /// Counts neither as a hit nor as a miss: the caller has counted this read already, or it is
    /// none.
    pub uncounted: bool,
    /// l: the caller wants [`Found::idle_s`](crate::Found::idle_s) kept exact for this item from
    /// now on.
    pub idle: bool,
    /// The caller knows no leases (`gets`, `gat`): a stale item's lease stays free.
    pub no_lease: bool,
}

impl Lookup {
    /// A look at an item and its version that is no read: it counts for nothing and wins no lease.
    #[must_use]
    pub fn of_version() -> Lookup {
        Lookup {
            version: true,
            quiet: true,
            uncounted: true,
            no_lease: true,
            ..Lookup::default()
        }
    }
}

/// When a store may take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Always: set.
    #[default]
    Always,
    /// Only if no live item has the key: add.
    Absent,
    /// Only if a live item has the key: replace.
    Present,
    /// Only if the item still has this version: cas, C.
    Version(u64),
}

/// How an item is stored.
#[derive(Clone, Copy, Debug)]
pub struct SetOptions {
    /// The type of the value, as its protocol defines it.
    pub kind: Kind,
    /// When the item expires.
    pub deadline: Deadline,
    /// The client's opaque flags.
    pub flags: u32,
    /// Condition.
    pub when: When,
    /// I: with [`When::Version`] an older version is stored too, but the item stays stale and keeps
    /// its lease and deadline.
    pub accept_older: bool,
    /// E: the version to give the item instead of the next one.
    pub new_version: Option<u64>,
    /// Longest value in bytes that is stored, where the cache would take longer ones.
    pub value_bytes_max: usize,
    /// c: the caller wants the version of the stored item. Without it no version is attached to an
    /// item that has none.
    pub version: bool,
}

impl SetOptions {
    /// Whether nothing is asked that an item without rare fields does not have.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.when, When::Always | When::Present)
            && self.kind == Kind::STRING
            && self.flags == 0
            && self.new_version.is_none()
            && !self.version
    }
}

impl Default for SetOptions {
    fn default() -> SetOptions {
        SetOptions {
            kind: Kind::STRING,
            deadline: Deadline::NEVER,
            flags: 0,
            when: When::Always,
            accept_older: false,
            new_version: None,
            value_bytes_max: Config::VALUE_BYTES_LIMIT,
            version: false,
        }
    }
}

/// Which end of a value is extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// append
    Back,
    /// prepend
    Front,
}

/// A counter operation: incr, decr and meta `ma`.
///
/// A value is a number if it has 1 to 20 decimal digits that fit in 64 bits, spaces after them
/// allowed. Adding wraps at 2^64; subtracting stops at zero.
#[derive(Clone, Copy, Debug)]
pub struct Increment {
    /// Amount.
    pub delta: u64,
    /// Subtracts instead of adding.
    pub subtract: bool,
    /// Keeps the value's length when the number gets shorter, with spaces behind it, as memcached
    /// does.
    pub keep_width: bool,
    /// N and J: on a miss stores this number with this deadline.
    pub initial: Option<(u64, Deadline)>,
    /// T: gives the item this deadline.
    pub touch: Option<Deadline>,
    /// C: only if the item has this version.
    pub when_version: Option<u64>,
    /// E: the version to give the item.
    pub new_version: Option<u64>,
    /// c: the caller wants the version.
    pub version: bool,
}

impl Increment {
    /// Adds `delta` to an existing number.
    #[must_use]
    pub fn by(delta: u64) -> Increment {
        Increment {
            delta,
            subtract: false,
            keep_width: false,
            initial: None,
            touch: None,
            when_version: None,
            new_version: None,
            version: false,
        }
    }
}

/// The change that [`Cache::update`](crate::Cache::update) makes to the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leaves it, or its absence, as it is.
    Keep,
    /// Deletes it, if it is there.
    Remove,
    /// Gives it this deadline, if it is there.
    Retime(Deadline),
    /// Stores the contents of the scratch buffer, ends a lease, and gives the item its next version
    /// if it has one.
    Store {
        /// The type of the value, as its protocol defines it.
        kind: Kind,
        /// When the item expires.
        deadline: Deadline,
        /// The client's opaque flags.
        flags: u32,
    },
    /// Writes parts of the scratch buffer over parts of the value, and makes it longer. Kind,
    /// deadline and flags stay. Else as [`Change::Store`].
    ///
    /// The value is changed in place, and only the parts and the added bytes are written, unless a
    /// reader has pinned it or it has no space to grow. Then it is copied, and a value that grows
    /// gets space for an eighth more.
    Splice {
        /// The parts; a later one may overlap an earlier one.
        parts: Vec<Splice>,
        /// The value has at least this length afterwards; missing bytes are filled with zeros.
        bytes_min: usize,
        /// Without an item, a string of `bytes_min` bytes with this deadline is stored; none if it
        /// would be empty.
        deadline: Deadline,
    },
    /// Has a function change the value, if it is there, where it lies. Kind and flags stay. Else as
    /// [`Change::Store`].
    ///
    /// The value is copied first if a reader has pinned it, or if it has no space behind it for as
    /// much as it may grow.
    Edit {
        /// Bytes by which the value may become longer.
        more: usize,
        /// When the item expires.
        deadline: Deadline,
        /// The function that changes the value.
        apply: Apply,
    },
}

/// A value that is changed where it lies.
pub trait ValueBytes {
    /// All its bytes.
    fn bytes(&self) -> &[u8];

    /// Writes over some of them.
    ///
    /// # Panics
    /// If they reach beyond the end.
    fn write(&mut self, at: usize, bytes: &[u8]);

    /// Makes it this long; the content of added bytes is unspecified.
    ///
    /// # Panics
    /// If it becomes longer than [`Change::Edit`] allows.
    fn resize(&mut self, len: usize);
}

impl ValueBytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn resize(&mut self, len: usize) {
        if len > self.capacity().max(DOUBLED_BYTES_MAX) {
            self.reserve_exact(len - self.len() + len / 8);
        }
        self.resize(len, 0);
    }
}

/// Up to this length, buffers double when they grow. Longer ones grow by an eighth.
const DOUBLED_BYTES_MAX: usize = 1 << 20;

/// Changes a value as the bytes say that were put into the scratch buffer.
#[derive(Clone, Copy)]
pub struct Apply(pub fn(&mut dyn ValueBytes, &[u8]));

impl std::fmt::Debug for Apply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Apply")
    }
}

impl PartialEq for Apply {
    fn eq(&self, other: &Apply) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Apply {}

impl Change {
    /// Writes parts over the value, if it is there, whose length stays.
    #[must_use]
    pub fn splice(parts: Vec<Splice>) -> Change {
        Change::Splice {
            parts,
            bytes_min: 0,
            deadline: Deadline::NEVER,
        }
    }
}

/// Bytes of the scratch buffer that go over bytes of a value; none if there is nothing to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Splice {
    /// Where they go in the value.
    pub at: usize,
    /// Where they lie in the scratch buffer.
    pub from: usize,
    /// How many they are.
    pub len: usize,
}

/// How an item is deleted: delete and meta `md`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeleteOptions {
    /// C: only if the item has this version.
    pub when_version: Option<u64>,
    /// I: keeps the item but marks it stale, frees its lease and gives it a new version.
    pub mark_stale: bool,
    /// x: keeps the item and its version but empties its value and clears its flags, its stale mark
    /// and its lease.
    pub drop_value: bool,
    /// T: with `mark_stale` or `drop_value`, the item's new deadline.
    pub touch: Option<Deadline>,
    /// E: the version to give an item that stays.
    pub new_version: Option<u64>,
}

/// A position in a listing of all keys; [`ScanCursor::START`] begins one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanCursor(pub u64);

impl ScanCursor {
    /// The beginning.
    pub const START: ScanCursor = ScanCursor(0);
}

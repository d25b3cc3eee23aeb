//! Cellar's storage engine: very many small, expiring items in a bounded memory.
//!
//! Bytes in, bytes out: no sockets, and threads only to check the memory of a killed process and to
//! make checksums at a clean stop. [`Cache`] is the public interface; ARCHITECTURE.md describes how
//! a request passes through the modules below.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod base; // time, errors, kinds of values, the encoding of a saved state
mod deadlines; // when items expire: encoded in a segment, as a histogram, in a timer wheel
mod memory; // where memory comes from, the bound on it; reads and writes outside of the lock
pub mod key; // keys and their hash
pub mod state; // the directory in which memory outlives the process
pub mod interface; // options and results of operations
mod compress; // compressed values
mod index; // how a key is found, how the index grows
mod log; // where an item is written, how segments come and go
mod insight; // what more memory would buy, why reads missed, which keys are hot
mod store; // keeps index and log consistent
mod shard; // one complete cache, single-threaded
pub mod cache; // the engine's public face

pub use base::clock::{Clock, Deadline, Instant, ManualClock, SystemClock};
pub use base::error::Error;
pub use base::space::{Kind, Space};
pub use cache::claim::section::Extended;
pub use cache::claim::{Intent, claim_releases, mark_waits_in};
pub use cache::{
    Cache, Checkpoint, Claims, Draft, ExpiryTimeline, ExtentReservation, IndexHint, Leaving,
    Maintenance, NoEvictionStats, ReclaimPlan, Scratch, Snapshot, ValueSink, WantedShards,
};
pub use interface::config::Config;
pub use interface::observer::{Happened, Observer};
pub use interface::options::{
    Apply, Change, DeleteOptions, End, Increment, Lookup, ScanCursor, SetOptions, Splice,
    ValueBytes, When,
};
pub use interface::outcome::{Counted, Deleted, Found, Item, KeyFacts, Lease, Stored, Uses};
pub use interface::stats::{
    CurvePoint, FamilyStats, HotKey, MissRatioCurve, MissReasons, ReclaimLag, SpaceStats, Stats,
};
pub use key::{KEY_BYTES_MAX, Key};
pub use memory::arena::Handle;
pub use memory::heap::{
    CountingHeap, HeldMark, exclude_from_heap_count, keep_heap_lean, release_heap,
};
pub use memory::prefetch::prefetch;
pub use memory::table::Candidate;
pub use state::{Restored, StateDir, StateOptions};
pub use store::{Audit, Inconsistency};

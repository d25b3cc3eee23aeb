//! Cellar's storage engine: very many small, expiring items in a bounded memory.
//!
//! Bytes in, bytes out: no sockets, and threads only to check the memory of a killed process and to
//! make checksums at a clean stop. [`Cache`] is the public interface; ARCHITECTURE.md describes how
//! a request passes through the modules below.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod clock; // time
pub mod vector; // loops compiled for wide registers
mod space; // key spaces and kinds of values
pub mod error; // why the engine refuses an operation
mod serialize; // the encoding of a saved state
mod memory; // where memory comes from, the bound on it
mod table; // the index's memory, which may be read without the shard's lock
pub mod key; // keys and their hash
mod heap; // counts of a thread's allocations
mod deadline_encoding; // how deadlines are written in one segment
mod atomic_memcpy; // copies of bytes that another thread may write meanwhile
mod sequence; // detects changes of a shard during a lock-free read
mod claim; // one thread's exclusive use of a shard for several operations
mod arena; // reads and writes of values outside the lock
pub mod outcome; // results of operations
mod observer; // notifications of changes
pub mod state; // the directory in which memory outlives the process
pub mod config; // how a cache is made
pub mod options; // options of operations
pub mod stats; // statistics of a whole cache
mod item; // the binary layout of an item
mod compress; // compressed values
mod index; // how a key is found, how the index grows
mod expiry_histogram; // when the bytes of a segment expire
mod timer_wheel; // how many items have expired at a moment
mod segment; // the state of a segment
mod metadata; // records of a shard that outlive the process beside its items and index
mod policy; // the numbers of S3-FIFO that eviction and the simulations share
mod log; // where an item is written, how segments come and go
mod ghost; // which keys left the small queue not long ago

mod sample; // the sample of requests for the insights
mod history; // stores and deletes of sampled keys
mod simulation; // a miniature of this cache at another memory size, fed with a sample of the keys
mod small_queue_tuner; // which share of memory the small queue should have
mod curve; // what more memory would buy
mod reasons; // why a read missed
mod insight; // the curve and the reasons of one cache, their memory, and how much they may do
mod hot; // which keys are hot
mod watch; // a shard's records of requests for the insights
mod tally; // how many items each space has in a shard, and which spaces are retired
mod store; // keeps index and log consistent
mod expire; // how an item expires
mod compaction; // how much is reclaimable, which segment is compacted for it
mod evict; // which items are evicted when memory is full
mod shard; // one complete cache, single-threaded
mod unpack; // compressed items that are stored plain
mod lookup; // leases, versions, reads that change something
mod counter; // numbers that count
mod extend; // values that get longer at one end
mod update; // to read and then decide, as one step
pub mod cache; // the engine's public face

pub use arena::Handle;
pub use cache::{
    Cache, Checkpoint, Claims, Draft, ExpiryTimeline, ExtentReservation, IndexHint, Leaving,
    Maintenance, NoEvictionStats, ReclaimPlan, Scratch, Snapshot, ValueSink, WantedShards,
};
pub use claim::section::Extended;
pub use claim::{Intent, claim_releases, mark_waits_in};
pub use clock::{Clock, Deadline, Instant, ManualClock, SystemClock};
pub use config::Config;
pub use error::Error;
pub use heap::{CountingHeap, HeldMark, exclude_from_heap_count, keep_heap_lean, release_heap};
pub use key::{KEY_BYTES_MAX, Key};
pub use memory::prefetch::prefetch;
pub use observer::{Happened, Observer};
pub use options::{
    Apply, Change, DeleteOptions, End, Increment, Lookup, ScanCursor, SetOptions, Splice,
    ValueBytes, When,
};
pub use outcome::{Counted, Deleted, Found, Item, KeyFacts, Lease, Stored, Uses};
pub use space::{Kind, Space};
pub use state::{Restored, StateDir, StateOptions};
pub use stats::{
    CurvePoint, FamilyStats, HotKey, MissRatioCurve, MissReasons, ReclaimLag, SpaceStats, Stats,
};
pub use store::{Audit, Inconsistency};
pub use table::Candidate;

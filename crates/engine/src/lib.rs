//! Cellar's storage engine: very many small, expiring items in a bounded memory.
//!
//! Bytes in, bytes out: no sockets and no threads of its own. [`Cache`] is the whole public face;
//! ARCHITECTURE.md tells how a request travels through the modules below.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

pub mod clock;
pub mod error;
mod space;
pub mod key;
mod observer;
mod memory;
mod heap;
mod arena;
pub mod options;
mod timescale;
mod item;
mod table;
mod index;
mod expire;
mod segment;
mod log;
mod ghost;
mod policy;
mod sample;
mod history;
mod simulation;
mod curve;
mod reasons;
mod insight;
mod hot;
mod watch;
mod tally;
mod store;
mod survey;
mod evict;
mod shard;
mod lookup;
mod counter;
mod update;
mod receive;
pub mod cache;
mod audit;

pub use arena::{Draft, Handle};
pub use audit::{Audit, Inconsistency};
pub use cache::{Cache, ExpiryTimeline, Leaving, Upkeep};
pub use clock::{Clock, Deadline, Instant, ManualClock, SystemClock};
pub use error::Error;
pub use heap::{keep_heap_lean, release_heap};
pub use key::{KEY_BYTES_MAX, Key};
pub use observer::{Happened, Observer};
pub use options::{
    Change, Config, Counted, CurvePoint, DeleteOptions, Deleted, End, Found, HotKey, Increment,
    Item, KeyFacts, Lease, Lookup, MissRatioCurve, MissReasons, ReclaimLag, ScanCursor, SetOptions,
    SpaceStats, Stats, Stored, When,
};
pub use space::{Kind, Space};

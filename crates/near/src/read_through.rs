//! Read-through: everything of a near cache that needs an origin, under one feature.
//!
//! [`Near`] sends requests, its store holds the valid copies, an [`origin`] answers. Public items
//! are at the crate's root.
//!
//! The modules are in layer order: a module imports only modules declared above it.

pub mod error; // errors of requests to the origin
pub mod key; // typed in the process, bytes at the origin, and back again
pub mod codec; // typed values and keys as bytes
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "only Redis's protocol has slots")
)]
mod owners; // which node of a cluster has which slot
pub mod trust; // how long a copy may be believed
mod version; // how an origin is asked whether a value is still the one that is known
mod entry; // the cached state of a key, and the handle that readers get
#[doc(hidden)]
pub mod fault; // faults on purpose, to show that tests would find them
mod counts; // counters
mod times; // how long the origin and loaders take, as histograms of a fixed size
#[cfg_attr(
    not(feature = "redis"),
    expect(
        dead_code,
        reason = "only servers of Redis's protocol are asked over lanes"
    )
)]
mod lane; // connections that threads which wait for an answer write to and read from themselves
pub mod origin; // where a near cache reads: Redis, cluster, memcached, functions
mod store; // entries, loads in flight, sweeps
mod builder; // the builder
mod near; // reads, loads and writes
mod blocking; // the same for threads without an async runtime
#[cfg(feature = "metrics")]
mod metrics; // exports counts to the `metrics` crate

pub use blocking::BlockingNear;
pub use builder::NearBuilder;
pub use codec::Codec;
pub use counts::Stats;
pub use entry::{Entry, Held};
pub use error::Error;
pub use key::Key;
pub use near::Near;

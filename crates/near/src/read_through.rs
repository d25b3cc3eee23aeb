//! Read-through: everything of a near cache that needs an origin, under one feature.
//!
//! [`Near`] asks, its store keeps what it may believe, an [`origin`] answers. What is
//! public here stands at the crate's root.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

pub mod error; // what can go wrong on the way to the origin
pub mod key; // typed in the process, bytes at the origin, and back again
pub mod codec; // typed values and keys as bytes
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "only Redis's protocol has slots")
)]
mod owners; // which node of a cluster has which slot
pub mod trust; // how long a copy may be believed
mod version; // how an origin is asked whether a value is still the one that is known
mod entry; // what the store keeps of a key, and the handle that readers get
#[doc(hidden)]
pub mod fault; // faults on purpose, to show that tests would find them
mod counts; // what a near cache counts and times, what recorders are told
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
mod store; // which load may leave a copy, who waits for it, when it sweeps
mod builder; // what a near cache will be
mod near; // what a near cache serves, how it asks
mod blocking; // the same for threads without an async runtime
#[cfg(feature = "metrics")]
mod metrics; // the counts of a cache, told to whatever recorder of the `metrics` crate there is

pub use blocking::BlockingNear;
pub use builder::NearBuilder;
pub use codec::Codec;
pub use counts::Stats;
pub use entry::{Entry, Held};
pub use error::Error;
pub use key::Key;
pub use near::Near;

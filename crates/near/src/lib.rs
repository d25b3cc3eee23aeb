//! A near cache: typed values in the process itself, in front of a server.
//!
//! [`Local`] is the store; it can be used alone, without any server and without tokio. [`Near`]
//! reads through it to an origin: Redis, Valkey or Cellar ([`origin::Redis`]), memcached or Cellar
//! ([`origin::Memcached`]), or any async function ([`origin::Function`]). What the server tells as
//! changed is never served again; the guide is docs/near.md.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

#![forbid(unsafe_code)]

pub mod clock; // time, as a cache sees it
pub mod local; // the store in the process's memory, its face and its shards
#[cfg(feature = "read-through")]
pub mod error; // what can go wrong on the way to the origin
#[cfg(feature = "read-through")]
pub mod key; // typed in the process, bytes at the origin, and back again
#[cfg(feature = "read-through")]
pub mod codec; // typed values and keys as bytes
#[cfg(feature = "read-through")]
pub mod trust; // how long a copy may be believed
#[cfg(feature = "read-through")]
mod version; // how an origin is asked whether a value is still the one that is known
#[cfg(feature = "read-through")]
mod entry; // what the store keeps of a key, and the handle that readers get
#[cfg(feature = "read-through")]
#[doc(hidden)]
pub mod fault; // faults on purpose, to show that tests would find them
#[cfg(feature = "read-through")]
mod counts; // what a near cache counts and times, what recorders are told
#[cfg(feature = "read-through")]
mod times; // how long the origin and loaders take, as histograms of a fixed size
#[cfg(feature = "read-through")]
pub mod origin; // where a near cache reads: Redis, cluster, memcached, functions
#[cfg(feature = "read-through")]
mod store; // which load may leave a copy, who waits for it, when it sweeps
#[cfg(feature = "read-through")]
mod builder; // what a near cache will be
#[cfg(feature = "read-through")]
mod near; // what a near cache serves, how it asks
#[cfg(feature = "metrics")]
mod metrics; // the counts of a cache, told to whatever recorder of the `metrics` crate there is

#[cfg(feature = "read-through")]
pub use builder::NearBuilder;
pub use clock::Clock;
#[cfg(feature = "read-through")]
pub use codec::Codec;
#[cfg(feature = "read-through")]
pub use counts::Stats;
#[cfg(feature = "read-through")]
pub use entry::{Entry, Held};
#[cfg(feature = "read-through")]
pub use error::Error;
#[cfg(feature = "read-through")]
pub use key::Key;
pub use local::{Cause, InsertOptions, Local, LocalBuilder, LocalStats, Policy};
#[cfg(feature = "read-through")]
pub use near::Near;

/// The guide's examples, compiled.
#[cfg(all(doctest, feature = "redis", feature = "json"))]
#[doc = include_str!("../../../docs/near.md")]
#[doc = include_str!("../../../docs/guide/near-caches.md")]
#[doc = include_str!("../../../docs/guide/many-machines.md")]
struct Guide;

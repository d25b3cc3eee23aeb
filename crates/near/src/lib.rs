//! A near cache: typed values in the process itself, in front of a server.
//!
//! [`Local`] is the store; it can be used alone, without any server and without tokio. [`Near`]
//! reads through it to an origin: Redis, Valkey or Cellar ([`origin::Redis`]), memcached or Cellar
//! ([`origin::Memcached`]), or any async function ([`origin::Function`]). A copy is never served
//! again after the server has reported its change; the guide is docs/near.md.
//!
//! The modules are in layer order: a module imports only modules declared above it.

#![forbid(unsafe_code)]

pub mod clock; // time, as a cache sees it
pub mod local; // the store in the process's memory, its face and its shards
mod loading; // the store whose missing values one thread makes for all
#[cfg(feature = "read-through")]
mod read_through; // near caches: which copies are valid, and how they read from an origin

pub use clock::Clock;
pub use loading::{LoadError, LoadingLocal, LoadingOf, Making, MakingOf};
pub use local::{
    Cause, InsertOptions, Local, LocalBuilder, LocalBuilderOf, LocalOf, LocalStats, Policy,
};
#[cfg(feature = "read-through")]
pub use read_through::{
    BlockingNear, Codec, Entry, Error, Held, Key, Near, NearBuilder, Stats, codec, error, fault,
    key, origin, trust,
};

/// The guide's examples, compiled.
#[cfg(all(doctest, feature = "redis", feature = "json"))]
#[doc = include_str!("../../../docs/near.md")]
#[doc = include_str!("../../../docs/guide/near-caches.md")]
#[doc = include_str!("../../../docs/guide/many-machines.md")]
struct Guide;

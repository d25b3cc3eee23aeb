//! A near cache: typed values in the process itself, in front of a server.
//!
//! [`Local`] is the store; it can be used alone, without any server and without tokio. [`Near`]
//! reads through it to an origin: Redis, Valkey or Cellar ([`origin::Redis`]), memcached or Cellar
//! ([`origin::Memcached`]), or any async function ([`origin::Function`]). What the server tells as
//! changed is never served again; the guide is docs/near.md.
//!
//! The modules stand in layer order: a module imports only modules declared above it.

#![forbid(unsafe_code)]

pub mod clock;
pub mod local;
#[cfg(feature = "read-through")]
pub mod error;
#[cfg(feature = "read-through")]
pub mod key;
#[cfg(feature = "read-through")]
pub mod codec;
#[cfg(feature = "read-through")]
pub mod lease;
#[cfg(feature = "read-through")]
mod version;
#[cfg(feature = "read-through")]
mod entry;
#[cfg(feature = "read-through")]
#[doc(hidden)]
pub mod fault;
#[cfg(feature = "read-through")]
mod counts;
#[cfg(feature = "read-through")]
pub mod origin;
#[cfg(feature = "read-through")]
mod store;
#[cfg(feature = "read-through")]
mod builder;
#[cfg(feature = "read-through")]
mod near;
#[cfg(feature = "metrics")]
mod metrics;

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

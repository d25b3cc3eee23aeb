//! Cluster: which node owns which key, as every node computes it from the same list.
//!
//! A key is in one of 16,384 slots ([`slot`]); a slot belongs to a node by the names and weights in
//! the list alone ([`map`]). The list comes from `membership`; [`ownership`] holds the slots that
//! this node may serve at a moment.
//!
//! Why: docs/decisions/0057. Page: docs/guide/many-machines.md. Tests: below each module,
//! server/tests/cluster.rs.
#![forbid(unsafe_code)]

pub mod slot;
pub mod node; // what a node is called and where its clients find it
pub mod list; // the nodes of a cluster, as a file has them
pub mod map; // which node each slot belongs to
pub mod registration; // what a node registers in etcd, and how all registered are one list
pub mod table; // a map with the replies that describe it
pub mod ownership; // which slots this node serves now
pub mod holdings; // which slots may be served when a map changes

pub use ownership::Cluster;

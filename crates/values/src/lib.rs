//! Data types over bytes: collections in small nodes, at any size.
//!
//! A type does not know where its nodes are: it reads and changes them through [`Nodes`]. What is
//! kept of a collection beside them is its [`Tree`], 32 bytes.
#![forbid(unsafe_code)]

mod page; // the bytes of a node
mod nodes; // where they are kept
mod tree; // a sorted map in nodes
mod hash;

pub use hash::Hash;
pub use nodes::{Change, Full, Nodes};
pub use page::Entry;
pub use tree::{Decision, NODE_BYTES_MAX, Tree};

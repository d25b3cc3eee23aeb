//! Data types over bytes: collections, [`geo`]graphic positions, the [`hyperloglog`], and the form
//! in which `DUMP` writes a value ([`dump`]).
//!
//! A large collection is the bytes of one value: a head and pages of 4 KiB, the nodes of up to two
//! B+ trees. A write changes the pages on its path, so it costs O(log n). When a page is freed, the
//! last one takes its place and the value gets shorter.
//!
//! | type | first tree | second tree |
//! |---|---|---|
//! | hash | fields by a secret hash | fields with a deadline, by deadline |
//! | set | members by a secret hash, or as a hash without values | members with a deadline |
//! | sorted set | members by a secret hash, with their scores | members by score, then bytes |
//! | list | elements by position | |
//!
//! Why: docs/decisions/0074. Tests: tests/model.rs.
#![forbid(unsafe_code)]

mod bytes; // numbers within a value
mod digest; // the hash of a member
mod entry; // the content of a leaf
mod page; // a node's bytes
mod view; // reading a value in pages
mod plan; // pages that changes need
mod edit; // changing a value: entries, splits, merges
mod split; // nodes that are too full or too empty
mod pages; // changing a value: allocating, freeing and moving pages
mod table; // members by hash
mod append; // entries that come in order to a value that is made
mod ordered; // members by key
mod sequence; // elements by position
mod check; // whether a value is sound
mod packed; // few members
mod integers; // few members of a set, all of them integers
mod pending; // changes that a command sees before they are made
mod collection; // the common part of hashes, sets and sorted sets
mod field; // a hash's field
pub mod hash;
pub mod set;
mod sorted_set;
mod builder; // sets and sorted sets that are made as a whole
mod packed_list; // a short list
pub mod list;
pub mod geo; // where on the earth a member of a sorted set is
pub mod hyperloglog; // about how many different elements a string was given
pub mod dump; // values as Redis keeps them in files

pub use builder::{SetBuilder, SortedSetBuilder};
pub use collection::{Collection, Expiring, Family, HASH, LIST, SET, SORTED_SET, without_expired};
pub use digest::Hasher;
pub use edit::{Collision, Edit};
pub use entry::{Entry, Form, Text};
pub use hash::{Hash, Hashes};
pub use integers::Member;
pub use list::List;
pub use ordered::score_key;
pub use page::Tree;
pub use plan::Plan;
pub use set::{Found, Lookups, Set, Sets, has_member_deadlines};
pub use sorted_set::{Run, SortedSet, SortedSets};
pub use table::Place;
pub use view::{Spot, View, is_paged};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes before the first page.
pub const HEAD_BYTES: usize = 64;

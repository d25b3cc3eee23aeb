//! Hash: fields and their values, at any size.
//!
//! The tree sorts fields by a secret hash of 32 bits, and those of one hash by their bytes. Nodes
//! are cut by what is in them, so a sender who chooses fields of neighbouring hashes gains nothing.
//! A long value has a node of its own.
//!
//! ```text
//! key       [hash, high byte first 4][field]
//! payload   [0][value]  or  [1][node 8][value bytes 8]
//! ```
//!
//! Tests: tests/model.rs.

use crate::nodes::{Change, Full, Nodes};
use crate::page::Entry;
use crate::tree::{Decision, Tree};

/// Longest value that lies beside its field.
const INLINE_BYTES_MAX: usize = 512;
const HASH_BYTES: usize = 4;
const INLINE: u8 = 0;
const OWN_NODE: u8 = 1;

/// A hash whose nodes are elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    tree: Tree,
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place<'a> {
    Inline(&'a [u8]),
    Node(u64),
}

impl<'a> Place<'a> {
    fn of(payload: &'a [u8]) -> Place<'a> {
        match payload {
            [INLINE, value @ ..] => Place::Inline(value),
            [_, rest @ ..] => {
                let node = rest.first_chunk().expect("a node's number has eight bytes");
                Place::Node(u64::from_le_bytes(*node))
            }
            [] => Place::Inline(&[]),
        }
    }

    /// The change by which a value goes that has a node of its own.
    fn removal(self) -> Option<Change> {
        match self {
            Place::Inline(_) => None,
            Place::Node(node) => Some(Change::Remove { node }),
        }
    }
}

impl Hash {
    /// A hash without fields.
    ///
    /// # Errors
    /// [`Full`].
    pub fn new(nodes: &mut impl Nodes) -> Result<Hash, Full> {
        let tree = Tree::new(nodes, 0)?;
        Ok(Hash { tree })
    }

    /// The tree of fields, to be kept.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The hash whose tree was kept.
    #[must_use]
    pub fn of(tree: Tree) -> Hash {
        Hash { tree }
    }

    /// How many fields it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Shows the value of a field, which has this hash.
    pub fn get<R>(
        &self,
        nodes: &impl Nodes,
        hash: u32,
        field: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        let key = key_of(hash, field);
        let found = self
            .tree
            .get(nodes, &key, |payload| match payload.map(Place::of) {
                None => Ok(read(None)),
                Some(Place::Inline(value)) => Ok(read(Some(value))),
                Some(Place::Node(node)) => Err((node, read)),
            });
        match found {
            Ok(answer) => answer,
            Err((node, read)) => nodes.with(node, |value| read(Some(value))),
        }
    }

    /// Gives a field a value; whether it had none.
    ///
    /// # Errors
    /// [`Full`]; then nothing has changed.
    pub fn set(
        &mut self,
        nodes: &mut impl Nodes,
        hash: u32,
        field: &[u8],
        value: &[u8],
    ) -> Result<bool, Full> {
        let mut tree = self.tree;
        let own = (value.len() > INLINE_BYTES_MAX).then(|| tree.take_number());
        let is_new = tree.update(nodes, &key_of(hash, field), |old, changes| {
            changes.extend(old.and_then(|old| Place::of(old).removal()));
            let payload = match own {
                None => [&[INLINE], value].concat(),
                Some(node) => {
                    let bytes = value.to_vec();
                    let number = node.to_le_bytes();
                    changes.push(Change::Put { node, bytes });
                    [
                        &[OWN_NODE][..],
                        &number,
                        &(value.len() as u64).to_le_bytes(),
                    ]
                    .concat()
                }
            };
            (old.is_none(), Decision::Put(payload))
        })?;
        self.tree = tree;
        Ok(is_new)
    }

    /// Removes a field; whether it was there.
    ///
    /// # Errors
    /// [`Full`]; then nothing has changed.
    pub fn remove(
        &mut self,
        nodes: &mut impl Nodes,
        hash: u32,
        field: &[u8],
    ) -> Result<bool, Full> {
        self.tree
            .update(nodes, &key_of(hash, field), |old, changes| {
                changes.extend(old.and_then(|old| Place::of(old).removal()));
                (old.is_some(), Decision::Remove)
            })
    }

    /// Shows the fields of about one node whose hashes are at least `cursor`, and tells the cursor
    /// of the next ones; none behind the last. Fields that are there from the first call to the
    /// last are shown once.
    pub fn scan(
        &self,
        nodes: &impl Nodes,
        cursor: u32,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Option<u32> {
        let mut from = cursor.to_be_bytes().to_vec();
        let mut last = None;
        loop {
            let next = self.tree.step(nodes, &from, |entry| {
                last = Some(hash_of(entry.key));
                let field = &entry.key[HASH_BYTES..];
                match Place::of(entry.payload) {
                    Place::Inline(value) => visit(field, value),
                    Place::Node(node) => nodes.with(node, |value| visit(field, value)),
                }
            });
            from = next?;
            let hash = hash_of(&from);
            // Those of one hash are shown together: the cursor cannot tell them apart.
            if last.is_some_and(|last| last < hash) {
                return Some(hash);
            }
        }
    }

    /// Shows the field of a rank, so that any of them can be had with the same chance.
    pub fn at<R>(
        &self,
        nodes: &impl Nodes,
        rank: u64,
        read: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Option<R> {
        self.tree.at(nodes, rank, |entry| {
            let field = &entry.key[HASH_BYTES..];
            match Place::of(entry.payload) {
                Place::Inline(value) => read(field, value),
                Place::Node(node) => nodes.with(node, |value| read(field, value)),
            }
        })
    }

    /// Removes the fields of one node; to be called until the hash is empty.
    ///
    /// # Errors
    /// [`Full`], which a removal does not cause.
    pub fn remove_some(&mut self, nodes: &mut impl Nodes) -> Result<(), Full> {
        self.tree
            .remove_last_leaf(nodes, |Entry { payload, .. }, changes| {
                changes.extend(Place::of(payload).removal());
            })
    }
}

fn key_of(hash: u32, field: &[u8]) -> Vec<u8> {
    [&hash.to_be_bytes(), field].concat()
}

/// The hash with which a key begins; a separator may be shorter.
fn hash_of(key: &[u8]) -> u32 {
    let mut bytes = [0; HASH_BYTES];
    let len = key.len().min(HASH_BYTES);
    bytes[..len].copy_from_slice(&key[..len]);
    u32::from_be_bytes(bytes)
}

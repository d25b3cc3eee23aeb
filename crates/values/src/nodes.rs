//! Nodes: where the pieces of a collection are kept.

/// Memory for nodes, which have numbers. A caller has the collection to itself.
pub trait Nodes {
    /// Shows the bytes of a node.
    ///
    /// # Panics
    /// If there is no such node.
    fn with<R>(&self, node: u64, read: impl FnOnce(&[u8]) -> R) -> R;

    /// Makes all of these changes, or none.
    ///
    /// # Errors
    /// [`Full`] if there is no space for them.
    fn apply(&mut self, changes: &[Change]) -> Result<(), Full>;
}

/// There is no space for a change: nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What becomes of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has these bytes.
    Put {
        /// The node, which need not be there yet.
        node: u64,
        /// All its bytes.
        bytes: Vec<u8>,
    },
    /// Eight of its bytes are these.
    Patch {
        /// The node.
        node: u64,
        /// Where they begin.
        at: usize,
        /// What is there then.
        bytes: [u8; 8],
    },
    /// It goes.
    Remove {
        /// The node.
        node: u64,
    },
}

//! Tree: a sorted map in small nodes, with counts (a B+ tree).
//!
//! ```text
//! inner node   least key of a child -> [child 8][entries below it 8]
//! leaf         key -> payload
//! ```
//!
//! A change writes the leaf and, if the number of entries changes, eight bytes in each node above
//! it; only a node that is cut or joined has its neighbours written. All of that is one call of
//! [`Nodes::apply`], so it is made whole or not at all. The counts find an entry by its rank.
//!
//! Invariant: below the root no node is empty, and nodes of more than one entry have at most
//! [`NODE_BYTES_MAX`] and what one entry adds.
//! Tests: tests/model.rs.

use std::ops::Range;

use crate::nodes::{Change, Full, Nodes};
use crate::page::{Entry, Page};

/// Bytes from which on a node is cut in two.
pub const NODE_BYTES_MAX: usize = 2 << 10;
/// Bytes below which a node is joined with a neighbour, if both together have at most
/// [`JOINED_BYTES_MAX`]: what was just joined is not cut by the next insertion.
const NODE_BYTES_MIN: usize = NODE_BYTES_MAX / 4;
const JOINED_BYTES_MAX: usize = NODE_BYTES_MAX * 3 / 4;

/// Where a tree begins; what is kept of it beside its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    root: u64,
    height: u64,
    /// Nodes get numbers in this order, and none gets that of another one.
    next: u64,
    len: u64,
}

/// What becomes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It stays, or there is none.
    Keep,
    /// It has this payload.
    Put(Vec<u8>),
    /// It goes.
    Remove,
}

/// A node above the leaf, and the child that leads there.
#[derive(Clone, Copy, Debug)]
struct Step {
    node: u64,
    at: usize,
    /// Where the child's count is in the node's bytes, and the count.
    count_at: usize,
    count: u64,
}

/// A node that has other bytes.
struct Edited {
    node: u64,
    bytes: Vec<u8>,
    is_leaf: bool,
    /// The entry that was added.
    added: Option<usize>,
}

/// A child as its parent has it.
struct Child {
    least: Vec<u8>,
    payload: [u8; 16],
}

impl Child {
    fn of(least: &[u8], node: u64, count: u64) -> Child {
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&node.to_le_bytes());
        payload[8..].copy_from_slice(&count.to_le_bytes());
        Child {
            least: least.to_vec(),
            payload,
        }
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            key: &self.least,
            payload: &self.payload,
        }
    }
}

impl Tree {
    /// Bytes of what is kept beside the nodes.
    pub const ROOT_BYTES: usize = 32;

    /// A tree without entries; `next` is the least number that no node has.
    ///
    /// # Errors
    /// [`Full`].
    pub fn new(nodes: &mut impl Nodes, next: u64) -> Result<Tree, Full> {
        let bytes = Page::empty().part(0..0);
        nodes.apply(&[Change::Put { node: next, bytes }])?;
        Ok(Tree {
            root: next,
            height: 0,
            next: next + 1,
            len: 0,
        })
    }

    /// What is kept beside the nodes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Tree::ROOT_BYTES] {
        let mut bytes = [0; Tree::ROOT_BYTES];
        let words = [self.root, self.height, self.next, self.len];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The tree of which this was kept.
    #[must_use]
    pub fn of(bytes: &[u8; Tree::ROOT_BYTES]) -> Tree {
        let word = |at: usize| read_word(&bytes[8 * at..]);
        Tree {
            root: word(0),
            height: word(1),
            next: word(2),
            len: word(3),
        }
    }

    /// How many entries it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A number for a node of the caller's own.
    pub fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Shows the payload under a key. Cost: one node for each level.
    pub fn get<R>(
        &self,
        nodes: &impl Nodes,
        key: &[u8],
        read: impl FnOnce(Option<&[u8]>) -> R,
    ) -> R {
        let mut node = self.root;
        for _ in 0..self.height {
            node = nodes.with(node, |bytes| {
                let page = Page::of(bytes);
                read_word(page.entry(child_of(&page, key)).payload)
            });
        }
        nodes.with(node, |bytes| {
            let page = Page::of(bytes);
            read(page.find(key).ok().map(|at| page.entry(at).payload))
        })
    }

    /// Shows `decide` what is under a key and does what it says, together with the changes that it
    /// adds.
    ///
    /// # Errors
    /// [`Full`]; then nothing has changed.
    pub fn update<R>(
        &mut self,
        nodes: &mut impl Nodes,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>, &mut Vec<Change>) -> (R, Decision),
    ) -> Result<R, Full> {
        let (mut tree, mut changes) = (*self, Vec::new());
        let (path, leaf) = self.path_to(nodes, key);
        let (result, edited, delta) = nodes.with(leaf, |bytes| {
            let page = Page::of(bytes);
            let found = page.find(key);
            let old = found.ok().map(|at| page.entry(at).payload);
            let (result, decision) = decide(old, &mut changes);
            let (at, is_there) = match found {
                Ok(at) => (at, true),
                Err(at) => (at, false),
            };
            let range = at..at + usize::from(is_there);
            match decision {
                Decision::Put(payload) => {
                    let payload = &payload;
                    let bytes = page.with(range, &[Entry { key, payload }]);
                    (result, Some((bytes, Some(at))), i64::from(!is_there))
                }
                Decision::Remove if is_there => (result, Some((page.with(range, &[]), None)), -1),
                _ => (result, None, 0),
            }
        });
        if let Some((bytes, added)) = edited {
            let edited = Edited {
                node: leaf,
                bytes,
                is_leaf: true,
                added,
            };
            tree.settle(nodes, path, edited, delta, &mut changes);
        }
        if !changes.is_empty() {
            nodes.apply(&changes)?;
        }
        tree.len = tree.len.wrapping_add_signed(delta);
        *self = tree;
        Ok(result)
    }

    /// Shows the entries of one leaf from a key on, and tells the key from which on the next ones
    /// are; none behind the last. Entries that are there from the first call to the last are shown
    /// once, whatever changes meanwhile.
    pub fn step(
        &self,
        nodes: &impl Nodes,
        from: &[u8],
        mut visit: impl FnMut(Entry<'_>),
    ) -> Option<Vec<u8>> {
        let (mut node, mut next) = (self.root, None);
        for _ in 0..self.height {
            node = nodes.with(node, |bytes| {
                let page = Page::of(bytes);
                let at = child_of(&page, from);
                if at + 1 < page.len() {
                    next = Some(page.entry(at + 1).key.to_vec());
                }
                read_word(page.entry(at).payload)
            });
        }
        nodes.with(node, |bytes| {
            let page = Page::of(bytes);
            let first = page.find(from).unwrap_or_else(|at| at);
            (first..page.len()).for_each(|at| visit(page.entry(at)));
        });
        next
    }

    /// Shows the entry of a rank, counted from zero; none beyond the last.
    pub fn at<R>(
        &self,
        nodes: &impl Nodes,
        rank: u64,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        if rank >= self.len {
            return None;
        }
        let (mut node, mut left) = (self.root, rank);
        for _ in 0..self.height {
            node = nodes.with(node, |bytes| {
                let page = Page::of(bytes);
                let mut at = 0;
                while left >= count_of(page.entry(at).payload) {
                    left -= count_of(page.entry(at).payload);
                    at += 1;
                }
                read_word(page.entry(at).payload)
            });
        }
        Some(nodes.with(node, |bytes| read(Page::of(bytes).entry(left as usize))))
    }

    /// How many entries have a lower key.
    pub fn rank(&self, nodes: &impl Nodes, key: &[u8]) -> u64 {
        let (mut node, mut rank) = (self.root, 0);
        for _ in 0..self.height {
            node = nodes.with(node, |bytes| {
                let page = Page::of(bytes);
                let at = child_of(&page, key);
                let before = (0..at).map(|at| count_of(page.entry(at).payload));
                rank += before.sum::<u64>();
                read_word(page.entry(at).payload)
            });
        }
        nodes.with(node, |bytes| {
            let before = Page::of(bytes).find(key).unwrap_or_else(|at| at);
            rank + before as u64
        })
    }

    /// Removes the last leaf, whose entries are shown first; without entries the tree has one empty
    /// node.
    ///
    /// # Errors
    /// [`Full`], which a removal does not cause.
    pub fn remove_last_leaf(
        &mut self,
        nodes: &mut impl Nodes,
        mut visit: impl FnMut(Entry<'_>, &mut Vec<Change>),
    ) -> Result<(), Full> {
        let (mut tree, mut changes, mut path) = (*self, Vec::new(), Vec::new());
        let mut node = self.root;
        for _ in 0..self.height {
            node = nodes.with(node, |bytes| {
                let page = Page::of(bytes);
                path.push(Step::of(node, &page, page.len() - 1));
                read_word(page.entry(page.len() - 1).payload)
            });
        }
        let count = nodes.with(node, |bytes| {
            let page = Page::of(bytes);
            (0..page.len()).for_each(|at| visit(page.entry(at), &mut changes));
            page.len() as i64
        });
        let edited = Edited {
            node,
            bytes: Page::empty().part(0..0),
            is_leaf: true,
            added: None,
        };
        tree.settle(nodes, path, edited, -count, &mut changes);
        nodes.apply(&changes)?;
        tree.len = tree.len.wrapping_add_signed(-count);
        *self = tree;
        Ok(())
    }

    /// The nodes above the leaf of a key, and the leaf.
    fn path_to(&self, nodes: &impl Nodes, key: &[u8]) -> (Vec<Step>, u64) {
        let mut path = Vec::with_capacity(self.height as usize);
        let mut node = self.root;
        for _ in 0..self.height {
            node = nodes.with(node, |bytes| {
                let page = Page::of(bytes);
                let at = child_of(&page, key);
                path.push(Step::of(node, &page, at));
                read_word(page.entry(at).payload)
            });
        }
        (path, node)
    }

    /// Has a node have other bytes: cuts it, joins it with a neighbour or removes it if it must be,
    /// and does the same of those above it.
    fn settle(
        &mut self,
        nodes: &impl Nodes,
        mut path: Vec<Step>,
        mut edited: Edited,
        delta: i64,
        changes: &mut Vec<Change>,
    ) {
        while let Some(step) = path.pop() {
            let parent = nodes.with(step.node, <[u8]>::to_vec);
            let parent = Page::of(&parent);
            let (replaced, children) = if edited.is_empty() {
                changes.push(Change::Remove { node: edited.node });
                (step.at..step.at + 1, Vec::new())
            } else if edited.is_too_long() {
                let least = parent.entry(step.at).key;
                (step.at..step.at + 1, self.cut(edited, least, changes))
            } else if let Some(joined) = join(nodes, &edited, &parent, step.at, changes) {
                joined
            } else {
                edited.put(changes);
                if delta != 0 {
                    path.push(step);
                    path.iter().for_each(|step| changes.push(step.count(delta)));
                }
                return;
            };
            let entries: Vec<Entry<'_>> = children.iter().map(Child::entry).collect();
            edited = Edited {
                node: step.node,
                added: (replaced.start + entries.len()).checked_sub(1),
                bytes: parent.with(replaced, &entries),
                is_leaf: false,
            };
        }
        self.settle_root(edited, changes);
    }

    fn settle_root(&mut self, mut edited: Edited, changes: &mut Vec<Change>) {
        let page = Page::of(&edited.bytes);
        if !edited.is_leaf && page.len() == 1 {
            changes.push(Change::Remove { node: edited.node });
            self.root = read_word(page.entry(0).payload);
            self.height -= 1;
            return;
        }
        if page.len() == 0 {
            self.height = 0;
            edited.is_leaf = true;
        }
        if !edited.is_too_long() {
            return edited.put(changes);
        }
        let children = self.cut(edited, b"", changes);
        let entries: Vec<Entry<'_>> = children.iter().map(Child::entry).collect();
        let node = self.take_number();
        let bytes = Page::empty().with(0..0, &entries);
        changes.push(Change::Put { node, bytes });
        self.root = node;
        self.height += 1;
    }

    /// Cuts a node in two; both as their parent has them.
    fn cut(&mut self, edited: Edited, least: &[u8], changes: &mut Vec<Change>) -> Vec<Child> {
        let page = Page::of(&edited.bytes);
        let at = page.cut(edited.added);
        let (left, right) = (page.part(0..at), page.part(at..page.len()));
        let first = page.entry(at).key;
        // Keys of inner nodes are separators already.
        let separator = match edited.is_leaf {
            true => separator(page.entry(at - 1).key, first),
            false => first,
        };
        let number = self.take_number();
        let counts = [&left, &right].map(|bytes| count_in(&Page::of(bytes), edited.is_leaf));
        let children = vec![
            Child::of(least, edited.node, counts[0]),
            Child::of(separator, number, counts[1]),
        ];
        for (node, bytes) in [(number, right), (edited.node, left)] {
            changes.push(Change::Put { node, bytes });
        }
        children
    }
}

impl Step {
    fn of(node: u64, page: &Page<'_>, at: usize) -> Step {
        Step {
            node,
            at,
            count_at: page.payload_at(at) + 8,
            count: count_of(page.entry(at).payload),
        }
    }

    /// The change that counts entries that came or went below the child.
    fn count(&self, delta: i64) -> Change {
        Change::Patch {
            node: self.node,
            at: self.count_at,
            bytes: self.count.wrapping_add_signed(delta).to_le_bytes(),
        }
    }
}

impl Edited {
    fn is_empty(&self) -> bool {
        Page::of(&self.bytes).len() == 0
    }

    fn is_too_long(&self) -> bool {
        self.bytes.len() > NODE_BYTES_MAX && Page::of(&self.bytes).len() > 1
    }

    fn put(self, changes: &mut Vec<Change>) {
        let Edited { node, bytes, .. } = self;
        changes.push(Change::Put { node, bytes });
    }
}

/// Joins a short node with a neighbour, if both together are short enough: the children that their
/// parent has instead.
fn join(
    nodes: &impl Nodes,
    edited: &Edited,
    parent: &Page<'_>,
    at: usize,
    changes: &mut Vec<Change>,
) -> Option<(Range<usize>, Vec<Child>)> {
    if edited.bytes.len() >= NODE_BYTES_MIN || parent.len() < 2 {
        return None;
    }
    let left = if at + 1 < parent.len() { at } else { at - 1 };
    let other = if left == at { at + 1 } else { at - 1 };
    let number = |at: usize| read_word(parent.entry(at).payload);
    let bytes = nodes.with(number(other), |bytes| {
        let (mine, other) = (Page::of(&edited.bytes), Page::of(bytes));
        let is_short = mine.bytes() + other.bytes() <= JOINED_BYTES_MAX;
        is_short.then(|| match left == at {
            true => mine.joined(&other),
            false => other.joined(&mine),
        })
    })?;
    let count = count_in(&Page::of(&bytes), edited.is_leaf);
    let least = parent.entry(left).key;
    let (node, gone) = (number(left), number(left + 1));
    changes.push(Change::Put { node, bytes });
    changes.push(Change::Remove { node: gone });
    Some((left..left + 2, vec![Child::of(least, node, count)]))
}

/// Which child of an inner node a key is below.
fn child_of(page: &Page<'_>, key: &[u8]) -> usize {
    page.find(key).unwrap_or_else(|at| at.saturating_sub(1))
}

fn read_word(bytes: &[u8]) -> u64 {
    let bytes = bytes.first_chunk().expect("a word has eight bytes");
    u64::from_le_bytes(*bytes)
}

/// The entries below a child.
fn count_of(payload: &[u8]) -> u64 {
    read_word(&payload[8..])
}

/// The entries in or below a node.
fn count_in(page: &Page<'_>, is_leaf: bool) -> u64 {
    match is_leaf {
        true => page.len() as u64,
        false => (0..page.len())
            .map(|at| count_of(page.entry(at).payload))
            .sum(),
    }
}

/// The shortest key that is above one and not above the next.
fn separator<'a>(below: &[u8], next: &'a [u8]) -> &'a [u8] {
    let alike = below
        .iter()
        .zip(next)
        .take_while(|(one, other)| one == other);
    &next[..alike.count() + 1]
}

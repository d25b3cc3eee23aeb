//! Check: whether a value is sound, for tests and for an audit of the whole cache.

use crate::PAGE_BYTES;
use crate::digest::{hash, tag};
use crate::page::{CHILD_SLOT_BYTES, FRONT_BYTES, Kind, NONE, Tree};
use crate::view::{View, page_at};

impl View<'_> {
    /// Checks the value: links, counts, order, space. Cost: all of its bytes.
    ///
    /// # Errors
    /// A description of the first fault.
    pub fn check(&self) -> Result<(), String> {
        let pages = self.pages() as usize;
        if self.bytes.len() != page_at(self.pages()) {
            return Err(format!("{} bytes for {pages} pages", self.bytes.len()));
        }
        let mut seen = vec![false; pages];
        for tree in [Tree::First, Tree::Second] {
            let root = self.root(tree);
            let count = match root {
                NONE => 0,
                root => self.check_node(tree, root, NONE, &mut seen)?,
            };
            if count != self.len(tree) {
                return Err(format!(
                    "{tree:?} has {count} and counts {}",
                    self.len(tree)
                ));
            }
            self.check_order(tree)?;
        }
        match seen.iter().position(|seen| !seen) {
            Some(page) => Err(format!("page {page} belongs to nothing")),
            None => Ok(()),
        }
    }

    /// How many entries are below a node.
    fn check_node(
        &self,
        tree: Tree,
        page: u32,
        up: u32,
        seen: &mut [bool],
    ) -> Result<usize, String> {
        note(page, seen)?;
        let node = self.page(page);
        if node.up() != up || node.tree() != tree || (node.len() == 0) {
            return Err(format!("page {page} is not what names it says"));
        }
        let form = self.form(tree);
        let slot = if node.kind() == Kind::Inner {
            CHILD_SLOT_BYTES
        } else {
            form.slot
        };
        let entries = (0..node.len()).map(|index| node.entry_bytes(index, form));
        let front = node.front();
        let used = entries.sum::<usize>() + front.unused;
        if front.heap + used != PAGE_BYTES || FRONT_BYTES + node.len() * slot > front.heap {
            return Err(format!("page {page} has lost bytes"));
        }
        let mut count = 0;
        for index in 0..node.len() {
            if node.kind() == Kind::Inner {
                let child = node.child(index);
                let below = self.check_node(tree, child.page, page, seen)?;
                if below != child.count as usize {
                    return Err(format!(
                        "child {index} of page {page} counts {}",
                        child.count
                    ));
                }
                count += below;
                continue;
            }
            count += 1;
            for (_, first) in node.entry(index, form).long_texts() {
                let (mut up, mut next) = (page, first);
                while next != NONE {
                    note(next, seen)?;
                    if self.page(next).up() != up || self.page(next).kind() != Kind::Part {
                        return Err(format!("part {next} does not name {up}"));
                    }
                    (up, next) = (next, self.page(next).next_part());
                }
            }
        }
        Ok(count)
    }

    fn check_order(&self, tree: Tree) -> Result<(), String> {
        let form = self.form(tree);
        let mut before: Option<Vec<u8>> = None;
        let mut hash_before = 0;
        for (rank, (spot, entry)) in self.iter_from(self.first(tree)).enumerate() {
            if self.rank(spot) != rank || self.at(tree, rank) != spot {
                return Err(format!("rank {rank} of {tree:?} is not where it is"));
            }
            let text = self.bytes_of(entry.text());
            if form.slot == 4 {
                if self.find(&text).found != Some(spot) {
                    return Err(format!("a member of page {} is not found", spot.page));
                }
                let hash = hash(self.seed(), &text);
                let page = self.page(spot.page);
                if page.tag(spot.index) != tag(hash, page.shift()) {
                    return Err("a slot has another hash".into());
                }
                let is_here = self.index_of_hash(spot, hash) == spot.index;
                if hash < hash_before || hash > hash_before && !is_here {
                    return Err(format!("rank {rank} is out of order"));
                }
                hash_before = hash;
            } else if form.lead > 0 {
                let key = [entry.lead(), &text].concat();
                if before.as_ref().is_some_and(|before| *before >= key) {
                    return Err(format!("rank {rank} is out of order"));
                }
                before = Some(key);
            }
        }
        Ok(())
    }
}

fn note(page: u32, seen: &mut [bool]) -> Result<(), String> {
    match seen.get_mut(page as usize) {
        Some(seen) if !*seen => {
            *seen = true;
            Ok(())
        }
        _ => Err(format!("page {page} is named twice, or not there")),
    }
}

//! A hash in nodes against a plain map: random commands whose fields and values have any length,
//! while it grows, shrinks and has no space for a change.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, HashMap, HashSet};

use cellar_values::{Change, Full, Hash, NODE_BYTES_MAX, Nodes, Tree};

/// Nodes in a map, which may refuse the next changes.
#[derive(Default)]
struct Plain {
    nodes: HashMap<u64, Vec<u8>>,
    is_full: bool,
    /// Bytes that the changes since the last look wrote.
    written: usize,
}

impl Nodes for Plain {
    fn with<R>(&self, node: u64, read: impl FnOnce(&[u8]) -> R) -> R {
        read(&self.nodes[&node])
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), Full> {
        if self.is_full {
            return Err(Full);
        }
        for change in changes {
            match change {
                Change::Put { node, bytes } => {
                    self.written += bytes.len();
                    self.nodes.insert(*node, bytes.clone());
                }
                Change::Patch { node, at, bytes } => {
                    self.written += bytes.len();
                    let node = self.nodes.get_mut(node).expect("it is there");
                    node[*at..*at + 8].copy_from_slice(bytes);
                }
                Change::Remove { node } => {
                    assert!(self.nodes.remove(node).is_some(), "it is there");
                }
            }
        }
        Ok(())
    }
}

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// FNV-1a, cut to so many bits that some fields share one.
fn hash_of(field: &[u8], bits: u32) -> u32 {
    let hash = field.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    hash.reverse_bits() >> (32 - bits) << (32 - bits)
}

struct Pair {
    nodes: Plain,
    hash: Hash,
    model: Model,
    random: Random,
    bits: u32,
}

impl Pair {
    fn new(seed: u64, bits: u32) -> Pair {
        let mut nodes = Plain::default();
        let hash = Hash::new(&mut nodes).unwrap();
        let (model, random) = (Model::new(), Random(seed));
        Pair {
            nodes,
            hash,
            model,
            random,
            bits,
        }
    }

    fn field(&mut self, fields: u64) -> Vec<u8> {
        let number = self.random.below(fields);
        let mut field = format!("field:{number}").into_bytes();
        match number % 101 {
            0 => field.resize(1_500, b'x'),
            1 => field.resize(90_000, b'y'),
            _ => {}
        }
        field
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.random.below(60) {
            0 => 5_000,
            1 => 100_000,
            2..10 => self.random.below(600),
            _ => self.random.below(30),
        };
        vec![self.random.below(256) as u8; len as usize]
    }

    /// One command; `grows` of ten are sets.
    fn run(&mut self, fields: u64, grows: u64) {
        let field = self.field(fields);
        let hash = hash_of(&field, self.bits);
        self.nodes.is_full = self.random.below(50) == 0;
        let before = self.hash;
        if self.random.below(10) < grows {
            let value = self.value();
            match self.hash.set(&mut self.nodes, hash, &field, &value) {
                Ok(is_new) => assert_eq!(is_new, self.model.insert(field, value).is_none()),
                Err(Full) => assert!(self.nodes.is_full && self.hash == before),
            }
        } else {
            match self.hash.remove(&mut self.nodes, hash, &field) {
                Ok(was_there) => assert_eq!(was_there, self.model.remove(&field).is_some()),
                Err(Full) => assert!(self.nodes.is_full && self.hash == before),
            }
        }
        self.nodes.is_full = false;
        let field = self.field(fields);
        let hash = hash_of(&field, self.bits);
        self.hash.get(&self.nodes, hash, &field, |value| {
            assert_eq!(value, self.model.get(&field).map(Vec::as_slice));
        });
    }

    /// Everything is there once, whichever way it is looked at.
    fn check(&self) {
        assert_eq!(self.hash.len(), self.model.len() as u64);
        let mut seen = Model::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            cursor = self.hash.scan(&self.nodes, from, |field, value| {
                assert!(hash_of(field, self.bits) >= from);
                assert!(seen.insert(field.to_vec(), value.to_vec()).is_none());
            });
            assert!(cursor.is_none_or(|next| next > from));
        }
        assert!(seen == self.model);
        let ranks = (0..self.hash.len()).map(|rank| {
            let field = self.hash.at(&self.nodes, rank, |field, _| field.to_vec());
            field.unwrap()
        });
        assert_eq!(ranks.collect::<HashSet<_>>().len(), self.model.len());
        assert_eq!(self.hash.at(&self.nodes, self.hash.len(), |_, _| ()), None);
        let kept = Tree::of(&self.hash.tree().to_bytes());
        assert_eq!(Hash::of(kept), self.hash);
    }
}

#[test]
fn a_hash_holds_what_a_map_holds_while_it_grows_and_shrinks() {
    for (seed, bits) in [(1, 32), (2, 32), (3, 9), (4, 3)] {
        let mut pair = Pair::new(seed, bits);
        for (steps, fields, grows) in [
            (2_000, 300, 8),
            (2_000, 300, 3),
            (6_000, 4_000, 9),
            (8_000, 4_000, 1),
            (300, 20, 5),
        ] {
            for step in 0..steps {
                pair.run(fields, grows);
                if step % 1_000 == 0 {
                    pair.check();
                }
            }
            pair.check();
        }
        while !pair.hash.is_empty() {
            pair.hash.remove_some(&mut pair.nodes).unwrap();
        }
        pair.model.clear();
        pair.check();
        assert_eq!(pair.nodes.nodes.len(), 1, "one empty node is left");
    }
}

#[test]
fn a_scan_shows_what_stays_once_while_all_else_comes_and_goes() {
    let mut pair = Pair::new(5, 32);
    for number in 0..3_000 {
        let field = format!("stays:{number}").into_bytes();
        let hash = hash_of(&field, 32);
        pair.hash.set(&mut pair.nodes, hash, &field, b"1").unwrap();
        pair.model.insert(field, b"1".to_vec());
    }
    let (mut cursor, mut seen, mut calls) = (Some(0), HashMap::new(), 0);
    while let Some(from) = cursor {
        cursor = pair.hash.scan(&pair.nodes, from, |field, _| {
            *seen.entry(field.to_vec()).or_insert(0) += 1;
        });
        calls += 1;
        let grows = if calls % 40 < 20 { 10 } else { 0 };
        for _ in 0..100 {
            pair.run(5_000, grows);
        }
    }
    for number in 0..3_000 {
        let field = format!("stays:{number}").into_bytes();
        assert_eq!(seen.get(&field), Some(&1), "{number}");
    }
    pair.check();
}

#[test]
fn a_write_touches_about_a_node_however_many_there_are() {
    let mut pair = Pair::new(6, 32);
    let mut costs = Vec::new();
    for number in 0..100_000_u32 {
        let field = number.to_le_bytes();
        let hash = hash_of(&field, 32);
        pair.hash
            .set(&mut pair.nodes, hash, &field, &[7; 10])
            .unwrap();
        if [1_000, 10_000, 100_000].contains(&(number + 1)) {
            pair.nodes.written = 0;
            for field in (0..1_000_u32).map(u32::to_le_bytes) {
                let hash = hash_of(&field, 32);
                pair.hash
                    .set(&mut pair.nodes, hash, &field, &[8; 10])
                    .unwrap();
            }
            costs.push(pair.nodes.written / 1_000);
        }
    }
    assert!(
        costs.iter().all(|&bytes| bytes <= NODE_BYTES_MAX),
        "{costs:?}"
    );
    let bytes: usize = pair.nodes.nodes.values().map(Vec::len).sum();
    // Lengths, a hash, a begin and a tag an element; nodes above the leaves.
    assert!(bytes < 100_000 * (14 + 11), "{bytes}");
}

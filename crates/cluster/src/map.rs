//! Map: the node of each slot, a pure function of names and weights.
//!
//! Each block of 16 slots ranks all nodes by a hash of its number and their names (highest random
//! weight). A slot goes to the first node of its ranking with free capacity: no node takes more
//! than 1.05 times its share, and it keeps the applicants with the best hashes, so that the result
//! does not depend on the order of the slots (a stable matching). Slots of a block stay together
//! unless a node has capacity for only a part of them, so a map has few runs.
//!
//! All arithmetic is in integers: machines of every kind compute the same map.
//! Why: docs/decisions/0057.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::list::NodeList;
use super::node::{mix, seed};
use super::slot::SLOTS;

/// Slots per block, which share one ranking of the nodes.
const BLOCK_SLOTS: u16 = 16;
/// The most that a node takes of its share, in thousandths.
const LOAD_THOUSANDTHS: u64 = 1_050;
/// Fractional bits of a logarithm.
const LOG_BITS: u32 = 32;
/// Selects the hash of a name that ranks blocks; the node's id uses others.
const SEED_PART: u64 = 0x6d61_7073;

/// The node of each slot, as its index in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owners(Box<[u16]>);

/// Slots that follow one another and belong to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRun {
    /// The first of them.
    pub first: u16,
    /// The last of them.
    pub last: u16,
    /// The node's place in the list.
    pub node: u16,
}

impl Owners {
    /// The owners that a list decides.
    #[must_use]
    pub fn of(list: &NodeList) -> Owners {
        let mut matching = Matching::of(list);
        let mut waiting: Vec<Piece> = (0..SLOTS / BLOCK_SLOTS).rev().map(Piece::block).collect();
        while let Some(piece) = waiting.pop() {
            matching.place(piece, &mut waiting);
        }
        matching.owners()
    }

    /// The node of a slot.
    #[inline]
    #[must_use]
    pub fn node(&self, slot: u16) -> u16 {
        self.0[usize::from(slot % SLOTS)]
    }

    /// All slots in runs, in order.
    #[must_use]
    pub fn runs(&self) -> Vec<SlotRun> {
        let mut runs: Vec<SlotRun> = Vec::new();
        for slot in 0..SLOTS {
            let node = self.node(slot);
            match runs.last_mut() {
                Some(run) if run.node == node => run.last = slot,
                _ => runs.push(SlotRun {
                    first: slot,
                    last: slot,
                    node,
                }),
            }
        }
        runs
    }
}

/// Slots of a block that are placed together.
#[derive(Clone, Copy, Debug)]
struct Piece {
    first: u16,
    slots: u16,
    /// Number of nodes of its block's ranking that had no capacity.
    refused: u16,
}

impl Piece {
    fn block(block: u16) -> Piece {
        Piece {
            first: block * BLOCK_SLOTS,
            slots: BLOCK_SLOTS,
            refused: 0,
        }
    }
}

/// A piece at its node; the greatest is the first that the node gives up.
#[derive(Clone, Copy, Debug)]
struct Tenant {
    cost: u64,
    piece: Piece,
}

impl Ord for Tenant {
    fn cmp(&self, other: &Tenant) -> Ordering {
        (self.cost, self.piece.first).cmp(&(other.cost, other.piece.first))
    }
}

impl PartialOrd for Tenant {
    fn partial_cmp(&self, other: &Tenant) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Tenant {
    fn eq(&self, other: &Tenant) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Tenant {}

/// A node while slots are placed.
struct Holder {
    room: u64,
    taken: u64,
    placed: BinaryHeap<Tenant>,
}

struct Matching {
    /// For each block, all nodes and their costs, the highest last.
    rankings: Vec<Vec<(u64, u16)>>,
    holders: Vec<Holder>,
}

impl Matching {
    fn of(list: &NodeList) -> Matching {
        let nodes = list.nodes();
        let total: u64 = nodes.iter().map(|node| u64::from(node.weight)).sum();
        let weighed: Vec<(u64, u64)> = nodes
            .iter()
            .map(|node| (seed(&node.name, SEED_PART), node.weight.into()))
            .collect();
        let rankings = (0..SLOTS / BLOCK_SLOTS).map(|block| ranking(block, &weighed));
        let holder = |weight: u64| Holder {
            room: room(weight, total),
            taken: 0,
            placed: BinaryHeap::new(),
        };
        Matching {
            rankings: rankings.collect(),
            holders: weighed.iter().map(|(_, weight)| holder(*weight)).collect(),
        }
    }

    /// Gives a piece to the next node of its ranking; pieces that do not fit there then wait.
    fn place(&mut self, piece: Piece, waiting: &mut Vec<Piece>) {
        let ranking = &self.rankings[usize::from(piece.first / BLOCK_SLOTS)];
        let (cost, node) = ranking[usize::from(piece.refused)];
        let holder = &mut self.holders[usize::from(node)];
        holder.placed.push(Tenant { cost, piece });
        holder.taken += u64::from(piece.slots);
        while holder.taken > holder.room {
            let over = holder.taken - holder.room;
            let Some(worst) = holder.placed.pop() else {
                return;
            };
            let slots = worst.piece.slots;
            let left = u64::from(slots).saturating_sub(over) as u16;
            holder.taken -= u64::from(slots - left);
            if left > 0 {
                let piece = Piece {
                    slots: left,
                    ..worst.piece
                };
                holder.placed.push(Tenant { piece, ..worst });
            }
            waiting.push(Piece {
                first: worst.piece.first + left,
                slots: slots - left,
                refused: worst.piece.refused + 1,
            });
        }
    }

    fn owners(self) -> Owners {
        let mut owners = vec![0; usize::from(SLOTS)].into_boxed_slice();
        for (node, holder) in (0..).zip(&self.holders) {
            for Tenant { piece, .. } in &holder.placed {
                let (first, end) = (piece.first, piece.first + piece.slots);
                owners[usize::from(first)..usize::from(end)].fill(node);
            }
        }
        Owners(owners)
    }
}

/// Slots that a node takes at most: 1.05 times its share, or its share rounded up if no whole
/// number is between the two.
fn room(weight: u64, total: u64) -> u64 {
    let slots = u64::from(SLOTS);
    let bound = slots * weight * LOAD_THOUSANDTHS / (total * 1_000);
    bound.max((slots * weight).div_ceil(total))
}

/// All nodes, given as hash and weight, in the order in which a block wants them.
fn ranking(block: u16, weighed: &[(u64, u64)]) -> Vec<(u64, u16)> {
    let cost = |(seed, weight): (u64, u64)| {
        // The shortest of waits that are exponential with these weights falls to each by weight.
        (negative_log2(mix(seed ^ mix(block.into()))) << (57 - LOG_BITS)) / weight
    };
    let mut ranking: Vec<(u64, u16)> = weighed.iter().copied().map(cost).zip(0..).collect();
    ranking.sort_unstable();
    ranking
}

/// The logarithm to the base 2 of 2^64 / (`bits` + 1), with [`LOG_BITS`] fractional bits.
fn negative_log2(bits: u64) -> u64 {
    let number = u128::from(bits) + 1;
    let whole = 127 - number.leading_zeros();
    // From 1 to 2, with 63 fractional bits; squared, the integer part is the next bit.
    let mut mantissa = (number << (127 - whole)) >> 64;
    let mut log = u64::from(whole);
    for _ in 0..LOG_BITS {
        mantissa = (mantissa * mantissa) >> 63;
        let bit = (mantissa >> 64) as u64;
        mantissa >>= bit;
        log = log << 1 | bit;
    }
    (64 << LOG_BITS) - log
}

#[cfg(test)]
mod tests;

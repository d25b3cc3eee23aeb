//! Tests of the map: balance, moves, weights, and that it stays what it is.

use cellar_config::settings::address::Address;
use cellar_config::settings::announced::Announced;

use super::*;
use crate::node::Node;

fn named(name: &str, weight: u32) -> Node {
    Node {
        name: name.to_owned(),
        weight,
        announced: Announced {
            resp: vec![Address::Tcp(format!("{name}:6379"))],
            ..Announced::default()
        },
    }
}

fn even(prefix: &str, count: usize) -> NodeList {
    let nodes = (0..count).map(|n| named(&format!("{prefix}-{n}"), 1));
    NodeList::of(nodes.collect()).unwrap()
}

fn without(list: &NodeList, name: &str) -> NodeList {
    let nodes = list.nodes().iter().filter(|node| node.name != name);
    NodeList::of(nodes.cloned().collect()).unwrap()
}

fn shares(list: &NodeList) -> Vec<u64> {
    let owners = Owners::of(list);
    let mut shares = vec![0; list.nodes().len()];
    (0..SLOTS).for_each(|slot| shares[usize::from(owners.node(slot))] += 1);
    shares
}

/// Number of slots that move between the lists, and of slots of nodes that are only in one list.
fn moved(before: &NodeList, after: &NodeList) -> (usize, usize) {
    let (old, new) = (Owners::of(before), Owners::of(after));
    let name = |list: &NodeList, node: u16| list.nodes()[usize::from(node)].name.clone();
    let (mut moved, mut own) = (0, 0);
    for slot in 0..SLOTS {
        let (from, to) = (name(before, old.node(slot)), name(after, new.node(slot)));
        moved += usize::from(from != to);
        own += usize::from(after.find(&from).is_none() || before.find(&to).is_none());
    }
    (moved, own)
}

#[test]
fn no_share_is_above_its_bound_for_3_to_1000_even_nodes() {
    let counts = (3..=40).chain((45..=300).step_by(17));
    for count in counts.chain([500, 861, 910, 911, 963, 964, 999, 1_000]) {
        let mean = f64::from(SLOTS) / count as f64;
        let most = *shares(&even("node", count)).iter().max().unwrap() as f64;
        // Without a whole number between the mean and 1.05 times the mean, the next one.
        assert!(
            most <= (1.05 * mean).max(mean.ceil()),
            "{count} nodes: {most} of {mean}"
        );
    }
}

#[test]
fn shares_go_by_weight() {
    let weights = [1, 1, 2, 4, 8, 3];
    let nodes = (0..)
        .zip(weights)
        .map(|(n, weight)| named(&format!("w{n}"), weight));
    let list = NodeList::of(nodes.collect()).unwrap();
    let total: u32 = weights.iter().sum();
    for (share, weight) in shares(&list).into_iter().zip(weights) {
        let mean = f64::from(SLOTS) * f64::from(weight) / f64::from(total);
        assert!(
            (0.75..=1.05).contains(&(share as f64 / mean)),
            "{share} of {mean}"
        );
    }
    let lean = [named("small", 1), named("large", WEIGHT_LARGE)];
    let shares = shares(&NodeList::of(lean.to_vec()).unwrap());
    assert_eq!(shares.iter().sum::<u64>(), u64::from(SLOTS));
    assert!(shares[1] <= 2, "{shares:?}");
}

const WEIGHT_LARGE: u32 = crate::node::WEIGHT_MAX;

#[test]
fn a_node_that_comes_or_goes_moves_its_share_and_little_else() {
    // In hundredths of what the node itself has: the mean of ten clusters, and the worst.
    for (count, mean_max, worst_max) in
        [(3, 108, 115), (5, 110, 125), (10, 120, 140), (30, 170, 200)]
    {
        let (mut all_moved, mut all_own) = (0, 0);
        for cluster in 0..10 {
            let before = even(&format!("c{cluster}"), count);
            let mut nodes = before.nodes().to_vec();
            nodes.push(named("newcomer", 1));
            let after = NodeList::of(nodes).unwrap();
            let (moved, own) = moved(&before, &after);
            assert!(moved * 100 <= own * worst_max, "{count}: {moved} for {own}");
            all_moved += moved;
            all_own += own;
            let back = self::moved(&after, &without(&after, "newcomer"));
            assert_eq!(back, (moved, own), "who leaves undoes what its coming did");
        }
        assert!(
            all_moved * 100 <= all_own * mean_max,
            "{count}: {all_moved} for {all_own}"
        );
    }
}

#[test]
fn a_heavier_node_takes_from_others_and_gives_nothing_to_them() {
    let before = even("n", 4);
    let mut nodes = before.nodes().to_vec();
    nodes[2].weight = 2;
    let after = NodeList::of(nodes).unwrap();
    let (old, new) = (Owners::of(&before), Owners::of(&after));
    let changed: Vec<u16> = (0..SLOTS)
        .filter(|slot| old.node(*slot) != new.node(*slot))
        .collect();
    let gained = changed.iter().filter(|slot| new.node(**slot) == 2).count();
    assert!(
        gained * 100 >= changed.len() * 85,
        "{gained} of {}",
        changed.len()
    );
    let expected = f64::from(SLOTS) * (2.0 / 5.0 - 1.0 / 4.0);
    assert!((gained as f64) < expected * 1.3, "{gained}");
}

#[test]
fn the_order_of_a_list_and_its_addresses_do_not_matter() {
    let list = even("n", 7);
    let mut nodes = list.nodes().to_vec();
    nodes.reverse();
    nodes[0].announced.resp = vec![Address::Tcp("elsewhere:1".to_owned())];
    assert_eq!(Owners::of(&list), Owners::of(&NodeList::of(nodes).unwrap()));
}

#[test]
fn the_map_of_a_list_stays_what_it_is() {
    // A map that another version works out otherwise would have two owners during an upgrade.
    let owners = Owners::of(&even("node", 5));
    let sum = (0..SLOTS).fold(0, |sum, slot| {
        mix(sum ^ u64::from(slot) << 16 ^ u64::from(owners.node(slot)))
    });
    assert_eq!(sum, 0x0d08_b268_6317_b3ac, "{sum:#x}");
}

#[test]
fn runs_cover_all_slots_in_order_and_are_few() {
    for (count, most) in [(1, 1), (3, 750), (5, 870), (1_000, 3_000)] {
        let owners = Owners::of(&even("node", count));
        let runs = owners.runs();
        assert!(runs.len() <= most, "{count} nodes: {} runs", runs.len());
        let mut next = 0;
        for run in &runs {
            assert_eq!(run.first, next);
            assert!((run.first..=run.last).all(|slot| owners.node(slot) == run.node));
            next = run.last + 1;
        }
        assert_eq!(next, SLOTS);
    }
}

#[test]
fn the_logarithm_is_one() {
    for (bits, expected) in [
        (u64::MAX, 0.0),
        (0, 64.0),
        ((1 << 63) - 1, 1.0),
        (u64::MAX / 3, 1.585),
    ] {
        let log = negative_log2(bits) as f64 / (1_u64 << LOG_BITS) as f64;
        assert!((log - expected).abs() < 0.001, "{bits}: {log}");
    }
}

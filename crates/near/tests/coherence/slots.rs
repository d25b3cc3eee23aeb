//! Slots: which copies a move takes along, over Cellars that say which slots they have lost.

use crate::fleet::{Fleet, Listed};
use crate::subject::{Cellar, PATIENCE, name_of, settles};
use crate::wait::{self, comes_true};

/// Keys of all nodes, of many slots.
const KEYS: usize = 200;

fn keys() -> Vec<String> {
    (0..KEYS).map(|number| format!("key:{number}")).collect()
}

/// Which node has each key.
async fn owners(fleet: &mut Fleet) -> Vec<usize> {
    let mut owners = vec![usize::MAX; KEYS];
    for node in 0..4 {
        let client = fleet.server(node).client().await;
        for (owner, key) in owners.iter_mut().zip(keys()) {
            let exists = client.try_run(&["EXISTS", &name_of(&key)]).await;
            *owner = exists.map_or(*owner, |_| node);
        }
    }
    owners
}

/// Fills a cache with what three nodes have, and lists a fourth one; which keys have another node
/// then, and which are not in memory any more.
async fn moved(maker: &Cellar) -> (Vec<bool>, Vec<bool>) {
    let mut fleet = Fleet::start(Listed::InFile).await.expect("no etcd");
    fleet.all_serve(&[0, 1, 2]).await;
    // So long that nobody looks at the map without a reason.
    let near = maker.near_cluster(&fleet.addresses(), 10 * PATIENCE);
    for key in keys() {
        near.set(&key, &"old".to_owned()).await.unwrap();
    }
    // Who broadcasts hears of its own writes after they have been answered.
    while keys().iter().any(|key| near.peek(key).is_none()) {
        for key in keys() {
            settles(maker, &near, &key, Some("old")).await.unwrap();
        }
    }
    let before = owners(&mut fleet).await;
    fleet.list(3, true);
    fleet.all_serve(&[0, 1, 2, 3]).await;
    // Some go from one of the first nodes to another one.
    let after = owners(&mut fleet).await;
    let have_moved: Vec<bool> = before.iter().zip(after).map(|(a, b)| *a != b).collect();
    let is_gone = || -> Vec<bool> { keys().iter().map(|key| near.peek(key).is_none()).collect() };
    // The caller compares the two key by key.
    comes_true(wait::PATIENCE, || is_gone() == have_moved).await;
    let gone = is_gone();
    (have_moved, gone)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_takes_the_copies_of_its_slots_along_and_no_others() {
    let broadcast = Cellar {
        is_patient: true,
        ..Cellar::broadcast()
    };
    for maker in [Cellar::patient(), broadcast] {
        let (have_moved, gone) = moved(&maker).await;
        let differ = (0..KEYS).filter(|&key| gone[key] != have_moved[key]);
        let differ: Vec<usize> = differ.collect();
        assert!(
            differ.is_empty(),
            "{maker:?}: unlike their slots: {differ:?}"
        );
        let count = have_moved.iter().filter(|has_moved| **has_moved).count();
        assert!((1..KEYS / 2).contains(&count), "{count}");
    }
}

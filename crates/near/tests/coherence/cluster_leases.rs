//! Leases over a cluster: one load for all processes, while slots move and nodes die.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cellar_near::{Error, Near, NearBuilder};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::fleet::{Fleet, Listed};
use crate::servers::built;
use crate::subject::{Cellar, PATIENCE, name_of};
use crate::wait::wait_until;

type Cache = Near<String, String>;

/// As many as a service has processes.
const CACHES: usize = 10;
/// Keys of all nodes.
const KEYS: usize = 60;
/// How long a connection is believed.
const BOUND: Duration = Duration::from_secs(1);

fn keys() -> Vec<String> {
    (0..KEYS).map(|number| format!("key:{number}")).collect()
}

async fn fleet() -> Fleet {
    let fleet = Fleet::start(Listed::InFile).await.expect("no etcd");
    fleet.all_serve(&[0, 1, 2]).await;
    fleet
}

/// A cache that no other shares anything with but the nodes. Whoever waited in vain for a lease
/// would wait for longer than any test.
fn cache(fleet: &Fleet) -> Cache {
    let whole = |builder: NearBuilder<String, String>| {
        builder
            .lease_timeout(PATIENCE * 20)
            .patience(PATIENCE * 20)
            .build()
    };
    whole(Cellar::patient().builder_of_cluster(&fleet.addresses(), BOUND))
}

/// Loads of all keys, whose loaders have begun and go on when the gate opens.
struct Loads {
    gate: Arc<Semaphore>,
    tasks: Vec<JoinHandle<Option<String>>>,
}

impl Loads {
    async fn begin(near: &Cache, keys: &[String], made: &'static str) -> Loads {
        let gate = Arc::new(Semaphore::new(0));
        let begun = Arc::<AtomicU32>::default();
        let mut tasks = Vec::new();
        for key in keys {
            let key = key.clone();
            let (near, gate, begun) = (near.clone(), Arc::clone(&gate), Arc::clone(&begun));
            tasks.push(tokio::spawn(async move {
                loop {
                    let (gate, begun) = (Arc::clone(&gate), Arc::clone(&begun));
                    let loader = move || async move {
                        begun.fetch_add(1, Ordering::SeqCst);
                        gate.acquire().await.map(drop).expect("it stays");
                        Ok::<_, Error>(Some(made.to_owned()))
                    };
                    // As long as nobody has the slots of a dead node there is an error, or one
                    // node sends to another that has not heard of it yet.
                    match near.get_or_load(&key, loader).await {
                        Ok(held) => return held.map(|held| held.to_string()),
                        Err(error) => assert!(
                            error.is_away() || matches!(error, Error::Refused(_)),
                            "{error}"
                        ),
                    }
                }
            }));
        }
        let have_begun = || begun.load(Ordering::SeqCst) as usize >= keys.len();
        wait_until("every loader begins", have_begun).await;
        Loads { gate, tasks }
    }

    /// Lets the loaders end; what the readers get.
    async fn end(self) -> Vec<Option<String>> {
        self.gate.add_permits(KEYS);
        let mut read = Vec::new();
        for task in self.tasks {
            read.push(task.await.expect("no task panics"));
        }
        read
    }
}

/// The number of the node that has each key, and what it has.
async fn stored(fleet: &mut Fleet, nodes: &[usize]) -> Vec<(usize, Option<String>)> {
    let mut found = vec![(usize::MAX, None); KEYS];
    for &node in nodes {
        let client = fleet.server(node).client().await;
        for (found, key) in found.iter_mut().zip(keys()) {
            if let Ok(value) = client.try_run(&["GET", &name_of(&key)]).await {
                *found = (node, redis::from_redis_value(value).unwrap());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn of_ten_real_processes_that_miss_a_key_of_a_cluster_one_loads_it() {
    let fleet = fleet().await;
    let program = built("examples/load_once", &["--example", "load_once"]);
    let addresses = fleet.addresses().join(",redis://");
    for key in ["a", "b", "c"] {
        let processes: Vec<_> = (0..CACHES)
            .map(|_| {
                let mut command = Command::new(&program);
                command.args([&format!("redis://{addresses}"), key]);
                let command = command.stdout(Stdio::piped());
                command.spawn().expect("the example starts")
            })
            .collect();
        let mut outputs = BTreeSet::new();
        for process in processes {
            let output = process.wait_with_output().unwrap();
            assert!(output.status.success());
            outputs.insert(String::from_utf8(output.stdout).unwrap());
        }
        assert_eq!(outputs.len(), 1, "more than one has made it: {outputs:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_by_a_lease_of_a_slot_that_moved_is_stored_nowhere() {
    let mut fleet = fleet().await;
    let (near, other) = (cache(&fleet), cache(&fleet));
    let before = stored(&mut fleet, &[0, 1, 2]).await;
    let loads = Loads::begin(&near, &keys(), "made").await;
    fleet.list(3, true);
    fleet.all_serve(&[0, 1, 2, 3]).await;
    let after = stored(&mut fleet, &[0, 1, 2, 3]).await;
    let have_moved: Vec<bool> = (0..KEYS).map(|key| before[key].0 != after[key].0).collect();
    // Every other key that has moved is written where it is by now.
    let is_newer = |key: usize| have_moved[key] && key.is_multiple_of(2);
    for key in (0..KEYS).filter(|key| is_newer(*key)) {
        let newer = "newer".to_owned();
        other.set(&keys()[key], &newer).await.unwrap();
    }
    let read = loads.end().await;
    let now = stored(&mut fleet, &[0, 1, 2, 3]).await;
    assert!(have_moved.contains(&true) && have_moved.contains(&false));
    for key in 0..KEYS {
        let expected = match (is_newer(key), have_moved[key]) {
            (true, _) => (Some("newer"), Some("newer")),
            // Its readers get it, and nobody else.
            (false, true) => (Some("made"), None),
            (false, false) => (Some("made"), Some("made")),
        };
        let found = (read[key].as_deref(), now[key].1.as_deref());
        assert_eq!(found, expected, "key {key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_lease_of_a_node_that_dies_loads_at_the_next_owner() {
    let mut fleet = fleet().await;
    let (near, other) = (cache(&fleet), cache(&fleet));
    let owners = stored(&mut fleet, &[0, 1, 2]).await;
    let lost: Vec<String> = keys()
        .into_iter()
        .zip(&owners)
        .filter_map(|(key, (owner, _))| (*owner == 1).then_some(key))
        .collect();
    let first = Loads::begin(&near, &lost, "first").await;
    let waiting = {
        let (other, lost) = (other.clone(), lost.clone());
        tokio::spawn(async move { Loads::begin(&other, &lost, "second").await })
    };
    let have_asked = || other.stats().loads >= lost.len() as u64;
    wait_until("the others have asked, and wait", have_asked).await;
    fleet.server(1).crash();
    fleet.list(1, false);
    fleet.all_serve(&[0, 2]).await;
    let second = tokio::time::timeout(PATIENCE, waiting).await;
    let second = second.expect("they need not wait for the lease").unwrap();
    for read in second.end().await {
        assert_eq!(read.as_deref(), Some("second"));
    }
    // Who was first gets what the next owner has, or its own while it cannot ask; that is stored
    // nowhere.
    for read in first.end().await {
        assert!(matches!(read.as_deref(), Some("first" | "second")));
    }
    for (key, (_, value)) in keys().iter().zip(stored(&mut fleet, &[0, 2]).await) {
        if lost.contains(key) {
            assert_eq!(value.as_deref(), Some("second"), "{key}");
        }
    }
}

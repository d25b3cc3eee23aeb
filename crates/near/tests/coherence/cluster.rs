//! A cluster of three nodes of Debian's redis-server: routing, moved slots, lost nodes.

use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::fault::Fault;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{Near, Stats};
use tempfile::TempDir;

use crate::overwrites::{CHANGES, Gated, read};
use crate::scripted::BOUND;
use crate::servers::{Client, Kind, Server};
use crate::subject::{Cellar, PATIENCE, name_of, settles};
use crate::wait::{wait_for, wait_until};

type Cache = Near<String, String>;

/// Three nodes that have the slots between them.
struct Nodes {
    servers: Vec<Server>,
    clients: Vec<Client>,
    /// Where they keep their maps; dropped after them, and removed.
    folder: TempDir,
}

/// First and last slots of the nodes.
const RANGES: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

impl Nodes {
    async fn start() -> Nodes {
        let mut nodes = Nodes {
            servers: Vec::new(),
            clients: Vec::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        for _ in RANGES {
            let name = format!("nodes-{}.conf", nodes.servers.len());
            let path = nodes.folder.path().join(&name);
            let path = path.to_string_lossy();
            let flags = ["--cluster-enabled", "yes", "--cluster-config-file", &path];
            let server = Server::start_with(Kind::Redis, &flags).await;
            nodes.clients.push(server.client().await);
            nodes.servers.push(server);
        }
        for ((client, (first, last)), epoch) in nodes.clients.iter().zip(RANGES).zip(1..) {
            let (first, last) = (first.to_string(), last.to_string());
            client
                .run(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])
                .await;
            // Nodes of one epoch would dispute a slot that moves until one of them draws another.
            let epoch = i32::to_string(&epoch);
            client.run(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
        }
        for server in &nodes.servers[1..] {
            let port = server.port().to_string();
            nodes.clients[0]
                .run(&["CLUSTER", "MEET", "127.0.0.1", &port])
                .await;
        }
        nodes.settle().await;
        nodes
    }

    /// Waits until every node knows all slots.
    async fn settle(&self) {
        for client in &self.clients {
            let knows_all = || async {
                let info = client.run(&["CLUSTER", "INFO"]).await;
                let info: String = redis::from_redis_value(info).unwrap();
                let is_whole = info.contains("cluster_state:ok") && info.contains("cluster_size:3");
                is_whole.then_some(())
            };
            wait_for("the node knows the whole cluster", knows_all).await;
        }
    }

    /// The client of the node that has this key.
    async fn owner(&self, key: &str) -> usize {
        for (place, client) in self.clients.iter().enumerate() {
            if client.try_run(&["EXISTS", &name_of(key)]).await.is_ok() {
                return place;
            }
        }
        panic!("no node has {key}");
    }

    /// Moves a key's slot in the crudest way: a node takes it, the others hear of it by and by.
    async fn take_slot(&self, key: &str, to: usize) {
        let slot = self.clients[0]
            .run(&["CLUSTER", "KEYSLOT", &name_of(key)])
            .await;
        let slot: u64 = redis::from_redis_value(slot).unwrap();
        let id = self.clients[to].run(&["CLUSTER", "MYID"]).await;
        let id: String = redis::from_redis_value(id).unwrap();
        self.clients[to]
            .run(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &id])
            .await;
        self.clients[to].run(&["CLUSTER", "BUMPEPOCH"]).await;
    }

    async fn set(&self, key: &str, value: &str) {
        let owner = self.owner(key).await;
        self.clients[owner].set(key, value).await;
    }

    fn cache(&self, alive_bound: Duration) -> Cache {
        self.broken_cache(alive_bound, Fault::None)
    }

    fn broken_cache(&self, alive_bound: Duration, fault: Fault) -> Cache {
        let addresses = self
            .servers
            .iter()
            .map(|server| format!("redis://{}", server.address()));
        let origin = Redis::cluster(addresses).unwrap();
        let origin = origin.alive_bound(alive_bound).fault(fault);
        Near::builder(Remote::new(origin, Plain).prefix("suite:"))
            .negative_ttl(Duration::from_secs(3600))
            .build()
    }
}

/// Keys of all three nodes.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

async fn settled(near: &Cache, key: &str, value: Option<&str>) {
    settles(&Cellar::default(), near, key, value).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_every_node_of_a_cluster_are_told() {
    let nodes = Nodes::start().await;
    let near = nodes.cache(PATIENCE);
    let mut owners = Vec::new();
    for key in KEYS {
        nodes.set(key, "old").await;
        settled(&near, key, Some("old")).await;
        owners.push(nodes.owner(key).await);
    }
    owners.sort_unstable();
    owners.dedup();
    assert!(owners.len() > 1, "the keys lie at several nodes");
    for key in KEYS {
        nodes.set(key, "new").await;
        settled(&near, key, Some("new")).await;
        assert!(near.peek(key).is_some(), "it is in memory");
    }
    let many: Vec<String> = KEYS.map(str::to_owned).into();
    near.forget_all();
    let held = near.get_many(&many).await.unwrap();
    assert!(
        held.iter()
            .flatten()
            .filter(|held| ***held == "new")
            .count()
            == KEYS.len()
    );
    for key in KEYS {
        near.set(key, &"mine".to_owned()).await.unwrap();
        assert_eq!(*near.get(key).await.unwrap().unwrap(), "mine");
    }
    assert!(near.remove("a").await.unwrap());
    settled(&near, "a", None).await;
    let stats: Stats = near.stats();
    assert!(stats.errors == 0 && stats.hits >= 6, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_takes_no_stale_copy_along() {
    let nodes = Nodes::start().await;
    let near = nodes.cache(BOUND);
    nodes.set("k", "old").await;
    settled(&near, "k", Some("old")).await;
    let from = nodes.owner("k").await;
    let to = (from + 1) % 3;
    nodes.take_slot("k", to).await;
    nodes.clients[to].set("k", "new").await;
    settled(&near, "k", Some("new")).await;
    nodes.clients[to].set("k", "newer").await;
    settled(&near, "k", Some("newer")).await;
}

/// Moves a slot, and has the cache learn of it by a question about another key of the slot; what
/// is in memory then of the key that moved, and whether all others are.
async fn learned(fault: Fault) -> (Option<String>, bool) {
    let nodes = Nodes::start().await;
    // So long that nobody looks at the map, and that only what moved is not believed any more.
    let near = nodes.broken_cache(10 * PATIENCE, fault);
    for key in ["{k}", "a", "b", "c", "d", "e", "f"] {
        nodes.set(key, "old").await;
        settled(&near, key, Some("old")).await;
        assert!(near.peek(key).is_some(), "{key} is in memory");
    }
    let from = nodes.owner("{k}").await;
    let to = (from + 1) % 3;
    nodes.take_slot("{k}", to).await;
    let refuses = || async {
        let name = name_of("{k}");
        let exists = nodes.clients[from].try_run(&["EXISTS", &name]).await;
        exists.err()
    };
    wait_for("the old node refuses the key", refuses).await;
    nodes.clients[to].set("{k}2", "new").await;
    settled(&near, "{k}2", Some("new")).await;
    let moved = near.peek("{k}").map(|held| (*held).clone());
    (moved, KEYS.iter().all(|key| near.peek(*key).is_some()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_takes_its_own_copies_along_and_no_others() {
    assert_eq!(learned(Fault::None).await, (None, true));
    let kept = Some("old".to_owned());
    assert_eq!(learned(Fault::KeptOnMove).await, (kept, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_while_a_loader_runs_is_what_everybody_reads_in_a_cluster() {
    let nodes = Nodes::start().await;
    for (change, is_own) in CHANGES.iter().flat_map(|&one| [(one, true), (one, false)]) {
        let [near, other] = [(), ()].map(|()| nodes.cache(PATIENCE));
        near.remove("k").await.unwrap();
        let gated = Gated::new();
        let loading = gated.load(&near);
        gated.has_begun().await;
        change.make(if is_own { &near } else { &other }).await;
        gated.end();
        loading.await.unwrap();
        let fresh = nodes.cache(PATIENCE);
        for (name, cache) in [("near", &near), ("other", &other), ("fresh", &fresh)] {
            let what = format!("{name} after {change:?}, own {is_own}");
            assert_eq!(read(cache).await.as_deref(), change.value(), "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_loaded_for_a_slot_that_moved_meanwhile_is_stored_nowhere() {
    let nodes = Nodes::start().await;
    for written in [Some("new"), None] {
        let near = nodes.cache(PATIENCE);
        near.remove("k").await.unwrap();
        let gated = Gated::new();
        let loading = gated.load(&near);
        gated.has_begun().await;
        let from = nodes.owner("k").await;
        let to = (from + 1) % 3;
        nodes.take_slot("k", to).await;
        let name = name_of("k");
        let exists = ["EXISTS", &name];
        let refuses = || async { nodes.clients[from].try_run(&exists).await.err() };
        wait_for("the old node refuses the key", refuses).await;
        if let Some(value) = written {
            nodes.clients[to].set("k", value).await;
        }
        gated.end();
        loading.await.unwrap();
        let fresh = nodes.cache(PATIENCE);
        assert_eq!(read(&fresh).await.as_deref(), written);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_lost_takes_its_copies_with_it_and_comes_back_empty() {
    let mut nodes = Nodes::start().await;
    let near = nodes.cache(BOUND);
    for key in KEYS {
        nodes.set(key, "old").await;
        settled(&near, key, Some("old")).await;
    }
    let lost = nodes.owner("a").await;
    let (server, client) = (nodes.servers.remove(lost), nodes.clients.remove(lost));
    let id: String = redis::from_redis_value(client.run(&["CLUSTER", "MYID"]).await).unwrap();
    drop(server);
    wait_until("its copies are gone", || near.peek("a").is_none()).await;
    // The slots of the lost node go to another one, which has none of its keys.
    let heir = &nodes.clients[0];
    let heir_id: String = redis::from_redis_value(heir.run(&["CLUSTER", "MYID"]).await).unwrap();
    let (first, last) = RANGES[lost];
    for client in &nodes.clients {
        let _ = client.try_run(&["CLUSTER", "FORGET", &id]).await;
    }
    for slot in first..=last {
        let slot = slot.to_string();
        let _ = heir.try_run(&["CLUSTER", "ADDSLOTS", &slot]).await;
    }
    heir.run(&["CLUSTER", "BUMPEPOCH"]).await;
    assert!(!heir_id.is_empty());
    settled(&near, "a", None).await;
    near.set("a", &"new".to_owned()).await.unwrap();
    settled(&near, "a", Some("new")).await;
}

//! Simulation: what the server's own map and registrations come to for so many nodes. Counts, no
//! times.

use cellar_cluster::list::NodeList;
use cellar_cluster::map::Owners;
use cellar_cluster::node::Node;
use cellar_cluster::registration::{KeyValue, PrefixSnapshot, RegisteredNodes, Registration};
use cellar_cluster::slot::SLOTS;
use cellar_cluster::table::SlotTable;
use cellar_config::settings::address::Address;
use cellar_config::settings::announced::Announced;
use cellar_load::Error;
use cellar_protocol::resp::Proto;
use serde::Serialize;
use serde_json::json;

/// Nodes that share what may fail at once: every third.
const RACKS: usize = 3;
/// Weights of mixed nodes, in turn.
const MIXED: [u32; 4] = [1, 2, 1, 4];

/// What so many nodes come to: means over several clusters, but for the largest shares.
#[derive(Debug, Default, Serialize)]
pub(super) struct Simulated {
    nodes: usize,
    is_mixed: bool,
    /// The largest share over what its weight entitles it to.
    largest: f64,
    /// The most that a share may be, for whole slots: of the node that this allows most.
    bound: f64,
    comes: Move,
    goes: Move,
    doubles: Move,
    rack: Move,
    /// The largest share when a rack is lost.
    rack_largest: f64,
    rack_bound: f64,
    /// Nodes that lose slots when one comes, each of which tells near caches.
    losers: f64,
    /// Bytes of CLUSTER SLOTS.
    slots_bytes: usize,
    /// What it takes of etcd until all follow the list that one more has made.
    agreement: Agreement,
}

/// Slots that have another node after a change.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Move {
    /// What the change itself is about, as a part of all slots: what a node gains that comes, what
    /// those had that go, by how much a share grows.
    own: f64,
    /// All that moved, as a part of all slots.
    moved: f64,
}

/// What it takes of etcd until all nodes follow one list.
#[derive(Debug, Default, Serialize)]
struct Agreement {
    /// Looks of all nodes at all registrations, if whatever happens at once is looked at once.
    looks: usize,
    /// The same if each node looks anew at every single change.
    looks_most: usize,
    /// Registrations that are stored.
    stores: usize,
    /// Changes that watchers are told of.
    told: usize,
    /// Bytes of one look's answer.
    look_bytes: usize,
    /// Bytes of one change as a watcher is told of it.
    told_bytes: usize,
    /// Answers of etcd that wait for one another.
    steps: usize,
}

/// What so many nodes come to.
pub(super) fn simulate(nodes: usize, is_mixed: bool, clusters: usize) -> Result<Simulated, Error> {
    let all = crate::race::all_at_once(0..clusters, |cluster| one(cluster, nodes, is_mixed));
    let all = all.into_iter().collect::<Result<Vec<_>, String>>();
    let all = all.map_err(|error| Error::Wrong(format!("a list of {nodes} nodes: {error}")))?;
    let mut sum = Simulated {
        nodes,
        is_mixed,
        ..Simulated::default()
    };
    for it in all {
        for (sum, it) in [
            (&mut sum.comes, it.comes),
            (&mut sum.goes, it.goes),
            (&mut sum.doubles, it.doubles),
            (&mut sum.rack, it.rack),
        ] {
            sum.own += it.own / clusters as f64;
            sum.moved += it.moved / clusters as f64;
        }
        sum.losers += it.losers / clusters as f64;
        for (most, it) in [
            (&mut sum.largest, it.largest),
            (&mut sum.bound, it.bound),
            (&mut sum.rack_largest, it.rack_largest),
            (&mut sum.rack_bound, it.rack_bound),
        ] {
            *most = most.max(it);
        }
        (sum.slots_bytes, sum.agreement) = (it.slots_bytes, it.agreement);
    }
    Ok(sum)
}

/// One cluster, whose nodes have names of their own.
fn one(cluster: usize, nodes: usize, is_mixed: bool) -> Result<Simulated, String> {
    let weight = |place: usize| {
        if is_mixed {
            MIXED[place % MIXED.len()]
        } else {
            1
        }
    };
    let all: Vec<Node> = (0..nodes)
        .map(|place| node(cluster, place, weight(place)))
        .collect();
    let (first, last, middle) = (&all[0].name, &all[nodes - 1].name, &all[nodes / 2].name);
    let mut heavier = all.clone();
    heavier[nodes / 2].weight *= 2;
    let rest: Vec<Node> = (0..nodes)
        .filter(|place| place % RACKS != 0)
        .map(|place| all[place].clone())
        .collect();
    let map = Map::of(&all)?;
    let (before, after) = (Map::of(&all[..nodes - 1])?, Map::of(&all[1..])?);
    let (heavier, rest) = (Map::of(&heavier)?, Map::of(&rest)?);
    let mut losers: Vec<u16> = before
        .moved_to(&map)
        .map(|slot| before.owners.node(slot))
        .collect();
    losers.sort_unstable();
    losers.dedup();
    let of_rack = map.slots(|name| rest.list.find(name).is_none());
    let grown = heavier.share(middle).saturating_sub(map.share(middle));
    let ((largest, bound), (rack_largest, rack_bound)) = (map.largest(), rest.largest());
    let slots = SlotTable::of(map.list.clone(), last, 1);
    Ok(Simulated {
        largest,
        bound,
        comes: before.turned_to(&map, map.share(last)),
        goes: map.turned_to(&after, map.share(first)),
        doubles: map.turned_to(&heavier, grown),
        rack: map.turned_to(&rest, of_rack),
        rack_largest,
        rack_bound,
        losers: losers.len() as f64,
        slots_bytes: slots.slots(Proto::V3, false).len(),
        agreement: agree(&all)?,
        ..Simulated::default()
    })
}

fn node(cluster: usize, place: usize, weight: u32) -> Node {
    let address = |port| {
        let host = format!("10.{cluster}.{}.{}", place / 250, place % 250 + 1);
        Address::parse_all(&format!("{host}:{port}"))
    };
    Node {
        name: format!("cellar-{cluster}-{place}"),
        weight,
        announced: Announced {
            resp: address(6379).unwrap_or_default(),
            memcached: address(11211).unwrap_or_default(),
            http: address(8080).unwrap_or_default(),
        },
    }
}

/// A map with its list.
struct Map {
    list: NodeList,
    owners: Owners,
}

impl Map {
    fn of(nodes: &[Node]) -> Result<Map, String> {
        let list = NodeList::of(nodes.to_vec())?;
        let owners = Owners::of(&list);
        Ok(Map { list, owners })
    }

    fn name(&self, slot: u16) -> &str {
        &self.list.nodes()[usize::from(self.owners.node(slot))].name
    }

    /// The slots that another map gives to another node.
    fn moved_to<'m>(&'m self, other: &'m Map) -> impl Iterator<Item = u16> + 'm {
        (0..SLOTS).filter(|slot| self.name(*slot) != other.name(*slot))
    }

    /// What moves by the change to another map, which is about so many slots.
    fn turned_to(&self, other: &Map, own: usize) -> Move {
        let part = |slots: usize| slots as f64 / f64::from(SLOTS);
        Move {
            own: part(own),
            moved: part(self.moved_to(other).count()),
        }
    }

    /// How many slots the nodes of such names have.
    fn slots(&self, is_in: impl Fn(&str) -> bool) -> usize {
        (0..SLOTS).filter(|slot| is_in(self.name(*slot))).count()
    }

    fn share(&self, name: &str) -> usize {
        self.slots(|other| other == name)
    }

    /// The largest share over what its node's weight entitles it to, and the most that any may be:
    /// 1.05 times that, or the next whole number of slots.
    fn largest(&self) -> (f64, f64) {
        let nodes = self.list.nodes();
        let total: f64 = nodes.iter().map(|node| f64::from(node.weight)).sum();
        let mut shares = vec![0.0_f64; nodes.len()];
        (0..SLOTS).for_each(|slot| shares[usize::from(self.owners.node(slot))] += 1.0);
        let (mut largest, mut bound) = (0.0_f64, 0.0_f64);
        for (share, node) in shares.iter().zip(nodes) {
            let entitled = f64::from(SLOTS) * f64::from(node.weight) / total;
            largest = largest.max(share / entitled);
            bound = bound.max((entitled.ceil() / entitled).max(1.05));
        }
        (largest, bound)
    }
}

/// Has nodes agree that followed a list without the last one, as it has registered.
fn agree(nodes: &[Node]) -> Result<Agreement, String> {
    let count = nodes.len();
    let record = |node: &Node, follows: &str| {
        let mut record = Registration::of(node, 1_700_000_000);
        follows.clone_into(&mut record.follows);
        record.bytes()
    };
    let old = "0".repeat(40);
    let mut entries: Vec<KeyValue> = (1..)
        .zip(nodes)
        .map(|(created, node)| KeyValue {
            name: node.name.clone(),
            value: record(node, if created as usize == count { "" } else { &old }),
            created,
            changed: created,
        })
        .collect();
    // The newcomer has looked whether it fits, and registered, and everybody was told.
    let mut took = Agreement {
        looks: 1,
        looks_most: 1,
        stores: 1,
        told: count,
        steps: 3,
        ..Agreement::default()
    };
    loop {
        let snapshot = PrefixSnapshot {
            revision: 1_000_000,
            entries,
        };
        let registered = RegisteredNodes::of(&snapshot)?;
        took.steps += 1;
        took.looks += count;
        entries = snapshot.entries;
        if registered.is_agreed {
            break;
        }
        // Each stores that it follows, looks again, and is told of what the others have stored.
        for (entry, node) in entries.iter_mut().zip(nodes) {
            entry.value = record(node, &registered.digest);
        }
        took.steps += 1;
        took.stores += count;
        took.told += count * count;
    }
    // All looks that were told late are one.
    took.looks += count;
    took.looks_most += count * (took.stores + 1);
    let stored: Vec<_> = entries.iter().map(stored).collect();
    took.look_bytes = json!({"header": header(), "kvs": stored, "count": count.to_string()})
        .to_string()
        .len();
    let change = json!({"kv": stored.first()});
    took.told_bytes = json!({"result": {"header": header(), "events": [change]}})
        .to_string()
        .len();
    Ok(took)
}

/// A registration as etcd's gateway writes it.
fn stored(entry: &KeyValue) -> serde_json::Value {
    // Three bytes are four letters of base64.
    let letters = |bytes: usize| "A".repeat(bytes.div_ceil(3) * 4);
    json!({
        "key": letters("/cellar/cellar/".len() + entry.name.len()),
        "create_revision": (1_000_000 + entry.created).to_string(),
        "mod_revision": (1_000_000 + entry.changed).to_string(),
        "version": "2",
        "value": letters(entry.value.len()),
        "lease": i64::MAX.to_string(),
    })
}

fn header() -> serde_json::Value {
    let number = u64::MAX.to_string();
    json!({"cluster_id": number, "member_id": number, "revision": "1000000", "raft_term": "2"})
}

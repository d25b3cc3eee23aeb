//! Registration: what a node registers of itself, how all registered are one list, and how often a
//! node says and looks.

use std::fmt::Write;
use std::time::Duration;

use cellar_config::protocol::ByProtocol;
use cellar_config::settings::address::Address;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use super::list::NodeList;
use super::node::Node;

/// Number of renewals in the length of a lease.
pub const RENEWALS: u64 = 3;
/// The divisor for the part of a lease that a node does not use at its end.
pub const MARGIN: u64 = 6;
/// How often a node reads the registrations when no event triggers that.
pub const LOOK: Duration = Duration::from_secs(10);

/// A registered value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key after the prefix.
    pub name: String,
    /// A [`Registration`] as it is stored.
    pub value: Vec<u8>,
    /// The revision in which the key was created, unique among keys.
    pub created: i64,
    /// Which change was its last.
    pub changed: i64,
}

/// All keys of a prefix at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixSnapshot {
    /// The revision of etcd's last change before it.
    pub revision: i64,
    /// The keys.
    pub entries: Vec<KeyValue>,
}

/// The registration of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    weight: u32,
    /// Addresses as `--resp` and the others write them.
    #[serde(flatten)]
    addresses: ByProtocol<String>,
    /// The time of registration, in seconds of Unix time; informative only.
    since_s: u64,
    /// The digest of the list that it follows, see [`RegisteredNodes::digest`]; empty if none yet.
    pub follows: String,
}

impl Registration {
    /// The record of a node that follows no list yet.
    #[must_use]
    pub fn of(node: &Node, since_s: u64) -> Registration {
        Registration {
            weight: node.weight,
            addresses: node.announced.map(|all| Address::show_all(all)),
            since_s,
            follows: String::new(),
        }
    }

    /// The same as it is stored.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn node(&self, name: &str) -> Result<Node, String> {
        Ok(Node {
            name: name.to_owned(),
            weight: self.weight,
            announced: ByProtocol::try_from_fn(|protocol| {
                Address::parse_all(self.addresses.of(protocol))
            })?,
        })
    }
}

/// The registrations at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredNodes {
    /// The nodes.
    pub list: NodeList,
    /// Identifies the list: each name with the revision that created its key. A node that registers
    /// again makes another list.
    pub digest: String,
    /// Whether all of them follow exactly this list.
    pub is_agreed: bool,
}

impl RegisteredNodes {
    /// Parses the registrations of a snapshot.
    ///
    /// # Errors
    /// A message if they form no list. One invalid registration makes all of it invalid, because
    /// other nodes may understand it differently.
    pub fn of(snapshot: &PrefixSnapshot) -> Result<RegisteredNodes, String> {
        let (mut nodes, mut records, mut text) = (Vec::new(), Vec::new(), String::new());
        for entry in &snapshot.entries {
            let named = |reason: String| {
                format!("the registration of {} is not valid: {reason}", entry.name)
            };
            let record = serde_json::from_slice::<Registration>(&entry.value);
            let record = record.map_err(|error| named(error.to_string()))?;
            nodes.push(record.node(&entry.name).map_err(named)?);
            records.push(record);
            // Writing to a string does not fail. No name has a space.
            let _ = writeln!(text, "{} {}", entry.name, entry.created);
        }
        let list = NodeList::of(nodes)?;
        let mut digest = String::new();
        for byte in Sha1::digest(text.as_bytes()) {
            let _ = write!(digest, "{byte:02x}");
        }
        let is_agreed = records.iter().all(|record| record.follows == digest);
        Ok(RegisteredNodes {
            list,
            digest,
            is_agreed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, created: i64, follows: &str) -> KeyValue {
        let announced = ByProtocol {
            resp: Address::parse_all(&format!("{name}:1,tls:{name}:2")).unwrap(),
            ..ByProtocol::default()
        };
        let node = Node {
            name: name.to_owned(),
            weight: 3,
            announced,
        };
        let record = Registration {
            follows: follows.to_owned(),
            ..Registration::of(&node, 1)
        };
        KeyValue {
            name: name.to_owned(),
            value: record.bytes(),
            created,
            changed: created,
        }
    }

    fn snapshot(entries: &[(&str, i64)], follows: &str) -> PrefixSnapshot {
        let entries = entries.iter();
        PrefixSnapshot {
            revision: 9,
            entries: entries
                .map(|(name, at)| entry(name, *at, follows))
                .collect(),
        }
    }

    #[test]
    fn a_list_is_agreed_when_all_follow_this_very_one() {
        let nodes = [("a", 1), ("b", 2)];
        let first = RegisteredNodes::of(&snapshot(&nodes, "")).unwrap();
        assert!(!first.is_agreed);
        assert_eq!(first.list.nodes()[0].announced.resp.len(), 2);
        assert_eq!(first.list.nodes()[1].weight, 3);
        let all = RegisteredNodes::of(&snapshot(&nodes, &first.digest)).unwrap();
        assert!(all.is_agreed);
        let mut some = snapshot(&nodes, &first.digest);
        some.entries[1] = entry("b", 2, "");
        assert!(!RegisteredNodes::of(&some).unwrap().is_agreed);
        // The second one has registered again, and announces no list yet.
        let again = snapshot(&[("a", 1), ("b", 3)], &first.digest);
        let again = RegisteredNodes::of(&again).unwrap();
        assert!(!again.is_agreed && again.digest != first.digest && again.list == first.list);
    }

    #[test]
    fn what_is_no_list_is_told() {
        let mut odd = snapshot(&[("a", 1)], "");
        odd.entries[0].value = b"{}".to_vec();
        assert!(
            RegisteredNodes::of(&odd)
                .unwrap_err()
                .contains("the registration of a is not valid")
        );
        assert!(RegisteredNodes::of(&PrefixSnapshot::default()).is_err());
    }
}

//! List: the nodes of a cluster, and how a file names them.
//!
//! A line is a node: its name, then `protocol=address` for each protocol that it speaks, and
//! `weight=N` if it is not 1. Text after `#` is a comment.
//!
//! ```text
//! alpha  resp=10.0.0.1:6379,tls:10.0.0.1:6380  memcached=10.0.0.1:11211  http=10.0.0.1:8080
//! beta   resp=10.0.0.2:6379  weight=2
//! ```

use cellar_config::protocol::Protocol;
use cellar_config::settings::address::Address;
use cellar_config::settings::announced::Announced;
use cellar_config::settings::source::check_node_name;

use super::node::{Node, check_weight};

/// Most nodes of a cluster.
pub const NODES_MAX: usize = 1_000;

/// Nodes that can form a cluster: at least one, with unique names and reachable addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeList {
    /// By name.
    nodes: Vec<Node>,
}

impl NodeList {
    /// Creates a list of these nodes, in any order.
    ///
    /// # Errors
    /// A message if they form no cluster.
    pub fn of(mut nodes: Vec<Node>) -> Result<NodeList, String> {
        if nodes.is_empty() {
            return Err("the list has no nodes".to_owned());
        }
        if nodes.len() > NODES_MAX {
            return Err(format!(
                "{} nodes; at most {NODES_MAX} are possible",
                nodes.len()
            ));
        }
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        for node in &nodes {
            check(node).map_err(|reason| format!("node {}: {reason}", node.name))?;
        }
        if let Some(twice) = nodes.windows(2).find(|two| two[0].name == two[1].name) {
            return Err(format!("two nodes have the name {}", twice[0].name));
        }
        check_addresses(&nodes)?;
        Ok(NodeList { nodes })
    }

    /// The list that a file has.
    ///
    /// # Errors
    /// The line that is wrong, or why the nodes form no cluster.
    pub fn parse(text: &str) -> Result<NodeList, String> {
        let mut nodes = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let node = parse_node(line);
            nodes.push(node.map_err(|reason| format!("line {}: {reason}", index + 1))?);
        }
        NodeList::of(nodes)
    }

    /// The nodes, by name.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The index of the node with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        let found = self
            .nodes
            .binary_search_by(|node| node.name.as_str().cmp(name));
        found.ok()
    }
}

fn check(node: &Node) -> Result<(), String> {
    check_node_name(&node.name)?;
    check_weight(node.weight.into())?;
    if node.announced.is_empty() {
        return Err("it has no address".to_owned());
    }
    node.announced.check()
}

/// Checks that no address is that of two nodes.
fn check_addresses(nodes: &[Node]) -> Result<(), String> {
    let mut all: Vec<(String, &str)> = Vec::new();
    for node in nodes {
        let addresses = node.announced.values().flatten();
        let places = addresses.filter_map(Address::host_and_port);
        all.extend(places.map(|(host, port)| (format!("{host}:{port}"), &*node.name)));
    }
    all.sort();
    let twice = all.windows(2).find(|two| two[0].0 == two[1].0);
    twice.map_or(Ok(()), |two| {
        Err(format!(
            "{} is the address of both {} and {}",
            two[0].0, two[0].1, two[1].1
        ))
    })
}

fn parse_node(line: &str) -> Result<Node, String> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default().to_owned();
    check_node_name(&name)?;
    let (mut weight, mut announced) = (1, Announced::default());
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| unknown(word))?;
        if key == "weight" {
            let number = value
                .parse()
                .map_err(|_| format!("{value:?} is not a weight"))?;
            weight = check_weight(number)?;
            continue;
        }
        let protocol = Protocol::named(key).ok_or_else(|| unknown(word))?;
        if !announced.of(protocol).is_empty() {
            return Err(format!("{key} appears twice"));
        }
        *announced.of_mut(protocol) = Address::parse_all(value)?;
    }
    Ok(Node {
        name,
        weight,
        announced,
    })
}

fn unknown(word: &str) -> String {
    format!("{word:?} is unknown; write resp=, memcached= or http= with an address, or weight=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_nodes_their_addresses_and_weights() {
        let text = "# who is there\n\
                    beta resp=10.0.0.2:6379 weight=2 # the large one\n\n\
                    \talpha\tresp=h:1,tls:h:2 memcached=h:3 http=h:4\n";
        let list = NodeList::parse(text).unwrap();
        let names: Vec<_> = list.nodes().iter().map(|node| &*node.name).collect();
        assert_eq!(names, ["alpha", "beta"]);
        assert_eq!(list.find("beta"), Some(1));
        assert_eq!(list.find("gamma"), None);
        assert_eq!(list.nodes()[1].weight, 2);
        assert_eq!(list.nodes()[0].announced.resp.len(), 2);
    }

    #[test]
    fn what_forms_no_cluster_is_told_in_one_line() {
        for (text, reason) in [
            ("", "the list has no nodes"),
            ("# nobody\n", "the list has no nodes"),
            ("a resp=h:1\na resp=h:2", "two nodes have the name a"),
            (
                "a resp=h:1\nb resp=h:1",
                "h:1 is the address of both a and b",
            ),
            (
                "a resp=h:1 memcached=h:1",
                "h:1 is the address of both a and a",
            ),
            (
                "a resp=h:1 weight=0",
                "line 1: a weight is a number from 1 to 10000, not 0",
            ),
            ("a resp=h:1 weight=-1", "line 1: \"-1\" is not a weight"),
            ("a", "node a: it has no address"),
            (
                "\na resp=0.0.0.0:1",
                "node a: 0.0.0.0:1 is not a specific address: clients cannot \
                                   connect to it",
            ),
            (
                "a resp=unix:/s",
                "node a: unix:/s is not an address that clients can reach",
            ),
            ("a resp=h:1 resp=h:2", "line 1: resp appears twice"),
            (
                "a redis=h:1",
                "line 1: \"redis=h:1\" is unknown; write resp=, memcached= or http= \
                 with an address, or weight=",
            ),
            (
                "a b",
                "line 1: \"b\" is unknown; write resp=, memcached= or http= with an \
                 address, or weight=",
            ),
            (
                "a/b resp=h:1",
                "line 1: \"a/b\" is not a node name: 1 to 64 letters, digits and \
                              . _ - :",
            ),
        ] {
            assert_eq!(NodeList::parse(text).unwrap_err(), reason, "{text:?}");
        }
        let many: String = (0..=NODES_MAX)
            .map(|n| format!("n{n} resp=h{n}:1\n"))
            .collect();
        let error = NodeList::parse(&many).unwrap_err();
        assert_eq!(error, "1001 nodes; at most 1000 are possible");
    }
}

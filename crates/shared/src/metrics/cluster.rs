//! Cluster: Prometheus metrics of this node's state in a cluster.
//!
//! A server without a cluster shows the families without a sample, except those that alerts read.

use std::sync::atomic::{AtomicU64, Ordering};

use cellar_cluster::Cluster;
use cellar_cluster::ownership::ClusterCounts;

use super::facts::Facts;
use super::text::{Family, MetricType, Samples};

/// The families.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "cellar_cluster_nodes",
        kind: MetricType::Gauge,
        labels: "",
        help: "Nodes in the current map of the cluster.",
        write: |facts, samples| {
            one(facts, samples, |cluster| {
                let table = cluster.table();
                table.map_or(0, |table| table.list.nodes().len() as u64)
            });
        },
    },
    Family {
        name: "cellar_cluster_slots_served",
        kind: MetricType::Gauge,
        labels: "",
        help: "Slots that this node serves, of 16384.",
        write: |facts, samples| one(facts, samples, |cluster| cluster.served().into()),
    },
    Family {
        name: "cellar_cluster_slots_unswept",
        kind: MetricType::Gauge,
        labels: "",
        help: "Lost slots whose items are not yet deleted.",
        write: |facts, samples| count(facts, samples, |counts| &counts.unswept),
    },
    Family {
        name: "cellar_cluster_map_timestamp_seconds",
        kind: MetricType::Gauge,
        labels: "",
        help: "Version of the current map: the Unix time in seconds since which this node uses it.",
        write: |facts, samples| {
            one(facts, samples, |cluster| {
                cluster.table().map_or(0, |table| table.version)
            });
        },
    },
    Family {
        name: "cellar_cluster_moved_total",
        kind: MetricType::Count,
        labels: "",
        help: "Requests redirected to another node, or refused because another node owns the key.",
        write: |facts, samples| count(facts, samples, |counts| &counts.moved),
    },
    Family {
        name: "cellar_cluster_down_total",
        kind: MetricType::Count,
        labels: "",
        help: "Requests for slots that no node served.",
        write: |facts, samples| count(facts, samples, |counts| &counts.down),
    },
    Family {
        name: "cellar_cluster_dropped_items_total",
        kind: MetricType::Count,
        labels: "",
        help: "Items deleted because this node had lost their slots.",
        write: |facts, samples| count(facts, samples, |counts| &counts.dropped),
    },
    Family {
        name: "cellar_cluster_lease_left_seconds",
        kind: MetricType::Gauge,
        labels: "",
        help: "Remaining time of the lease in etcd; at 0 the node serves nothing.",
        write: |facts, samples| {
            let cluster = facts.state.cluster.as_ref();
            if let Some(left_ms) = cluster.and_then(|cluster| cluster.lease_left_ms()) {
                samples.one(left_ms as f64 / 1_000.0);
            }
        },
    },
    Family {
        name: "cellar_cluster_lease_is_over",
        kind: MetricType::Gauge,
        labels: "",
        help: "1 if this node has no valid lease and serves nothing, or else 0.",
        write: |facts, samples| {
            let cluster = facts.state.cluster.as_ref();
            let is_over = cluster.is_some_and(|cluster| !cluster.is_leased());
            samples.one(u64::from(is_over));
        },
    },
    Family {
        name: "cellar_cluster_lost_leases_total",
        kind: MetricType::Count,
        labels: "",
        help: "Leases that expired in etcd while this node ran; it deleted all its items.",
        write: |facts, samples| count(facts, samples, |counts| &counts.lost_leases),
    },
    Family {
        name: "cellar_cluster_list_is_bad",
        kind: MetricType::Gauge,
        labels: "",
        help: "1 if the last list of nodes is not valid and the previous map is in use, or else 0.",
        write: |facts, samples| {
            let cluster = facts.state.cluster.as_ref();
            // Relaxed: only reported.
            let is_bad = cluster.map(|cluster| cluster.counts.is_bad.load(Ordering::Relaxed));
            samples.one(is_bad.unwrap_or(0));
        },
    },
    Family {
        name: "cellar_cluster_bad_lists_total",
        kind: MetricType::Count,
        labels: "",
        help: "Invalid lists of nodes.",
        write: |facts, samples| count(facts, samples, |counts| &counts.bad_lists),
    },
];

fn one(facts: &Facts<'_>, samples: &mut Samples<'_>, figure: impl Fn(&Cluster) -> u64) {
    if let Some(cluster) = &facts.state.cluster {
        samples.one(figure(cluster));
    }
}

fn count(
    facts: &Facts<'_>,
    samples: &mut Samples<'_>,
    figure: impl Fn(&ClusterCounts) -> &AtomicU64,
) {
    // Relaxed: only reported.
    one(facts, samples, |cluster| {
        figure(&cluster.counts).load(Ordering::Relaxed)
    });
}

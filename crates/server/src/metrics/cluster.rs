//! Cluster: what Prometheus is shown of this node's part in a cluster.
//!
//! A server that is alone shows the families without a sample, but for what alerts read.

use std::sync::atomic::{AtomicU64, Ordering};

use super::facts::Facts;
use super::text::{Family, MetricType, Samples};
use crate::cluster::Cluster;
use crate::cluster::ownership::ClusterCounts;

/// The families.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "cellar_cluster_nodes",
        kind: MetricType::Gauge,
        labels: "",
        help: "Nodes in the map of the cluster that is in force.",
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
        help: "Slots that this node has lost and may still hold items of.",
        write: |facts, samples| count(facts, samples, |counts| &counts.unswept),
    },
    Family {
        name: "cellar_cluster_map_version",
        kind: MetricType::Gauge,
        labels: "",
        help: "The map in force, by the Unix second since which this node follows it.",
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
        help: "Requests whose clients were sent to another node, or refused as its.",
        write: |facts, samples| count(facts, samples, |counts| &counts.moved),
    },
    Family {
        name: "cellar_cluster_down_total",
        kind: MetricType::Count,
        labels: "",
        help: "Requests for slots that nobody served, as far as this node knew.",
        write: |facts, samples| count(facts, samples, |counts| &counts.down),
    },
    Family {
        name: "cellar_cluster_dropped_items_total",
        kind: MetricType::Count,
        labels: "",
        help: "Items that were dropped because this node had lost their slots.",
        write: |facts, samples| count(facts, samples, |counts| &counts.dropped),
    },
    Family {
        name: "cellar_cluster_lease_left_seconds",
        kind: MetricType::Gauge,
        labels: "",
        help: "How long this node may go on without hearing of etcd; at 0 it serves nothing.",
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
        help: "Whether this node needs a lease and holds none, so that it serves nothing: 1, or 0.",
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
        help: "Leases that ended at etcd while this node lived: it dropped all its items.",
        write: |facts, samples| count(facts, samples, |counts| &counts.lost_leases),
    },
    Family {
        name: "cellar_cluster_list_is_bad",
        kind: MetricType::Gauge,
        labels: "",
        help: "Whether the last list of nodes could not be used, so that the map before it is in \
               force: 1, or 0.",
        write: |facts, samples| {
            let cluster = facts.state.cluster.as_ref();
            // Relaxed: a figure to look at.
            let is_bad = cluster.map(|cluster| cluster.counts.is_bad.load(Ordering::Relaxed));
            samples.one(is_bad.unwrap_or(0));
        },
    },
    Family {
        name: "cellar_cluster_bad_lists_total",
        kind: MetricType::Count,
        labels: "",
        help: "Lists of nodes that could not be used.",
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
    // Relaxed: a figure to look at.
    one(facts, samples, |cluster| {
        figure(&cluster.counts).load(Ordering::Relaxed)
    });
}

//! Cluster: the settings of a cluster node.
//!
//! Why: docs/decisions/0057. Tests: those of `table.rs`; server/tests/startup_errors.rs.

use super::put;
use crate::settings::row::Row;
use crate::settings::source::ListSource;
use crate::settings::units::show_duration_ms;
use crate::settings::values::{
    announced, etcd_user, lease, node_name, number, path, show_announced, show_path,
};

pub(super) const CLUSTER: Row = Row {
    name: "cluster",
    parameter: None,
    value: "SOURCE|off",
    default: "off",
    help: "Makes this server a node of a cluster with the slots of Redis Cluster. Each key \
           has one owner. There is one database unless --databases says more. \
           etcd:http://HOST:2379,http://HOST:2379/CLUSTER registers nodes with leases, so \
           that no key ever has two owners. dns:NAME uses the addresses of a name with this \
           node's ports, resolved each second. dns:_redis._tcp.NAME uses its SRV records with \
           their ports. file:PATH reads a file when it changes: each line has a node's name, \
           resp=ADDR memcached=ADDR http=ADDR for its clients (,tls:ADDR for clients over \
           TLS), and weight=N. See docs/guide/many-machines.md.",
    set: |s, v| put(&mut s.cluster, ListSource::parse(v)),
    show: |s| ListSource::show(s.cluster.as_ref()),
};

pub(super) const NODE: Row = Row {
    name: "node",
    parameter: None,
    value: "NAME",
    default: "none",
    help: "Name of this node in the cluster. It determines the node's slots and id. With dns:NAME \
           it is the node's address, with SRV records HOST:PORT.",
    set: |s, v| put(&mut s.node, node_name(v)),
    show: |s| {
        if s.node.is_empty() {
            "none".to_owned()
        } else {
            s.node.clone()
        }
    },
};

pub(super) const NODE_WEIGHT: Row = Row {
    name: "node-weight",
    parameter: None,
    value: "N",
    default: "1",
    help: "Share of this node relative to the others, 1 to 10000, with nodes in etcd.",
    set: |s, v| put(&mut s.node_weight, number(v, 1, 10_000).map(|n| n as u32)),
    show: |s| s.node_weight.to_string(),
};

pub(super) const ANNOUNCE_RESP: Row = Row {
    name: "announce-resp",
    parameter: None,
    value: "ADDR,...|listen",
    default: "listen",
    help: "Address for clients of the Redis protocol, if it differs from the listen address: \
           behind NAT, in a container, or for 0.0.0.0. One host:port, and one tls:host:port for \
           clients over TLS.",
    set: |s, v| put(&mut s.announces.resp, announced(v)),
    show: |s| show_announced(&s.announces.resp),
};

pub(super) const ANNOUNCE_MEMCACHED: Row = Row {
    name: "announce-memcached",
    parameter: None,
    value: "ADDR,...|listen",
    default: "listen",
    help: "The same for the memcached protocol.",
    set: |s, v| put(&mut s.announces.memcached, announced(v)),
    show: |s| show_announced(&s.announces.memcached),
};

pub(super) const ANNOUNCE_HTTP: Row = Row {
    name: "announce-http",
    parameter: None,
    value: "ADDR,...|listen",
    default: "listen",
    help: "The same for HTTP.",
    set: |s, v| put(&mut s.announces.http, announced(v)),
    show: |s| show_announced(&s.announces.http),
};

pub(super) const CLUSTER_LEASE: Row = Row {
    name: "cluster-lease",
    parameter: None,
    value: "DURATION",
    default: "3s",
    help: "How long etcd keeps the registration of a silent node, 2s to 60s. After a crash the \
           keys of a node are not served for this time and up to 2 s more. The node itself stops \
           after five sixths of it.",
    set: |s, v| put(&mut s.cluster_lease_ms, lease(v)),
    show: |s| show_duration_ms(s.cluster_lease_ms),
};

pub(super) const CLUSTER_CA: Row = Row {
    name: "cluster-ca",
    parameter: None,
    value: "FILE|off",
    default: "off",
    help: "Certificate authority of etcd's certificates, in PEM, for https: members.",
    set: |s, v| put(&mut s.cluster_ca, path(v)),
    show: |s| show_path(s.cluster_ca.as_deref()),
};

pub(super) const CLUSTER_CERT: Row = Row {
    name: "cluster-cert",
    parameter: None,
    value: "FILE|off",
    default: "off",
    help: "Client certificate for etcd, in PEM.",
    set: |s, v| put(&mut s.cluster_cert, path(v)),
    show: |s| show_path(s.cluster_cert.as_deref()),
};

pub(super) const CLUSTER_KEY: Row = Row {
    name: "cluster-key",
    parameter: None,
    value: "FILE|off",
    default: "off",
    help: "Private key of the client certificate for etcd, in PEM.",
    set: |s, v| put(&mut s.cluster_key, path(v)),
    show: |s| show_path(s.cluster_key.as_deref()),
};

pub(super) const CLUSTER_USER: Row = Row {
    name: "cluster-user",
    parameter: None,
    value: "NAME|off",
    default: "off",
    help: "User name for etcd. A role of the user must be able to read and write the prefix \
           /cellar/CLUSTER/.",
    set: |s, v| put(&mut s.cluster_user, etcd_user(v)),
    show: |s| s.cluster_user.clone().unwrap_or_else(|| "off".to_owned()),
};

pub(super) const CLUSTER_PASSWORD_FILE: Row = Row {
    name: "cluster-password-file",
    parameter: None,
    value: "FILE|off",
    default: "off",
    help: "File whose first line is the password for etcd. The server reads it for each login.",
    set: |s, v| put(&mut s.cluster_password_file, path(v)),
    show: |s| show_path(s.cluster_password_file.as_deref()),
};

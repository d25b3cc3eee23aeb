//! Elsewhere: the reply for a key that another node of the cluster owns.
//!
//! A read is a miss, whatever it would change besides. All else is refused with the owner's
//! address, `SERVER_ERROR moved 10.0.0.2:11211`, or with the binary protocol's status for it: a
//! store accepted here would be a second copy, and a delete accepted here would leave the first.
//!
//! Page: docs/guide/many-machines.md. Tests: server/tests/cluster.rs.

use std::sync::atomic::Ordering;

use cellar_cluster::slot::slot_of;
use cellar_net::output::Output;
use cellar_protocol::memcached::binary::{
    Asks, Packet, PacketHead, PacketStatus, reply as packets,
};
use cellar_protocol::memcached::reply::{self, Code};
use cellar_protocol::memcached::{Meta, Request};

use super::PROTOCOL;
use crate::context::Context;

/// Answers a request whose key belongs to another node, with a miss or an error; returns whether it
/// did.
#[cold]
pub(super) fn answered(request: &Request<'_>, context: Context<'_>, output: &mut Output) -> bool {
    let (key, noreply) = match request {
        Request::Store(store) => (Some(store.key), store.noreply),
        Request::Delete { noreply, .. }
        | Request::Count { noreply, .. }
        | Request::Touch { noreply, .. } => (request.plain_key(), *noreply),
        Request::MetaGet(meta) | Request::MetaDebug(meta) => {
            return read_elsewhere(meta, context, output);
        }
        Request::MetaSet { meta, .. }
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic { meta, .. } => {
            let mut buffer = [0; cellar_protocol::memcached::KEY_BYTES_MAX];
            return refused(meta.key_bytes(&mut buffer), false, context, output);
        }
        // The keys of reads are checked one by one.
        _ => return false,
    };
    key.is_some_and(|key| refused(key, noreply, context, output))
}

/// Answers a meta read of a key that another node owns.
fn read_elsewhere(meta: &Meta<'_>, context: Context<'_>, output: &mut Output) -> bool {
    let mut buffer = [0; cellar_protocol::memcached::KEY_BYTES_MAX];
    if context.serves(meta.key_bytes(&mut buffer)) {
        return false;
    }
    context.counters.cmd_get.add(1);
    context.counters.get_misses.add(1);
    if !meta.has(b'q') {
        reply::meta_plain(output.bytes(), Code::Miss, meta);
    }
    true
}

/// Refuses a request for a key that another node owns; returns whether it does.
pub(super) fn refused(
    key: &[u8],
    noreply: bool,
    context: Context<'_>,
    output: &mut Output,
) -> bool {
    if context.serves(key) {
        return false;
    }
    let line = line(key, context);
    if !noreply {
        reply::text_line(output.bytes(), &line);
    }
    true
}

/// The refusal's line, counted.
fn line(key: &[u8], context: Context<'_>) -> String {
    const DOWN: &str = "SERVER_ERROR no node serves the key now";
    let Some(cluster) = &context.state.cluster else {
        return DOWN.to_owned();
    };
    let (slot, table) = (slot_of(key), cluster.table());
    let is_elsewhere = |me| me != table.as_ref().map(|table| table.owners.node(slot));
    let Some(table) = table.as_ref().filter(|table| is_elsewhere(table.me)) else {
        // Relaxed: only reported.
        cluster.counts.down.fetch_add(1, Ordering::Relaxed);
        return DOWN.to_owned();
    };
    cluster.counts.moved.fetch_add(1, Ordering::Relaxed);
    match table.elsewhere(slot, PROTOCOL, false) {
        Some(place) => format!("SERVER_ERROR moved {place}"),
        None => "SERVER_ERROR moved".to_owned(),
    }
}

/// config get cluster; without a cluster the reply is memcached's error.
pub(super) fn nodes(context: Context<'_>, output: &mut Output) {
    let Some(cluster) = &context.state.cluster else {
        context.counters.protocol_errors.add(1);
        return reply::text_line(output.bytes(), "ERROR");
    };
    match cluster.table() {
        Some(table) => output.bytes().extend_from_slice(table.config(false)),
        None => reply::text_line(output.bytes(), "SERVER_ERROR no list of nodes yet"),
    }
}

/// Answers a packet whose key belongs to another node, with a miss or an error; returns whether it
/// did.
#[cold]
pub(super) fn answered_packet(
    packet: &Packet<'_>,
    context: Context<'_>,
    output: &mut Output,
) -> bool {
    match (packet.asks, packet.item_key()) {
        (Asks::Get { .. }, _) | (_, None) => false,
        (_, Some(key)) => refused_packet(packet.head, key, context, output),
    }
}

/// Refuses a packet for a key that another node owns; returns whether it does.
pub(super) fn refused_packet(
    head: PacketHead,
    key: &[u8],
    context: Context<'_>,
    output: &mut Output,
) -> bool {
    if context.serves(key) {
        return false;
    }
    line(key, context);
    packets::failed(output.bytes(), head, PacketStatus::NotMine);
    true
}

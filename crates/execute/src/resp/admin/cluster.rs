//! CLUSTER: which node keeps which keys, as cluster clients ask it; READONLY, READWRITE, ASKING.
//!
//! The long answers were written when the map was made. Source:
//! redis.io/docs/latest/commands/?group=cluster; the replies of redis-server 7.

use std::sync::Arc;

use cellar_cluster::Cluster;
use cellar_cluster::node::id_of;
use cellar_cluster::slot::{SLOTS, slot_of};
use cellar_cluster::table::SlotTable;
use cellar_engine::{ScanCursor, Space};
use cellar_net::output::Output;
use cellar_protocol::resp::number::parse_integer;
use cellar_protocol::resp::{Proto, Reply};

use crate::context::Context;
use crate::resp::call::steps::{Progress, Work};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;

/// The error of a server that is not a cluster node.
const DISABLED: Failure = Failure::text("ERR This instance has cluster support disabled");
/// Most keys that CLUSTER GETKEYSINSLOT answers.
const KEYS_MAX: usize = 10_000;

fn cluster<'c>(call: &Call<'c>) -> Result<&'c Cluster, Failure> {
    call.context.state.cluster.as_deref().ok_or(DISABLED)
}

fn table(call: &Call<'_>) -> Result<Option<Arc<SlotTable>>, Failure> {
    Ok(cluster(call)?.table())
}

/// READONLY, READWRITE, ASKING: every node is its slots' only one, so they change nothing.
pub(in crate::resp) fn accepted(call: &mut Call<'_>) -> Outcome {
    cluster(call)?;
    call.ok()
}

/// CLUSTER SLOTS
pub(in crate::resp) fn slots(call: &mut Call<'_>) -> Outcome {
    answer_made(call, SlotTable::slots)
}

/// CLUSTER SHARDS
pub(in crate::resp) fn shards(call: &mut Call<'_>) -> Outcome {
    answer_made(call, SlotTable::shards)
}

/// An answer that was made with the map; without a map nothing is in it.
fn answer_made(
    call: &mut Call<'_>,
    of_map: impl Fn(&SlotTable, Proto, bool) -> &Arc<[u8]>,
) -> Outcome {
    let (proto, is_tls) = (call.session.proto, call.session.client.seat.is_tls);
    match table(call)? {
        None => call.reply().array(0),
        Some(table) => call.output.push_made(of_map(&table, proto, is_tls)),
    }
    DONE
}

/// CLUSTER NODES
pub(in crate::resp) fn nodes(call: &mut Call<'_>) -> Outcome {
    let is_tls = call.session.client.seat.is_tls;
    let table = table(call)?;
    let text = table.as_ref().map_or("", |table| table.nodes(is_tls));
    call.reply().verbatim(text);
    DONE
}

/// CLUSTER MYID
pub(in crate::resp) fn my_id(call: &mut Call<'_>) -> Outcome {
    let id = id_of(&cluster(call)?.name);
    call.reply().bulk(id);
    DONE
}

/// CLUSTER INFO
pub(in crate::resp) fn info(call: &mut Call<'_>) -> Outcome {
    let cluster = cluster(call)?;
    let table = cluster.table();
    let (version, nodes) = table
        .as_ref()
        .map_or((0, 0), |table| (table.version, table.list.nodes().len()));
    let is_whole = cluster.is_whole();
    let assigned = if nodes > 0 { SLOTS } else { 0 };
    let failed = if is_whole { 0 } else { assigned };
    let state = if is_whole { "ok" } else { "fail" };
    let text = format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\n\
         cluster_slots_ok:{}\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:{failed}\r\n\
         cluster_known_nodes:{nodes}\r\ncluster_size:{nodes}\r\n\
         cluster_current_epoch:{version}\r\ncluster_my_epoch:{version}\r\n\
         cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n\
         total_cluster_links_buffer_limit_exceeded:0\r\ncluster_slots_served:{}\r\n",
        assigned - failed,
        cluster.served(),
    );
    call.reply().verbatim(&text);
    DONE
}

/// CLUSTER LINKS: nodes do not talk to each other.
pub(in crate::resp) fn links(call: &mut Call<'_>) -> Outcome {
    cluster(call)?;
    call.reply().array(0);
    DONE
}

/// CLUSTER KEYSLOT: it says nothing about nodes, so any server answers it, as in Valkey.
pub(in crate::resp) fn key_slot(call: &mut Call<'_>) -> Outcome {
    call.integer(slot_of(call.args[2]).into())
}

/// The slot that a command names, or `bad` if the number is not a slot.
fn slot(call: &Call<'_>, bad: Failure) -> Result<u16, Failure> {
    cluster(call)?;
    let number = parse_integer(call.args[2]).ok_or(Failure::NotInteger)?;
    let slot = u16::try_from(number).ok().filter(|slot| *slot < SLOTS);
    slot.ok_or(bad)
}

/// CLUSTER COUNTKEYSINSLOT
pub(in crate::resp) fn count_keys(call: &mut Call<'_>) -> Outcome {
    let slot = slot(call, Failure::text("ERR Invalid slot"))?;
    call.work_in_steps(SlotKeys::of(slot, usize::MAX, call))
}

/// CLUSTER GETKEYSINSLOT
pub(in crate::resp) fn keys(call: &mut Call<'_>) -> Outcome {
    const BAD: Failure = Failure::text("ERR Invalid slot or number of keys");
    cluster(call)?;
    let most = parse_integer(call.args[3]).ok_or(Failure::NotInteger)?;
    let slot = slot(call, BAD)?;
    let most = usize::try_from(most).map_err(|_| BAD)?;
    let mut keys = SlotKeys::of(slot, most.min(KEYS_MAX), call);
    keys.names = Some(Vec::new());
    call.work_in_steps(keys)
}

/// A walk over the cache that looks for the keys of a slot in a database.
struct SlotKeys {
    slot: u16,
    space: Space,
    most: usize,
    found: usize,
    /// The keys, if they are asked for.
    names: Option<Vec<Box<[u8]>>>,
    proto: Proto,
    cursor: ScanCursor,
}

impl SlotKeys {
    fn of(slot: u16, most: usize, call: &Call<'_>) -> SlotKeys {
        SlotKeys {
            slot,
            space: call.space(),
            most,
            found: 0,
            names: None,
            proto: call.session.proto,
            cursor: ScanCursor::START,
        }
    }

    fn answer(&mut self, output: &mut Output) {
        let mut reply = Reply::new(output.bytes(), self.proto);
        let Some(names) = self.names.take() else {
            return reply.integer(i64::try_from(self.found).unwrap_or(i64::MAX));
        };
        reply.array(names.len());
        for name in names {
            reply.bulk(name);
        }
    }
}

/// Stretches of the cache that one step looks through.
const STRETCHES: usize = 8;

impl Work for SlotKeys {
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        for _ in 0..STRETCHES {
            let next = context.cache().keys(self.cursor, |facts| {
                let is_its = facts.space == self.space && slot_of(facts.key) == self.slot;
                if is_its && self.found < self.most {
                    self.found += 1;
                    if let Some(names) = &mut self.names {
                        names.push(facts.key.into());
                    }
                }
            });
            match next {
                Some(cursor) if self.found < self.most => self.cursor = cursor,
                _ => {
                    self.answer(output);
                    return Progress::Last;
                }
            }
        }
        Progress::More
    }
}

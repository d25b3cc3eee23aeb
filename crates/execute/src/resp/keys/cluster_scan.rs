//! Cluster scan: CLUSTERSCAN, which lists the keys of one node after the other.
//!
//! A cursor is `fingerprint-{tag}-place`: the cluster map of the scan, a hash tag of the node's
//! first slot, by which clients find the node, and the position in its scan. The nodes follow in
//! the order of their first slots. Valkey walks slot by slot; here a node walks its keys once,
//! whatever their slots, because they are not ordered by slot.
//!
//! A cursor of another map restarts the scan, since a new node may have been skipped; keys are then
//! returned twice. A cursor from an earlier run of the node's server restarts at the node's first
//! key.
//!
//! Source: valkey.io/commands/clusterscan; the replies of Valkey 9.1.
//! Tests: server/tests/cluster.rs.

use cellar_cluster::slot::{SLOTS, slot_of, tag_of};
use cellar_cluster::table::SlotTable;
use cellar_engine::ScanCursor;
use cellar_protocol::resp::number::parse_integer;

use super::scan::{ScanRequest, answer, part_of};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::slots::check_slot;

const DISABLED: Failure = Failure::text("ERR This instance has cluster support disabled");
const INVALID: Failure = Failure::text("ERR Invalid cursor");
/// Digits of a server's run in a fingerprint.
const RUN_DIGITS: usize = 8;

/// A cursor that a client has sent.
struct ClusterCursor<'a> {
    fingerprint: &'a [u8],
    tag: &'a [u8],
    place: u64,
}

impl<'a> ClusterCursor<'a> {
    /// # Errors
    /// That it is invalid.
    fn parse(text: &'a [u8]) -> Result<ClusterCursor<'a>, Failure> {
        let (fingerprint, rest) = cut(text, b"-{").ok_or(INVALID)?;
        let (tag, place) = cut(rest, b"}-").ok_or(INVALID)?;
        let place = std::str::from_utf8(place).ok();
        let place = place.and_then(|place| place.parse().ok());
        Ok(ClusterCursor {
            fingerprint,
            tag: Some(tag).filter(|tag| !tag.is_empty()).ok_or(INVALID)?,
            place: place.ok_or(INVALID)?,
        })
    }
}

/// The text before and behind a separator of two bytes.
fn cut<'a>(text: &'a [u8], mark: &[u8; 2]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text.windows(2).position(|two| two == mark)?;
    Some((&text[..at], &text[at + 2..]))
}

/// CLUSTERSCAN cursor [MATCH pattern] [COUNT count] [TYPE kind] [SLOT slot].
pub(in crate::resp) fn scan(call: &mut Call<'_>) -> Outcome {
    let cluster = call.context.state.cluster.as_deref().ok_or(DISABLED)?;
    let mut request = ScanRequest::of(call);
    for pair in call.args[2..].chunks(2) {
        let &[name, operand] = pair else {
            return Err(Failure::Syntax);
        };
        if !name.eq_ignore_ascii_case(b"SLOT") {
            request.take(name, operand)?;
            continue;
        }
        let number = parse_integer(operand).and_then(|number| u16::try_from(number).ok());
        let slot = number.filter(|&number| number < SLOTS);
        let slot = slot.ok_or(Failure::text("ERR Invalid or out of range slot"))?;
        if request.filter.slot.replace(slot).is_some() {
            return Err(Failure::text("ERR SLOT option can only be specified once"));
        }
    }
    let table = cluster
        .table()
        .ok_or(Failure::text("CLUSTERDOWN Hash slot not served"))?;
    if call.args[1] == b"0" {
        return begin(call, &table, request.filter.slot.unwrap_or(0));
    }
    let cursor = ClusterCursor::parse(call.args[1])?;
    let slot = slot_of(cursor.tag);
    if request.filter.slot.is_some_and(|wanted| wanted != slot) {
        return Err(Failure::text("ERR Cursor slot mismatch with SLOT argument"));
    }
    check_slot(cluster, slot, call.session, call.context)?;
    let (map, run) = (map_of(&table), run_of(call));
    if !cursor.fingerprint.starts_with(map.as_bytes()) {
        return begin(call, &table, request.filter.slot.unwrap_or(0));
    }
    let is_of_run = cursor.fingerprint.ends_with(run.as_bytes());
    let place = if is_of_run { cursor.place } else { 0 };
    let part = part_of(call, ScanCursor(place), &request);
    let next = match part.next {
        Some(ScanCursor(place)) => cursor_at(&(map + &run), cursor.tag, place),
        None if request.filter.slot.is_some() => b"0".to_vec(),
        None => match table.first_slot_behind(table.owners.node(slot)) {
            Some(first) => cursor_at(&map, &tag_of(first), 0),
            None => b"0".to_vec(),
        },
    };
    answer(call, &next, &part)
}

/// Answers the start of a scan, which is valid on any node, whichever node owns the slot.
fn begin(call: &mut Call<'_>, table: &SlotTable, slot: u16) -> Outcome {
    let cursor = cursor_at(&map_of(table), &tag_of(slot), 0);
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(cursor);
    reply.array(0);
    DONE
}

fn cursor_at(fingerprint: &str, tag: &[u8], place: u64) -> Vec<u8> {
    let place = place.to_string();
    [fingerprint.as_bytes(), b"-{", tag, b"}-", place.as_bytes()].concat()
}

fn map_of(table: &SlotTable) -> String {
    format!("{:016x}", table.fingerprint)
}

/// Distinguishes the runs of servers.
fn run_of(call: &Call<'_>) -> String {
    call.context.state.run.id.chars().take(RUN_DIGITS).collect()
}

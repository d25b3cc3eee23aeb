//! Slots: whether a command's keys belong to this node, and the redirection if they do not.
//!
//! Source: redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec, "MOVED redirection";
//! Redis 7, `getNodeByQuery`. Tests: server/tests/cluster.rs.

use cellar_cluster::Cluster;
use cellar_cluster::slot::slot_of;
use cellar_config::settings::announced::Place;
use cellar_protocol::resp::request::key_places;
use cellar_protocol::resp::{Command, Verb};

use super::PROTOCOL;
use super::failure::Failure;
use super::session::Session;
use super::session::queue::Transaction;
use crate::context::Context;

const CROSS_SLOT: Failure = Failure::text("CROSSSLOT Keys in request don't hash to the same slot");
/// No node serves the slot now, as far as this one knows.
const NOT_SERVED: Failure = Failure::text("CLUSTERDOWN Hash slot not served");

/// Whether this node owns the keys of a command.
///
/// # Errors
/// The other node that owns them, or that no node does.
#[inline]
pub(super) fn check(
    command: &'static Command,
    args: &[&[u8]],
    session: &Session,
    context: Context<'_>,
) -> Result<(), Failure> {
    match &context.state.cluster {
        None => Ok(()),
        Some(cluster) => check_keys(cluster, (command, args), session, context),
    }
}

fn check_keys(
    cluster: &Cluster,
    (command, args): (&'static Command, &[&[u8]]),
    session: &Session,
    context: Context<'_>,
) -> Result<(), Failure> {
    match slot_of_request(command, args)? {
        Some(slot) => check_slot(cluster, slot, session, context),
        None => Ok(()),
    }
}

/// The slot of all keys of a command; none if it has no keys.
fn slot_of_request(command: &Command, args: &[&[u8]]) -> Result<Option<u16>, Failure> {
    if command.verb == Verb::Sunsubscribe {
        // SUNSUBSCRIBE works on any node.
        return Ok(None);
    }
    let mut keys = key_places(command.keys, args).filter_map(|place| args.get(place));
    let Some(first) = keys.next() else {
        return Ok(None);
    };
    let slot = slot_of(first);
    if keys.any(|key| slot_of(key) != slot) {
        return Err(CROSS_SLOT);
    }
    Ok(Some(slot))
}

/// Whether this node serves a slot.
///
/// # Errors
/// The node that does.
#[inline]
pub(super) fn check_slot(
    cluster: &Cluster,
    slot: u16,
    session: &Session,
    context: Context<'_>,
) -> Result<(), Failure> {
    if context.serves_slot(cluster, slot) {
        return Ok(());
    }
    Err(refusal(cluster, slot, session))
}

/// Why a slot is not served here.
#[cold]
fn refusal(cluster: &Cluster, slot: u16, session: &Session) -> Failure {
    if session.is_script {
        return Failure::text("ERR Script attempted to access a non local key in a cluster node");
    }
    let reached_by = (PROTOCOL, session.client.seat.is_tls);
    let moved = |place: Place<'_>| Failure::Text(format!("MOVED {slot} {place}").into());
    let moved = cluster.elsewhere(slot, reached_by, moved);
    moved.unwrap_or(NOT_SERVED)
}

/// Whether the commands of a transaction may all run here: their keys are of one slot.
///
/// # Errors
/// As [`check`].
pub(super) fn check_transaction(
    transaction: &Transaction,
    session: &Session,
    context: Context<'_>,
) -> Result<(), Failure> {
    let Some(cluster) = &context.state.cluster else {
        return Ok(());
    };
    let (mut slot, mut failure) = (None, None);
    transaction.each(|command, args| match slot_of_request(command, args) {
        Err(error) => failure = Some(error),
        Ok(None) => {}
        Ok(Some(other)) => {
            if *slot.get_or_insert(other) != other {
                failure = Some(CROSS_SLOT);
            }
        }
    });
    match (failure, slot) {
        (Some(failure), _) => Err(failure),
        (None, Some(slot)) => check_slot(cluster, slot, session, context),
        (None, None) => Ok(()),
    }
}

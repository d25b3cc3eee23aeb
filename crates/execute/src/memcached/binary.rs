//! Binary: requests of memcached's binary protocol.
//!
//! The text commands' modules implement them; this one decodes them and answers in packets. A quiet
//! request leaves out the usual reply: a miss of a read, the success of a change.
//!
//! Tests: server/tests/memcached_binary.rs; conformance/memcached/binary*.txt;
//! server/tests/hostile.rs.

use std::sync::Arc;

use cellar_engine::{Counted, Deleted, Error, Handle, Increment, Item, Key};
use cellar_net::output::{Output, PINNED_VALUE_BYTES_MIN};
use cellar_protocol::memcached::Stats;
use cellar_protocol::memcached::binary::{
    Asks, Packet, PacketHead, PacketRefused, PacketStatus, reply,
};
use cellar_shared::auth::users::User;
use cellar_shared::clients::tracking::begin_request;

use super::answers::{AnswerForm, answer_packet, packet_done, packet_failure};
use super::elsewhere;
use super::extension::{AddedBytes, Extension};
use super::member::{Admitted, Member};
use super::order::Order;
use super::read::How;
use super::{VERSION, change, read, stats};
use crate::context::{Context, Flow};

mod login; // SASL, and what a user may do

/// A packet and the hash of its item's key.
#[derive(Clone, Copy, Debug)]
pub struct PreparedPacket<'a> {
    pub(super) packet: Packet<'a>,
    pub(super) key: Option<Key<'a>>,
}

/// Runs a packet of a connection, with or without a user, and answers.
#[inline]
pub(super) fn run(
    prepared: &PreparedPacket<'_>,
    member: Option<&mut Member>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    context.counters.pulse.begin_memcached();
    begin_request();
    match member {
        None => execute(prepared, None, context, output),
        Some(member) => match login::admit(member, &prepared.packet, context, output) {
            Ok(user) => execute(prepared, user.as_ref(), context, output),
            Err(flow) => flow,
        },
    }
}

/// Runs a packet; it lists only the keys that the user, if any, may read.
#[inline]
fn execute(
    prepared: &PreparedPacket<'_>,
    user: Option<&Arc<User>>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let PreparedPacket { packet, key } = prepared;
    let Some(key) = key.map(|key| context.key_now(key)) else {
        return execute_other(packet, user, context, output);
    };
    let is_node = context.state.cluster.is_some();
    if is_node && elsewhere::answered_packet(packet, context, output) {
        return Flow::Continue;
    }
    match packet.asks {
        Asks::Get { with_key, touch } => {
            get(packet.head, key, (with_key, touch), context, output);
        }
        Asks::Touch { exptime } => touch(packet.head, key, exptime, context, output),
        Asks::Delete => delete(packet, key, context, output),
        Asks::Count {
            delta,
            initial,
            subtract,
        } => {
            let increment = Increment {
                subtract,
                initial: initial
                    .map(|(number, exptime)| (number, context.stored_deadline(exptime))),
                when_version: version(packet),
                version: !packet.head.quiet,
                ..Increment::by(delta)
            };
            count(packet.head, key, &increment, context, output);
        }
        _ => {
            if let Some(order) = order(packet, context) {
                let result = order.run_ahead(key, packet.value, None, context);
                if let Err(Error::NoRoomYet { bytes }) = result {
                    let form = AnswerForm::Packet(packet.head);
                    let value = AddedBytes::of(packet.value);
                    return Extension::of(key, order, form, value).wait(bytes, context, output);
                }
                answer_packet(&result, order.verb, packet.head, output);
            }
        }
    }
    Flow::Continue
}

/// Packets that are about no item.
fn execute_other(
    packet: &Packet<'_>,
    user: Option<&Arc<User>>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    let head = packet.head;
    match packet.asks {
        Asks::Flush { delay } => {
            change::flush(delay.into(), context);
            packet_done(head, 0, output);
        }
        Asks::Stat(Some(group)) => statistics(head, group, user, context, output),
        Asks::Stat(None) => fail(head, PacketStatus::NotFound, context, output),
        Asks::Version => reply::done(output.bytes(), head, 0, VERSION.as_bytes()),
        Asks::Quit => {
            packet_done(head, 0, output);
            return Flow::Close;
        }
        // With users they are answered before.
        Asks::SaslList | Asks::SaslAuth | Asks::SaslStep => {
            fail(head, PacketStatus::Unknown, context, output);
        }
        _ => packet_done(head, 0, output),
    }
    Flow::Continue
}

/// The version that an item must have; zero for none.
fn version(packet: &Packet<'_>) -> Option<u64> {
    Some(packet.version).filter(|version| *version != 0)
}

/// The store request of a packet; none for other packets.
#[inline]
pub(super) fn order(packet: &Packet<'_>, context: Context<'_>) -> Option<Order> {
    let Asks::Store {
        verb,
        flags,
        exptime,
    } = packet.asks
    else {
        return None;
    };
    let (stored, item) = ((verb, packet.version), (flags, exptime));
    Some(Order::packet(packet.head, stored, item, context))
}

/// get, gat
#[inline]
fn get(
    head: PacketHead,
    key: Key<'_>,
    (with_key, touch): (bool, Option<u32>),
    context: Context<'_>,
    output: &mut Output,
) {
    let how = How {
        with_version: true,
        touch: touch.map(|exptime| context.deadline(exptime)),
    };
    let told = if with_key { key.bytes() } else { b"" };
    let out = output.bytes();
    let found = read::find(key, how, context, |found| {
        let Item { flags, value, .. } = found.item;
        reply::value_head(out, head, (flags, found.version), told, value.len());
        copy_or_pin(out, found.item)
    });
    match found {
        Some(Some(pinned)) => output.push_value(pinned),
        Some(None) => {}
        None if head.quiet => {}
        None if with_key => reply::missed_key(output.bytes(), head, told),
        None => reply::failed(output.bytes(), head, PacketStatus::NotFound),
    }
}

/// Appends the value, or returns a handle to be handed to [`Output::push_value`].
#[inline]
fn copy_or_pin(out: &mut Vec<u8>, item: Item<'_>) -> Option<Handle> {
    if item.value.len() >= PINNED_VALUE_BYTES_MIN {
        return Some(item.pin());
    }
    out.extend_from_slice(item.value);
    None
}

fn touch(head: PacketHead, key: Key<'_>, exptime: u32, context: Context<'_>, output: &mut Output) {
    let how = How {
        with_version: true,
        touch: Some(context.deadline(exptime)),
    };
    let out = output.bytes();
    let found = read::find(key, how, context, |found| {
        reply::value_head(out, head, (found.item.flags, found.version), b"", 0);
    });
    if found.is_none() {
        reply::failed(output.bytes(), head, PacketStatus::NotFound);
    }
}

fn delete(packet: &Packet<'_>, key: Key<'_>, context: Context<'_>, output: &mut Output) {
    let status = match change::remove(key, version(packet), context) {
        Ok(Deleted::Done) => return packet_done(packet.head, 0, output),
        Ok(Deleted::NotFound) => PacketStatus::NotFound,
        Ok(Deleted::Exists) => PacketStatus::Exists,
        Err(error) => packet_failure(&error),
    };
    reply::failed(output.bytes(), packet.head, status);
}

fn count(
    head: PacketHead,
    key: Key<'_>,
    increment: &Increment,
    context: Context<'_>,
    output: &mut Output,
) {
    let status = match change::count_by(key, increment, context) {
        Ok(Counted::Number { .. }) if head.quiet => return,
        Ok(Counted::Number {
            number, version, ..
        }) => return reply::number(output.bytes(), head, version, number),
        Ok(Counted::NotANumber) => PacketStatus::NotANumber,
        Ok(Counted::NotFound) => PacketStatus::NotFound,
        Ok(Counted::Exists) => PacketStatus::Exists,
        Err(error) => packet_failure(&error),
    };
    reply::failed(output.bytes(), head, status);
}

/// stat: a packet for each line, and an empty one.
fn statistics(
    head: PacketHead,
    group: Stats,
    user: Option<&Arc<User>>,
    context: Context<'_>,
    output: &mut Output,
) {
    let mut lines = Vec::new();
    stats::append(group, user, context, &mut lines);
    let out = output.bytes();
    for line in lines.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(fact) = line.strip_prefix(b"STAT ") {
            let space = memchr::memchr(b' ', fact).unwrap_or(fact.len());
            let value = fact.get(space + 1..).unwrap_or_default();
            reply::statistic(out, head, &fact[..space], value);
        }
    }
    reply::statistic(out, head, b"", b"");
}

/// Answers an error of the client.
fn fail(head: PacketHead, status: PacketStatus, context: Context<'_>, output: &mut Output) {
    context.counters.protocol_errors.add(1);
    reply::failed(output.bytes(), head, status);
}

/// Answers invalid packets.
pub(super) fn refuse(refused: &PacketRefused, context: Context<'_>, output: &mut Output) -> Flow {
    if let Some((head, status)) = refused.answer {
        fail(head, status, context, output);
    }
    if refused.close {
        Flow::Close
    } else {
        Flow::Continue
    }
}

/// Whether the value of a packet may be received that is too long to be a part of it.
pub(super) fn admit_upload(
    member: Option<&mut Member>,
    packet: &Packet<'_>,
    context: Context<'_>,
    output: &mut Output,
) -> Admitted {
    match member {
        None => Ok(None),
        Some(member) => login::admit(member, packet, context, output),
    }
}

//! Login: SASL logins of the binary protocol, on a server with users.
//!
//! The mechanism is PLAIN: an authorization identity, a name and a password, separated by zero
//! bytes; the first is ignored. As in memcached, an unauthenticated client may ask for mechanisms
//! and the version; anything else ends the connection.
//!
//! Source: RFC 4616; memcached 1.6.45, proto_bin.c.

use std::sync::Arc;

use cellar_net::output::Output;
use cellar_protocol::memcached::binary::{Asks, Packet, PacketStatus, reply};
use cellar_shared::auth::users::{Identity, LoginResult, Users};

use crate::context::{Context, Flow};
use crate::memcached::member::{Admitted, Member};
use crate::permission::check_packet;

/// The one mechanism.
const MECHANISM: &[u8] = b"PLAIN";
const NOT_PERMITTED: &[u8] = b"Not permitted";

/// Whether a packet may run.
pub(super) fn admit(
    member: &mut Member,
    packet: &Packet<'_>,
    context: Context<'_>,
    output: &mut Output,
) -> Admitted {
    let Some(users) = &context.state.access.users else {
        return Ok(None);
    };
    let head = packet.head;
    match packet.asks {
        Asks::SaslList => {
            reply::done(output.bytes(), head, 0, MECHANISM);
            return Err(Flow::Continue);
        }
        Asks::SaslAuth => {
            return Err(log_in(member, users, packet, context, output));
        }
        Asks::SaslStep => {
            super::fail(head, PacketStatus::Denied, context, output);
            return Err(Flow::Continue);
        }
        Asks::Version => return Ok(None),
        _ => {}
    }
    let Some(user) = member.identity.user(Some(users)) else {
        super::fail(head, PacketStatus::Denied, context, output);
        return Err(Flow::Close);
    };
    if check_packet(user, packet).is_ok() {
        let is_limited = user.is_limited();
        return Ok(is_limited.then(|| Arc::clone(user)));
    }
    context.counters.protocol_errors.add(1);
    reply::failed_for(output.bytes(), head, PacketStatus::Denied, NOT_PERMITTED);
    Err(Flow::Continue)
}

/// sasl auth
fn log_in(
    member: &mut Member,
    users: &Users,
    packet: &Packet<'_>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    member.identity = Identity::Unknown;
    let secrets = secrets(packet.value).filter(|_| packet.key.eq_ignore_ascii_case(MECHANISM));
    let Some(secrets) = secrets else {
        super::fail(packet.head, PacketStatus::Denied, context, output);
        return Flow::Continue;
    };
    let result = match member.pending.log_in(users, secrets, &member.peer, context) {
        Ok(result) => result,
        Err(ticket) => return Flow::Wait(ticket),
    };
    let (status, flow) = match result {
        LoginResult::Right(login) => {
            member.identity = users.identity_of(login);
            reply::done(output.bytes(), packet.head, 0, b"Authenticated");
            return Flow::Continue;
        }
        LoginResult::Wrong => (PacketStatus::Denied, Flow::Continue),
        // Nothing is compared for this address now.
        LoginResult::TooMany { .. } => (PacketStatus::Denied, Flow::Close),
        LoginResult::Busy => (PacketStatus::Busy, Flow::Continue),
    };
    super::fail(packet.head, status, context, output);
    flow
}

/// Name and password of PLAIN.
fn secrets(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let name_at = memchr::memchr(0, value)? + 1;
    let rest = &value[name_at..];
    let end = memchr::memchr(0, rest)?;
    Some((&rest[..end], &rest[end + 1..]))
}

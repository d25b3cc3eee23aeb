//! Sorted members: what commands on sorted sets have in common.

use cellar_protocol::resp::{Proto, Reply};

use crate::resp::call::Call;
use crate::resp::call::notify::Class;

/// Tells that members of the first key's set were removed, and perhaps the key.
pub(in crate::resp) fn notify_removed(
    call: &mut Call<'_>,
    event: &'static str,
    is_less: bool,
    is_gone: bool,
) {
    if is_less {
        call.notify(Class::SortedSet, event, call.args[1]);
    }
    if is_gone {
        call.notify(Class::Generic, "del", call.args[1]);
    }
}

/// Answers a member, with its score if that is asked for: as a pair in RESP3, as two values in
/// RESP2.
pub(in crate::resp) fn append_member(reply: &mut Reply<'_>, member: &[u8], score: Option<f64>) {
    let Some(score) = score else {
        reply.bulk(member);
        return;
    };
    if reply.proto == Proto::V3 {
        reply.array(2);
    }
    reply.bulk(member);
    reply.double(score);
}

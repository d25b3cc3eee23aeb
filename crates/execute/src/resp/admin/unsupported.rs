//! Unsupported: commands about modules and replication, which do not exist here.
//!
//! Tools send them to any server, so the replies state the facts: MODULE LIST is empty, and
//! REPLICAOF NO ONE succeeds on a server without replication.

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;

/// MODULE LIST
pub(in crate::resp) fn modules(call: &mut Call<'_>) -> Outcome {
    call.reply().array(0);
    DONE
}

/// REPLICAOF, SLAVEOF
pub(in crate::resp) fn replica_of(call: &mut Call<'_>) -> Outcome {
    let [_, host, port] = call.args else {
        return Err(Failure::Syntax);
    };
    if call.context.state.cluster.is_some() {
        return Err(Failure::text("ERR REPLICAOF not allowed in cluster mode."));
    }
    if host.eq_ignore_ascii_case(b"NO") && port.eq_ignore_ascii_case(b"ONE") {
        return call.ok();
    }
    Err(Failure::text(
        "ERR this server does not replicate: REPLICAOF takes NO ONE only",
    ))
}

/// FAILOVER
pub(in crate::resp) fn failover(call: &mut Call<'_>) -> Outcome {
    match call.args {
        [_, abort] if abort.eq_ignore_ascii_case(b"ABORT") => {
            Err(Failure::text("ERR No failover in progress."))
        }
        _ => Err(Failure::text("ERR FAILOVER requires connected replicas.")),
    }
}

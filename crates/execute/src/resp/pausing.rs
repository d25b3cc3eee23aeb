//! Pausing: CLIENT PAUSE, and which commands wait for its end.
//!
//! Source: redis.io/docs/latest/commands/client-pause. Unlike Redis, a client that has paused all
//! commands may end the pause with CLIENT UNPAUSE, also on a new connection.

use cellar_protocol::resp::command::Flags;
use cellar_protocol::resp::number::parse_integer;
use cellar_protocol::resp::{Command, Verb};
use cellar_shared::clients::exclusive_lock::ExclusiveReason;
use cellar_shared::clients::pause::{Effect, Paused};

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::scripts;
use super::session::Session;
use crate::context::Context;

/// How a command counts for a pause.
pub(super) fn effect(
    command: &Command,
    args: &[&[u8]],
    session: &Session,
    context: Context<'_>,
) -> Effect {
    let writes_if = |writes: bool| {
        if writes {
            Effect::Writes
        } else {
            Effect::Reads
        }
    };
    match command.verb {
        Verb::ClientPause | Verb::ClientUnpause => Effect::None,
        _ if command.flags.has(Flags::NO_AUTH) => Effect::None,
        Verb::Exec => {
            let mut writes = false;
            if let Some(transaction) = &session.transaction {
                transaction.each(|command, args| {
                    writes |= effect(command, args, session, context) == Effect::Writes;
                });
            }
            writes_if(writes)
        }
        Verb::Eval
        | Verb::EvalRo
        | Verb::Evalsha
        | Verb::EvalshaRo
        | Verb::Fcall
        | Verb::FcallRo => writes_if(!scripts::is_read_only(command, args, context.state)),
        // A published message cannot be taken back; a HyperLogLog may cache a count.
        _ if command.flags.has(Flags::MAY_REPLICATE) => Effect::Writes,
        _ => writes_if(command.flags.has(Flags::WRITE)),
    }
}

/// CLIENT PAUSE
pub(super) fn pause(call: &mut Call<'_>) -> Outcome {
    let paused = match call.args.get(3..) {
        Some([]) => Paused::All,
        Some([mode]) if mode.eq_ignore_ascii_case(b"ALL") => Paused::All,
        Some([mode]) if mode.eq_ignore_ascii_case(b"WRITE") => Paused::Writes,
        Some([_]) => {
            return Err(Failure::text("ERR CLIENT PAUSE mode must be WRITE or ALL"));
        }
        _ => return Err(Failure::Syntax),
    };
    let ms = parse_integer(call.args[2]).ok_or(Failure::text(
        "ERR timeout is not an integer or out of range",
    ))?;
    let ms = u64::try_from(ms).map_err(|_| Failure::text("ERR timeout is negative"))?;
    call.exclusively(ExclusiveReason::Command, |call| {
        let now = call.now();
        call.context.state.pause.begin(paused, ms, now);
    });
    call.ok()
}

/// CLIENT UNPAUSE
pub(super) fn unpause(call: &mut Call<'_>) -> Outcome {
    call.context.state.pause.end();
    call.session.client.wake_loops();
    call.ok()
}

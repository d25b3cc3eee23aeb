//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Queued commands are kept as bytes and run one after the other while no other event loop
//! executes, so all their shards change in one step.
//!
//! Source: redis.io/docs/latest/develop/interact/transactions.

use cellar_protocol::resp::Verb;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use super::filter::note_queued;
use super::handlers::{Handler, unknown};
use super::queue::Queued;
use super::run;

/// Whether a command runs at once, even between MULTI and EXEC.
pub(super) fn is_for_transaction(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Exec | Verb::Discard | Verb::Multi | Verb::Watch | Verb::Quit | Verb::Reset
    )
}

/// The function that runs a command of this group.
pub(super) fn handler(verb: Verb) -> Handler {
    match verb {
        Verb::Multi => multi,
        Verb::Exec => exec,
        Verb::Discard => discard,
        Verb::Watch => watch,
        Verb::Unwatch => unwatch,
        _ => unknown,
    }
}

pub(super) fn multi(call: &mut Call<'_>) -> Outcome {
    if call.session.transaction.is_some() {
        return Err(Failure::text("ERR MULTI calls can not be nested"));
    }
    call.session.transaction = Some(Box::default());
    note_queued(&call.session.client, Some(0));
    call.ok()
}

pub(super) fn discard(call: &mut Call<'_>) -> Outcome {
    if call.session.transaction.take().is_none() {
        return Err(Failure::text("ERR DISCARD without MULTI"));
    }
    note_queued(&call.session.client, None);
    call.session.unwatch(call.context.state);
    call.ok()
}

pub(super) fn exec(call: &mut Call<'_>) -> Outcome {
    let Some(transaction) = call.session.transaction.take() else {
        return Err(Failure::text("ERR EXEC without MULTI"));
    };
    note_queued(&call.session.client, None);
    if transaction.is_broken {
        call.session.unwatch(call.context.state);
        return Err(Failure::text(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    call.alone(|call| {
        let is_clean = call.session.unwatch(call.context.state);
        if !is_clean {
            call.reply().null_array();
            return DONE;
        }
        call.reply().array(transaction.queued.len());
        call.session.answers_whole = true;
        for Queued { command, args } in &transaction.queued {
            let args: Vec<&[u8]> = args.iter().map(|arg| &**arg).collect();
            run(
                command,
                &args,
                None,
                call.session,
                call.context,
                call.output,
            );
        }
        call.session.answers_whole = false;
        DONE
    })
}

fn watch(call: &mut Call<'_>) -> Outcome {
    if call.session.transaction.is_some() {
        return Err(Failure::text("ERR WATCH inside MULTI is not allowed"));
    }
    let state = call.context.state;
    let session = &mut *call.session;
    for key in &call.args[1..] {
        let (database, client) = (session.database, &session.client);
        session.watched.add(key, database, client, state)?;
    }
    call.ok()
}

fn unwatch(call: &mut Call<'_>) -> Outcome {
    call.session.unwatch(call.context.state);
    call.ok()
}

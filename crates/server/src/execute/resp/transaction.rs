//! Transactions: MULTI, EXEC, DISCARD.
//!
//! Queued commands are kept as bytes and run one after the other while no other event loop
//! executes, so all their shards change in one step.
//!
//! Source: redis.io/docs/latest/develop/interact/transactions.

use cellar_protocol::resp::{Command, Verb};

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use super::run;

/// Bytes that a transaction's queued commands may take.
const QUEUED_BYTES_MAX: usize = 32 << 20;
/// Bookkeeping of a queued argument, for the bound above.
const ARGUMENT_COST_BYTES: usize = 16;

/// The commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    queued: Vec<Queued>,
    bytes: usize,
    /// Whether a command was refused when it was queued.
    is_broken: bool,
}

#[derive(Debug)]
struct Queued {
    command: &'static Command,
    args: Box<[Box<[u8]>]>,
}

impl Transaction {
    /// Notes that a command was refused, so that EXEC is too.
    pub(super) fn spoil(&mut self) {
        self.is_broken = true;
        self.queued = Vec::new();
    }

    /// Keeps a command for EXEC.
    pub(super) fn queue(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
    ) -> Result<(), Failure> {
        if self.is_broken {
            return Ok(());
        }
        let bytes = args.iter().map(|arg| arg.len() + ARGUMENT_COST_BYTES);
        self.bytes += bytes.sum::<usize>();
        if self.bytes > QUEUED_BYTES_MAX {
            self.spoil();
            return Err(Failure::text("ERR the transaction is too large"));
        }
        let args = args.iter().map(|&arg| arg.into()).collect();
        self.queued.push(Queued { command, args });
        Ok(())
    }
}

/// Whether a command runs at once, even between MULTI and EXEC.
pub(super) fn is_for_transaction(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Exec | Verb::Discard | Verb::Multi | Verb::Watch | Verb::Quit | Verb::Reset
    )
}

pub(super) fn multi(call: &mut Call<'_>) -> Outcome {
    if call.session.transaction.is_some() {
        return Err(Failure::text("ERR MULTI calls can not be nested"));
    }
    call.session.transaction = Some(Box::default());
    call.ok()
}

pub(super) fn discard(call: &mut Call<'_>) -> Outcome {
    if call.session.transaction.take().is_none() {
        return Err(Failure::text("ERR DISCARD without MULTI"));
    }
    call.session.unwatch(call.context.state);
    call.ok()
}

pub(super) fn exec(call: &mut Call<'_>) -> Outcome {
    let Some(transaction) = call.session.transaction.take() else {
        return Err(Failure::text("ERR EXEC without MULTI"));
    };
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
        DONE
    })
}

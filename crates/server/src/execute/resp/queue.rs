//! Queue: the commands between MULTI and EXEC, kept as bytes.

use cellar_protocol::resp::Command;

use super::failure::Failure;

/// Bytes that a transaction's queued commands may take.
const QUEUED_BYTES_MAX: usize = 32 << 20;
/// Bookkeeping of a queued argument, for the bound above.
const ARGUMENT_COST_BYTES: usize = 16;

/// The commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) queued: Vec<Queued>,
    bytes: usize,
    /// Whether a command was refused when it was queued.
    pub(super) is_broken: bool,
}

/// A command and its arguments.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) command: &'static Command,
    pub(super) args: Box<[Box<[u8]>]>,
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

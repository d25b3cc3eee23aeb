//! Queue: the commands between MULTI and EXEC, kept as bytes one behind the other.

use cellar_protocol::resp::Command;

use crate::execute::resp::arguments::Arguments;
use crate::execute::resp::failure::Failure;
use crate::execute::resp::session::ahead::{Foresight, PIECE_BYTES};
use crate::limits::QUEUED_BYTES_MAX;

/// The commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(in crate::execute::resp) struct Transaction {
    queued: Vec<Queued>,
    /// All their arguments, in their order: of short commands together, of each long one alone.
    args: Vec<Arguments>,
    /// Whether the last of these may get more.
    is_last_open: bool,
    /// Whether a command was refused when it was queued.
    pub(in crate::execute::resp) is_broken: bool,
}

/// A command and how many arguments it has.
#[derive(Clone, Copy, Debug)]
struct Queued {
    command: &'static Command,
    args: u32,
}

/// What a queued command takes beside its arguments.
const COMMAND_BYTES: usize = size_of::<Queued>();
const _: () = assert!(
    QUEUED_BYTES_MAX <= u32::MAX as usize,
    "places and counts are numbers of 32 bits"
);

impl Transaction {
    /// How many commands there are.
    pub(in crate::execute::resp) fn len(&self) -> usize {
        self.queued.len()
    }

    /// Bytes of memory that they take.
    pub(in crate::execute::resp) fn held_bytes(&self) -> usize {
        let args: usize = self.args.iter().map(Arguments::bytes).sum();
        args + self.queued.len() * COMMAND_BYTES
    }

    /// Notes that a command was refused, so that EXEC is too.
    pub(in crate::execute::resp) fn spoil(&mut self) {
        *self = Transaction {
            is_broken: true,
            ..Transaction::default()
        };
    }

    /// Keeps a command for EXEC; a long one's arguments are copied ahead.
    ///
    /// # Errors
    /// If there are too many bytes; [`Failure::NoRoomYet`] if they are copied first.
    pub(in crate::execute::resp) fn queue(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        ahead: &Foresight,
    ) -> Result<(), Failure> {
        if self.is_broken {
            return Ok(());
        }
        let bytes = Arguments::bytes_of(args) + COMMAND_BYTES;
        if self.held_bytes() + bytes > QUEUED_BYTES_MAX {
            self.spoil();
            return Err(Failure::text("ERR the transaction is too large"));
        }
        if let Some(copy) = ahead.take_arguments() {
            self.args.push(copy);
            self.is_last_open = false;
        } else if bytes >= PIECE_BYTES && ahead.may_ask() {
            ahead.ask_arguments(0..args.len());
            return Err(Failure::NoRoomYet);
        } else {
            if !std::mem::replace(&mut self.is_last_open, true) {
                self.args.push(Arguments::default());
            }
            if let Some(last) = self.args.last_mut() {
                last.extend(args);
            }
        }
        self.queued.push(Queued {
            command,
            args: args.len() as u32,
        });
        Ok(())
    }

    /// Shows each command with its arguments, in their order.
    pub(in crate::execute::resp) fn each(&self, mut run: impl FnMut(&'static Command, &[&[u8]])) {
        let mut all = self.args.iter().flat_map(Arguments::iter);
        let mut args = Vec::new();
        for queued in &self.queued {
            args.clear();
            args.extend(all.by_ref().take(queued.args as usize));
            run(queued.command, &args);
        }
    }
}

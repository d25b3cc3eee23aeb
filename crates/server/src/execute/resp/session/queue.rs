//! Queue: the commands between MULTI and EXEC, kept as bytes one behind the other.

use cellar_protocol::resp::Command;

use crate::execute::resp::arguments::Arguments;
use crate::execute::resp::failure::Failure;
use crate::limits::QUEUED_BYTES_MAX;

/// The commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(in crate::execute::resp) struct Transaction {
    queued: Vec<Queued>,
    /// All their arguments.
    args: Arguments,
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
        self.args.bytes() + self.queued.len() * COMMAND_BYTES
    }

    /// Notes that a command was refused, so that EXEC is too.
    pub(in crate::execute::resp) fn spoil(&mut self) {
        *self = Transaction {
            is_broken: true,
            ..Transaction::default()
        };
    }

    /// Keeps a command for EXEC.
    pub(in crate::execute::resp) fn queue(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
    ) -> Result<(), Failure> {
        if self.is_broken {
            return Ok(());
        }
        let bytes = Arguments::bytes_of(args) + COMMAND_BYTES;
        if self.held_bytes() + bytes > QUEUED_BYTES_MAX {
            self.spoil();
            return Err(Failure::text("ERR the transaction is too large"));
        }
        self.args.extend(args);
        self.queued.push(Queued {
            command,
            args: args.len() as u32,
        });
        Ok(())
    }

    /// Shows each command with its arguments, in their order.
    pub(in crate::execute::resp) fn each(&self, mut run: impl FnMut(&'static Command, &[&[u8]])) {
        let mut places = 0..self.args.len();
        let mut args = Vec::new();
        for queued in &self.queued {
            args.clear();
            let own = places.by_ref().take(queued.args as usize);
            args.extend(own.map(|place| self.args.get(place)));
            run(queued.command, &args);
        }
    }
}

//! Queue: the commands between MULTI and EXEC, kept as bytes one behind the other.

use cellar_protocol::resp::{Command, Request};

use crate::execute::resp::arguments::Arguments;
use crate::execute::resp::failure::Failure;
use crate::limits::{QUEUED_ARGS_PER_KEY, QUEUED_BYTES_MAX, QUEUED_KEYS_MAX};

/// The commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(in crate::execute::resp) struct Transaction {
    queued: Vec<Queued>,
    /// All their arguments.
    args: Arguments,
    /// What their work counts for.
    keys: usize,
    /// Whether a command was refused when it was queued.
    pub(in crate::execute::resp) is_broken: bool,
}

/// A command, and where its arguments end among those of all.
#[derive(Clone, Copy, Debug)]
struct Queued {
    command: &'static Command,
    end: u32,
}

/// For how many keys a command counts.
fn keys_of(command: &'static Command, args: &[&[u8]]) -> usize {
    let request = Request {
        command: Some(command),
        args: args.iter().copied().collect(),
    };
    let beyond = args.len().saturating_sub(SHORT_ARGS);
    request.keys().count().max(1) + beyond / QUEUED_ARGS_PER_KEY
}

/// Arguments of a command that count for nothing beside its key.
const SHORT_ARGS: usize = 8;
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
        self.keys += keys_of(command, args);
        if self.held_bytes() + bytes > QUEUED_BYTES_MAX || self.keys > QUEUED_KEYS_MAX {
            self.spoil();
            return Err(Failure::text("ERR the transaction is too large"));
        }
        self.args.extend(args);
        self.queued.push(Queued {
            command,
            end: self.args.len() as u32,
        });
        Ok(())
    }

    /// Shows each command with its arguments, in their order.
    pub(in crate::execute::resp) fn each(&self, mut run: impl FnMut(&'static Command, &[&[u8]])) {
        let mut args = Vec::new();
        for place in 0..self.len() {
            run(self.command(place, &mut args), &args);
        }
    }

    /// The command at a place; its arguments go into `args`.
    pub(in crate::execute::resp) fn command<'t>(
        &'t self,
        place: usize,
        args: &mut Vec<&'t [u8]>,
    ) -> &'static Command {
        let Queued { command, end } = self.queued[place];
        args.clear();
        args.extend(self.args.part(self.first(place)..end as usize));
        command
    }

    /// The first key of the command at a place, if that is its first argument.
    pub(in crate::execute::resp) fn first_key(&self, place: usize) -> Option<&[u8]> {
        let queued = self.queued.get(place)?;
        let key = self.first(place) + 1;
        (queued.command.keys.first == 1 && key < queued.end as usize).then(|| self.args.get(key))
    }

    fn first(&self, place: usize) -> usize {
        let before = place
            .checked_sub(1)
            .and_then(|before| self.queued.get(before));
        before.map_or(0, |before| before.end as usize)
    }
}

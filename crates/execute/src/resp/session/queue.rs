//! Queue: the commands between MULTI and EXEC, kept as consecutive bytes.

use cellar_protocol::resp::Command;

use crate::resp::arguments::Arguments;
use crate::resp::failure::Failure;
use crate::resp::session::preparation::{PIECE_BYTES, Preparation};

/// The commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(in crate::resp) struct Transaction {
    queued: Vec<Queued>,
    /// All their arguments in order: of short commands together, of each long one separately.
    args: Vec<Arguments>,
    /// Whether more may be added to the last of these.
    is_last_open: bool,
    /// Whether a command was refused when it was queued.
    pub(in crate::resp) is_broken: bool,
}

/// A command, and where its arguments are: among which of [`Transaction::args`], from where to
/// where.
#[derive(Clone, Copy, Debug)]
struct Queued {
    command: &'static Command,
    among: u32,
    first: u32,
    end: u32,
}

/// Memory of a queued command beside its arguments.
const COMMAND_BYTES: usize = size_of::<Queued>();
/// Most bytes that they may take whatever the settings: their positions are 32-bit numbers.
const QUEUED_BYTES_MAX: usize = u32::MAX as usize;

impl Transaction {
    /// Number of commands.
    pub(in crate::resp) fn len(&self) -> usize {
        self.queued.len()
    }

    /// Bytes of memory that they take.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        let args: usize = self.args.iter().map(Arguments::bytes).sum();
        args + self.queued.len() * COMMAND_BYTES
    }

    /// Records that a command was refused, so that EXEC is too.
    pub(in crate::resp) fn spoil(&mut self) {
        *self = Transaction {
            is_broken: true,
            ..Transaction::default()
        };
    }

    /// Keeps a command for EXEC, unless all together take more than `bytes_max`; a long one's
    /// arguments are copied ahead.
    ///
    /// # Errors
    /// If they do; [`Failure::NoRoomYet`] if they are copied first.
    pub(in crate::resp) fn queue(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        preparation: &Preparation,
        bytes_max: usize,
    ) -> Result<(), Failure> {
        if self.is_broken {
            return Ok(());
        }
        let bytes = Arguments::bytes_of(args) + COMMAND_BYTES;
        if self.held_bytes() + bytes > bytes_max.min(QUEUED_BYTES_MAX) {
            self.spoil();
            return Err(Failure::text(
                "ERR the transaction is too large: it takes more than half of --client-memory",
            ));
        }
        if let Some(copy) = preparation.take_arguments() {
            self.args.push(copy);
            self.is_last_open = false;
        } else if bytes >= PIECE_BYTES && preparation.may_ask() {
            preparation.ask_arguments(0..args.len());
            return Err(Failure::NoRoomYet);
        } else {
            if !std::mem::replace(&mut self.is_last_open, true) {
                self.args.push(Arguments::default());
            }
            if let Some(last) = self.args.last_mut() {
                last.extend(args);
            }
        }
        let end = self.args.last().map_or(0, Arguments::len);
        self.queued.push(Queued {
            command,
            among: self.args.len() as u32 - 1,
            first: (end - args.len()) as u32,
            end: end as u32,
        });
        Ok(())
    }

    /// Calls `run` for each command with its arguments, in order.
    pub(in crate::resp) fn each(&self, mut run: impl FnMut(&'static Command, &[&[u8]])) {
        let mut args = Vec::new();
        for place in 0..self.len() {
            run(self.command(place, &mut args), &args);
        }
    }

    /// The command at an index; its arguments go into `args`.
    pub(in crate::resp) fn command<'t>(
        &'t self,
        place: usize,
        args: &mut Vec<&'t [u8]>,
    ) -> &'static Command {
        let Queued {
            command,
            among,
            first,
            end,
        } = self.queued[place];
        args.clear();
        args.extend(self.args[among as usize].part(first as usize..end as usize));
        command
    }

    /// The first key of the command at an index, if that is its first argument.
    pub(in crate::resp) fn first_key(&self, place: usize) -> Option<&[u8]> {
        let queued = self.queued.get(place)?;
        let key = queued.first + 1;
        let is_key = queued.command.keys.first == 1 && key < queued.end;
        is_key.then(|| self.args[queued.among as usize].get(key as usize))
    }
}

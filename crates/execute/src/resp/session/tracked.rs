//! Tracked: how one client's reads are tracked.

use std::sync::Arc;

use cellar_config::limits::entry_bytes;
use cellar_protocol::resp::Command;
use cellar_protocol::resp::command::find;
use cellar_shared::clients::client::Client;
use cellar_shared::clients::tracking::Mode;
use cellar_shared::state::State;

/// A session's part of its tracking state.
#[derive(Debug, Default)]
pub(in crate::resp) struct Tracked {
    /// Whether tracking is on.
    pub(in crate::resp) is_on: bool,
    /// Whether CLIENT CACHING was sent for the next command or transaction.
    pub(in crate::resp) caching: bool,
    /// The prefixes that it broadcasts, in order; the empty one for all keys.
    pub(in crate::resp) prefixes: Vec<Box<[u8]>>,
    prefix_bytes: usize,
}

impl Tracked {
    /// Whether the keys of a reading command are to be registered.
    pub(in crate::resp) fn remembers(&self, client: &Client) -> bool {
        let mode = Mode::of(client);
        let is_wanted = if mode.has(Mode::OPTIN) {
            self.caching
        } else {
            !(mode.has(Mode::OPTOUT) && self.caching)
        };
        is_wanted && !mode.has(Mode::BCAST)
    }

    /// Bytes of memory that its prefixes take.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        self.prefix_bytes
    }

    /// Adds a prefix, once.
    pub(in crate::resp) fn add(&mut self, prefix: &[u8]) {
        let place = self
            .prefixes
            .binary_search_by(|known| (**known).cmp(prefix));
        if let Err(place) = place {
            self.prefix_bytes += entry_bytes(prefix);
            self.prefixes.insert(place, prefix.into());
        }
    }

    /// Ends the effect of CLIENT CACHING, after one command or one transaction.
    pub(in crate::resp) fn end_command(
        &mut self,
        command: Option<&Command>,
        is_in_transaction: bool,
    ) {
        if self.caching && !is_in_transaction && !command.is_some_and(is_about_clients) {
            self.caching = false;
        }
    }

    /// The same for the commands of a script.
    pub(in crate::resp) fn for_script(&self) -> Tracked {
        Tracked {
            is_on: self.is_on,
            caching: self.caching,
            ..Tracked::default()
        }
    }

    /// Ends tracking.
    pub(in crate::resp) fn end(&mut self, client: &Arc<Client>, state: &State) {
        if self.is_on {
            state.observer.untrack(client, &self.prefixes);
            *self = Tracked::default();
        }
    }
}

/// Whether it is one of CLIENT's sub-commands.
fn is_about_clients(command: &Command) -> bool {
    let client = find(b"client");
    client.is_some_and(|row| row.subcommands.iter().any(|sub| sub.verb == command.verb))
}

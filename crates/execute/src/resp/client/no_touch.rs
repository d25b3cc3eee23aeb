//! No-touch: reads of a client with CLIENT NO-TOUCH, which do not count as uses of the keys.
//!
//! The use counters of a command's keys are read before it runs and restored after it. A use by
//! another client in between is not counted either. Those of a command with very many arguments
//! are not restored.
//!
//! Source: redis.io/docs/latest/commands/client-no-touch: TOUCH counts all the same.

use cellar_engine::{Cache, Key, Uses};
use cellar_protocol::resp::Verb;
use cellar_protocol::resp::command::Flags;

use crate::resp::call::Call;
use crate::resp::call::steps::STEP_ITEMS;
use crate::section::keys_of;

/// The use counters to restore after a command: of its keys, if it only reads.
pub(in crate::resp) fn uses<'c>(call: &Call<'c>) -> Vec<(Key<'c>, Uses)> {
    let Call { command, args, .. } = call;
    let only_reads = command.flags.has(Flags::READONLY) && command.verb != Verb::Touch;
    if !call.session.touches_nothing || !only_reads || args.len() > STEP_ITEMS {
        return Vec::new();
    }
    let cache = call.cache();
    let uses = |key| cache.facts(key, |facts| facts.uses).map(|uses| (key, uses));
    keys_of(command, args, call.space(), cache)
        .filter_map(uses)
        .collect()
}

/// Restores them.
pub(in crate::resp) fn restore(uses: Vec<(Key<'_>, Uses)>, cache: &Cache) {
    for (key, uses) in uses {
        cache.set_uses(key, uses);
    }
}

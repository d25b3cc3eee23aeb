//! No-touch: reads of a client with CLIENT NO-TOUCH, which do not count as uses of the keys.
//!
//! The use counters of a command's keys are read before it runs and restored after it. A use by
//! another client in between is not counted either.
//!
//! Source: redis.io/docs/latest/commands/client-no-touch: TOUCH counts all the same.

use cellar_engine::{Key, Uses};
use cellar_protocol::resp::command::Flags;
use cellar_protocol::resp::{Request, Verb};

use crate::execute::resp::call::{Call, Outcome};

/// Runs a command that only reads without counting its uses.
#[cold]
pub(in crate::execute::resp) fn run(
    call: &mut Call<'_>,
    run: fn(&mut Call<'_>) -> Outcome,
) -> Outcome {
    let only_reads = call.command.flags.has(Flags::READONLY);
    if !only_reads || call.command.verb == Verb::Touch {
        return run(call);
    }
    let request = Request {
        command: Some(call.command),
        args: call.args.iter().copied().collect(),
    };
    let (cache, space) = (call.cache(), call.space());
    let keys = request
        .keys()
        .filter_map(|key| cache.key_in(space, key).ok());
    let uses = |key| cache.facts(key, |facts| facts.uses).map(|uses| (key, uses));
    let before: Vec<(Key<'_>, Uses)> = keys.filter_map(uses).collect();
    let outcome = run(call);
    for (key, uses) in before {
        cache.set_uses(key, uses);
    }
    outcome
}

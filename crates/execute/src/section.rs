//! Section: several operations on known keys as one atomic step.
//!
//! A command on several keys, a transaction or a script claims the shards of its keys
//! ([`Context::on_keys`]); other event loops wait at these shards and continue at all others.
//! Before a step accesses a key elsewhere it extends its claims ([`KeySection::cover`]). If another
//! section holds that shard, a script that has changed nothing yet restarts while no other loop
//! executes; a step that has changed something waits.
//!
//! Why: docs/decisions/0082. Tests: server/tests/sections.rs, server/tests/linearizable.rs.
//!
//! [`Context::on_keys`]: super::context::Context::on_keys

use std::cell::Cell;

use cellar_engine::{Cache, Claims, Extended, Intent, Key, Space, WantedShards};
use cellar_protocol::resp::command::Flags;
use cellar_protocol::resp::request::key_places;
use cellar_protocol::resp::{Command, Verb};

/// A fault on purpose: sections claim nothing. `make torn` sees whether the tests find it.
const IS_TORN: bool = cfg!(cellar_torn);

/// How much a command may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Its keys, as its arguments name them.
    Keys,
    /// Any key, to read it.
    AllKeys,
    /// State that is fixed only while no other loop executes: the list of databases, keys of other
    /// databases, keys computed from stored values.
    Everything,
}

impl Reach {
    /// How much this command may touch.
    pub(crate) fn of(command: &Command, args: &[&[u8]]) -> Reach {
        match command.verb {
            Verb::Flushall | Verb::Flushdb | Verb::Swapdb => Reach::Everything,
            Verb::Copy if args.len() > 4 => Reach::Everything,
            Verb::Move => Reach::Everything,
            Verb::Sort | Verb::SortRo if has_patterns(args) => Reach::Everything,
            Verb::Keys | Verb::Scan | Verb::Clusterscan | Verb::Randomkey | Verb::Dbsize => {
                Reach::AllKeys
            }
            // They may change how all commands work.
            _ if command.flags.has(Flags::ADMIN) => Reach::Everything,
            _ => Reach::Keys,
        }
    }
}

/// Whether a SORT reads keys that are made of its elements.
fn has_patterns(args: &[&[u8]]) -> bool {
    let is_pattern =
        |word: &&[u8]| word.eq_ignore_ascii_case(b"BY") || word.eq_ignore_ascii_case(b"GET");
    args.iter().skip(2).any(is_pattern)
}

/// The hashed keys of a command, without those that are too long, for which it is refused.
pub(crate) fn keys_of<'a>(
    command: &'static Command,
    args: &[&'a [u8]],
    space: Space,
    cache: &Cache,
) -> impl Iterator<Item = Key<'a>> {
    let places = key_places(command.keys, args);
    places.filter_map(move |place| cache.key_in(space, args.get(place)?).ok())
}

/// The claims that a section is about to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// The shards.
    pub(crate) shards: WantedShards,
    /// What it does there.
    pub(crate) intent: Intent,
    /// Whether it can restart as long as it has changed nothing.
    pub(crate) may_begin_anew: bool,
}

impl Wish {
    /// To do something with a command's keys.
    pub(crate) fn of(intent: Intent) -> Wish {
        Wish {
            shards: WantedShards::default(),
            intent,
            may_begin_anew: false,
        }
    }
}

/// A section in progress.
#[derive(Debug)]
pub(crate) struct KeySection<'c> {
    claims: Claims<'c>,
    may_begin_anew: bool,
    has_changed: Cell<bool>,
    /// Whether it has to restart while no other loop executes.
    is_given_up: Cell<bool>,
    /// Whether it was refused something that it would get while no other loop executes.
    was_refused: Cell<bool>,
}

/// Why a command of a section does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uncovered {
    /// The section restarts.
    GivenUp,
    /// Another section holds what the command needs, and waits for this one.
    Refused,
    /// The command only runs while no other loop executes, and the section has begun otherwise.
    Unforeseen,
}

impl<'c> KeySection<'c> {
    /// Claims what is wished for.
    pub(crate) fn begin(cache: &'c Cache, wish: &Wish) -> KeySection<'c> {
        let wanted = match IS_TORN {
            false => wish.shards,
            true => WantedShards::default(),
        };
        KeySection {
            claims: cache.claim_wanted(&wanted, wish.intent),
            may_begin_anew: wish.may_begin_anew,
            has_changed: Cell::new(false),
            is_given_up: Cell::new(false),
            was_refused: Cell::new(false),
        }
    }

    /// Ensures that everything a command accesses is claimed before it runs.
    pub(crate) fn cover(
        &self,
        (command, args): (&'static Command, &[&[u8]]),
        space: Space,
        cache: &Cache,
    ) -> Result<(), Uncovered> {
        if IS_TORN {
            return Ok(());
        }
        let may_begin_anew = self.may_begin_anew && !self.has_changed.get();
        let reach = Reach::of(command, args);
        let extended = match reach {
            Reach::Keys => {
                let claims = &self.claims;
                let mut keys = keys_of(command, args, space, cache);
                let failed = keys.find_map(|key| {
                    let extended = match may_begin_anew {
                        _ if claims.covers(key) => Extended::Claimed,
                        true => claims.extend(key),
                        false => claims.extend_waiting(key),
                    };
                    (extended != Extended::Claimed).then_some(extended)
                });
                failed.unwrap_or(Extended::Claimed)
            }
            Reach::AllKeys if may_begin_anew => self.claims.extend_to_all(),
            Reach::AllKeys => self.claims.extend_waiting_to_all(),
            Reach::Everything => Extended::Busy,
        };
        if extended == Extended::Claimed {
            let changes = [Flags::WRITE, Flags::MAY_REPLICATE];
            if changes.iter().any(|&flag| command.flags.has(flag)) {
                self.has_changed.set(true);
            }
            return Ok(());
        }
        if may_begin_anew {
            self.is_given_up.set(true);
            return Err(Uncovered::GivenUp);
        }
        self.was_refused.set(true);
        Err(match reach {
            Reach::Everything => Uncovered::Unforeseen,
            _ => Uncovered::Refused,
        })
    }

    /// Whether it has to restart.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.get()
    }

    /// Whether it was refused something.
    pub(crate) fn was_refused(&self) -> bool {
        self.was_refused.get()
    }
}

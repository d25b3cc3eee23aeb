//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Queued commands are kept as bytes and run one after the other as one step on all their keys.
//! Only if the keys of one are not known before it runs, no other event loop executes meanwhile.
//!
//! Source: redis.io/docs/latest/develop/interact/transactions.

use cellar_config::limits::{CHECKED_REPLY_BYTES_MIN, REPLY_BYTES_MAX};
use cellar_engine::{Cache, IndexHint, Intent, Key, Space};
use cellar_protocol::resp::command::Flags;
use cellar_protocol::resp::{Command, Verb};
use cellar_shared::clients::exclusive_lock::ExclusiveReason;
use cellar_shared::state::State;
use cellar_system::clock::Stopwatch;

use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use super::session::{Session, note_queued};

use super::session::queue::Transaction;
use super::{run, scripts, slots};
use crate::context::{Context, Moment};
use crate::section::{Reach, Wish, keys_of};

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
    note_queued(&call.session.client, Some(0));
    call.ok()
}

pub(super) fn discard(call: &mut Call<'_>) -> Outcome {
    if call.session.transaction.take().is_none() {
        return Err(Failure::text("ERR DISCARD without MULTI"));
    }
    note_queued(&call.session.client, None);
    call.session.unwatch(call.context.state);
    call.ok()
}

/// Discards the transaction whose EXEC was refused; how Redis says that and why.
pub(super) fn abort(session: &mut Session, state: &State, reason: &Failure) -> Failure {
    if session.transaction.take().is_some() {
        note_queued(&session.client, None);
    }
    session.unwatch(state);
    let line = reason.line();
    let reason = line.strip_prefix("ERR ").unwrap_or(&line);
    Failure::Text(format!("EXECABORT Transaction discarded because of: {reason}").into())
}

pub(super) fn exec(call: &mut Call<'_>) -> Outcome {
    let Some(transaction) = call.session.transaction.take() else {
        return Err(Failure::text("ERR EXEC without MULTI"));
    };
    note_queued(&call.session.client, None);
    if transaction.is_broken {
        call.session.unwatch(call.context.state);
        return Err(Failure::text(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    if let Err(failure) = slots::check_transaction(&transaction, call.session, call.context) {
        call.session.unwatch(call.context.state);
        return Err(failure);
    }
    let run = |call: &mut Call<'_>| {
        let is_clean = call.session.unwatch(call.context.state);
        if !is_clean {
            call.reply().null_array();
            return DONE;
        }
        call.session.answers_whole = true;
        call.session.in_exec = Some(Stopwatch::start());
        run_queued(call, &transaction);
        call.session.in_exec = None;
        call.session.answers_whole = false;
        // Each queued command has noted itself; the client's last one is EXEC.
        call.session.client.note_last_command(Verb::Exec);
        DONE
    };
    match wish_of(&transaction, call) {
        Some(wish) => call.on_keys((&wish, Moment::Present), run),
        None => call.exclusively(ExclusiveReason::Transaction, run),
    }
}

/// The keys of a transaction's commands, and those that its client watches; none if they are
/// unknown before the commands run.
fn wish_of(transaction: &Transaction, call: &Call<'_>) -> Option<Wish> {
    let mut wish = Wish::of(Intent::Read);
    if call.context.is_in_step() {
        return Some(wish);
    }
    let (cache, space, state) = (call.cache(), call.space(), call.context.state);
    let mut are_known = cache.has_claims();
    transaction.each(|command, args| {
        let may_be_anything = match command.verb {
            // The commands behind it use another database.
            Verb::Select => true,
            _ => scripts::may_touch_anything(command, args, state),
        };
        are_known &= !may_be_anything && Reach::of(command, args) == Reach::Keys;
        if are_known {
            if !only_reads(command) {
                wish.intent = Intent::Write;
            }
            let keys = keys_of(command, args, space, cache);
            keys.for_each(|key| cache.want(&mut wish.shards, key));
        }
    });
    call.session.watched.want(&mut wish.shards, state);
    are_known.then_some(wish)
}

/// How far ahead of a command the cache gets a hint of its key, and how far ahead its item is
/// looked up.
const KEYS_AHEAD: usize = 16;
const ITEMS_AHEAD: usize = 8;

/// The first keys of a transaction's next commands, each hashed once, for the database of the
/// first command.
struct KeysAhead<'t> {
    transaction: &'t Transaction,
    space: Space,
    ring: [Option<(Key<'t>, IndexHint)>; KEYS_AHEAD],
}

impl<'t> KeysAhead<'t> {
    fn of(transaction: &'t Transaction, call: &Call<'_>) -> KeysAhead<'t> {
        let mut keys = KeysAhead {
            transaction,
            space: call.space(),
            ring: [None; KEYS_AHEAD],
        };
        (0..KEYS_AHEAD - 1).for_each(|place| keys.look_at(place, call.cache()));
        (0..ITEMS_AHEAD).for_each(|place| keys.hint_item(place, call.cache()));
        keys
    }

    fn look_at(&mut self, place: usize, cache: &Cache) {
        let key = self.transaction.first_key(place);
        let key = key.and_then(|key| cache.key_in(self.space, key).ok());
        self.ring[place % KEYS_AHEAD] = key.map(|key| (key, cache.hint_read(key)));
    }

    fn hint_item(&self, place: usize, cache: &Cache) {
        if let Some((_, hint)) = self.ring[place % KEYS_AHEAD] {
            cache.hint_item(hint);
        }
    }

    /// The key of the command at this position; called for each position in order.
    fn next(&mut self, place: usize, cache: &Cache) -> Option<Key<'t>> {
        self.look_at(place + KEYS_AHEAD - 1, cache);
        self.hint_item(place + ITEMS_AHEAD, cache);
        self.ring[place % KEYS_AHEAD].map(|(key, _)| key)
    }
}

/// Why a transaction answers no further commands.
const TOO_LONG: &str = "ERR the replies before are too long";
const TOO_LITTLE_MEMORY: &str =
    "ERR the replies before need more memory than --client-memory has free";

/// Runs all commands and answers as many as fit into one reply and into free client memory. The
/// others run as well, and an error in their place says that their reply is left out. The loop
/// serves no other client meanwhile, so all of them together have the time of one script; those
/// after it are not run, and an error in their place says so.
fn run_queued(call: &mut Call<'_>, transaction: &Transaction) {
    let first = call.output.bytes().len();
    call.reply().array(transaction.len());
    let (mut left_out, mut args) = (None, Vec::new());
    let mut keys = KeysAhead::of(transaction, call);
    for place in 0..transaction.len() {
        let command = transaction.command(place, &mut args);
        let key = keys.next(place, call.cache());
        let start = call.output.bytes().len();
        if call.script_ms_left() == 0 {
            call.reply().error("ERR the commands before took too long");
            continue;
        }
        if left_out.is_none() || !only_reads(command) {
            let (session, context) = (&mut *call.session, call.context);
            run(command, &args, key, session, context, call.output);
            let bytes = call.output.bytes().len() - first;
            left_out = left_out.or_else(|| why_left_out(call.context, bytes));
        }
        if let Some(reason) = left_out {
            call.output.truncate(start);
            call.reply().error(reason);
        }
    }
    if left_out.is_some() {
        // The memory of the dropped reply is freed.
        call.output.bytes().shrink_to_fit();
    }
}

/// Why a transaction whose replies have so many bytes includes no further ones, if so.
fn why_left_out(context: Context<'_>, bytes: usize) -> Option<&'static str> {
    if bytes > REPLY_BYTES_MAX {
        return Some(TOO_LONG);
    }
    let budget = &context.state.budget;
    let is_admitted =
        bytes <= CHECKED_REPLY_BYTES_MIN || budget.admits_reply(context.pass.index(), bytes);
    (!is_admitted).then_some(TOO_LITTLE_MEMORY)
}

/// Whether a command changes nothing that lasts.
fn only_reads(command: &Command) -> bool {
    command.flags.has(Flags::READONLY)
}

pub(super) fn watch(call: &mut Call<'_>) -> Outcome {
    if call.session.transaction.is_some() {
        return Err(Failure::text("ERR WATCH inside MULTI is not allowed"));
    }
    let state = call.context.state;
    let session = &mut *call.session;
    for key in &call.args[1..] {
        let (database, client) = (session.database, &session.client);
        session.watched.add(key, database, client, state)?;
    }
    call.ok()
}

pub(super) fn unwatch(call: &mut Call<'_>) -> Outcome {
    call.session.unwatch(call.context.state);
    call.ok()
}

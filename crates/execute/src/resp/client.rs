//! CLIENT: the connected clients, and the settings of one's own connection.
//!
//! Source: redis.io/docs/latest/commands/client-list and its neighbours, in the form of 7.4.
//! Tests: server/tests/resp_clients.rs.

pub(super) mod filter;
pub(super) mod tracking;
pub(super) mod no_touch; // reads that count as no use
pub(super) mod connection;
pub(super) mod echo;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cellar_config::limits::CLIENT_NAME_BYTES_MAX;
use cellar_protocol::resp::Reply;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::auth::users::DEFAULT_USER;
use cellar_shared::clients::client::Client;
use cellar_shared::clients::waiters::WaitEnd;

use self::connection::{LONG_NAME, set_name};
use self::filter::Filter;
use super::call::{Call, DONE, Outcome};
use super::failure::Failure;
use super::listing::describe;

use super::call::steps::Progress;
use super::session::ReplyMode;
use crate::context::Flow;

pub(super) fn id(call: &mut Call<'_>) -> Outcome {
    let id = call.session.client.id;
    call.integer(i64::try_from(id).unwrap_or(i64::MAX))
}

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let client = Arc::clone(&call.session.client);
    let line = describe(&client, call.now().0);
    call.reply().verbatim(&line);
    DONE
}

/// Lines of a listing made in one step.
const LINES_MAX: usize = 512;

pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    let databases = call.context.state.databases.count();
    let filter = Filter::of_list(&call.args[2..], call.session.client.id, databases)?;
    are_known(call, filter.users())?;
    let (now_ms, proto) = (call.now().0, call.session.proto);
    let user = call.session.identity.last_user();
    let own = user.filter(|user| user.is_limited());
    let is_for_it =
        |client: &Client| own.is_none_or(|user| client.facts().user() == Some(&user.name));
    let is_shown = |client: &Arc<Client>| {
        !client.is_gone() && filter.takes(client, now_ms) && is_for_it(client)
    };
    let mut clients = call.context.state.clients.list();
    clients.retain(is_shown);
    let (mut clients, mut text) = (clients.into_iter(), String::new());
    call.in_steps(move |_, output| {
        for client in clients.by_ref().take(LINES_MAX) {
            text.push_str(&describe(&client, now_ms));
        }
        if clients.len() > 0 {
            return Progress::More;
        }
        Reply::new(output.bytes(), proto).verbatim(&text);
        Progress::Last
    })
}

/// Refuses the name of a user that does not exist.
fn are_known<'n>(
    call: &Call<'_>,
    mut names: impl Iterator<Item = &'n [u8]>,
) -> Result<(), Failure> {
    let users = call.context.state.access.users.as_deref();
    let is_unknown = |name: &&[u8]| {
        *name != DEFAULT_USER.as_bytes() && users.is_none_or(|users| users.describe(name).is_none())
    };
    match names.find(is_unknown) {
        Some(name) => {
            let name = String::from_utf8_lossy(name);
            Err(Failure::Text(format!("ERR No such user '{name}'").into()))
        }
        None => Ok(()),
    }
}

pub(super) fn kill(call: &mut Call<'_>) -> Outcome {
    let own = call.session.client.id;
    let (filter, is_old) = match call.args {
        [_, _, address] => (Filter::of_address(address), true),
        _ => {
            let databases = call.context.state.databases.count();
            (Filter::of_kill(&call.args[2..], own, databases)?, false)
        }
    };
    are_known(call, filter.users())?;
    let mut count = 0;
    let mut is_own = false;
    for client in call.context.state.clients.list() {
        if client.is_gone() || !filter.takes(&client, call.now().0) {
            continue;
        }
        count += 1;
        if client.id == own {
            is_own = true;
        } else {
            client.kill();
        }
    }
    match (is_old, count) {
        (true, 0) => return Err(Failure::text("ERR No such client")),
        (true, _) => call.reply().ok(),
        (false, _) => call.reply().integer(count),
    }
    if is_own {
        call.session.leave(call.context.state);
        return Ok(Flow::Close);
    }
    DONE
}

pub(super) fn setname(call: &mut Call<'_>) -> Outcome {
    set_name(call, call.args[2])?;
    call.ok()
}

pub(super) fn getname(call: &mut Call<'_>) -> Outcome {
    let name = call.session.client.facts().name.clone();
    if name.is_empty() {
        call.reply().null();
    } else {
        call.reply().bulk(name);
    }
    DONE
}

pub(super) fn setinfo(call: &mut Call<'_>) -> Outcome {
    let (field, value) = (call.args[2], call.args[3]);
    let name = String::from_utf8_lossy(field).to_lowercase();
    if !matches!(&*name, "lib-name" | "lib-ver") {
        let text = format!(
            "ERR Unrecognized option '{}'",
            String::from_utf8_lossy(field)
        );
        return Err(Failure::Text(text.into()));
    }
    if value.len() > CLIENT_NAME_BYTES_MAX {
        return Err(LONG_NAME);
    }
    if !value.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        let text = format!("ERR {name} cannot contain spaces, newlines or special characters.");
        return Err(Failure::Text(text.into()));
    }
    let mut facts = call.session.client.facts();
    if name == "lib-name" {
        facts.library = value.to_vec();
    } else {
        facts.library_version = value.to_vec();
    }
    drop(facts);
    call.ok()
}

pub(super) fn reply(call: &mut Call<'_>) -> Outcome {
    let word = call.args[2];
    let mode = &mut call.session.reply_mode;
    if word.eq_ignore_ascii_case(b"on") {
        *mode = ReplyMode::On;
        return call.ok();
    }
    if word.eq_ignore_ascii_case(b"off") {
        *mode = ReplyMode::Off;
    } else if !word.eq_ignore_ascii_case(b"skip") {
        return Err(Failure::Syntax);
    } else if *mode != ReplyMode::Off {
        *mode = ReplyMode::SkipNext;
    }
    DONE
}

pub(super) fn no_evict(call: &mut Call<'_>) -> Outcome {
    wish(call, 0)
}

pub(super) fn no_touch(call: &mut Call<'_>) -> Outcome {
    let outcome = wish(call, 1)?;
    call.session.touches_nothing = call.args[2].eq_ignore_ascii_case(b"on");
    Ok(outcome)
}

/// The capability of a client that wants lost slots by number, rather than as a flush of all.
const HEARS_SLOTS: &[u8] = b"invalidate-slots";

/// The capability that listings show; it has no effect, since no node redirects all requests.
const FOLLOWS_REDIRECTS: &[u8] = b"redirect";

/// CLIENT CAPA: what is not known is passed over, as Valkey does.
pub(super) fn capa(call: &mut Call<'_>) -> Outcome {
    let has = |wanted: &[u8]| {
        let mut told = call.args[2..].iter();
        told.any(|word| word.eq_ignore_ascii_case(wanted))
    };
    let client = &call.session.client;
    if has(HEARS_SLOTS) {
        // Relaxed: an option; a loss at the same moment may miss it.
        client.wishes[2].store(true, Ordering::Relaxed);
    }
    if has(FOLLOWS_REDIRECTS) {
        // Relaxed: a fact for listings.
        client.follows_redirects.store(true, Ordering::Relaxed);
    }
    call.ok()
}

fn wish(call: &mut Call<'_>, place: usize) -> Outcome {
    let is_on = call.args[2].eq_ignore_ascii_case(b"on");
    if !is_on && !call.args[2].eq_ignore_ascii_case(b"off") {
        return Err(Failure::Syntax);
    }
    call.session.client.wishes[place].store(is_on, Ordering::Relaxed);
    call.ok()
}

/// Ends a client's wait for a value.
pub(super) fn unblock(call: &mut Call<'_>) -> Outcome {
    let end = match call.args.get(3) {
        None => WaitEnd::TimeOut,
        Some(reason) if reason.eq_ignore_ascii_case(b"timeout") => WaitEnd::TimeOut,
        Some(reason) if reason.eq_ignore_ascii_case(b"error") => WaitEnd::Unblocked,
        Some(_) => {
            return Err(Failure::text(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            ));
        }
    };
    let id = parse_integer(call.args[2]).ok_or(Failure::NotInteger)?;
    let observer = &call.context.state.observer;
    let waiter = u64::try_from(id).ok();
    let waiter = waiter.and_then(|id| observer.waiters.of_client(id));
    let waiter = waiter.filter(|waiter| observer.end_wait(waiter, end));
    if let Some(waiter) = &waiter {
        waiter.request.client.call();
    }
    call.integer(waiter.is_some().into())
}

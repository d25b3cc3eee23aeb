//! CLIENT TRACKING and related commands.
//!
//! Keys are registered before the command runs, so no change is missed between its reads and the
//! registration. Source: redis.io/docs/latest/develop/reference/client-side-caching; the replies
//! and their texts are those of redis-server 7. Tests: server/tests/resp_tracking.rs.

use std::sync::Arc;

use cellar_config::limits::{PREFIX_BYTES_MAX, PREFIX_LENGTH_MAX, TRACKED_KEYS_MAX, entry_bytes};
use cellar_protocol::resp::command::Flags;
use cellar_protocol::resp::number::parse_integer;
use cellar_protocol::resp::{Request, Verb};
use cellar_shared::auth::users::{Role, User};
use cellar_shared::clients::client::Client;
use cellar_shared::clients::tracking::{Mode, as_writer};

use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::listing::redirection;

use crate::resp::session::Session;

/// Runs `run` so that a client with NOLOOP is not notified of its own changes.
pub(in crate::resp) fn write_as<R>(client: &Client, run: impl FnOnce() -> R) -> R {
    if Mode::of(client).has(Mode::NOLOOP) {
        as_writer(client.id, run)
    } else {
        run()
    }
}

/// The client that the keys of a reading command are registered for.
pub(in crate::resp) fn reader(session: &Session) -> Option<Arc<Client>> {
    let Session {
        tracked, client, ..
    } = session;
    (tracked.is_on && tracked.remembers(client)).then(|| Arc::clone(client))
}

/// Registers the keys of a reading command, unless it does so itself.
///
/// # Errors
/// That they are too many.
pub(in crate::resp) fn remember(call: &Call<'_>) -> Result<(), Failure> {
    let remembers_not = matches!(
        call.command.verb,
        Verb::EvalRo | Verb::EvalshaRo | Verb::FcallRo | Verb::Mget
    );
    if !call.command.flags.has(Flags::READONLY) || remembers_not {
        return Ok(());
    }
    let client = reader(call.session);
    let request = Request {
        command: Some(call.command),
        args: call.args.iter().copied().collect(),
    };
    // Fewer arguments cannot be more keys.
    let may_be_too_many = client.is_some() && call.args.len() > TRACKED_KEYS_MAX;
    if may_be_too_many && request.keys().count() > TRACKED_KEYS_MAX {
        return Err(Failure::text(
            "ERR too many keys for a command whose client tracks them",
        ));
    }
    let (observer, space) = (&call.context.state.observer, call.space());
    for key in request.keys() {
        if let Some(client) = &client {
            observer.tracking.remember(key, client);
        }
        if let Ok(key) = call.cache().key_in(space, key) {
            observer.note_read(key, call.cache());
        }
    }
    Ok(())
}

/// The error for a user who may not use all databases.
const OF_DATABASES: Failure = Failure::text(
    "NOPERM Tracking tells of keys of all databases, and this user may not use all of them",
);

/// The arguments of CLIENT TRACKING.
#[derive(Default)]
struct TrackingOptions<'a> {
    mode: Mode,
    redirect: Option<Arc<Client>>,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> TrackingOptions<'a> {
    fn parse(call: &Call<'a>) -> Result<TrackingOptions<'a>, Failure> {
        let mut options = TrackingOptions::default();
        let mut args = call.args[3..].iter();
        while let Some(&word) = args.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("redirect") && args.len() > 0 {
                if options.redirect.is_some() {
                    return Err(Failure::text(
                        "ERR A client can only redirect to a single other client",
                    ));
                }
                options.redirect = redirect(call, args.next().copied().unwrap_or_default())?;
            } else if is("prefix") && args.len() > 0 {
                options.prefixes.extend(args.next());
            } else if is("bcast") {
                options.mode = options.mode.and(Mode::BCAST);
            } else if is("optin") {
                options.mode = options.mode.and(Mode::OPTIN);
            } else if is("optout") {
                options.mode = options.mode.and(Mode::OPTOUT);
            } else if is("noloop") {
                options.mode = options.mode.and(Mode::NOLOOP);
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(options)
    }

    /// Refuses what does not go together, or with what the client has now.
    fn check(&self, session: &Session) -> Result<(), Failure> {
        let (mode, present) = (self.mode, Mode::of(&session.client));
        let text = if !mode.has(Mode::BCAST) && !self.prefixes.is_empty() {
            "ERR PREFIX option requires BCAST mode to be enabled"
        } else if session.tracked.is_on && mode.has(Mode::BCAST) != present.has(Mode::BCAST) {
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and \
             then re-enabling it with a different mode."
        } else if mode.has(Mode::BCAST) && (mode.has(Mode::OPTIN) || mode.has(Mode::OPTOUT)) {
            "ERR OPTIN and OPTOUT are not compatible with BCAST"
        } else if mode.has(Mode::OPTIN) && mode.has(Mode::OPTOUT) {
            "ERR You can't specify both OPTIN mode and OPTOUT mode"
        } else if mode.has(Mode::OPTIN) && present.has(Mode::OPTOUT)
            || mode.has(Mode::OPTOUT) && present.has(Mode::OPTIN)
        {
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and \
             then re-enabling it with a different mode."
        } else {
            return Ok(());
        };
        Err(Failure::text(text))
    }

    /// Refuses prefixes beyond those of a user, who gets its own prefixes by default; and users
    /// limited to some databases, because invalidations name keys of any database.
    fn confine(&mut self, user: &'a User) -> Result<(), Failure> {
        if !user.databases.is_empty() {
            return Err(OF_DATABASES);
        }
        if !self.prefixes.iter().all(|prefix| user.may_use(prefix)) {
            return Err(Failure::text("NOPERM No permissions to access a key"));
        }
        if self.mode.has(Mode::BCAST) && self.prefixes.is_empty() {
            self.prefixes = user.prefixes.iter().map(|prefix| &**prefix).collect();
        }
        Ok(())
    }

    /// Refuses prefixes that are too long or too many, and those that begin with another one.
    fn check_prefixes(&self, session: &Session) -> Result<(), Failure> {
        if self
            .prefixes
            .iter()
            .any(|prefix| prefix.len() > PREFIX_LENGTH_MAX)
        {
            return Err(Failure::text("ERR a prefix is longer than 128 bytes"));
        }
        let asked = self.prefixes.iter().map(|prefix| entry_bytes(prefix));
        if session.tracked.held_bytes() + asked.sum::<usize>() > PREFIX_BYTES_MAX {
            return Err(Failure::text("ERR too many prefixes"));
        }
        // Each with its position among the requested ones.
        let present = session.tracked.prefixes.iter().map(|it| (&**it, None));
        let asked = self.prefixes.iter().copied().zip((0..).map(Some));
        let mut all: Vec<(&[u8], Option<usize>)> = present.chain(asked).collect();
        // A longer prefix sorts behind its beginning, so a conflict is with the next in order.
        all.sort();
        for pair in all.windows(2) {
            let [(prefix, place), (longer, longer_place)] = *pair else {
                continue;
            };
            if longer.starts_with(prefix) {
                return Err(match (place, longer_place) {
                    (None, _) => overlapping(longer, "an existing", prefix),
                    (_, None) => overlapping(prefix, "an existing", longer),
                    (one, other) if one < other => overlapping(prefix, "another provided", longer),
                    _ => overlapping(longer, "another provided", prefix),
                });
            }
        }
        Ok(())
    }
}

/// The client with this number; none for 0.
fn redirect(call: &Call<'_>, number: &[u8]) -> Result<Option<Arc<Client>>, Failure> {
    let number = parse_integer(number).ok_or(Failure::NotInteger)?;
    if number == 0 {
        return Ok(None);
    }
    let id = u64::try_from(number).ok();
    let found = id.and_then(|id| call.context.state.clients.find(id));
    // A user's invalidations are for no other user, and no client is sent what it did not ask for.
    let own = call
        .session
        .identity
        .last_user()
        .filter(|user| user.role < Role::Admin || user.is_limited());
    let is_its =
        |client: &Arc<Client>| own.is_none_or(|user| client.facts().user() == Some(&user.name));
    let found = found.filter(is_its);
    found.map(Some).ok_or(Failure::text(
        "ERR The client ID you want redirect to does not exist",
    ))
}

fn overlapping(prefix: &[u8], which: &str, other: &[u8]) -> Failure {
    let (prefix, other) = (
        String::from_utf8_lossy(prefix),
        String::from_utf8_lossy(other),
    );
    let text = format!(
        "ERR Prefix '{prefix}' overlaps with {which} prefix '{other}'. Prefixes for a single \
         client must not overlap."
    );
    Failure::Text(text.into())
}

pub(in crate::resp) fn tracking(call: &mut Call<'_>) -> Outcome {
    let user = call.session.identity.last_user().cloned();
    let mut options = TrackingOptions::parse(call)?;
    let state = call.context.state;
    let session = &mut *call.session;
    if call.args[2].eq_ignore_ascii_case(b"off") {
        session.tracked.end(&session.client, state);
        return call.ok();
    }
    if !call.args[2].eq_ignore_ascii_case(b"on") {
        return Err(Failure::Syntax);
    }
    options.check(session)?;
    if let Some(user) = &user {
        options.confine(user)?;
    }
    if options.mode.has(Mode::BCAST) {
        options.check_prefixes(session)?;
        let all: &[&[u8]] = &[b""];
        let is_for_all = options.prefixes.is_empty();
        let asked = if is_for_all { all } else { &options.prefixes };
        asked.iter().for_each(|prefix| session.tracked.add(prefix));
    }
    session.tracked.is_on = true;
    let TrackingOptions {
        mode,
        redirect,
        prefixes,
    } = options;
    let observer = &state.observer;
    observer.track(&session.client, mode, redirect, &prefixes);
    call.ok()
}

pub(in crate::resp) fn caching(call: &mut Call<'_>) -> Outcome {
    let mode = Mode::of(&call.session.client);
    if !mode.has(Mode::ON) {
        return Err(Failure::text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN \
             or OPTOUT mode enabled",
        ));
    }
    let refusal = if call.args[2].eq_ignore_ascii_case(b"yes") {
        let text = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
        (!mode.has(Mode::OPTIN)).then_some(text)
    } else if call.args[2].eq_ignore_ascii_case(b"no") {
        let text = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
        (!mode.has(Mode::OPTOUT)).then_some(text)
    } else {
        return Err(Failure::Syntax);
    };
    if let Some(text) = refusal {
        return Err(Failure::text(text));
    }
    call.session.tracked.caching = true;
    call.ok()
}

pub(in crate::resp) fn getredir(call: &mut Call<'_>) -> Outcome {
    let number = redirection(&call.session.client);
    call.integer(number)
}

pub(in crate::resp) fn trackinginfo(call: &mut Call<'_>) -> Outcome {
    let mode = Mode::of(&call.session.client);
    let tracked = &call.session.tracked;
    let facts = [
        (!mode.has(Mode::ON), "off"),
        (mode.has(Mode::ON), "on"),
        (mode.has(Mode::BCAST), "bcast"),
        (mode.has(Mode::OPTIN), "optin"),
        (mode.has(Mode::OPTIN) && tracked.caching, "caching-yes"),
        (mode.has(Mode::OPTOUT), "optout"),
        (mode.has(Mode::OPTOUT) && tracked.caching, "caching-no"),
        (mode.has(Mode::NOLOOP), "noloop"),
        (mode.has(Mode::BROKEN), "broken_redirect"),
    ];
    let flags: Vec<&str> = facts
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
        .collect();
    let prefixes = tracked.prefixes.clone();
    let redirect = redirection(&call.session.client);
    let mut reply = call.reply();
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    DONE
}

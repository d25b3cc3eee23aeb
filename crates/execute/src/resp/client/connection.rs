//! Connection commands: a client's login, protocol version and database.
//!
//! Source: redis.io/docs/latest/commands/hello and its neighbours.

use std::sync::atomic::Ordering;

use cellar_config::limits::CLIENT_NAME_BYTES_MAX;
use cellar_config::parameters::REDIS_VERSION;
use cellar_protocol::resp::Proto;
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::auth::login_limiter::{LoginAttempt, PER_CONNECTION_MAX, Source};
use cellar_shared::auth::users::{DEFAULT_USER, Identity, Login, LoginResult, Users};
use cellar_shared::observe::acl_log::AclLogReason;

use crate::resp::append_failure;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;

use crate::context::Flow;
use crate::resp::session::{ReplyMode, Session};

/// The error for a number that does not fit into Redis's `int`.
const OUTSIDE_OF_INT: Failure =
    Failure::text("ERR value is out of range, value must between -2147483648 and 2147483647");

const HELLO_FIRST: Failure = Failure::text(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
     <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
     protocol version at the same time",
);

const BUSY: Failure = Failure::text("ERR too many passwords wait to be checked; try again");

const WRONG_PASSWORD: Failure =
    Failure::text("WRONGPASS invalid username-password pair or user is disabled.");

pub(in crate::resp) fn select(call: &mut Call<'_>) -> Outcome {
    let database = database(call, call.args[1])?;
    call.session.select(database);
    call.ok()
}

/// The number of a database that exists, and that the client's user may use.
pub(in crate::resp) fn database(call: &Call<'_>, number: &[u8]) -> Result<u32, Failure> {
    let number = parse_integer(number).ok_or(Failure::NotInteger)?;
    let number = i32::try_from(number).map_err(|_| OUTSIDE_OF_INT)?;
    let databases = call.context.state.databases.count();
    if number != 0 && databases == 1 && call.context.state.cluster.is_some() {
        return Err(Failure::text("ERR SELECT is not allowed in cluster mode"));
    }
    let number = u32::try_from(number).ok();
    let number = number.filter(|&number| (number as usize) < databases);
    let number = number.ok_or(Failure::text("ERR DB index is out of range"))?;
    match call.session.identity.last_user() {
        Some(user) if !user.may_use_database(number) => {
            Err(Failure::text("NOPERM No permissions to access a database"))
        }
        _ => Ok(number),
    }
}

pub(in crate::resp) fn hello(call: &mut Call<'_>) -> Outcome {
    let mut args = call.args[1..].iter();
    let proto = match args.next() {
        None => call.session.proto,
        Some(version) => match parse_integer(version) {
            Some(2) => Proto::V2,
            Some(3) => Proto::V3,
            Some(_) => return Err(Failure::text("NOPROTO unsupported protocol version")),
            None => {
                return Err(Failure::text(
                    "ERR Protocol version is not an integer or out of range",
                ));
            }
        },
    };
    let (mut name, mut secrets) = (None, None);
    while let Some(&option) = args.next() {
        if option.eq_ignore_ascii_case(b"AUTH") && args.len() >= 2 {
            secrets = args.next().zip(args.next());
        } else if option.eq_ignore_ascii_case(b"SETNAME") && args.len() >= 1 {
            name = args.next().copied();
        } else {
            let option = String::from_utf8_lossy(option);
            let text = format!("ERR Syntax error in HELLO option '{option}'");
            return Err(Failure::Text(text.into()));
        }
    }
    let known = match secrets {
        Some((user, password)) => match enter(call, Some(user), password)? {
            Admission::Known(login) => Some(login),
            Admission::Not(flow) => return Ok(flow),
        },
        None if call.session.identity.is_known() => None,
        None => return Err(HELLO_FIRST),
    };
    if let Some(name) = name {
        set_name(call, name)?;
    }
    if let Some(login) = known {
        admit(call, login);
    }
    call.session.set_proto(proto);
    let (number, id) = (i64::from(proto == Proto::V3) + 2, call.session.client.id);
    let mode = call.context.state.mode();
    let mut reply = call.reply();
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(number);
    reply.bulk(b"id");
    reply.integer(i64::try_from(id).unwrap_or(i64::MAX));
    for (field, value) in [("mode", mode), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    DONE
}

/// The refusal of a name that is too long.
pub(in crate::resp) const LONG_NAME: Failure =
    Failure::text("ERR the name is longer than 4096 bytes");

/// Gives the client a name that listings show.
pub(in crate::resp) fn set_name(call: &Call<'_>, name: &[u8]) -> Result<(), Failure> {
    if name.len() > CLIENT_NAME_BYTES_MAX {
        return Err(LONG_NAME);
    }
    let is_plain = |byte: &u8| (b'!'..=b'~').contains(byte);
    if !name.iter().all(is_plain) {
        return Err(Failure::text(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    call.session.client.facts().name = name.to_vec();
    Ok(())
}

/// The result of checking a user and password.
enum Admission {
    /// They are right, for this user if users are configured.
    Known(Option<Login>),
    /// They are wrong or still being checked: the connection ends, or waits.
    Not(Flow),
}

/// Checks user and password; without a users file the only user is `default`.
fn enter(call: &mut Call<'_>, user: Option<&[u8]>, password: &[u8]) -> Result<Admission, Failure> {
    match &call.context.state.access.users {
        Some(users) => enter_as_user(call, users, (user, password)),
        None => enter_with_password(call, user, password),
    }
}

/// Compares a password with the one that all clients have.
///
/// Nothing is compared for an address that was wrong too often, and a connection on which too many
/// were wrong ends.
fn enter_with_password(
    call: &mut Call<'_>,
    user: Option<&[u8]>,
    password: &[u8],
) -> Result<Admission, Failure> {
    let state = call.context.state;
    let expected = state.settings.secrets.resp.as_bytes();
    let is_user = user.is_none_or(|user| user == DEFAULT_USER.as_bytes());
    if expected.is_empty() {
        return if is_user {
            Ok(Admission::Known(None))
        } else {
            Err(WRONG_PASSWORD)
        };
    }
    let source = Source::of(&call.session.client.seat.told());
    // A wrong user's password is compared with nothing that it could be.
    let given = if is_user { password } else { b"" };
    let now_ms = call.cache().now().0;
    match state
        .access
        .login_limiter
        .compare(source, now_ms, given, expected)
    {
        LoginAttempt::Right => Ok(Admission::Known(None)),
        LoginAttempt::Wrong => refuse_password(call, user.unwrap_or(DEFAULT_USER.as_bytes())),
        LoginAttempt::TooMany { wait_s } => Ok(close(call, &too_many(wait_s))),
    }
}

/// Checks a password of a user.
fn enter_as_user(
    call: &mut Call<'_>,
    users: &Users,
    (user, password): (Option<&[u8]>, &[u8]),
) -> Result<Admission, Failure> {
    let secrets = (user.unwrap_or(DEFAULT_USER.as_bytes()), password);
    let session = &mut *call.session;
    let peer = session.client.seat.told();
    match session.pending.log_in(users, secrets, &peer, call.context) {
        Err(ticket) => Ok(Admission::Not(Flow::Wait(ticket))),
        Ok(LoginResult::Right(login)) => Ok(Admission::Known(Some(login))),
        Ok(LoginResult::Wrong) => refuse_password(call, secrets.0),
        Ok(LoginResult::TooMany { wait_s }) => Ok(close(call, &too_many(wait_s))),
        Ok(LoginResult::Busy) => Err(BUSY),
    }
}

/// Assigns the connection to the user who has logged in.
fn admit(call: &mut Call<'_>, login: Option<Login>) {
    let state = call.context.state;
    match (login, &state.access.users) {
        (Some(login), Some(users)) => call.session.log_in(login, users, state),
        _ => call.session.identity = Identity::Free,
    }
}

/// Answers a wrong name or password; ACL LOG records the name.
fn refuse_password(call: &mut Call<'_>, user: &[u8]) -> Result<Admission, Failure> {
    let object = call.args[0].to_vec();
    let state = call.context.state;
    let reason = AclLogReason::Auth;
    call.session.note_refused(reason, (object, user), state);
    let wrong = call.session.wrong_passwords.saturating_add(1);
    call.session.wrong_passwords = wrong;
    if wrong < PER_CONNECTION_MAX {
        return Err(WRONG_PASSWORD);
    }
    Ok(close(call, &WRONG_PASSWORD))
}

fn too_many(wait_s: u64) -> Failure {
    let text = format!(
        "ERR too many wrong passwords came from this address; the next is looked at in {wait_s} s"
    );
    Failure::Text(text.into())
}

/// Sends a client the reason for closing its connection.
fn close(call: &mut Call<'_>, failure: &Failure) -> Admission {
    append_failure(failure, call.session.proto, call.context, call.output);
    Admission::Not(Flow::Close)
}

pub(in crate::resp) fn auth(call: &mut Call<'_>) -> Outcome {
    let (user, password) = match call.args {
        [_, password] => (None, *password),
        [_, user, password] => (Some(*user), *password),
        _ => return Err(Failure::Syntax),
    };
    let state = call.context.state;
    if user.is_none() && state.settings.secrets.resp.is_empty() && state.access.users.is_none() {
        return Err(Failure::text(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ));
    }
    match enter(call, user, password)? {
        Admission::Known(login) => {
            admit(call, login);
            call.ok()
        }
        Admission::Not(flow) => Ok(flow),
    }
}

pub(in crate::resp) fn quit(call: &mut Call<'_>) -> Outcome {
    call.reply().ok();
    // Other clients no longer see it, however long the connection still takes to close.
    call.session.leave(call.context.state);
    Ok(Flow::Close)
}

pub(in crate::resp) fn reset(call: &mut Call<'_>) -> Outcome {
    let state = call.context.state;
    let session = &mut *call.session;
    session.forget_all(state);
    session.empty_inbox(call.output);
    session.reply_mode = ReplyMode::On;
    session.touches_nothing = false;
    for wish in &session.client.wishes {
        // Relaxed: wishes order nothing.
        wish.store(false, Ordering::Relaxed);
    }
    session.set_proto(Proto::V2);
    session.select(0);
    session.identity = Session::first_identity(state);
    let mut facts = session.client.facts();
    (facts.name, facts.login) = (Vec::new(), None);
    drop(facts);
    call.reply().simple("RESET");
    DONE
}

//! Connection commands: who a client is, what it speaks, which database it uses.
//!
//! Source: redis.io/docs/latest/commands/hello and its neighbours.

use cellar_protocol::resp::Proto;
use cellar_protocol::resp::number::parse_integer;

use crate::execute::resp::append_failure;
use crate::execute::resp::call::{Call, DONE, Outcome};
use crate::execute::resp::client::filter::note_queued;
use crate::execute::resp::failure::Failure;

use crate::execute::context::Flow;
use crate::execute::resp::session::ReplyMode;
use crate::guesses::{Guess, PER_CONNECTION_MAX, Source};
use crate::parameters::REDIS_VERSION;

/// The answer to a number that Redis would not take for an `int`.
const OUTSIDE_OF_INT: Failure =
    Failure::text("ERR value is out of range, value must between -2147483648 and 2147483647");

const WRONG_PASSWORD: Failure =
    Failure::text("WRONGPASS invalid username-password pair or user is disabled.");

pub(in crate::execute::resp) fn ping(call: &mut Call<'_>) -> Outcome {
    if call.session.is_confined() && call.args.len() <= 2 {
        let message = call.args.get(1).copied().unwrap_or_default();
        let mut reply = call.reply();
        reply.array(2);
        reply.bulk(b"pong");
        reply.bulk(message);
        return DONE;
    }
    match call.args {
        [_] => call.reply().simple("PONG"),
        [_, message] => {
            let message = *message;
            call.reply().bulk(message);
        }
        _ => {
            return Err(Failure::text(
                "ERR wrong number of arguments for 'ping' command",
            ));
        }
    }
    DONE
}

pub(in crate::execute::resp) fn echo(call: &mut Call<'_>) -> Outcome {
    let message = call.args[1];
    call.reply().bulk(message);
    DONE
}

pub(in crate::execute::resp) fn select(call: &mut Call<'_>) -> Outcome {
    let database = database(call, call.args[1])?;
    call.session.select(database);
    call.ok()
}

/// The number of a database that exists.
pub(in crate::execute::resp) fn database(call: &Call<'_>, number: &[u8]) -> Result<u32, Failure> {
    let number = parse_integer(number).ok_or(Failure::NotInteger)?;
    let number = i32::try_from(number).map_err(|_| OUTSIDE_OF_INT)?;
    let number = u32::try_from(number).ok();
    let number = number.filter(|&n| (n as usize) < call.context.state.databases.count());
    number.ok_or(Failure::text("ERR DB index is out of range"))
}

pub(in crate::execute::resp) fn hello(call: &mut Call<'_>) -> Outcome {
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
    let mut name = None;
    let mut is_known = call.session.is_known;
    while let Some(&option) = args.next() {
        if option.eq_ignore_ascii_case(b"AUTH") && args.len() >= 2 {
            let (user, password) = (args.next(), args.next());
            match enter(call, user.copied(), password.copied())? {
                Login::Known => is_known = true,
                Login::Closed => return Ok(Flow::Close),
            }
        } else if option.eq_ignore_ascii_case(b"SETNAME") && args.len() >= 1 {
            name = args.next().copied();
        } else {
            let option = String::from_utf8_lossy(option);
            let text = format!("ERR Syntax error in HELLO option '{option}'");
            return Err(Failure::Text(text.into()));
        }
    }
    if !is_known {
        return Err(Failure::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        set_name(call, name)?;
    }
    call.session.is_known = true;
    call.session.set_proto(proto);
    let (number, id) = (i64::from(proto == Proto::V3) + 2, call.session.client.id);
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
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    DONE
}

/// Longest name of a client, of its library and of that one's version.
pub(in crate::execute::resp) const NAME_BYTES_MAX: usize = 4 << 10;
/// The refusal of a longer one.
pub(in crate::execute::resp) const LONG_NAME: Failure =
    Failure::text("ERR the name is longer than 4096 bytes");

/// Gives the client a name that listings show.
pub(in crate::execute::resp) fn set_name(call: &Call<'_>, name: &[u8]) -> Result<(), Failure> {
    if name.len() > NAME_BYTES_MAX {
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

/// What became of a client's user and password.
enum Login {
    /// They are right.
    Known,
    /// The client was told that they are wrong, and its connection ends: it has guessed too often.
    Closed,
}

/// Compares user and password; there is one user, `default`.
///
/// Nothing is compared for an address that was wrong too often, and a connection on which too many
/// were wrong ends.
fn enter(
    call: &mut Call<'_>,
    user: Option<&[u8]>,
    password: Option<&[u8]>,
) -> Result<Login, Failure> {
    let state = call.context.state;
    let expected = state.settings.password.as_bytes();
    let is_user = user.is_none_or(|user| user == b"default");
    if expected.is_empty() {
        let is_right = is_user && password.is_some();
        return if is_right {
            Ok(Login::Known)
        } else {
            Err(WRONG_PASSWORD)
        };
    }
    let source = Source::of(&call.session.client.seat.peer);
    // A wrong user's password is compared with nothing that it could be.
    let given = password.filter(|_| is_user).unwrap_or_default();
    let now_ms = call.cache().now().0;
    match state.guesses.compare(source, now_ms, given, expected) {
        Guess::Right => Ok(Login::Known),
        Guess::Wrong => {
            let wrong = call.session.wrong_passwords.saturating_add(1);
            call.session.wrong_passwords = wrong;
            if wrong < PER_CONNECTION_MAX {
                return Err(WRONG_PASSWORD);
            }
            Ok(close(call, &WRONG_PASSWORD))
        }
        Guess::TooMany { wait_s } => {
            let text = format!(
                "ERR too many wrong passwords came from this address; the next is looked at in \
                 {wait_s} s"
            );
            Ok(close(call, &Failure::Text(text.into())))
        }
    }
}

/// Tells a client why its connection ends.
fn close(call: &mut Call<'_>, failure: &Failure) -> Login {
    append_failure(failure, call.session.proto, call.context, call.output);
    Login::Closed
}

pub(in crate::execute::resp) fn auth(call: &mut Call<'_>) -> Outcome {
    let (user, password) = match call.args {
        [_, password] => (None, *password),
        [_, user, password] => (Some(*user), *password),
        _ => return Err(Failure::Syntax),
    };
    if user.is_none() && call.context.state.settings.password.is_empty() {
        return Err(Failure::text(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ));
    }
    match enter(call, user, Some(password))? {
        Login::Known => {
            call.session.is_known = true;
            call.ok()
        }
        Login::Closed => Ok(Flow::Close),
    }
}

pub(in crate::execute::resp) fn quit(call: &mut Call<'_>) -> Outcome {
    call.reply().ok();
    // It is over now for others, however long the connection still takes to end.
    call.session.leave(call.context.state);
    Ok(Flow::Close)
}

pub(in crate::execute::resp) fn reset(call: &mut Call<'_>) -> Outcome {
    let state = call.context.state;
    let session = &mut *call.session;
    session.transaction = None;
    note_queued(&session.client, None);
    session.forget_all(state);
    session.empty_inbox(call.output);
    session.reply_mode = ReplyMode::On;
    session.set_proto(Proto::V2);
    session.select(0);
    session.is_known = state.settings.password.is_empty();
    session.client.facts().name.clear();
    call.reply().simple("RESET");
    DONE
}

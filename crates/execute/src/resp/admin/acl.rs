//! ACL: users and their permissions, in Redis's terms. Users are changed only in their file.
//!
//! Source: redis.io/docs/latest/commands/acl-getuser and its neighbours.

use std::sync::Arc;

use cellar_protocol::resp::command::{self, Command, TABLE};
use cellar_protocol::resp::number::parse_integer;
use cellar_shared::auth::users::{DEFAULT_USER, Role, User};
use cellar_shared::state::State;

use crate::permission::{Denied, check_resp};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::session::full_name;

/// Categories of Redis, in the order in which ACL CAT shows them; some have no command here.
const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// ACL CAT
pub(in crate::resp) fn categories(call: &mut Call<'_>) -> Outcome {
    let names = match call.args {
        [_, _] => CATEGORIES.map(str::to_owned).to_vec(),
        [_, _, category] => members(category)?,
        _ => {
            let word = String::from_utf8_lossy(call.args[1]);
            let text = format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try ACL HELP."
            );
            return Err(Failure::Text(text.into()));
        }
    };
    let mut reply = call.reply();
    reply.array(names.len());
    for name in names {
        reply.bulk(name);
    }
    DONE
}

/// The commands of a category, subcommands as `container|name`.
fn members(category: &[u8]) -> Result<Vec<String>, Failure> {
    let shown = String::from_utf8_lossy(category);
    if !CATEGORIES.contains(&shown.to_lowercase().as_str()) {
        return Err(Failure::Text(
            format!("ERR Unknown category '{shown}'").into(),
        ));
    }
    let mut names = Vec::new();
    for row in TABLE {
        if is_in(row, category) {
            names.push(row.name.to_owned());
        }
        let rows = row.subcommands.iter().filter(|sub| is_in(sub, category));
        names.extend(rows.map(|sub| format!("{}|{}", row.name, sub.name)));
    }
    Ok(names)
}

/// Whether a command belongs to a category.
pub(in crate::resp) fn is_in(row: &Command, category: &[u8]) -> bool {
    let mut categories = row.categories();
    categories.any(|one| one.as_bytes().eq_ignore_ascii_case(category))
}

/// All users: those of the file, or the default user with the server's password.
fn all(state: &State) -> Vec<Arc<User>> {
    match &state.access.users {
        Some(users) => users.all(),
        None => vec![Arc::new(User::everything(DEFAULT_USER))],
    }
}

/// Whether a user needs no password, which is so only without users.
fn needs_none(state: &State) -> bool {
    state.access.users.is_none() && state.settings.secrets.resp.is_empty()
}

/// Rights as rules of Redis's: commands, keys, channels; and the databases, for which Valkey has a
/// rule: `db=0,2`, or nothing for all.
struct Rules {
    commands: String,
    keys: String,
    channels: String,
    databases: String,
}

impl Rules {
    fn of(user: &User) -> Rules {
        let commands = match user.role {
            Role::Read => "-@all +@read +@connection",
            Role::Write => "-@all +@read +@write +@connection",
            Role::Admin => "+@all",
        };
        let patterns = |sign: char| {
            let pattern = |prefix: &[u8]| format!("{sign}{}*", String::from_utf8_lossy(prefix));
            let patterns: Vec<String> =
                user.prefixes.iter().map(|prefix| pattern(prefix)).collect();
            if patterns.is_empty() {
                format!("{sign}*")
            } else {
                patterns.join(" ")
            }
        };
        Rules {
            commands: commands.to_owned(),
            keys: patterns('~'),
            channels: patterns('&'),
            databases: match &*user.databases {
                [] => String::new(),
                some => {
                    let numbers: Vec<String> = some.iter().map(u32::to_string).collect();
                    format!("db={}", numbers.join(","))
                }
            },
        }
    }
}

/// ACL LIST
pub(in crate::resp) fn list(call: &mut Call<'_>) -> Outcome {
    let state = call.context.state;
    let lines = all(state).into_iter().map(|user| {
        let Rules {
            commands,
            keys,
            channels,
            databases,
        } = Rules::of(&user);
        let is_on = if user.enabled { "on" } else { "off" };
        let secret = if needs_none(state) { " nopass" } else { "" };
        let space = if databases.is_empty() { "" } else { " " };
        format!(
            "user {} {is_on}{secret} {keys} {channels}{space}{databases} {commands}",
            user.name
        )
    });
    let lines: Vec<String> = lines.collect();
    let mut reply = call.reply();
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.bulk(line));
    DONE
}

/// ACL USERS
pub(in crate::resp) fn users(call: &mut Call<'_>) -> Outcome {
    let all = all(call.context.state);
    let mut reply = call.reply();
    reply.array(all.len());
    all.iter().for_each(|user| reply.bulk(user.name.as_bytes()));
    DONE
}

/// ACL GETUSER; hashes of passwords stay where they are.
pub(in crate::resp) fn user(call: &mut Call<'_>) -> Outcome {
    let state = call.context.state;
    let name = call.args[2];
    let Some(user) = all(state)
        .into_iter()
        .find(|user| user.name.as_bytes() == name)
    else {
        call.reply().null();
        return DONE;
    };
    let Rules {
        commands,
        keys,
        channels,
        databases,
    } = Rules::of(&user);
    let mut flags = vec![if user.enabled { "on" } else { "off" }];
    if needs_none(state) {
        flags.push("nopass");
    }
    let mut reply = call.reply();
    reply.map(7);
    reply.bulk("flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag));
    reply.bulk("passwords");
    reply.array(0);
    let databases = match &*databases {
        "" => "alldbs".to_owned(),
        _ => databases,
    };
    for (name, rules) in [
        ("commands", commands),
        ("keys", keys),
        ("channels", channels),
        ("databases", databases),
    ] {
        reply.bulk(name);
        reply.bulk(rules);
    }
    reply.bulk("selectors");
    reply.array(0);
    DONE
}

/// ACL DRYRUN
pub(in crate::resp) fn dry_run(call: &mut Call<'_>) -> Outcome {
    let (name, request) = (call.args[2], &call.args[3..]);
    let all = all(call.context.state);
    let Some(user) = all.iter().find(|user| user.name.as_bytes() == name) else {
        let name = String::from_utf8_lossy(name);
        return Err(Failure::Text(format!("ERR User '{name}' not found").into()));
    };
    let Some(command) = command::of(request) else {
        let name = String::from_utf8_lossy(request[0]);
        return Err(Failure::Text(
            format!("ERR Command '{name}' not found").into(),
        ));
    };
    if !command.takes(request.len()) {
        return Err(super::super::wrong_arity(command, request));
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let what = match check_resp(user, command, request, call.session.database) {
        Ok(()) => return call.ok(),
        Err(Denied::Command) => format!("run the '{}' command", full_name(command, request)),
        Err(Denied::Key(key)) => format!("access the '{}' key", text(key)),
        Err(Denied::Channel(name)) => format!("access the '{}' channel", text(name)),
        Err(Denied::Database) => format!("access the database {}", call.session.database),
    };
    let line = format!("User {} has no permissions to {what}", user.name);
    call.reply().bulk(line);
    DONE
}

/// Entries of ACL LOG if no number is given.
const LOG_ENTRIES: usize = 10;

/// ACL LOG
pub(in crate::resp) fn log(call: &mut Call<'_>) -> Outcome {
    let acl_log = &call.context.state.records.acl_log;
    let count = match call.args {
        [_, _] => LOG_ENTRIES,
        [_, _, word] if word.eq_ignore_ascii_case(b"reset") => {
            acl_log.clear();
            return call.ok();
        }
        [_, _, count] => {
            let count = parse_integer(count).ok_or(Failure::NotInteger)?;
            usize::try_from(count).unwrap_or(0)
        }
        _ => {
            let word = String::from_utf8_lossy(call.args[1]);
            let text = format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try ACL HELP."
            );
            return Err(Failure::Text(text.into()));
        }
    };
    let (entries, now_ms) = (acl_log.newest(count), call.unix_ms(call.now()));
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut reply = call.reply();
    reply.array(entries.len());
    for entry in entries {
        let age_ms = now_ms.saturating_sub(entry.last_ms);
        reply.map(10);
        reply.bulk("count");
        reply.integer(number(entry.count));
        for (name, value) in [
            ("reason", entry.refused.reason.name().as_bytes()),
            ("context", entry.refused.context.as_bytes()),
            ("object", &entry.refused.object),
            ("username", &entry.refused.user),
        ] {
            reply.bulk(name);
            reply.bulk(value);
        }
        reply.bulk("age-seconds");
        reply.bulk(format!("{}.{:03}", age_ms / 1_000, age_ms % 1_000));
        reply.bulk("client-info");
        reply.bulk(entry.client);
        for (name, value) in [
            ("entry-id", entry.id),
            ("timestamp-created", entry.first_ms),
            ("timestamp-last-updated", entry.last_ms),
        ] {
            reply.bulk(name);
            reply.integer(number(value));
        }
    }
    DONE
}

/// ACL WHOAMI
pub(in crate::resp) fn who_am_i(call: &mut Call<'_>) -> Outcome {
    let user = call.session.identity.last_user().cloned();
    call.reply()
        .bulk(user.as_ref().map_or(DEFAULT_USER, |user| &user.name));
    DONE
}

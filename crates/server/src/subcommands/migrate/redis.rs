//! Redis: which features clients of a Redis server use, from its own statistics.
//!
//! `INFO commandstats` counts each command, also those that scripts call. The command table shows
//! which of them Cellar has. Commands that this check sends do not count as used.
//!
//! Tests: at the end of this file; tests/migrate.rs.

use std::collections::BTreeMap;

use cellar_config::logging::printable;
use cellar_config::settings::units::show_size;
use cellar_protocol::resp::command;

use super::findings::Findings;
use super::wire::{OldLink, OldReply, refusal};

/// Most different commands in the report.
const COMMANDS_MAX: usize = 1_000;
/// Longest name of a command.
const NAME_BYTES_MAX: usize = 64;
/// Most names of modules and libraries that are shown.
const NAMES_MAX: usize = 10;
/// Longest text of a setting that is shown.
const TEXT_LETTERS_MAX: usize = 80;

/// Commands that this check sends; their calls say nothing about the application.
const OWN: [&str; 7] = [
    "acl|list",
    "acl|log",
    "auth",
    "config|get",
    "function|list",
    "info",
    "module|list",
];

/// Why Cellar lacks a command, by the prefix of its name; the first match counts.
const REASONS: &[(&str, &str)] = &[
    ("xread", STREAMS),
    ("xadd", STREAMS),
    ("xlen", STREAMS),
    ("xrange", STREAMS),
    ("xrevrange", STREAMS),
    ("xdel", STREAMS),
    ("xack", STREAMS),
    ("xtrim", STREAMS),
    ("xgroup", STREAMS),
    ("xinfo", STREAMS),
    ("xpending", STREAMS),
    ("xclaim", STREAMS),
    ("xautoclaim", STREAMS),
    ("xsetid", STREAMS),
    ("xcfgset", STREAMS),
    ("module", "modules are not supported"),
    ("cluster", CLUSTER),
    ("asking", CLUSTER),
    ("readonly", CLUSTER),
    ("readwrite", CLUSTER),
    ("migrate", CLUSTER),
    ("psync", REPLICATION),
    ("sync", REPLICATION),
    ("replconf", REPLICATION),
    ("replicaof", REPLICATION),
    ("slaveof", REPLICATION),
    ("failover", REPLICATION),
    ("save", PERSISTENCE),
    ("bgsave", PERSISTENCE),
    ("bgrewriteaof", PERSISTENCE),
    ("acl|", "users are defined in a file (--users)"),
    ("vadd", VECTORS),
    ("vsim", VECTORS),
    ("vrem", VECTORS),
    ("vcard", VECTORS),
    ("vdim", VECTORS),
    ("vemb", VECTORS),
    ("vlinks", VECTORS),
    ("vinfo", VECTORS),
    ("vsetattr", VECTORS),
    ("vgetattr", VECTORS),
    ("vrandmember", VECTORS),
];

/// Commands that Cellar supports in part, by the prefix of the name; the first match counts.
const PARTS: &[(&str, &str)] = &[
    (
        "config|set",
        "only the parameters in docs/config.md can be set, others return an error; the counts do \
         not tell which ones were set",
    ),
    ("replicaof", "only NO ONE: there are no replicas"),
    ("slaveof", "only NO ONE: there are no replicas"),
    ("failover", "returns an error: there are no replicas"),
    ("cluster|keyslot", ""),
    ("cluster", IN_CLUSTER),
    ("asking", IN_CLUSTER),
    ("readonly", IN_CLUSTER),
    ("readwrite", IN_CLUSTER),
    (
        "debug",
        "only with --enable-debug-commands, and fewer subcommands",
    ),
];

const IN_CLUSTER: &str = "only in a cluster (--cluster), see many-machines.md";
const STREAMS: &str = "streams: keep them on the old server";
const CLUSTER: &str = "cluster: clients spread keys over servers, see many-machines.md";
const REPLICATION: &str = "no replication; see many-machines.md";
const PERSISTENCE: &str = "no persistence on disk; --state keeps the items across restarts";
const MODULES: &str = "modules: keep applications that need them on the old server";
const VECTORS: &str = "vector sets: keep them on the old server";
const UNKNOWN: &str = "unknown command: Cellar returns an error";

/// Sends all queries.
///
/// # Errors
/// Why a query fails, in one line.
pub fn ask(link: &mut OldLink, user: Option<&(String, String)>) -> Result<Findings, String> {
    if let Some((name, password)) = user {
        let words: &[&str] = match name.as_str() {
            "" => &["AUTH", password],
            name => &["AUTH", name, password],
        };
        if let OldReply::Refused(text) = link.ask(words)? {
            return Err(refusal(&text));
        }
    }
    let info = match link.ask(&["INFO", "all"])? {
        OldReply::Text(text) => text,
        OldReply::Refused(text) => return Err(refusal(&text)),
        _ => return Err("its reply to INFO is not text".to_owned()),
    };
    let facts = facts(&info);
    let mut found = Findings {
        server: server(&facts),
        ..Findings::default()
    };
    commands(&info, &mut found)?;
    acl_log(&link.ask(&["ACL", "LOG", "128"])?, &mut found);
    found.sort();
    settings(link, &mut found)?;
    data(&facts, &mut found);
    for (words, title) in [
        (["MODULE", "LIST"], "modules, which Cellar does not support"),
        (
            ["FUNCTION", "LIST"],
            "function libraries; copy them with FUNCTION DUMP and FUNCTION RESTORE",
        ),
    ] {
        let names = names(&link.ask(&words)?);
        if !names.is_empty() {
            found.notes.push(format!("{title}: {}", names.join(", ")));
        }
    }
    users(&link.ask(&["ACL", "LIST"])?, &mut found);
    Ok(found)
}

/// The lines `name:value` of INFO without the command statistics.
fn facts(info: &str) -> BTreeMap<&str, &str> {
    let lines = info.lines().filter(|line| !line.starts_with("cmdstat_"));
    lines.filter_map(|line| line.split_once(':')).collect()
}

fn server(facts: &BTreeMap<&str, &str>) -> String {
    for (key, name) in [
        ("dragonfly_version", "Dragonfly"),
        ("valkey_version", "Valkey"),
        ("cellar_version", "Cellar"),
        ("redis_version", "Redis"),
    ] {
        if let Some(version) = facts.get(key) {
            return format!("{name} {}", shown(version));
        }
    }
    "a server without a version".to_owned()
}

/// A text from the server, made safe for a terminal.
fn shown(text: &str) -> String {
    let text: String = text.trim().chars().take(TEXT_LETTERS_MAX).collect();
    printable(&text)
}

/// Adds each command that was called.
fn commands(info: &str, found: &mut Findings) -> Result<(), String> {
    let mut counted = 0;
    let mut scripts = 0;
    for line in info.lines() {
        let Some((name, figures)) = line
            .strip_prefix("cmdstat_")
            .and_then(|line| line.split_once(':'))
        else {
            continue;
        };
        counted += 1;
        if counted > COMMANDS_MAX {
            return Err(format!("it counts more than {COMMANDS_MAX} commands"));
        }
        let name = name.to_ascii_lowercase();
        let calls = figures.split(',').find_map(|it| it.strip_prefix("calls="));
        let calls = calls.and_then(|calls| calls.parse().ok()).unwrap_or(0);
        if calls == 0 || !is_name(&name) || OWN.contains(&name.as_str()) {
            continue;
        }
        if name.starts_with("eval") || name.starts_with("fcall") {
            scripts += calls;
        }
        let (shown, hint) = (name.replace('|', " "), hint(&name));
        if is_of_operators(hint) {
            found.notes.push(format!("{shown}, {calls} calls: {hint}"));
        } else if hint.is_empty()
            && let Some(part) = part(&name)
        {
            found.push_partly(shown, calls, part);
        } else {
            found.push(shown, calls, hint);
        }
    }
    if counted == 0 {
        return Err("INFO commandstats lists no commands".to_owned());
    }
    if scripts > 0 {
        found.notes.push(format!(
            "scripts ran {scripts} times; the list above counts their commands, too. SLOWLOG GET \
             and MONITOR on the old server show the scripts"
        ));
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-|".contains(&byte);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_of_name)
}

/// Why Cellar lacks a command; empty if it has the command.
fn hint(name: &str) -> &'static str {
    let (first, second) = name.split_once('|').unwrap_or((name, ""));
    if let Some(row) = command::find(first.as_bytes()) {
        let is_there = second.is_empty()
            || row.subcommands.is_empty()
            || row.subcommand(second.as_bytes()).is_some();
        if is_there {
            return "";
        }
    }
    if name.contains('.') {
        return MODULES;
    }
    let row = REASONS.iter().find(|(start, _)| name.starts_with(start));
    row.map_or(UNKNOWN, |row| row.1)
}

/// Whether other servers and operators send the commands that have this hint: applications do not
/// need them.
fn is_of_operators(hint: &str) -> bool {
    hint == REPLICATION || hint == PERSISTENCE
}

/// Which part of a command Cellar supports, if not all of it.
fn part(name: &str) -> Option<&'static str> {
    let row = PARTS.iter().find(|(start, _)| name.starts_with(start))?;
    (!row.1.is_empty()).then_some(row.1)
}

/// Adds commands that the ACL denied: an application tried them.
fn acl_log(log: &OldReply, found: &mut Findings) {
    for entry in log.list() {
        let field = |wanted: &str| {
            let pairs = entry.list().chunks_exact(2);
            let mut pairs = pairs.filter(|pair| pair[0].text() == wanted);
            pairs.next().map(|pair| &pair[1])
        };
        let name = field("object")
            .map_or("", OldReply::text)
            .to_ascii_lowercase();
        let is_command = field("reason").is_some_and(|it| it.text() == "command");
        let Some(OldReply::Number(count)) = field("count") else {
            continue;
        };
        let count = u64::try_from(*count).unwrap_or(0);
        if is_command && is_name(&name) && !hint(&name).is_empty() {
            let shown = name.replace('|', " ");
            let why = format!("{}; refused by ACL so far", hint(&name));
            if is_of_operators(hint(&name)) {
                found.notes.push(format!("{shown}, {count} calls: {why}"));
            } else if !found.missing.iter().any(|row| row.command == shown) {
                found.push(shown, count, &why);
            }
        }
    }
}

/// Adds notes about settings.
fn settings(link: &mut OldLink, found: &mut Findings) -> Result<(), String> {
    for name in [
        "maxmemory",
        "maxmemory-policy",
        "notify-keyspace-events",
        "databases",
        "appendonly",
        "save",
    ] {
        let told = link.ask(&["CONFIG", "GET", name])?;
        if let OldReply::Refused(text) = &told {
            let note = format!("its settings cannot be read: {}", refusal(text));
            found.notes.push(note);
            return Ok(());
        }
        let value = told.list().get(1).map_or("", OldReply::text);
        found.notes.extend(setting(name, &shown(value)));
    }
    Ok(())
}

/// A note about a setting, if Cellar differs.
fn setting(name: &str, value: &str) -> Option<String> {
    let bytes = value.parse().map_or_else(|_| value.to_owned(), show_size);
    let size = format!("write --memory {bytes}");
    let meaning = match (name, value) {
        (_, "") => return None,
        ("maxmemory", "0") => "no limit: choose --memory, it is reserved at the start",
        ("maxmemory", _) => &size,
        ("maxmemory-policy", "noeviction") => {
            "the old server refuses writes when memory is full; Cellar evicts items, except in \
             --noeviction-databases"
        }
        ("maxmemory-policy", value) if value.starts_with("volatile") => {
            "the old server evicts only items with a TTL, Cellar evicts any item"
        }
        ("notify-keyspace-events", _) => "give --notify-keyspace-events the same letters",
        ("databases", "16") | ("appendonly", "no") => return None,
        ("databases", _) => "give --databases as many",
        ("appendonly" | "save", _) => {
            "Cellar writes nothing to disk; --state keeps the items across restarts"
        }
        _ => return None,
    };
    Some(format!("{name} is {value}: {meaning}"))
}

/// Adds notes from INFO about the data and replication.
fn data(facts: &BTreeMap<&str, &str>, found: &mut Findings) {
    let is_more_than_none = |name: &str| {
        facts
            .get(name)
            .is_some_and(|it| it.parse().unwrap_or(0u64) > 0)
    };
    if is_more_than_none("connected_slaves") || facts.get("role") == Some(&"slave") {
        found.notes.push(REPLICATION.to_owned());
    }
    if is_more_than_none("cluster_enabled") {
        found.notes.push(CLUSTER.to_owned());
    }
    let mut without_ttl: u64 = 0;
    for (name, value) in facts {
        let number = name.strip_prefix("db").map(str::parse::<u32>);
        if !matches!(number, Some(Ok(_))) {
            continue;
        }
        let figure = |wanted: &str| {
            let mut all = value.split(',').filter_map(|it| it.split_once('='));
            let found = all.find(|(name, _)| *name == wanted);
            found.and_then(|it| it.1.parse::<u64>().ok()).unwrap_or(0)
        };
        let never = figure("keys").saturating_sub(figure("expires"));
        without_ttl = without_ttl.saturating_add(never);
    }
    if without_ttl > 0 {
        found.notes.push(format!(
            "{without_ttl} keys have no TTL: Cellar may evict them when memory is full, except in \
             --noeviction-databases"
        ));
    }
}

/// The names in a reply to MODULE LIST or FUNCTION LIST.
fn names(told: &OldReply) -> Vec<String> {
    let rows = told.list().iter().take(NAMES_MAX);
    let names = rows.filter_map(|row| {
        let pairs = row.list().chunks_exact(2);
        let mut names = pairs.filter(|it| ["name", "library_name"].contains(&it[0].text()));
        names.next().map(|pair| shown(pair[1].text()))
    });
    names.collect()
}

/// Adds a note about the number of users.
fn users(told: &OldReply, found: &mut Findings) {
    let users = told.list().len();
    if users > 1 {
        found
            .notes
            .push(format!("{users} users: add them to the --users file"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_here_has_its_reason() {
        for (name, expected) in [
            ("get", ""),
            ("client|list", ""),
            ("eval", ""),
            ("xadd", STREAMS),
            ("xgroup|create", STREAMS),
            ("ft.search", MODULES),
            ("fcall", ""),
            ("vadd", VECTORS),
            ("verbosity", UNKNOWN),
            ("psync", REPLICATION),
            ("bgsave", PERSISTENCE),
            ("cluster|addslots", CLUSTER),
            ("client|bogus", UNKNOWN),
            ("pfselftest", UNKNOWN),
        ] {
            assert_eq!(hint(name), expected, "{name}");
        }
    }

    #[test]
    fn what_is_here_in_part_is_told_apart() {
        let info = "cmdstat_config|set:calls=2\r\ncmdstat_replicaof:calls=1\r\n\
                    cmdstat_cluster|slots:calls=3\r\ncmdstat_cluster|keyslot:calls=1\r\n\
                    cmdstat_get:calls=1\r\n";
        let mut found = Findings::default();
        commands(info, &mut found).unwrap();
        found.sort();
        let partly: Vec<&str> = found.partly.iter().map(|it| &*it.command).collect();
        assert_eq!(partly, ["cluster slots", "config set", "replicaof"]);
        let there: Vec<&str> = found.there.iter().map(|it| &*it.command).collect();
        assert_eq!(there, ["cluster keyslot", "get"]);
        let page = found.page("redis://old");
        assert!(
            page.contains("partly supported") && page.contains("docs/config.md"),
            "{page}"
        );
    }

    #[test]
    fn what_operators_send_is_a_note_also_where_acl_refused_it() {
        let mut found = Findings::default();
        commands(
            "cmdstat_bgsave:calls=2\r\ncmdstat_psync:calls=1\r\n",
            &mut found,
        )
        .unwrap();
        let text = |text: &str| OldReply::Text(text.to_owned());
        let entry = [
            ("reason", text("command")),
            ("object", text("bgrewriteaof")),
        ];
        let pairs = entry.into_iter().chain([("count", OldReply::Number(3))]);
        let pairs = pairs.flat_map(|(name, value)| [text(name), value]);
        acl_log(
            &OldReply::List(vec![OldReply::List(pairs.collect())]),
            &mut found,
        );
        assert_eq!((found.missing.len(), found.notes.len()), (0, 3));
        assert!(
            found.notes[2].starts_with("bgrewriteaof, 3 calls: "),
            "{:?}",
            found.notes
        );
    }

    #[test]
    fn names_that_no_command_has_are_left_out() {
        let info = "cmdstat_get:calls=2,usec=1\r\ncmdstat_\u{1b}[2J:calls=1\r\n\
                    cmdstat_xadd:calls=99999999999999999999\r\ncmdstat_set:calls=0\r\n";
        let mut found = Findings::default();
        commands(info, &mut found).unwrap();
        assert_eq!(found.there.len(), 1);
        assert_eq!(found.missing, []);
        assert!(commands("# Server\r\n", &mut found).is_err());
        let many: String = (0..=COMMANDS_MAX)
            .map(|n| format!("cmdstat_a{n}:calls=1\n"))
            .collect();
        assert!(commands(&many, &mut found).is_err());
    }

    #[test]
    fn settings_that_mean_something_else_here_are_told() {
        for (name, value, expected) in [
            ("maxmemory", "67108864", "is 67108864: write --memory 64MiB"),
            ("maxmemory-policy", "noeviction", "--noeviction-databases"),
            ("maxmemory-policy", "volatile-lru", "only items with a TTL"),
            ("databases", "32", "--databases"),
            ("save", "3600 1", "writes nothing to disk"),
        ] {
            let note = setting(name, value).unwrap();
            assert!(note.contains(expected), "{note}");
        }
        for (name, value) in [("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")] {
            assert_eq!(setting(name, value), None);
        }
    }

    #[test]
    fn a_server_is_called_by_its_own_name() {
        let of = |info: &str| server(&facts(info));
        assert_eq!(of("redis_version:7.0.15\r\n"), "Redis 7.0.15");
        assert_eq!(
            of("redis_version:7.2.4\nvalkey_version:8.0.1\n"),
            "Valkey 8.0.1"
        );
        assert_eq!(
            of("redis_version:7.4\ndragonfly_version:df-1\n"),
            "Dragonfly df-1"
        );
        assert_eq!(of(""), "a server without a version");
    }
}

//! Usage: the error for an unknown flag, variable or key, in one line, with a suggestion.
//!
//! For a name of Redis or memcached it suggests the setting that does the same. For any other
//! unknown name it suggests the most similar name.
//!
//! Tests: at the end of this file; server/tests/startup_errors.rs.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};

use super::TABLE;
use super::row::{key_of, variable_of};

/// The option that describes all flags.
const ALL_FLAGS: &str = "--help-all lists all flags";

/// How a setting is written in the place of the unknown name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `--max-value 1MiB`
    Flag,
    /// `CELLAR_MAX_VALUE=1MiB`
    Variable,
    /// `max_value = "1MiB"`
    Key,
}

impl Form {
    /// A setting, with its value if there is one.
    fn show(self, name: &str, value: Option<&str>) -> String {
        match (self, value) {
            (Form::Flag, None) => format!("--{name}"),
            (Form::Flag, Some(value)) => format!("--{name} {value}"),
            (Form::Variable, None) => variable_of(name),
            (Form::Variable, Some(value)) => format!("{}={value}", variable_of(name)),
            (Form::Key, None) => key_of(name),
            (Form::Key, Some(value)) => format!("{} = \"{value}\"", key_of(name)),
        }
    }

    /// A hint with each `{NAME}` and `{NAME=VALUE}` in this form.
    fn fill(self, hint: &str) -> String {
        let mut pieces = hint.split('{');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (setting, rest) = piece.split_once('}').unwrap_or((piece, ""));
            let (name, value) = match setting.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (setting, None),
            };
            text.push_str(&self.show(name, value));
            text.push_str(rest);
        }
        text
    }
}

/// Settings of Redis and flags of memcached that have another name here, with a hint;
/// `{NAME=VALUE}` is a setting of this server.
const OF_OTHERS: &[(&[&str], &str)] = &[
    (
        &["p", "port", "listen-port"],
        "write {resp=127.0.0.1:6379} for the Redis protocol, {memcached=127.0.0.1:11211} for the \
         memcached protocol",
    ),
    (
        &["bind", "l", "listen"],
        "write {resp=ADDR:PORT} for the Redis protocol, {memcached=ADDR:PORT} for the memcached \
         protocol",
    ),
    (&["tls-port"], "write {resp=tls:HOST:PORT}"),
    (
        &["Z", "enable-ssl"],
        "write {memcached=tls:HOST:PORT} with {tls-cert} and {tls-key}",
    ),
    (&["unixsocket"], "write {resp=unix:/path}"),
    (&["s", "unix-socket"], "write {memcached=unix:/path}"),
    (&["a", "unix-mask"], "write {unix-mode=MODE}"),
    (
        MEMCACHED_MEMORY,
        "write {memory=NMiB}; a number without a unit is in bytes",
    ),
    (&["c", "conn-limit"], "write {max-connections=N}"),
    (&["t"], "write {threads=N}"),
    (&["I", "max-item-size"], "write {max-value=SIZE}"),
    (
        &["S", "Y", "enable-sasl", "auth-file", "aclfile"],
        "write {users=FILE}",
    ),
    (&["tls-cert-file"], "write {tls-cert=PATH}"),
    (&["tls-key-file"], "write {tls-key=PATH}"),
    (&["tls-ca-cert-file"], "write {tls-client-ca=PATH}"),
    (&["loglevel", "v", "verbose"], "write {log-level=debug}"),
    (
        &["logfile", "d", "daemon", "daemonize", "pidfile", "P"],
        "the server runs in the foreground and logs to standard error; run it under a service \
         manager",
    ),
    (
        &[
            "save",
            "appendonly",
            "dir",
            "dbfilename",
            "e",
            "memory-file",
        ],
        "write {state=PATH} to keep the cache across restarts",
    ),
    (
        &["maxmemory-policy", "M", "disable-evictions"],
        "there is one eviction policy; write {noeviction-databases} for databases without eviction",
    ),
    (
        &[
            "replicaof",
            "slaveof",
            "cluster-enabled",
            "cluster-config-file",
        ],
        "there are no replicas; write {cluster} with {node} to share keys among several servers",
    ),
    (&["U", "udp-port"], "there is no UDP; use TCP"),
];

/// memcached's flags for its memory, a number in MiB.
const MEMCACHED_MEMORY: &[&str] = &["m", "memory-limit"];

/// The hint for a name of Redis or memcached, without its dashes.
fn of_others(name: &str, form: Form) -> Option<String> {
    let by_parameter = TABLE.iter().find(|row| row.parameter == Some(name));
    if let Some(row) = by_parameter.filter(|row| row.name != name) {
        return Some(format!("write {}", form.show(row.name, None)));
    }
    let found = OF_OTHERS.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, hint)| form.fill(hint))
}

/// The hint after an unknown variable or key; empty if no name is similar.
pub(super) fn hint(name: &str, names: impl Iterator<Item = String>, form: Form) -> String {
    let plain = name.strip_prefix("CELLAR_").unwrap_or(name);
    let plain = plain.to_ascii_lowercase().replace('_', "-");
    if let Some(hint) = of_others(&plain, form) {
        return format!("; {hint}");
    }
    similar(name, names).map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

/// The most similar name, if it is similar enough.
fn similar(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let by_steps = names.map(|one| (steps(name, &one), one));
    let nearest = by_steps.min_by_key(|(steps, _)| *steps)?;
    (nearest.0 <= name.len().div_ceil(3)).then_some(nearest.1)
}

/// The Levenshtein distance of two names.
fn steps(one: &str, other: &str) -> usize {
    let other = other.as_bytes();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (count, letter) in one.bytes().enumerate() {
        let mut before = row[0];
        row[0] = count + 1;
        for place in 1..row.len() {
            let replaced = before + usize::from(other[place - 1] != letter);
            before = row[place];
            row[place] = replaced.min(row[place] + 1).min(row[place - 1] + 1);
        }
    }
    row[other.len()]
}

/// The error for these arguments, in one line.
pub(super) fn one_line(error: &clap::Error, arguments: &[OsString]) -> String {
    let text = error.render().to_string();
    let instead = instead(error, arguments);
    let (mut said, mut command) = (String::new(), String::new());
    for line in text.lines().map(str::trim) {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            let words = usage
                .split(' ')
                .take_while(|word| !word.starts_with(['-', '<', '[']));
            command = words.collect::<Vec<_>>().join(" ");
            break;
        }
        let (line, is_tip) = match line.strip_prefix("tip: ") {
            Some(tip) => (tip, true),
            None => (line.trim_start_matches("error: "), false),
        };
        // A known name of another server is a better hint than a similar name.
        let is_less = is_tip && (instead.is_some() || line.starts_with("to pass "));
        if line.is_empty() || is_less || line.starts_with("For more information") {
            continue;
        }
        if !said.is_empty() {
            said.push_str(if is_tip { "; " } else { " " });
        }
        said.push_str(line);
    }
    if let Some(instead) = instead {
        said = format!("{said}; {instead}");
    }
    match command.as_str() {
        "" | "cellar" => format!("{said}; {ALL_FLAGS}"),
        command => format!("{said}; {command} --help describes its arguments"),
    }
}

/// The hint for an argument of Redis or memcached.
fn instead(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let wrong = text(ContextKind::InvalidArg).or_else(|| text(ContextKind::InvalidSubcommand))?;
    let flag = wrong.split(['=', ' ']).next().unwrap_or(wrong);
    if flag.starts_with('-') {
        let name = flag.trim_start_matches('-');
        if MEMCACHED_MEMORY.contains(&name)
            && let Some(mib) = number_of(name, arguments)
        {
            return Some(format!("write --memory {mib}MiB"));
        }
        return of_others(name, Form::Flag);
    }
    if wrong.ends_with(".conf") {
        let text = "Cellar reads no redis.conf; write the settings in TOML and give --config FILE";
        return Some(text.to_owned());
    }
    let is_file = wrong.contains('/') || wrong.ends_with(".toml");
    is_file.then(|| format!("write --config {wrong} for a settings file"))
}

/// The integer after a flag: `-m 64`, `-m64`, `--memory-limit=64`.
fn number_of(name: &str, arguments: &[OsString]) -> Option<u64> {
    let is_short = name.len() == 1;
    let dashes = if is_short { "-" } else { "--" };
    let mut words = arguments.iter().filter_map(|word| word.to_str());
    let rest = words.find_map(|word| word.strip_prefix(dashes)?.strip_prefix(name))?;
    let value = match rest.strip_prefix('=') {
        Some(value) => value,
        None if rest.is_empty() => words.next()?,
        None if is_short => rest,
        None => return None,
    };
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_another_server_leads_to_the_setting() {
        let flag = |name: &str| of_others(name, Form::Flag);
        for (name, expected) in [
            ("maxmemory", "write --memory"),
            ("requirepass", "write --password"),
            ("maxclients", "write --max-connections"),
            ("io-threads", "write --threads"),
            ("p", "write --resp 127.0.0.1:6379 for the Redis protocol"),
            ("m", "write --memory NMiB"),
            ("appendonly", "write --state PATH"),
        ] {
            let hint = flag(name).unwrap();
            assert!(hint.starts_with(expected), "{name}: {hint}");
        }
        assert_eq!(flag("memroy"), None);
    }

    #[test]
    fn a_hint_names_settings_as_the_place_that_it_is_for_does() {
        for (name, form, expected) in [
            ("maxmemory", Form::Key, "write memory"),
            ("maxmemory", Form::Variable, "write CELLAR_MEMORY"),
            ("logfile", Form::Key, "the server runs in the foreground"),
            ("tls-port", Form::Key, "write resp = \"tls:HOST:PORT\""),
            ("unix-mask", Form::Variable, "write CELLAR_UNIX_MODE=MODE"),
            (
                "enable-ssl",
                Form::Key,
                "write memcached = \"tls:HOST:PORT\" with tls_cert and tls_key",
            ),
        ] {
            let hint = of_others(name, form).unwrap();
            assert!(hint.starts_with(expected), "{name}: {hint}");
        }
        for (names, _) in OF_OTHERS {
            for form in [Form::Key, Form::Variable] {
                let hint = of_others(names[0], form).unwrap();
                assert!(!hint.contains("--"), "{names:?}: {hint}");
            }
        }
    }

    #[test]
    fn every_flag_in_a_hint_is_one() {
        for (names, hint) in OF_OTHERS {
            let flags = hint.split('{').skip(1);
            for flag in flags.map(|rest| rest.split(['=', '}']).next().unwrap_or(rest)) {
                assert!(
                    TABLE.iter().any(|row| row.name == flag),
                    "{names:?}: --{flag}"
                );
            }
            for name in *names {
                assert!(TABLE.iter().all(|row| row.name != *name), "{name}");
            }
        }
    }

    #[test]
    fn a_slip_leads_to_the_name_that_was_meant() {
        let near = |name: &str| similar(name, TABLE.iter().map(|row| row.key()));
        assert_eq!(near("memroy").as_deref(), Some("memory"));
        assert_eq!(near("max_connection").as_deref(), Some("max_connections"));
        assert_eq!(near("wholly_different_thing"), None);
        assert_eq!(near(""), None);
    }
}

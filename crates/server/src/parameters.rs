//! Parameters: what CONFIG GET shows and CONFIG SET changes, under the names that Redis has.
//!
//! Tools read them to learn what a server is like; most have no meaning here and keep what a client
//! puts in. Those that describe this server are fixed ([`Form::Fixed`]): they follow from the
//! settings. What a change takes effect on is told in `execute/resp/admin/config.rs`.
//!
//! Source of names, forms and error texts: `config.c` of Redis 7. Tests: tests/resp_admin.rs.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::number::parse_integer;

use crate::settings::Settings;

/// The version of Redis that clients are told: near caches ask for 7.4 or later.
pub const REDIS_VERSION: &str = "7.4.0";

/// Longest text that a parameter keeps.
const TEXT_BYTES_MAX: usize = 1024;

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Nothing but what it is.
    Fixed,
    /// `yes` or `no`.
    Switch,
    /// A whole number within these bounds.
    Number(i64, i64),
    /// A whole number; the nearest one within these bounds is taken.
    Nearest(i64, i64),
    /// A number of bytes, with a unit if one likes.
    Bytes,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// When to save: pairs of numbers, or nothing.
    Saves,
    /// Classes of keyspace events.
    Events,
    /// Classes of clients with three limits each.
    Buffers,
    /// Any text.
    Text,
}

/// One parameter.
#[derive(Debug)]
struct ParameterRow {
    name: &'static str,
    form: Form,
    initial: &'static str,
}

const fn row(name: &'static str, form: Form, initial: &'static str) -> ParameterRow {
    ParameterRow {
        name,
        form,
        initial,
    }
}

/// A number that is not negative.
const NATURAL: Form = Form::Number(0, i64::MAX);
/// A number that is not negative and fits in 32 bits.
const SMALL: Form = Form::Number(0, i32::MAX as i64);
/// A number that fits in 32 bits.
const SIGNED: Form = Form::Number(i32::MIN as i64, i32::MAX as i64);
/// Policies under which any item may have to make room, as it is here.
const POLICIES: Form = Form::Choice(&["allkeys-lru", "allkeys-lfu", "allkeys-random"]);
const LEVELS: Form = Form::Choice(&["debug", "verbose", "notice", "warning"]);

/// All parameters. An initial value of `?` follows from the settings.
const TABLE: &[ParameterRow] = &[
    row("maxmemory", Form::Fixed, "?"),
    row("maxmemory-policy", POLICIES, "allkeys-lfu"),
    row("maxmemory-samples", Form::Number(1, 64), "5"),
    row("maxmemory-eviction-tenacity", Form::Number(0, 100), "10"),
    row("maxmemory-clients", Form::Fixed, "0"),
    row("maxclients", Form::Fixed, "?"),
    row("databases", Form::Fixed, "?"),
    row("timeout", Form::Fixed, "?"),
    row("bind", Form::Fixed, "?"),
    row("port", Form::Fixed, "?"),
    row("tls-port", Form::Fixed, "0"),
    row("unixsocket", Form::Fixed, ""),
    row("unixsocketperm", Form::Fixed, "0"),
    row("requirepass", Form::Fixed, ""),
    row("protected-mode", Form::Fixed, "?"),
    row("enable-debug-command", Form::Fixed, "?"),
    row("enable-module-command", Form::Fixed, "no"),
    row("enable-protected-configs", Form::Fixed, "no"),
    row("proto-max-bulk-len", Form::Fixed, "?"),
    row("client-query-buffer-limit", Form::Fixed, "?"),
    row("io-threads", Form::Fixed, "?"),
    row("cluster-enabled", Form::Fixed, "no"),
    row("appendonly", Form::Switch, "no"),
    row(
        "appendfsync",
        Form::Choice(&["everysec", "always", "no"]),
        "everysec",
    ),
    row("save", Form::Saves, ""),
    row("dir", Form::Text, "/"),
    row("dbfilename", Form::Text, "dump.rdb"),
    row("rdbcompression", Form::Switch, "yes"),
    row("rdbchecksum", Form::Switch, "yes"),
    row("stop-writes-on-bgsave-error", Form::Switch, "yes"),
    row("auto-aof-rewrite-percentage", SMALL, "100"),
    row("aof-use-rdb-preamble", Form::Switch, "yes"),
    row("replica-read-only", Form::Switch, "yes"),
    row("slave-read-only", Form::Switch, "yes"),
    row("replicaof", Form::Fixed, ""),
    row("slaveof", Form::Fixed, ""),
    row("min-replicas-to-write", SMALL, "0"),
    row("repl-backlog-size", Form::Bytes, "1048576"),
    row("hz", Form::Nearest(1, 500), "10"),
    row("dynamic-hz", Form::Switch, "yes"),
    row("tcp-keepalive", SMALL, "0"),
    row("tcp-backlog", Form::Fixed, "1024"),
    row("loglevel", LEVELS, "notice"),
    row("notify-keyspace-events", Form::Events, "?"),
    row("tracking-table-max-keys", NATURAL, "?"),
    row(
        "client-output-buffer-limit",
        Form::Buffers,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    row(
        "slowlog-log-slower-than",
        Form::Number(-1, i64::MAX),
        "10000",
    ),
    row("slowlog-max-len", NATURAL, "128"),
    row("latency-monitor-threshold", NATURAL, "0"),
    row("latency-tracking", Form::Switch, "no"),
    row(
        "latency-tracking-info-percentiles",
        Form::Text,
        "50 99 99.9",
    ),
    row("busy-reply-threshold", NATURAL, "5000"),
    row("lua-time-limit", NATURAL, "5000"),
    row("acllog-max-len", NATURAL, "128"),
    row("activerehashing", Form::Switch, "yes"),
    row("activedefrag", Form::Switch, "no"),
    row("active-expire-effort", Form::Number(1, 10), "1"),
    row("lfu-log-factor", SMALL, "10"),
    row("lfu-decay-time", SMALL, "1"),
    row("lazyfree-lazy-eviction", Form::Switch, "no"),
    row("lazyfree-lazy-expire", Form::Switch, "no"),
    row("lazyfree-lazy-server-del", Form::Switch, "no"),
    row("lazyfree-lazy-user-del", Form::Switch, "no"),
    row("lazyfree-lazy-user-flush", Form::Switch, "no"),
    row("replica-lazy-flush", Form::Switch, "no"),
    row("list-max-listpack-size", SIGNED, "-2"),
    row("list-max-ziplist-size", SIGNED, "-2"),
    row("list-compress-depth", SMALL, "0"),
    row("hash-max-listpack-entries", NATURAL, "512"),
    row("hash-max-ziplist-entries", NATURAL, "512"),
    row("hash-max-listpack-value", NATURAL, "64"),
    row("hash-max-ziplist-value", NATURAL, "64"),
    row("set-max-intset-entries", NATURAL, "512"),
    row("set-max-listpack-entries", NATURAL, "128"),
    row("set-max-listpack-value", NATURAL, "64"),
    row("zset-max-listpack-entries", NATURAL, "128"),
    row("zset-max-ziplist-entries", NATURAL, "128"),
    row("zset-max-listpack-value", NATURAL, "64"),
    row("zset-max-ziplist-value", NATURAL, "64"),
    row("stream-node-max-bytes", Form::Bytes, "4096"),
    row("stream-node-max-entries", NATURAL, "100"),
    row("hll-sparse-max-bytes", Form::Bytes, "3000"),
];

/// Why a change was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such parameter.
    Unknown(String),
    /// This parameter cannot have this value.
    Value {
        /// The parameter.
        name: String,
        /// What is wrong.
        reason: Cow<'static, str>,
    },
}

/// The present values.
#[derive(Debug)]
pub struct Parameters(Mutex<Vec<String>>);

impl Parameters {
    /// The values at start.
    #[must_use]
    pub fn new(settings: &Settings) -> Parameters {
        let initial = |row: &ParameterRow| match row.initial {
            "?" => of_settings(row.name, settings),
            text => text.to_owned(),
        };
        Parameters(Mutex::new(TABLE.iter().map(initial).collect()))
    }

    /// Names and values of the parameters that one of the patterns fits, in any case.
    #[must_use]
    pub fn matching(&self, patterns: &[&[u8]]) -> Vec<(&'static str, String)> {
        let patterns = patterns
            .iter()
            .map(|text| Pattern::new(&text.to_ascii_lowercase()));
        let patterns: Vec<Pattern> = patterns.collect();
        let fits = |name: &str| {
            patterns
                .iter()
                .any(|pattern| pattern.matches(name.as_bytes()))
        };
        let values = self.lock();
        let pairs = TABLE.iter().zip(values.iter());
        pairs
            .filter(|(row, _)| fits(row.name))
            .map(|(row, value)| (row.name, value.clone()))
            .collect()
    }

    /// The value of a parameter that exists.
    #[must_use]
    pub fn value(&self, name: &str) -> String {
        let place = TABLE.iter().position(|row| row.name == name);
        place.map_or_else(String::new, |place| self.lock()[place].clone())
    }

    /// Changes all of these parameters or none, and returns them as they are now.
    ///
    /// # Errors
    /// What was refused first.
    pub fn change(&self, pairs: &[(&[u8], &[u8])]) -> Result<Vec<(&'static str, String)>, Refused> {
        let mut places = Vec::with_capacity(pairs.len());
        for &(name, _) in pairs {
            let is_it = |row: &ParameterRow| name.eq_ignore_ascii_case(row.name.as_bytes());
            let Some(place) = TABLE.iter().position(is_it) else {
                return Err(Refused::Unknown(String::from_utf8_lossy(name).into_owned()));
            };
            if places.contains(&place) {
                return Err(refused(TABLE[place].name, "duplicate parameter"));
            }
            places.push(place);
        }
        let mut values = self.lock();
        let mut changed = Vec::with_capacity(pairs.len());
        for (&place, (_, text)) in places.iter().zip(pairs) {
            let row = &TABLE[place];
            let value = row.form.read(text, &values[place]);
            let value = value.map_err(|reason| refused(row.name, reason))?;
            changed.push((place, value));
        }
        let shown = changed.into_iter().map(|(place, value)| {
            values[place].clone_from(&value);
            (TABLE[place].name, value)
        });
        Ok(shown.collect())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(name: &str, reason: impl Into<Cow<'static, str>>) -> Refused {
    Refused::Value {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

/// The value of a parameter that describes this server.
fn of_settings(name: &str, settings: &Settings) -> String {
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let address = settings.resp.first().and_then(|one| one.rsplit_once(':'));
    match name {
        "maxmemory" => settings.memory_bytes.to_string(),
        "maxclients" => settings.max_connections.to_string(),
        "databases" => settings.databases.to_string(),
        "timeout" => settings.idle_timeout_s.to_string(),
        "bind" => address.map_or_else(String::new, |(host, _)| host.to_owned()),
        "port" => address.map_or_else(|| "0".to_owned(), |(_, port)| port.to_owned()),
        "protected-mode" => yes_or_no(settings.protected_mode),
        "enable-debug-command" => yes_or_no(settings.enable_debug_commands),
        "proto-max-bulk-len" | "client-query-buffer-limit" => {
            let limits = cellar_protocol::resp::Limits::default();
            limits.bulk_bytes_max.to_string()
        }
        "notify-keyspace-events" => events(&settings.notify_keyspace_events).unwrap_or_default(),
        "tracking-table-max-keys" => settings.tracking_table_max_keys.to_string(),
        "io-threads" => settings.threads.to_string(),
        _ => String::new(),
    }
}

impl Form {
    /// The value that `text` means; `old` is the present one.
    fn read(self, text: &[u8], old: &str) -> Result<String, Cow<'static, str>> {
        let text = std::str::from_utf8(text).map_err(|_| "the text is not UTF-8")?;
        if text.len() > TEXT_BYTES_MAX {
            return Err("the text is too long".into());
        }
        let is_right = match self {
            Form::Fixed if text == old => Ok(()),
            Form::Fixed => Err("can't set immutable config"),
            Form::Switch if ["yes", "no"].contains(&text) => Ok(()),
            Form::Switch => Err("argument must be 'yes' or 'no'"),
            Form::Number(least, most) => return number(text, least, most),
            Form::Nearest(least, most) => return nearest(text, least, most),
            Form::Bytes => return bytes(text),
            Form::Choice(words) => return choice(text, words),
            Form::Saves if is_saves(text) => Ok(()),
            Form::Saves => Err("Invalid save parameters"),
            Form::Events => return events(text),
            Form::Buffers if text.split_whitespace().count().is_multiple_of(4) => Ok(()),
            Form::Buffers => Err("Wrong number of arguments in buffer limit configuration."),
            Form::Text => Ok(()),
        };
        is_right.map(|()| text.to_owned()).map_err(Cow::Borrowed)
    }
}

fn number(text: &str, least: i64, most: i64) -> Result<String, Cow<'static, str>> {
    match parse_integer(text.as_bytes()) {
        None => Err("argument couldn't be parsed into an integer".into()),
        Some(number) if (least..=most).contains(&number) => Ok(number.to_string()),
        Some(_) => Err(format!("argument must be between {least} and {most} inclusive").into()),
    }
}

fn nearest(text: &str, least: i64, most: i64) -> Result<String, Cow<'static, str>> {
    let number: i64 = number(text, 0, i32::MAX.into())?.parse().unwrap_or(most);
    Ok(number.clamp(least, most).to_string())
}

/// A number with one of Redis's units: `k` is 1000, `kb` is 1024.
fn bytes(text: &str) -> Result<String, Cow<'static, str>> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: Option<u64> = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "k" => Some(1_000),
        "kb" => Some(1 << 10),
        "m" => Some(1_000_000),
        "mb" => Some(1 << 20),
        "g" => Some(1_000_000_000),
        "gb" => Some(1 << 30),
        _ => None,
    };
    let count = digits.parse::<u64>().ok();
    match count.zip(factor).and_then(|(n, unit)| n.checked_mul(unit)) {
        Some(bytes) => Ok(bytes.to_string()),
        None => Err("argument must be a memory value".into()),
    }
}

fn choice(text: &str, words: &[&str]) -> Result<String, Cow<'static, str>> {
    match words.iter().find(|word| word.eq_ignore_ascii_case(text)) {
        Some(word) => Ok((*word).to_owned()),
        None => {
            let words = words.join(", ");
            Err(format!("argument(s) must be one of the following: {words}").into())
        }
    }
}

fn is_saves(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_natural = |word: &&str| word.parse::<u32>().is_ok();
    words.len().is_multiple_of(2) && words.iter().all(is_natural)
}

/// Classes of events in the order in which Redis shows them.
fn events(text: &str) -> Result<String, Cow<'static, str>> {
    /// What `A` stands for.
    const MOST: &str = "g$lshzxetd";
    if !text
        .chars()
        .all(|class| "AKEmn".contains(class) || MOST.contains(class))
    {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into());
    }
    let has = |class: char| text.contains(class);
    let mut shown = String::new();
    if has('A') || MOST.chars().all(has) {
        shown.push('A');
    } else {
        shown.extend(MOST.chars().filter(|&class| has(class)));
    }
    shown.extend("KEmn".chars().filter(|&class| has(class)));
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_twice_and_every_initial_value_is_allowed() {
        let settings = Settings::default();
        let parameters = Parameters::new(&settings);
        for (place, row) in TABLE.iter().enumerate() {
            let first = TABLE.iter().position(|other| other.name == row.name);
            assert_eq!(first, Some(place), "{}", row.name);
            let value = parameters.value(row.name);
            let again = parameters.change(&[(row.name.as_bytes(), value.as_bytes())]);
            assert_eq!(again, Ok(vec![(row.name, value)]));
        }
    }

    #[test]
    fn all_changes_are_made_or_none() {
        let parameters = Parameters::new(&Settings::default());
        let pairs: [(&[u8], &[u8]); 2] = [(b"HZ", b"20"), (b"appendonly", b"maybe")];
        let reason = "argument must be 'yes' or 'no'";
        assert_eq!(
            parameters.change(&pairs),
            Err(refused("appendonly", reason))
        );
        assert_eq!(parameters.value("hz"), "10");
        assert!(parameters.change(&pairs[..1]).is_ok());
        assert_eq!(parameters.value("hz"), "20");
    }

    #[test]
    fn values_are_read_as_redis_reads_them() {
        let check = |form: Form, text: &str, expected: Option<&str>| {
            let read = form.read(text.as_bytes(), "old");
            assert_eq!(read.ok().as_deref(), expected, "{text}");
        };
        check(Form::Bytes, "2kb", Some("2048"));
        check(Form::Bytes, "3M", Some("3000000"));
        check(Form::Bytes, "99999999999gb", None);
        check(Form::Bytes, "abc", None);
        check(Form::Saves, "900 1 300 10", Some("900 1 300 10"));
        check(Form::Saves, "900", None);
        check(Form::Events, "KEA", Some("AKE"));
        check(Form::Events, "xEg", Some("gxE"));
        check(Form::Events, "q", None);
        check(Form::Fixed, "old", Some("old"));
        check(Form::Fixed, "new", None);
        check(Form::Number(1, 5), "6", None);
        check(Form::Nearest(1, 5), "0", Some("1"));
        check(Form::Nearest(1, 5), "9", Some("5"));
        check(Form::Nearest(1, 5), "-1", None);
        check(POLICIES, "ALLKEYS-LRU", Some("allkeys-lru"));
        check(POLICIES, "noeviction", None);
    }
}

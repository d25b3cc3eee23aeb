//! Parameters: what CONFIG GET shows and CONFIG SET changes, under the names that Redis has.
//!
//! `CONFIG SET` accepts the parameters that change something in Cellar
//! (`execute/resp/admin/config.rs` applies them) and those of Redis's compact encodings, which
//! only OBJECT ENCODING reports. For any other it returns an error (`Form::Fixed`, `Form::Unused`),
//! so that no client believes in a change that did not happen. Setting the present value is no
//! change.
//!
//! Source of names, forms and error texts: `config.c` of Redis 7.
//! Tests: server/tests/resp_admin.rs.

use std::borrow::Cow;

use cellar_protocol::resp::glob::Pattern;
use cellar_protocol::resp::number::parse_integer;
use parking_lot::{Mutex, MutexGuard};

use crate::limits::COMMAND_LOG_ENTRIES_MAX;
use crate::settings::address::Address;
use crate::settings::compressed_databases::CompressedDatabases;
use crate::settings::default_ttl::DefaultTtl;
use crate::settings::letters;
use crate::settings::{EXPIRE_EFFORT_MAX, Settings, least_memory_bytes};

/// The version of Redis that clients are told: near caches ask for 7.4 or later.
pub const REDIS_VERSION: &str = "7.4.0";

/// Longest text that a parameter keeps.
const TEXT_BYTES_MAX: usize = 1024;

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Nothing but what it is: it follows from the settings.
    Fixed,
    /// The same: nothing depends on it here.
    Unused,
    /// `yes` or `no`.
    Switch,
    /// A whole number within these bounds.
    Number(i64, i64),
    /// How much of the memory that was reserved at the start is used.
    Memory,
    /// The name of an eviction policy for all keys; there is one policy, whatever it is called.
    Policy,
    /// Classes of keyspace events.
    Events,
    /// What items live that are stored without a time to live.
    DefaultTtl,
    /// `auto`, `off` or databases: whose values are compressed.
    Compress,
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

/// Entries of a log of commands.
const LOG_ENTRIES: Form = Form::Number(0, COMMAND_LOG_ENTRIES_MAX as i64);

/// An amount from which something is logged; -1 for never.
const THRESHOLD: Form = Form::Number(-1, i64::MAX);

/// Seconds after which idle connections are closed; zero for never.
const TIMEOUT: Form = Form::Number(0, i32::MAX as i64);

/// How hard the cache looks for what is overdue.
const EFFORT: Form = Form::Number(1, EXPIRE_EFFORT_MAX as i64);

/// All parameters. An initial value of `?` follows from the settings.
const TABLE: &[ParameterRow] = &[
    row("maxmemory", Form::Memory, "?"),
    row("maxmemory-policy", Form::Policy, "allkeys-lfu"),
    row("maxmemory-samples", Form::Unused, "5"),
    row("maxmemory-eviction-tenacity", Form::Unused, "10"),
    row("maxmemory-clients", Form::Fixed, "0"),
    row("maxclients", Form::Fixed, "?"),
    row("databases", Form::Fixed, "?"),
    row("timeout", TIMEOUT, "?"),
    row("bind", Form::Fixed, "?"),
    row("port", Form::Fixed, "?"),
    row("tls-port", Form::Fixed, "?"),
    row("unixsocket", Form::Fixed, "?"),
    row("unixsocketperm", Form::Fixed, "?"),
    row("requirepass", Form::Fixed, ""),
    row("protected-mode", Form::Fixed, "?"),
    row("enable-debug-command", Form::Fixed, "?"),
    row("enable-module-command", Form::Fixed, "no"),
    row("enable-protected-configs", Form::Fixed, "no"),
    row("proto-max-bulk-len", Form::Fixed, "?"),
    row("client-query-buffer-limit", Form::Fixed, "?"),
    row("io-threads", Form::Fixed, "?"),
    row("cluster-enabled", Form::Fixed, "?"),
    row("appendonly", Form::Unused, "no"),
    row("appendfsync", Form::Unused, "everysec"),
    row("save", Form::Unused, ""),
    row("dir", Form::Unused, "/"),
    row("dbfilename", Form::Unused, "dump.rdb"),
    row("rdbcompression", Form::Unused, "yes"),
    row("rdbchecksum", Form::Unused, "yes"),
    row("stop-writes-on-bgsave-error", Form::Unused, "yes"),
    row("auto-aof-rewrite-percentage", Form::Unused, "100"),
    row("aof-use-rdb-preamble", Form::Unused, "yes"),
    row("replica-read-only", Form::Unused, "yes"),
    row("slave-read-only", Form::Unused, "yes"),
    row("replicaof", Form::Fixed, ""),
    row("slaveof", Form::Fixed, ""),
    row("min-replicas-to-write", Form::Unused, "0"),
    row("repl-backlog-size", Form::Unused, "1048576"),
    row("hz", Form::Unused, "10"),
    row("dynamic-hz", Form::Unused, "yes"),
    row("tcp-keepalive", Form::Unused, "0"),
    row("tcp-backlog", Form::Fixed, "1024"),
    row("loglevel", Form::Unused, "notice"),
    row("notify-keyspace-events", Form::Events, "?"),
    row("tracking-table-max-keys", NATURAL, "?"),
    row(
        "client-output-buffer-limit",
        Form::Unused,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    row("slowlog-log-slower-than", THRESHOLD, "10000"),
    row("commandlog-execution-slower-than", THRESHOLD, "10000"),
    row("slowlog-max-len", LOG_ENTRIES, "128"),
    row("commandlog-slow-execution-max-len", LOG_ENTRIES, "128"),
    row("commandlog-request-larger-than", THRESHOLD, "1048576"),
    row("commandlog-large-request-max-len", LOG_ENTRIES, "128"),
    row("commandlog-reply-larger-than", THRESHOLD, "1048576"),
    row("commandlog-large-reply-max-len", LOG_ENTRIES, "128"),
    row("latency-monitor-threshold", NATURAL, "0"),
    row("latency-tracking", Form::Unused, "yes"),
    row(
        "latency-tracking-info-percentiles",
        Form::Unused,
        "50 99 99.9",
    ),
    row("busy-reply-threshold", Form::Unused, "5000"),
    row("lua-time-limit", Form::Unused, "5000"),
    row("acllog-max-len", Form::Unused, "128"),
    row("activerehashing", Form::Unused, "yes"),
    row("activedefrag", Form::Unused, "no"),
    row("active-expire-effort", EFFORT, "?"),
    row("release-memory", Form::Switch, "?"),
    row("compress", Form::Compress, "?"),
    row("default-ttl", Form::DefaultTtl, "?"),
    row("noeviction-databases", Form::Fixed, "?"),
    row("keep", Form::Fixed, "?"),
    row("lfu-log-factor", Form::Unused, "10"),
    row("lfu-decay-time", Form::Unused, "1"),
    row("lazyfree-lazy-eviction", Form::Unused, "no"),
    row("lazyfree-lazy-expire", Form::Unused, "no"),
    row("lazyfree-lazy-server-del", Form::Unused, "no"),
    row("lazyfree-lazy-user-del", Form::Unused, "no"),
    row("lazyfree-lazy-user-flush", Form::Unused, "no"),
    row("replica-lazy-flush", Form::Unused, "no"),
    row("list-max-listpack-size", Form::Unused, "-2"),
    row("list-max-ziplist-size", Form::Unused, "-2"),
    row("list-compress-depth", Form::Unused, "0"),
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
    row("stream-node-max-bytes", Form::Unused, "4096"),
    row("stream-node-max-entries", Form::Unused, "100"),
    row("hll-sparse-max-bytes", Form::Unused, "3000"),
];

/// The part of docs/config.md on parameters.
#[must_use]
pub fn page() -> String {
    let names = |of: fn(Form) -> bool| {
        let rows = TABLE.iter().filter(|row| of(row.form));
        let names: Vec<String> = rows.map(|row| format!("`{}`", row.name)).collect();
        names.join(", ")
    };
    format!(
        "\n## Parameters of CONFIG\n\n`CONFIG SET` changes these parameters at once, until the \
         process ends: {}. `maxmemory-policy` takes the names of the policies for all keys ({}); \
         one policy serves all of them.\n\nThese follow from the settings above and cannot be \
         changed at run time: {}.\n\nThese exist for tools that read them. They have no effect, \
         and `CONFIG SET` returns an error for a change: {}.\n",
        names(|form| !matches!(form, Form::Fixed | Form::Unused)),
        POLICIES.join(", "),
        names(|form| form == Form::Fixed),
        names(|form| form == Form::Unused),
    )
}

/// Whether CONFIG SET changes the parameter with this name.
#[must_use]
pub fn can_change(name: &str) -> bool {
    let row = TABLE.iter().find(|row| row.name == name);
    row.is_some_and(|row| !matches!(row.form, Form::Fixed | Form::Unused))
}

/// The place of the same parameter under its other name: Redis 7 calls listpack what was ziplist,
/// and Valkey has a name of its own for each parameter of the slow log.
fn twin(place: usize) -> Option<usize> {
    let name = TABLE[place].name;
    let other = match name {
        "slowlog-log-slower-than" => "commandlog-execution-slower-than".to_owned(),
        "commandlog-execution-slower-than" => "slowlog-log-slower-than".to_owned(),
        "slowlog-max-len" => "commandlog-slow-execution-max-len".to_owned(),
        "commandlog-slow-execution-max-len" => "slowlog-max-len".to_owned(),
        name if name.contains("-listpack-") => name.replacen("-listpack-", "-ziplist-", 1),
        name => name.replacen("-ziplist-", "-listpack-", 1),
    };
    TABLE
        .iter()
        .position(|row| row.name == other && row.name != name)
}

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

/// Up to where Redis keeps a collection in its short form, a listpack.
#[derive(Clone, Copy, Debug)]
pub struct ShortForm {
    /// Most entries.
    pub entries_max: usize,
    /// Longest name, value or member.
    pub bytes_max: usize,
}

/// Up to where Redis keeps which collection in which form: what CONFIG SET has said.
#[derive(Clone, Copy, Debug)]
pub struct Encodings {
    /// Hashes.
    pub hash: ShortForm,
    /// Sets.
    pub set: ShortForm,
    /// Sorted sets.
    pub sorted_set: ShortForm,
    /// Most integers that Redis keeps as integers in a set.
    pub integers_max: usize,
}

/// The present values.
#[derive(Debug)]
pub struct Parameters {
    values: Mutex<Vec<String>>,
    /// Held while a change takes effect, before `values`.
    turn: Mutex<()>,
    databases: usize,
    /// The memory that was reserved at the start.
    memory_bytes: usize,
    /// What of it is databases' own.
    kept_bytes: usize,
}

impl Parameters {
    /// The values at start.
    #[must_use]
    pub fn new(settings: &Settings) -> Parameters {
        let initial = |row: &ParameterRow| match row.initial {
            "?" => of_settings(row.name, settings),
            text => text.to_owned(),
        };
        Parameters {
            values: Mutex::new(TABLE.iter().map(initial).collect()),
            turn: Mutex::default(),
            databases: settings.databases,
            kept_bytes: settings.keep.bytes(),
            memory_bytes: settings.memory_bytes,
        }
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
        let values = self.values.lock();
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
        place.map_or_else(String::new, |place| self.values.lock()[place].clone())
    }

    /// Up to where OBJECT ENCODING tells of short forms.
    #[must_use]
    pub fn encodings(&self) -> Encodings {
        let number = |name: &str| self.value(name).parse().unwrap_or(usize::MAX);
        let short = |kind: &str| ShortForm {
            entries_max: number(&format!("{kind}-max-listpack-entries")),
            bytes_max: number(&format!("{kind}-max-listpack-value")),
        };
        Encodings {
            hash: short("hash"),
            set: short("set"),
            sorted_set: short("zset"),
            integers_max: number("set-max-intset-entries"),
        }
    }

    /// Puts the values that can be changed into the settings that they came from.
    pub fn put_into(&self, settings: &mut Settings) {
        let values = self.values.lock();
        for (row, value) in TABLE.iter().zip(values.iter()) {
            match row.name {
                "notify-keyspace-events" => settings.notify_keyspace_events.clone_from(value),
                "tracking-table-max-keys" => {
                    settings.tracking_table_max_keys = value.parse().unwrap_or(usize::MAX);
                }
                "active-expire-effort" => {
                    settings.expire_effort = value.parse().unwrap_or(EXPIRE_EFFORT_MAX);
                }
                "release-memory" => settings.release_memory = value == "yes",
                "compress" => {
                    settings.compress = CompressedDatabases::parse(value).unwrap_or_default();
                }
                "maxmemory" => {
                    settings.memory_bytes = value.parse().unwrap_or(settings.memory_bytes);
                }
                "timeout" => settings.idle_timeout_s = value.parse().unwrap_or(0),
                "default-ttl" => {
                    settings.default_ttl = DefaultTtl::parse(value).unwrap_or_default();
                }
                _ => {}
            }
        }
    }

    /// Held while changes are made and take effect, so that who changes last is heard last.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
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
            if places.contains(&place) || twin(place).is_some_and(|twin| places.contains(&twin)) {
                return Err(refused(TABLE[place].name, "duplicate parameter"));
            }
            places.push(place);
        }
        let mut values = self.values.lock();
        let mut changed = Vec::with_capacity(pairs.len());
        for (&place, (_, text)) in places.iter().zip(pairs) {
            let row = &TABLE[place];
            let value = match row.form {
                Form::Memory => memory(text, self.memory_bytes, self.kept_bytes),
                form => form.read(text, &values[place], self.databases),
            };
            let value = value.map_err(|reason| refused(row.name, reason))?;
            changed.push((place, value));
        }
        let shown = changed.into_iter().map(|(place, value)| {
            values[place].clone_from(&value);
            if let Some(twin) = twin(place) {
                values[twin].clone_from(&value);
            }
            (TABLE[place].name, value)
        });
        Ok(shown.collect())
    }
}

fn refused(name: &str, reason: impl Into<Cow<'static, str>>) -> Refused {
    Refused::Value {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

/// The value of a parameter that describes a server with these settings.
#[must_use]
pub fn of_settings(name: &str, settings: &Settings) -> String {
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let first = |is_wanted: fn(&&Address) -> bool| {
        let mut wanted = settings.listen.resp.iter().filter(is_wanted);
        wanted.find_map(Address::host_and_port)
    };
    let port = |is_wanted: fn(&&Address) -> bool| {
        first(is_wanted).map_or("0", |(_, port)| port).to_owned()
    };
    match name {
        "maxmemory" => settings.memory_bytes.to_string(),
        "maxclients" => settings.max_connections.to_string(),
        "databases" => settings.databases.to_string(),
        "cluster-enabled" => yes_or_no(settings.cluster.is_some()),
        "timeout" => settings.idle_timeout_s.to_string(),
        "bind" => first(|_| true).map_or_else(String::new, |(host, _)| host.to_owned()),
        "port" => port(|address| !address.is_tls()),
        "tls-port" => port(|address| address.is_tls()),
        "unixsocket" => {
            let files = settings.listen.resp.iter().find_map(Address::file);
            files.map_or_else(String::new, |path| path.display().to_string())
        }
        "unixsocketperm" => format!("{:o}", settings.unix_mode),
        "protected-mode" => yes_or_no(!settings.insecure),
        "enable-debug-command" => yes_or_no(settings.enable_debug_commands),
        "proto-max-bulk-len" | "client-query-buffer-limit" => {
            let limits = cellar_protocol::resp::Limits::default();
            limits.bulk_bytes_max.to_string()
        }
        "notify-keyspace-events" => events(&settings.notify_keyspace_events).unwrap_or_default(),
        "tracking-table-max-keys" => settings.tracking_table_max_keys.to_string(),
        "io-threads" => settings.threads.to_string(),
        "active-expire-effort" => settings.expire_effort.to_string(),
        "release-memory" => yes_or_no(settings.release_memory),
        "compress" => settings.compress.to_string(),
        "default-ttl" => settings.default_ttl.to_string(),
        "noeviction-databases" | "keep" => settings.keep.to_string(),
        _ => String::new(),
    }
}

impl Form {
    /// The value that `text` means; `old` is the present one, and so many databases there are.
    fn read(self, text: &[u8], old: &str, databases: usize) -> Result<String, Cow<'static, str>> {
        let text = std::str::from_utf8(text).map_err(|_| "the text is not UTF-8")?;
        if text.len() > TEXT_BYTES_MAX {
            return Err("the text is too long".into());
        }
        let is_right = match self {
            Form::Fixed | Form::Unused if text.eq_ignore_ascii_case(old) => {
                return Ok(old.to_owned());
            }
            Form::Fixed => Err("can't set immutable config"),
            Form::Unused => Err("Cellar does not implement this parameter"),
            Form::Switch if ["yes", "no"].contains(&text) => Ok(()),
            Form::Switch => Err("argument must be 'yes' or 'no'"),
            Form::Number(least, most) => {
                return number(text, least, most);
            }
            Form::Memory => Err("the memory is read with its bounds"),
            Form::Policy => return policy(text),
            Form::Events => return events(text),
            Form::DefaultTtl => return default_ttl(text, databases),
            Form::Compress => return compress(text, databases),
        };
        is_right.map(|()| text.to_owned()).map_err(Cow::Borrowed)
    }
}

/// The names of eviction policies that are taken: any key may be evicted.
const POLICIES: [&str; 4] = [
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-lrm",
    "allkeys-random",
];

fn policy(text: &str) -> Result<String, Cow<'static, str>> {
    let name = text.to_ascii_lowercase();
    if POLICIES.contains(&name.as_str()) {
        return Ok(name);
    }
    let reason = if name == "noeviction" || name.starts_with("volatile-") {
        "Cellar can evict every key; use --noeviction-databases for databases without eviction"
    } else {
        "argument(s) must be one of the following: allkeys-lru, allkeys-lfu, allkeys-lrm, \
         allkeys-random"
    };
    Err(reason.into())
}

fn number(text: &str, least: i64, most: i64) -> Result<String, Cow<'static, str>> {
    match parse_integer(text.as_bytes()) {
        None => Err("argument couldn't be parsed into an integer".into()),
        Some(number) if (least..=most).contains(&number) => Ok(number.to_string()),
        Some(_) => Err(format!("argument must be between {least} and {most} inclusive").into()),
    }
}

/// Bytes as Redis reads them, within what a cache can be made of that was given `reserved` bytes,
/// of which `kept` are databases' own.
fn memory(text: &[u8], reserved: usize, kept: usize) -> Result<String, Cow<'static, str>> {
    const WRONG: &str = "argument must be a memory value";
    let text = std::str::from_utf8(text).map_err(|_| WRONG)?;
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit: usize = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err(WRONG.into()),
    };
    let number: usize = digits.parse().map_err(|_| WRONG)?;
    let bytes = number.checked_mul(unit).ok_or(WRONG)?;
    let least = least_memory_bytes(reserved, kept);
    if (least..=reserved).contains(&bytes) {
        return Ok(bytes.to_string());
    }
    let text =
        format!("maxmemory must be from {least} to {reserved} bytes, the --memory of the start");
    Err(text.into())
}

/// What `--default-ttl` would take, as it is shown.
fn default_ttl(text: &str, databases: usize) -> Result<String, Cow<'static, str>> {
    let ttl = DefaultTtl::parse(text)?;
    ttl.check(databases)?;
    Ok(ttl.to_string())
}

fn compress(text: &str, databases: usize) -> Result<String, Cow<'static, str>> {
    let compressed = CompressedDatabases::parse(text)?;
    compressed.check(databases)?;
    Ok(compressed.to_string())
}

/// Classes of events in the order in which Redis shows them.
fn events(text: &str) -> Result<String, Cow<'static, str>> {
    match letters::parse(text) {
        Ok(flags) => Ok(letters::show(flags)),
        Err(_) => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdnocSTIV'.".into()),
    }
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
        let pairs: [(&[u8], &[u8]); 2] =
            [(b"SLOWLOG-max-len", b"20"), (b"release-memory", b"maybe")];
        let reason = "argument must be 'yes' or 'no'";
        assert_eq!(
            parameters.change(&pairs),
            Err(refused("release-memory", reason))
        );
        assert_eq!(parameters.value("slowlog-max-len"), "128");
        assert!(parameters.change(&pairs[..1]).is_ok());
        assert_eq!(parameters.value("slowlog-max-len"), "20");
    }

    #[test]
    fn a_parameter_with_two_names_has_one_value() {
        let parameters = Parameters::new(&Settings::default());
        let (old, new): (&[u8], &[u8]) =
            (b"zset-max-ziplist-entries", b"zset-max-listpack-entries");
        assert!(parameters.change(&[(old, b"7")]).is_ok());
        assert_eq!(parameters.value("zset-max-listpack-entries"), "7");
        assert_eq!(parameters.encodings().sorted_set.entries_max, 7);
        assert!(parameters.change(&[(new, b"8")]).is_ok());
        assert_eq!(parameters.value("zset-max-ziplist-entries"), "8");
        let name = "zset-max-listpack-entries";
        assert_eq!(
            parameters.change(&[(old, b"1"), (new, b"2")]),
            Err(refused(name, "duplicate parameter"))
        );
    }

    #[test]
    fn values_are_read_as_redis_reads_them() {
        let check = |form: Form, text: &str, expected: Option<&str>| {
            let read = form.read(text.as_bytes(), "old", 16);
            assert_eq!(read.ok().as_deref(), expected, "{text}");
        };
        check(Form::Events, "KEA", Some("AKE"));
        check(Form::Events, "xEg", Some("gxE"));
        check(Form::Events, "q", None);
        check(Form::Fixed, "old", Some("old"));
        check(Form::Fixed, "new", None);
        check(Form::Number(1, 5), "6", None);
        check(Form::Unused, "OLD", Some("old"));
        check(Form::Unused, "new", None);
        check(Form::Compress, "auto", Some("auto"));
        check(Form::Compress, "1,0", Some("0,1"));
        check(Form::Compress, "on", None);
        check(Form::Switch, "on", None);
        check(Form::Switch, "no", Some("no"));
        check(Form::Switch, "No", None);
        let check_memory = |text: &str, expected: Option<&str>| {
            let read = memory(text.as_bytes(), 1 << 20, 0);
            assert_eq!(read.ok().as_deref(), expected, "{text}");
        };
        check_memory("1048576", Some("1048576"));
        check_memory("512kb", Some("524288"));
        check_memory("300K", Some("300000"));
        check_memory("1mb", Some("1048576"));
        for wrong in [
            "1048577",
            "0",
            "255kb",
            "x",
            "",
            "1tb",
            "-1",
            "99999999999999999999gb",
        ] {
            check_memory(wrong, None);
        }
        check(Form::DefaultTtl, "60s", Some("1m"));
        check(Form::DefaultTtl, "60", None);
        check(Form::DefaultTtl, "resp:16=1m", None);
    }
}

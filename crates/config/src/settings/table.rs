//! Table: one row for each setting, how it is read and shown; those of a cluster in `cluster.rs`.
//!
//! Tests: at the end of this file; server/tests/startup_errors.rs.

mod cluster; // what makes this server a node among others

use std::path::PathBuf;

use super::address::Address;
use super::collector::{Collector, interval};
use super::compressed_databases::CompressedDatabases;
use super::default_ttl::DefaultTtl;
use super::hosts::Hosts;
use super::keep::Keep;
use super::secret::{password, show_secret, token};
use super::units::{parse_duration_ms, parse_size, show_duration_ms, show_size};
use super::values::{
    client_memory, effort, level, log_format, mode, non_zero_duration, number, path, paths,
    show_path, show_paths, switch, value_limit,
};
use super::{CONNECTIONS_MAX, DATABASES_MAX, LogFormat, SWITCH, THREADS_MAX, letters};

pub use super::row::Row;

/// All settings except `--config` and `--print-config`, in the order they are shown.
pub const TABLE: &[Row] = &[
    Row {
        name: "memory",
        parameter: Some("maxmemory"),
        value: "SIZE|auto",
        default: "256MiB",
        help: "Memory limit of the cache: items, index and bookkeeping. auto = the control group's \
               limit, minus the program, --max-connections and --client-memory; without such a \
               limit half of the machine's memory.",
        set: |s, v| {
            s.memory_is_auto = v == "auto";
            let bytes = if s.memory_is_auto {
                Ok(s.memory_bytes)
            } else {
                parse_size(v)
            };
            put(&mut s.memory_bytes, bytes)
        },
        show: |s| {
            if s.memory_is_auto {
                "auto".to_owned()
            } else {
                show_size(s.memory_bytes)
            }
        },
    },
    Row {
        name: "threads",
        parameter: Some("io-threads"),
        value: "N",
        default: "one per core",
        help: "Number of event loops. Each serves its own connections, and all share the cache. \
               The default is at most the number of whole processors in the control group's CPU \
               quota.",
        set: |s, v| put(&mut s.threads, number(v, 1, THREADS_MAX)),
        show: |s| s.threads.to_string(),
    },
    Row {
        name: "memcached",
        parameter: None,
        value: "ADDR|off",
        default: "127.0.0.1:11211",
        help: "Addresses for the memcached protocol: host:port, tls:host:port or unix:/path, \
               separated by commas. Port 0 selects a free port. With --users the first command of \
               a client is its login.",
        set: |s, v| put(&mut s.listen.memcached, Address::parse_all(v)),
        show: |s| Address::show_all(&s.listen.memcached),
    },
    Row {
        name: "resp",
        parameter: None,
        value: "ADDR|off",
        default: "127.0.0.1:6379",
        help: "Addresses for the Redis protocol: host:port, tls:host:port or unix:/path, separated \
               by commas. Port 0 selects a free port.",
        set: |s, v| put(&mut s.listen.resp, Address::parse_all(v)),
        show: |s| Address::show_all(&s.listen.resp),
    },
    Row {
        name: "databases",
        parameter: Some("databases"),
        value: "N",
        default: "16",
        help: "Number of databases for SELECT, at most 10000. Unused databases cost nothing. \
               memcached and HTTP use database 0. In a cluster the default is 1.",
        set: |s, v| put(&mut s.databases, number(v, 1, DATABASES_MAX)),
        show: |s| s.databases.to_string(),
    },
    Row {
        name: "noeviction-databases",
        parameter: Some("noeviction-databases"),
        value: "DATABASES:SIZE",
        default: "none",
        help: "Databases without eviction and their share of --memory, at least 1MiB. A store that \
               does not fit returns -OOM. 3,4:64MiB gives two databases one share, 3:64MiB,4:1MiB \
               gives each its own. At most 8 shares and half of --memory; not for database 0.",
        set: |s, v| put(&mut s.keep, Keep::parse(v)),
        show: |s| s.keep.to_string(),
    },
    Row {
        name: "state",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "Directory on a tmpfs for the cache's memory. The next server continues with it \
               after a restart, a crash or kill -9. Only the server's user may access it. One \
               server at a time.",
        set: |s, v| put(&mut s.state, path(v)),
        show: |s| show_path(s.state.as_deref()),
    },
    Row {
        name: "max-downtime",
        parameter: None,
        value: "DURATION",
        default: "1m",
        help: "With --state: the cache starts empty if no server ran for longer than this. During \
               the downtime it receives no invalidations for changes in the database behind it.",
        set: |s, v| put(&mut s.max_downtime_ms, non_zero_duration(v)),
        show: |s| show_duration_ms(s.max_downtime_ms),
    },
    Row {
        name: "state-verify",
        parameter: None,
        value: SWITCH,
        default: "off",
        help: "With --state: compares checksums after a clean stop, too, and drops items that do \
               not match. It also counts all restored items, and starts empty if a count is wrong. \
               It takes as long as a few reads of each item.",
        set: |s, v| put(&mut s.state_verify, switch(v)),
        show: |s| if s.state_verify { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "password",
        parameter: Some("requirepass"),
        value: "TEXT|off",
        default: "off",
        help: "Password for clients of the Redis protocol (AUTH, HELLO). Other users of the \
               machine can read a flag, so use the variable or the file.",
        set: |s, v| put(&mut s.secrets.resp, password(v)),
        show: |s| show_secret(&s.secrets.resp),
    },
    Row {
        name: "users",
        parameter: None,
        value: "FILE|off",
        default: "off",
        help: "File of users in TOML, for all protocols: names, password hashes, roles, key \
               prefixes. Only its owner and group may read it. The server reloads it when it \
               changes and on SIGHUP.",
        set: |s, v| {
            s.users = (v != "off").then(|| PathBuf::from(v));
            if v.is_empty() {
                Err("the path is empty; write off for none".to_owned())
            } else {
                Ok(())
            }
        },
        show: |s| {
            let path = s.users.as_ref().map(|path| path.display().to_string());
            path.unwrap_or_else(|| "off".to_owned())
        },
    },
    Row {
        name: "insecure",
        parameter: Some("protected-mode"),
        value: SWITCH,
        default: "off",
        help: "Allows non-loopback addresses without authentication. Without it each of them needs \
               --users, the password or token of its protocol, or client certificates.",
        set: |s, v| put(&mut s.insecure, switch(v)),
        show: |s| if s.insecure { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "notify-keyspace-events",
        parameter: Some("notify-keyspace-events"),
        value: "FLAGS|off",
        default: "off",
        help: "Keyspace notifications, as in Redis: K (channels by key) or E (channels by event), \
               and the event flags g $ l s h z x e m n o c, or A for all but m, n, o and c. S, T, \
               I and V are channels that name the fields of hashes.",
        set: |s, v| {
            let letters = if v == "off" { "" } else { v };
            letters::parse(letters)?;
            put(&mut s.notify_keyspace_events, Ok(letters.to_owned()))
        },
        show: |s| {
            let letters = s.notify_keyspace_events.clone();
            if letters.is_empty() {
                "off".to_owned()
            } else {
                letters
            }
        },
    },
    Row {
        name: "tracking-table-max-keys",
        parameter: Some("tracking-table-max-keys"),
        value: "N",
        default: "1000000",
        help: "Number of keys that the server remembers for CLIENT TRACKING. Above it, or above \
               256 MiB, the server forgets some keys and invalidates them. 0 = limited by the \
               bytes only.",
        set: |s, v| put(&mut s.tracking_table_max_keys, number(v, 0, usize::MAX)),
        show: |s| s.tracking_table_max_keys.to_string(),
    },
    Row {
        name: "http",
        parameter: None,
        value: "ADDR|off",
        default: "127.0.0.1:8080",
        help: "Addresses for HTTP: host:port, tls:host:port or unix:/path, separated by commas. \
               HTTP serves the cache under /v1/cache, metrics and the console. Port 0 selects a \
               free port.",
        set: |s, v| put(&mut s.listen.http, Address::parse_all(v)),
        show: |s| Address::show_all(&s.listen.http),
    },
    Row {
        name: "http-token",
        parameter: None,
        value: "TEXT|off",
        default: "off",
        help: "Token for HTTP requests (`Authorization: Bearer ...`), for all paths except \
               /healthz and /readyz. Other users of the machine can read a flag, so use the \
               variable or the file.",
        set: |s, v| put(&mut s.secrets.http, token(v)),
        show: |s| show_secret(&s.secrets.http),
    },
    Row {
        name: "http-hosts",
        parameter: None,
        value: "NAMES|*|off",
        default: "off",
        help: "Host names that HTTP requests may use in the Host header, without a port, separated \
               by commas. IP addresses, localhost, the machine's own name and names in --http are \
               always allowed. *.cache.example allows all names below it, * allows any. A request \
               with another name needs the token, because a web page may have resolved its own \
               name to this server.",
        set: |s, v| put(&mut s.http_hosts, Hosts::parse(v)),
        show: |s| s.http_hosts.show(),
    },
    Row {
        name: "console-write",
        parameter: None,
        value: SWITCH,
        default: "off",
        help: "Allows the console to change data. By default it is read-only.",
        set: |s, v| put(&mut s.console_write, switch(v)),
        show: |s| if s.console_write { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "unix",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "UNIX socket for the memcached protocol, the same as unix:PATH in --memcached. The \
               server replaces a stale socket file, and exits if another server uses it.",
        set: |s, v| {
            s.unix = (v != "off").then(|| PathBuf::from(v));
            if v.is_empty() {
                Err("the path is empty".to_owned())
            } else {
                Ok(())
            }
        },
        show: |s| {
            s.unix
                .as_ref()
                .map_or("off".to_owned(), |p| p.display().to_string())
        },
    },
    Row {
        name: "unix-mode",
        parameter: Some("unixsocketperm"),
        value: "MODE",
        default: "700",
        help: "Permission bits of the UNIX sockets, in octal.",
        set: |s, v| put(&mut s.unix_mode, mode(v)),
        show: |s| format!("{:o}", s.unix_mode),
    },
    Row {
        name: "control",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "UNIX socket for --takeover. Only programs of the same user may connect.",
        set: |s, v| put(&mut s.control, path(v)),
        show: |s| show_paths(s.control.as_slice()),
    },
    Row {
        name: "takeover",
        parameter: None,
        value: SWITCH,
        default: "off",
        help: "Takes over listening sockets and clients from the server at --control. The old \
               server serves until this one is ready, and continues if the takeover fails. The \
               items are kept if both have the same --state; otherwise the cache starts empty.",
        set: |s, v| put(&mut s.takeover, switch(v)),
        show: |s| if s.takeover { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "tls-cert",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "Certificate for addresses with tls:, in PEM, with the intermediate certificates \
               after it. Several are separated by commas; the server chooses by the client's SNI \
               name, or else uses the first. It reloads them when a file changes and on SIGHUP.",
        set: |s, v| put(&mut s.tls_cert, paths(v)),
        show: |s| show_paths(&s.tls_cert),
    },
    Row {
        name: "tls-key",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "Private key of the certificate, in PEM; several in the order of --tls-cert. The \
               server refuses a file that every user of the machine can read.",
        set: |s, v| put(&mut s.tls_key, paths(v)),
        show: |s| show_paths(&s.tls_key),
    },
    Row {
        name: "tls-client-ca",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "Certificate authorities in PEM. Each client over TLS must present a certificate \
               that one of them has signed.",
        set: |s, v| put(&mut s.tls_client_ca, path(v)),
        show: |s| show_paths(s.tls_client_ca.as_slice()),
    },
    Row {
        name: "max-connections",
        parameter: Some("maxclients"),
        value: "N",
        default: "10000",
        help: "Maximum number of connections. The server refuses further ones with an error. It \
               raises the limit of open files if the system allows it. Otherwise it lowers the \
               default, and exits if the number was set explicitly.",
        set: |s, v| put(&mut s.max_connections, number(v, 1, CONNECTIONS_MAX)),
        show: |s| s.max_connections.to_string(),
    },
    Row {
        name: "client-memory",
        parameter: None,
        value: "SIZE|auto",
        default: "auto",
        help: "Memory limit, beside --memory, for all clients together: requests, pending replies, \
               transactions, subscriptions. Above it the server closes connections, first the \
               largest ones that make no progress. It also limits the length of a command, without \
               the value of SET. auto = an eighth of --memory, from 96MiB to 1GiB.",
        set: |s, v| put(&mut s.client_memory_bytes, client_memory(v)),
        show: |s| {
            s.client_memory_bytes
                .map_or_else(|| "auto".to_owned(), show_size)
        },
    },
    Row {
        name: "max-value",
        parameter: None,
        value: "SIZE|auto",
        default: "auto",
        help: "Maximum length of a value, at most 512MiB and half of --memory. auto = 1MiB over \
               the memcached protocol; over the others only the maximum applies. The limit also \
               holds for fields, members and elements of collections.",
        set: |s, v| put(&mut s.max_value_bytes, value_limit(v)),
        show: |s| {
            s.max_value_bytes
                .map_or_else(|| "auto".to_owned(), show_size)
        },
    },
    Row {
        name: "idle-timeout",
        parameter: Some("timeout"),
        value: "DURATION",
        default: "0",
        help: "Closes a connection that has sent nothing for this long, with a precision of one \
               second. It does not apply to blocked clients, subscribers and monitors. 0 = never.",
        set: |s, v| {
            put(
                &mut s.idle_timeout_s,
                parse_duration_ms(v).map(|ms| ms.div_ceil(1_000)),
            )
        },
        show: |s| show_duration_ms(s.idle_timeout_s * 1_000),
    },
    Row {
        name: "login-timeout",
        parameter: None,
        value: "DURATION",
        default: "10s",
        help: "If a login is needed, closes a connection without a login after this time, with a \
               precision of one second. Over HTTP the time counts between requests, until one was \
               authenticated. 0 = never.",
        set: |s, v| put(&mut s.login_timeout_ms, parse_duration_ms(v)),
        show: |s| show_duration_ms(s.login_timeout_ms),
    },
    Row {
        name: "write-timeout",
        parameter: None,
        value: "DURATION",
        default: "30s",
        help: "Closes the connection of a client that does not read its replies, or stops in the \
               middle of a request, for this long. It is 1 s while values in transfer use a \
               quarter of the cache.",
        set: |s, v| put(&mut s.write_timeout_ms, non_zero_duration(v)),
        show: |s| show_duration_ms(s.write_timeout_ms),
    },
    Row {
        name: "lame-duck",
        parameter: None,
        value: "DURATION",
        default: "0",
        help: "After SIGTERM, continues to serve for this long while /readyz returns 503, so that \
               load balancers stop sending clients. Then the server drains. A second signal ends \
               it at once.",
        set: |s, v| put(&mut s.lame_duck_ms, parse_duration_ms(v)),
        show: |s| show_duration_ms(s.lame_duck_ms),
    },
    Row {
        name: "drain-timeout",
        parameter: None,
        value: "DURATION",
        default: "5s",
        help: "Maximum time for answering received requests during shutdown.",
        set: |s, v| put(&mut s.drain_timeout_ms, parse_duration_ms(v)),
        show: |s| show_duration_ms(s.drain_timeout_ms),
    },
    Row {
        name: "release-memory",
        parameter: Some("release-memory"),
        value: SWITCH,
        default: "off",
        help: "Returns free memory to the operating system within a second, and compacts partly \
               free memory for that. By default, without --state, memory that was free for ten \
               seconds goes back, slowly. CONFIG SET release-memory changes it, MEMORY PURGE does \
               it once.",
        set: |s, v| put(&mut s.release_memory, switch(v)),
        show: |s| if s.release_memory { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "compress",
        parameter: Some("compress"),
        value: "auto|off|DATABASES",
        default: "off",
        help: "Compresses values of 128 B to 16 KiB that look alike, so that more items fit into \
               --memory: auto in all databases, a list such as 0,3 in these. A store writes its \
               value plain; the server compresses it when it moves the item, or before a full \
               cache evicts. Keys with the same database and the same text before the first : or \
               / share a dictionary, which the server trains. Values that are read often, and \
               those that do not compress, stay plain. CONFIG SET compress changes it.",
        set: |s, v| put(&mut s.compress, CompressedDatabases::parse(v)),
        show: |s| s.compress.to_string(),
    },
    Row {
        name: "expire-effort",
        parameter: Some("active-expire-effort"),
        value: "N",
        default: "1",
        help: "Effort of background expiry, 1 to 10. With 1 expired items use at most 3 % of the \
               used memory. With 10 they use at most half a percent, and live items are copied \
               three times as often. With any effort, expired, deleted and overwritten items use \
               at most 6 % ten seconds after the last write. CONFIG SET active-expire-effort \
               changes it.",
        set: |s, v| put(&mut s.expire_effort, effort(v)),
        show: |s| s.expire_effort.to_string(),
    },
    Row {
        name: "default-ttl",
        parameter: Some("default-ttl"),
        value: "DURATION",
        default: "0",
        help: "TTL of items that are stored without one; 0 = none. http=10m applies to one \
               protocol, resp:3=1h to one database; several are separated by commas, and the most \
               specific one applies. CONFIG SET default-ttl changes it for items stored \
               afterwards.",
        set: |s, v| put(&mut s.default_ttl, DefaultTtl::parse(v)),
        show: |s| s.default_ttl.to_string(),
    },
    Row {
        name: "lease-timeout",
        parameter: None,
        value: "DURATION",
        default: "30s",
        help: "How long a lease lasts (meta get with N or R) before another client may win it.",
        set: |s, v| put(&mut s.lease_ms, non_zero_duration(v)),
        show: |s| show_duration_ms(s.lease_ms),
    },
    Row {
        name: "enable-debug-commands",
        parameter: Some("enable-debug-command"),
        value: SWITCH,
        default: "off",
        help: "Enables DEBUG, which tests use to make the server sleep or to stop background \
               maintenance. Not for production.",
        set: |s, v| put(&mut s.enable_debug_commands, switch(v)),
        show: |s| if s.enable_debug_commands { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "script-time-limit",
        parameter: None,
        value: "DURATION",
        default: "5s",
        help: "Aborts a script (EVAL) that runs longer than this; its writes remain. A script \
               blocks other commands on its keys. The commands of a transaction share one such \
               limit; the remaining ones are not executed.",
        set: |s, v| put(&mut s.script_time_ms, non_zero_duration(v)),
        show: |s| show_duration_ms(s.script_time_ms),
    },
    Row {
        name: "watchdog",
        parameter: None,
        value: "DURATION|off",
        default: "1m",
        help: "Aborts the process (SIGABRT) if an event loop is blocked for this long, so that the \
               service manager restarts it. It must be more than --script-time-limit. The server \
               also logs and counts every loop that is blocked for a second.",
        set: |s, v| {
            let ms = if v == "off" {
                Ok(0)
            } else {
                parse_duration_ms(v)
            };
            put(&mut s.watchdog_ms, ms)
        },
        show: |s| match s.watchdog_ms {
            0 => "off".to_owned(),
            ms => show_duration_ms(ms),
        },
    },
    Row {
        name: "otlp",
        parameter: None,
        value: "URL|off",
        default: "off",
        help: "Sends all metrics to an OpenTelemetry collector, by OTLP over HTTP: \
               http://127.0.0.1:4318. For encryption run a collector on the same machine.",
        set: |s, v| put(&mut s.otlp, Collector::parse(v)),
        show: |s| {
            s.otlp
                .as_ref()
                .map_or("off".to_owned(), Collector::to_string)
        },
    },
    Row {
        name: "otlp-interval",
        parameter: None,
        value: "DURATION",
        default: "1m",
        help: "Interval between two exports to --otlp, at least 1s.",
        set: |s, v| put(&mut s.otlp_interval_ms, interval(v)),
        show: |s| show_duration_ms(s.otlp_interval_ms),
    },
    cluster::CLUSTER,
    cluster::NODE,
    cluster::NODE_WEIGHT,
    cluster::ANNOUNCE_RESP,
    cluster::ANNOUNCE_MEMCACHED,
    cluster::ANNOUNCE_HTTP,
    cluster::CLUSTER_LEASE,
    cluster::CLUSTER_CA,
    cluster::CLUSTER_CERT,
    cluster::CLUSTER_KEY,
    cluster::CLUSTER_USER,
    cluster::CLUSTER_PASSWORD_FILE,
    Row {
        name: "log-level",
        parameter: None,
        value: "LEVEL",
        default: "info",
        help: "Minimum severity of log lines: off, error, warn, info, debug, trace.",
        set: |s, v| put(&mut s.log_level, level(v)),
        show: |s| s.log_level.to_string(),
    },
    Row {
        name: "log-format",
        parameter: None,
        value: "text|json",
        default: "text",
        help: "Format of log lines on standard error.",
        set: |s, v| put(&mut s.log_format, log_format(v)),
        show: |s| {
            if s.log_format == LogFormat::Json {
                "json"
            } else {
                "text"
            }
            .to_owned()
        },
    },
];

/// Puts a parsed value in its place.
fn put<T>(place: &mut T, parsed: Result<T, String>) -> Result<(), String> {
    parsed.map(|value| *place = value)
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn every_written_default_is_the_default() {
        for row in TABLE.iter().filter(|row| row.name != "threads") {
            let mut settings = Settings::default();
            let shown = (row.show)(&settings);
            (row.set)(&mut settings, row.default).unwrap();
            assert_eq!((row.show)(&settings), shown, "{}", row.name);
        }
    }

    #[test]
    fn every_setting_reads_what_it_shows() {
        for row in TABLE {
            let mut settings = Settings::default();
            let shown = (row.show)(&settings);
            (row.set)(&mut settings, &shown).unwrap();
            assert_eq!((row.show)(&settings), shown, "{}", row.name);
        }
    }

    #[test]
    fn bad_values_are_refused_with_a_reason() {
        for (name, bad) in [
            ("memory", "12QB"),
            ("memory", "-1"),
            ("threads", "0"),
            ("threads", "many"),
            ("memcached", "11211"),
            ("memcached", "localhost:99999"),
            ("resp", "6379"),
            ("databases", "10001"),
            ("noeviction-databases", "3"),
            ("noeviction-databases", "0:64MiB"),
            ("state", ""),
            ("max-downtime", "0"),
            ("state-verify", "1"),
            ("http", "on"),
            ("http-token", "two words"),
            ("http-token", ""),
            ("http-token", "(set)"),
            ("password", ""),
            ("password", "(set)"),
            ("http-hosts", "http://cache.example"),
            ("http-hosts", "cache.example:80"),
            ("console-write", "yes"),
            ("unix", ""),
            ("control", ""),
            ("takeover", "yes"),
            ("tls-cert", "a.pem,,b.pem"),
            ("tls-key", ""),
            ("tls-client-ca", ""),
            ("unix-mode", "999"),
            ("unix-mode", "7777"),
            ("max-connections", "0"),
            ("client-memory", "1000KiB"),
            ("client-memory", "much"),
            ("max-value", "513MiB"),
            ("max-value", "0"),
            ("idle-timeout", "10"),
            ("login-timeout", "10"),
            ("write-timeout", "0"),
            ("default-ttl", "10"),
            ("default-ttl", "http:1=10m"),
            ("lease-timeout", "-1s"),
            ("script-time-limit", "0"),
            ("watchdog", "on"),
            ("watchdog", "10"),
            ("release-memory", "yes"),
            ("otlp", "https://collector"),
            ("otlp", "127.0.0.1:4318"),
            ("otlp", "http://"),
            ("otlp", "http://a b:1"),
            ("otlp", "http://a:b"),
            ("otlp-interval", "10ms"),
            ("otlp-interval", "60"),
            ("log-level", "loud"),
            ("log-level", "3"),
            ("log-format", "xml"),
        ] {
            let row = TABLE.iter().find(|row| row.name == name).unwrap();
            let reason = (row.set)(&mut Settings::default(), bad).unwrap_err();
            assert!(
                !reason.is_empty() && !reason.contains('\n'),
                "{name} {bad}: {reason}"
            );
        }
    }
}

//! Table: one row for each setting, how it is read and shown; those of a cluster in `cluster.rs`.
//!
//! Tests: at the end of this file; tests/startup_errors.rs.

mod cluster; // what makes this server a node among others

use std::path::PathBuf;

use super::address::Address;
use super::collector::{Collector, interval};
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
        help: "Memory of the cache: items, index and bookkeeping together. auto = what the limit \
               of its control group leaves after the program, --max-connections and \
               --client-memory; without such a limit half of the machine's.",
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
        help: "Event loops; each serves its own connections, all share the cache. The default is \
               no more than the control group's quota of processor time has whole processors.",
        set: |s, v| put(&mut s.threads, number(v, 1, THREADS_MAX)),
        show: |s| s.threads.to_string(),
    },
    Row {
        name: "memcached",
        parameter: None,
        value: "ADDR|off",
        default: "127.0.0.1:11211",
        help: "Address for the memcached protocol, host:port, tls:host:port or unix:/path; several \
               with commas between them. Port 0 takes a free one. With --users a client's first \
               command is its login.",
        set: |s, v| put(&mut s.memcached, Address::parse_all(v)),
        show: |s| Address::show_all(&s.memcached),
    },
    Row {
        name: "resp",
        parameter: None,
        value: "ADDR|off",
        default: "127.0.0.1:6379",
        help: "Address for the Redis protocol, host:port, tls:host:port or unix:/path; several \
               with commas between them. Port 0 takes a free one.",
        set: |s, v| put(&mut s.resp, Address::parse_all(v)),
        show: |s| Address::show_all(&s.resp),
    },
    Row {
        name: "databases",
        parameter: Some("databases"),
        value: "N",
        default: "16",
        help: "Key spaces that SELECT knows, at most 10000; one that is not used costs nothing. \
               Database 0 is what memcached sees.",
        set: |s, v| put(&mut s.databases, number(v, 1, DATABASES_MAX)),
        show: |s| s.databases.to_string(),
    },
    Row {
        name: "keep",
        parameter: Some("keep"),
        value: "DATABASES:SIZE",
        default: "none",
        help: "Databases with a share of --memory of their own, at least 1 MiB: nothing of these \
               is evicted, a store that does not fit is refused (-OOM). 3,4:64MiB is for two \
               together, 3:64MiB,4:1MiB for each; at most 8 shares and half of the memory, not \
               database 0.",
        set: |s, v| put(&mut s.keep, Keep::parse(v)),
        show: |s| s.keep.to_string(),
    },
    Row {
        name: "state",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "Directory, on a tmpfs, in which the cache's memory outlives the server: after a \
               restart, a crash or kill -9 the next one goes on with it. Nobody but its owner may \
               use it; one server at a time.",
        set: |s, v| put(&mut s.state, path(v)),
        show: |s| show_path(s.state.as_deref()),
    },
    Row {
        name: "max-downtime",
        parameter: None,
        value: "DURATION",
        default: "1m",
        help: "With --state: longer without a server than this, the next one begins empty. What \
               was changed in the store behind the cache meanwhile, nobody has told it.",
        set: |s, v| put(&mut s.max_downtime_ms, non_zero_duration(v)),
        show: |s| show_duration_ms(s.max_downtime_ms),
    },
    Row {
        name: "state-verify",
        parameter: None,
        value: SWITCH,
        default: "off",
        help: "With --state: compares checksums after a clean stop, too, and drops what does not \
               agree; counts all that is restored, and begins empty if a count is wrong. It takes \
               as long as a few reads of each item.",
        set: |s, v| put(&mut s.state_verify, switch(v)),
        show: |s| if s.state_verify { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "password",
        parameter: Some("requirepass"),
        value: "TEXT|off",
        default: "off",
        help: "What clients of the Redis protocol have to say (AUTH, HELLO) before anything else. \
               Better given as a variable or in the file than as a flag, which others can read.",
        set: |s, v| put(&mut s.password, password(v)),
        show: |s| show_secret(&s.password),
    },
    Row {
        name: "users",
        parameter: None,
        value: "FILE|off",
        default: "off",
        help: "File of users in TOML, for all protocols: names, hashes of passwords, roles, \
               prefixes of keys. Nobody but its owner and group may read it. Read anew when it \
               changes and at SIGHUP.",
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
        help: "Lets addresses that other machines reach be open to whoever comes. Without it each \
               of them needs --users, the password or token of its protocol, or client \
               certificates.",
        set: |s, v| put(&mut s.insecure, switch(v)),
        show: |s| if s.insecure { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "notify-keyspace-events",
        parameter: Some("notify-keyspace-events"),
        value: "LETTERS|off",
        default: "off",
        help: "Which changes of keys are published, in Redis's letters: K (channels called like \
               the key) or E (like the event), with g $ s h z x e m n, or A for most of them. \
               AKE publishes all but m and n.",
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
        help: "Key names remembered for clients that asked to be told of changes (CLIENT \
               TRACKING); above it, or above 256 MiB, some are dropped and their readers told. 0 \
               = bounded by the bytes alone.",
        set: |s, v| put(&mut s.tracking_table_max_keys, number(v, 0, usize::MAX)),
        show: |s| s.tracking_table_max_keys.to_string(),
    },
    Row {
        name: "http",
        parameter: None,
        value: "ADDR|off",
        default: "127.0.0.1:8080",
        help: "Address for HTTP, host:port, tls:host:port or unix:/path: the cache under \
               /v1/cache, figures and the console; several with commas between them. Port 0 \
               takes a free one.",
        set: |s, v| put(&mut s.http, Address::parse_all(v)),
        show: |s| Address::show_all(&s.http),
    },
    Row {
        name: "http-token",
        parameter: None,
        value: "TEXT|off",
        default: "off",
        help: "What requests over HTTP have to bear (`Authorization: Bearer ...`), but for \
               /healthz and /readyz. Better given as a variable or in the file than as a flag, \
               which others can read.",
        set: |s, v| put(&mut s.http_token, token(v)),
        show: |s| show_secret(&s.http_token),
    },
    Row {
        name: "http-hosts",
        parameter: None,
        value: "NAMES|*|off",
        default: "off",
        help: "Names that requests over HTTP may have in their field Host besides addresses, \
               localhost, this machine's own name and names given to --http; several with commas \
               between them, *.cache.example for all below one, * for any. Without a port. A \
               request with another name needs the token: it may come from a web page that has \
               made its own name lead here.",
        set: |s, v| put(&mut s.http_hosts, Hosts::parse(v)),
        show: |s| s.http_hosts.show(),
    },
    Row {
        name: "console-write",
        parameter: None,
        value: SWITCH,
        default: "off",
        help: "Lets the console change things: without it the console only shows.",
        set: |s, v| put(&mut s.console_write, switch(v)),
        show: |s| if s.console_write { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "unix",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "UNIX socket for the memcached protocol, short for unix:PATH in --memcached. The \
               socket file of a server that is gone is replaced, that of a living one is an error.",
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
        help: "UNIX socket by which a successor takes over (--takeover), for programs of the same \
               user alone.",
        set: |s, v| put(&mut s.control, path(v)),
        show: |s| show_paths(s.control.as_slice()),
    },
    Row {
        name: "takeover",
        parameter: None,
        value: SWITCH,
        default: "off",
        help: "Takes over from the server at --control: its listening sockets, with whoever waits \
               there, and its clients. It serves until this one is ready, and goes on if that \
               fails. Items come along if both have the same --state, else the cache starts empty.",
        set: |s, v| put(&mut s.takeover, switch(v)),
        show: |s| if s.takeover { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "tls-cert",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "Certificate for addresses with tls:, in PEM, its issuers behind it; several with \
               commas between them, chosen by the name that the client asks for, else the first. \
               Read anew on SIGHUP, and when the file has changed.",
        set: |s, v| put(&mut s.tls_cert, paths(v)),
        show: |s| show_paths(&s.tls_cert),
    },
    Row {
        name: "tls-key",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "Private key of the certificate, in PEM; of several in the same order. A file that \
               every user of the machine can read is refused.",
        set: |s, v| put(&mut s.tls_key, paths(v)),
        show: |s| show_paths(&s.tls_key),
    },
    Row {
        name: "tls-client-ca",
        parameter: None,
        value: "PATH|off",
        default: "off",
        help: "Authorities, in PEM, one of which has to have signed the certificate that each \
               client over TLS then has to show.",
        set: |s, v| put(&mut s.tls_client_ca, path(v)),
        show: |s| show_paths(s.tls_client_ca.as_slice()),
    },
    Row {
        name: "max-connections",
        parameter: Some("maxclients"),
        value: "N",
        default: "10000",
        help: "Most connections at one time; a further one is told so and closed. The limit of \
               open files is raised to fit where the system allows it; if not, the default gives \
               way and a number that was asked for is an error.",
        set: |s, v| put(&mut s.max_connections, number(v, 1, CONNECTIONS_MAX)),
        show: |s| s.max_connections.to_string(),
    },
    Row {
        name: "client-memory",
        parameter: None,
        value: "SIZE|auto",
        default: "auto",
        help: "Most memory beside --memory that clients have the server hold: requests on their \
               way, replies that wait, transactions, subscriptions. Above it connections are \
               closed, first the largest of those that do not get on. Also the longest command, \
               a value of SET not counted. auto = an eighth of --memory, from 96MiB to 1GiB.",
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
        help: "Longest value, at most 512MiB and half of --memory; auto = 1MiB over memcached's \
               protocol, as there, 4MiB for a hash, set, sorted set or list, and no limit of its \
               own for the rest.",
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
        help: "Closes a connection that sent nothing for this long, to the second, unless it waits \
               in a command, has subscriptions or is a monitor; 0 = never.",
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
        help: "Where a login is needed, closes a connection on which nobody has logged in for this \
               long, to the second; over HTTP, one without a request for so long, as long as none \
               was let in; 0 = never.",
        set: |s, v| put(&mut s.login_timeout_ms, parse_duration_ms(v)),
        show: |s| show_duration_ms(s.login_timeout_ms),
    },
    Row {
        name: "write-timeout",
        parameter: None,
        value: "DURATION",
        default: "30s",
        help: "Drops a client that leaves its replies unread, or stops in the middle of a request, \
               for this long. While a quarter of the cache is held by values in transfer, 1 s.",
        set: |s, v| put(&mut s.write_timeout_ms, non_zero_duration(v)),
        show: |s| show_duration_ms(s.write_timeout_ms),
    },
    Row {
        name: "lame-duck",
        parameter: None,
        value: "DURATION",
        default: "0",
        help: "How long a server that was told to stop (SIGTERM) goes on as before while /readyz \
               says 503, so that whoever balances the load sends nobody here any more; then it \
               drains. A second signal ends it at once.",
        set: |s, v| put(&mut s.lame_duck_ms, parse_duration_ms(v)),
        show: |s| show_duration_ms(s.lame_duck_ms),
    },
    Row {
        name: "drain-timeout",
        parameter: None,
        value: "DURATION",
        default: "5s",
        help: "Longest time that a server told to stop takes to answer what it has received.",
        set: |s, v| put(&mut s.drain_timeout_ms, parse_duration_ms(v)),
        show: |s| show_duration_ms(s.drain_timeout_ms),
    },
    Row {
        name: "release-memory",
        parameter: Some("release-memory"),
        value: SWITCH,
        default: "off",
        help: "Gives memory that holds nothing live back to the system within seconds; what is \
               partly dead is compacted for it. Without it the cache keeps such memory for items \
               to come. CONFIG SET release-memory changes it, MEMORY PURGE does it once.",
        set: |s, v| put(&mut s.release_memory, switch(v)),
        show: |s| if s.release_memory { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "expire-effort",
        parameter: Some("active-expire-effort"),
        value: "N",
        default: "1",
        help: "How hard the cache looks for expired items whose memory nobody needs, 1 to 10: with \
               1 at most 3 % of what is held is of expired items, with 10 half a per cent, for \
               three times the copies of what lives beside them. Of expired, deleted and \
               overwritten items together at most 6 % is left ten seconds after the last write, \
               with any effort. CONFIG SET active-expire-effort changes it.",
        set: |s, v| put(&mut s.expire_effort, effort(v)),
        show: |s| s.expire_effort.to_string(),
    },
    Row {
        name: "default-ttl",
        parameter: Some("default-ttl"),
        value: "DURATION",
        default: "0",
        help: "How long items live that are stored without a time to live; 0 = until they are \
               evicted. http=10m is for one protocol, resp:3=1h for one database; several with \
               commas between them, the narrowest counts. CONFIG SET default-ttl changes it for \
               what is stored from then on.",
        set: |s, v| put(&mut s.default_ttl, DefaultTtl::parse(v)),
        show: |s| s.default_ttl.to_string(),
    },
    Row {
        name: "lease-timeout",
        parameter: None,
        value: "DURATION",
        default: "30s",
        help: "How long the winner of a lease (meta get with N or R) keeps others out before the \
               next caller may win it.",
        set: |s, v| put(&mut s.lease_ms, non_zero_duration(v)),
        show: |s| show_duration_ms(s.lease_ms),
    },
    Row {
        name: "enable-debug-commands",
        parameter: Some("enable-debug-command"),
        value: SWITCH,
        default: "off",
        help: "Answers DEBUG, with which tests make the server sleep or hold its upkeep. Not for \
               servers that others use.",
        set: |s, v| put(&mut s.enable_debug_commands, switch(v)),
        show: |s| if s.enable_debug_commands { "on" } else { "off" }.to_owned(),
    },
    Row {
        name: "script-time-limit",
        parameter: None,
        value: "DURATION",
        default: "5s",
        help: "Ends a script (EVAL) with an error that runs longer than this; nobody else is \
               served meanwhile. What it has written stays. All commands of a transaction have \
               as long together; those behind are not run.",
        set: |s, v| put(&mut s.script_time_ms, non_zero_duration(v)),
        show: |s| show_duration_ms(s.script_time_ms),
    },
    Row {
        name: "watchdog",
        parameter: None,
        value: "DURATION|off",
        default: "1m",
        help: "Ends the process (SIGABRT) when an event loop has stood still for this long: what \
               started it starts it anew. More than --script-time-limit. A loop that stands still \
               for a second is logged and counted in any case.",
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
        help: "Sends all figures of /metrics to a collector of OpenTelemetry, by OTLP over HTTP: \
               http://127.0.0.1:4318. Beyond this machine it is for a collector beside the server \
               to encrypt.",
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
        help: "How often; at least 1s.",
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
        help: "Least severe log lines that are printed: off, error, warn, info, debug, trace.",
        set: |s, v| put(&mut s.log_level, level(v)),
        show: |s| s.log_level.to_string(),
    },
    Row {
        name: "log-format",
        parameter: None,
        value: "text|json",
        default: "text",
        help: "How log lines on standard error look.",
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
            ("keep", "3"),
            ("keep", "0:64MiB"),
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

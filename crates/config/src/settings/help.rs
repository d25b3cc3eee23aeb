//! Help: the text of `--help`, on one screen; `--help-all` describes every flag in full.
//!
//! Tests: at the end of this file.

use super::{Row, TABLE};

/// Flags of one subject.
struct Group {
    title: &'static str,
    /// The common ones, each with a short description.
    flags: &'static [(&'static str, &'static str)],
    /// The others.
    more: &'static [&'static str],
}

const HEAD: &str = "\
Cache server for many small, expiring items, with the memcached, Redis and HTTP protocols

Usage: cellar [FLAGS]           start the server
       cellar top               show a running server's metrics in the terminal
       cellar healthcheck       check whether a running server answers; exit status 0 or 1
       cellar doctor            check settings and host configuration, and suggest fixes
       cellar migrate check     list what applications use of an old server and Cellar lacks
       cellar hash-password     hash a password for the users file

";

const TAIL: &str = "\
General: --help-all describes every flag, --print-config prints the settings, --version the version
  --config FILE             settings in TOML: the flags with _ for -; SIGHUP reloads it
";

/// Column at which the description of a flag begins.
const COLUMN: usize = 28;
/// Longest line.
const WIDTH: usize = 100;

const GROUPS: &[Group] = &[
    Group {
        title: "Memory and threads",
        flags: &[
            ("memory", "memory limit of the cache"),
            ("threads", "number of event loops"),
            ("default-ttl", "TTL of items that are stored without one"),
            ("state", "directory that keeps the cache across restarts"),
        ],
        more: &[
            "state-verify",
            "max-downtime",
            "client-memory",
            "databases",
            "noeviction-databases",
            "max-value",
            "tracking-table-max-keys",
            "release-memory",
            "expire-effort",
            "compress",
        ],
    },
    Group {
        title: "Listen addresses: host:port, tls:host:port or unix:/path, separated by commas",
        flags: &[
            ("memcached", "memcached protocol"),
            ("resp", "Redis protocol"),
            ("http", "HTTP: the cache, metrics and the console"),
        ],
        more: &["max-connections", "unix", "unix-mode"],
    },
    Group {
        title: "Access control",
        flags: &[
            (
                "users",
                "file with names, password hashes, roles, key prefixes",
            ),
            ("password", "one password for the Redis protocol"),
            ("http-token", "one token for HTTP"),
            ("tls-cert", "certificate for tls: addresses, with --tls-key"),
        ],
        more: &[
            "tls-key",
            "tls-client-ca",
            "insecure",
            "http-hosts",
            "console-write",
            "enable-debug-commands",
        ],
    },
    Group {
        title: "Timeouts and hot restart",
        flags: &[("idle-timeout", "close idle connections after this time")],
        more: &[
            "lame-duck",
            "drain-timeout",
            "login-timeout",
            "write-timeout",
            "script-time-limit",
            "lease-timeout",
            "control",
            "takeover",
        ],
    },
    Group {
        title: "Cluster",
        flags: &[],
        more: &[
            "cluster",
            "node",
            "node-weight",
            "cluster-lease",
            "cluster-ca",
            "cluster-cert",
            "cluster-key",
            "cluster-user",
            "cluster-password-file",
            "announce-resp",
            "announce-memcached",
            "announce-http",
        ],
    },
    Group {
        title: "Logging and monitoring",
        flags: &[("log-level", "off, error, warn, info, debug or trace")],
        more: &[
            "log-format",
            "otlp",
            "otlp-interval",
            "watchdog",
            "notify-keyspace-events",
        ],
    },
];

/// The text.
pub(super) fn short() -> String {
    let mut text = HEAD.to_owned();
    for group in GROUPS {
        text.push_str(&format!("{}\n", group.title));
        for (name, words) in group.flags {
            if let Some(row) = TABLE.iter().find(|row| row.name == *name) {
                text.push_str(&line(row, words));
            }
        }
        let prefix = if group.flags.is_empty() {
            " "
        } else {
            "  also"
        };
        text.push_str(&list(prefix, group.more));
    }
    text.push_str(TAIL);
    text
}

/// Only the names, after a prefix, on as many lines as needed.
fn list(prefix: &str, names: &[&str]) -> String {
    let (mut text, mut line) = (String::new(), prefix.to_owned());
    for name in names {
        if line.len() + name.len() + 3 > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = " ".repeat(prefix.len());
        }
        line.push_str(&format!(" --{name}"));
    }
    text + &line + "\n"
}

fn line(row: &Row, words: &str) -> String {
    let flag = format!("  --{} {}", row.name, row.value);
    format!("{flag:<COLUMN$}{words} [{}]\n", row.default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_named_once() {
        let named = GROUPS.iter().flat_map(|group| {
            let flags = group.flags.iter().map(|(name, _)| name);
            flags.chain(group.more)
        });
        let mut named: Vec<&str> = named.copied().collect();
        named.sort_unstable();
        let mut all: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
        all.sort_unstable();
        assert_eq!(named, all);
    }

    #[test]
    fn it_fits_on_a_screen() {
        let text = short();
        assert!(text.lines().count() < 40, "{} lines", text.lines().count());
        for line in text.lines() {
            assert!(line.len() <= 100, "{line}");
        }
    }
}

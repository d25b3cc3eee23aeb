//! Help: what `--help` says, on one screen; `--help-all` has every flag with all that it does.
//!
//! Tests: at the end of this file.

use super::{Row, TABLE};

/// Flags that belong together.
struct Group {
    title: &'static str,
    /// Those that most need, and what each is in a few words.
    flags: &'static [(&'static str, &'static str)],
    /// The others.
    more: &'static [&'static str],
}

const HEAD: &str = "\
Cache server for very many small, expiring items: memcached's and Redis's protocols, and HTTP

Usage: cellar [FLAGS]           serves, at the addresses below if there are no flags
       cellar top               a running server's figures, live in a terminal
       cellar healthcheck       whether a running server answers: exit status 0, or 1
       cellar doctor            what would keep this machine from its speed, and the remedy
       cellar migrate check     what an old server is used for that is not here
       cellar hash-password     the hash of a password, for the file of users

";

const TAIL: &str = "\
General (--help-all tells of every flag, --print-config of what is in effect)
  --config FILE             settings in TOML: the flags with _ for -; SIGHUP reads it anew
  --version                 the version
";

/// Column at which a flag's words begin.
const COLUMN: usize = 28;
/// Longest line.
const WIDTH: usize = 100;

const GROUPS: &[Group] = &[
    Group {
        title: "Memory and threads",
        flags: &[
            ("memory", "items, index and bookkeeping together"),
            ("threads", "event loops"),
            ("state", "where memory outlives the server"),
        ],
        more: &[
            "client-memory",
            "max-value",
            "databases",
            "keep",
            "release-memory",
            "state-verify",
        ],
    },
    Group {
        title: "Where clients come in: host:port, tls:host:port, unix:/path, several with commas",
        flags: &[
            ("memcached", "memcached's protocol"),
            ("resp", "Redis's protocol"),
            ("http", "HTTP: the cache, figures, the console"),
        ],
        more: &[
            "max-connections",
            "unix",
            "unix-mode",
            "console-write",
            "control",
            "takeover",
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
        title: "Who comes in",
        flags: &[
            (
                "users",
                "names, hashes of passwords, roles, prefixes of keys",
            ),
            ("password", "the short form for Redis's protocol"),
            ("http-token", "the short form for HTTP"),
            (
                "tls-cert",
                "certificate for addresses with tls:, beside --tls-key",
            ),
        ],
        more: &[
            "tls-key",
            "tls-client-ca",
            "insecure",
            "login-timeout",
            "http-hosts",
            "tracking-table-max-keys",
        ],
    },
    Group {
        title: "Times",
        flags: &[
            (
                "default-ttl",
                "how long items live that are stored without one",
            ),
            ("idle-timeout", "closes connections that send nothing"),
            ("lame-duck", "goes on for so long when it is told to stop"),
            ("drain-timeout", "then answers what it has received"),
        ],
        more: &[
            "write-timeout",
            "script-time-limit",
            "lease-timeout",
            "expire-effort",
            "watchdog",
            "max-downtime",
        ],
    },
    Group {
        title: "What it tells",
        flags: &[("log-level", "off, error, warn, info, debug, trace")],
        more: &[
            "log-format",
            "otlp",
            "otlp-interval",
            "notify-keyspace-events",
            "enable-debug-commands",
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
        text.push_str(&also(group.more));
    }
    text.push_str(TAIL);
    text
}

/// The names alone, in as many lines as they take.
fn also(names: &[&str]) -> String {
    let (mut text, mut line) = (String::new(), "  also".to_owned());
    for name in names {
        if line.len() + name.len() + 3 > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = "      ".to_owned();
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

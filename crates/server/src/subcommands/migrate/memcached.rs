//! memcached: which features clients of a memcached server use, from its own statistics.
//!
//! Tests: at the end of this file; tests/migrate.rs.

use cellar_config::logging::printable;
use cellar_config::settings::units::show_size;

use super::findings::Findings;
use super::wire::OldLink;

/// Longest text from the server that is shown.
const TEXT_LETTERS_MAX: usize = 80;

/// Names in the report, and the statistics whose sum is the count. For `delete`, `incr`, `decr` and
/// `cas` memcached counts only the outcomes.
const COUNTED: [(&[&str], &str); 10] = [
    (&["cmd_get"], "get"),
    (&["cmd_set"], "set"),
    (&["cas_hits", "cas_misses", "cas_badval"], "cas"),
    (&["delete_hits", "delete_misses"], "delete"),
    (&["incr_hits", "incr_misses"], "incr"),
    (&["decr_hits", "decr_misses"], "decr"),
    (&["cmd_touch"], "touch"),
    (&["cmd_meta"], "meta commands"),
    (&["cmd_flush"], "flush_all"),
    (&["auth_cmds"], "logins"),
];

/// Sends all queries.
///
/// # Errors
/// Why a query fails, in one line.
pub fn ask(link: &mut OldLink, user: Option<&(String, String)>) -> Result<Findings, String> {
    if let Some((name, password)) = user {
        let login = format!("{name} {password}");
        let question = format!("set auth 0 0 {}\r\n{login}\r\n", login.len());
        link.ask_lines(&question, "STORED")?;
    }
    let closed = |reason: String| match reason.as_str() {
        "it closed the connection" => {
            format!("{reason}; with -S or -B binary memcached accepts only the binary protocol")
        }
        _ => reason,
    };
    let version = link.ask_lines("version\r\n", "").map_err(closed)?;
    let stats = link.ask_lines("stats\r\n", "END")?;
    let settings = link.ask_lines("stats settings\r\n", "END")?;
    Ok(judge(&version, &stats, &settings))
}

fn judge(version: &[String], stats: &[String], settings: &[String]) -> Findings {
    let version = version
        .first()
        .and_then(|line| line.strip_prefix("VERSION "));
    let version: String = version
        .unwrap_or("")
        .chars()
        .take(TEXT_LETTERS_MAX)
        .collect();
    let mut found = Findings {
        server: format!("memcached {}", printable(&version)),
        ..Findings::default()
    };
    for (names, shown) in COUNTED {
        let counts = names
            .iter()
            .map(|name| stat(stats, name).parse().unwrap_or(0));
        let calls = counts.fold(0, u64::saturating_add);
        if calls > 0 {
            found.push(shown.to_owned(), calls, "");
        }
    }
    for (name, shown, hint) in [
        ("udpport", "UDP", "UDP is not supported; clients use TCP"),
        (
            "ext_path",
            "extstore",
            "extstore: Cellar stores nothing on disk",
        ),
        (
            "proxy_enabled",
            "proxy",
            "the built-in proxy is not supported",
        ),
    ] {
        if is_set(settings, name) {
            found.push(shown.to_owned(), 0, hint);
        }
    }
    if !stat(stats, "extstore_limit_maxbytes").is_empty() && !is_set(settings, "ext_path") {
        found.push(
            "extstore".to_owned(),
            0,
            "extstore: Cellar stores nothing on disk",
        );
    }
    found.sort();
    notes(stats, settings, &mut found);
    found
}

/// Adds notes: which flags of Cellar replace flags of memcached.
fn notes(stats: &[String], settings: &[String], found: &mut Findings) {
    let number = |all: &[String], name: &str| stat(all, name).parse::<usize>().unwrap_or(0);
    let bytes = number(stats, "limit_maxbytes");
    if bytes > 0 {
        let size = show_size(bytes);
        found.notes.push(format!(
            "its memory limit is {size}: start with --memory {size}"
        ));
    }
    let item = number(settings, "item_size_max");
    if item > 1 << 20 {
        let size = show_size(item);
        let note = format!("items up to {size}: --max-value {size}");
        found.notes.push(note);
    }
    if is_set(settings, "memory_file") {
        let note = "-e: --state PATH keeps the items across restarts";
        found.notes.push(note.to_owned());
    }
    let is_on = |name: &str| stat(settings, name) == "yes";
    if is_on("auth_enabled_sasl") || stat(settings, "auth_enabled_ascii") == "yes" {
        let note = "clients log in: --users, with PLAIN in the binary protocol";
        found.notes.push(note.to_owned());
    }
    if is_on("ssl_enabled") {
        let note = "TLS: --memcached tls:host:port, --tls-cert, --tls-key";
        found.notes.push(note.to_owned());
    }
    if stat(settings, "binding_protocol").contains("binary") {
        let note = "the binary protocol uses the same port; no setting is needed";
        found.notes.push(note.to_owned());
    }
}

/// Whether a setting has a value other than none.
fn is_set(settings: &[String], name: &str) -> bool {
    !["", "0", "no", "(null)", "NULL"].contains(&stat(settings, name))
}

/// The value of a line `STAT name value`, empty if there is none.
fn stat<'a>(lines: &'a [String], name: &str) -> &'a str {
    let mut values = lines.iter().filter_map(|line| {
        let (found, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        (found == name).then_some(value)
    });
    values.next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_and_not_here_is_missing() {
        let lines = |all: &[&str]| {
            all.iter()
                .map(|line| (*line).to_owned())
                .collect::<Vec<_>>()
        };
        let version = lines(&["VERSION 1.6.18"]);
        let stats = lines(&["STAT cmd_get 7", "STAT cmd_set 9", "STAT limit_maxbytes 64"]);
        let found = judge(&version, &stats, &lines(&["STAT udpport 0"]));
        assert_eq!(found.server, "memcached 1.6.18");
        assert_eq!(found.there[0].command, "set");
        assert_eq!(found.missing, []);
        assert_eq!(
            found.notes,
            ["its memory limit is 64: start with --memory 64"]
        );
        let stats = [
            "STAT delete_hits 1",
            "STAT delete_misses 2",
            "STAT incr_misses 4",
            "STAT decr_hits 5",
            "STAT cas_badval 6",
            "STAT limit_maxbytes 67108864",
        ];
        let stats = lines(&stats);
        let found = judge(&version, &stats, &lines(&["STAT item_size_max 2097152"]));
        let used = found.there.iter().map(|it| (&*it.command, it.calls));
        let used: Vec<(&str, u64)> = used.collect();
        assert_eq!(used, [("cas", 6), ("decr", 5), ("incr", 4), ("delete", 3)]);
        let notes = [
            "its memory limit is 64MiB: start with --memory 64MiB",
            "items up to 2MiB: --max-value 2MiB",
        ];
        assert_eq!(found.notes, notes);
        let settings = [
            "STAT udpport 11211",
            "STAT auth_enabled_sasl yes",
            "STAT memory_file /dev/shm/m",
        ];
        let found = judge(&version, &stats, &lines(&settings));
        let missing: Vec<&str> = found.missing.iter().map(|it| &*it.command).collect();
        assert_eq!(missing, ["UDP"]);
        for flag in ["--users", "--state"] {
            assert!(found.notes.iter().any(|note| note.contains(flag)));
        }
    }
}

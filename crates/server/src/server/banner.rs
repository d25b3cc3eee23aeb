//! Banner: the text on a terminal when the server is ready, with commands to try.
//!
//! An operator who starts it by hand sees the addresses and example commands. A log that goes to a
//! file or to a collector has its one line, and none of this.

use std::io::{IsTerminal, Write};

use cellar_config::settings::address::Address;
use cellar_config::settings::{LogFormat, Settings};
use tracing::level_filters::LevelFilter;

/// Writes it to the terminal, if standard error is one and log lines are for people.
pub(crate) fn greet(settings: &Settings) {
    let is_for_people =
        settings.log_format == LogFormat::Text && settings.log_level >= LevelFilter::INFO;
    let mut terminal = std::io::stderr();
    if is_for_people && terminal.is_terminal() {
        // A closed terminal must not stop the server.
        let _ = terminal.write_all(text(settings).as_bytes());
    }
}

/// The lines for a server that listens at the addresses in its settings.
fn text(settings: &Settings) -> String {
    let mut lines = Vec::new();
    let plain = |addresses: &[Address]| {
        let mut plain = addresses.iter().filter(|address| !address.is_tls());
        let found = plain.find_map(Address::host_and_port);
        found.map(|(host, port)| (here(host), port.to_owned()))
    };
    let has_users = settings.users.is_some();
    if let Some((host, port)) = plain(&settings.listen.memcached).filter(|_| !has_users) {
        let host = host.trim_matches(['[', ']']);
        lines.push(format!(
            "  try    printf 'set greeting 0 60 5\\r\\nhello\\r\\nget greeting\\r\\nquit\\r\\n' | \
             nc {host} {port}"
        ));
    }
    if let Some((host, port)) = plain(&settings.listen.resp) {
        let host = host.trim_matches(['[', ']']);
        lines.push(format!(
            "  try    redis-cli -h {host} -p {port} get greeting"
        ));
    }
    if let Some((host, port)) = plain(&settings.listen.http) {
        lines.push(format!("  look   http://{host}:{port}/ in a browser"));
        lines.push(format!("         cellar top --target http://{host}:{port}"));
    }
    lines
        .push("  more   cellar --help; cellar doctor looks at this machine; Ctrl-C ends it".into());
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A host that this machine reaches.
fn here(host: &str) -> String {
    match host {
        "0.0.0.0" => "127.0.0.1",
        "[::]" => "[::1]",
        host => host,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    use cellar_config::protocol::ByProtocol;
    #[test]
    fn it_says_what_to_type_for_what_is_listened_on() {
        let all = text(&Settings::default());
        for part in [
            "| nc 127.0.0.1 11211\n",
            "redis-cli -h 127.0.0.1 -p 6379 get greeting\n",
            "http://127.0.0.1:8080/ in a browser\n",
            "cellar top --target http://127.0.0.1:8080\n",
            "cellar --help",
        ] {
            assert!(all.contains(part), "{all}");
        }
        let few = text(&Settings {
            listen: ByProtocol {
                memcached: Vec::new(),
                resp: Address::parse_all("tls:h:1,unix:/s").unwrap(),
                http: Address::parse_all("[::]:9").unwrap(),
            },
            ..Settings::default()
        });
        assert!(
            few.contains("http://[::1]:9/") && !few.contains("try"),
            "{few}"
        );
        assert!(all.lines().count() <= 5 && few.lines().count() == 3);
    }
}

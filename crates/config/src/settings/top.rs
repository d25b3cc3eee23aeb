//! Top: the flags of `cellar top`.

use std::fmt;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::units::parse_duration_ms;
use crate::dial::Trust;
use crate::error::Error;

/// Shortest and longest time between two looks, in milliseconds.
const INTERVAL_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;

/// Where a server speaks HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A host, with a port if it is another than 80.
    Http(String),
    /// The same with TLS, and 443.
    Https(String),
    /// A socket file.
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Http(host) => write!(f, "http://{host}"),
            Target::Https(host) => write!(f, "https://{host}"),
            Target::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The options of `cellar top`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopOptions {
    /// The server.
    pub target: Target,
    /// Trusted CA and client certificate for TLS.
    pub trust: Trust,
    /// Name and password of the user.
    pub user: Option<(String, String)>,
    /// The token; empty if the server needs none.
    pub token: String,
    /// Milliseconds between two looks.
    pub interval_ms: u64,
    /// Whether to print one look and stop.
    pub once: bool,
}

/// The subcommand.
pub(super) fn command() -> Command {
    let flag =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("top")
        .about("Shows a running server's metrics live in the terminal; q quits")
        .arg(
            flag("target", "URL")
                .default_value("http://127.0.0.1:8080")
                .help("The server's HTTP address (--http); also https://... and unix:/path."),
        )
        .args(tls_flags())
        .arg(
            flag("user", "NAME:PASSWORD")
                .env("CELLAR_TOP_USER")
                .hide_env_values(true)
                .help("User name and password, if the server has users."),
        )
        .arg(
            flag("token", "TEXT")
                .env("CELLAR_HTTP_TOKEN")
                .hide_env_values(true)
                .default_value("off")
                .help("The server's token (--http-token)."),
        )
        .arg(
            flag("interval", "DURATION")
                .default_value("1s")
                .help("Interval between updates, 100ms or more."),
        )
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help(
                    "Prints the metrics of one interval and exits; the default without a terminal.",
                ),
        )
}

/// The TLS flags of all subcommands that connect to a server.
pub(super) fn tls_flags() -> [Arg; 3] {
    let flag = |name: &'static str| Arg::new(name).long(name).value_name("FILE");
    [
        flag("tls-ca").help("Certificate authority of the server, in PEM."),
        flag("tls-cert")
            .requires("tls-key")
            .help("Client certificate, in PEM."),
        flag("tls-key")
            .requires("tls-cert")
            .help("Private key of the client certificate, in PEM."),
    ]
}

/// The values of these flags.
pub(super) fn trust(matches: &ArgMatches) -> Trust {
    let file = |name: &str| {
        let text = matches.get_one::<String>(name);
        text.filter(|it| !it.is_empty()).map(PathBuf::from)
    };
    Trust {
        ca: file("tls-ca"),
        identity: file("tls-cert").zip(file("tls-key")),
    }
}

/// Reads the flags.
pub(super) fn options(matches: &ArgMatches) -> Result<TopOptions, Error> {
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let fail = |flag: &'static str, reason: String| Error::Setting {
        flag,
        origin: String::new(),
        reason,
    };
    let interval_ms =
        parse_duration_ms(text("interval")).map_err(|reason| fail("interval", reason))?;
    if !INTERVAL_MS.contains(&interval_ms) {
        let reason = "the interval must be between 100ms and 1h".to_owned();
        return Err(fail("interval", reason));
    }
    let user = match text("user") {
        "" => None,
        user => {
            let parts = user.split_once(':');
            let reason = || "write NAME:PASSWORD".to_owned();
            let (name, password) = parts.ok_or_else(|| fail("user", reason()))?;
            Some((name.to_owned(), password.to_owned()))
        }
    };
    let token = text("token");
    Ok(TopOptions {
        target: target(text("target")).map_err(|reason| fail("target", reason))?,
        trust: trust(matches),
        user,
        token: if token == "off" { "" } else { token }.to_owned(),
        interval_ms,
        once: matches.get_flag("once"),
    })
}

/// Parses the address of a server.
fn target(text: &str) -> Result<Target, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let is_path = path.starts_with('/');
        let error = || format!("{text:?} has no absolute path; write unix:/run/cellar.sock");
        return is_path.then(|| Target::Unix(path.into())).ok_or_else(error);
    }
    let (scheme, host) = text.split_once("://").unwrap_or(("http", text));
    let host = host.trim_end_matches('/').to_owned();
    match scheme {
        "http" if !host.is_empty() => Ok(Target::Http(host)),
        "https" if !host.is_empty() => Ok(Target::Https(host)),
        _ => Err(format!(
            "{text:?} is not an address; write http://host:port"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<TopOptions, String> {
        let arguments = std::iter::once("top").chain(arguments.iter().copied());
        let matches = command().try_get_matches_from(arguments);
        options(&matches.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    }

    #[test]
    fn a_target_may_leave_out_what_is_always_the_same() {
        for target in ["http://[::1]:99", "[::1]:99", "http://[::1]:99/"] {
            let options = read(&["--target", target, "--interval", "500ms"]).unwrap();
            assert_eq!(options.target.to_string(), "http://[::1]:99");
            assert_eq!((options.interval_ms, options.once), (500, false));
        }
    }

    #[test]
    fn a_target_may_be_encrypted_or_a_file_and_a_user_may_ask() {
        for target in ["https://here", "unix:/run/cellar.sock"] {
            let options = read(&["--target", target, "--user", "ada:se:cret"]).unwrap();
            assert_eq!(options.target.to_string(), target);
            assert_eq!(options.user, Some(("ada".to_owned(), "se:cret".to_owned())));
        }
    }

    #[test]
    fn bad_flags_are_refused_with_their_names() {
        for (arguments, expected) in [
            (["--interval", "5ms"], "--interval: the interval must be"),
            (["--interval", "soon"], "--interval: \"soon\""),
            (["--target", "ftp://here"], "--target: \"ftp://here\""),
            (["--target", "http://"], "--target"),
            (["--target", "unix:here"], "--target: \"unix:here\""),
            (["--user", "ada"], "--user: write NAME:PASSWORD"),
            (["--tls-cert", "ada.pem"], "--tls-key"),
            (["--tls-key", "ada.key"], "--tls-cert"),
            (["--target", ""], "--target"),
        ] {
            let message = read(&arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}

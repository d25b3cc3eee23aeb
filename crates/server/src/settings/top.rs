//! Top: the flags of `cellar top`.

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::units::parse_duration_ms;
use crate::error::Error;

/// Shortest and longest time between two looks, in milliseconds.
const INTERVAL_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;

/// What `cellar top` is asked to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopOptions {
    /// The server's HTTP address, as a URL without a path.
    pub target: String,
    /// What the server asks for; empty = nothing.
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
        .about("Shows a running server's figures live in a terminal; q quits")
        .arg(
            flag("target", "URL")
                .default_value("http://127.0.0.1:8080")
                .help("The server's HTTP address (--http)."),
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
                .help("Time between two looks, 100ms or more."),
        )
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help(
                    "Prints the figures of one interval and exits; so does output to no terminal.",
                ),
        )
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
        let reason = "an interval lies between 100ms and 1h".to_owned();
        return Err(fail("interval", reason));
    }
    let target = text("target");
    let (scheme, host) = target.split_once("://").unwrap_or(("http", target));
    let host = host.trim_end_matches('/');
    if scheme != "http" || host.is_empty() {
        let reason = format!("{target:?} is not an address; write http://host:port");
        return Err(fail("target", reason));
    }
    let token = text("token");
    Ok(TopOptions {
        target: format!("http://{host}"),
        token: if token == "off" { "" } else { token }.to_owned(),
        interval_ms,
        once: matches.get_flag("once"),
    })
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
            assert_eq!(options.target, "http://[::1]:99");
            assert_eq!((options.interval_ms, options.once), (500, false));
        }
    }

    #[test]
    fn bad_flags_are_refused_with_their_names() {
        for (arguments, expected) in [
            (["--interval", "5ms"], "--interval: an interval lies"),
            (["--interval", "soon"], "--interval: \"soon\""),
            (["--target", "ftp://here"], "--target: \"ftp://here\""),
            (["--target", "http://"], "--target"),
            (["--target", ""], "--target"),
        ] {
            let message = read(&arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}

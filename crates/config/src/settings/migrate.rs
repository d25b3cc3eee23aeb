//! Migrate: the flags of `cellar migrate check`.

use std::fmt;

use cellar_protocol::http::target::decode_percent;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::top::{tls_flags, trust};
use crate::dial::Trust;
use crate::error::Error;

/// The protocol of an old server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldProtocol {
    /// Redis's protocol.
    Redis,
    /// The same over TLS.
    Rediss,
    /// memcached's text protocol.
    Memcached,
}

/// The server to query, and how.
#[derive(Clone, PartialEq, Eq)]
pub struct MigrateOptions {
    /// Its protocol.
    pub protocol: OldProtocol,
    /// Its name or address, with a port if it is not the default port.
    pub host: String,
    /// User name (empty for none) and password.
    pub user: Option<(String, String)>,
    /// Trusted CA and client certificate for TLS.
    pub trust: Trust,
    /// Whether the report is JSON.
    pub json: bool,
}

impl MigrateOptions {
    /// The default port.
    #[must_use]
    pub fn usual_port(&self) -> u16 {
        match self.protocol {
            OldProtocol::Redis | OldProtocol::Rediss => 6379,
            OldProtocol::Memcached => 11211,
        }
    }
}

/// The address, without the password.
impl fmt::Display for MigrateOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            OldProtocol::Redis => "redis",
            OldProtocol::Rediss => "rediss",
            OldProtocol::Memcached => "memcached",
        };
        write!(f, "{scheme}://{}", self.host)
    }
}

impl fmt::Debug for MigrateOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The subcommand.
pub(super) fn command() -> Command {
    let check = Command::new("check")
        .about(
            "Lists the commands that applications use of a running Redis, Valkey or memcached and \
             that Cellar lacks. It only reads. Exit status: 0 nothing is missing, 1 something is \
             missing, 2 no answer",
        )
        .arg(
            Arg::new("url")
                .value_name("URL")
                .required(true)
                .env("CELLAR_MIGRATE_URL")
                .hide_env_values(true)
                .help(
                    "redis://[user:password@]host[:port], rediss:// over TLS, \
                     memcached://host[:port]. Other users can read a password in an argument, so \
                     use the variable instead.",
                ),
        )
        .args(tls_flags())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Prints JSON."),
        );
    Command::new("migrate")
        .about("Helps to migrate from another server")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(check)
}

/// Reads the flags.
pub(super) fn options(matches: &ArgMatches) -> Result<MigrateOptions, Error> {
    let Some(matches) = matches.subcommand_matches("check") else {
        return Err(Error::Usage(
            "write migrate check URL; see --help".to_owned(),
        ));
    };
    let url = matches.get_one::<String>("url").map_or("", String::as_str);
    let (protocol, host, user) = parse(url).map_err(Error::Migrate)?;
    Ok(MigrateOptions {
        protocol,
        host,
        user,
        trust: trust(matches),
        json: matches.get_flag("json"),
    })
}

type Parsed = (OldProtocol, String, Option<(String, String)>);

/// Parses the address of a server. Errors do not repeat the text, which may contain a password.
fn parse(url: &str) -> Result<Parsed, String> {
    let form = || {
        "the URL is not valid; write redis://[user:password@]host:port or memcached://host:port"
            .to_owned()
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(form)?;
    let protocol = match scheme {
        "redis" => OldProtocol::Redis,
        "rediss" => OldProtocol::Rediss,
        "memcached" => OldProtocol::Memcached,
        _ => return Err(form()),
    };
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(login), rest),
        None => (None, rest),
    };
    let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(form());
    }
    if !database.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("after the host only a database number is allowed".to_owned());
    }
    let decode = |text: &str| {
        let bytes = decode_percent(text.as_bytes());
        let text = bytes.and_then(|bytes| String::from_utf8(bytes.into_owned()).ok());
        text.ok_or_else(|| "the user or the password has an invalid percent-encoding".to_owned())
    };
    let user = match login {
        None | Some("") => None,
        Some(login) => {
            let (name, password) = login.split_once(':').unwrap_or(("", login));
            Some((decode(name)?, decode(password)?))
        }
    };
    Ok((protocol, host.to_owned(), user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_user_a_password_and_a_database() {
        let user = |name: &str, password: &str| Some((name.to_owned(), password.to_owned()));
        for (url, protocol, host, expected) in [
            ("redis://old", OldProtocol::Redis, "old", None),
            ("redis://old:1/3", OldProtocol::Redis, "old:1", None),
            ("rediss://[::1]:9/", OldProtocol::Rediss, "[::1]:9", None),
            ("redis://:p@h", OldProtocol::Redis, "h", user("", "p")),
            ("redis://p@h", OldProtocol::Redis, "h", user("", "p")),
            (
                "redis://a:p%40:q@h",
                OldProtocol::Redis,
                "h",
                user("a", "p@:q"),
            ),
            ("memcached://h:2", OldProtocol::Memcached, "h:2", None),
        ] {
            assert_eq!(
                parse(url),
                Ok((protocol, host.to_owned(), expected)),
                "{url}"
            );
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_password() {
        for url in [
            "",
            "old:6379",
            "http://secret@old",
            "redis://",
            "redis://a:secret@",
            "redis://a:secret@old/x",
            "redis://a:secret%zz@old",
        ] {
            let reason = parse(url).unwrap_err();
            assert!(!reason.contains("secret"), "{reason}");
        }
    }
}

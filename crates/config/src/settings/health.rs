//! Health: the flags of `cellar healthcheck`, and the default address.

use std::cmp::Reverse;
use std::fmt;

use clap::{Arg, ArgMatches, Command};

use super::Settings;
use super::address::Address;
use super::top::{tls_flags, trust};
use crate::dial::Trust;
use crate::protocol::Protocol;

/// The subcommand's name.
pub(super) const HEALTHCHECK: &str = "healthcheck";

/// Protocol and address of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthTarget {
    /// The protocol.
    pub protocol: Protocol,
    /// The address.
    pub address: Address,
}

/// Options of `cellar healthcheck`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthOptions {
    /// The server.
    pub target: HealthTarget,
    /// Trusted CA and client certificate for TLS; without a CA any certificate is accepted.
    pub trust: Trust,
}

impl fmt::Display for HealthTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.protocol.name(), self.address)
    }
}

/// The subcommand.
pub(super) fn command(config: Arg) -> Command {
    Command::new(HEALTHCHECK)
        .about("Checks whether a running server is ready. Exit status: 0, or 1 with the reason")
        .after_help(
            "Without --target it uses the addresses in the settings file and the CELLAR_* \
             variables: HTTP (/readyz) if there is one, or else the Redis protocol, or else the \
             memcached protocol. It uses TLS only if there is no other address.",
        )
        .arg(config)
        .arg(
            Arg::new("target")
                .long("target")
                .value_name("PROTOCOL=ADDR")
                .help(
                    "Address to check: http=127.0.0.1:8080, resp=tls:cache.example:6379, \
                     memcached=unix:/run/cellar.sock.",
                ),
        )
        .args(tls_flags())
}

/// Parses the flags; defaults come from the settings.
pub(super) fn options(
    matches: &ArgMatches,
    settings: impl FnOnce() -> Result<Settings, String>,
) -> Result<HealthOptions, String> {
    let target = match matches.get_one::<String>("target") {
        Some(text) => parse(text).map_err(|reason| format!("--target: {reason}"))?,
        None => own(&settings()?).ok_or("the server has no listen address; set --target")?,
    };
    Ok(HealthOptions {
        target,
        trust: trust(matches),
    })
}

fn parse(text: &str) -> Result<HealthTarget, String> {
    let parts = text.split_once('=').and_then(|(name, address)| {
        let protocol = Protocol::named(name)?;
        Some((protocol, address))
    });
    let (protocol, address) =
        parts.ok_or_else(|| format!("{text:?} is not a target; write http=127.0.0.1:8080"))?;
    let address = reachable(&Address::parse(address)?);
    Ok(HealthTarget { protocol, address })
}

/// The default address for a server with these settings.
fn own(settings: &Settings) -> Option<HealthTarget> {
    // Plain text before TLS, then HTTP before RESP before memcached.
    let order = |one: &(Protocol, Address)| (one.1.is_tls(), Reverse(one.0 as usize));
    let (protocol, address) = settings.all_addresses().min_by_key(order)?;
    let address = reachable(&address);
    Some(HealthTarget { protocol, address })
}

/// An address that this machine reaches: the loopback address if the server listens on all
/// interfaces.
fn reachable(address: &Address) -> Address {
    let here = |text: &str| {
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        let host = match host {
            "0.0.0.0" => "127.0.0.1",
            "[::]" => "[::1]",
            host => host,
        };
        format!("{host}:{port}")
    };
    match address {
        Address::Tcp(text) => Address::Tcp(here(text)),
        Address::Tls(text) => Address::Tls(here(text)),
        Address::Unix(path) => Address::Unix(path.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::protocol::ByProtocol;
    fn target(arguments: &[&str], settings: Settings) -> Result<String, String> {
        let arguments = std::iter::once(HEALTHCHECK).chain(arguments.iter().copied());
        let matches = command(Arg::new("config").long("config")).try_get_matches_from(arguments);
        let matches = matches.map_err(|error| error.to_string())?;
        Ok(options(&matches, || Ok(settings))?.target.to_string())
    }

    #[test]
    fn it_asks_where_the_server_listens_and_over_tls_last() {
        let settings = |memcached: &str, resp: &str, http: &str| Settings {
            listen: ByProtocol {
                memcached: Address::parse_all(memcached).unwrap(),
                resp: Address::parse_all(resp).unwrap(),
                http: Address::parse_all(http).unwrap(),
            },
            ..Settings::default()
        };
        for (memcached, resp, http, expected) in [
            ("a:1", "a:2", "0.0.0.0:3", Ok("http 127.0.0.1:3")),
            ("a:1", "[::]:2", "tls:a:3", Ok("resp [::1]:2")),
            ("unix:/m", "tls:a:2", "tls:a:3", Ok("memcached unix:/m")),
            ("off", "tls:0.0.0.0:2", "off", Ok("resp tls:127.0.0.1:2")),
            (
                "off",
                "off",
                "off",
                Err("the server has no listen address; set --target"),
            ),
        ] {
            let found = target(&[], settings(memcached, resp, http));
            assert_eq!(found.as_deref().map_err(String::as_str), expected);
        }
        let mut only_unix = settings("off", "off", "off");
        only_unix.unix = Some("/run/cellar.sock".into());
        assert_eq!(
            target(&[], only_unix).unwrap(),
            "memcached unix:/run/cellar.sock"
        );
    }

    #[test]
    fn a_target_names_its_protocol() {
        let found = target(&["--target", "resp=tls:h:1"], Settings::default());
        assert_eq!(found.unwrap(), "resp tls:h:1");
        for wrong in ["h:1", "redis=h:1", "http=1", ""] {
            let error = target(&["--target", wrong], Settings::default()).unwrap_err();
            assert!(error.starts_with("--target: "), "{error}");
        }
    }
}

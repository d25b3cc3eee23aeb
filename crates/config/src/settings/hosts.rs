//! Hosts: the host names that this server accepts over HTTP.
//!
//! A page from another site may resolve its own name to this server (DNS rebinding). Its requests
//! still have that name in the field Host. An IP address cannot be redirected, so the server always
//! accepts addresses, and `localhost`. It accepts other names only if the operator set them, or if
//! they are its own.
//!
//! Why: docs/decisions/0027. Tests: below; server/tests/http_attacks.rs.

use std::net::Ipv6Addr;

/// The beginning of a row for all names with the rest as their end.
const ANY_BEFORE: &str = "*.";

/// The names that this server accepts besides addresses and `localhost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Whether it accepts any name.
    any: bool,
    /// Names from the operator, in lower case.
    given: Vec<String>,
    /// Names of the machine and of the listen addresses.
    own: Vec<String>,
}

impl Hosts {
    /// Parses names with commas between them, `*`, or `off` for none.
    ///
    /// # Errors
    /// A message if a name is invalid.
    pub fn parse(text: &str) -> Result<Hosts, String> {
        let mut hosts = Hosts::default();
        if text == "off" {
            return Ok(hosts);
        }
        for name in text.split(',').map(str::trim) {
            if name == "*" {
                hosts.any = true;
                continue;
            }
            let plain = name.strip_prefix(ANY_BEFORE).unwrap_or(name);
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if plain.is_empty() || !plain.bytes().all(is_of_name) {
                return Err(format!(
                    "{name:?} is not a host name; write names without a port, such as \
                     cache.example or *.cache.example, or * for any"
                ));
            }
            hosts.given.push(name.to_ascii_lowercase());
        }
        Ok(hosts)
    }

    /// The names as an operator would write them.
    #[must_use]
    pub fn show(&self) -> String {
        let any = self.any.then_some("*").into_iter();
        let names: Vec<&str> = any.chain(self.given.iter().map(String::as_str)).collect();
        if names.is_empty() {
            "off".to_owned()
        } else {
            names.join(",")
        }
    }

    /// Adds a name that this server has anyway.
    pub fn add_own(&mut self, name: &str) {
        let is_name = !name.is_empty() && !is_address(name.as_bytes());
        if is_name && !self.own.iter().any(|known| known == name) {
            self.own.push(name.to_ascii_lowercase());
        }
    }

    /// Whether this server accepts a Host field: a name or an address, with or without a port.
    #[inline]
    #[must_use]
    pub fn has(&self, host: &[u8]) -> bool {
        is_address(host) || self.any || is_localhost(host) || self.names(host)
    }

    /// Whether a name was given or is this server's own; `*` gives none.
    #[must_use]
    pub fn names(&self, host: &[u8]) -> bool {
        let (name, _) = without_port(host);
        // One dot may end a name that is not to be completed.
        let name = name.strip_suffix(b".").unwrap_or(name);
        self.given
            .iter()
            .chain(&self.own)
            .any(|known| match known.strip_prefix(ANY_BEFORE) {
                Some(end) => name.len().checked_sub(end.len() + 1).is_some_and(|dot| {
                    dot > 0
                        && name[dot] == b'.'
                        && name[dot + 1..].eq_ignore_ascii_case(end.as_bytes())
                }),
                None => name.eq_ignore_ascii_case(known.as_bytes()),
            })
    }
}

/// Whether a Host field names an address, with a port or without.
///
/// Digits and dots are one: no browser asks a name server for a host that ends with a number.
#[inline]
#[must_use]
pub fn is_address(host: &[u8]) -> bool {
    let (name, _) = without_port(host);
    match name {
        [] => false,
        [b'[', address @ .., b']'] => {
            std::str::from_utf8(address).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok())
        }
        name => name
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.'),
    }
}

/// Whether a Host field names this machine as `localhost`, with a port or without.
#[must_use]
pub fn is_localhost(host: &[u8]) -> bool {
    without_port(host).0.eq_ignore_ascii_case(b"localhost")
}

/// The name and the port of a Host field; the port may be empty.
#[inline]
fn without_port(host: &[u8]) -> (&[u8], &[u8]) {
    let digits = host.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let end = host.len() - digits.count();
    match &host[..end] {
        [name @ .., b':'] => (name, &host[end..]),
        _ => (host, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_always_answered_to() {
        let none = Hosts::default();
        for host in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "10.0.0.1:1",
            "[::1]",
            "[2001:db8::1]:8080",
            "localhost",
            "LocalHost:8080",
        ] {
            assert!(none.has(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            ":8080",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1x",
            "[localhost]",
            "[::1]x",
            "[::1",
            "::1",
            "evil.example:80:80",
            "127.0.0.1@evil.example",
        ] {
            assert!(!none.has(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn names_are_answered_to_when_they_were_given() {
        let mut hosts = Hosts::parse("cache.example, *.svc.example").unwrap();
        hosts.add_own("box7");
        hosts.add_own("127.0.0.1");
        for host in [
            "cache.example",
            "CACHE.example:80",
            "cache.example.",
            "a.svc.example",
            "a.b.svc.example:1",
            "box7",
        ] {
            assert!(hosts.has(host.as_bytes()), "{host}");
        }
        for host in [
            "example",
            "x.cache.example",
            "svc.example",
            ".svc.example",
            "asvc.example",
            "box7.example",
        ] {
            assert!(!hosts.has(host.as_bytes()), "{host}");
        }
        assert_eq!(hosts.show(), "cache.example,*.svc.example");
    }

    #[test]
    fn a_star_is_any_name_but_gives_none() {
        let any = Hosts::parse("*").unwrap();
        assert!(any.has(b"evil.example") && !any.names(b"evil.example"));
        assert_eq!(any.show(), "*");
        assert_eq!(Hosts::parse("off").unwrap(), Hosts::default());
        for text in ["", "a,,b", "http://a", "a:80", "*a", "a.*", "*."] {
            assert!(Hosts::parse(text).is_err(), "{text}");
        }
    }
}

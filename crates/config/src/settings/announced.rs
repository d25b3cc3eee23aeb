//! Announced: addresses that a node announces to clients.

use std::fmt;

use super::address::Address;
use crate::protocol::{ByProtocol, Protocol};

/// Announced addresses of a node: plain text, TLS, both or none for each protocol.
pub type Announced = ByProtocol<Vec<Address>>;

impl Announced {
    /// Host and port for a client with or without TLS. Without an address of this kind, the other
    /// one.
    #[must_use]
    pub fn place(&self, protocol: Protocol, is_tls: bool) -> Option<Place<'_>> {
        let all = self.of(protocol);
        let fits = all.iter().find(|address| address.is_tls() == is_tls);
        let address = fits.or(all.first())?;
        let (host, port) = address.host_and_port()?;
        Some(Place {
            host: host.trim_start_matches('[').trim_end_matches(']'),
            port: port.parse().ok()?,
            is_tls: address.is_tls(),
        })
    }

    /// Checks announced addresses.
    ///
    /// # Errors
    /// An address that clients cannot connect to, or a duplicate.
    pub fn check(&self) -> Result<(), String> {
        for (protocol, all) in self.iter() {
            for address in all {
                check_address(address)?;
            }
            let tls = all.iter().filter(|address| address.is_tls()).count();
            if tls > 1 || all.len() - tls > 1 {
                return Err(format!(
                    "{} addresses for {}; only one plain and one TLS address can be announced",
                    all.len(),
                    protocol.name()
                ));
            }
        }
        Ok(())
    }

    /// Whether no address is announced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values().all(Vec::is_empty)
    }
}

/// Checks an announced address.
fn check_address(address: &Address) -> Result<(), String> {
    let is_nobodys = |host: &str, port: &str| {
        matches!(host, "0.0.0.0" | "[::]" | "::" | "*") || port.parse() == Ok(0_u16)
    };
    match address.host_and_port() {
        None => Err(format!(
            "{address} is not an address that clients can reach"
        )),
        Some((host, port)) if is_nobodys(host, port) => Err(format!(
            "{address} is not a specific address: clients cannot connect to it"
        )),
        Some(_) => Ok(()),
    }
}

/// An address for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'n> {
    /// A name or an address, without brackets.
    pub host: &'n str,
    /// The port.
    pub port: u16,
    /// Whether it uses TLS.
    pub is_tls: bool,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { host, port, .. } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_the_address_of_their_kind_or_else_the_other() {
        let announced = |text: &str| Announced {
            resp: Address::parse_all(text).unwrap(),
            ..Announced::default()
        };
        let place = |text: &str, is_tls| {
            let announced = announced(text);
            let place = announced.place(Protocol::Resp, is_tls);
            place.map(|place| place.to_string())
        };
        let both = "10.0.0.1:1,tls:cache.example:2";
        assert_eq!(place(both, false).as_deref(), Some("10.0.0.1:1"));
        assert_eq!(place(both, true).as_deref(), Some("cache.example:2"));
        assert_eq!(place("tls:[::1]:3", false).as_deref(), Some("[::1]:3"));
        assert_eq!(place("off", false), None);
        assert!(announced(both).check().is_ok());
        for bad in ["0.0.0.0:1", "[::]:1", "h:0", "unix:/s", "a:1,b:1"] {
            assert!(announced(bad).check().is_err(), "{bad}");
        }
    }
}

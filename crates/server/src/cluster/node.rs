//! Node: what one is called, what it can bear, and where clients find it.

use std::fmt;

use crate::protocol::Protocol;
use crate::settings::address::Address;

/// Largest weight.
pub const WEIGHT_MAX: u32 = 10_000;

/// One node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is called; no other is called so.
    pub name: String,
    /// How much it takes beside others.
    pub weight: u32,
    /// Where clients find it.
    pub announced: Announced,
}

/// Where clients find a node, by protocol: an address in plain text, one over TLS, either or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// For memcached's protocol.
    pub memcached: Vec<Address>,
    /// For Redis's.
    pub resp: Vec<Address>,
    /// For HTTP.
    pub http: Vec<Address>,
}

impl Node {
    /// What clients of Redis Cluster call it.
    #[must_use]
    pub fn id(&self) -> String {
        id_of(&self.name)
    }
}

impl Announced {
    /// The addresses of a protocol.
    #[must_use]
    pub fn of(&self, protocol: Protocol) -> &[Address] {
        match protocol {
            Protocol::Memcached => &self.memcached,
            Protocol::Resp => &self.resp,
            Protocol::Http => &self.http,
        }
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, protocol: Protocol) -> &mut Vec<Address> {
        match protocol {
            Protocol::Memcached => &mut self.memcached,
            Protocol::Resp => &mut self.resp,
            Protocol::Http => &mut self.http,
        }
    }

    /// Host and port for a client that has come over TLS, or has not: the address of its kind, else
    /// the other.
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

    /// Checks addresses that clients are told.
    ///
    /// # Errors
    /// What nobody can connect to, or what there is twice.
    pub fn check(&self) -> Result<(), String> {
        for protocol in Protocol::ALL {
            let all = self.of(protocol);
            for address in all {
                check_address(address)?;
            }
            let tls = all.iter().filter(|address| address.is_tls()).count();
            if tls > 1 || all.len() - tls > 1 {
                return Err(format!(
                    "{} addresses for {}; clients are told one, and one over TLS",
                    all.len(),
                    protocol.name()
                ));
            }
        }
        Ok(())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        Protocol::ALL.iter().all(|&one| self.of(one).is_empty())
    }
}

/// Checks an address that clients are told.
fn check_address(address: &Address) -> Result<(), String> {
    let is_nobodys = |host: &str, port: &str| {
        matches!(host, "0.0.0.0" | "[::]" | "::" | "*") || port.parse() == Ok(0_u16)
    };
    match address.host_and_port() {
        None => Err(format!("{address} is no address that others can reach")),
        Some((host, port)) if is_nobodys(host, port) => Err(format!(
            "{address} is nobody's address: clients cannot connect to it"
        )),
        Some(_) => Ok(()),
    }
}

/// Forty hexadecimal digits that a node's name alone decides, so that they outlast a restart.
#[must_use]
pub fn id_of(name: &str) -> String {
    let parts = (0..3).map(|part| format!("{:016x}", seed(name, part)));
    let mut id: String = parts.collect();
    id.truncate(40);
    id
}

/// Where a client connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'n> {
    /// A name or an address, without brackets.
    pub host: &'n str,
    /// The port.
    pub port: u16,
    /// Whether TLS is spoken there.
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

/// Checks a weight.
///
/// # Errors
/// The bounds.
pub fn check_weight(weight: u64) -> Result<u32, String> {
    match u32::try_from(weight) {
        Ok(weight @ 1..=WEIGHT_MAX) => Ok(weight),
        _ => Err(format!(
            "a weight is a number from 1 to {WEIGHT_MAX}, not {weight}"
        )),
    }
}

/// 64 bits that a name decides; others for another `part`.
pub(super) fn seed(name: &str, part: u64) -> u64 {
    name.bytes()
        .fold(mix(part ^ name.len() as u64), |state, byte| {
            mix(state ^ u64::from(byte))
        })
}

/// Stirs 64 bits so that each of them decides each of the result's: SplitMix64's last step, and its
/// increment so that zero does not stay zero.
#[inline]
pub(super) fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_forty_digits_that_only_the_name_decides() {
        let node = |name: &str, weight| Node {
            name: name.to_owned(),
            weight,
            announced: Announced::default(),
        };
        let id = node("a", 1).id();
        assert_eq!(id.len(), 40);
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(id, node("a", 7).id());
        assert_ne!(id, node("b", 1).id());
    }

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

//! Default TTL: how long items live that are stored without a time to live, as it is written.
//!
//! `10m` is for all protocols, `http=10m` for one, `resp:3=1h` for one database over the Redis
//! protocol. Commas separate several entries, in any order; the most specific one counts. Without a
//! matching entry, or with `0`, items have no TTL.
//!
//! `default_ttls.rs` computes the deadlines. Tests: below; server/tests/default_ttl.rs.

use std::collections::BTreeMap;
use std::fmt;

use super::units::{parse_duration_ms, show_duration_ms};
use crate::protocol::{ByProtocol, Protocol};

/// Times to live in milliseconds; 0 for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultTtl {
    protocols: ByProtocol<u64>,
    /// By the number of the database.
    databases: ByProtocol<BTreeMap<u32, u64>>,
}

/// The scope of a part of the setting.
enum Scope {
    All,
    Protocol(Protocol),
    Database(Protocol, u32),
}

impl DefaultTtl {
    /// Parses `10m`, `http=10m,resp:3=1h` or `0`.
    ///
    /// # Errors
    /// A message if a duration or a scope is invalid.
    pub fn parse(text: &str) -> Result<DefaultTtl, String> {
        let mut all = None;
        let mut protocols = ByProtocol::<Option<u64>>::default();
        let mut databases = ByProtocol::<BTreeMap<_, _>>::default();
        for part in text.split(',').map(str::trim) {
            let (scope, ttl) = match part.split_once('=') {
                Some((scope, ttl)) => (Scope::parse(scope)?, ttl),
                None => (Scope::All, part),
            };
            let ttl_ms = parse_duration_ms(ttl)?;
            let before = match scope {
                Scope::All => all.replace(ttl_ms),
                Scope::Protocol(protocol) => protocols.of_mut(protocol).replace(ttl_ms),
                Scope::Database(protocol, database) => {
                    databases.of_mut(protocol).insert(database, ttl_ms)
                }
            };
            if before.is_some() {
                return Err(format!("{part:?} repeats an earlier part"));
            }
        }
        let all = all.unwrap_or(0);
        Ok(DefaultTtl {
            protocols: protocols.map(|own| own.unwrap_or(all)),
            databases,
        })
    }

    /// Checks that the databases that it names exist, given their number.
    ///
    /// # Errors
    /// The first one that does not exist.
    pub fn check(&self, databases: usize) -> Result<(), String> {
        let named = self.databases.values().flat_map(BTreeMap::keys);
        match named.max() {
            Some(&last) if last as usize >= databases => Err(format!(
                "database {last} does not exist; --databases is {databases}"
            )),
            _ => Ok(()),
        }
    }

    /// That of an item stored by a protocol, in a database if it has those.
    #[must_use]
    pub fn ttl_ms(&self, protocol: Protocol, database: u32) -> u64 {
        let own = self.databases.of(protocol).get(&database);
        *own.unwrap_or(self.protocols.of(protocol))
    }

    /// The TTL in all scopes, if it is the same.
    fn of_all(&self) -> Option<u64> {
        let mut all = self.protocols.values().copied();
        let first = all.next()?;
        let has_databases = self
            .databases
            .values()
            .any(|databases| !databases.is_empty());
        (!has_databases && all.all(|other| other == first)).then_some(first)
    }

    /// The scopes, as they are written, and their times in milliseconds; each protocol, then the
    /// databases with their own.
    pub fn scopes(&self) -> impl Iterator<Item = (String, u64)> {
        let protocols = self.protocols.iter();
        let protocols = protocols.map(|(protocol, ttl_ms)| (protocol.name().to_owned(), *ttl_ms));
        let databases = self.databases.iter().flat_map(|(protocol, databases)| {
            let name = protocol.name();
            let scope = move |database: &u32| format!("{name}:{database}");
            databases
                .iter()
                .map(move |(database, ttl_ms)| (scope(database), *ttl_ms))
        });
        protocols.chain(databases)
    }
}

impl Scope {
    fn parse(text: &str) -> Result<Scope, String> {
        let (name, database) = match text.split_once(':') {
            Some((name, database)) => (name, Some(database)),
            None => (text, None),
        };
        let protocol = Protocol::named(name);
        let database = database.map(str::parse::<u32>).transpose();
        match (protocol, database) {
            (Some(protocol), Ok(None)) => Ok(Scope::Protocol(protocol)),
            (Some(protocol), Ok(Some(database))) if protocol.row().has_databases => {
                Ok(Scope::Database(protocol, database))
            }
            _ => Err(format!(
                "{text:?} cannot have a default TTL; write memcached, resp, http or resp:3 \
                 for a database"
            )),
        }
    }
}

/// As an operator would write it.
impl fmt::Display for DefaultTtl {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(only) = self.of_all() {
            return to.write_str(&show_duration_ms(only));
        }
        for (place, (scope, ttl_ms)) in self.scopes().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(to, "{comma}{scope}={}", show_duration_ms(ttl_ms))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_that_fits_counts_in_any_order() {
        let times = |text: &str| {
            let ttl = DefaultTtl::parse(text).unwrap();
            let of = |protocol, database| ttl.ttl_ms(protocol, database);
            [
                of(Protocol::Memcached, 0),
                of(Protocol::Http, 0),
                of(Protocol::Resp, 0),
                of(Protocol::Resp, 3),
            ]
        };
        assert_eq!(times("0"), [0; 4]);
        assert_eq!(times("10m"), [600_000; 4]);
        assert_eq!(times("http=10m"), [0, 600_000, 0, 0]);
        assert_eq!(times("resp:3=1s,http=0,2s"), [2_000, 0, 2_000, 1_000]);
        assert_eq!(times("resp=1s, resp:3=0"), [0, 0, 1_000, 0]);
        assert_eq!(times("resp:0=1s,memcached=5ms"), [5, 0, 1_000, 0]);
    }

    #[test]
    fn it_reads_what_it_shows() {
        for (text, shown) in [
            ("0", "0"),
            ("600s", "10m"),
            ("memcached=10m,resp=10m,http=10m", "10m"),
            ("http=10m", "memcached=0,resp=0,http=10m"),
            ("resp:3=1h,10m", "memcached=10m,resp=10m,http=10m,resp:3=1h"),
        ] {
            let ttl = DefaultTtl::parse(text).unwrap();
            assert_eq!(ttl.to_string(), shown);
            assert_eq!(DefaultTtl::parse(shown), Ok(ttl));
        }
    }

    #[test]
    fn what_says_nothing_is_refused() {
        for text in [
            "",
            "10",
            "10m,",
            "never",
            "ftp=10m",
            "http=",
            "http:3=10m",
            "resp:=10m",
            "resp:-1=10m",
            "resp:x=10m",
            "10m,20m",
            "http=1m,http=1m",
            "http=10m=1m",
        ] {
            assert!(DefaultTtl::parse(text).is_err(), "{text}");
        }
        let ttl = DefaultTtl::parse("resp:15=10m").unwrap();
        assert_eq!(ttl.check(16), Ok(()));
        assert!(ttl.check(15).is_err());
    }
}

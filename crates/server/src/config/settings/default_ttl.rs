//! Default TTL: how long items live that are stored without a time to live, as it is written.
//!
//! `10m` is for all protocols, `http=10m` for one, `resp:3=1h` for one database over the Redis
//! protocol. Commas separate several entries, in any order; the most specific one counts. Without a
//! matching entry, or with `0`, items have no TTL.
//!
//! `default_ttls.rs` computes the deadlines. Tests: below; tests/default_ttl.rs.

use std::collections::BTreeMap;
use std::fmt;

use super::units::{parse_duration_ms, show_duration_ms};
use crate::config::protocol::Protocol;

/// Times to live in milliseconds; 0 for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultTtl {
    protocols: [u64; Protocol::COUNT],
    /// By the number of the database, over Redis's protocol.
    databases: BTreeMap<u32, u64>,
}

/// The scope of a part of the setting.
enum Scope {
    All,
    Protocol(Protocol),
    Database(u32),
}

impl DefaultTtl {
    /// Parses `10m`, `http=10m,resp:3=1h` or `0`.
    ///
    /// # Errors
    /// A message if a duration or a scope is invalid.
    pub fn parse(text: &str) -> Result<DefaultTtl, String> {
        let mut all = None;
        let mut protocols = [None; Protocol::COUNT];
        let mut databases = BTreeMap::new();
        for part in text.split(',').map(str::trim) {
            let (scope, ttl) = match part.split_once('=') {
                Some((scope, ttl)) => (Scope::parse(scope)?, ttl),
                None => (Scope::All, part),
            };
            let ttl_ms = parse_duration_ms(ttl)?;
            let before = match scope {
                Scope::All => all.replace(ttl_ms),
                Scope::Protocol(protocol) => protocols[protocol as usize].replace(ttl_ms),
                Scope::Database(database) => databases.insert(database, ttl_ms),
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
        match self.databases.last_key_value() {
            Some((&last, _)) if last as usize >= databases => Err(format!(
                "database {last} does not exist; --databases is {databases}"
            )),
            _ => Ok(()),
        }
    }

    /// That of an item stored by a protocol, in a database over Redis's.
    #[must_use]
    pub fn ttl_ms(&self, protocol: Protocol, database: u32) -> u64 {
        let own = self.databases.get(&database);
        match (protocol, own) {
            (Protocol::Resp, Some(own_ms)) => *own_ms,
            _ => self.protocols[protocol as usize],
        }
    }

    /// The scopes, as they are written, and their times in milliseconds; each protocol, then the
    /// databases with their own.
    pub fn scopes(&self) -> impl Iterator<Item = (String, u64)> {
        let protocols = Protocol::ALL.iter().zip(self.protocols);
        let protocols = protocols.map(|(protocol, ttl_ms)| (protocol.name().to_owned(), ttl_ms));
        let databases = self.databases.iter().map(|(database, ttl_ms)| {
            let name = Protocol::Resp.name();
            (format!("{name}:{database}"), *ttl_ms)
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
        let protocol = Protocol::ALL.into_iter().find(|one| one.name() == name);
        let database = database.map(str::parse::<u32>).transpose();
        match (protocol, database) {
            (Some(protocol), Ok(None)) => Ok(Scope::Protocol(protocol)),
            (Some(Protocol::Resp), Ok(Some(database))) => Ok(Scope::Database(database)),
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
        let [first, others @ ..] = &self.protocols;
        if self.databases.is_empty() && others.iter().all(|other| other == first) {
            return to.write_str(&show_duration_ms(*first));
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

//! Keep: no-eviction databases and their memory, as an operator writes them.
//!
//! `3,4:64MiB` reserves 64 MiB for databases 3 and 4 together. Commas separate several shares; each
//! ends with its size: `3,4:64MiB,7:1MiB`. Database 0 cannot have a share, because memcached and
//! HTTP use it as a cache.
//!
//! Why: docs/decisions/0052. Tests: below; server/tests/keep.rs.

use std::fmt;

use cellar_engine::{Config, Space};

use super::units::{parse_size, show_size};

/// The value without no-eviction databases.
const NONE: &str = "none";

/// Databases, and the bytes that they have together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptShare {
    /// The databases, in their order.
    pub databases: Vec<u32>,
    /// Their memory in bytes.
    pub bytes: usize,
}

/// The shares of memory that databases have of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep(Vec<KeptShare>);

impl Keep {
    /// Reads `3,4:64MiB,7:1MiB`, or `none`.
    ///
    /// # Errors
    /// An invalid database or size, a duplicate, or a size out of range.
    pub fn parse(text: &str) -> Result<Keep, String> {
        let mut keep = Keep::default();
        if text == NONE {
            return Ok(keep);
        }
        let mut databases = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (number, size) = match part.split_once(':') {
                Some((number, size)) => (number, Some(size)),
                None => (part, None),
            };
            let number = keep.new_database(number, &databases)?;
            databases.push(number);
            if let Some(size) = size {
                databases.sort_unstable();
                let bytes = share_bytes(size)?;
                let databases = std::mem::take(&mut databases);
                keep.0.push(KeptShare { databases, bytes });
            }
        }
        if !databases.is_empty() {
            return Err(format!("{text:?} has no size; write 3,4:64MiB"));
        }
        match keep.0.len() > Space::SHARES_MAX {
            true => Err(format!("at most {} shares are possible", Space::SHARES_MAX)),
            false => Ok(keep),
        }
    }

    /// A database that is named for the first time.
    fn new_database(&self, text: &str, others: &[u32]) -> Result<u32, String> {
        let number = text.parse::<u32>();
        let number = number.map_err(|_| format!("{text:?} is not a database; write 3,4:64MiB"))?;
        if number == 0 {
            return Err("database 0 always evicts, because memcached and HTTP use it".to_owned());
        }
        if others.contains(&number) || self.share_of(number).is_some() {
            return Err(format!("database {number} is named twice"));
        }
        Ok(number)
    }

    /// Checks that the databases exist, and that half of the memory is left for the others.
    ///
    /// # Errors
    /// A message if that is not so.
    pub fn check(&self, databases: usize, memory_bytes: usize) -> Result<(), String> {
        let last = self.0.iter().flat_map(|share| &share.databases).max();
        if let Some(last) = last.filter(|&&last| last as usize >= databases) {
            return Err(format!(
                "database {last} does not exist; --databases is {databases}"
            ));
        }
        let (bytes, most) = (self.bytes(), Config::keep_bytes_max(memory_bytes));
        if bytes > most {
            return Err(format!(
                "the shares are {}, but at most half of --memory is possible, {}",
                show_size(bytes),
                show_size(most)
            ));
        }
        Ok(())
    }

    /// The shares.
    #[must_use]
    pub fn shares(&self) -> &[KeptShare] {
        &self.0
    }

    /// Bytes of all shares.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let sizes = self.0.iter().map(|share| share.bytes);
        sizes.fold(0, usize::saturating_add)
    }

    /// The number of the share that a database has a part in, if it has.
    #[must_use]
    pub fn share_of(&self, database: u32) -> Option<usize> {
        let has = |share: &KeptShare| share.databases.contains(&database);
        self.0.iter().position(has)
    }
}

impl KeptShare {
    /// The databases with commas between them.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<String> = self.databases.iter().map(u32::to_string).collect();
        names.join(",")
    }
}

fn share_bytes(size: &str) -> Result<usize, String> {
    let bytes = parse_size(size)?;
    if bytes < Config::KEEP_BYTES_MIN {
        return Err(format!(
            "{size} is too small; at least {}",
            show_size(Config::KEEP_BYTES_MIN)
        ));
    }
    Ok(bytes)
}

/// As an operator would write it.
impl fmt::Display for Keep {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return to.write_str(NONE);
        }
        for (place, share) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(to, "{comma}{}:{}", share.names(), show_size(share.bytes))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_ends_a_share() {
        let keep = Keep::parse("4,3:64MiB, 7:1MiB").unwrap();
        let share = |number| keep.share_of(number);
        assert_eq!(
            [3, 4, 7, 0, 5].map(share),
            [Some(0), Some(0), Some(1), None, None]
        );
        assert_eq!(keep.bytes(), 65 << 20);
        assert_eq!(keep.to_string(), "3,4:64MiB,7:1MiB");
        assert_eq!(Keep::parse(&keep.to_string()), Ok(keep));
        assert_eq!(Keep::parse("none"), Ok(Keep::default()));
        assert_eq!(Keep::default().to_string(), "none");
    }

    #[test]
    fn what_says_nothing_is_refused() {
        for text in [
            "",
            "3",
            "3,4",
            "3:64MiB,4",
            "3:",
            ":64MiB",
            "3:64MiB:1",
            "x:64MiB",
            "-1:64MiB",
            "3:1023KiB",
            "3:0",
            "0:64MiB",
            "3,0:64MiB",
            "3,3:64MiB",
            "3:64MiB,3:1MiB",
            "1:1MiB,2:1MiB,3:1MiB,4:1MiB,5:1MiB,6:1MiB,7:1MiB,8:1MiB,9:1MiB",
            "none,3:1MiB",
        ] {
            assert!(Keep::parse(text).is_err(), "{text}");
        }
        let keep = Keep::parse("15:8MiB").unwrap();
        assert_eq!(keep.check(16, 16 << 20), Ok(()));
        assert!(keep.check(15, 16 << 20).is_err());
        assert!(keep.check(16, (16 << 20) - 2).is_err());
    }
}

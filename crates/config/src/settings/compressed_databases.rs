//! Compressed databases: whose values are compressed, as it is written.
//!
//! `auto` is all databases, `off` none, `0,3` these two.
//!
//! Tests: below; server/tests/compress.rs.

use std::fmt;

/// The databases whose values are compressed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CompressedDatabases {
    /// None.
    #[default]
    Off,
    /// All.
    Auto,
    /// These, in order, each of them once; at least one.
    Some(Vec<u32>),
}

impl CompressedDatabases {
    /// Reads `auto`, `off` or numbers of databases with commas between them.
    ///
    /// # Errors
    /// What is none of these.
    pub fn parse(text: &str) -> Result<CompressedDatabases, String> {
        match text {
            "auto" => return Ok(CompressedDatabases::Auto),
            "off" => return Ok(CompressedDatabases::Off),
            _ => {}
        }
        let numbers = text.split(',').map(|number| number.trim().parse::<u32>());
        let numbers = numbers.collect::<Result<Vec<u32>, _>>();
        let mut numbers = numbers.map_err(|_| {
            format!("{text:?} is neither auto nor off nor numbers of databases like 0,3")
        })?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(CompressedDatabases::Some(numbers))
    }

    /// Checks that there are the databases that it names, given how many there are.
    ///
    /// # Errors
    /// Which one there is not.
    pub fn check(&self, databases: usize) -> Result<(), String> {
        match self {
            CompressedDatabases::Some(numbers) => match numbers.last() {
                Some(&last) if last as usize >= databases => Err(format!(
                    "database {last} does not exist; --databases is {databases}"
                )),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Whether any database's values are compressed.
    #[must_use]
    pub fn is_on(&self) -> bool {
        *self != CompressedDatabases::Off
    }
}

/// As an operator would write it.
impl fmt::Display for CompressedDatabases {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompressedDatabases::Off => to.write_str("off"),
            CompressedDatabases::Auto => to.write_str("auto"),
            CompressedDatabases::Some(numbers) => {
                for (place, number) in numbers.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(to, "{comma}{number}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_read_checked_and_written() {
        let shown = |text: &str| CompressedDatabases::parse(text).map(|read| read.to_string());
        for (text, expected) in [
            ("auto", "auto"),
            ("off", "off"),
            ("3, 0,3", "0,3"),
            ("7", "7"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected));
        }
        for wrong in ["", "on", "0,", "-1", "0;1", "auto,1", "4294967296"] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
        let some = CompressedDatabases::parse("1,4").unwrap();
        assert!(some.check(5).is_ok() && some.check(4).is_err());
        assert!(some.is_on() && !CompressedDatabases::Off.is_on());
    }
}

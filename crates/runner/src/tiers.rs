//! Tiers: which test belongs to which tier.
//!
//! `tests.tsv` at the root has a row for each file with tests: tier, kind, name, and for the deep
//! tier the reason. `make test` runs the tier `test`, `make test-all` both. A Rust row names a test
//! program, or a part of one (`cellar/server::resp_sets`); the longest row that begins a test's
//! name decides.
//!
//! crates/tidy checks that each file with tests has a row and each row a file.

/// A tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// What `make test` runs.
    Test,
    /// What `make test-all` runs besides.
    Deep,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The tier.
    pub tier: Tier,
    /// `rust`, `java`, `client` (a suite of foreign-clients/run) or `command`.
    pub kind: String,
    /// What is run.
    pub name: String,
}

/// The rows of `tests.tsv`.
///
/// # Errors
/// The first line that is no row, with its number.
pub fn parse(text: &str) -> Result<Vec<Row>, String> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            let wrong = |what: &str| format!("tests.tsv line {}: {what}", number + 1);
            let mut fields = line.split('\t');
            let (Some(tier), Some(kind), Some(name)) =
                (fields.next(), fields.next(), fields.next())
            else {
                return Err(wrong(
                    "a row has tier, kind and name, and a tab between them",
                ));
            };
            let tier = match tier {
                "test" => Tier::Test,
                "deep" => Tier::Deep,
                _ => return Err(wrong("the tier is `test` or `deep`")),
            };
            if tier == Tier::Deep && fields.next().is_none_or(str::is_empty) {
                return Err(wrong("a row of the deep tier says why in its fourth field"));
            }
            Ok(Row {
                tier,
                kind: kind.to_owned(),
                name: name.to_owned(),
            })
        })
        .collect()
}

/// The rows of the repository's table, which is in the working directory.
///
/// # Errors
/// As [`parse`], and if the file cannot be read.
pub fn read() -> Result<Vec<Row>, String> {
    let text = std::fs::read_to_string("tests.tsv");
    parse(&text.map_err(|error| format!("tests.tsv: {error}"))?)
}

/// The tier of a Rust test, by its full name (`cellar/server::resp_sets::a_set_has_members`); none
/// if no row begins it.
#[must_use]
pub fn tier_of(rows: &[Row], test: &str) -> Option<Tier> {
    let begins = |row: &&Row| {
        row.kind == "rust"
            && test
                .strip_prefix(row.name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let row = rows.iter().filter(begins).max_by_key(|row| row.name.len());
    row.map(|row| row.tier)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# a comment\n\
        test\trust\tcellar/server\n\
        deep\trust\tcellar/server::cluster_etcd\tneeds etcd\n\
        test\trust\tcellar/server::cluster_etcd::quick\n";

    #[test]
    fn the_longest_row_decides() {
        let rows = parse(TABLE).unwrap();
        let of = |test| tier_of(&rows, test);
        assert_eq!(of("cellar/server::resp::get"), Some(Tier::Test));
        assert_eq!(of("cellar/server::cluster_etcd::a::b"), Some(Tier::Deep));
        assert_eq!(of("cellar/server::cluster_etcd::quick"), Some(Tier::Test));
        assert_eq!(of("cellar/server::cluster_etcd2::a"), Some(Tier::Test));
        assert_eq!(of("cellar/other::a"), None);
    }

    #[test]
    fn a_row_that_cannot_be_read_is_named() {
        assert!(parse("test\trust").unwrap_err().contains("line 1"));
        assert!(parse("later\trust\ta").unwrap_err().contains("`test`"));
        assert!(parse("deep\trust\ta").unwrap_err().contains("why"));
    }
}

//! Parts: the measurements that `make bench` makes, each with its raw result and its page.
//!
//! One table says which there are; the script that runs them, the index and the check of the pages
//! all follow it. A part's raw result is `<part>.json`, its page `<part>.md`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use crate::error::Error;
use crate::machine::{self, DIRTY, Setting};
use crate::page::Page;
use crate::replay::contest;
use crate::reproduce::{s1, s2};
use crate::{compare, engine, expiry, growth, java, memory, near, replay, service};

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its name on the command line and of its files.
    pub name: &'static str,
    /// Another name that is understood, or nothing.
    also: &'static str,
    /// What it asks, for the index.
    pub sentence: &'static str,
    page: fn(&str) -> Result<Page, Error>,
}

const fn part(
    name: &'static str,
    also: &'static str,
    sentence: &'static str,
    page: fn(&str) -> Result<Page, Error>,
) -> Part {
    Part {
        name,
        also,
        sentence,
        page,
    }
}

/// All parts, the sources' first.
pub const PARTS: [Part; 14] = [
    part(
        "s1",
        "",
        "What caches in a service's own process bring in front of Redis, and who serves stale \
         values.",
        s1::stored_page,
    ),
    part(
        "s2",
        "",
        "Whether inserts fall as threads are added, how long locks are held, and what 64 \
         processors would do, simulated.",
        s2::stored_page,
    ),
    part(
        "s3",
        "",
        "The Java client beside the one that its source replaced, in the source's own seven cases.",
        java::stored_source_page,
    ),
    part(
        "s4",
        "service",
        "How long requests take in a cache service over HTTP, against BigCache.",
        service::stored_page,
    ),
    part(
        "s5",
        "expiry",
        "Who holds memory for items whose time is over, and who notices, in one database and in \
         many.",
        expiry::stored_page,
    ),
    part(
        "engine",
        "",
        "How fast the engine is without sockets, and how many bytes an item takes, beside caches \
         of the Rust registry.",
        engine::stored_page,
    ),
    part(
        "protocol",
        "compare",
        "What a request costs the server over each protocol, against other servers and against \
         doing nothing at all.",
        compare::stored_page,
    ),
    part(
        "eviction",
        "",
        "How often Cellar misses on real traces, compared with LRU and others in the same bytes.",
        replay::stored_page,
    ),
    part(
        "dead",
        "",
        "How much of the memory is dead when live items have to leave.",
        replay::stored_page,
    ),
    part(
        "contest",
        "",
        "Who misses least in the same resident memory: Cellar, memcached, Redis?",
        contest::stored_page,
    ),
    part(
        "growth",
        "",
        "What growing from empty costs the inserts.",
        growth::stored_page,
    ),
    part(
        "memory",
        "",
        "What servers occupy beside the memory they were given.",
        memory::stored_page,
    ),
    part(
        "near",
        "",
        "The near cache's local store beside quick_cache, moka and LRU.",
        near::stored_page,
    ),
    part(
        "java",
        "clients",
        "The Java client beside six others, on memcached and on Cellar.",
        java::stored_clients_page,
    ),
];

/// The part called `name`.
#[must_use]
pub fn named(name: &str) -> Option<&'static Part> {
    let is_it = |part: &&Part| part.name == name || (!name.is_empty() && part.also == name);
    PARTS.iter().find(is_it)
}

impl Part {
    /// Where its raw result is.
    #[must_use]
    pub fn raw_file(&self, results: &Path) -> PathBuf {
        results.join(format!("{}.json", self.name))
    }

    /// Its raw result, if there is one.
    ///
    /// # Errors
    /// [`Error::System`] if it is there but cannot be read.
    pub fn raw(&self, results: &Path) -> Result<Option<String>, Error> {
        let file = self.raw_file(results);
        if !file.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&file);
        text.map(Some)
            .map_err(|error| Error::system(format!("reading {}", file.display()), error))
    }

    /// Its page, if there is a raw result.
    ///
    /// # Errors
    /// [`Error`] if the raw result cannot be read or is none of this part.
    pub fn page(&self, results: &Path) -> Result<Option<Page>, Error> {
        let Some(raw) = self.raw(results)? else {
            return Ok(None);
        };
        let page = (self.page)(&raw);
        page.map(Some)
            .map_err(|error| Error::Wrong(format!("{}: {error}", self.name)))
    }

    /// Whether the raw result is of this commit, with no file changed.
    fn is_measured(&self, results: &Path, commit: &str) -> bool {
        /// What all raw results have in common.
        #[derive(Deserialize)]
        struct Stamped {
            setting: Setting,
        }
        let raw = self.raw(results).ok().flatten();
        let stamped = raw.and_then(|raw| serde_json::from_str::<Stamped>(&raw).ok());
        stamped.is_some_and(|it| it.setting.commit == commit && !commit.ends_with(DIRTY))
    }
}

/// Options of `cellar-bench parts`.
#[derive(Args, Clone, Debug)]
pub struct PartsArgs {
    /// Parts to list; all unless some are named
    #[arg(value_name = "PART")]
    names: Vec<String>,
    /// Only those without a raw result of this commit
    #[arg(long)]
    missing: bool,
    /// The folder of the raw results
    #[arg(long, value_name = "FOLDER", default_value = "bench/results")]
    results: PathBuf,
}

/// Lists parts, one on a line.
///
/// # Errors
/// [`Error::Usage`] if there is no such part.
pub fn command(args: &PartsArgs) -> Result<(), Error> {
    let mut parts: Vec<&Part> = PARTS.iter().collect();
    if !args.names.is_empty() {
        parts = args
            .names
            .iter()
            .map(|name| known(name))
            .collect::<Result<_, _>>()?;
    }
    let commit = machine::commit();
    for part in parts {
        if !(args.missing && part.is_measured(&args.results, &commit)) {
            println!("{}", part.name);
        }
    }
    Ok(())
}

fn known(name: &str) -> Result<&'static Part, Error> {
    named(name).ok_or_else(|| {
        let names = PARTS.map(|part| part.name).join(" ");
        Error::Usage(format!("there is no part {name:?}; parts are {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_one_name_and_perhaps_another() {
        assert_eq!(named("expiry").unwrap().name, "s5");
        assert_eq!(named("s5").unwrap().name, "s5");
        assert!(named("").is_none());
        for part in PARTS {
            let same = |other: &&Part| other.name == part.name || other.also == part.name;
            assert_eq!(PARTS.iter().filter(same).count(), 1, "{}", part.name);
        }
        let error = known("s9").unwrap_err().to_string();
        assert!(error.contains("parts are s1 "), "{error}");
    }

    #[test]
    fn only_a_raw_result_of_this_very_commit_counts_as_measured() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let part = named("growth").unwrap();
        assert!(!part.is_measured(folder, "abc"));
        for (commit, measured) in [("abc", true), ("abd", false), ("abc-dirty", false)] {
            let mut setting = Setting::here();
            setting.commit = commit.to_owned();
            let text = serde_json::json!({ "setting": setting }).to_string();
            std::fs::write(part.raw_file(folder), text).unwrap();
            assert_eq!(part.is_measured(folder, "abc"), measured, "{commit}");
        }
        assert!(!part.is_measured(folder, "abc-dirty"));
    }
}

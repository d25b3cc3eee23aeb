//! Parts: the measurements that `make bench` makes, each with its program, raw result and page.
//!
//! One list says which there are. A part has one name: it is its subcommand, its raw result
//! `<part>.json`, its template and its page `<part>.md`. The script that runs them, the index and
//! the check of the pages all follow the list.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde::Serialize;
use serde_json::{Value, json};

use crate::earlier::{EARLIER, runs_of};
use crate::machine::{self, DIRTY, Setting};
use crate::measurement::Measurement;
use crate::page::{self, Page};
use crate::replay::{ReplayArgs, contest};
use crate::{
    ads, churn, cluster, collections, compare, compression, engine, expiry, growth, memory, near,
    restart, service, threads, tls,
};
use cellar_load::Error;

/// The folder of the raw results, in that of the repository.
pub(crate) const RESULTS: &str = "bench/results";
/// What requests take in instructions, in that folder.
pub(crate) const INSTRUCTIONS: &str = "requests.tsv";
/// How many runs before it a raw result keeps.
const EARLIER_RUNS: usize = 2;

/// One measurement of the list.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its name on the command line and of its files.
    pub name: &'static str,
    /// What it asks, for the index and `--help`.
    pub sentence: &'static str,
    template: &'static str,
    /// How it is measured here; one in Java is not.
    program: Option<Program>,
}

#[derive(Clone, Copy, Debug)]
struct Program {
    options: fn(Command) -> Command,
    run: fn(&Part, &ArgMatches) -> Result<(), Error>,
}

/// Where the figures of a measurement go.
#[derive(Args, Debug)]
struct Files {
    /// Prints all figures instead of the page, or writes them to --json=FILE
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "-"
    )]
    json: Option<PathBuf>,
    /// Writes the page and its plots to this Markdown file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// A raw result. A figure that is called like an option takes its place.
#[derive(Serialize)]
struct Raw<'o, M> {
    setting: Setting,
    #[serde(flatten)]
    options: &'o M,
    #[serde(flatten)]
    figures: &'o Value,
}

/// Parts by name: whose options measure it, unless that is done in Java; what it asks; and the
/// template of its page, unless that has its name.
macro_rules! parts {
    ($($name:literal $(by $measurement:ty)? $(as $template:literal)? => $sentence:literal;)*) => {
        &[$(Part {
            name: $name,
            sentence: $sentence,
            template: template!($name $(, $template)?),
            program: program!($($measurement)?),
        }),*]
    };
}

macro_rules! template {
    ($name:literal) => {
        include_str!(concat!("../pages/", $name, ".md.jinja"))
    };
    ($name:literal, $template:literal) => {
        template!($template)
    };
}

macro_rules! program {
    () => {
        None
    };
    ($measurement:ty) => {
        by::<$measurement>()
    };
}

/// All parts, the sources' first.
pub const PARTS: &[Part] = parts! {
    "ads" by ads::AdsArgs =>
        "Latency and stale values of caches in a service's own process, in front of Redis.";
    "threads" by threads::ThreadsArgs => "Throughput of inserts and reads as threads are added.";
    "old-client" =>
        "The Java client and an older client, in the eight cases of an article.";
    "service" by service::ServiceArgs =>
        "Latency of a cache service over HTTP, compared with BigCache.";
    "service-whole" by service::ServiceArgs as "service" =>
        "The same over 35 minutes with messages that expire after ten, as in the article.";
    "expiry" by expiry::ExpiryArgs =>
        "Memory and latency of expired items, in one database and in many.";
    "churn" by churn::ChurnArgs =>
        "Reclaimable memory after deletes, overwrites and evictions, and their cost.";
    "engine" by engine::EngineArgs =>
        "Speed of the engine without sockets, and bytes per item, compared with Rust caches.";
    "compare" by compare::CompareArgs =>
        "Processor time per request and memory per item, compared with other servers.";
    "tls" by tls::DoorsArgs =>
        "Cost of TLS per request and idle connection, and the effect of many handshakes.";
    "eviction" by ReplayArgs as "replay" =>
        "Misses on real traces, compared with LRU and other policies in the same bytes.";
    "dead" by ReplayArgs as "replay" =>
        "Reclaimable memory when live items are evicted.";
    "contest" by contest::ContestArgs =>
        "Misses of Cellar, memcached and Redis in the same resident memory.";
    "growth" by growth::GrowthArgs => "Latency of inserts while an empty cache grows.";
    "memory" by memory::MemoryArgs => "Memory that servers use beside their limit.";
    "compression" by compression::CompressionArgs =>
        "Items in the same memory with compressed values, and the cost of a request.";
    "restart" by restart::RestartArgs =>
        "Restored items after restarts, kills and upgrades, and the effect on clients.";
    "cluster" by cluster::ClusterArgs =>
        "Distribution of keys over 3 to 1,000 nodes, cost per request, and the effect of nodes \
         that join, leave or fail.";
    "collections" by collections::CollectionsArgs =>
        "Processor time and memory of collections, bitmaps and long strings.";
    "near" by near::NearArgs =>
        "The near cache's local store, compared with quick_cache, moka and LRU.";
    "clients" => "The Java client and six others, on memcached and on Cellar.";
};

/// The replay of any trace: a measurement, but none of `make bench`.
pub const REPLAY: &Part = &parts! {
    "replay" by ReplayArgs =>
        "Replays traces through the engine in process, beside other policies in the same bytes.";
}[0];

/// The part called `name`.
pub fn named(name: &str) -> Option<&'static Part> {
    PARTS.iter().find(|part| part.name == name)
}

const fn by<M: Measurement>() -> Option<Program> {
    Some(Program {
        options: M::augment_args,
        run: run::<M>,
    })
}

fn run<M: Measurement>(part: &Part, matches: &ArgMatches) -> Result<(), Error> {
    let measurement = M::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
    let files = Files::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
    // Read before anything is bound to one processor, which would count as the only one.
    let setting = Setting::here();
    let figures = measurement.measure()?;
    let raw = Raw {
        setting,
        options: &measurement,
        figures: &figures,
    };
    let unwritable = |error| Error::system("writing the figures", error);
    let raw = serde_json::to_value(raw).map_err(unwritable)?;
    files.write(part, &raw)?;
    M::check(&figures)
}

impl Files {
    /// Writes and prints what was asked for.
    fn write(&self, part: &Part, figures: &Value) -> Result<(), Error> {
        let json = self.json.as_deref();
        if json == Some(Path::new("-")) {
            println!("{figures:#}");
        } else if let Some(file) = json {
            page::write(file, &format!("{figures:#}\n"))?;
        }
        let file = self.page.as_deref().unwrap_or(Path::new(part.name));
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let page = Page::of(&stem, part.template, figures)?;
        if self.page.is_some() {
            page.write(file.parent().unwrap_or(Path::new("")))?;
        }
        if json.is_none() {
            print!("{}", page.text());
        }
        Ok(())
    }
}

impl Part {
    /// Its subcommand, unless it is measured elsewhere.
    pub fn command(&self) -> Option<Command> {
        let command = (self.program?.options)(Command::new(self.name));
        // Read by the options that have another default then.
        let quick = Arg::new("quick").long("quick").action(ArgAction::SetTrue);
        let quick = quick.help("Little of everything: shows that it works, not how fast");
        Some(Files::augment_args(command.arg(quick)).about(self.sentence))
    }

    /// Measures with the options of its subcommand.
    ///
    /// # Errors
    /// [`Error`] if that was not possible, or found something wrong.
    pub fn run(&self, matches: &ArgMatches) -> Result<(), Error> {
        match self.program {
            Some(program) => (program.run)(self, matches),
            None => Err(Error::Usage(format!("{} is measured in Java", self.name))),
        }
    }

    fn file(&self, results: &Path) -> PathBuf {
        results.join(format!("{}.json", self.name))
    }

    /// Its raw result, if there is one.
    fn raw(&self, results: &Path) -> Result<Option<Value>, Error> {
        let file = self.file(results);
        file.exists().then(|| read(&file)).transpose()
    }

    /// Its page, if there is a raw result.
    /// [`Error`] if the raw result cannot be read or is none of this part.
    pub(crate) fn page(&self, results: &Path) -> Result<Option<Page>, Error> {
        let Some(mut raw) = self.raw(results)? else {
            return Ok(None);
        };
        if self.name == "compare" {
            raw["instructions"] = instructions(results)?;
        }
        Page::of(self.name, self.template, &raw).map(Some)
    }

    /// Whether the raw result is of this commit, with no file changed.
    fn is_measured(&self, results: &Path, commit: &str) -> bool {
        let raw = self.raw(results).ok().flatten();
        raw.is_some_and(|raw| raw["setting"]["commit"] == commit && !commit.ends_with(DIRTY))
    }
}

/// The rows of the table that `bench/instructions requests` keeps, of which the first has titles.
fn instructions(results: &Path) -> Result<Value, Error> {
    let file = results.join(INSTRUCTIONS);
    let reading = |error| Error::system(format!("reading {}", file.display()), error);
    let text = match file.exists() {
        true => std::fs::read_to_string(&file).map_err(reading)?,
        false => String::new(),
    };
    let rows = text.lines().map(|line| line.split('\t').collect());
    Ok(json!(rows.collect::<Vec<Vec<&str>>>()))
}

fn read(file: &Path) -> Result<Value, Error> {
    let reading = |error| Error::system(format!("reading {}", file.display()), error);
    let text = std::fs::read_to_string(file).map_err(reading)?;
    serde_json::from_str(&text).map_err(|error| Error::system(file.display().to_string(), error))
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
}

/// Lists parts, one on a line.
///
/// # Errors
/// [`Error::Usage`] if there is no such part.
pub fn command(args: &PartsArgs) -> Result<(), Error> {
    let mut parts: Vec<&Part> = PARTS.iter().collect();
    if !args.names.is_empty() {
        let known = args.names.iter().map(|name| known(name));
        parts = known.collect::<Result<_, _>>()?;
    }
    let commit = machine::commit();
    for part in parts {
        if !(args.missing && part.is_measured(Path::new(RESULTS), &commit)) {
            println!("{}", part.name);
        }
    }
    Ok(())
}

/// Options of `cellar-bench keep`.
#[derive(Args, Clone, Debug)]
pub struct KeepArgs {
    /// Whose raw result it is
    #[arg(value_name = "PART")]
    name: String,
    /// The new raw result
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The folder of the raw results
    #[arg(long, value_name = "FOLDER", default_value = RESULTS)]
    results: PathBuf,
}

/// Makes a file the raw result of its part. The runs before it stay in it, the last three in all,
/// so that none is replaced by a better one; a run that lacks some of its figures goes.
///
/// # Errors
/// [`Error`] if there is no such part, or a file cannot be read or written.
pub fn keep(args: &KeepArgs) -> Result<(), Error> {
    let part = known(&args.name)?;
    let mut raw = read(&args.file)?;
    let before = part.raw(&args.results)?;
    let runs = before.map_or_else(Vec::new, runs_of);
    let figures = raw.as_object();
    let names = || figures.into_iter().flatten().map(|(name, _)| name);
    let is_alike = |run: &Value| names().all(|name| run.get(name).is_some());
    let earlier: Vec<Value> = runs
        .into_iter()
        .filter(is_alike)
        .take(EARLIER_RUNS)
        .collect();
    raw[EARLIER] = earlier.into();
    page::write(&part.file(&args.results), &format!("{raw:#}\n"))
}

fn known(name: &str) -> Result<&'static Part, Error> {
    named(name).ok_or_else(|| {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        let names = names.join(" ");
        Error::Usage(format!("there is no part {name:?}; parts are {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_name_of_its_own_and_a_template_that_can_be_read() {
        for part in PARTS {
            let same = |other: &&Part| other.name == part.name;
            assert_eq!(PARTS.iter().filter(same).count(), 1, "{}", part.name);
            let error = Page::of(part.name, part.template, &serde_json::json!({})).unwrap_err();
            assert!(error.to_string().contains("Setting"), "{error}");
            if let Some(command) = part.command() {
                command.debug_assert();
            }
        }
        let error = known("s9").unwrap_err().to_string();
        assert!(error.contains("parts are ads "), "{error}");
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
            std::fs::write(folder.join("growth.json"), text).unwrap();
            assert_eq!(part.is_measured(folder, "abc"), measured, "{commit}");
        }
        assert!(!part.is_measured(folder, "abc-dirty"));
    }

    #[test]
    fn the_last_three_runs_are_kept_unless_they_lack_figures() {
        let folder = tempfile::tempdir().unwrap();
        let new = folder.path().join("new");
        let args = KeepArgs {
            name: "growth".to_owned(),
            file: new.clone(),
            results: folder.path().to_owned(),
        };
        let put = |raw: Value| {
            std::fs::write(&new, raw.to_string()).unwrap();
            keep(&args).unwrap();
            let raw = named("growth").unwrap().raw(folder.path()).unwrap();
            let runs = runs_of(raw.unwrap());
            runs.iter()
                .map(|run| run["found"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(put(serde_json::json!({"found": 0})), [0]);
        for (found, expected) in [(1, vec![1]), (2, vec![2, 1]), (3, vec![3, 2, 1])] {
            assert_eq!(
                put(serde_json::json!({"more": 1, "found": found})),
                expected
            );
        }
        assert_eq!(put(serde_json::json!({"found": 4})), [4, 3, 2]);
    }
}

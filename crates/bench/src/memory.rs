//! `cellar-bench memory`: how much more than its `--memory` a server occupies, and how much of what
//! it occupies is its users' data.
//!
//! Each scenario runs against a fresh server: it stores more than fits, in the way that is
//! hard on some allocator, or keeps many connections open. The peak of the process's resident
//! memory counts. Afterwards every key is read back, so that items and bytes held are what a client
//! finds, not what a server says.

mod client;
mod scenario;

use std::fmt::Write;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::goal::{self, Goal};
use crate::machine::Setting;
use crate::output::FileArgs;
use crate::page::{Finding, Page};
use crate::peers::{PeerArgs, started_as, takes_part};
use crate::plot::{Axis, Plot, Scale};
use crate::process::{Ingredients, Recipe};
use crate::versus::Versus;
use scenario::{SCENARIOS, Scenario};

const MIB: f64 = (1 << 20) as f64;
/// Memory that Cellar promises to stay within beside `--memory`, and for each connection.
const BASE_BYTES: u64 = 16 << 20;
const CONNECTION_BYTES: u64 = 64 << 10;
const QUICK_MEMORY_MIB: u64 = 32;
/// Threads of each server.
const THREADS: usize = 2;

/// Options of `cellar-bench memory`.
#[derive(Args, Clone, Debug)]
pub struct MemoryArgs {
    #[command(flatten)]
    peers: PeerArgs,
    /// redis-server's program, or off
    #[arg(long, value_name = "PATH", default_value = "off")]
    redis: String,
    /// Only the scenarios whose names contain this
    #[arg(long, value_name = "WORD", default_value = "")]
    only: String,
    /// 32 MiB for each server: shows that it works
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    files: FileArgs,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Deserialize, Serialize)]
struct Outcome {
    setting: Setting,
    rows: Vec<Row>,
}

/// One scenario against one server.
#[derive(Debug, Deserialize, Serialize)]
struct Row {
    scenario: String,
    server: String,
    version: String,
    memory_bytes: u64,
    connections: usize,
    peak_rss_bytes: u64,
    rss_bytes: u64,
    /// Peak less `memory_bytes`; negative while the memory was not used up.
    peak_beside_memory_bytes: i64,
    /// What Cellar promises at most beside its memory with so many connections.
    promised_bytes: u64,
    items_stored: u64,
    /// Of these, what the server refused to store.
    items_refused: u64,
    /// Items that a read finds at the end.
    items_held: u64,
    /// Bytes of their keys and values.
    user_bytes_held: u64,
    /// These as a share of resident memory.
    efficiency: f64,
}

/// redis-server as a cache: the least used leave when memory is full.
const REDIS_POLICY: [&str; 2] = ["--maxmemory-policy", "allkeys-lru"];

/// Runs the measurement and prints its table.
///
/// # Errors
/// [`Error`] if a server does not start, or answers what makes no sense.
pub fn command(args: &MemoryArgs) -> Result<(), Error> {
    let mut recipes = args.peers.recipes()?;
    if takes_part(&args.redis) {
        recipes.push(Recipe::redis(&args.redis, &REDIS_POLICY));
    }
    let memory_mib = if args.quick {
        QUICK_MEMORY_MIB
    } else {
        args.peers.memory_mib
    };
    let scenarios = SCENARIOS.iter();
    let scenarios = scenarios.filter(|scenario| scenario.name.contains(&args.only));
    let scenarios: Vec<&Scenario> = scenarios.collect();
    let count = scenarios.len() * recipes.len();
    let mut rows = Vec::new();
    for scenario in scenarios {
        for recipe in &recipes {
            let own_mib = scenario.memory_mib.unwrap_or(memory_mib);
            let row = measure(scenario, recipe, own_mib.min(memory_mib))?;
            eprintln!(
                "{:2} of {count}: {:18} {:12} {:+7.1} MiB beside --memory at the peak",
                rows.len() + 1,
                row.scenario,
                row.server,
                mib(row.peak_beside_memory_bytes),
            );
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Err(Error::Usage(format!(
            "no scenario is named like {:?}",
            args.only
        )));
    }
    let outcome = Outcome {
        setting: Setting::here(),
        rows,
    };
    let goals = goal::table(&goals(&outcome.rows));
    print!(
        "{}\n{goals}\nFrom {}.\n",
        table(&outcome.rows),
        outcome.setting
    );
    args.files.write(&outcome, || page(&outcome))
}

/// The page of an outcome that was stored as JSON.
///
/// # Errors
/// [`Error::Wrong`] if it is none.
pub fn stored_page(json: &str) -> Result<Page, Error> {
    Page::stored(json, page)
}

fn measure(scenario: &Scenario, recipe: &Recipe, memory_mib: u64) -> Result<Row, Error> {
    let with = Ingredients {
        memory_mib,
        threads: THREADS,
        cpu: None,
    };
    let server = recipe.start(with)?;
    let version = server.version()?;
    let memory_bytes = memory_mib << 20;
    let done = scenario.run(&server, memory_bytes)?;
    let (peak_rss_bytes, rss_bytes) = (server.rss_peak_bytes()?, server.rss_bytes()?);
    let held = done.read_back(&server)?;
    server.stop();
    let connections = done.connections();
    Ok(Row {
        scenario: scenario.name.to_owned(),
        server: recipe.name.clone(),
        version,
        memory_bytes,
        connections,
        peak_rss_bytes,
        rss_bytes,
        peak_beside_memory_bytes: peak_rss_bytes.cast_signed() - memory_bytes.cast_signed(),
        promised_bytes: BASE_BYTES + connections as u64 * CONNECTION_BYTES,
        items_stored: done.stored(),
        items_refused: done.refused(),
        items_held: held.items,
        user_bytes_held: held.user_bytes,
        efficiency: ratio(held.user_bytes, rss_bytes),
    })
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53 bytes")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53 bytes")]
fn mib(bytes: i64) -> f64 {
    bytes as f64 / MIB
}

/// A table in Markdown.
fn table(rows: &[Row]) -> String {
    let mut text = "| scenario | server | memory MiB | connections | peak beside memory MiB \
         | stores refused | items held | user data MiB | of RSS |\n\
         |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} {} | {} | {} | {:+.1} | {} | {} | {:.1} | {:.0} % |",
            row.scenario,
            row.server,
            row.version,
            row.memory_bytes >> 20,
            row.connections,
            mib(row.peak_beside_memory_bytes),
            row.items_refused,
            row.items_held,
            mib(row.user_bytes_held.cast_signed()),
            row.efficiency * 100.0,
        );
    }
    text
}

/// What Cellar promises, in each scenario.
fn goals(rows: &[Row]) -> Vec<Goal> {
    let cellar = rows.iter().filter(|row| row.server == "cellar");
    let goals = cellar.map(|row| {
        let what = format!("peak beside memory MiB, {}", row.scenario);
        let limit = mib(row.promised_bytes.cast_signed());
        Goal::at_most(what, limit, mib(row.peak_beside_memory_bytes), 1)
    });
    goals.collect()
}

/// Whether Cellar breaks its promise, before all else.
fn verdict(rows: &[Row]) -> String {
    let broken = goals(rows).into_iter().filter(|goal| !goal.is_reached);
    let broken: Vec<String> = broken.map(|goal| goal.what).collect();
    match broken.len() {
        0 => "Cellar keeps its promise in every scenario.".to_owned(),
        _ => format!("**Cellar breaks its promise**: {}.", broken.join("; ")),
    }
}

/// Peak, share of data and items held in each scenario, Cellar's and each rival's.
#[expect(clippy::cast_precision_loss, reason = "a display")]
fn versus(rows: &[Row]) -> Vec<Versus> {
    let mut all = Vec::new();
    for rival in rows.iter().filter(|row| row.server != "cellar") {
        let mut cellar = rows.iter().filter(|row| row.server == "cellar");
        let Some(cellar) = cellar.find(|row| row.scenario == rival.scenario) else {
            continue;
        };
        let what = |figure: &str| format!("{figure}, {}", rival.scenario);
        let peak = |row: &Row| mib(row.peak_rss_bytes.cast_signed());
        let (name, peak_mib) = (&rival.server, what("peak of resident memory, MiB"));
        all.push(Versus::less(peak_mib, peak(cellar), name, peak(rival)));
        let (ours, theirs) = (cellar.efficiency, rival.efficiency);
        all.push(Versus::more(what("share of data"), ours, name, theirs));
        let (ours, theirs) = (cellar.items_held as f64, rival.items_held as f64);
        all.push(Versus::more(what("items held"), ours, name, theirs));
    }
    all
}

/// What part of what a server occupies is data, in each scenario.
fn plot(rows: &[Row]) -> Plot {
    let cells = rows.iter();
    let cells = cells.map(|row| (row.scenario.clone(), row.server.clone(), row.efficiency));
    let y = Axis {
        label: "keys and values over resident memory".to_owned(),
        scale: Scale::Linear,
    };
    Plot::of_rows("How much of resident memory is data", "scenario", y, cells)
}

fn page(outcome: &Outcome) -> Page {
    let scenarios = SCENARIOS.iter().filter(|scenario| {
        let mut rows = outcome.rows.iter();
        rows.any(|row| row.scenario == scenario.name)
    });
    let list: String = scenarios
        .map(|scenario| format!("- **{}**: {}\n", scenario.name, scenario.what))
        .collect();
    let cellar = outcome.rows.iter().filter(|row| row.server == "cellar");
    let broken = goals(&outcome.rows);
    let broken = broken.iter().filter(|goal| !goal.is_reached).count();
    let worst = cellar.clone().map(|row| row.peak_beside_memory_bytes).max();
    let worst = worst.map_or_else(String::new, |bytes| {
        format!(
            " At most it occupied {:+.1} MiB beside its memory, and it broke the promise in \
             {broken} of {} scenarios.",
            mib(bytes),
            cellar.count(),
        )
    });
    Page {
        title: "Memory".to_owned(),
        question: "Does the process stay within the memory it was given, whatever is stored, and \
            how much of what it occupies is data?"
            .to_owned(),
        method: format!(
            "Each scenario stores more than fits, most of them several times as much, into a fresh \
             server with {THREADS} threads. The peak is the kernel's own (`VmHWM`). Then every key \
             is read back; *user \
             data* are the keys and values found, *of RSS* is their share of resident memory at \
             the end.\n\n{list}{}",
            started_as(&[
                Recipe::cellar("cellar", &[]),
                Recipe::memcached("memcached"),
                Recipe::redis("redis-server", &REDIS_POLICY),
            ]),
        ),
        versus: versus(&outcome.rows),
        headline: None,
        findings: vec![
            Finding::Text(verdict(&outcome.rows)),
            Finding::Text(table(&outcome.rows)),
            Finding::Text(goal::table(&goals(&outcome.rows))),
            Finding::Plot {
                name: "data".to_owned(),
                plot: plot(&outcome.rows),
            },
        ],
        meaning: format!(
            "Cellar promises at most 16 MiB beside `--memory`, and 64 KiB for each connection.\
             {worst}"
        ),
        limits: "Redis counts its clients' buffers against its memory, so that with many of \
            them items leave and stores are refused. Memory in the kernel's socket buffers \
            belongs to no process and is not counted. More items are not more data: memcached \
            divides its memory among classes of sizes and keeps small items where others keep \
            large ones. Limits of the peers count items, not their \
            whole process."
            .to_owned(),
        setting: outcome.setting.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(scenario: &str, server: &str, beside_mib: i64) -> Row {
        Row {
            scenario: scenario.to_owned(),
            server: server.to_owned(),
            version: "1".to_owned(),
            memory_bytes: 64 << 20,
            connections: 2,
            peak_rss_bytes: 68 << 20,
            rss_bytes: 68 << 20,
            peak_beside_memory_bytes: beside_mib << 20,
            promised_bytes: BASE_BYTES + 2 * CONNECTION_BYTES,
            items_stored: 100,
            items_refused: 3,
            items_held: 10,
            user_bytes_held: 34 << 20,
            efficiency: ratio(34, 68),
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let text = table(&[row("mixed sizes", "cellar", 4)]);
        assert!(
            text.ends_with("| mixed sizes | cellar 1 | 64 | 2 | +4.0 | 3 | 10 | 34.0 | 50 % |\n")
        );
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn where_another_server_is_better_is_told() {
        let cellar = row("a", "cellar", 17);
        let rival = Row {
            items_held: 11,
            efficiency: 0.4,
            peak_rss_bytes: 60 << 20,
            ..row("a", "memcached", 10)
        };
        let rows = [cellar, rival];
        let lost = versus(&rows).into_iter().filter(Versus::is_lost);
        let lost: Vec<String> = lost.map(|versus| versus.what).collect();
        assert_eq!(lost, ["peak of resident memory, MiB, a", "items held, a"]);
        let text = verdict(&rows);
        assert_eq!(
            text,
            "**Cellar breaks its promise**: peak beside memory MiB, a."
        );
        let text = verdict(&[row("a", "cellar", 4), row("a", "memcached", 4)]);
        assert_eq!(text, "Cellar keeps its promise in every scenario.");
    }

    #[test]
    fn the_promise_is_one_of_cellar_in_each_scenario() {
        let goals = goals(&[
            row("a", "cellar", 16),
            row("a", "memcached", 90),
            row("b", "cellar", 17),
        ]);
        let table = goal::table(&goals);
        assert!(
            table.contains("| peak beside memory MiB, a | <= 16.125 | 16.0 | reached |"),
            "{table}"
        );
        assert!(table.contains("b | <= 16.125 | 17.0 | MISSED |"), "{table}");
        assert_eq!(goals.len(), 2);
    }
}

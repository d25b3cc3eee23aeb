//! `cellar-bench memory`: how much more than its `--memory` a server occupies, and how much of what
//! it occupies is its users' data.
//!
//! Each scenario runs against a fresh server: it stores several times what fits, in the way that is
//! hard on some allocator, or keeps many connections open. The peak of the process's resident
//! memory counts. Afterwards every key is read back, so that items and bytes held are what a client
//! finds, not what a server says.

mod client;
mod scenario;

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::compare::{PeerArgs, write_json};
use crate::error::Error;
use crate::machine::Setting;
use crate::page::{Finding, Page};
use crate::process::{Ingredients, Recipe};
use client::Speech;
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
    /// Writes all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a page about the figures to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
struct Outcome {
    setting: Setting,
    rows: Vec<Row>,
}

/// One scenario against one server.
#[derive(Debug, Serialize)]
struct Row {
    scenario: &'static str,
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

/// Runs the measurement and prints its table.
///
/// # Errors
/// [`Error`] if a server does not start, or answers what makes no sense.
pub fn command(args: &MemoryArgs) -> Result<(), Error> {
    let mut recipes = args.peers.recipes()?;
    if args.redis != "off" {
        recipes.push(redis(&args.redis));
    }
    let memory_mib = if args.quick {
        QUICK_MEMORY_MIB
    } else {
        args.peers.memory_mib
    };
    let mut rows = Vec::new();
    for scenario in SCENARIOS
        .iter()
        .filter(|scenario| scenario.name.contains(&args.only))
    {
        for recipe in &recipes {
            let row = measure(scenario, recipe, scenario.memory_mib.unwrap_or(memory_mib))?;
            eprintln!(
                "{:18} {:10} {:7.1} MiB beside --memory at the peak",
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
    print!("{}\nFrom {}.\n", table(&outcome.rows), outcome.setting);
    write_json(args.json.as_deref(), &outcome)?;
    match &args.page {
        Some(file) => page(&outcome).write(file),
        None => Ok(()),
    }
}

/// Redis as a cache: nothing goes to disk, and the least used leave when memory is full.
fn redis(program: &str) -> Recipe {
    let words = [
        program,
        "--port",
        "{port}",
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--maxmemory",
        "{memory_mib}mb",
        "--maxmemory-policy",
        "allkeys-lru",
    ];
    Recipe {
        name: "redis".to_owned(),
        words: words.map(str::to_owned).to_vec(),
    }
}

fn measure(scenario: &Scenario, recipe: &Recipe, memory_mib: u64) -> Result<Row, Error> {
    let with = Ingredients {
        memory_mib,
        threads: THREADS,
        cpu: None,
    };
    let server = recipe.start(with)?;
    let speech = if recipe.name == "redis" {
        Speech::Redis
    } else {
        Speech::Memcached
    };
    let version = match speech {
        Speech::Redis => String::new(),
        Speech::Memcached => server.version()?,
    };
    let memory_bytes = memory_mib << 20;
    let done = scenario.run(server.address(), speech, memory_bytes)?;
    let [peak_rss_bytes, rss_bytes] = resident_bytes(server.pid())?;
    let held = done.read_back(server.address(), speech)?;
    server.stop();
    let connections = done.connections();
    Ok(Row {
        scenario: scenario.name,
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

/// The peak of a process's resident memory, and what it is now.
fn resident_bytes(pid: u32) -> Result<[u64; 2], Error> {
    let failed = |error| Error::system("reading the server's memory", error);
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(failed)?;
    let size = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.map(|kib| kib * 1024)
            .ok_or_else(|| failed(std::io::Error::other(format!("{name} is missing"))))
    };
    Ok([size("VmHWM:")?, size("VmRSS:")?])
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

fn page(outcome: &Outcome) -> Page {
    let scenarios = SCENARIOS.iter().filter(|scenario| {
        let mut rows = outcome.rows.iter();
        rows.any(|row| row.scenario == scenario.name)
    });
    let list: String = scenarios
        .map(|scenario| format!("- **{}**: {}\n", scenario.name, scenario.what))
        .collect();
    let cellar = outcome.rows.iter().filter(|row| row.server == "cellar");
    let broken = cellar
        .clone()
        .filter(|row| row.peak_beside_memory_bytes > row.promised_bytes.cast_signed())
        .count();
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
            "Each scenario stores several times what fits into a fresh server with {THREADS} \
             threads. The peak is the kernel's own (`VmHWM`). Then every key is read back; *user \
             data* are the keys and values found, *of RSS* is their share of resident memory at \
             the end.\n\n{list}"
        ),
        findings: vec![Finding::Text(table(&outcome.rows))],
        meaning: format!(
            "Cellar promises at most 16 MiB beside `--memory`, and 64 KiB for each connection.\
             {worst}"
        ),
        limits: "Redis counts its clients' buffers against its memory, so that with many of \
            them items leave and stores are refused. Memory in the kernel's socket buffers \
            belongs to no process and is not counted. Limits of the peers count items, not their \
            whole process."
            .to_owned(),
        setting: outcome.setting.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_peak_that_is_no_less_than_what_it_occupies() {
        let [peak, now] = resident_bytes(std::process::id()).unwrap();
        assert!(peak >= now && now > 100_000);
        assert!(resident_bytes(u32::MAX).is_err());
    }

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let row = Row {
            scenario: "mixed sizes",
            server: "cellar".to_owned(),
            version: "1".to_owned(),
            memory_bytes: 64 << 20,
            connections: 2,
            peak_rss_bytes: 68 << 20,
            rss_bytes: 68 << 20,
            peak_beside_memory_bytes: 4 << 20,
            promised_bytes: BASE_BYTES,
            items_stored: 100,
            items_refused: 3,
            items_held: 10,
            user_bytes_held: 34 << 20,
            efficiency: ratio(34, 68),
        };
        let text = table(&[row]);
        assert!(
            text.ends_with("| mixed sizes | cellar 1 | 64 | 2 | +4.0 | 3 | 10 | 34.0 | 50 % |\n")
        );
        assert_eq!(text.lines().count(), 3);
    }
}

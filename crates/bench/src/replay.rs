//! `cellar-bench replay`: traces of real caches through the engine, with the trace's clock.
//!
//! Every trace and size runs on a fresh cache in this process. Beside it, policies that everybody
//! knows can be simulated over the same trace in the same bytes, with the same overhead for each
//! item: so a difference in misses is a difference of policy and layout, not of accounting.

mod progress;
mod size;
mod unpack;
mod trace;
mod read;
mod baseline;
mod stamp;
mod play;
mod remote;
mod report;
mod curve;
mod page;
pub mod contest;

use std::path::PathBuf;

use cellar_engine::Error as Refusal;
use clap::Args;

use self::baseline::{Baseline, simulate};
use self::play::{EngineSetup, play};
pub(crate) use self::read::{Reading, read};
use self::report::{RemoteRun, Report, Run, Skipped};
use self::size::Size;
use self::trace::OVERHEAD_BYTES;
pub(crate) use self::trace::Trace;
use crate::address::Address;
use crate::error::Error;
use crate::machine::Setting;
use crate::output::PrintArgs;
use crate::page::Page;
use crate::wire::Wire;

/// Options that say nothing about a server that runs already.
const NOT_OVER: [&str; 7] = [
    "memory",
    "sizes",
    "baselines",
    "plot",
    "page",
    "threads",
    "shards",
];

/// Options of `cellar-bench replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// Traces: CSV with a header, columns from time_s, op, key, value_bytes, ttl_s; also packed
    /// with zstd, gzip or xz; - is stdin
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Memory of the cache: 64MiB, or 5% of the trace's footprint
    #[arg(long, value_name = "SIZE", required_unless_present_any = ["sizes", "over"])]
    memory: Option<Size>,
    /// Several sizes of memory, such as 16MiB,64MiB or 1%,5%,10%,25%
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        conflicts_with = "memory"
    )]
    sizes: Vec<Size>,
    /// Replays against a running, empty server instead of the engine; TTLs are left out
    #[arg(long, value_name = "PROTOCOL", requires = "target", conflicts_with_all = NOT_OVER)]
    over: Option<Wire>,
    /// The server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", requires = "over")]
    target: Option<Address>,
    /// Policies to simulate beside it: lru, fifo, s3fifo, belady
    #[arg(long = "baseline", value_name = "NAMES", value_delimiter = ',')]
    baselines: Vec<Baseline>,
    /// Bytes that a baseline pays for each item over key and value
    #[arg(long, value_name = "BYTES", default_value_t = OVERHEAD_BYTES)]
    baseline_overhead: u64,
    /// Draws the miss ratio over memory into this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Heading of the page, which compares with lru at least
    #[arg(long, value_name = "TEXT", default_value = "Misses")]
    title: String,
    #[command(flatten)]
    output: PrintArgs,
    /// Gives all values this length
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    value_bytes: Option<u32>,
    /// Stretches or shrinks all values, so that each size is this share of the footprint
    #[arg(long, value_name = "SHARE", conflicts_with = "over")]
    stretch: Option<Size>,
    /// This share of the sets over existing keys gets another length, half to double
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    resize_overwrites: f64,
    /// Threads the engine prepares for, which decides the number of shards
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Number of shards, a power of two, instead of the engine's choice
    #[arg(long)]
    shards: Option<usize>,
    /// Seed of everything random: the key hash and --resize-overwrites
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Replays the traces and prints what was found.
///
/// # Errors
/// [`Error`] if a trace cannot be read, the engine cannot work with a size, or it served something
/// wrong.
pub fn command(args: &ReplayArgs) -> Result<(), Error> {
    args.check()?;
    if let (Some(wire), Some(target)) = (args.over, &args.target) {
        return args.replay_over(wire, target);
    }
    let mut report = Report {
        setting: Setting::here(),
        title: args.title.clone(),
        baselines: args.baselines(),
        baseline_overhead_bytes: args.baseline_overhead,
        stretch: args.stretch.map(|share| share.to_string()),
        runs: Vec::new(),
        skipped: Vec::new(),
    };
    for path in &args.traces {
        let trace = read(path, &args.reading())?;
        args.sweep(&trace, &mut report)?;
    }
    if let Some(file) = &args.plot {
        let runs: Vec<&Run> = report.runs.iter().collect();
        curve::plot(&runs, &report.baselines).write(file)?;
    }
    args.output.write_page(|| page::page(&report))?;
    args.print(&report)
}

/// The page of a report that was stored as JSON.
///
/// # Errors
/// [`Error::Wrong`] if it is none.
pub fn stored_page(json: &str) -> Result<Page, Error> {
    Page::stored(json, page::page)
}

impl ReplayArgs {
    fn check(&self) -> Result<(), Error> {
        let usage = |what: &str| Err(Error::Usage(what.to_owned()));
        if !(0.0..=1.0).contains(&self.resize_overwrites) {
            return usage("--resize-overwrites is a share from 0 to 1");
        }
        if self.plot.is_some() && self.traces.len() > 1 {
            return usage("--plot shows one trace");
        }
        if self.shards.is_some_and(|shards| !shards.is_power_of_two()) {
            return usage("--shards is a power of two");
        }
        Ok(())
    }

    /// The policies asked for, and LRU if the page needs it.
    fn baselines(&self) -> Vec<Baseline> {
        let mut baselines = self.baselines.clone();
        if self.output.has_page() && !baselines.contains(&Baseline::Lru) {
            baselines.insert(0, Baseline::Lru);
        }
        baselines
    }

    fn asked_sizes(&self) -> impl Iterator<Item = Size> {
        self.memory.iter().chain(&self.sizes).copied()
    }

    fn reading(&self) -> Reading {
        Reading {
            value_bytes: self.value_bytes,
            resize_share: self.resize_overwrites,
            seed: self.seed,
        }
    }

    /// The trace with values as `--stretch` wants them for this size.
    fn stretched(&self, trace: &Trace, size: Size) -> Result<Option<Trace>, Error> {
        match (self.stretch, size) {
            (None, _) => Ok(None),
            (Some(Size::Percent(percent)), Size::Bytes(bytes)) => {
                let footprint_bytes = Size::Percent(1e4 / percent).bytes(bytes);
                Ok(Some(trace.stretched(footprint_bytes)))
            }
            _ => {
                let what = "--stretch is a share such as 10%, and goes with sizes in bytes";
                Err(Error::Usage(what.to_owned()))
            }
        }
    }

    /// Replays one trace at all sizes.
    fn sweep(&self, trace: &Trace, report: &mut Report) -> Result<(), Error> {
        for size in self.asked_sizes() {
            let stretched = self.stretched(trace, size)?;
            let trace = stretched.as_ref().unwrap_or(trace);
            let footprint_bytes = trace.footprint_bytes();
            let memory_bytes = size.bytes(footprint_bytes);
            let setup = EngineSetup {
                memory_bytes,
                threads: self.threads,
                shards: self.shards,
                seed: self.seed,
            };
            match play(trace, &setup) {
                Ok(played) => {
                    let run = |baseline| {
                        let overhead_bytes = self.baseline_overhead;
                        let tally = simulate(baseline, trace, memory_bytes, overhead_bytes);
                        (baseline, tally)
                    };
                    let tallies: Vec<_> = self.baselines().into_iter().map(run).collect();
                    let run = Run::of(&trace.name, size, footprint_bytes, &played, &tallies);
                    report.runs.push(run);
                }
                Err(Error::Engine(refusal @ Refusal::MemoryTooSmall { .. })) => {
                    let reason = refusal.to_string();
                    let is_share = matches!(size, Size::Percent(_));
                    if !is_share || self.asked_sizes().count() == 1 {
                        return Err(Error::Usage(format!("{} at {size}: {reason}", trace.name)));
                    }
                    report.skipped.push(Skipped {
                        trace: trace.name.clone(),
                        size: size.to_string(),
                        memory_bytes,
                        reason,
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn print(&self, report: &Report) -> Result<(), Error> {
        // One trace at one size is one plain object.
        let is_single = self.traces.len() == 1 && self.asked_sizes().count() == 1;
        let text = || report::table(report);
        match report.runs.first() {
            Some(run) if is_single => self.output.print(run, text),
            _ => self.output.print(report, text),
        }
    }

    fn replay_over(&self, wire: Wire, target: &Address) -> Result<(), Error> {
        let [path] = self.traces.as_slice() else {
            let what = "--over replays one trace, because the next would not find an empty server";
            return Err(Error::Usage(what.to_owned()));
        };
        let trace = read(path, &self.reading())?;
        let served = remote::play(&trace, wire, target)?;
        let run = RemoteRun::of(&trace, &served);
        self.output.print(&run, || run.to_string())
    }
}

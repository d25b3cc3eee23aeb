//! `cellar-bench replay`: traces of real caches through the engine, with the trace's clock.
//!
//! Every trace and size runs on a fresh cache in this process. Beside it, policies that everybody
//! knows can be simulated over the same trace in the same bytes, with the same overhead for each
//! item: so a difference in misses is a difference of policy and layout, not of accounting.

mod size;
mod trace;
mod read;
mod baseline; // the policies to compare with
mod stamp;
mod play;
mod remote; // replays over the network, who misses least in the same RSS
pub(crate) mod contest;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use self::baseline::{Baseline, simulate};
use self::play::play;
pub(crate) use self::read::read;
use self::size::Size;
use self::trace::OVERHEAD_BYTES;
pub(crate) use self::trace::Trace;
use crate::measurement::{Measurement, both};
use cellar_load::{Error, share};

/// Options of `cellar-bench replay`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct ReplayArgs {
    /// Traces: CSV with a header, columns from time_s, op, key, value_bytes, ttl_s; also packed
    /// with zstd; - is stdin
    #[arg(required = true, value_name = "TRACE")]
    #[serde(skip)]
    traces: Vec<PathBuf>,
    /// Memory of the cache: 64MiB, or 5% of the trace's footprint, or several such as 1%,5%,10%
    #[arg(long, value_name = "SIZES", value_delimiter = ',', required = true)]
    #[serde(skip)]
    memory: Vec<Size>,
    /// Policies to simulate beside it: lru, fifo, s3fifo, belady
    #[arg(long = "baseline", value_name = "NAMES", value_delimiter = ',')]
    baselines: Vec<Baseline>,
    /// Heading of the page
    #[arg(long, value_name = "TEXT", default_value = "Misses")]
    title: String,
    /// At most so many requests of each trace, from its beginning
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_if("quick", "true", "50000")
    )]
    requests: Option<usize>,
    /// Stretches or shrinks all values, so that each size is this share of the footprint
    #[arg(long, value_name = "SHARE")]
    #[serde(skip)]
    stretch: Option<Size>,
    /// This share of the sets over existing keys gets another length, half to double
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    resize_overwrites: f64,
    /// Replays once more with so much memory that nothing has to leave, such as 400%
    #[arg(long, value_name = "SIZE")]
    #[serde(skip)]
    roomy: Option<Size>,
}

impl Measurement for ReplayArgs {
    fn measure(&self) -> Result<Value, Error> {
        if !(0.0..=1.0).contains(&self.resize_overwrites) {
            let what = "--resize-overwrites is a share from 0 to 1";
            return Err(Error::Usage(what.to_owned()));
        }
        let (mut runs, mut roomy, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for path in &self.traces {
            let read = |resize_share| {
                let mut trace = read(path, resize_share)?;
                trace.truncate(self.requests.unwrap_or(usize::MAX));
                Ok(trace)
            };
            self.sweep(&read(self.resize_overwrites)?, &mut runs, &mut skipped)?;
            if let Some(size) = self.roomy {
                roomy.push(run(&read(0.0)?, size, &[])?);
            }
        }
        Ok(json!({
            "baseline_overhead_bytes": OVERHEAD_BYTES,
            "stretch": self.stretch.map(|share| share.to_string()),
            "runs": runs,
            "roomy": roomy,
            "skipped": skipped,
        }))
    }
}

impl ReplayArgs {
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

    /// Replays one trace at all sizes; shares that are too little for the engine are skipped.
    fn sweep(
        &self,
        trace: &Trace,
        runs: &mut Vec<Value>,
        skipped: &mut Vec<Value>,
    ) -> Result<(), Error> {
        for &size in &self.memory {
            let stretched = self.stretched(trace, size)?;
            let trace = stretched.as_ref().unwrap_or(trace);
            match run(trace, size, &self.baselines) {
                Ok(run) => runs.push(run),
                Err(Error::Usage(reason)) => {
                    let is_share = matches!(size, Size::Percent(_));
                    if !is_share || self.memory.len() == 1 {
                        return Err(Error::Usage(format!("{} at {size}: {reason}", trace.name)));
                    }
                    skipped.push(json!({
                        "trace": trace.name,
                        "size": size.to_string(),
                        "memory_bytes": size.bytes(trace.footprint_bytes()),
                        "reason": reason,
                    }));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// One trace at one size, and other policies beside it.
fn run(trace: &Trace, size: Size, baselines: &[Baseline]) -> Result<Value, Error> {
    let footprint_bytes = trace.footprint_bytes();
    let memory_bytes = size.bytes(footprint_bytes);
    let played = play(trace, memory_bytes)?;
    let misses = played["misses"].as_u64().unwrap_or(0);
    let compared = baselines.iter().map(|baseline| {
        let tally = simulate(*baseline, trace, memory_bytes, OVERHEAD_BYTES);
        let compared = json!({
            "hits": tally.hits,
            "misses": tally.misses,
            "miss_ratio": share(tally.misses, tally.hits + tally.misses),
            "engine_misses_ratio": share(misses, tally.misses),
        });
        (baseline.name().to_owned(), compared)
    });
    let others = json!({
        "baselines": compared.collect::<Value>(),
        "trace": trace.name,
        "size": size.to_string(),
        "footprint_bytes": footprint_bytes,
    });
    Ok(both(played, others))
}

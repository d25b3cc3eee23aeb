//! The replays of `make bench`: which sizes, which policies beside the engine.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Command, FromArgMatches};

use super::ReplayArgs;
use super::report::Report;
use crate::measurement::Measurement;
use cellar_load::error::Error;

/// More memory than a trace needs: what is dead goes all the same.
const MUCH_MEMORY: &str = "--memory 400%";

/// Options of `cellar-bench eviction`.
#[derive(Args, Clone, Debug)]
pub(crate) struct EvictionArgs {
    #[command(flatten)]
    traces: TraceArgs,
}

/// Options of `cellar-bench dead`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeadArgs {
    #[command(flatten)]
    traces: TraceArgs,
}

#[derive(Args, Clone, Debug)]
struct TraceArgs {
    /// Traces, as for replay
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// At most so many requests of each trace, from its beginning
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_if("quick", "true", "50000")
    )]
    requests: Option<String>,
}

impl Measurement for EvictionArgs {
    type Outcome = Report;

    fn measure(&self) -> Result<Report, Error> {
        let options = "--sizes 1%,5%,10%,25% --baseline lru,fifo,s3fifo,belady";
        self.traces.replay(options, "Misses on real traces")
    }
}

impl Measurement for DeadArgs {
    type Outcome = Report;

    fn measure(&self) -> Result<Report, Error> {
        let options = "--sizes 16MiB,64MiB,256MiB,1GiB --baseline lru --stretch 10% \
                       --resize-overwrites 0.5";
        let title = "Dead memory when live items leave";
        let mut report = self.traces.replay(options, title)?;
        report.roomy = self.traces.replay(MUCH_MEMORY, title)?.runs;
        Ok(report)
    }
}

impl TraceArgs {
    fn replay(&self, options: &str, title: &str) -> Result<Report, Error> {
        let words = ["replay", "--title", title]
            .into_iter()
            .chain(options.split_whitespace());
        let few = self.requests.iter().flat_map(|it| ["--requests", it]);
        let words = words.chain(few).map(OsString::from);
        let words = words.chain(self.traces.iter().map(OsString::from));
        let matches = ReplayArgs::augment_args(Command::new("replay")).get_matches_from(words);
        let replay = ReplayArgs::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        replay.measure()
    }
}

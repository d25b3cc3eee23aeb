//! `cellar-bench threads`: do inserts fall as threads are added?
//!
//! The measurement of S2, "memcached hash optimisation", in three steps. Servers with one thread
//! and with two under a YCSB-like load ([`ycsb`]). In process, how long a shard's lock is held by
//! an operation and how often it is found taken ([`probe`]). And because few machines have as many
//! processors as one would like to ask about, a simulation of up to 64 of them that rests on these
//! measurements ([`simulation`]).

mod ycsb;
mod probe;
mod simulation;

use clap::Args;
use serde::Serialize;

use self::probe::LockUse;
use self::simulation::Scaling;
use self::ycsb::YcsbResult;
use crate::measurement::Measurement;
use crate::peers::PeerArgs;
use cellar_load::error::Error;
use cellar_load::quantity::parse_count;

const ZIPF_EXPONENT: f64 = 0.99;
const QUICK_ROUNDS: usize = 1;
const QUICK_RECORDS: u64 = 100_000;
const QUICK_OPERATIONS: usize = 200_000;

/// Options of `cellar-bench threads`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ThreadsArgs {
    #[command(flatten)]
    peers: PeerArgs,
    /// Memory of each server in MiB
    #[arg(long, default_value_t = 1024)]
    memory_mib: u64,
    /// Records to insert
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    records: u64,
    /// Reads after the inserts
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    reads: u64,
    /// Client connections
    #[arg(long, default_value_t = 48)]
    connections: usize,
    /// Requests in flight per connection
    #[arg(long, default_value_t = 1)]
    depth: usize,
    /// Threads of the load generator
    #[arg(long, default_value_t = 1)]
    load_threads: usize,
    /// Numbers of server threads, and of threads in process
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Length of the keys
    #[arg(long, default_value_t = 20)]
    key_bytes: usize,
    /// Length of the values
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Operations of each thread in process
    #[arg(long, default_value_t = 2_000_000)]
    operations: usize,
    /// Numbers of shards in process
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    shards: Vec<usize>,
    /// Numbers of processors in the simulation
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32,64")]
    cores: Vec<usize>,
    /// Operations of each processor in the simulation
    #[arg(long, default_value_t = 20_000)]
    simulated: usize,
    /// One round of few records: shows that it works, not how fast
    #[arg(long)]
    quick: bool,
}

/// Everything that was found; the form of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct ThreadsOutcome {
    rounds: usize,
    records: u64,
    reads: u64,
    connections: usize,
    depth: usize,
    load_threads: usize,
    key_bytes: usize,
    value_bytes: usize,
    rows: Vec<YcsbResult>,
    operations_per_thread: usize,
    held: Vec<LockUse>,
    simulated_operations_per_core: usize,
    scenes: Vec<Scaling>,
}

impl Measurement for ThreadsArgs {
    type Outcome = ThreadsOutcome;

    fn measure(&self) -> Result<ThreadsOutcome, Error> {
        let args = self.settled()?;
        let held = probe::measure(&args)?;
        let rows = ycsb::measure(&args)?;
        let scenes = simulation::scenes(&args, &rows, &held);
        Ok(ThreadsOutcome {
            rounds: args.rounds,
            records: args.records,
            reads: args.reads,
            connections: args.connections,
            depth: args.depth,
            load_threads: args.load_threads,
            key_bytes: args.key_bytes,
            value_bytes: args.value_bytes,
            rows,
            operations_per_thread: args.operations,
            held,
            simulated_operations_per_core: args.simulated,
            scenes,
        })
    }
}

impl ThreadsArgs {
    /// The options with `--quick` applied and checked.
    fn settled(&self) -> Result<ThreadsArgs, Error> {
        let mut args = self.clone();
        if args.quick {
            args.rounds = QUICK_ROUNDS;
            args.records = args.records.min(QUICK_RECORDS);
            args.reads = args.reads.min(QUICK_RECORDS);
            args.operations = args.operations.min(QUICK_OPERATIONS);
        }
        args.rounds = args.rounds.max(1);
        let counts = [&args.threads, &args.shards, &args.cores];
        if counts
            .iter()
            .any(|list| list.is_empty() || list.contains(&0))
        {
            let what = "--threads, --shards and --cores are at least 1";
            return Err(Error::Usage(what.to_owned()));
        }
        if args.records == 0 || args.records > u64::from(u32::MAX) {
            return Err(Error::Usage("--records is 1 to 2^32 - 1".to_owned()));
        }
        if args.operations == 0 || args.simulated == 0 {
            let what = "--operations and --simulated are at least 1";
            return Err(Error::Usage(what.to_owned()));
        }
        Ok(args)
    }
}

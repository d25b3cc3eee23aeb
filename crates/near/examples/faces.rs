//! What a call of the blocking face costs beside the async one, over a server that runs.
//!
//! `cargo run --release --package cellar-near --example faces -- redis://127.0.0.1:6379` prints for
//! each call the median time over rounds in which the faces take turns, and the blocking one's part
//! of the async one's. The async calls run one after the other in a task of a runtime with two
//! threads, the blocking ones on a thread.

use std::future::Future;
use std::time::Duration;

use cellar_near::clock::{Clock, SystemClock};
use cellar_near::codec::Plain;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{BlockingNear, Error, Near};

const KEYS: u64 = 10_000;
const ROUNDS: usize = 11;
const HITS: u64 = 1_000_000;
const QUESTIONS: u64 = 3_000;

type Cache = Near<u64, String>;

/// One of the calls that are timed.
#[derive(Clone, Copy, Debug)]
enum Call {
    Hit,
    Miss,
    Set,
    Load,
}

impl Call {
    fn times(self) -> u64 {
        match self {
            Call::Hit => HITS,
            _ => QUESTIONS,
        }
    }
}

fn open(address: &str) -> Result<Cache, Error> {
    let origin = Remote::new(Redis::open(address)?, Plain).prefix("faces:");
    Ok(Near::builder(origin).entries_max(2 * KEYS).build())
}

async fn call_async(near: Cache, call: Call) -> Result<Duration, Error> {
    let value = "v".repeat(100);
    let clock = SystemClock::new();
    for number in 0..call.times() {
        let key = number.wrapping_mul(7919) % KEYS;
        match call {
            Call::Hit => drop(near.get(&key).await?),
            Call::Miss => {
                near.forget(&key);
                near.get(&key).await?;
            }
            Call::Set => near.set(&key, &value).await?,
            Call::Load => {
                let value = value.clone();
                let absent = KEYS + number;
                let load = move || async move { Ok::<_, Error>(Some(value)) };
                near.get_or_load(&absent, load).await?;
            }
        }
    }
    Ok(clock.now())
}

fn call_blocking(near: &BlockingNear<u64, String>, call: Call) -> Result<Duration, Error> {
    let value = "v".repeat(100);
    let clock = SystemClock::new();
    for number in 0..call.times() {
        let key = number.wrapping_mul(7919) % KEYS;
        match call {
            Call::Hit => drop(near.get(&key)?),
            Call::Miss => {
                near.forget(&key);
                near.get(&key)?;
            }
            Call::Set => near.set(&key, &value)?,
            Call::Load => {
                let load = || Ok::<_, Error>(Some(value.clone()));
                near.get_or_load(&(KEYS + number), load)?;
            }
        }
    }
    Ok(clock.now())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Runs `work` as a task, as a service does.
fn as_task<T: Send + 'static>(
    runtime: &tokio::runtime::Runtime,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let ended = runtime.block_on(runtime.spawn(work));
    ended.map_err(Error::loader)?
}

fn main() -> Result<(), Error> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or("redis://127.0.0.1:6379".into());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Error::connection)?;
    let (near, blocking) = (open(&address)?, BlockingNear::new(open(&address)?)?);
    for key in 0..KEYS {
        blocking.set(&key, &"v".repeat(100))?;
    }
    println!(
        "{:>8} {:>12} {:>12} {:>8}",
        "call", "async", "blocking", "part"
    );
    for call in [Call::Hit, Call::Miss, Call::Set, Call::Load] {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for key in 0..QUESTIONS {
                blocking.remove(&(KEYS + key))?;
            }
            theirs.push(as_task(&runtime, call_async(near.clone(), call))?);
            for key in 0..QUESTIONS {
                blocking.remove(&(KEYS + key))?;
            }
            ours.push(call_blocking(&blocking, call)?);
        }
        let each = |times| median(times).as_secs_f64() / call.times() as f64 * 1e9;
        let (theirs, ours) = (each(theirs), each(ours));
        let name = format!("{call:?}");
        println!(
            "{name:>8} {theirs:>9.0} ns {ours:>9.0} ns {:>8.2}",
            ours / theirs
        );
    }
    Ok(())
}

//! What a call of the blocking face costs beside the async one, over a server that runs.
//!
//! `cargo run --release --package cellar-near --example faces -- redis://127.0.0.1:6379` prints for
//! each call the median time over rounds in which the faces take turns, the median of the processor
//! time that this process spent on it in all its threads, and the blocking one's parts of the async
//! one's. The async calls run one after the other in a task of a runtime with two threads, the
//! blocking ones on a thread.

use std::future::Future;
use std::time::Duration;

use cellar_near::clock::{Clock, SystemClock};
use cellar_near::codec::Plain;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{BlockingNear, Error, Near};
use rustix::time::{ClockId, clock_gettime};

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

/// What calls took: time, and processor time of all threads.
#[derive(Clone, Copy, Debug)]
struct Took {
    time: Duration,
    processor: Duration,
}

/// When calls began.
struct Begun {
    clock: SystemClock,
    processor: Duration,
}

impl Begun {
    fn now() -> Begun {
        Begun {
            clock: SystemClock::new(),
            processor: processor_time(),
        }
    }

    fn ends(&self) -> Took {
        Took {
            time: self.clock.now(),
            processor: processor_time().saturating_sub(self.processor),
        }
    }
}

/// The processor time that this process has spent.
fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let nanoseconds = u32::try_from(spent.tv_nsec).unwrap_or(0);
    Duration::new(spent.tv_sec.unsigned_abs(), nanoseconds)
}

fn open(address: &str) -> Result<Cache, Error> {
    let origin = Remote::new(Redis::open(address)?, Plain).prefix("faces:");
    Ok(Near::builder(origin).entries_max(2 * KEYS).build())
}

async fn call_async(near: Cache, call: Call) -> Result<Took, Error> {
    let value = "v".repeat(100);
    let begun = Begun::now();
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
    Ok(begun.ends())
}

fn call_blocking(near: &BlockingNear<u64, String>, call: Call) -> Result<Took, Error> {
    let value = "v".repeat(100);
    let begun = Begun::now();
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
    Ok(begun.ends())
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
        "{:>8} {:>12} {:>12} {:>6} {:>13} {:>13} {:>6}",
        "call", "async", "blocking", "part", "its processor", "its processor", "part"
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
        let each = |took: &[Took], of: fn(&Took) -> Duration| {
            median(took.iter().map(of).collect()).as_secs_f64() / call.times() as f64 * 1e9
        };
        let [time, processor] = [|took: &Took| took.time, |took: &Took| took.processor]
            .map(|of| (each(&theirs, of), each(&ours, of)));
        println!(
            "{:>8} {:>9.0} ns {:>9.0} ns {:>6.2} {:>10.0} ns {:>10.0} ns {:>6.2}",
            format!("{call:?}"),
            time.0,
            time.1,
            time.1 / time.0,
            processor.0,
            processor.1,
            processor.1 / processor.0
        );
    }
    Ok(())
}

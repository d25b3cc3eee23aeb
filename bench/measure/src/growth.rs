//! `cellar-bench growth`: what a cache that grows costs the operations that make it grow.
//!
//! In process, on one thread. One cache grows from empty to all items; another, just as large, has
//! been grown before and stays so: each insert there follows a delete of the oldest item. Windows
//! of the two alternate, so that a disturbance of the machine falls on both; between two windows
//! background maintenance comes to rest, so that no cache pays for the other. Every insert and read
//! is timed by itself, and so is nothing at all: two readings of the clock in a row show what the
//! clock costs and what the machine does to a thread that asks for nothing.
//!
//! A second thread does the caches' background maintenance as the server's does, on the other
//! processor.

mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cellar_engine::{
    Cache, Clock, Config, DeleteOptions, Instant, Maintenance, ManualClock, SetOptions,
};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::measurement::Measurement;
use crate::race::{beside, bind};
use crate::refused;
use cellar_load::{Error, LatencySummary, Random, Records, now_ns, parse_count, sleep_until};
use watch::{Observer, Watch};

/// Processors of the operations and of the background maintenance.
const CPU: usize = 1;
const MAINTENANCE_CPU: usize = 0;
/// Threads the caches are made for, which decides the number of shards.
const THREADS: usize = 2;
/// What an item takes beside key and value, and the headroom, in percent and fixed.
const OVERHEAD_BYTES: u64 = 18;
const HEADROOM_PERCENT: u64 = 10;
const HEADROOM_BYTES: u64 = 64 << 20;
/// Items live this long: none expires during the measurement.
const TTL_MS: u64 = 86_400_000;
/// The caches' time and the kernel's figures are read once in so many rounds.
const ROUNDS_PER_READING: u64 = 256;
/// How often it is asked whether background maintenance has come to rest, and how long at most: a
/// machine that has much else to do may take its time, but not for ever.
const SETTLING_POLL: Duration = Duration::from_millis(100);
const SETTLING_POLLS_MAX: u32 = 1200;

/// Options of `cellar-bench growth`.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct GrowthArgs {
    /// Items the cache grows to
    #[arg(long, default_value = "20M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "1M"))]
    items: u64,
    /// Inserts in one window
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    #[arg(default_value_if("quick", "true", "200k"))]
    window: u64,
    /// Length of the keys
    #[arg(long, default_value_t = 16)]
    key_bytes: usize,
    /// Length of the values
    #[arg(long, default_value_t = 32)]
    value_bytes: usize,
    /// Memory of each of the two caches in MiB [default: what all items need, and a tenth more]
    #[arg(long)]
    memory_mib: Option<u64>,
}

/// What is timed of one cache.
#[derive(Clone, Debug, Default, Serialize)]
struct Operations<T> {
    insert: T,
    read: T,
    /// Two readings of the clock with nothing between them.
    idle: T,
}

type Watches = Operations<Watch>;

/// A cache and how far it is.
struct WatchedCache {
    cache: Arc<Cache>,
    /// Whether background maintenance found nothing left to do.
    // Relaxed: nothing but the flag is passed on.
    is_settled: Arc<AtomicBool>,
    /// The next item to insert.
    next: u64,
    /// The oldest item.
    oldest: u64,
    /// Whether the oldest item leaves before each insert.
    is_full: bool,
    watches: Watches,
}

/// What both caches share.
struct Bench {
    records: Records,
    clock: Arc<ManualClock>,
    started_ns: u64,
    random: Random,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Measurement for GrowthArgs {
    fn measure(&self) -> Result<Value, Error> {
        let mut args = self.clone();
        args.window = args.window.clamp(1, args.items.max(1));
        args.memory_mib = Some(args.memory_mib());
        run(&args)
    }
}

fn run(args: &GrowthArgs) -> Result<Value, Error> {
    let mut bench = Bench::new(args)?;
    let mut growing = bench.subject(args)?;
    let mut steady = bench.subject(args)?;
    bind(CPU);
    let kept = [&growing, &steady].map(|it| (it.cache.clone(), it.is_settled.clone()));
    let (clock, started_ns) = (bench.clock.clone(), bench.started_ns);
    let keep_up = |is_over: &AtomicBool| {
        bind(MAINTENANCE_CPU);
        keep_up(&kept, &clock, started_ns, is_over);
    };
    let measure = || bench.measure(args, &mut growing, &mut steady);
    let ((), windows) = beside(keep_up, measure);
    Ok(json!({
        "window": args.window,
        "memory_mib": args.memory_mib,
        "shards": growing.cache.stats().shards,
        // Operations over all windows.
        "growing": growing.watches.summary(),
        "steady": steady.watches.summary(),
        "windows": windows?,
        "worst_growing_without_waiting_us": growing.watches.insert.worst_without_waiting_us(),
        "worst_steady_without_waiting_us": steady.watches.insert.worst_without_waiting_us(),
        "worst_idle_without_waiting_us": growing.watches.idle.worst_without_waiting_us(),
    }))
}

/// Does the background maintenance of all caches until it is over, each at the pace the engine asks
/// for.
fn keep_up(
    caches: &[(Arc<Cache>, Arc<AtomicBool>)],
    clock: &ManualClock,
    started_ns: u64,
    over: &AtomicBool,
) {
    let mut due: Vec<(Maintenance, u64)> = caches.iter().map(|_| Default::default()).collect();
    // Relaxed: nothing but the flag is passed on.
    while !over.load(Ordering::Relaxed) {
        for ((cache, is_settled), (maintenance, due_ns)) in caches.iter().zip(&mut due) {
            if now_ns() < *due_ns {
                continue;
            }
            clock.set(instant(started_ns));
            let pause = maintenance.step(cache);
            *due_ns = now_ns() + u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
            // Relaxed: nothing but the flag is passed on.
            is_settled.store(maintenance.is_settled(), Ordering::Relaxed);
        }
        let next_ns = due.iter().map(|(_, due_ns)| *due_ns).min().unwrap_or(0);
        sleep_until(next_ns);
    }
}

fn instant(started_ns: u64) -> Instant {
    Instant((now_ns() - started_ns) / 1_000_000)
}

impl GrowthArgs {
    fn memory_mib(&self) -> u64 {
        let item_bytes = (self.key_bytes + self.value_bytes) as u64 + OVERHEAD_BYTES;
        let bytes = self.items * item_bytes * (100 + HEADROOM_PERCENT) / 100 + HEADROOM_BYTES;
        self.memory_mib.unwrap_or(bytes.div_ceil(1 << 20))
    }
}

impl Watches {
    fn summary(&self) -> Operations<LatencySummary> {
        Operations {
            insert: self.insert.latencies.summary(),
            read: self.read.latencies.summary(),
            idle: self.idle.latencies.summary(),
        }
    }

    /// Adds a later window's.
    fn merge(&mut self, window: &Watches) {
        self.insert.merge(&window.insert);
        self.read.merge(&window.read);
        self.idle.merge(&window.idle);
    }
}

impl WatchedCache {
    /// Waits until background maintenance has come to rest.
    fn settle(&self) -> Result<(), Error> {
        for _ in 0..SETTLING_POLLS_MAX {
            std::thread::sleep(SETTLING_POLL);
            if self.is_settled.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        Err(Error::Wrong("maintenance does not come to rest".to_owned()))
    }
}

impl Bench {
    fn new(args: &GrowthArgs) -> Result<Bench, Error> {
        // The steady cache gets as many new items again.
        let items = args.items.saturating_mul(2);
        Ok(Bench {
            records: Records::new(items, args.key_bytes, args.value_bytes)?,
            clock: Arc::new(ManualClock::default()),
            started_ns: now_ns(),
            random: Random::seeded(1),
            key: Vec::with_capacity(args.key_bytes),
            value: Vec::with_capacity(args.value_bytes),
        })
    }

    fn subject(&self, args: &GrowthArgs) -> Result<WatchedCache, Error> {
        let memory_bytes = usize::try_from(args.memory_mib() << 20).unwrap_or(usize::MAX);
        let config = Config {
            threads: THREADS,
            clock: self.clock.clone(),
            ..Config::with_memory(memory_bytes)
        };
        let cache = Cache::new(config).map_err(refused)?;
        Ok(WatchedCache {
            cache: Arc::new(cache),
            is_settled: Arc::new(AtomicBool::new(false)),
            next: 0,
            oldest: 0,
            is_full: false,
            watches: Watches::default(),
        })
    }

    /// Grows the one cache, window by window, and between the windows renews the other.
    fn measure(
        &mut self,
        args: &GrowthArgs,
        growing: &mut WatchedCache,
        steady: &mut WatchedCache,
    ) -> Result<Vec<Value>, Error> {
        eprintln!(
            "growing the cache that stays as it is to {} items",
            args.items
        );
        self.window(steady, args.items)?;
        steady.settle()?;
        steady.is_full = true;
        steady.watches = Watches::default();
        let mut windows = Vec::new();
        while growing.next < args.items {
            let inserts = args.window.min(args.items - growing.next);
            let grown = self.window(growing, inserts)?;
            // What is left to do after growth is not to be felt in the other window.
            growing.settle()?;
            let (renewed, items) = (self.window(steady, inserts)?, growing.next);
            steady.settle()?;
            let us = [&grown, &renewed].map(|it| it.insert.latency_us_p99_9);
            eprintln!("{items:>10} items: p99.9 {us:7.2?} us growing, steady");
            windows.push(json!({"items": items, "growing": grown, "steady": renewed}));
        }
        for (subject, name) in [(growing, "growing"), (steady, "steady")] {
            let stats = subject.cache.stats();
            if stats.items != args.items {
                return Err(Error::Wrong(format!(
                    "the {name} cache holds {} of {} items; give it more with --memory-mib",
                    stats.items, args.items
                )));
            }
        }
        Ok(windows)
    }

    /// Inserts so many items into one cache and times each.
    fn window(
        &mut self,
        subject: &mut WatchedCache,
        inserts: u64,
    ) -> Result<Operations<LatencySummary>, Error> {
        let mut watches = Watches::default();
        let mut observer = Observer::start();
        for round in 0..inserts {
            if round % ROUNDS_PER_READING == 0 {
                self.clock.set(instant(self.started_ns));
                observer.waited_since();
            }
            if subject.is_full {
                self.set_key(subject.oldest);
                let key = subject.cache.key(&self.key);
                let deleted =
                    key.and_then(|it| subject.cache.delete(it, &DeleteOptions::default()));
                deleted.map_err(refused)?;
                subject.oldest += 1;
            }
            let start_ns = now_ns();
            watches.idle.record(now_ns() - start_ns, &mut observer);
            watches.insert.record(self.insert(subject)?, &mut observer);
            watches.read.record(self.read(subject)?, &mut observer);
        }
        subject.watches.merge(&watches);
        Ok(watches.summary())
    }

    fn set_key(&mut self, number: u64) {
        self.key.clear();
        self.records.push_key(&mut self.key, number);
    }

    /// Inserts the next item; how long it took.
    fn insert(&mut self, subject: &mut WatchedCache) -> Result<u64, Error> {
        self.set_key(subject.next);
        self.value.clear();
        self.records.push_value(&mut self.value, subject.next, 0);
        let options = SetOptions {
            deadline: self.clock.now().plus_ms(TTL_MS),
            ..SetOptions::default()
        };
        let start_ns = now_ns();
        let key = subject.cache.key(&self.key);
        let stored = key.and_then(|key| subject.cache.set(key, &self.value, &options));
        let ns = now_ns() - start_ns;
        stored.map_err(refused)?;
        subject.next += 1;
        Ok(ns)
    }

    /// Reads an item that is there, drawn at random; how long it took.
    fn read(&mut self, subject: &WatchedCache) -> Result<u64, Error> {
        let items = subject.next - subject.oldest;
        let number = subject.oldest + self.random.below(items);
        self.set_key(number);
        let value = &mut self.value;
        let start_ns = now_ns();
        let key = subject.cache.key(&self.key);
        let found = key.map(|key| {
            subject.cache.get(key, |item| {
                value.clear();
                value.extend_from_slice(item.value);
            })
        });
        let ns = now_ns() - start_ns;
        match found.map_err(refused)? {
            Some(()) => Ok(ns),
            None => Err(Error::Wrong(format!(
                "item {number} is lost; give the caches more with --memory-mib"
            ))),
        }
    }
}

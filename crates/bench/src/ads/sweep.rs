//! Sweep: requests that are due at fixed times, served by threads, while ads change.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::Duration;

use serde::Serialize;

use super::AdsArgs;
use super::ad::{Ad, LastWrites, connect, failed};
use super::stage::{Reader, Stage};
use cellar_load::clock::{NS_PER_S, now_ns, process_cpu_ns};
use cellar_load::error::Error;
use cellar_load::latency::{Latencies, LatencySummary};
use cellar_load::popularity::{Picker, Popularity};
use cellar_load::random::Random;

/// How popular ads are.
const POPULARITY: Popularity = Popularity::Zipf(1.0);
/// A run ends when a request begins so long after it was due: more come than can be served.
const LAG_NS_MAX: u64 = 2 * NS_PER_S;
/// For so long after a write was acknowledged an older version is no lie: its news is on the way.
const GRACE_NS: u64 = 100_000_000;
/// Requests of the warm-up, and ads of each.
const WARM_UP_ROUNDS: u64 = 40;

/// What all runs have in common.
pub(super) struct Load<'a> {
    pub(super) args: &'a AdsArgs,
    pub(super) writes: LastWrites,
    pub(super) url: String,
}

/// One stage at one rate.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    pub(super) qps: u64,
    pub(super) requests: u64,
    pub(super) latency: LatencySummary,
    /// More requests came than could be served, so the run was ended.
    pub(super) is_overloaded: bool,
    /// Share of the ads that were in the process.
    pub(super) hit_ratio: f64,
    /// Ads that were older than the last write by more than the time its news may take.
    pub(super) stale_ads: u64,
    pub(super) ads: u64,
    /// CPU time of this process for one request, in microseconds.
    pub(super) cpu_us: f64,
}

/// What the threads of one run share.
struct Shared<'l> {
    load: &'l Load<'l>,
    picker: Picker,
    begin_ns: u64,
    interval_ns: f64,
    requests: u64,
    // Relaxed, like the flags: numbers are given out once each, whatever the order.
    next: AtomicU64,
    // Relaxed: nothing but the flag is passed on.
    is_over: AtomicBool,
    // Relaxed: nothing but the flag is passed on.
    is_overloaded: AtomicBool,
}

/// What one thread has found.
#[derive(Default)]
struct ThreadTally {
    latencies: Latencies,
    stale: u64,
    /// So that nobody leaves the scores out.
    score: f64,
}

impl Load<'_> {
    /// Reads until the cache holds what it may hold.
    pub(super) fn warm_up(&self, stage: &dyn Stage) -> Result<(), Error> {
        let mut reader = stage.reader()?;
        let picker = Picker::new(POPULARITY, self.args.ads);
        let mut random = Random::seeded(1);
        let ids: Vec<u64> = (0..self.args.ads).collect();
        for ids in ids.chunks(self.args.ads_per_request) {
            reader.read(ids, &mut |_| ())?;
        }
        for _ in 0..WARM_UP_ROUNDS * self.args.ads / self.args.ads_per_request as u64 / 10 {
            let ids: Vec<u64> = (0..self.args.ads_per_request)
                .map(|_| picker.pick(&mut random))
                .collect();
            reader.read(&ids, &mut |_| ())?;
        }
        Ok(())
    }

    /// One run at one rate.
    pub(super) fn run(&self, stage: &dyn Stage, qps: u64) -> Result<Point, Error> {
        let requests = (self.args.seconds * qps as f64).round() as u64;
        let before = (stage.hits_and_misses(), process_cpu_ns());
        let shared = Shared {
            load: self,
            picker: Picker::new(POPULARITY, self.args.ads),
            begin_ns: now_ns() + NS_PER_S / 10,
            interval_ns: NS_PER_S as f64 / qps as f64,
            requests,
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            is_overloaded: AtomicBool::new(false),
        };
        let tally = std::thread::scope(|scope| shared.run(scope, stage))?;
        let after = (stage.hits_and_misses(), process_cpu_ns());
        let served = shared.next.load(Ordering::Relaxed).min(requests).max(1);
        let (hits, misses) = (after.0.0 - before.0.0, after.0.1 - before.0.1);
        Ok(Point {
            qps,
            requests: served,
            latency: tally.latencies.summary(),
            is_overloaded: shared.is_overloaded.load(Ordering::Relaxed),
            hit_ratio: hits as f64 / (hits + misses).max(1) as f64,
            stale_ads: tally.stale,
            ads: hits + misses,
            cpu_us: (after.1 - before.1) as f64 / 1e3 / served as f64,
        })
    }

    /// Changes ads one after the other at the rate that was asked for.
    fn change(&self, shared: &Shared<'_>) -> Result<(), Error> {
        let mut connection = connect(&self.url)?;
        let mut random = Random::seeded(shared.begin_ns);
        let pause = Duration::from_secs_f64(1.0 / self.args.changes as f64);
        while !shared.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(pause);
            let id = shared.picker.pick(&mut random);
            let version = self.writes.version(id) + 1;
            let value = Ad::new(id, version).encode();
            let mut set = redis::cmd("SET");
            set.arg(id).arg(value);
            set.query::<()>(&mut connection).map_err(failed)?;
            self.writes.note(id, version);
        }
        Ok(())
    }
}

impl Shared<'_> {
    /// Starts the threads, waits for them, and adds up what they found.
    fn run<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        stage: &'s dyn Stage,
    ) -> Result<ThreadTally, Error> {
        let changes = (self.load.args.changes > 0).then(|| scope.spawn(|| self.load.change(self)));
        let threads: Vec<_> = (0..self.load.args.threads as u64)
            .map(|seed| scope.spawn(move || self.serve(seed, &mut *stage.reader()?)))
            .collect();
        let mut sum = ThreadTally::default();
        let mut failure = None;
        for thread in threads {
            match thread
                .join()
                .expect("a thread of the load panics only by a bug")
            {
                Ok(tally) => {
                    sum.latencies.merge(&tally.latencies);
                    sum.stale += tally.stale;
                    sum.score += tally.score;
                }
                Err(error) => failure = Some(error),
            }
        }
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(changes) = changes {
            changes.join().expect("the changes panic only by a bug")?;
        }
        failure.map_or(Ok(sum), Err)
    }

    /// Serves requests, each when it is due, until there are no more.
    fn serve(&self, seed: u64, reader: &mut dyn Reader) -> Result<ThreadTally, Error> {
        let mut random = Random::seeded(self.begin_ns ^ seed);
        let mut tally = ThreadTally::default();
        let mut ids = vec![0; self.load.args.ads_per_request];
        let writes = &self.load.writes;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.requests || self.is_overloaded.load(Ordering::Relaxed) {
                return Ok(tally);
            }
            let due_ns = self.begin_ns + (number as f64 * self.interval_ns) as u64;
            wait_until(due_ns);
            if now_ns() - due_ns > LAG_NS_MAX {
                self.is_overloaded.store(true, Ordering::Relaxed);
            }
            ids.fill_with(|| self.picker.pick(&mut random));
            let (stale, score) = (&mut tally.stale, &mut tally.score);
            reader.read(&ids, &mut |ad| {
                *stale += u64::from(writes.is_stale(ad, GRACE_NS));
                *score += ad.score();
            })?;
            tally.latencies.record(now_ns() - due_ns);
        }
    }
}

fn wait_until(due_ns: u64) {
    let left_ns = due_ns.saturating_sub(now_ns());
    if left_ns > 0 {
        std::thread::sleep(Duration::from_nanos(left_ns));
    }
}

//! Sweep: requests that come at random moments, served by threads, while ads change.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::AdsArgs;
use super::ad::{Ad, Writes, connect, failed};
use super::stage::Stage;
use crate::race::{all_at_once, beside};
use cellar_load::{
    Error, Latencies, NS_PER_S, Picker, Popularity, Random, mix, now_ns, process_cpu_ns,
    sleep_until,
};

/// How popular ads are.
const POPULARITY: Popularity = Popularity::Zipf(1.0);
/// A run ends when a request begins so long after it was due: more come than can be served.
const LAG_NS_MAX: u64 = 2 * NS_PER_S;
/// A stale read is late when the newer version had been acknowledged for so long.
const LATE_NS: u64 = 100_000_000;
/// So many times as many ads as there are, the warm-up reads.
const WARM_UP_ROUNDS: u64 = 4;

/// What all runs of a stage in one round have in common.
pub(super) struct Load<'a> {
    pub(super) args: &'a AdsArgs,
    pub(super) writes: Writes,
    pub(super) url: String,
    pub(super) seed: u64,
}

/// Reads that were older than the last write when they were asked for.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Stale {
    ads: u64,
    /// Those behind a write that had been acknowledged for [`LATE_NS`].
    late_ads: u64,
    ms_max: f64,
}

impl Stale {
    fn merge(&mut self, other: Stale) {
        self.ads += other.ads;
        self.late_ads += other.late_ads;
        self.ms_max = self.ms_max.max(other.ms_max);
    }
}

/// What the threads of one run share.
struct Shared<'l> {
    load: &'l Load<'l>,
    picker: Picker,
    /// When each request is due.
    due_ns: Vec<u64>,
    seed: u64,
    // Relaxed, like the flag: numbers are given out once each, whatever the order.
    next: AtomicU64,
    // Relaxed: nothing but the flag is passed on.
    is_overloaded: AtomicBool,
}

/// What one thread has found.
#[derive(Default)]
struct ThreadTally {
    latencies: Latencies,
    stale: Stale,
    /// So that nobody leaves the scores out.
    score: f64,
}

impl Load<'_> {
    /// Reads until the cache holds what it may hold.
    pub(super) fn warm_up(&self, stage: &dyn Stage) -> Result<(), Error> {
        let mut connection = connect(&self.url)?;
        let picker = Picker::new(POPULARITY, self.args.ads);
        let mut random = Random::seeded(1);
        let ids: Vec<u64> = (0..self.args.ads).collect();
        for ids in ids.chunks(self.args.ads_per_request) {
            stage.read(&mut connection, ids, &mut |_| ())?;
        }
        for _ in 0..WARM_UP_ROUNDS * self.args.ads / self.args.ads_per_request as u64 {
            let ids: Vec<u64> = (0..self.args.ads_per_request)
                .map(|_| picker.pick(&mut random))
                .collect();
            stage.read(&mut connection, &ids, &mut |_| ())?;
        }
        Ok(())
    }

    /// One run of a stage at one rate.
    pub(super) fn run(&self, stage: &dyn Stage, qps: u64, seconds: f64) -> Result<Value, Error> {
        let seed = mix(qps ^ self.seed);
        let before = (stage.hits_and_misses(), process_cpu_ns());
        let shared = Shared {
            load: self,
            picker: Picker::new(POPULARITY, self.args.ads),
            due_ns: moments(qps, seconds, seed),
            seed,
            next: AtomicU64::new(0),
            is_overloaded: AtomicBool::new(false),
        };
        let tally = shared.run(stage)?;
        let after = (stage.hits_and_misses(), process_cpu_ns());
        let next = shared.next.load(Ordering::Relaxed);
        let requests = next.min(shared.due_ns.len() as u64);
        let (hits, misses) = (after.0.0 - before.0.0, after.0.1 - before.0.1);
        Ok(json!({
            "qps": qps,
            "requests": requests,
            "latency": tally.latencies.summary(),
            // More requests came than could be served, so the run was ended.
            "is_overloaded": shared.is_overloaded.load(Ordering::Relaxed),
            // Ads that were in the process, of all.
            "hits": hits,
            "ads": hits + misses,
            "stale": tally.stale,
            // CPU time of this process for one request.
            "cpu_us": (after.1 - before.1) as f64 / 1e3 / requests.max(1) as f64,
        }))
    }

    /// Changes ads one after the other at the rate that was asked for.
    fn change(&self, shared: &Shared<'_>, is_over: &AtomicBool) -> Result<(), Error> {
        if self.args.changes == 0 {
            return Ok(());
        }
        let mut connection = connect(&self.url)?;
        let mut random = Random::seeded(shared.seed);
        let pause = Duration::from_secs_f64(1.0 / self.args.changes as f64);
        // Relaxed: nothing but the flag is passed on.
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(pause);
            let id = shared.picker.pick(&mut random);
            let version = self.writes.version(id) + 1;
            let value = Ad::new(id, version).encode();
            let mut set = redis::cmd("SET");
            set.arg(id).arg(value);
            set.query::<()>(&mut connection).map_err(failed)?;
            self.writes.note(id);
        }
        Ok(())
    }
}

impl Shared<'_> {
    /// Starts the threads, waits for them, and adds up what they found.
    fn run(&self, stage: &dyn Stage) -> Result<ThreadTally, Error> {
        let threads = 0..self.load.args.threads as u64;
        let (changed, tallies) = beside(
            |is_over| self.load.change(self, is_over),
            || all_at_once(threads, |seed| self.serve(seed, stage)),
        );
        changed?;
        let mut sum = ThreadTally::default();
        for tally in tallies {
            let tally = tally?;
            sum.latencies.merge(&tally.latencies);
            sum.stale.merge(tally.stale);
            sum.score += tally.score;
        }
        Ok(sum)
    }

    /// Serves requests, each when it is due, until there are no more.
    fn serve(&self, seed: u64, stage: &dyn Stage) -> Result<ThreadTally, Error> {
        let mut connection = connect(&self.load.url)?;
        let mut random = Random::seeded(self.seed ^ seed);
        let mut tally = ThreadTally::default();
        let mut ids = vec![0; self.load.args.ads_per_request];
        let writes = &self.load.writes;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(&due_ns) = self.due_ns.get(number) else {
                return Ok(tally);
            };
            if self.is_overloaded.load(Ordering::Relaxed) {
                return Ok(tally);
            }
            sleep_until(due_ns);
            let asked_ns = now_ns();
            if asked_ns - due_ns > LAG_NS_MAX {
                self.is_overloaded.store(true, Ordering::Relaxed);
            }
            ids.fill_with(|| self.picker.pick(&mut random));
            let city = random.below(3000) as u32;
            let (stale, score) = (&mut tally.stale, &mut tally.score);
            stage.read(&mut connection, &ids, &mut |ad| {
                if let Some(ns) = writes.stale_ns(ad, asked_ns) {
                    stale.merge(Stale {
                        ads: 1,
                        late_ads: u64::from(ns > LATE_NS),
                        ms_max: ns as f64 / 1e6,
                    });
                }
                *score += ad.score(city);
            })?;
            tally.latencies.record(now_ns() - due_ns);
        }
    }
}

/// Random moments from now on, with so many a second: what comes from many who know nothing of
/// each other comes so, and queues even where there is time for all.
fn moments(qps: u64, seconds: f64, seed: u64) -> Vec<u64> {
    let mut random = Random::seeded(seed);
    let mut due_ns = (now_ns() + NS_PER_S / 10) as f64;
    let moment = |_| {
        due_ns -= (1.0 - random.unit()).ln() * NS_PER_S as f64 / qps as f64;
        due_ns as u64
    };
    let requests = (seconds * qps as f64).round() as u64;
    (0..requests).map(moment).collect()
}

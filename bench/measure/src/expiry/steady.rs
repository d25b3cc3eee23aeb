//! Steady: items of mixed times to live are stored at a fixed rate, day in, day out.
//!
//! While it is looked at, gets for a few items that last run beside the stores, and the server is
//! asked about itself once a second. The same runs for a shorter time with nothing that expires:
//! what expiry costs is the difference.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::figures::Look;
use super::{DYING_KEY_BYTES, ExpiryArgs, ExpiryContender, LASTING_TTL_S, Scene};
use crate::race::beside;
use crate::spread::Spread;
use cellar_load::{
    Drive, Error, Keys, Latencies, Limit, NS_PER_S, Plan, Sample, TtlMix, load, now_ns, seconds,
};

/// Lasting items that are asked for, in each database or more.
const ASKED_FOR: u64 = 100_000;
/// A server without anything that expires is steady from the start.
const CONTROL_WARM_S: u64 = 5;
/// Rounds in which latencies are looked at.
const ROUNDS: u64 = 10;
const POLL: Duration = Duration::from_secs(1);

/// What a server held at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
struct SteadyPoint {
    at_s: f64,
    dead_percent: f64,
    rss_bytes: u64,
}

/// One server's steady state, in which some items expire, and in which none does.
pub(super) fn measure(args: &ExpiryArgs, contender: &ExpiryContender) -> Result<Value, Error> {
    let name = &contender.recipe.name;
    let lasting = TtlMix::between(LASTING_TTL_S, LASTING_TTL_S);
    let control = SteadyLoad {
        args,
        ttl: &lasting,
        warm_s: CONTROL_WARM_S.min(args.warm_s),
    };
    let (_, _, nothing_expires) = control.run(contender)?;
    let ttl = args.ttl.parse().map_err(Error::Usage)?;
    let load = SteadyLoad {
        ttl: &ttl,
        warm_s: args.warm_s,
        ..control
    };
    let (version, looks, expiring) = load.run(contender)?;
    let points = looks.iter().map(|look| load.point(contender, look));
    let points: Vec<SteadyPoint> = points.collect();
    let watched = points.iter().filter(|it| it.at_s >= args.warm_s as f64);
    let dead_percent = Spread::of(watched.map(|point| point.dead_percent).collect());
    eprintln!("steady state, {name:32} {dead_percent:.1} % dead");
    let (_, last) = looks.last().copied().unwrap_or_default();
    Ok(json!({
        "server": name,
        "version": version,
        "databases": contender.databases,
        "points": points,
        // The dead part of what is held, at each look.
        "dead_percent": dead_percent,
        // What is held in all, at the end, and the server's resident memory.
        "held_items": last.items,
        "rss_bytes": last.rss_bytes,
        "expiring": expiring,
        "nothing_expires": nothing_expires,
    }))
}

/// A load of stores and gets.
struct SteadyLoad<'a> {
    args: &'a ExpiryArgs,
    ttl: &'a TtlMix,
    warm_s: u64,
}

impl SteadyLoad<'_> {
    fn seconds(&self) -> u64 {
        self.warm_s + self.args.watched_s
    }

    /// Runs on a fresh server; its version, what was seen, and what it took.
    fn run(&self, contender: &ExpiryContender) -> Result<(String, Vec<Look>, Value), Error> {
        let mut scene = Scene::set(self.args, contender)?;
        let version = scene.server.version()?;
        let gets = scene.gets(ASKED_FOR, self.seconds())?;
        scene.fill(&gets)?;
        let stores = self.stores(&scene, &gets)?;
        let started_ns = now_ns();
        let watched_ns = started_ns + self.warm_s * NS_PER_S;
        let asked = usize::try_from(self.args.gets * self.seconds()).unwrap_or(0);
        let get = || load::run_sampled(&gets, asked);
        let informant = &mut scene.informant;
        let (looks, (stored, got)) = beside(
            |is_over| informant.watch(POLL, is_over),
            || beside(|_| load::run(&stores), get),
        );
        let ((report, samples), stored, looks) = (got?, stored?, looks?);
        let unsent = report.unsent_requests + stored.unsent_requests;
        let lost = report.get.misses + report.errors + stored.errors;
        if lost > 0 {
            return Err(scene.wrong(format!("{lost} requests failed")));
        }
        if unsent > 0 {
            let held_up = format!("{unsent} requests were never sent; is the machine busy?");
            return Err(scene.wrong(held_up));
        }
        scene.end()?;
        let cost = json!({
            "cpu_percent": cpu_percent(&looks, watched_ns),
            "latency_us_p99_9": self.latencies(&samples, watched_ns),
        });
        let looks = looks.into_iter();
        let looks = looks.map(|(at_ns, figures)| (at_ns - started_ns, figures));
        Ok((version, looks.collect(), cost))
    }

    /// Each item once, at the rate.
    fn stores(&self, scene: &Scene<'_>, gets: &Plan) -> Result<Plan, Error> {
        let items = self.args.stores * self.seconds();
        let drive = Drive {
            limit: Limit::Requests(items),
            rate_per_s: Some(self.args.stores as f64),
            ..gets.drive.clone()
        };
        Ok(Plan {
            drive,
            records: scene.records(items * scene.contender.databases as u64, DYING_KEY_BYTES)?,
            keys: Keys::Each,
            get_share: 0.0,
            ttl: self.ttl.clone(),
            ..gets.clone()
        })
    }

    /// p99.9 of the gets in each round of the time that is looked at.
    fn latencies(&self, samples: &[Sample], from_ns: u64) -> Spread {
        let mut rounds: Vec<Latencies> = (0..ROUNDS).map(|_| Latencies::new()).collect();
        let round_ns = (self.args.watched_s * NS_PER_S / ROUNDS).max(1);
        for sample in samples.iter().filter(|sample| sample.start_ns >= from_ns) {
            let round = (sample.start_ns - from_ns) / round_ns;
            if let Some(round) = rounds.get_mut(round as usize) {
                round.record(sample.ns);
            }
        }
        Spread::over(&rounds, |round| round.summary().latency_us_p99_9)
    }

    /// What is known of a moment: by the server itself if it counts its dead, else by what should
    /// be alive.
    fn point(&self, contender: &ExpiryContender, &(at_ns, figures): &Look) -> SteadyPoint {
        let at_s = seconds(at_ns);
        let lasting = ASKED_FOR / contender.databases as u64 * contender.databases as u64;
        let alive = self.args.stores as f64 * self.ttl.alive_s(at_s) + lasting as f64;
        let unsaid = || (1.0 - alive / figures.items.max(1) as f64).max(0.0);
        let dead_share = figures.dead_share().unwrap_or_else(unsaid);
        SteadyPoint {
            at_s,
            dead_percent: dead_share * 100.0,
            rss_bytes: figures.rss_bytes,
        }
    }
}

/// The part of a processor that a server took from a moment on, in per cent.
fn cpu_percent(looks: &[Look], from_ns: u64) -> f64 {
    let first = looks.iter().find(|(at_ns, _)| *at_ns >= from_ns);
    let (Some((from_ns, before)), Some((until_ns, after))) = (first, looks.last()) else {
        return 0.0;
    };
    let spent_ns = after.cpu_ns.saturating_sub(before.cpu_ns);
    spent_ns as f64 * 100.0 / until_ns.saturating_sub(*from_ns).max(1) as f64
}

//! Scene: one server from its start to its end, with the moment of the mass expiry in between.
//!
//! Deadlines are whole seconds of the wall clock, in the same words for every server. The load
//! starts so long before the first deadline as its first part lasts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::figures::{Figures, Informant};
use super::{ExpiryArgs, ExpiryContender, MemorySample, RATE_SHARE, RunLatencies, Slice, Watched};
use cellar_load::clock::{NS_PER_S, now_ns, seconds, unix_ns};
use cellar_load::drive::{Drive, Limit};
use cellar_load::error::Error;
use cellar_load::latency::{Latencies, LatencySummary};
use cellar_load::load::{self, Sample};
use cellar_load::plan::Plan;
use cellar_load::process::{Ingredients, Server};
use cellar_load::quantity::{ByteRange, TtlMix, share};
use cellar_load::record::Records;
use cellar_load::report::Report;

/// Keys of different lengths, so that the two kinds of items never meet.
const LIVE_KEY_BYTES: usize = 16;
const DYING_KEY_BYTES: usize = 17;
/// Requests that may wait on one connection before the load falls behind its schedule.
const DEPTH: usize = 64;
/// What the beginning of a load is not counted for, and the borders of the moment itself.
const MARGIN_NS: u64 = 200_000_000;
/// What it should take at most to store an item when two kinds are stored at once.
const MIXED_FILL_NS: u64 = 10_000;
/// Beyond the time the fill should take.
const FILL_MARGIN_NS: u64 = 2 * NS_PER_S;
const POLL: Duration = Duration::from_millis(100);
/// Length of a slice.
const SLICE_NS: u64 = NS_PER_S / 2;
/// Fewer gets than this make no p99.9.
const SLICE_GETS_MIN: usize = 1000;
const CALIBRATION_KEYS: u64 = 100_000;
const CALIBRATION_NS: u64 = NS_PER_S;
/// The dead count as reclaimed when no more than one in so many is left.
const LEFT_SHARE: u64 = 100;

/// One get, seen from the first deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timed {
    /// When it was due, in nanoseconds after the first deadline.
    pub(super) at_ns: i64,
    /// How long it took.
    pub(super) ns: u64,
}

/// A server that holds the items that stay, unless they come together with those that die.
struct Scene<'a> {
    args: &'a ExpiryArgs,
    contender: &'a ExpiryContender,
    server: Server,
    informant: Informant,
    plan: Plan,
    /// How long it took to store the items that stay, or will take.
    fill_ns: u64,
    /// The server's figures then.
    before: Figures,
}

/// The rate at which every server has so much to do as half of the slowest's throughput.
pub(super) fn rate(args: &ExpiryArgs, contenders: &[ExpiryContender]) -> Result<u64, Error> {
    let mut slowest = f64::MAX;
    for contender in contenders {
        let few = ExpiryArgs {
            live: args.live.min(CALIBRATION_KEYS),
            ..args.clone()
        };
        let scene = Scene::set(&few, contender)?;
        let mut plan = scene.plan.until(Limit::Nanoseconds(CALIBRATION_NS));
        plan.drive.depth = 1;
        let report = load::run(&plan)?;
        slowest = slowest.min(report.throughput_per_s);
    }
    // In round numbers.
    Ok(((slowest * RATE_SHARE / 1000.0) as u64).max(1) * 1000)
}

/// Watches a server's memory across the moment; the version, and what was seen.
pub(super) fn watch(
    args: &ExpiryArgs,
    contender: &ExpiryContender,
    rate: u64,
) -> Result<(String, Watched), Error> {
    let mut scene = Scene::set(args, contender)?;
    let version = scene.server.version()?;
    eprintln!("watching {} {version}", contender.recipe.name);
    let moment_s = scene.add_dying()?;
    let full = scene.informant.ask()?;
    let stored = full.items - scene.before.items;
    let used_bytes = full.used_bytes.saturating_sub(scene.before.used_bytes);
    let item_bytes = share(used_bytes, stored);
    let moment_ns = scene.wait(moment_s)?;
    let over = AtomicBool::new(false);
    let mut informant = Informant::connect(&scene.server)?;
    let (load, polled) = std::thread::scope(|scope| {
        let poller = scope.spawn(|| poll(&mut informant, &over));
        let load = scene.load(rate, 1);
        // Relaxed: nothing but the flag is passed on.
        over.store(true, Ordering::Relaxed);
        (load, poller.join())
    });
    load?;
    let polled = polled.map_err(|_| Error::Wrong("the watching thread panicked".to_owned()))??;
    scene.end()?;
    let points: Vec<MemorySample> = polled
        .into_iter()
        .map(|(at_ns, figures)| args.sample(item_bytes, since(at_ns, moment_ns), figures))
        .collect();
    let watched = Watched {
        item_bytes,
        before: full,
        reclaimed_after_s: args.reclaimed_after_s(&points),
        points,
    };
    Ok((version, watched))
}

/// Measures latencies: first as long without any expiry, then across the moment.
pub(super) fn run(
    args: &ExpiryArgs,
    contender: &ExpiryContender,
    rate: u64,
    round: usize,
) -> Result<RunLatencies, Error> {
    let mut scene = Scene::set(args, contender)?;
    let control = (!args.mixed)
        .then(|| scene.control(rate, round))
        .transpose()?;
    let moment_s = scene.add_dying()?;
    let moment_ns = scene.wait(moment_s)?;
    let (report, samples) = scene.load(rate, round as u64 + 1)?;
    scene.end()?;
    let samples = timed(&samples, moment_ns);
    let worst = slices(&samples)
        .into_iter()
        .filter(|slice| slice.at_s > 0.0);
    Ok(RunLatencies {
        before: summary(&samples, is_before),
        during: summary(&samples, is_during),
        worst_slice_us_p99_9: worst
            .map(|slice| slice.latency_us_p99_9)
            .fold(0.0, f64::max),
        control,
        misses: report.get.misses + report.errors,
        samples,
    })
}

impl<'a> Scene<'a> {
    /// Starts a server and stores the items that stay.
    fn set(args: &'a ExpiryArgs, contender: &'a ExpiryContender) -> Result<Scene<'a>, Error> {
        let server = contender.recipe.start(Ingredients {
            memory_mib: args.memory_mib,
            threads: 1,
            cpu: Some(args.cpus.server_cpu),
        })?;
        let mut informant = Informant::connect(&server)?;
        let records = contender.records(args, args.live, LIVE_KEY_BYTES)?;
        let limit = Limit::Nanoseconds((args.before_s + args.during_s) * NS_PER_S);
        let drive = Drive {
            depth: DEPTH,
            databases: 0..contender.databases,
            cpus: vec![args.cpus.load_cpu],
            ..Drive::new(
                contender.recipe.wire,
                server.address(),
                args.connections,
                limit,
            )
        };
        let plan = Plan {
            ttl: TtlMix::between(args.live_ttl_s, args.live_ttl_s),
            ..Plan::gets(drive, records)
        };
        let started_ns = now_ns();
        let mut fill_ns = MIXED_FILL_NS * args.live;
        if !args.mixed {
            fill(contender, &plan, args.live)?;
            fill_ns = now_ns() - started_ns;
        }
        let before = informant.ask()?;
        Ok(Scene {
            args,
            contender,
            server,
            informant,
            plan,
            fill_ns,
            before,
        })
    }

    /// Stores the items that are to die; the second of the first deadline.
    fn add_dying(&mut self) -> Result<u64, Error> {
        let args = self.args;
        let per_item_ns = self.fill_ns / args.live.max(1);
        // Twice the time it should take, and the load begins before the moment.
        let ahead_ns = 2 * per_item_ns * args.dying
            + FILL_MARGIN_NS
            + (args.rest_s + args.before_s) * NS_PER_S;
        let moment_s = (unix_ns() + ahead_ns).div_ceil(NS_PER_S);
        let ttl = u32::try_from(moment_s).unwrap_or(u32::MAX);
        let plan = Plan {
            records: self.contender.records(args, args.dying, DYING_KEY_BYTES)?,
            ttl: TtlMix::between(ttl, ttl),
            ..self.plan.clone()
        };
        let contender = self.contender;
        if !args.mixed {
            fill(contender, &plan, args.dying)?;
            return Ok(moment_s);
        }
        std::thread::scope(|scope| {
            let living = scope.spawn(|| fill(contender, &self.plan, args.live));
            fill(contender, &plan, args.dying)?;
            let panicked = |_| Error::Wrong("a storing thread panicked".to_owned());
            living.join().map_err(panicked)?
        })?;
        Ok(moment_s)
    }

    /// The load while nothing expires: both its parts.
    fn control(&self, rate: u64, round: usize) -> Result<[LatencySummary; 2], Error> {
        let rest = self.server.rest(now_ns() + self.args.rest_s * NS_PER_S);
        rest.map_err(|error| match error {
            Error::Wrong(what) => Error::Wrong(format!("{what}; --rest-s gives it more time")),
            other => other,
        })?;
        let border_ns = now_ns() + self.args.before_s * NS_PER_S;
        let (_, samples) = self.load(rate, round as u64 + 1)?;
        let samples = timed(&samples, border_ns);
        Ok([is_before, is_during].map(|is_of_part| summary(&samples, is_of_part)))
    }

    /// Waits until the server is at rest and the load has to start; the moment on the monotonic
    /// clock.
    fn wait(&self, moment_s: u64) -> Result<u64, Error> {
        let start_ns = (moment_s - self.args.before_s) * NS_PER_S;
        let (unix, mono) = (unix_ns(), now_ns());
        let left_ns = start_ns.checked_sub(unix).ok_or_else(|| {
            Error::Wrong(format!(
                "{}: storing the items that are to die took {:.1} s longer than expected; \
                 is the machine busy?",
                self.contender.recipe.name,
                seconds(unix - start_ns)
            ))
        })?;
        self.server.rest(mono + left_ns.saturating_sub(NS_PER_S))?;
        std::thread::sleep(Duration::from_nanos(
            (mono + left_ns).saturating_sub(now_ns()),
        ));
        Ok(mono + left_ns + self.args.before_s * NS_PER_S)
    }

    /// The load at its fixed rate, and each of its gets.
    fn load(&self, rate: u64, seed: u64) -> Result<(Report, Vec<Sample>), Error> {
        let mut plan = self.plan.clone();
        plan.drive.rate_per_s = Some(rate as f64);
        plan.seed = seed;
        let gets = rate * (self.args.before_s + self.args.during_s);
        let (report, samples) = load::run_sampled(&plan, usize::try_from(gets).unwrap_or(0))?;
        if report.unsent_requests > 0 {
            return Err(Error::Wrong(format!(
                "{} cannot answer {rate} gets/s: {} were never sent; try a lower --rate",
                self.contender.recipe.name, report.unsent_requests
            )));
        }
        Ok((report, samples))
    }

    /// Checks that nothing was lost that should have stayed.
    fn end(&mut self) -> Result<(), Error> {
        let evicted = self.informant.ask()?.evicted;
        if evicted > 0 {
            return Err(Error::Wrong(format!(
                "{} evicted {evicted} items; give it more with --memory-mib",
                self.contender.recipe.name
            )));
        }
        Ok(())
    }
}

fn fill(contender: &ExpiryContender, plan: &Plan, items: u64) -> Result<(), Error> {
    let mut stored = 0;
    let mut first_error = None;
    for database in 0..contender.databases {
        let mut fill = plan.fill();
        fill.drive.databases = database..database + 1;
        let report = load::run(&fill)?;
        stored += report.set.stored;
        first_error = first_error.or(report.first_error);
    }
    if stored == items {
        return Ok(());
    }
    Err(Error::Wrong(format!(
        "{}: {stored} of {items} stored; {}",
        contender.recipe.name,
        first_error.unwrap_or_default()
    )))
}

/// Asks again and again until it is over; the moments, and what was answered.
fn poll(informant: &mut Informant, over: &AtomicBool) -> Result<Vec<(u64, Figures)>, Error> {
    let mut found = Vec::new();
    // Relaxed: nothing but the flag is passed on.
    while !over.load(Ordering::Relaxed) {
        found.push((now_ns(), informant.ask()?));
        std::thread::sleep(POLL);
    }
    Ok(found)
}

impl ExpiryContender {
    /// The items of one database, of so many in all.
    fn records(&self, args: &ExpiryArgs, items: u64, key_bytes: usize) -> Result<Records, Error> {
        let value_bytes = ByteRange::fixed(args.value_bytes);
        Records::new(items / self.databases as u64, key_bytes, value_bytes)
    }
}

impl ExpiryArgs {
    /// The memory at one moment, if an item takes so many bytes.
    fn sample(&self, item_bytes: f64, at_ns: i64, figures: Figures) -> MemorySample {
        let over = if at_ns < 0 { 0 } else { self.dying };
        let dead_items = figures.items.saturating_sub(self.live + self.dying - over);
        MemorySample {
            at_s: at_ns as f64 / 1e9,
            dead_items,
            dead_bytes: dead_items as f64 * item_bytes,
            figures,
        }
    }

    /// Seconds after the deadline from which on less than a hundredth of the dead is left.
    fn reclaimed_after_s(&self, points: &[MemorySample]) -> Option<f64> {
        let left = self.dying / LEFT_SHARE;
        let after: Vec<&MemorySample> = points.iter().filter(|it| it.at_s >= 0.0).collect();
        let held = after.iter().rposition(|point| point.dead_items > left);
        let point = after.get(held.map_or(0, |place| place + 1))?;
        Some(point.at_s)
    }
}

/// Whether a get lies in the part of a load before the moment, which ends a little earlier.
fn is_before(timed: &Timed) -> bool {
    timed.at_ns < -MARGIN_NS.cast_signed()
}

/// Whether a get lies in the part of a load after the moment.
fn is_during(timed: &Timed) -> bool {
    timed.at_ns >= 0
}

fn timed(samples: &[Sample], moment_ns: u64) -> Vec<Timed> {
    let first_ns = samples.iter().map(|it| it.start_ns).min().unwrap_or(0);
    samples
        .iter()
        .filter(|sample| sample.start_ns >= first_ns + MARGIN_NS)
        .map(|sample| Timed {
            at_ns: since(sample.start_ns, moment_ns),
            ns: sample.ns,
        })
        .collect()
}

/// Nanoseconds from `moment_ns` to `at_ns`.
fn since(at_ns: u64, moment_ns: u64) -> i64 {
    at_ns.cast_signed() - moment_ns.cast_signed()
}

fn summary(samples: &[Timed], is_of_part: fn(&Timed) -> bool) -> LatencySummary {
    let mut latencies = Latencies::new();
    let of_part = samples.iter().filter(|timed| is_of_part(timed));
    of_part.for_each(|timed| latencies.record(timed.ns));
    latencies.summary()
}

/// The gets in slices of half a second; slices with too few of them are left out.
pub(super) fn slices<'s>(samples: impl IntoIterator<Item = &'s Timed>) -> Vec<Slice> {
    let slice_ns = SLICE_NS.cast_signed();
    let mut all = std::collections::BTreeMap::<i64, Vec<u64>>::new();
    for timed in samples {
        let slice = timed.at_ns.div_euclid(slice_ns);
        all.entry(slice).or_default().push(timed.ns);
    }
    all.retain(|_, gets| gets.len() >= SLICE_GETS_MIN);
    let slices = all.into_iter().map(|(slice, gets)| {
        let mut latencies = Latencies::new();
        gets.iter().for_each(|&ns| latencies.record(ns));
        let summary = latencies.summary();
        Slice {
            at_s: (slice as f64 + 0.5) * seconds(SLICE_NS),
            latency_us_p99_9: summary.latency_us_p99_9,
            latency_us_max: summary.latency_us_max,
        }
    });
    slices.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        expiry: ExpiryArgs,
    }

    fn args(options: &[&str]) -> ExpiryArgs {
        let line = ["expiry"].iter().chain(options);
        Line::parse_from(line).expiry.settled().unwrap()
    }

    fn figures(items: u64) -> Figures {
        Figures {
            items,
            ..Figures::default()
        }
    }

    #[test]
    fn only_items_whose_time_is_over_count_as_dead() {
        let args = args(&["--live", "100", "--dying", "600"]);
        let dead = |at_s: i64, items| {
            let point = args.sample(10.0, at_s * NS_PER_S.cast_signed(), figures(items));
            point.dead_items
        };
        assert_eq!(dead(-1, 700), 0);
        assert_eq!(dead(0, 700), 600);
        assert_eq!(dead(0, 690), 590);
        assert_eq!(dead(120, 700), 600);
        assert_eq!(dead(120, 100), 0);
        let point = args.sample(10.0, 120 * NS_PER_S.cast_signed(), figures(103));
        assert!((point.dead_bytes - 30.0).abs() < 1e-9);
    }

    #[test]
    fn the_dead_are_reclaimed_when_no_more_than_a_hundredth_stays_away() {
        let args = args(&["--live", "0", "--dying", "1000"]);
        let points = |dead: &[u64]| -> Vec<MemorySample> {
            let tenths = (-5i64..).zip([0; 5].iter().chain(dead));
            let points = tenths.map(|(tenth, &dead)| {
                args.sample(
                    1.0,
                    tenth * 100_000_000,
                    figures(if tenth < 0 { 1000 } else { dead }),
                )
            });
            points.collect()
        };
        let after = |dead: &[u64]| args.reclaimed_after_s(&points(dead));
        assert_eq!(after(&[1000, 500, 10, 0]), Some(0.2));
        assert_eq!(after(&[5, 11, 10]), Some(0.2));
        assert_eq!(after(&[0]), Some(0.0));
        assert_eq!(after(&[1000, 500, 11]), None);
        assert_eq!(after(&[]), None);
    }

    #[test]
    fn slices_lie_around_the_moment_and_need_enough_gets() {
        let gets =
            |from_ns: i64, count: usize, ns| (0..count).map(move |_| Timed { at_ns: from_ns, ns });
        let samples: Vec<Timed> = gets(-1, 1000, 5_000)
            .chain(gets(0, 1000, 50_000))
            .chain(gets(700_000_000, 999, 1))
            .collect();
        let slices = slices(&samples);
        let at: Vec<f64> = slices.iter().map(|slice| slice.at_s).collect();
        assert_eq!(at, [-0.25, 0.25]);
        assert!((slices[1].latency_us_p99_9 / 50.0 - 1.0).abs() < 0.01);
        let before = summary(&samples, is_before);
        assert_eq!(
            before,
            LatencySummary::default(),
            "the moment's border counts for neither"
        );
        let during = summary(&samples, is_during);
        assert!((during.latency_us_max / 50.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn the_beginning_of_a_load_does_not_count() {
        let sample = |start_ns| Sample { start_ns, ns: 1 };
        let samples = [
            sample(1_000),
            sample(1_000 + MARGIN_NS),
            sample(900_000_000),
        ];
        let at: Vec<i64> = timed(&samples, 900_000_001)
            .iter()
            .map(|it| it.at_ns)
            .collect();
        assert_eq!(at, [1_000 + 200_000_000 - 900_000_001, -1]);
    }
}

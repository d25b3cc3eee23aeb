//! MassExpiration: the time of many items is over in one and the same second.
//!
//! Deadlines are whole seconds of the wall clock, in the same words for every server. The gets
//! begin so long before the deadline as their first part lasts. Memory is watched in a run of its
//! own, because asking a server for its figures ten times a second would show in its latencies.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::figures::{Figures, Informant};
use super::{DYING_KEY_BYTES, ExpiryArgs, ExpiryContender, Scene};
use crate::race::beside;
use cellar_load::{
    Error, Latencies, NS_PER_S, Plan, Sample, TtlMix, load, now_ns, seconds, share, sleep_until,
    unix_ns,
};

/// What the beginning of the gets is not counted for, and the border of the moment itself.
const MARGIN_NS: u64 = 200_000_000;
/// What it may take to store an item, and how long a server may take to come to rest then.
const FILL_NS: u64 = 8_000;
const SETTLE_NS: u64 = 5 * NS_PER_S;
const POLL: Duration = Duration::from_millis(100);
/// Length of a slice.
const SLICE_NS: u64 = NS_PER_S / 2;
/// Fewer gets than this make no p99.9.
const SLICE_GETS_MIN: usize = 1000;
/// The dead count as reclaimed when no more than one in so many is left.
const LEFT_SHARE: u64 = 100;

/// A server that takes part, and how its items lie.
pub(super) struct MassExpiration<'a> {
    contender: &'a ExpiryContender,
    /// Whether both kinds of items are stored at the same time, so that the dead lie among those
    /// that stay.
    is_mixed: bool,
}

impl<'a> MassExpiration<'a> {
    /// Each server with the dead together, then those with one database with the dead among others.
    pub(super) fn all(contenders: &'a [ExpiryContender]) -> Vec<MassExpiration<'a>> {
        let expiration = |contender, is_mixed| MassExpiration {
            contender,
            is_mixed,
        };
        let mixed = contenders.iter().filter(|it| it.databases == 1);
        let mixed = mixed.map(|it| expiration(it, true));
        let apart = contenders.iter().map(|it| expiration(it, false));
        apart.chain(mixed).collect()
    }

    fn name(&self) -> String {
        let mixed = if self.is_mixed { ", mixed" } else { "" };
        format!("{}{mixed}", self.contender.recipe.name)
    }
}

/// One server over all its runs.
struct Runs {
    /// Who it is, and the run in which memory was watched.
    found: Value,
    rounds: Vec<Value>,
    misses: u64,
    gets: Vec<Timed>,
}

/// The server's memory at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
struct WavePoint {
    /// Seconds after the deadline.
    at_s: f64,
    dead_bytes: f64,
    rss_bytes: u64,
}

/// One get, seen from the deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Timed {
    /// When it was due, in nanoseconds after the deadline.
    at_ns: i64,
    /// How long it took.
    ns: u64,
}

/// Watches all servers, then measures latencies round by round.
pub(super) fn measure(
    args: &ExpiryArgs,
    expirations: &[MassExpiration<'_>],
) -> Result<Value, Error> {
    let watched = expirations.iter().map(|expiration| watch(args, expiration));
    let mut all = watched.collect::<Result<Vec<_>, _>>()?;
    for number in 1..=args.rounds {
        for (expiration, runs) in expirations.iter().zip(&mut all) {
            let round = round(args, expiration, number as u64, runs)?;
            eprintln!(
                "mass expiration {number} of {}: {:32} {round}",
                args.rounds,
                expiration.name()
            );
            runs.rounds.push(round);
        }
    }
    let results = all.into_iter().map(|runs| {
        let slices = slices(&runs.gets).into_iter();
        let slices = slices.map(|(at_s, us)| json!({"at_s": at_s, "latency_us_p99_9": us}));
        let mut found = runs.found;
        found["rounds"] = json!(runs.rounds);
        // p99.9 of all rounds together in each slice of the gets.
        found["slices"] = slices.collect();
        found["misses"] = json!(runs.misses);
        found
    });
    Ok(results.collect())
}

/// A server that holds all items, and the gets to come.
struct FilledScene<'a> {
    scene: Scene<'a>,
    gets: Plan,
    /// Figures of the empty server, and with all items.
    before: Figures,
    full: Figures,
    /// When the gets begin, and the deadline, on the monotonic clock.
    start_ns: u64,
    moment_ns: u64,
}

fn filled<'a>(
    args: &'a ExpiryArgs,
    expiration: &MassExpiration<'a>,
) -> Result<FilledScene<'a>, Error> {
    let mut scene = Scene::set(args, expiration.contender)?;
    let gets = scene.gets(args.lasting, args.before_s + args.during_s)?;
    let before = scene.informant.ask()?;
    let ahead_ns = FILL_NS * (args.lasting + args.dying) + SETTLE_NS + args.before_s * NS_PER_S;
    // The monotonic clock first: held up between the two, the deadline seems early, never late.
    let mono = now_ns();
    let unix = unix_ns();
    let moment_s = (unix + ahead_ns).div_ceil(NS_PER_S);
    let moment_ns = mono + (moment_s * NS_PER_S - unix);
    let start_ns = moment_ns - args.before_s * NS_PER_S;
    let ttl = u32::try_from(moment_s).unwrap_or(u32::MAX);
    let dying = Plan {
        records: scene.records(args.dying, DYING_KEY_BYTES)?,
        ttl: TtlMix::between(ttl, ttl),
        ..gets.clone()
    };
    if expiration.is_mixed {
        let (lasting, dying) = beside(|_| scene.fill(&gets), || scene.fill(&dying));
        lasting.and(dying)?;
    } else {
        scene.fill(&gets)?;
        scene.fill(&dying)?;
    }
    if now_ns() + NS_PER_S > start_ns {
        return Err(scene.wrong("storing the items took too long; is the machine busy?".into()));
    }
    let rested_by_ns = start_ns.saturating_sub(NS_PER_S);
    if scene.contender.recipe.name.starts_with("cellar") {
        scene.server.rest(rested_by_ns)?;
    } else {
        // With a great effort Valkey looks for expired items all the time.
        scene.server.settle(rested_by_ns)?;
    }
    let full = scene.informant.ask()?;
    sleep_until(start_ns);
    Ok(FilledScene {
        scene,
        gets,
        before,
        full,
        start_ns,
        moment_ns,
    })
}

/// Watches a server's memory across the moment.
fn watch(args: &ExpiryArgs, expiration: &MassExpiration<'_>) -> Result<Runs, Error> {
    let filled = filled(args, expiration)?;
    let stored = args.lasting + args.dying;
    let item_bytes = share(filled.full.used_bytes - filled.before.used_bytes, stored);
    let mut informant = Informant::connect(&filled.scene.server)?;
    let (polled, got) = beside(|is_over| informant.watch(POLL, is_over), || filled.run(1));
    got?;
    let points: Vec<WavePoint> = polled?
        .into_iter()
        .map(|(at_ns, figures)| args.point(item_bytes, since(at_ns, filled.moment_ns), figures))
        .collect();
    let found = json!({
        "server": expiration.name(),
        "version": filled.scene.server.version()?,
        "databases": expiration.contender.databases,
        "is_mixed": expiration.is_mixed,
        "memory": {
            // What an item takes, by the server's own figures.
            "item_bytes": item_bytes,
            "rss_bytes_before": filled.full.rss_bytes,
            // Seconds after the deadline until 99 % of the dead were reclaimed.
            "reclaimed_after_s": args.reclaimed_after_s(item_bytes, &points),
            "points": points,
        },
    });
    filled.scene.end()?;
    Ok(Runs {
        found,
        rounds: Vec::new(),
        misses: 0,
        gets: Vec::new(),
    })
}

/// Measures latencies once.
fn round(
    args: &ExpiryArgs,
    expiration: &MassExpiration<'_>,
    number: u64,
    runs: &mut Runs,
) -> Result<Value, Error> {
    let filled = filled(args, expiration)?;
    let (samples, misses) = filled.run(number)?;
    let gets = timed(&samples, filled.start_ns, filled.moment_ns);
    let is_before = |get: &Timed| get.at_ns < -MARGIN_NS.cast_signed();
    if !gets.iter().any(is_before) {
        let held_up = "no get was sent before the mass expiration; is the machine busy?";
        return Err(filled.scene.wrong(held_up.into()));
    }
    filled.scene.end()?;
    let after = slices(&gets).into_iter().filter(|(at_s, _)| *at_s > 0.0);
    let round = json!({
        "before_us_p99_9": p99_9(&gets, is_before),
        "during_us_p99_9": p99_9(&gets, |get| get.at_ns >= 0),
        // The worst half second after the moment.
        "worst_us_p99_9": after.map(|(_, us)| us).fold(0.0, f64::max),
    });
    runs.misses += misses;
    runs.gets.extend(gets);
    Ok(round)
}

impl FilledScene<'_> {
    /// The gets at their fixed rate, each of them, and how many found nothing.
    fn run(&self, seed: u64) -> Result<(Vec<Sample>, u64), Error> {
        let plan = Plan {
            seed,
            ..self.gets.clone()
        };
        let args = self.scene.args;
        let gets = args.gets * (args.before_s + args.during_s);
        let (report, samples) = load::run_sampled(&plan, usize::try_from(gets).unwrap_or(0))?;
        if report.unsent_requests > 0 {
            return Err(self.scene.wrong(format!(
                "{} of {gets} gets were never sent; try fewer with --gets",
                report.unsent_requests
            )));
        }
        Ok((samples, report.get.misses + report.errors))
    }
}

impl ExpiryArgs {
    /// The memory at one moment: by the server itself if it counts its dead, else by what should be
    /// alive, if an item takes so many bytes.
    fn point(&self, item_bytes: f64, at_ns: i64, figures: Figures) -> WavePoint {
        let over = if at_ns < 0 { 0 } else { self.dying };
        let dead_items = figures
            .items
            .saturating_sub(self.lasting + self.dying - over);
        let counted = dead_items as f64 * item_bytes;
        WavePoint {
            at_s: at_ns as f64 / 1e9,
            dead_bytes: figures.dead_bytes.map_or(counted, |bytes| bytes as f64),
            rss_bytes: figures.rss_bytes,
        }
    }

    /// Seconds after the deadline from which on less than a hundredth of the dead is left.
    fn reclaimed_after_s(&self, item_bytes: f64, points: &[WavePoint]) -> Option<f64> {
        let left = self.dying as f64 * item_bytes / LEFT_SHARE as f64;
        let after: Vec<&WavePoint> = points.iter().filter(|it| it.at_s >= 0.0).collect();
        let held = after.iter().rposition(|point| point.dead_bytes > left);
        let point = after.get(held.map_or(0, |place| place + 1))?;
        Some(point.at_s)
    }
}

fn timed(samples: &[Sample], start_ns: u64, moment_ns: u64) -> Vec<Timed> {
    let counted = samples
        .iter()
        .filter(|it| it.start_ns >= start_ns + MARGIN_NS);
    let timed = counted.map(|sample| Timed {
        at_ns: since(sample.start_ns, moment_ns),
        ns: sample.ns,
    });
    timed.collect()
}

/// Nanoseconds from `moment_ns` to `at_ns`.
fn since(at_ns: u64, moment_ns: u64) -> i64 {
    at_ns.cast_signed() - moment_ns.cast_signed()
}

fn p99_9(gets: &[Timed], is_counted: impl Fn(&Timed) -> bool) -> f64 {
    let mut latencies = Latencies::new();
    let counted = gets.iter().filter(|get| is_counted(get));
    counted.for_each(|get| latencies.record(get.ns));
    latencies.summary().latency_us_p99_9
}

/// The gets in slices of half a second: its middle in seconds after the deadline, and p99.9; slices
/// with too few gets are left out.
fn slices(gets: &[Timed]) -> Vec<(f64, f64)> {
    let slice_ns = SLICE_NS.cast_signed();
    let mut all = std::collections::BTreeMap::<i64, Vec<Timed>>::new();
    for get in gets {
        let slice = get.at_ns.div_euclid(slice_ns);
        all.entry(slice).or_default().push(*get);
    }
    all.retain(|_, gets| gets.len() >= SLICE_GETS_MIN);
    let slices = all.into_iter().map(|(slice, gets)| {
        let at_s = (slice as f64 + 0.5) * seconds(SLICE_NS);
        (at_s, p99_9(&gets, |_| true))
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
        let line = ["expiry", "--databases", "1"].iter().chain(options);
        Line::parse_from(line).expiry
    }

    fn figures(items: u64) -> Figures {
        Figures {
            items,
            ..Figures::default()
        }
    }

    #[test]
    fn only_items_whose_time_is_over_count_as_dead() {
        let args = args(&["--lasting", "100", "--dying", "600"]);
        let dead = |at_s: i64, figures| {
            let point = args.point(10.0, at_s * NS_PER_S.cast_signed(), figures);
            point.dead_bytes / 10.0
        };
        for (at_s, items, expected) in [
            (-1, 700, 0.0),
            (0, 700, 600.0),
            (0, 690, 590.0),
            (120, 103, 3.0),
            (120, 100, 0.0),
        ] {
            assert!((dead(at_s, figures(items)) - expected).abs() < 1e-9);
        }
        let told = Figures {
            dead_bytes: Some(70),
            ..figures(100)
        };
        assert!(
            (dead(1, told) - 7.0).abs() < 1e-9,
            "who counts its dead is believed"
        );
    }

    #[test]
    fn the_dead_are_reclaimed_when_no_more_than_a_hundredth_stays_away() {
        let args = args(&["--lasting", "0", "--dying", "1000"]);
        let points = |dead: &[u64]| -> Vec<WavePoint> {
            let tenths = (-5i64..).zip([0; 5].iter().chain(dead));
            let points = tenths.map(|(tenth, &dead)| {
                let items = if tenth < 0 { 1000 } else { dead };
                args.point(1.0, tenth * 100_000_000, figures(items))
            });
            points.collect()
        };
        let after = |dead: &[u64]| args.reclaimed_after_s(1.0, &points(dead));
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
        let gets: Vec<Timed> = gets(-1, 1000, 5_000)
            .chain(gets(0, 1000, 50_000))
            .chain(gets(700_000_000, 999, 1))
            .collect();
        let slices = slices(&gets);
        let at: Vec<f64> = slices.iter().map(|slice| slice.0).collect();
        assert_eq!(at, [-0.25, 0.25]);
        assert!((slices[1].1 / 50.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn the_beginning_of_the_gets_does_not_count() {
        let sample = |start_ns| Sample { start_ns, ns: 1 };
        let samples = [
            sample(1_000),
            sample(1_000 + MARGIN_NS),
            sample(900_000_000),
        ];
        let at = timed(&samples, 1_000, 900_000_001);
        let at: Vec<i64> = at.iter().map(|it| it.at_ns).collect();
        assert_eq!(at, [1_000 + 200_000_000 - 900_000_001, -1]);
    }
}

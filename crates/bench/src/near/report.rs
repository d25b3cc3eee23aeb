//! The tables and the page of `cellar-bench near`.

use std::fmt::Write;

use super::Outcome;
use super::footprint::Footprint;
use super::ratio::{CACHES, Ratio};
use super::speed::Speed;
use super::subject::{self, Name, VALUE_BYTES};
use crate::goal::{self, Goal};
use crate::page::{Finding, Page};
use crate::plot::{Plot, Series};
use crate::spread::short;
use crate::versus::Versus;

const GOAL_HIT_NS: f64 = 30.0;
const GOAL_TIMES_MOKA: f64 = 3.0;
const GOAL_OVERHEAD_BYTES: f64 = 64.0;

/// The tables, for a reader at the terminal.
pub(super) fn render(outcome: &Outcome) -> String {
    let tables: Vec<String> = tables(outcome);
    format!("{}\nFrom {}.\n", tables.join("\n"), outcome.setting)
}

/// The page.
pub(super) fn page(outcome: &Outcome) -> Page {
    Page {
        title: "The near cache's local store".to_owned(),
        question:
            "How fast is a hit in the near cache's local store, what does an entry take, and \
            how often is there a hit, beside other caches for Rust in the same process?"
                .to_owned(),
        method: method(outcome),
        versus: versus(outcome),
        headline: None,
        findings: findings(outcome),
        meaning: "A goal that is reached holds in this run, on this machine. The local store also \
            keeps deadlines, counts hits and misses and tells what leaves; quick_cache has no time \
            to live and counts nothing by default."
            .to_owned(),
        limits: "Reads alone, of values that nobody holds for long. Two threads do not show how \
            sixteen would meet. moka decides later than it is asked, so its hit ratios vary from \
            run to run. A trace says what one cache was asked for, not what yours will be."
            .to_owned(),
        setting: outcome.setting.clone(),
    }
}

fn findings(outcome: &Outcome) -> Vec<Finding> {
    let mut findings: Vec<_> = tables(outcome).into_iter().map(Finding::Text).collect();
    findings.push(Finding::Plot {
        name: "hits".to_owned(),
        plot: plot(outcome),
    });
    findings
}

/// Hits of all threads together over their number, one line for each cache.
#[expect(clippy::cast_precision_loss, reason = "shown on an axis")]
fn plot(outcome: &Outcome) -> Plot {
    let series = subject::ALL.map(|name| {
        let speeds = outcome.speeds.iter().filter(|speed| speed.cache == name);
        let point = |speed: &Speed| (speed.threads as f64, speed.hits_per_s.median / 1e6);
        Series {
            label: name.text().to_owned(),
            points: speeds.map(point).collect(),
        }
    });
    Plot::over_threads("Hits of all threads together", series.into())
}

fn method(outcome: &Outcome) -> String {
    format!(
        "Speed: {} entries with keys of 8 B, {} reads a thread and round by Zipf's law with \
         exponent {}, drawn beforehand; {} rounds in which the caches take turns, medians, in \
         brackets the extremes; every read is a hit and the value's first byte is looked at. \
         All caches hold the same values and have room for a quarter more, with their \
         defaults. Time of a hit is the threads' own time.\n\nMemory: growth of resident \
         memory of a fresh process, divided by the entries, without the 8 B of the key and \
         the {VALUE_BYTES} B of the value. The two counts before each value (16 B) and the \
         allocator's own bytes are in it. The caches have seen a tenth more entries than they \
         hold.\n\nHit ratios: bounded by entries, as a share of the trace's different keys; \
         one thread; a get that misses is followed by an insert; no times to live.",
        outcome.entries, outcome.operations_per_thread, outcome.zipf, outcome.rounds,
    )
}

fn tables(outcome: &Outcome) -> Vec<String> {
    let mut tables = vec![
        goal::table(&goals(outcome)),
        speeds(outcome),
        footprints(outcome),
    ];
    if !outcome.ratios.is_empty() {
        tables.push(ratios(&outcome.ratios));
    }
    tables
}

fn speed(outcome: &Outcome, cache: Name, threads: usize) -> Option<&Speed> {
    let speeds = outcome.speeds.iter();
    speeds
        .into_iter()
        .find(|speed| speed.cache == cache && speed.threads == threads)
}

fn goals(outcome: &Outcome) -> Vec<Goal> {
    let mut goals = Vec::new();
    if let Some(own) = speed(outcome, Name::Cellar, 1) {
        let what = "a hit on one thread, ns";
        goals.push(Goal::at_most(what, GOAL_HIT_NS, own.hit_ns.median, 1));
    }
    let times = |times: f64| format!("{times:.2} x");
    for own in outcome
        .speeds
        .iter()
        .filter(|speed| speed.cache == Name::Cellar)
    {
        for (other, least) in [(Name::QuickCache, 1.0), (Name::Moka, GOAL_TIMES_MOKA)] {
            let Some(other) = speed(outcome, other, own.threads) else {
                continue;
            };
            let found = own.hits_per_s.median / other.hits_per_s.median;
            let what = format!(
                "hits beside {}, threads: {}",
                other.cache.text(),
                own.threads
            );
            goals.push(Goal::at_least(what, least, found, times));
        }
    }
    for own in &outcome.footprints {
        if matches!(own.cache, Name::Cellar | Name::CellarTtl) {
            let what = format!("bytes over key and value, {}", own.cache.text());
            let found = own.overhead_per_entry_bytes;
            goals.push(Goal::at_most(what, GOAL_OVERHEAD_BYTES, found, 1));
        }
    }
    if let Some(worst) = outcome
        .ratios
        .iter()
        .min_by(|a, b| lead(a).total_cmp(&lead(b)))
    {
        let place = format!("{} at {} %", worst.trace, worst.percent);
        let what = format!("hit ratio over quick_cache's, points, worst: {place}");
        goals.push(Goal::at_least(what, 0.0, lead(worst), |points| {
            format!("{points:.2}")
        }));
    }
    goals
}

/// Speed, memory and hit ratios of the local store beside the other crates'.
fn versus(outcome: &Outcome) -> Vec<Versus> {
    let is_peer = |name: Name| matches!(name, Name::QuickCache | Name::Moka | Name::LruMutex);
    let mut all = Vec::new();
    for other in outcome.speeds.iter().filter(|it| is_peer(it.cache)) {
        if let Some(own) = speed(outcome, Name::Cellar, other.threads) {
            let what = format!("hits/s, threads: {}", other.threads);
            let (ours, theirs) = (own.hits_per_s.median, other.hits_per_s.median);
            all.push(Versus::more(what, ours, other.cache.text(), theirs));
        }
    }
    let bytes = |footprint: &Footprint| footprint.overhead_per_entry_bytes;
    let mut own = outcome
        .footprints
        .iter()
        .filter(|it| it.cache == Name::Cellar);
    if let Some(own) = own.next() {
        let others = outcome.footprints.iter().filter(|it| is_peer(it.cache));
        let what = "bytes an entry over key and value";
        all.extend(others.map(|it| Versus::less(what, bytes(own), it.cache.text(), bytes(it))));
    }
    for ratio in &outcome.ratios {
        let what = format!("% hits, {} at {} %", ratio.trace, ratio.percent);
        for (name, hits) in CACHES.iter().zip(&ratio.hit_ratios).skip(1) {
            let (ours, theirs) = (ratio.hit_ratios[0] * 100.0, hits * 100.0);
            all.push(Versus::more(what.clone(), ours, name.text(), theirs));
        }
    }
    all
}

/// Points of hit ratio by which the local store is ahead of quick_cache.
fn lead(ratio: &Ratio) -> f64 {
    (ratio.hit_ratios[0] - ratio.hit_ratios[1]) * 100.0
}

fn speeds(outcome: &Outcome) -> String {
    let mut text = "| cache | threads | ns a hit | hits/s |\n|---|---|---|---|\n".to_owned();
    for speed in &outcome.speeds {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {} [{}..{}] |",
            speed.cache.text(),
            speed.threads,
            speed.hit_ns,
            short(speed.hits_per_s.median),
            short(speed.hits_per_s.min),
            short(speed.hits_per_s.max),
        );
    }
    text
}

fn footprints(outcome: &Outcome) -> String {
    let mut text = "| cache | bytes an entry over key and value |\n|---|---|\n".to_owned();
    for footprint in &outcome.footprints {
        let (name, bytes) = (footprint.cache.text(), footprint.overhead_per_entry_bytes);
        let _ = writeln!(text, "| {name} | {bytes:.1} |");
    }
    text
}

fn ratios(ratios: &[Ratio]) -> String {
    let names = CACHES.map(Name::text).join(" | ");
    let mut text = format!("| trace | size | entries | {names} |\n|---|---|---|---|---|---|---|\n");
    for ratio in ratios {
        let cells = ratio
            .hit_ratios
            .iter()
            .map(|ratio| format!("{:.2} %", ratio * 100.0));
        let cells: Vec<String> = cells.collect();
        let (trace, percent, entries) = (&ratio.trace, ratio.percent, ratio.entries);
        let _ = writeln!(
            text,
            "| {trace} | {percent} % | {entries} | {} |",
            cells.join(" | ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Setting;
    use crate::spread::Spread;

    #[test]
    fn goals_name_what_is_missed() {
        let speed = |cache, hits| Speed {
            cache,
            threads: 1,
            hit_ns: Spread::of(vec![25.0]),
            hits_per_s: Spread::of(vec![hits]),
        };
        let outcome = Outcome {
            setting: Setting::here(),
            entries: 1,
            zipf: 0.99,
            operations_per_thread: 1,
            rounds: 1,
            speeds: vec![
                speed(Name::Cellar, 40e6),
                speed(Name::QuickCache, 50e6),
                speed(Name::Moka, 4e6),
            ],
            footprints: Vec::new(),
            ratios: vec![Ratio {
                trace: "t".to_owned(),
                percent: 5.0,
                entries: 1,
                hit_ratios: vec![0.5, 0.4, 0.3, 0.2],
            }],
        };
        let reached: Vec<bool> = goals(&outcome).iter().map(|goal| goal.is_reached).collect();
        assert_eq!(reached, [true, false, true, true]);
        assert!(
            render(&outcome).contains("| t | 5 % | 1 | 50.00 % | 40.00 % | 30.00 % | 20.00 % |")
        );
    }
}

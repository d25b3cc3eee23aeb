//! The page of a replay: misses against LRU for each trace and size, and what it means.

use std::fmt::Write;

use super::baseline::Baseline;
use super::curve;
use super::report::{self, Report, Run};
use crate::goal::{self, Goal};
use crate::page::{Finding, Page};
use crate::plot::{Axis, Plot, Scale, Series};
use crate::versus::Versus;

const QUESTION: &str = "How often does Cellar miss, compared with a cache that evicts by LRU, in \
    the same bytes? And how much of the memory is dead when live items have to leave?";
const LIMITS: &str = "Time passes with the requests alone, and each request is done before the \
    next begins; sockets and threads take no part. A trace says what one cache was asked for, not \
    what yours will be. Belady is a bound only for values of one length.";

/// Misses over those of LRU at shares of the footprint: of all traces together, and of the worst.
const GOAL_MEAN: f64 = 0.95;
const GOAL_WORST: f64 = 1.06;
/// Percent of the memory that may be dead when a live item has to leave.
const GOAL_DEAD_PCT: f64 = 6.0;

/// The page of all runs, which were compared with LRU at least.
pub(super) fn page(report: &Report) -> Page {
    let baselines = &report.baselines;
    let sizes = sizes(report);
    let mut findings = vec![
        Finding::Text(goal::table(&goals(report, &sizes))),
        Finding::Text(ratio_table(report, &sizes)),
    ];
    findings.extend(ratio_plot(report, &sizes));
    findings.push(Finding::Text(report::table(report)));
    if sizes.len() > 1 {
        findings.extend(traces(report).into_iter().map(|trace| Finding::Plot {
            name: trace.to_owned(),
            plot: curve::plot(&runs_of(report, trace), baselines),
        }));
    }
    Page {
        title: report.title.clone(),
        question: QUESTION.to_owned(),
        method: method(report),
        versus: versus(report),
        headline: None,
        findings,
        meaning: meaning(report, &sizes),
        limits: LIMITS.to_owned(),
        setting: report.setting.clone(),
    }
}

/// What all runs together must reach. Misses are a goal at shares of the footprint only: in so many
/// bytes, what there is to gain depends on the trace alone.
fn goals(report: &Report, sizes: &[&str]) -> Vec<Goal> {
    let shares = sizes.iter().filter(|size| percent(size) > 0.0);
    let shares: Vec<&str> = shares.copied().collect();
    let of_sizes = |sizes: &[&str]| {
        let runs = report.runs.iter();
        Summary::of(runs.filter(|run| sizes.contains(&run.size.as_str())))
    };
    let mut goals = Vec::new();
    let mut add = |place: &str, sizes: &[&str]| {
        if let Some(summary) = of_sizes(sizes) {
            let mean = format!("misses over LRU's, geometric mean, {place}");
            goals.push(Goal::at_most(mean, GOAL_MEAN, summary.geometric_mean, 3));
            let worst = format!("misses over LRU's, worst, {place}: {}", summary.worst_run);
            goals.push(Goal::at_most(worst, GOAL_WORST, summary.worst, 3));
        }
    };
    for size in &shares {
        add(size, &[size]);
    }
    if shares.len() > 1 {
        add("all sizes", &shares);
    }
    goals.extend(dead_goal(report));
    goals
}

/// Whether little is dead when live items leave; nothing if none has left.
fn dead_goal(report: &Report) -> Option<Goal> {
    let evicting = report.runs.iter().filter(|run| run.evicted > 0);
    let worst = evicting.clone().max_by(|a, b| {
        a.dead_at_eviction_max_pct
            .total_cmp(&b.dead_at_eviction_max_pct)
    })?;
    let what = format!(
        "% dead when a live item had to leave, most of {} runs in which any had to: {}",
        evicting.count(),
        named(worst)
    );
    let found = worst.dead_at_eviction_max_pct;
    Some(Goal::at_most(what, GOAL_DEAD_PCT, found, 2))
}

fn named(run: &Run) -> String {
    format!("{} at {}", run.trace, run.size)
}

/// The misses of each run beside those of the policies that can be built, so not Belady's.
#[expect(clippy::cast_precision_loss, reason = "a display")]
fn versus(report: &Report) -> Vec<Versus> {
    let mut all = Vec::new();
    for run in &report.runs {
        for (name, compared) in &run.baselines {
            if name != Baseline::Belady.name() {
                let what = format!("misses, {}", named(run));
                let (ours, theirs) = (run.misses as f64, compared.misses as f64);
                all.push(Versus::less(what, ours, name, theirs));
            }
        }
    }
    all
}

/// How it was measured.
fn method(report: &Report) -> String {
    let overhead_bytes = report.baseline_overhead_bytes;
    let stretched = report.stretch.as_ref().map_or_else(String::new, |share| {
        format!(
            " All values of a trace are stretched by one factor for each size, so that the size is \
             {share} of the footprint."
        )
    });
    format!(
        "Each trace runs through the engine in one process, with the trace's clock; a get that \
         misses is followed by a set of the same size and TTL. Every hit is checked against what \
         was stored last. Memory in percent is of the trace's footprint: all keys with their last \
         values and 17 bytes each.{stretched} The engine pays for everything out of that memory: \
         headers, index, ghosts, segments that are being filled. LRU and the other policies are \
         simulated in the same bytes and pay {overhead_bytes} bytes for each item over key and \
         value, and nothing else."
    )
}

/// The sizes in the order in which they were asked for.
fn sizes(report: &Report) -> Vec<&str> {
    let runs = report.runs.iter().map(|run| run.size.as_str());
    let mut sizes = Vec::new();
    for size in runs.chain(report.skipped.iter().map(|skipped| skipped.size.as_str())) {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    sizes.sort_by(|a, b| percent(a).total_cmp(&percent(b)));
    sizes
}

/// The number of a size in percent; zero for one in bytes, so that those keep their order.
fn percent(size: &str) -> f64 {
    let number = size.strip_suffix(" %");
    number.and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

fn traces(report: &Report) -> Vec<&str> {
    let mut traces = Vec::new();
    for run in &report.runs {
        if !traces.contains(&run.trace.as_str()) {
            traces.push(run.trace.as_str());
        }
    }
    traces
}

fn runs_of<'r>(report: &'r Report, trace: &str) -> Vec<&'r Run> {
    let runs = report.runs.iter();
    runs.filter(|run| run.trace == trace).collect()
}

/// Misses over those of LRU.
fn to_lru(run: &Run) -> Option<f64> {
    let lru = run.baselines.get(Baseline::Lru.name())?;
    (lru.misses > 0 && run.misses > 0).then_some(lru.engine_misses_ratio)
}

/// What all traces together come to at one size.
struct Summary {
    traces: usize,
    geometric_mean: f64,
    worst: f64,
    worst_run: String,
}

impl Summary {
    #[expect(clippy::cast_precision_loss, reason = "a handful of traces")]
    fn of<'r>(runs: impl Iterator<Item = &'r Run>) -> Option<Summary> {
        let ratios: Vec<_> = runs.filter_map(|run| Some((to_lru(run)?, run))).collect();
        let (worst, worst_run) = ratios.iter().max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let logarithms: f64 = ratios.iter().map(|(ratio, _)| ratio.ln()).sum();
        Some(Summary {
            traces: ratios.len(),
            geometric_mean: (logarithms / ratios.len() as f64).exp(),
            worst: *worst,
            worst_run: named(worst_run),
        })
    }
}

/// Misses over those of LRU: a row for each trace, a column for each size.
fn ratio_table(report: &Report, sizes: &[&str]) -> String {
    let mut text = "Misses over those of LRU; below 1 is better:\n\n| trace |".to_owned();
    let by_size: Vec<_> = sizes
        .iter()
        .map(|size| Summary::of(report.runs.iter().filter(|run| run.size == *size)))
        .collect();
    let row = |text: &mut String, cells: Vec<String>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, " {} |", cells.join(" | "));
    };
    row(
        &mut text,
        sizes.iter().map(|&size| size.to_owned()).collect(),
    );
    let _ = writeln!(text, "|---{}|", "|---".repeat(sizes.len()));
    for trace in traces(report) {
        let _ = write!(text, "| {trace} |");
        let runs = runs_of(report, trace);
        let ratio = |size: &&str| {
            let run = runs.iter().find(|run| run.size == *size)?;
            to_lru(run)
        };
        row(
            &mut text,
            sizes.iter().map(|size| cell(ratio(size))).collect(),
        );
    }
    for (name, figure) in [
        (
            "geometric mean",
            (|summary| summary.geometric_mean) as fn(&Summary) -> f64,
        ),
        ("worst", |summary| summary.worst),
    ] {
        let _ = write!(text, "| **{name}** |");
        let figures = by_size
            .iter()
            .map(|summary| cell(summary.as_ref().map(figure)));
        row(&mut text, figures.collect());
    }
    text
}

fn cell(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"))
}

/// The ratios of all traces over the size, if sizes are shares and there are several.
fn ratio_plot(report: &Report, sizes: &[&str]) -> Option<Finding> {
    if sizes.len() < 2 || sizes.iter().any(|size| percent(size) == 0.0) {
        return None;
    }
    let series = traces(report).into_iter().map(|trace| {
        let runs = runs_of(report, trace);
        let point = |run: &&Run| Some((percent(&run.size), to_lru(run)?));
        let mut points: Vec<_> = runs.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series {
            label: trace.to_owned(),
            points,
        }
    });
    let plot = Plot {
        title: "Cellar's misses over those of LRU in the same bytes".to_owned(),
        x: Axis {
            label: "memory, percent of the footprint".to_owned(),
            scale: Scale::Logarithmic,
        },
        y: Axis {
            label: "misses over LRU's".to_owned(),
            scale: Scale::Linear,
        },
        series: series.collect(),
    };
    Some(Finding::Plot {
        name: "ratios".to_owned(),
        plot,
    })
}

fn meaning(report: &Report, sizes: &[&str]) -> String {
    let mut text = String::new();
    for size in sizes {
        let runs = report.runs.iter().filter(|run| run.size == *size);
        if let Some(summary) = Summary::of(runs) {
            let _ = write!(
                text,
                "At {size} Cellar misses {:.3} times as often as LRU (geometric mean of {} \
                 traces), {:.3} times at worst. ",
                summary.geometric_mean, summary.traces, summary.worst
            );
        }
    }
    let dead = report.runs.iter().map(|run| run.dead_at_eviction_max_pct);
    let _ = write!(
        text,
        "When a live item had to leave, at most {:.1} % of the memory was dead.",
        dead.fold(0.0, f64::max)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::baseline::Tally;
    use crate::replay::play::{Misses, Played};
    use crate::replay::size::Size;

    fn run(trace: &str, percent: f64, misses: u64, lru_misses: u64) -> Run {
        let played = Played {
            requests: 1000,
            hits: 1000 - misses,
            misses: Misses {
                evicted: misses,
                ..Misses::default()
            },
            ..Played::default()
        };
        let lru = Tally {
            hits: 1000 - lru_misses,
            misses: lru_misses,
        };
        Run::of(
            trace,
            Size::Percent(percent),
            1 << 20,
            &played,
            &[(Baseline::Lru, lru)],
        )
    }

    fn report(runs: Vec<Run>) -> Report {
        Report {
            setting: crate::machine::Setting::here(),
            title: "Misses".to_owned(),
            baselines: vec![Baseline::Lru],
            baseline_overhead_bytes: 17,
            stretch: None,
            runs,
            skipped: Vec::new(),
        }
    }

    #[test]
    fn a_page_has_each_ratio_their_mean_and_the_worst() {
        let runs = vec![
            run("a", 10.0, 450, 500),
            run("a", 5.0, 500, 500),
            run("b", 10.0, 160, 400),
        ];
        let report = report(runs);
        let page = page(&report);
        let Finding::Text(table) = &page.findings[1] else {
            panic!("the table comes first");
        };
        for row in [
            "| trace | 5 % | 10 % |",
            "| a | 1.000 | 0.900 |",
            "| b | - | 0.400 |",
            "| **geometric mean** | 1.000 | 0.600 |",
            "| **worst** | 1.000 | 0.900 |",
        ] {
            assert!(table.contains(row), "{row} in {table}");
        }
        let plots = page.findings.iter().filter_map(|finding| match finding {
            Finding::Plot { name, .. } => Some(name.as_str()),
            Finding::Text(_) => None,
        });
        assert_eq!(plots.collect::<Vec<_>>(), ["ratios", "a", "b"]);
        assert!(page.meaning.contains("At 10 % Cellar misses 0.600 times"));
    }

    #[test]
    fn goals_are_read_off_for_each_share_and_for_all() {
        let mut runs = vec![
            run("a", 10.0, 450, 500),
            run("b", 10.0, 545, 500),
            run("a", 5.0, 400, 500),
        ];
        runs[1].evicted = 3;
        runs[1].dead_at_eviction_max_pct = 6.5;
        // No live item had to leave, so it does not matter how much was dead.
        runs[2].dead_at_eviction_max_pct = 60.0;
        let report = report(runs);
        let table = goal::table(&goals(&report, &sizes(&report)));
        for row in [
            "| misses over LRU's, geometric mean, 5 % | <= 0.95 | 0.800 | reached |",
            "| misses over LRU's, geometric mean, 10 % | <= 0.95 | 0.990 | MISSED |",
            "| misses over LRU's, worst, 10 %: b at 10 % | <= 1.06 | 1.090 | MISSED |",
            "| misses over LRU's, geometric mean, all sizes | <= 0.95 | 0.922 | reached |",
            "most of 1 runs in which any had to: b at 10 % | <= 6 | 6.50 | MISSED |",
        ] {
            assert!(table.contains(row), "{row} in {table}");
        }
    }

    #[test]
    fn misses_in_fixed_sizes_are_no_goal() {
        let mut one = run("a", 10.0, 545, 500);
        one.size = Size::Bytes(16 << 20).to_string();
        let report = report(vec![one]);
        assert_eq!(goals(&report, &sizes(&report)), []);
    }
}

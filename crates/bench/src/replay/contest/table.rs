//! The contest's table and its page.

use std::fmt::Write;

use super::{Contest, Outcome};
use crate::page::{Finding, Page};
use crate::plot::{Axis, Plot, Scale, Series};
use crate::replay::report::share;
use crate::replay::size::binary;

const CELLAR: &str = "cellar";
const QUESTION: &str =
    "Which server misses least when each may take the same resident memory for all it does?";
const METHOD: &str = "Each trace is replayed over one connection against one server after the \
    other, on one machine: gets and sets in batches of at most 64 with different keys, a miss \
    followed by a set, every value checked. Each server is told the amount of memory with which \
    the largest resident size of its process (VmHWM) just stays below the limit; it is found by \
    trial. memcached and Cellar run one thread; redis-server runs without persistence.";
const LIMITS: &str = "TTLs of the traces are left out, because a server's clock is not the \
    trace's. In a small limit the base of a process weighs more than its policy. memcached's \
    setting moves in whole MiB. Nothing is said about speed.";

/// The table in Markdown.
pub(super) fn render(contest: &Contest) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(contest, &mut text);
    text
}

fn write_table(contest: &Contest, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "| trace | limit | server | told | RSS at the end | RSS at most | misses | miss % | \
         x cellar |\n|---|---|---|---|---|---|---|---|---|"
    )?;
    for outcome in &contest.results {
        let ratio = cellar_of(contest, outcome)
            .map(|cellar| format!("{:.3}", share(outcome.misses, cellar.misses)));
        writeln!(
            text,
            "| {} | {} | {} {} | {} | {} | {}{} | {} | {:.2} | {} |",
            outcome.trace,
            binary(outcome.rss_limit_bytes),
            outcome.server,
            outcome.version,
            binary(outcome.memory_bytes),
            binary(outcome.rss_end_bytes),
            binary(outcome.rss_peak_bytes),
            if outcome.fits { "" } else { " (does not fit)" },
            outcome.misses,
            outcome.miss_ratio * 100.0,
            ratio.as_deref().unwrap_or("-"),
        )?;
    }
    let refused = contest.results.iter().filter(|outcome| outcome.refused > 0);
    for (place, outcome) in refused.enumerate() {
        writeln!(
            text,
            "{}- {} refused {} values of {} as too large",
            if place == 0 { "\n" } else { "" },
            outcome.server,
            outcome.refused,
            outcome.trace
        )?;
    }
    Ok(())
}

/// What Cellar did with the same trace and limit.
fn cellar_of<'c>(contest: &'c Contest, outcome: &Outcome) -> Option<&'c Outcome> {
    contest.results.iter().find(|other| {
        other.server == CELLAR
            && other.trace == outcome.trace
            && other.rss_limit_bytes == outcome.rss_limit_bytes
    })
}

/// The page: the table, and misses over memory where there are several limits.
pub(super) fn page(contest: &Contest) -> Page {
    let mut findings = vec![Finding::Text(render(contest))];
    for trace in distinct(contest.results.iter().map(|outcome| outcome.trace.as_str())) {
        let plot = plot(contest, trace);
        if plot.series.iter().any(|series| series.points.len() > 1) {
            findings.push(Finding::Plot {
                name: trace.to_owned(),
                plot,
            });
        }
    }
    Page {
        title: "Misses in the same resident memory".to_owned(),
        question: QUESTION.to_owned(),
        method: METHOD.to_owned(),
        findings,
        meaning: meaning(contest),
        limits: LIMITS.to_owned(),
        setting: contest.setting.clone(),
    }
}

fn distinct<'c>(names: impl Iterator<Item = &'c str>) -> Vec<&'c str> {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    distinct
}

#[expect(clippy::cast_precision_loss, reason = "shown on an axis")]
fn plot(contest: &Contest, trace: &str) -> Plot {
    let of_trace = || {
        contest
            .results
            .iter()
            .filter(|outcome| outcome.trace == trace)
    };
    let servers = distinct(of_trace().map(|outcome| outcome.server.as_str()));
    let series = servers.into_iter().map(|server| Series {
        label: server.to_owned(),
        points: of_trace()
            .filter(|outcome| outcome.server == server && outcome.fits)
            .map(|outcome| {
                let mib = outcome.rss_limit_bytes as f64 / f64::from(1 << 20);
                (mib, outcome.miss_ratio)
            })
            .collect(),
    });
    Plot {
        title: format!("Misses of {trace} over resident memory"),
        x: Axis {
            label: "resident memory, MiB".to_owned(),
            scale: Scale::Logarithmic,
        },
        y: Axis {
            label: "miss ratio".to_owned(),
            scale: Scale::Linear,
        },
        series: series.collect(),
    }
}

/// For each other server, how its misses compare with Cellar's.
fn meaning(contest: &Contest) -> String {
    let mut sentences = Vec::new();
    let servers = contest
        .results
        .iter()
        .map(|outcome| outcome.server.as_str());
    for server in distinct(servers)
        .into_iter()
        .filter(|&server| server != CELLAR)
    {
        let ratios = contest.results.iter().filter_map(|outcome| {
            let cellar = cellar_of(contest, outcome)?;
            (outcome.server == server && outcome.fits && cellar.fits)
                .then(|| share(outcome.misses, cellar.misses))
        });
        let ratios: Vec<f64> = ratios.collect();
        let (low, high) = ratios.iter().fold((f64::MAX, 0.0), |(low, high), &ratio| {
            (ratio.min(low), ratio.max(high))
        });
        sentences.push(match ratios.len() {
            0 => format!("{server} does not fit in the memory."),
            1 => format!("{server} misses {low:.2} times as often as Cellar."),
            _ => format!("{server} misses {low:.2} to {high:.2} times as often as Cellar."),
        });
    }
    sentences.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Setting;

    fn outcome(server: &str, limit_mib: u64, misses: u64, fits: bool) -> Outcome {
        Outcome {
            trace: "t".to_owned(),
            rss_limit_bytes: limit_mib << 20,
            server: server.to_owned(),
            version: "1.0".to_owned(),
            fits,
            trials: 2,
            memory_bytes: (limit_mib - 2) << 20,
            rss_end_bytes: limit_mib << 20,
            rss_peak_bytes: limit_mib << 20,
            requests: 1000,
            hits: 1000 - misses,
            misses,
            miss_ratio: share(misses, 1000),
            refused: 0,
            ttl_left_out: false,
        }
    }

    #[test]
    fn each_server_is_compared_with_cellar_at_the_same_limit() {
        let contest = Contest {
            setting: Setting::here(),
            results: vec![
                outcome(CELLAR, 32, 400, true),
                outcome("memcached", 32, 500, true),
                outcome("redis-server", 32, 900, false),
                outcome(CELLAR, 64, 200, true),
                outcome("memcached", 64, 300, true),
            ],
        };
        let table = render(&contest);
        for part in [
            "memcached 1.0 | 30 MiB | 32 MiB | 32 MiB | 500 | 50.00 | 1.250 |",
            "32 MiB (does not fit) | 900 |",
            "| 300 | 30.00 | 1.500 |",
        ] {
            assert!(table.contains(part), "{part} in {table}");
        }
        let page = page(&contest);
        assert_eq!(page.findings.len(), 2);
        let meaning = "memcached misses 1.25 to 1.50 times as often as Cellar. \
                       redis-server does not fit in the memory.";
        assert_eq!(page.meaning, meaning);
    }
}

//! The contest's table and its page.

use std::fmt::Write;

use super::{Contest, Outcome, started};
use crate::page::{Finding, Page, distinct};
use crate::plot::{Axis, Plot, Scale, Series};
use crate::replay::report::share;
use crate::replay::size::binary;
use crate::versus::Versus;

const CELLAR: &str = "cellar";
const QUESTION: &str =
    "Which server misses least when each may take the same resident memory for all it does?";
const METHOD: &str = "Each trace is replayed over one connection for each server: gets and sets \
    in batches of at most 64 with different keys, a miss followed by a set, every value checked. \
    Each server is told the amount of memory with which the largest resident size of its process \
    (`VmHWM`) stays just below the limit; it is found by trial, with a fresh server each time. All \
    servers of a trace run beside each other, each with its own replay. memcached and Cellar run \
    one thread; redis-server runs without persistence; all else is as delivered.";
const LIMITS: &str = "The traces' own times and TTLs are left out: their requests come at an even \
    pace and much faster than they once did. redis-server's LFU forgets by the minute, so that \
    over hours it may do better or worse than here. In a \
    small limit the base of a process weighs more than its policy. memcached's setting moves in \
    whole MiB and it keeps a page of 1 MiB for each class of sizes that was ever used, whatever \
    its limit. Values longer than 1 MiB are refused by Cellar and memcached as delivered, and \
    missed again; memcached refuses a few shorter ones too; all that was refused is listed. Each \
    figure is that of one replay; two of them differ by about a thousandth. A trace that asks for \
    no key again after it could have left, such as corda, tells no policy from another. A server \
    may stay below the limit because its next setting does not fit: its peak is in the table. \
    Nothing is said about speed.";
/// A miss more or less in so many is no difference: two replays differ by as much.
const EVEN: f64 = 0.001;

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
        "| trace | mean item B | limit | server | told | RSS at the end | RSS at most | misses \
         | miss % | x cellar |\n|---|---|---|---|---|---|---|---|---|---|"
    )?;
    for outcome in &contest.results {
        let ratio = cellar_of(contest, outcome)
            .map(|cellar| format!("{:.3}", share(outcome.misses, cellar.misses)));
        writeln!(
            text,
            "| {} | {} | {} | {} {} | {} | {} | {}{} | {} | {:.2} | {} |",
            outcome.trace,
            outcome.footprint_bytes / outcome.keys.max(1) as u64,
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
            "{}- {} refused {} stores of {} within {}",
            if place == 0 { "\n" } else { "" },
            outcome.server,
            outcome.refused,
            outcome.trace,
            binary(outcome.rss_limit_bytes)
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
    let mut findings = vec![
        Finding::Text(verdict(contest)),
        Finding::Text(summary(contest)),
    ];
    // Nobody's misses are over Cellar's where Cellar takes no part or too much memory.
    let misses = ratios(contest);
    if !misses.series.is_empty() {
        findings.push(Finding::Plot {
            name: "misses".to_owned(),
            plot: misses,
        });
    }
    findings.push(Finding::Text(render(contest)));
    for trace in distinct(contest.results.iter().map(|outcome| outcome.trace.as_str())) {
        let plot = plot(contest, trace);
        if plot.series.iter().any(|series| series.points.len() > 2) {
            findings.push(Finding::Plot {
                name: trace.to_owned(),
                plot,
            });
        }
    }
    Page {
        title: "Misses in the same resident memory".to_owned(),
        question: QUESTION.to_owned(),
        method: method(contest),
        versus: versus(contest),
        headline: None,
        findings,
        meaning: meaning(contest),
        limits: LIMITS.to_owned(),
        setting: contest.setting.clone(),
    }
}

fn method(contest: &Contest) -> String {
    let lasting_s = contest.lasting_s;
    let mut text = format!(
        "{METHOD} Each replay lasts at least {lasting_s} s: in a faster one redis-server's LRU, \
         which tells ages in whole seconds, misses more than it has to."
    );
    if let Some(bytes) = contest.footprint_bytes {
        text += &format!(
            " The values of each trace are made longer or shorter by one factor, so that its keys \
             and values take {} together: otherwise the small traces would fit whole. Only \
             adapt-size has lengths of its own, which differ; those of the others are all the \
             same, which suits memcached's classes of sizes.",
            binary(bytes)
        );
    }
    if let Some(requests) = contest.requests_max {
        text += &format!(" At most the first {requests} requests of a trace are replayed.");
    }
    text + &started()
}

/// Misses of Cellar and of each server that fits in the same memory.
#[expect(clippy::cast_precision_loss, reason = "a display")]
fn versus(contest: &Contest) -> Vec<Versus> {
    let rivals = contest.results.iter().filter(|it| it.server != CELLAR);
    let compared = rivals.filter_map(|rival| {
        let cellar = cellar_of(contest, rival).filter(|_| ratio(contest, rival).is_some())?;
        let what = format!("misses, {}, {}", rival.trace, binary(rival.rss_limit_bytes));
        let (ours, theirs) = (cellar.misses as f64, rival.misses as f64);
        Some(Versus::less(what, ours, &rival.server, theirs))
    });
    compared.collect()
}

/// Where Cellar loses, before all else.
fn verdict(contest: &Contest) -> String {
    let mut rivals = 0;
    let (mut lost, mut even, mut unfit) = (Vec::new(), Vec::new(), Vec::new());
    for outcome in contest.results.iter().filter(|it| it.server != CELLAR) {
        let limit = binary(outcome.rss_limit_bytes);
        let Some(ratio) = ratio(contest, outcome) else {
            let cell = cell(contest, outcome);
            unfit.push(format!(
                "{}, {}, {limit} {cell}",
                outcome.server, outcome.trace
            ));
            continue;
        };
        rivals += 1;
        let place = format!(
            "{} ({}, {limit}: {ratio:.3})",
            outcome.server, outcome.trace
        );
        if ratio < 1.0 - EVEN {
            lost.push(place);
        } else if ratio <= 1.0 + EVEN {
            even.push(place);
        }
    }
    let won = rivals - lost.len() - even.len();
    let mut text = match lost.len() {
        0 => "Cellar loses to no server here.".to_owned(),
        _ => format!("**Cellar misses more than** {}.", lost.join(", ")),
    };
    if !even.is_empty() {
        text += &format!(
            " It is even, within a thousandth, with {}.",
            even.join(", ")
        );
    }
    if !unfit.is_empty() {
        text += &format!(
            " Whoever takes too much memory is not compared: {}.",
            unfit.join("; ")
        );
    }
    text + &format!(" It misses less in {won} of {rivals} comparisons in the same memory.")
}

/// A row for each trace and limit: Cellar's misses, and those of the others over them.
fn summary(contest: &Contest) -> String {
    let results = || contest.results.iter();
    let servers = distinct(results().map(|outcome| outcome.server.as_str()));
    let others: Vec<&str> = servers.into_iter().filter(|it| *it != CELLAR).collect();
    let mut text = format!(
        "Misses over those of Cellar in the same resident memory; above 1 is worse than Cellar, \
         in brackets with more memory than allowed:\n\n\
         | trace | limit | cellar misses % | {} |\n|---|---|---|{}\n",
        others.join(" | "),
        "---|".repeat(others.len()),
    );
    for cellar in results().filter(|outcome| outcome.server == CELLAR) {
        let ratios = others.iter().map(|server| {
            let rival = results().find(|outcome| {
                outcome.server == *server
                    && outcome.trace == cellar.trace
                    && outcome.rss_limit_bytes == cellar.rss_limit_bytes
            });
            rival.map_or_else(|| "-".to_owned(), |rival| cell(contest, rival))
        });
        let ratios: Vec<String> = ratios.collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {} |",
            cellar.trace,
            binary(cellar.rss_limit_bytes),
            cellar.miss_ratio * 100.0,
            ratios.join(" | "),
        );
    }
    text
}

/// Misses over Cellar's; with the memory they took if that is too much.
fn cell(contest: &Contest, rival: &Outcome) -> String {
    match (ratio(contest, rival), cellar_of(contest, rival)) {
        (Some(ratio), _) => format!("{ratio:.3}"),
        (None, Some(cellar)) => format!(
            "({:.3} in {})",
            share(rival.misses, cellar.misses),
            binary(rival.rss_peak_bytes)
        ),
        (None, None) => "-".to_owned(),
    }
}

/// Misses over Cellar's, if both fit in the same memory.
fn ratio(contest: &Contest, outcome: &Outcome) -> Option<f64> {
    let cellar = cellar_of(contest, outcome)?;
    (outcome.fits && cellar.fits).then(|| share(outcome.misses, cellar.misses))
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

/// The misses of those that fit over Cellar's, for each trace and limit.
fn ratios(contest: &Contest) -> Plot {
    let cells = contest.results.iter().filter_map(|outcome| {
        let row = format!("{} {}", outcome.trace, outcome.rss_limit_bytes);
        Some((row, outcome.server.clone(), ratio(contest, outcome)?))
    });
    let y = Axis {
        label: "misses over those of Cellar".to_owned(),
        scale: Scale::Linear,
    };
    let title = "Misses in the same resident memory, over those of Cellar";
    Plot::of_rows(title, "trace and limit", y, cells)
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
        let its = contest.results.iter().filter(|it| it.server == server);
        let ratios: Vec<f64> = its.filter_map(|outcome| ratio(contest, outcome)).collect();
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
            keys: 1000,
            footprint_bytes: 256 << 20,
            refused: 0,
            seconds: 30.0,
            ttl_left_out: false,
        }
    }

    #[test]
    fn each_server_is_compared_with_cellar_at_the_same_limit() {
        let contest = Contest {
            setting: Setting::here(),
            lasting_s: 30,
            footprint_bytes: Some(256 << 20),
            requests_max: None,
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
        let summary = summary(&contest);
        for line in [
            "| t | 32 MiB | 40.00 | 1.250 | (2.250 in 32 MiB) |",
            "| t | 64 MiB | 20.00 | 1.500 | - |",
        ] {
            assert!(summary.contains(line), "{summary}");
        }
        let page = page(&contest);
        assert_eq!(page.findings.len(), 4);
        let meaning = "memcached misses 1.25 to 1.50 times as often as Cellar. \
                       redis-server does not fit in the memory.";
        assert_eq!(page.meaning, meaning);
    }

    #[test]
    fn where_cellar_loses_is_said_first() {
        let contest = |misses: [u64; 3]| Contest {
            setting: Setting::here(),
            lasting_s: 30,
            footprint_bytes: Some(256 << 20),
            requests_max: None,
            results: vec![
                outcome(CELLAR, 32, 400, true),
                outcome("a", 32, misses[0], true),
                outcome("b", 32, misses[1], true),
                outcome("c", 32, misses[2], true),
            ],
        };
        assert_eq!(
            verdict(&contest([300, 400, 500])),
            "**Cellar misses more than** a (t, 32 MiB: 0.750). It is even, within a thousandth, \
             with b (t, 32 MiB: 1.000). It misses less in 1 of 3 comparisons in the same memory."
        );
        assert_eq!(
            verdict(&contest([500, 600, 500])),
            "Cellar loses to no server here. It misses less in 3 of 3 comparisons in the same \
             memory."
        );
        let mut unfit = contest([500, 600, 300]);
        unfit.results[3].fits = false;
        assert_eq!(
            verdict(&unfit),
            "Cellar loses to no server here. Whoever takes too much memory is not compared: c, t, \
             32 MiB (0.750 in 32 MiB). It misses less in 2 of 2 comparisons in the same memory."
        );
    }
}

//! What a mass expiry costs, told: the table for the terminal, and the page with its plots.

use std::fmt::Write;

use super::{Outcome, Point, RELEASE_MEMORY, SHOWN_S, ServerResult, Slice, redis};
use crate::goal::{self, Goal};
use crate::page::{Finding, Headline, Page};
use crate::peers::started_as;
use crate::plot::{Axis, Plot, Scale, Series};
use crate::process::Recipe;
use crate::spread::short;
use crate::versus::Versus;

/// p99.9 across the mass expiry over that of the same load before it: the most that is allowed.
const GOAL_RATIO: f64 = 1.2;
const MIB: f64 = 1_048_576.0;

/// The tables, and where their numbers come from.
pub(super) fn render(outcome: &Outcome) -> String {
    format!(
        "{}\n\n{}\n{}\n{}\nFrom {}.\n",
        scenario(outcome),
        memory(outcome),
        latencies(outcome),
        goals(outcome),
        outcome.setting
    )
}

fn scenario(outcome: &Outcome) -> String {
    format!(
        "{} items that stay, {} whose time is over {}; {} B values, server on one processor, {} \
         gets/s over {} connections from another; medians [smallest..largest] of {} rounds.",
        short(count(outcome.live)),
        short(count(outcome.dying)),
        when(outcome),
        outcome.value_bytes,
        short(count(outcome.rate_per_s)),
        outcome.connections,
        outcome.rounds,
    )
}

fn when(outcome: &Outcome) -> String {
    match outcome.deadlines_over_s {
        1 => "in one second".to_owned(),
        s => format!("within {s} seconds"),
    }
}

fn memory(outcome: &Outcome) -> String {
    let mut text = "| server | bytes per item |".to_owned();
    for s in SHOWN_S {
        let _ = write!(text, " held by the dead after {s} s |");
    }
    text += " 99 % reclaimed after | held at the end | resident before | and at the end |\n";
    text += &"|---".repeat(SHOWN_S.len() + 6);
    text += "|\n";
    let last_s = count(outcome.deadlines_over_s - 1);
    for server in &outcome.servers {
        let memory = &server.memory;
        let _ = write!(text, "| {} | {:.0} |", titled(server), memory.item_bytes);
        for s in SHOWN_S {
            let _ = write!(
                text,
                " {} |",
                at(&memory.points, last_s + count(s)).map_or_else(
                    || "not watched so long".to_owned(),
                    |point| format!("{:.1} MiB", point.dead_bytes / MIB)
                )
            );
        }
        let end = memory.points.last();
        let _ = writeln!(
            text,
            " {} | {:.1} MiB | {:.0} MiB | {:.0} MiB |",
            memory.reclaimed_after_s.map_or_else(
                || format!(
                    "not within {:.0} s",
                    end.map_or(0.0, |point| point.at_s - last_s)
                ),
                |s| format!("{s:.1} s")
            ),
            end.map_or(0.0, |point| point.dead_bytes) / MIB,
            count(memory.before.rss_bytes) / MIB,
            count(end.map_or(0, |point| point.figures.rss_bytes)) / MIB,
        );
    }
    text
}

/// The first point at or after a moment.
fn at(points: &[Point], at_s: f64) -> Option<&Point> {
    points.iter().find(|point| point.at_s >= at_s)
}

fn latencies(outcome: &Outcome) -> String {
    let mut text =
        "| server | p99.9 before, us | during, us | during / before | worst half second \
                    / before | nothing expires |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for server in &outcome.servers {
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} | {:.2} | {:.2} | {} |",
            titled(server),
            server.latency_us_p99_9_before,
            server.latency_us_p99_9_during,
            server.ratio,
            server.ratio_worst_slice,
            match &server.ratio_control {
                Some(ratio) => format!("{ratio:.2}"),
                None => "not measured".to_owned(),
            },
        );
    }
    for server in outcome.servers.iter().filter(|server| server.misses > 0) {
        let _ = writeln!(
            text,
            "\n{}: {} gets for items that stay were misses or refused, so its figures are not \
             comparable.",
            server.server, server.misses
        );
    }
    text
}

fn goals(outcome: &Outcome) -> String {
    let servers = outcome.servers.iter();
    let cellars = servers.filter(|server| server.server.starts_with("cellar"));
    let goals = cellars.map(|server| {
        let what = format!("p99.9 of gets, during over before, {}", server.server);
        Goal::at_most(what, GOAL_RATIO, server.ratio.median, 2)
    });
    goal::table(&goals.collect::<Vec<_>>())
}

fn titled(server: &ServerResult) -> String {
    format!("{} ({})", server.server, server.version)
}

/// The page.
pub(super) fn page(outcome: &Outcome) -> Page {
    let dying = short(count(outcome.dying));
    let plots = [
        ("dead", dead_plot(outcome)),
        ("resident", resident_plot(outcome)),
        ("latency", latency_plot(outcome)),
    ];
    let tables = [memory(outcome), latencies(outcome), goals(outcome)];
    let tables = tables.into_iter().filter(|table| !table.is_empty());
    let plots = plots.map(|(name, plot)| Finding::Plot {
        name: name.to_owned(),
        plot,
    });
    Page {
        title: "Expiry: who holds memory for the dead".to_owned(),
        question: format!(
            "The time of {dying} items is over {}. How long does their memory stay with the dead, \
             and do requests for other items notice?",
            when(outcome)
        ),
        method: method(outcome),
        versus: versus(outcome),
        headline: headline(outcome),
        findings: tables.map(Finding::Text).chain(plots).collect(),
        meaning: meaning(outcome),
        limits: format!("{}{LIMITS}", if outcome.mixed { "" } else { APART }),
        setting: outcome.setting.clone(),
    }
}

/// The first Cellar beside each other server with as many databases.
fn versus(outcome: &Outcome) -> Vec<Versus> {
    let mut all = Vec::new();
    for peer in outcome.servers.iter().filter(|it| !is_cellar(it)) {
        let mut own = outcome.servers.iter().filter(|it| is_cellar(it));
        let Some(own) = own.find(|own| own.databases == peer.databases) else {
            continue;
        };
        let mut less = |what: &str, figure: fn(&ServerResult) -> f64| {
            all.push(Versus::less(what, figure(own), &peer.server, figure(peer)));
        };
        less("seconds until 99 % of the dead are gone", |it| {
            it.memory.reclaimed_after_s.unwrap_or(f64::INFINITY)
        });
        less("bytes per item", |it| it.memory.item_bytes);
        less("p99.9 before, us", |it| it.latency_us_p99_9_before.median);
        less("p99.9 during, us", |it| it.latency_us_p99_9_during.median);
        less("p99.9, during over before", |it| it.ratio.median);
        less("p99.9, worst half second over before", |it| {
            it.ratio_worst_slice.median
        });
        less("resident at the end, MiB", |it| {
            let last = it.memory.points.last();
            last.map_or(0.0, |point| count(point.figures.rss_bytes) / MIB)
        });
    }
    all
}

fn is_cellar(server: &ServerResult) -> bool {
    server.server.starts_with("cellar")
}

/// What the dead hold soon after their time, and what their leaving does to the tail of others.
fn headline(outcome: &Outcome) -> Option<Headline> {
    let after_s = SHOWN_S[0];
    let last_s = count(outcome.deadlines_over_s - 1);
    let told = |server: &ServerResult| {
        let held = at(&server.memory.points, last_s + count(after_s));
        let held = held.map_or(0.0, |it| count(it.dead_items) / count(outcome.dying.max(1)));
        format!(
            "{}: {:.0} % of the dead held after {after_s} s, p99.9 x {:.2}",
            server.server,
            held * 100.0,
            server.ratio.median
        )
    };
    let peers = outcome.servers.iter().filter(|it| !is_cellar(it)).map(told);
    let ours = outcome.servers.iter().filter(|it| is_cellar(it)).map(told);
    Some(Headline {
        ours: ours.collect::<Vec<_>>().join("; "),
        peers: peers.collect::<Vec<_>>().join("; "),
    })
}

const APART: &str = "\
The two kinds of items were stored one after the other, so the dead lie together: good for a \
server that frees memory in stretches, such as Cellar, without meaning to those that free item by \
item; `--mixed` shows the other case. ";

const LIMITS: &str = "\
Nobody asks for the dead here; a request for one frees it at once in every server. What the dead \
hold is counted in items by the servers' own figures, times the bytes of an item when all were \
stored; what an allocator keeps beside that shows in the resident memory only. A server with a \
processor to spare for this work would disturb its requests less: here each has one for \
everything. The load and the network stack of the same machine are part of every latency, and \
where two processors are all there are, of its tail.";

const CONTROL: &str = " `Nothing expires` is the same ratio in a load of the same length on the \
                       same server before the dying items came: what the machine alone does.";

fn method(outcome: &Outcome) -> String {
    format!(
        "Every server has one processor, {} MiB and nothing to evict. It is filled with {} items \
         that stay ({}) and {} {} more, whose deadlines are absolute seconds (memcached's exptime, \
         Redis' EXAT), {}. A load begins when the server has come to rest: when it took less \
         than a twentieth of its processor for a second. Gets for the items that stay come at {} \
         per second over {} connections whatever the server does; latency counts from the moment \
         a request was due. `before` is the last {} s before the first deadline, `during` the {} s \
         after it.{} Each round starts every server afresh. Memory was watched in one more run, \
         ten times a second.",
        outcome.memory_mib,
        short(count(outcome.live)),
        match outcome.live_ttl_s {
            0 => "no deadline".to_owned(),
            s => format!("deadline {s} s ahead"),
        },
        if outcome.mixed {
            "at the same time"
        } else {
            "then"
        },
        short(count(outcome.dying)),
        when(outcome),
        short(count(outcome.rate_per_s)),
        outcome.connections,
        outcome.before_s,
        outcome.during_s,
        if outcome.mixed { "" } else { CONTROL },
    ) + if outcome.servers.iter().any(|server| server.databases > 1) {
        DATABASES
    } else {
        ""
    } + &started()
}

/// How the servers are started; those with many databases have `--databases` besides.
fn started() -> String {
    let cellar = Recipe::cellar("cellar", &[]);
    let mut releasing = cellar.clone().named("cellar --release-memory");
    releasing.words.push(RELEASE_MEMORY.to_owned());
    let redis = [1, 10].map(|effort| redis("redis-server", effort));
    started_as(&[&[cellar, releasing], redis.as_slice()].concat())
}

const DATABASES: &str = " With several databases the same numbers of items are spread over them \
                         evenly, each connection asks in one of them, and Cellar too is asked over \
                         the Redis protocol; otherwise Cellar is asked over memcached's.";

/// One sentence for each server, the same for all.
fn meaning(outcome: &Outcome) -> String {
    let mut text = String::new();
    for server in &outcome.servers {
        let _ = write!(text, "- {}: ", server.server);
        let _ = match server.memory.reclaimed_after_s {
            Some(s) => write!(
                text,
                "99 % of the dead are gone {s:.1} s after the last deadline"
            ),
            None => write!(text, "more than 1 % of the dead are still there at the end"),
        };
        let ratio = server.ratio.median;
        let control = server.ratio_control.as_ref().map_or(0.0, |it| it.median);
        let _ = write!(
            text,
            "; the tail of other requests (p99.9) is {ratio:.2} times what it was"
        );
        if control > GOAL_RATIO {
            let _ = write!(text, ", {control:.2} times without any expiry");
        }
        let verdict = if ratio <= GOAL_RATIO {
            "they do not notice"
        } else if ratio <= control * GOAL_RATIO {
            "not to be told from noise"
        } else {
            "they notice"
        };
        let _ = writeln!(text, ": {verdict}.");
    }
    let best = |figure: fn(&ServerResult) -> f64| {
        let servers = outcome.servers.iter();
        servers.min_by(|a, b| figure(a).total_cmp(&figure(b)))
    };
    let soonest = best(|server| server.memory.reclaimed_after_s.unwrap_or(f64::MAX));
    let calmest = best(|server| server.ratio.median);
    if let (Some(soonest), Some(calmest)) = (soonest, calmest) {
        let _ = writeln!(
            text,
            "\nSoonest rid of the dead: {}. Least disturbed: {}.",
            soonest.server, calmest.server
        );
    }
    text
}

fn dead_plot(outcome: &Outcome) -> Plot {
    let bytes = |server: &ServerResult| {
        let points = server.memory.points.iter();
        points
            .map(|point| (point.at_s, point.dead_bytes / MIB))
            .collect()
    };
    plot(
        outcome,
        "Memory held by items that are over",
        "MiB",
        Scale::Linear,
        bytes,
    )
}

fn resident_plot(outcome: &Outcome) -> Plot {
    let bytes = |server: &ServerResult| {
        let points = server.memory.points.iter();
        let resident = |point: &Point| count(point.figures.rss_bytes) / MIB;
        points.map(|point| (point.at_s, resident(point))).collect()
    };
    plot(
        outcome,
        "Resident memory of the server",
        "MiB",
        Scale::Linear,
        bytes,
    )
}

fn latency_plot(outcome: &Outcome) -> Plot {
    let tail = |slice: &Slice| (slice.at_s, slice.latency_us_p99_9.max(1.0));
    let slices = |server: &ServerResult| server.slices.iter().map(tail).collect();
    let title = "p99.9 of gets for other items, by the half second";
    plot(outcome, title, "us", Scale::Logarithmic, slices)
}

/// One line for each server over the time around the moment.
fn plot(
    outcome: &Outcome,
    title: &str,
    unit: &str,
    scale: Scale,
    points: impl Fn(&ServerResult) -> Vec<(f64, f64)>,
) -> Plot {
    let series = outcome.servers.iter().map(|server| Series {
        label: server.server.clone(),
        points: points(server),
    });
    Plot {
        title: title.to_owned(),
        x: Axis {
            label: "seconds after the first deadline".to_owned(),
            scale: Scale::Linear,
        },
        y: Axis {
            label: unit.to_owned(),
            scale,
        },
        series: series.collect(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a display")]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expiry::Watched;
    use crate::expiry::figures::Figures;
    use crate::machine::Setting;
    use crate::spread::Spread;

    fn server(name: &str, ratio: f64, reclaimed_after_s: Option<f64>) -> ServerResult {
        let point = |at_s: f64, dead_items: u64| Point {
            at_s,
            dead_items,
            dead_bytes: count(dead_items) * MIB,
            figures: Figures {
                rss_bytes: 7 << 20,
                ..Figures::default()
            },
        };
        ServerResult {
            server: name.to_owned(),
            databases: 1,
            version: "1".to_owned(),
            memory: Watched {
                item_bytes: 120.0,
                before: Figures::default(),
                points: vec![point(-1.0, 0), point(1.0, 40), point(6.0, 3)],
                reclaimed_after_s,
            },
            latency_us_p99_9_before: Spread::of(vec![100.0]),
            latency_us_p99_9_during: Spread::of(vec![100.0 * ratio]),
            ratio: Spread::of(vec![ratio]),
            ratio_worst_slice: Spread::of(vec![ratio * 2.0]),
            ratio_control: Some(Spread::of(vec![1.05])),
            misses: 0,
            runs: vec![],
            slices: vec![Slice {
                at_s: 0.25,
                latency_us_p99_9: 110.0,
                latency_us_max: 900.0,
            }],
        }
    }

    fn outcome(servers: Vec<ServerResult>) -> Outcome {
        Outcome {
            setting: Setting::here(),
            live: 1_000_000,
            live_ttl_s: 86_400,
            dying: 1_000_000,
            deadlines_over_s: 1,
            mixed: false,
            value_bytes: 100,
            memory_mib: 1024,
            connections: 50,
            rate_per_s: 20_000,
            before_s: 5,
            during_s: 10,
            rounds: 1,
            servers,
        }
    }

    #[test]
    fn the_tables_tell_what_the_dead_hold_and_for_how_long() {
        let outcome = outcome(vec![
            server("cellar", 1.1, Some(5.2)),
            server("redis, effort 1", 1.9, None),
        ]);
        let text = render(&outcome);
        for part in [
            "| cellar (1) | 120 | 40.0 MiB | 3.0 MiB | not watched so long | 5.2 s | 3.0 MiB |",
            "| redis, effort 1 (1) | 120 | 40.0 MiB | 3.0 MiB | not watched so long | not within",
            "| cellar (1) | 100 | 110 | 1.10 | 2.20 | 1.05 |",
            "| p99.9 of gets, during over before, cellar | <= 1.2 | 1.10 | reached |",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn a_peer_that_wins_is_named_and_a_missed_goal_is_told() {
        let outcome = outcome(vec![
            server("cellar", 1.4, None),
            server("redis, effort 10", 1.0, Some(0.4)),
        ]);
        let text = meaning(&outcome);
        let end = "Soonest rid of the dead: redis, effort 10. Least disturbed: redis, effort 10.";
        assert!(text.contains(end), "{text}");
        assert!(text.contains("cellar: more than 1 %"), "{text}");
        assert!(render(&outcome).contains("| 1.40 | MISSED |"));
        assert_eq!(page(&outcome).findings.len(), 6);
    }

    #[test]
    fn misses_make_figures_incomparable_and_a_missing_control_is_said() {
        let mut cellar = server("cellar", 1.0, Some(1.0));
        cellar.misses = 3;
        cellar.ratio_control = None;
        let text = latencies(&outcome(vec![cellar]));
        assert!(text.contains("3 gets for items that stay"), "{text}");
        assert!(text.contains("| not measured |"), "{text}");
    }
}

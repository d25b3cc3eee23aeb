//! What the stages of the ad service gave, told: tables for the terminal, and the page with plots.

use std::fmt::Write;

use super::sweep::Point;
use super::{Outcome, StageResult};
use crate::goal::{self, Goal};
use crate::page::{Finding, Headline, Page};
use crate::peers::started_as;
use crate::plot::{Axis, Plot, Scale, Series};
use crate::process::Recipe;
use crate::versus::Versus;

/// The last stage over the first, mean and 99.9th percentile: the most that is allowed.
const GOAL_RATIO: f64 = 0.2;
/// Share of ads that are found in the process: the least that is allowed.
const GOAL_HIT_RATIO: f64 = 0.95;
/// The last stage's mean at the highest rate over that at the lowest.
const GOAL_GROWTH: f64 = 1.5;
/// The highest rate that the source measured.
const SOURCE_QPS: u64 = 1000;

/// A figure of a point, in milliseconds.
type Figure = fn(&Point) -> f64;

fn mean_ms(point: &Point) -> f64 {
    point.latency.latency_us_mean / 1000.0
}

fn tail_ms(point: &Point) -> f64 {
    point.latency.latency_us_p99_9 / 1000.0
}

/// One point on a line, for whoever waits.
pub(super) fn line(point: &Point) -> String {
    format!(
        "{} requests/s: mean {:.3} ms, p99.9 {:.3} ms, {:.2} % hits, {} stale of {}{}",
        point.qps,
        mean_ms(point),
        tail_ms(point),
        100.0 * point.hit_ratio,
        point.stale_ads,
        point.ads,
        if point.is_overloaded {
            ", overloaded"
        } else {
            ""
        },
    )
}

/// The tables, and where their numbers come from.
pub(super) fn render(outcome: &Outcome) -> String {
    format!(
        "{}\n\n{}\n{}\n{}\n{}\nFrom {}.\n",
        scenario(outcome),
        latencies(outcome, "mean, ms", mean_ms),
        latencies(outcome, "p99.9, ms", tail_ms),
        shares(outcome),
        goals(outcome),
        outcome.setting
    )
}

fn scenario(outcome: &Outcome) -> String {
    format!(
        "{} ads of {} B of JSON in redis-server {}, {} of them may be held; a request reads {} \
         ads; {} threads; {} ads change each second; {} s for each rate.",
        outcome.ads,
        outcome.ad_bytes,
        outcome.redis_version,
        outcome.held,
        outcome.ads_per_request,
        outcome.threads,
        outcome.changes_per_s,
        outcome.seconds,
    )
}

/// All rates that some stage was measured at.
fn rates(outcome: &Outcome) -> Vec<u64> {
    let points = outcome.stages.iter().flat_map(|stage| &stage.points);
    let mut rates: Vec<u64> = points.map(|point| point.qps).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

fn at(stage: &StageResult, qps: u64) -> Option<&Point> {
    stage.points.iter().find(|point| point.qps == qps)
}

fn latencies(outcome: &Outcome, what: &str, figure: Figure) -> String {
    let rates = rates(outcome);
    let mut text = format!("| {what}, at requests/s |");
    for rate in &rates {
        let _ = write!(text, " {rate} |");
    }
    text += "\n|---|";
    text += &"---|".repeat(rates.len());
    text.push('\n');
    for stage in &outcome.stages {
        let _ = write!(text, "| {} |", stage.name);
        for &rate in &rates {
            let _ = match at(stage, rate) {
                Some(point) if point.is_overloaded => write!(text, " overloaded |"),
                Some(point) => write!(text, " {:.3} |", figure(point)),
                None => write!(text, " |"),
            };
        }
        text.push('\n');
    }
    text
}

fn shares(outcome: &Outcome) -> String {
    let mut text = "| stage | ads found in the process | stale ads, in a million | CPU of the \
                    service for a request, us |\n|---|---|---|---|\n"
        .to_owned();
    for stage in &outcome.stages {
        let sum = |figure: fn(&Point) -> f64| stage.points.iter().map(figure).sum::<f64>();
        let ads = sum(|point| point.ads as f64).max(1.0);
        let hits = sum(|point| point.hit_ratio * point.ads as f64);
        let stale = sum(|point| point.stale_ads as f64);
        let requests = sum(|point| point.requests as f64).max(1.0);
        let cpu_us = sum(|point| point.cpu_us * point.requests as f64) / requests;
        let _ = writeln!(
            text,
            "| {} | {:.2} % | {:.0} | {cpu_us:.0} |",
            stage.name,
            100.0 * hits / ads,
            1e6 * stale / ads,
        );
    }
    text
}

/// The near cache's stages; the last one of them may have another server.
fn near(outcome: &Outcome) -> impl Iterator<Item = &StageResult> {
    outcome.stages.iter().skip(super::LAST_WITH_REDIS)
}

/// The highest rate that a stage bore, up to the source's own.
fn compared(stage: &StageResult) -> Option<&Point> {
    let bearable = stage.points.iter().filter(|point| !point.is_overloaded);
    bearable.rev().find(|point| point.qps <= SOURCE_QPS)
}

fn goals(outcome: &Outcome) -> String {
    let mut goals = Vec::new();
    let Some((first, near_stage)) = outcome.stages.first().zip(near(outcome).next()) else {
        return String::new();
    };
    if let Some(first) = compared(first)
        && let Some(last) = at(near_stage, first.qps)
    {
        for (what, figure) in [("mean", mean_ms as Figure), ("p99.9", tail_ms)] {
            let what = format!("{what}, near cache over Redis alone, at {}/s", first.qps);
            goals.push(Goal::at_most(
                what,
                GOAL_RATIO,
                figure(last) / figure(first),
                3,
            ));
        }
    }
    if let (Some(lowest), Some(highest)) = (near_stage.points.first(), near_stage.points.last()) {
        let what = format!(
            "mean of the near cache, {}/s over {}/s",
            highest.qps, lowest.qps
        );
        let found = mean_ms(highest) / mean_ms(lowest);
        goals.push(Goal::at_most(what, GOAL_GROWTH, found, 2));
        let least = near_stage.points.iter().map(|point| point.hit_ratio);
        let least = least.fold(1.0, f64::min);
        let show = |ratio| format!("{:.1} %", 100.0 * ratio);
        let what = "ads found in the process, near cache";
        goals.push(Goal::at_least(what, GOAL_HIT_RATIO, least, show));
    }
    let stale: u64 = near(outcome)
        .flat_map(|stage| &stage.points)
        .map(|point| point.stale_ads)
        .sum();
    goals.push(Goal::at_most(
        "stale ads from near caches",
        0.0,
        stale as f64,
        0,
    ));
    goal::table(&goals)
}

/// The near cache beside each stage before it, at the highest rate that the first stage bore.
fn versus(outcome: &Outcome) -> Vec<Versus> {
    let mut all = Vec::new();
    let stages = outcome.stages.iter().take(super::LAST_WITH_REDIS);
    let rate = outcome.stages.first().and_then(compared).map(|it| it.qps);
    let Some((near, rate)) = near(outcome).next().zip(rate) else {
        return all;
    };
    for stage in stages {
        if let Some((own, other)) = at(near, rate).zip(at(stage, rate)) {
            for (what, figure) in [("mean", mean_ms as Figure), ("p99.9", tail_ms)] {
                let what = format!("{what} at {rate}/s, ms");
                all.push(Versus::less(what, figure(own), &stage.name, figure(other)));
            }
        }
    }
    all
}

/// Mean and tail over those of Redis alone: of the near cache, and of the last stage before it.
fn headline(outcome: &Outcome) -> Option<Headline> {
    let first = compared(outcome.stages.first()?)?;
    let ratios = |stage: &StageResult| {
        let point = at(stage, first.qps)?;
        let (mean, tail) = (
            mean_ms(point) / mean_ms(first),
            tail_ms(point) / tail_ms(first),
        );
        Some(format!(
            "{}: mean {mean:.3}, p99.9 {tail:.3} x Redis alone at {}/s",
            stage.name, first.qps
        ))
    };
    Some(Headline {
        ours: ratios(near(outcome).next()?)?,
        peers: ratios(outcome.stages.get(super::LAST_WITH_REDIS - 1)?)?,
    })
}

fn plot(outcome: &Outcome, title: &str, figure: Figure) -> Plot {
    let series = outcome.stages.iter().map(|stage| Series {
        label: stage.name.clone(),
        points: stage
            .points
            .iter()
            .filter(|point| !point.is_overloaded)
            .map(|point| (point.qps as f64, figure(point)))
            .collect(),
    });
    Plot {
        title: title.to_owned(),
        x: Axis {
            label: "requests per second".to_owned(),
            scale: Scale::Logarithmic,
        },
        y: Axis {
            label: "milliseconds".to_owned(),
            scale: Scale::Logarithmic,
        },
        series: series.filter(|series| !series.points.is_empty()).collect(),
    }
}

/// The page.
pub(super) fn page(outcome: &Outcome) -> Page {
    let plot = |name: &str, title: &str, figure| Finding::Plot {
        name: name.to_owned(),
        plot: plot(outcome, title, figure),
    };
    Page {
        title: "An ad service in front of Redis".to_owned(),
        question: "A service reads ads by id from Redis. What does each improvement of a cache in \
                   its own process bring, and what does a near cache that the server keeps true \
                   bring beyond them?"
            .to_owned(),
        findings: vec![
            Finding::Text(goals(outcome)),
            plot("mean", "Mean latency of a request", mean_ms),
            plot("tail", "99.9th percentile of a request", tail_ms),
            Finding::Text(latencies(outcome, "mean, ms", mean_ms)),
            Finding::Text(latencies(outcome, "p99.9, ms", tail_ms)),
            Finding::Text(shares(outcome)),
        ],
        versus: versus(outcome),
        headline: headline(outcome),
        method: format!(
            "{} Requests are due at fixed times and their latency counts from then, so a stage \
             that cannot keep up shows it; a run ends when a request begins 2 s late. Ads are \
             chosen by Zipf's law with exponent 1. An ad is stale if a newer version had been \
             acknowledged 100 ms before it was read. redis-server, the service and its load share \
             the machine.{}",
            scenario(outcome),
            started_as(&[
                Recipe::redis("redis-server", &[]),
                Recipe::cellar_resp("cellar", &[]),
            ]),
        ),
        meaning:
            "The source reports that its stages brought mean and TP999 to a fifth of those of \
                  Redis alone, on 16 cores and at up to 1000 requests/s. The same order shows \
                  here. The caches in between all serve stale ads until their lifetime ends; the \
                  near cache has none of these, because the server tells it what has changed."
                .to_owned(),
        limits: "Two cores, which redis-server, service and load share, instead of a fleet; the \
                 network is the loopback, which favours Redis alone. The ads are made up."
            .to_owned(),
        setting: outcome.setting.clone(),
    }
}

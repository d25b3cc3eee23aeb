//! The report: tables of latencies and costs, goals, and the page.

use std::fmt::Write;

use super::cost::CostResult;
use super::http::Method;
use super::servers::{BIGCACHE_SERVERS, bigcache};
use super::{Outcome, ServerResult};
use crate::goal::{self, Goal};
use crate::latency::LatencySummary;
use crate::page::{Finding, Headline, Page};
use crate::peers::started_as;
use crate::plot::{Axis, Plot, Scale, Series};
use crate::process::Recipe;
use crate::spread::short;
use crate::versus::Versus;

const GOAL_MEAN_MS: f64 = 0.5;
const GOAL_P99_9_MS: f64 = 2.0;
const GOAL_P99_999_MS: f64 = 20.0;
const GOAL_GET_RATIO: f64 = 1.2;
const GOAL_STORE_RATIO: f64 = 1.35;
/// Points of a plot over time at most.
const WINDOWS_MAX: usize = 120;
const MIB: f64 = 1_048_576.0;
const CELLAR: &str = "cellar";

/// What the source asked of its own service.
const SOURCE: &str = "The source asked for 10 k requests/s with a mean of 5 ms, 99.9 % in 10 ms \
                      and 99.999 % in 400 ms.";

/// All tables.
pub(super) fn render(outcome: &Outcome) -> String {
    let parts = [latencies(outcome), costs(outcome), goals(outcome)];
    let mut text = format!("{}\n\n", setting(outcome));
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let _ = writeln!(text, "{part}");
    }
    let _ = writeln!(text, "{SOURCE}\n\nFrom {}.", outcome.setting);
    text
}

fn setting(outcome: &Outcome) -> String {
    format!(
        "{} requests/s for {} s, half POST of new messages of {} to {} B, half GET; {} messages \
         are there before; {} connections.",
        short(count(outcome.rate_per_s)),
        outcome.seconds,
        outcome.message_bytes_min,
        outcome.message_bytes_max,
        short(count(outcome.prefill)),
        outcome.connections,
    )
}

fn latencies(outcome: &Outcome) -> String {
    let mut text = "| server | mean, ms | p50 | p99 | p99.9 | p99.99 | p99.999 | longest \
                    | server CPU us/request | resident | messages | lost | wrong |\n"
        .to_owned();
    text += &"|---".repeat(13);
    text += "|\n";
    for server in &outcome.servers {
        let _ = write!(text, "| {} |", titled(server));
        for us in columns(&server.figures.all) {
            let _ = write!(text, " {:.3} |", us / 1000.0);
        }
        let figures = &server.figures;
        let _ = writeln!(
            text,
            " {:.2} | {:.0} MiB | {} | {} | {} |",
            figures.server_cpu_us_per_request,
            count(server.rss_bytes) / MIB,
            kept(server, short(count(server.messages))),
            kept(server, figures.lost.to_string()),
            kept(server, figures.wrong.to_string()),
        );
    }
    for server in &outcome.servers {
        let figures = &server.figures;
        if figures.refused + figures.unsent + figures.expired > 0 {
            let _ = writeln!(
                text,
                "\n{}: {} requests were refused ({}), {} were due and never sent, {} were read \
                 after the message's time, so its figures are not comparable.",
                server.server,
                figures.refused,
                figures.first_refusal.as_deref().unwrap_or("none"),
                figures.unsent,
                figures.expired,
            );
        }
    }
    text
}

/// A figure that only a server which keeps messages has.
fn kept(server: &ServerResult, figure: String) -> String {
    if server.is_floor {
        String::new()
    } else {
        figure
    }
}

/// The columns of the table.
fn columns(latency: &LatencySummary) -> [f64; 7] {
    [
        latency.latency_us_mean,
        latency.latency_us_p50,
        latency.latency_us_p99,
        latency.latency_us_p99_9,
        latency.latency_us_p99_99,
        latency.latency_us_p99_999,
        latency.latency_us_max,
    ]
}

/// How long so many of a hundred requests take at least.
fn tail(latency: &LatencySummary) -> [(f64, f64); 6] {
    [
        (0.001, latency.latency_us_p99_999),
        (0.01, latency.latency_us_p99_99),
        (0.1, latency.latency_us_p99_9),
        (1.0, latency.latency_us_p99),
        (10.0, latency.latency_us_p90),
        (50.0, latency.latency_us_p50),
    ]
}

fn costs(outcome: &Outcome) -> String {
    if outcome.costs.is_empty() {
        return String::new();
    }
    let mut text = "| request | server | server CPU us/request | x floor | requests/s |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for cost in &outcome.costs {
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {} |",
            cost.method,
            cost.server,
            cost.server_cpu_us_per_request,
            cost.ratio_to_floor,
            short(cost.requests_per_s.median),
        );
    }
    for cost in outcome.costs.iter().filter(|cost| cost.refused > 0) {
        let _ = writeln!(
            text,
            "\n{}: {} requests with {} were refused, so its figures are not comparable.",
            cost.server, cost.refused, cost.method
        );
    }
    text
}

fn goals(outcome: &Outcome) -> String {
    let mut goals = Vec::new();
    for server in outcome.servers.iter().filter(|it| it.server == CELLAR) {
        let figures = &server.figures;
        for (what, limit, us) in [
            ("mean", GOAL_MEAN_MS, figures.all.latency_us_mean),
            ("p99.9", GOAL_P99_9_MS, figures.all.latency_us_p99_9),
            ("p99.999", GOAL_P99_999_MS, figures.all.latency_us_p99_999),
        ] {
            goals.push(Goal::at_most(
                format!("{what}, ms, cellar"),
                limit,
                us / 1000.0,
                3,
            ));
        }
        let failures = figures.lost + figures.wrong + figures.refused + figures.unsent;
        let what = "lost, wrong, refused and unsent, cellar";
        goals.push(Goal::at_most(what, 0.0, count(failures), 0));
    }
    for cost in outcome.costs.iter().filter(|it| it.server == CELLAR) {
        let limit = if cost.method == Method::Get.name() {
            GOAL_GET_RATIO
        } else {
            GOAL_STORE_RATIO
        };
        let what = format!("{} x floor, server CPU, cellar", cost.method);
        goals.push(Goal::at_most(what, limit, cost.ratio_to_floor.median, 2));
    }
    goal::table(&goals)
}

fn titled(server: &ServerResult) -> String {
    if server.version.is_empty() {
        server.server.clone()
    } else {
        format!("{} ({})", server.server, server.version)
    }
}

/// The page.
pub(super) fn page(outcome: &Outcome) -> Page {
    let tables = [latencies(outcome), costs(outcome), goals(outcome)];
    let tables = tables.into_iter().filter(|table| !table.is_empty());
    let plots = [("tail", tail_plot(outcome)), ("time", time_plot(outcome))];
    let plots = plots.map(|(name, plot)| Finding::Plot {
        name: name.to_owned(),
        plot,
    });
    Page {
        title: "A cache service over HTTP".to_owned(),
        question: format!(
            "A service takes JSON messages with POST and gives them back with GET by their ids, \
             each for {} minutes, {} requests per second. How long do requests take, the slowest \
             ones above all, and what do they cost the server? {SOURCE}",
            outcome.ttl_s / 60,
            short(count(outcome.rate_per_s)),
        ),
        method: method(outcome),
        versus: versus(outcome),
        headline: headline(outcome),
        findings: tables.map(Finding::Text).chain(plots).collect(),
        meaning: meaning(outcome),
        limits: LIMITS.to_owned(),
        setting: outcome.setting.clone(),
    }
}

/// Latencies, memory and costs beside those of the other services.
fn versus(outcome: &Outcome) -> Vec<Versus> {
    let mut all = Vec::new();
    let Some(own) = outcome.servers.iter().find(|it| it.server == CELLAR) else {
        return all;
    };
    let is_peer = |server: &&ServerResult| !server.is_floor && !server.server.starts_with(CELLAR);
    for peer in outcome.servers.iter().filter(is_peer) {
        let mut add = |what: &str, figure: fn(&ServerResult) -> f64| {
            all.push(Versus::less(what, figure(own), &peer.server, figure(peer)));
        };
        add("mean, ms", |it| it.figures.all.latency_us_mean / 1e3);
        add("p99, ms", |it| it.figures.all.latency_us_p99 / 1e3);
        add("p99.9, ms", |it| it.figures.all.latency_us_p99_9 / 1e3);
        add("p99.999, ms", |it| it.figures.all.latency_us_p99_999 / 1e3);
        add("longest, ms", |it| it.figures.all.latency_us_max / 1e3);
        add("server CPU us/request", |it| {
            it.figures.server_cpu_us_per_request
        });
        add("resident MiB", |it| count(it.rss_bytes) / MIB);
    }
    for peer in outcome
        .costs
        .iter()
        .filter(|it| !it.is_floor && !it.server.starts_with(CELLAR))
    {
        let mut own = outcome.costs.iter().filter(|it| it.server == CELLAR);
        if let Some(own) = own.find(|own| own.method == peer.method) {
            let cpu = |it: &CostResult| it.server_cpu_us_per_request.median;
            let what = format!("server CPU us/request, {}", peer.method);
            all.push(Versus::less(what, cpu(own), &peer.server, cpu(peer)));
        }
    }
    all
}

/// What the source asked for, in milliseconds: mean, p99.9 and p99.999.
const ASKED_MS: [f64; 3] = [5.0, 10.0, 400.0];

/// The three latencies over those asked for: Cellar's, and each other service's.
fn headline(outcome: &Outcome) -> Option<Headline> {
    let ratios = |server: &ServerResult| {
        let all = &server.figures.all;
        let found = [
            all.latency_us_mean,
            all.latency_us_p99_9,
            all.latency_us_p99_999,
        ];
        let ratios = found.iter().zip(ASKED_MS);
        let ratios = ratios.map(|(us, asked)| format!("{:.3}", us / 1e3 / asked));
        format!(
            "{} x the times asked for",
            ratios.collect::<Vec<_>>().join(", ")
        )
    };
    let own = outcome.servers.iter().find(|it| it.server == CELLAR)?;
    let peers = outcome.servers.iter();
    let peers = peers.filter(|it| !it.is_floor && !it.server.starts_with(CELLAR));
    let peers: Vec<String> = peers
        .map(|peer| format!("{}: {}", peer.server, ratios(peer)))
        .collect();
    Some(Headline {
        ours: ratios(own),
        peers: peers.join("; "),
    })
}

const LIMITS: &str = "\
The load and the network stack of the same machine are part of every latency; the floor shows how \
much, and its tail is the machine's own. A server with more processors would collect its garbage \
beside its requests; here each has one for everything. Clients do not come and go: connections \
stay open. In the costs, BigCache is asked for messages that it has, so nothing there shows what \
its collector does in millions of entries; the load at a fixed rate does.";

fn method(outcome: &Outcome) -> String {
    format!(
        "{} Messages are JSON of an id and a content, every eighth with characters that JSON \
         escapes; {:.0} % of the reads ask for the message whose write was acknowledged last, the \
         others for any that was written within nine tenths of the {} s for which messages are \
         kept. Every content is compared with what was written; `lost` counts messages that were \
         not there, `wrong` those with another content. Latency counts from the moment a request \
         was due, so a pause of the server is charged to all requests it delays. A request takes \
         the connection that has been free for longest. Servers run one after the other, each \
         fresh, on one processor with memory for all messages, the load on another. Cellar is told \
         the time to live with each message; BigCache has it from its start, with memory reserved \
         in advance, 1024 shards, a hard limit, neither statistics nor logging, and reads JSON \
         without reflection. The floor answers each request with as many bytes as Cellar's reply \
         to a GET and looks for nothing but the end of the head; it is asked for at most a \
         minute.\n\nFor the costs all servers run at once on one processor, the load on another. \
         {} connections have one request in flight each, and the load looks for replies without \
         ever sleeping, so that no server pays for waking it; {} rounds of {} s visit every \
         server in turn, Cellar and the floor one after the other, each of them first in every \
         other round, and wait until who was visited is at rest, so that nobody pays for \
         another's collector; medians count, the smallest and largest stand beside them. GET and \
         PUT are about the last 100 k messages, POST brings new ones; each cache has memory for \
         two million of the longest and was given three million before, so that none pays for \
         memory that is touched for the first time. Each method has a floor with replies as long \
         as Cellar's to it.{}",
        setting(outcome),
        outcome.read_back_share * 100.0,
        outcome.ttl_s,
        outcome.connections,
        outcome.rounds,
        outcome.round_seconds,
        started_as(&[
            Recipe::cellar_http("cellar", &[]),
            bigcache(
                "bigcache-service",
                outcome.message_bytes_max,
                BIGCACHE_SERVERS[0],
            ),
            bigcache(
                "bigcache-service",
                outcome.message_bytes_max,
                BIGCACHE_SERVERS[1],
            ),
        ]),
    )
}

/// One sentence for each server, the same for all.
fn meaning(outcome: &Outcome) -> String {
    let mut text = String::new();
    for server in &outcome.servers {
        let latency = &server.figures.all;
        let _ = writeln!(
            text,
            "- {}: one request in a thousand takes longer than {:.2} ms, one in a hundred thousand \
             longer than {:.2} ms; {:.1} us of the processor for each.",
            server.server,
            latency.latency_us_p99_9 / 1000.0,
            latency.latency_us_p99_999 / 1000.0,
            server.figures.server_cpu_us_per_request,
        );
    }
    let floor = outcome.servers.iter().find(|server| server.is_floor);
    if let Some(floor) = floor.filter(|it| it.figures.all.latency_us_p99_9 > GOAL_P99_9_MS * 1e3) {
        let _ = writeln!(
            text,
            "\nThe floor itself takes longer than {GOAL_P99_9_MS} ms once in a thousand requests \
             ({:.2} ms): something else was using the machine, and no tail is to be told from it.",
            floor.figures.all.latency_us_p99_9 / 1000.0,
        );
    }
    let caches = || outcome.servers.iter().filter(|server| !server.is_floor);
    let least =
        |figure: fn(&ServerResult) -> f64| caches().min_by(|a, b| figure(a).total_cmp(&figure(b)));
    let calmest = least(|server| server.figures.all.latency_us_p99_999);
    let cheapest = least(|server| server.figures.server_cpu_us_per_request);
    if let (Some(calmest), Some(cheapest)) = (calmest, cheapest) {
        let _ = writeln!(
            text,
            "\nShortest tail: {}. Least processor time: {}.",
            calmest.server, cheapest.server
        );
    }
    text
}

/// Latencies over how rare they are.
fn tail_plot(outcome: &Outcome) -> Plot {
    let line = |server: &ServerResult| {
        let points = tail(&server.figures.all).into_iter();
        points
            .map(|(share, us)| (share, (us / 1000.0).max(0.001)))
            .collect()
    };
    let x = "% of the requests take longer";
    plot(
        outcome,
        "How long the slowest requests take",
        x,
        Scale::Logarithmic,
        line,
    )
}

/// The longest request of each second, or of each few seconds.
fn time_plot(outcome: &Outcome) -> Plot {
    let line = |server: &ServerResult| {
        let wide = server.worst_us.len().div_ceil(WINDOWS_MAX).max(1);
        let windows = server.worst_us.chunks(wide).enumerate();
        let worst = |window: &[f64]| window.iter().copied().fold(1.0, f64::max) / 1000.0;
        windows
            .map(|(at, window)| (count((at * wide) as u64), worst(window)))
            .collect()
    };
    plot(
        outcome,
        "The longest request of each moment",
        "seconds of load",
        Scale::Linear,
        line,
    )
}

fn plot(
    outcome: &Outcome,
    title: &str,
    x: &str,
    x_scale: Scale,
    points: impl Fn(&ServerResult) -> Vec<(f64, f64)>,
) -> Plot {
    let series = outcome.servers.iter().map(|server| Series {
        label: server.server.clone(),
        points: points(server),
    });
    Plot {
        title: title.to_owned(),
        x: Axis {
            label: x.to_owned(),
            scale: x_scale,
        },
        y: Axis {
            label: "ms".to_owned(),
            scale: Scale::Logarithmic,
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
    use crate::machine::Setting;
    use crate::service::found::Figures;
    use crate::spread::Spread;

    fn server(name: &str, p99_999_ms: f64) -> ServerResult {
        ServerResult {
            server: name.to_owned(),
            version: "1".to_owned(),
            is_floor: name.contains("floor"),
            memory_mib: 64,
            messages: 2_000_000,
            rss_bytes: 7 << 20,
            rss_peak_bytes: 7 << 20,
            figures: Figures {
                all: LatencySummary {
                    latency_us_mean: 80.0,
                    latency_us_p50: 70.0,
                    latency_us_p99: 200.0,
                    latency_us_p99_9: 900.0,
                    latency_us_p99_99: 1500.0,
                    latency_us_p99_999: p99_999_ms * 1000.0,
                    latency_us_max: p99_999_ms * 2000.0,
                    ..LatencySummary::default()
                },
                server_cpu_us_per_request: 9.0,
                ..Figures::default()
            },
            worst_us: vec![100.0; 300],
        }
    }

    fn outcome(servers: Vec<ServerResult>) -> Outcome {
        let cost = |method: Method, ratio: f64| CostResult {
            method: method.name().to_owned(),
            server: CELLAR.to_owned(),
            is_floor: false,
            server_cpu_us_per_request: Spread::of(vec![5.0]),
            ratio_to_floor: Spread::of(vec![ratio]),
            requests_per_s: Spread::of(vec![90_000.0]),
            lost: 0,
            wrong: 0,
            refused: 0,
        };
        Outcome {
            setting: Setting::here(),
            rate_per_s: 10_000,
            seconds: 60,
            prefill: 2_000_000,
            ttl_s: 600,
            message_bytes_min: 350,
            message_bytes_max: 500,
            connections: 64,
            read_back_share: 0.5,
            rounds: 1,
            round_seconds: 2.0,
            servers,
            costs: vec![cost(Method::Get, 1.1), cost(Method::Post, 1.4)],
        }
    }

    #[test]
    fn tables_tell_latencies_in_milliseconds_and_whether_goals_are_reached() {
        let outcome = outcome(vec![server("cellar", 21.0), server("echo floor", 1.0)]);
        let text = render(&outcome);
        for part in [
            "| cellar (1) | 0.080 | 0.070 | 0.200 | 0.900 | 1.500 | 21.000 | 42.000 | 9.00 | 7 MiB \
             | 2 M | 0 | 0 |",
            "| echo floor (1) | 0.080 | 0.070 | 0.200 | 0.900 | 1.500 | 1.000 | 2.000 | 9.00 \
             | 7 MiB |  |  |  |",
            "| mean, ms, cellar | <= 0.5 | 0.080 | reached |",
            "| p99.999, ms, cellar | <= 20 | 21.000 | MISSED |",
            "| GET x floor, server CPU, cellar | <= 1.2 | 1.10 | reached |",
            "| POST x floor, server CPU, cellar | <= 1.35 | 1.40 | MISSED |",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("not comparable"), "{text}");
    }

    #[test]
    fn a_server_that_fell_behind_or_refused_is_not_comparable() {
        let mut bad = server("bigcache", 1.0);
        bad.figures.unsent = 7;
        let text = latencies(&outcome(vec![bad]));
        assert!(text.contains("7 were due and never sent"), "{text}");
    }

    #[test]
    fn a_peer_that_wins_is_named_and_the_floor_is_no_peer() {
        let servers = vec![
            server("cellar", 3.0),
            server("bigcache", 2.0),
            server("echo floor", 1.0),
        ];
        let outcome = outcome(servers);
        let text = meaning(&outcome);
        assert!(text.contains("Shortest tail: bigcache."), "{text}");
        assert!(!text.contains("was using the machine"), "{text}");
        let page = page(&outcome);
        assert_eq!(page.findings.len(), 5);
        let Finding::Plot { plot, .. } = &page.findings[4] else {
            panic!("the last finding is a plot");
        };
        assert_eq!(plot.series[0].points.len(), 100, "three seconds each");
    }

    #[test]
    fn a_floor_that_is_slow_itself_is_told() {
        let mut floor = server("echo floor", 9.0);
        floor.figures.all.latency_us_p99_9 = 8000.0;
        let text = meaning(&outcome(vec![server("cellar", 9.0), floor]));
        assert!(
            text.contains("(8.00 ms): something else was using"),
            "{text}"
        );
    }

    #[test]
    fn what_is_lost_is_an_error() {
        let mut bad = server("bigcache", 1.0);
        assert!(outcome(vec![bad]).check().is_ok());
        bad = server("bigcache", 1.0);
        bad.figures.lost = 2;
        let error = outcome(vec![bad]).check().unwrap_err().to_string();
        assert!(error.contains("bigcache: 2 messages were lost"), "{error}");
    }
}

//! The tables of a comparison, in Markdown, fit for a README.

use std::fmt::Write;

use super::{CELLAR_HTTP, CELLAR_RESP, Comparison, ROWS, RowResult};
use crate::goal::{self, Goal};
use crate::page::{Finding, Page};
use crate::peers::started_as;
use crate::plot::{Axis, Plot, Scale, Series};
use crate::process::Recipe;
use crate::spread::short;
use crate::versus::Versus;

/// What a request may cost Cellar.
struct Limit {
    request: &'static str,
    /// Largest ratio of its processor time to the floor's.
    limit: f64,
}

/// The bars of the speed table in the design; memory has its own.
const LIMITS: [Limit; 3] = [
    Limit {
        request: "get, depth 1",
        limit: 1.06,
    },
    Limit {
        request: "get, depth 32",
        limit: 1.95,
    },
    Limit {
        request: "set, depth 32",
        limit: 2.3,
    },
];
/// What a request over RESP may cost, as a multiple of the same over memcached's protocol.
const RESP_LIMIT: f64 = 1.03;
/// What a request over HTTP may cost, as a multiple of the floor of HTTP.
const HTTP_LIMITS: [Limit; 2] = [
    Limit {
        request: "get, depth 1",
        limit: 1.2,
    },
    Limit {
        request: "set, depth 1",
        limit: 1.35,
    },
];
const MEMORY_GOAL_BYTES: f64 = 16.0;

/// All tables, and where their numbers come from.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = render_rows(comparison, &mut text);
    let _ = writeln!(text, "\nFrom {}.", comparison.setting);
    let _ = render_memory(comparison, &mut text);
    if let Some(goals) = goals(comparison) {
        text += &format!("\n{}", goal::table(&goals));
    }
    text
}

fn render_rows(comparison: &Comparison, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "Server on one processor, load on another; {} B values, {} keys, {}, {} connections;\n\
         medians [smallest..largest] of {} rounds of {} s; x floor = server CPU per request over \
         that of the\necho floor (of a get) in the same round.\n",
        comparison.value_bytes,
        short(num(comparison.keys)),
        comparison.distribution,
        comparison.connections,
        comparison.rounds,
        comparison.seconds_per_measurement,
    )?;
    writeln!(
        text,
        "| request | server | throughput /s | p50 us | p99 us | p99.9 us | server CPU us/request \
         | x floor |\n|---|---|---|---|---|---|---|---|"
    )?;
    for row in &comparison.rows {
        writeln!(
            text,
            "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.3} | {:.2} |",
            row.request,
            titled(&row.server, &row.version),
            short(row.throughput_per_s.median),
            row.latency_us_p50.median,
            row.latency_us_p99.median,
            row.latency_us_p99_9.median,
            row.server_cpu_us_per_request,
            row.server_cpu_ratio_to_floor,
        )?;
    }
    for row in comparison
        .rows
        .iter()
        .filter(|row| row.misses + row.errors > 0)
    {
        writeln!(
            text,
            "\n{}, {}: {} misses and {} errors, so its figures are not comparable.",
            row.request, row.server, row.misses, row.errors
        )?;
    }
    Ok(())
}

fn render_memory(comparison: &Comparison, text: &mut String) -> std::fmt::Result {
    let Some(first) = comparison.memory.first() else {
        return Ok(());
    };
    writeln!(
        text,
        "\n{} items of {} B key + {} B value with a TTL of {}, {} MiB of memory allowed:\n\n\
         | server | bytes per item over key + value | resident at start | filled | items found |\n\
         |---|---|---|---|---|",
        short(num(first.items)),
        first.key_bytes,
        first.value_bytes,
        first.ttl_s,
        comparison.memory_mib,
    )?;
    for row in &comparison.memory {
        writeln!(
            text,
            "| {} | {:.1} | {:.1} MiB | {:.1} MiB | {:.2} % |",
            titled(&row.server, &row.version),
            row.overhead_per_item_bytes,
            num(row.server_rss_start_bytes) / 1048576.0,
            num(row.server_rss_filled_bytes) / 1048576.0,
            row.hit_ratio * 100.0,
        )?;
    }
    Ok(())
}

/// What Cellar must reach, if it took part.
fn goals(comparison: &Comparison) -> Option<Vec<Goal>> {
    let cellar = |request: &str| -> Option<&RowResult> {
        let mut rows = comparison.rows.iter();
        rows.find(|row| row.server == "cellar" && row.request == request)
    };
    cellar(LIMITS[0].request)?;
    let costs = LIMITS.iter().filter_map(|limit| {
        let found = cellar(limit.request)?.server_cpu_ratio_to_floor.median;
        let what = format!("{}, x floor", limit.request);
        Some(Goal::at_most(what, limit.limit, found, 2))
    });
    let memory = comparison.memory.iter().find(|row| row.server == "cellar");
    let memory = memory.map(|row| {
        let what = "bytes per item over key + value";
        Goal::at_most(what, MEMORY_GOAL_BYTES, row.overhead_per_item_bytes, 1)
    });
    let resp = ROWS.iter().filter_map(|row| {
        let mut rows = comparison.rows.iter();
        let resp = rows.find(|one| one.server == CELLAR_RESP && one.request == row.name)?;
        let cost = |row: &RowResult| row.server_cpu_us_per_request.median;
        let ratio = cost(resp) / cost(cellar(row.name)?);
        let what = format!("{}, RESP over memcached", row.name);
        Some(Goal::at_most(what, RESP_LIMIT, ratio, 3))
    });
    let http = HTTP_LIMITS.iter().filter_map(|limit| {
        let mut rows = comparison.rows.iter();
        let is_it = |row: &&RowResult| row.server == CELLAR_HTTP && row.request == limit.request;
        let found = rows.find(is_it)?.server_cpu_ratio_to_floor.median;
        let what = format!("{} over HTTP, x floor", limit.request);
        Some(Goal::at_most(what, limit.limit, found, 2))
    });
    Some(costs.chain(resp).chain(http).chain(memory).collect())
}

/// The page.
pub(super) fn page(comparison: &Comparison) -> Page {
    let goals = goals(comparison).unwrap_or_default();
    let plot = Finding::Plot {
        name: "cost".to_owned(),
        plot: plot(comparison),
    };
    let tables = [
        goal::table(&goals),
        text_of(comparison, render_rows),
        text_of(comparison, render_memory),
    ];
    let mut findings: Vec<Finding> = tables.map(Finding::Text).into();
    findings.insert(1, plot);
    Page {
        title: "What a request costs the server".to_owned(),
        question: "How much processor time does a server spend on a get or a set, against other \
                   servers, and against a server that does nothing but answer?"
            .to_owned(),
        method: METHOD.to_owned()
            + &started_as(&[
                Recipe::cellar("cellar", &[]),
                Recipe::cellar_resp("cellar", &[]),
                Recipe::cellar_http("cellar", &[]),
                Recipe::memcached("memcached"),
                Recipe::redis("redis-server", &[]),
            ]),
        versus: versus(comparison),
        headline: None,
        findings,
        meaning: "`x floor` is what lasts: it can be carried from machine to machine. Deep \
                  pipelines share the kernel's work among many requests, so that what remains is \
                  the server's own."
            .to_owned(),
        limits: LIMITATIONS.to_owned(),
        setting: comparison.setting.clone(),
    }
}

const METHOD: &str = "All servers run at once, each with one thread, bound to one processor, and \
    the load is bound to another. In each round each row visits every server in turn, so that a \
    disturbance falls on all alike; medians count. Processor time is the kernel's accounting of \
    all the server's threads, over exactly the requests counted. The echo floor runs the same \
    event loop and moves the same number of bytes without executing anything; a set is divided by \
    the floor of a get of the same depth, HTTP by a floor with HTTP's replies. Before anything is \
    timed, each cache is filled and read back with verification. Bytes per item are growth of \
    resident memory from the fresh server to all items stored.";

const LIMITATIONS: &str = "One thread for each server, so nothing is said of scaling: \
    the part `s2` does that. A server that is faster than the load generator sleeps in between and \
    pays for waking up. Debian's memcached is 1.6.18; newer ones spend far less on deep \
    pipelines.";

fn text_of(
    comparison: &Comparison,
    write: fn(&Comparison, &mut String) -> std::fmt::Result,
) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(comparison, &mut text);
    text.trim_start().to_owned()
}

/// Cellar's cost and throughput beside those of each other cache over a protocol of its kind.
fn versus(comparison: &Comparison) -> Vec<Versus> {
    let is_own = |server: &str| server.starts_with("cellar");
    let rows = comparison.rows.iter();
    let mut all = Vec::new();
    for peer in rows.filter(|it| !is_own(&it.server) && !it.server.starts_with("echo floor")) {
        let own = if peer.server.starts_with("redis") {
            CELLAR_RESP
        } else {
            "cellar"
        };
        let mut rows = comparison.rows.iter();
        let Some(own) = rows.find(|it| it.server == own && it.request == peer.request) else {
            continue;
        };
        let what = |figure: &str| format!("{figure}, {}", peer.request);
        let cost = |row: &RowResult| row.server_cpu_us_per_request.median;
        all.push(Versus::less(
            what("server CPU us"),
            cost(own),
            &peer.server,
            cost(peer),
        ));
        let per_s = |row: &RowResult| row.throughput_per_s.median;
        all.push(Versus::more(
            what("requests/s"),
            per_s(own),
            &peer.server,
            per_s(peer),
        ));
        let tail = |row: &RowResult| row.latency_us_p99_9.median;
        all.push(Versus::less(
            what("p99.9 us"),
            tail(own),
            &peer.server,
            tail(peer),
        ));
    }
    let bytes = comparison.memory.iter();
    let (own, peers): (Vec<_>, Vec<_>) = bytes.partition(|row| is_own(&row.server));
    for (own, peer) in peers.iter().filter_map(|peer| Some((own.first()?, peer))) {
        let (ours, theirs) = (own.overhead_per_item_bytes, peer.overhead_per_item_bytes);
        let what = "bytes per item over key and value";
        all.push(Versus::less(what, ours, &peer.server, theirs));
    }
    all
}

/// Processor time over the depth, gets.
#[expect(clippy::cast_precision_loss, reason = "shown on an axis")]
fn plot(comparison: &Comparison) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for row in comparison
        .rows
        .iter()
        .filter(|row| row.request.starts_with("get"))
    {
        let point = (row.depth as f64, row.server_cpu_us_per_request.median);
        match series.iter_mut().find(|line| line.label == row.server) {
            Some(line) => line.points.push(point),
            None => series.push(Series {
                label: row.server.clone(),
                points: vec![point],
            }),
        }
    }
    Plot {
        title: "Server CPU of a get over the depth of the pipeline".to_owned(),
        x: Axis {
            label: "requests in flight on a connection".to_owned(),
            scale: Scale::Logarithmic,
        },
        y: Axis {
            label: "us".to_owned(),
            scale: Scale::Logarithmic,
        },
        series,
    }
}

fn titled(server: &str, version: &str) -> String {
    if server.starts_with("echo floor") || version.is_empty() {
        server.to_owned()
    } else {
        format!("{server} {version}")
    }
}

#[expect(clippy::cast_precision_loss, reason = "a display")]
fn num(count: u64) -> f64 {
    count as f64
}

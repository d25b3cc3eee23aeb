//! The tables of a comparison, in Markdown, fit for a README.

use std::fmt::Write;

use super::{Comparison, RowResult};
use crate::spread::short;

/// A figure that Cellar must reach.
struct Goal {
    request: &'static str,
    /// Largest ratio of its processor time to the floor's.
    limit: f64,
}

/// The bars of the speed table in the design; memory has its own.
const GOALS: [Goal; 3] = [
    Goal {
        request: "get, depth 1",
        limit: 1.06,
    },
    Goal {
        request: "get, depth 32",
        limit: 1.95,
    },
    Goal {
        request: "set, depth 32",
        limit: 2.3,
    },
];
const MEMORY_GOAL_BYTES: f64 = 16.0;

/// All tables, and where their numbers come from.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = render_rows(comparison, &mut text);
    let _ = render_memory(comparison, &mut text);
    let _ = render_goals(comparison, &mut text);
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
    writeln!(text, "\nFrom {}.", comparison.setting)
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

fn render_goals(comparison: &Comparison, text: &mut String) -> std::fmt::Result {
    let cellar = |request: &str| -> Option<&RowResult> {
        comparison
            .rows
            .iter()
            .find(|row| row.server == "cellar" && row.request == request)
    };
    if cellar(GOALS[0].request).is_none() {
        return Ok(());
    }
    writeln!(
        text,
        "\n| Cellar must reach | limit | found | |\n|---|---|---|---|"
    )?;
    for goal in GOALS {
        let Some(row) = cellar(goal.request) else {
            continue;
        };
        let found = row.server_cpu_ratio_to_floor.median;
        writeln!(
            text,
            "| {}, x floor | {:.2} | {found:.2} | {} |",
            goal.request,
            goal.limit,
            verdict(found, goal.limit)
        )?;
    }
    if let Some(row) = comparison.memory.iter().find(|row| row.server == "cellar") {
        writeln!(
            text,
            "| bytes per item over key + value | {MEMORY_GOAL_BYTES} | {:.1} | {} |",
            row.overhead_per_item_bytes,
            verdict(row.overhead_per_item_bytes, MEMORY_GOAL_BYTES)
        )?;
    }
    Ok(())
}

fn verdict(found: f64, limit: f64) -> &'static str {
    if found <= limit { "reached" } else { "MISSED" }
}

fn titled(server: &str, version: &str) -> String {
    if server == "echo floor" {
        server.to_owned()
    } else {
        format!("{server} {version}")
    }
}

#[expect(clippy::cast_precision_loss, reason = "a display")]
fn num(count: u64) -> f64 {
    count as f64
}

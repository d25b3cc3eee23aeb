//! Page: docs/metrics.md, written from the tables.

use super::FAMILIES;
use super::tables::{ENGINE, GAUGES, prometheus_name};
use super::text::{Family, MetricType};
use crate::counters::Counters;

const HEAD: &str = "\
# Metrics

Written from the tables in `crates/server/src/counters.rs` and `crates/server/src/metrics/`; do
not edit by hand (`CELLAR_BLESS=1 cargo test -p cellar --test server docs::` writes it anew).

A count only grows, from zero at start; a gauge goes up and down; a histogram counts by size. The
figures are shown in three places: at `/metrics` over HTTP for Prometheus, by memcached's `stats`,
where `stats reset` sets counts back, and, those that an operator looks at, on the console and by
`cellar top`. `deploy/` has a Grafana dashboard and alert rules on them.

With `--otlp http://127.0.0.1:4318` all that `/metrics` shows is also sent to a collector of
OpenTelemetry, every `--otlp-interval`, under the same names: OTLP over HTTP in Protocol Buffers,
counts as cumulative sums from the server's start. A thread that serves nobody does it; a collector
that does not take the figures is told of in the log once.
";

const COLUMNS: &str = "\
| name | at `/metrics` | in `stats` | kind | meaning |
|---|---|---|---|---|
";

const FAMILY_COLUMNS: &str = "\
| at `/metrics` | labels | kind | meaning |
|---|---|---|---|
";

const HISTOGRAM: &str = "\
`stats expiry` shows `cellar_expiry_lag_seconds` bin by bin, as `reclaim_lag_ms:below_<n>`.
";

const SECTIONS: [(&str, &str); 3] = [
    ("More, by Cellar's own names", HISTOGRAM),
    (
        "By the names of memcached's exporter",
        "What dashboards and alerts for prometheus/memcached_exporter read.\n",
    ),
    (
        "By the names of Redis's exporter",
        "What dashboards and alerts for oliver006/redis_exporter read.\n",
    ),
];

/// The page's text.
#[must_use]
pub fn page() -> String {
    let mut text = format!("{HEAD}\n## Server\n\n{COLUMNS}");
    for row in Counters::TABLE {
        text.push_str(&line(row.name, row.stat, MetricType::Count, row.help));
    }
    for row in GAUGES {
        text.push_str(&line(row.name, row.stat, MetricType::Gauge, row.help));
    }
    text.push_str(&format!("\n## Engine\n\n{COLUMNS}"));
    for row in ENGINE {
        text.push_str(&line(row.name, row.stat, row.kind, row.help));
    }
    for ((title, words), families) in SECTIONS.iter().zip(FAMILIES) {
        text.push_str(&format!("\n## {title}\n\n{words}\n{FAMILY_COLUMNS}"));
        text.extend(families.iter().map(family_line));
    }
    text
}

fn line(name: &str, stat: &str, kind: MetricType, help: &str) -> String {
    let (shown, stat, kind_word) = (prometheus_name(name, kind), code(stat), kind.word());
    format!("| `{name}` | `{shown}` | {stat} | {kind_word} | {help} |\n")
}

fn family_line(family: &Family) -> String {
    let labels: Vec<String> = family.labels.split(',').map(code).collect();
    let (labels, kind) = (labels.join(", "), family.kind.word());
    format!(
        "| `{}` | {labels} | {kind} | {} |\n",
        family.name, family.help
    )
}

fn code(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("`{text}`")
    }
}

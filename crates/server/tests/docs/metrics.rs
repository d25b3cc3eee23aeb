//! Page: docs/metrics.md, written from the tables.

use cellar_shared::metrics::FAMILIES;
use cellar_shared::metrics::deprecated::DEPRECATED;
use cellar_shared::metrics::tables::{ENGINE, GAUGES, prometheus_name};
use cellar_shared::metrics::text::{Family, MetricType};
use cellar_shared::observe::counters::Counters;

const HEAD: &str = "\
<!-- Written from the tables in crates/shared/src/observe/counters.rs and crates/shared/src/metrics;
do not edit by hand (CELLAR_BLESS=1 cargo test -p cellar --test server docs:: regenerates it). -->

# Metrics

`/metrics` over HTTP has all metrics for Prometheus, and memcached's `stats` has many of them. The
console and `cellar top` show the important ones. [deploy/](../deploy/README.md) has a Grafana
dashboard and alert rules. Counters start at 0 when the server starts; `stats reset` also sets those
of `stats` to 0.

With `--otlp http://127.0.0.1:4318` the server also sends all metrics of `/metrics` to an
OpenTelemetry collector, every `--otlp-interval`, with the same names. It uses OTLP over HTTP with
Protocol Buffers, and cumulative sums since the start. If the collector does not accept the metrics,
the server logs it once.
";

const COLUMNS: &str = "\
| name | at `/metrics` | in `stats` | type | meaning |
|---|---|---|---|---|
";

const FAMILY_COLUMNS: &str = "\
| at `/metrics` | labels | type | meaning |
|---|---|---|---|
";

const HISTOGRAM: &str = "\
`stats expiry` shows the bins of `cellar_expiry_lag_seconds` as `reclaim_lag_ms:below_<n>`.
";

const DEPRECATED_HEAD: &str = "\
## Deprecated names

`/metrics` also shows these old names until 0.2.

| deprecated | use | value |
|---|---|---|
";

const SECTIONS: [(&str, &str); FAMILIES.len()] = [
    ("Further metrics", HISTOGRAM),
    ("Cluster", "Nodes of a cluster have these in addition.\n"),
    (
        "Names of the memcached exporter",
        "For dashboards and alerts made for prometheus/memcached_exporter.\n",
    ),
    (
        "Names of the Redis exporter",
        "For dashboards and alerts made for oliver006/redis_exporter.\n",
    ),
];

/// The page's text.
pub(super) fn page() -> String {
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
    text.push_str(&format!("\n{DEPRECATED_HEAD}"));
    for one in DEPRECATED {
        let unit = match one.per_unit {
            1 => String::new(),
            many => format!("multiplied by {many}"),
        };
        text.push_str(&format!("| `{}` | `{}` | {unit} |\n", one.old, one.name));
    }
    text
}

fn line(name: &str, stat: &str, kind: MetricType, help: &str) -> String {
    let (shown, stat, kind) = (prometheus_name(name, kind), code(stat), kind.name());
    format!("| `{name}` | `{shown}` | {stat} | {kind} | {help} |\n")
}

fn family_line(family: &Family) -> String {
    let labels: Vec<String> = family.labels.split(',').map(code).collect();
    let (labels, kind) = (labels.join(", "), family.kind.name());
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

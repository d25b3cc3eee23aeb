//! Deprecated: old names of metrics, which `/metrics` shows beside the new ones until 0.2.
//!
//! The new names follow Prometheus's rules: base units as suffix, ratios instead of percentages,
//! `_timestamp_seconds` for Unix times, no counter that is a gauge's name with `_total`.
//!
//! Source: prometheus.io/docs/practices/naming. Tests: server/tests/metrics.rs.

/// One metric that was renamed.
#[derive(Clone, Copy, Debug)]
pub struct Deprecated {
    /// The old name.
    pub old: &'static str,
    /// The name to use.
    pub name: &'static str,
    /// How many of the old unit are one of the new.
    pub per_unit: u32,
}

/// All of them.
pub const DEPRECATED: &[Deprecated] = &[
    same("cellar_bytes_read_total", "cellar_read_bytes_total"),
    same("cellar_bytes_written_total", "cellar_written_bytes_total"),
    same(
        "cellar_connections_total",
        "cellar_connections_accepted_total",
    ),
    same("cellar_items_total", "cellar_items_stored_total"),
    Deprecated {
        old: "cellar_small_queue_percent",
        name: "cellar_small_queue_ratio",
        per_unit: 100,
    },
    Deprecated {
        old: "cellar_dead_at_eviction_max_ppm",
        name: "cellar_dead_at_eviction_max_ratio",
        per_unit: 1_000_000,
    },
    same(
        "cellar_tls_certificate_expiry_seconds",
        "cellar_tls_certificate_expiry_timestamp_seconds",
    ),
    same("cellar_hottest_key_share", "cellar_hottest_key_ratio"),
    same(
        "cellar_cluster_map_version",
        "cellar_cluster_map_timestamp_seconds",
    ),
];

const fn same(old: &'static str, name: &'static str) -> Deprecated {
    Deprecated {
        old,
        name,
        per_unit: 1,
    }
}

impl Deprecated {
    /// The metric that had this name.
    #[must_use]
    pub fn by_old(old: &str) -> Option<&'static Deprecated> {
        DEPRECATED.iter().find(|one| one.old == old)
    }

    /// The metric that has this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Deprecated> {
        DEPRECATED.iter().find(|one| one.name == name)
    }

    /// The help text of the old name in `/metrics`.
    #[must_use]
    pub fn help(&self) -> String {
        format!("Deprecated: use {}. Removed in 0.2.", self.name)
    }
}

//! Metrics: every metric of the server by name, and all of them as text for Prometheus.
//!
//! One row of a table is one metric: [`tables`] holds counters, by this project's names;
//! [`memcached`], [`redis`] and [`own`] hold the others, the first two by the names that dashboards
//! of those servers read. server/tests/docs/metrics.rs makes docs/metrics.md of all.
//!
//! Tests: server/tests/metrics.rs, server/tests/docs.rs.

pub mod facts;
pub mod text;
pub mod deprecated; // old names, shown beside the new ones
pub mod tables;
pub mod own;
pub mod cluster;
pub mod memcached;
pub mod redis;
pub mod otlp; // the same for collectors of OpenTelemetry

use self::deprecated::Deprecated;
use self::facts::Facts;
use self::text::{Family, Samples, Text};
use crate::state::State;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All families beside the metrics of the tables, in the order in which they are shown.
pub const FAMILIES: [&[Family]; 4] = [
    own::FAMILIES,
    cluster::FAMILIES,
    memcached::FAMILIES,
    redis::FAMILIES,
];

/// All metrics of a server in Prometheus's text format.
#[must_use]
pub fn exposition(state: &State) -> String {
    let facts = Facts::of(state);
    let mut text = Text::default();
    tables::write(&facts, &mut text);
    for family in FAMILIES.into_iter().flatten() {
        text.family(family, &facts);
        if let Some(old) = Deprecated::by_name(family.name) {
            let write = |samples: &mut Samples<'_>| (family.write)(&facts, samples);
            text.samples(old.old, family.kind, &old.help(), write);
        }
    }
    text.into_string()
}

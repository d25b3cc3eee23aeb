//! Metrics: exports the counts of a cache to the recorder of the `metrics` crate.
//!
//! The cache counts in any case ([`Stats`]), so a hit costs nothing more. Names and attributes
//! follow OpenTelemetry's rules: lower case, dots, no units. One row of [`COUNTERS`], [`GAUGES`] or
//! [`DURATIONS`] is one of them; docs/near.md lists the rows.
//!
//! Tests: tests/without_server/metrics.rs.

use std::hash::Hash;

use metrics::{Key, Label, Level, Metadata, Unit};

use crate::read_through::counts::Stats;
use crate::read_through::near::Near;
use crate::read_through::times::Asked;

/// The attribute with the name that the program gave the cache.
const CACHE: &str = "cache.name";

/// One number.
struct Row {
    name: &'static str,
    /// Distinguishes it from other rows of the same name.
    attribute: Option<(&'static str, &'static str)>,
    description: &'static str,
    value: fn(&Stats) -> u64,
}

const fn row(
    name: &'static str,
    attribute: Option<(&'static str, &'static str)>,
    description: &'static str,
    value: fn(&Stats) -> u64,
) -> Row {
    Row {
        name,
        attribute,
        description,
        value,
    }
}

const HIT: Option<(&str, &str)> = Some(("cache.result", "hit"));
const MISS: Option<(&str, &str)> = Some(("cache.result", "miss"));
const STALE: Option<(&str, &str)> = Some(("cache.reason", "stale"));
const AWAY: Option<(&str, &str)> = Some(("cache.reason", "without_origin"));
const TOO_HEAVY: Option<(&str, &str)> = Some(("cache.reason", "too_heavy"));
const OVERTAKEN: Option<(&str, &str)> = Some(("cache.reason", "overtaken"));

const REQUESTS: &str = "Reads, by whether memory had an answer";
const EXCEPTIONS: &str = "Reads answered out of date or without the origin, because that failed";
const REJECTIONS: &str = "Entries not served, and answers not kept, by reason";

/// Counters, which only increase.
#[rustfmt::skip]
const COUNTERS: [Row; 15] = [
    row("cellar.near.requests", HIT, REQUESTS, |stats| stats.hits),
    row("cellar.near.requests", MISS, REQUESTS, |stats| stats.misses),
    row("cellar.near.exceptions", STALE, EXCEPTIONS, |stats| stats.stale_served),
    row("cellar.near.exceptions", AWAY, EXCEPTIONS, |stats| stats.without_origin),
    row("cellar.near.rejections", STALE, REJECTIONS, |stats| stats.stale_avoided),
    row("cellar.near.rejections", OVERTAKEN, REJECTIONS, |stats| stats.overtaken),
    row("cellar.near.rejections", TOO_HEAVY, REJECTIONS, |stats| stats.too_heavy),
    row("cellar.near.loads", None, "Questions to the origin", |stats| stats.loads),
    row("cellar.near.waits", None, "Misses that shared a question", |stats| stats.shared),
    row("cellar.near.errors", None, "Questions and loaders that failed", |stats| stats.errors),
    row("cellar.near.confirmations", None, "Versions confirmed", |stats| stats.confirmed),
    row("cellar.near.refreshes", None, "Questions ahead of an end", |stats| stats.refreshes),
    row("cellar.near.refreshes.failed", None, "Those that failed", |s| s.refreshes_failed),
    row("cellar.near.invalidations", None, "Keys told as changed", |stats| stats.invalidations),
    row("cellar.near.flushes", None, "Times that all was void", |stats| stats.flushes),
];

/// Gauges, which rise and fall.
#[rustfmt::skip]
const GAUGES: [Row; 2] = [
    row("cellar.near.entries", None, "Entries held", |stats| stats.entries),
    row("cellar.near.weight", None, "Their weight", |stats| stats.weight),
];

/// How long is waited for a value, in seconds, as a histogram; and for whom.
const DURATION: &str = "cellar.near.load.duration";
const DURATIONS: [(Asked, (&str, &str)); 2] = [
    (Asked::Origin, ("cache.source", "origin")),
    (Asked::Loader, ("cache.source", "loader")),
];

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some("cellar_near"));

impl<K, V> Near<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Reports all counts to the recorder of the `metrics` crate, under the name `cache`.
    ///
    /// To be called before each export, or every few seconds: the recorder shows the values
    /// reported last. Each duration is reported once, to the recorder installed at that time.
    pub fn record_metrics(&self, cache: &str) {
        let stats = self.stats();
        metrics::with_recorder(|recorder| {
            for row in &COUNTERS {
                let description = row.description.into();
                recorder.describe_counter(row.name.into(), Some(Unit::Count), description);
                let counter = recorder.register_counter(&row.key(cache), &METADATA);
                counter.absolute((row.value)(&stats));
            }
            for row in &GAUGES {
                let description = row.description.into();
                recorder.describe_gauge(row.name.into(), Some(Unit::Count), description);
                let gauge = recorder.register_gauge(&row.key(cache), &METADATA);
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "the recorder takes nothing else"
                )]
                gauge.set((row.value)(&stats) as f64);
            }
            let description = "Time that the origin and loaders take";
            recorder.describe_histogram(DURATION.into(), Some(Unit::Seconds), description.into());
            for (asked, attribute) in DURATIONS {
                let key = key(DURATION, Some(attribute), cache);
                let histogram = recorder.register_histogram(&key, &METADATA);
                self.times().tell(asked, |seconds, count| {
                    histogram.record_many(seconds, usize::try_from(count).unwrap_or(usize::MAX));
                });
            }
        });
    }
}

impl Row {
    fn key(&self, cache: &str) -> Key {
        key(self.name, self.attribute, cache)
    }
}

fn key(name: &'static str, attribute: Option<(&'static str, &'static str)>, cache: &str) -> Key {
    let mut labels = vec![Label::new(CACHE, cache.to_owned())];
    labels.extend(attribute.map(|(name, value)| Label::new(name, value)));
    Key::from_parts(name, labels)
}

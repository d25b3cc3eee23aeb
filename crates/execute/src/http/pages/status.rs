//! Status: the metrics of the console and of `cellar top`, as one JSON object.
//!
//! Counters start at 0 when the server starts. Clients compute rates from two replies.
//! docs/metrics.md marks estimates.
//!
//! Tests: server/tests/status.rs.

use cellar_config::protocol::ByProtocol;
use cellar_config::settings::TABLE;
use cellar_config::settings::address::Address;
use cellar_engine::{ExpiryTimeline, Instant, Leaving, MissRatioCurve, Stats};
use cellar_shared::auth::users::{Role, User};
use cellar_shared::keyspace::compression::prefixes;
use cellar_shared::metrics::facts::{Facts, lag_bounds_ms};
use cellar_shared::observe::counters::Totals;
use cellar_shared::observe::counters::load::{BOUNDS_US, Latencies};
use cellar_shared::observe::history::events::{EventKind, PastEvent};
use cellar_shared::state::State;
use serde::{Deserialize, Serialize};

use super::Page;
use super::query::{self, text_of};

/// Hottest keys shown.
const HOT_KEYS_MAX: usize = 20;
/// Key prefixes shown.
const PREFIXES_MAX: usize = 20;
/// Events shown.
const EVENTS_MAX: usize = 100;
/// Bytes shown of a key.
const KEY_BYTES_MAX: usize = 250;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The process.
    pub server: Server,
    /// Requests answered, by protocol.
    pub requests: ByProtocol<u64>,
    /// Operations on keys.
    pub operations: Operations,
    /// The causes of misses; estimates.
    pub misses: Misses,
    /// How long requests took in the server, in microseconds.
    pub latency_us: ByProtocol<Latency>,
    /// Memory by use.
    pub memory: Memory,
    /// The savings of compression.
    #[serde(default)]
    pub compression: Compression,
    /// Items: current, stored, evicted, expired.
    pub items: Items,
    /// Items by the time until they expire; estimates.
    pub expiry: Expiry,
    /// Miss ratios at other memory sizes; estimates.
    pub curve: Vec<CurvePoint>,
    /// The keys read most in the last minute or so; estimates.
    pub hot_keys: Vec<HotKey>,
    /// Connections.
    pub connections: Connections,
    /// The event loops.
    pub threads: Vec<Thread>,
    /// Recent events beside requests; the newest last.
    pub events: Vec<Event>,
    /// Expired items by the time from their deadline until their memory was reclaimed, in
    /// milliseconds.
    pub reclaim_lag_ms: Histogram,
    /// The settings in effect; what is secret is not shown.
    pub settings: Vec<Setting>,
}

/// The process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// The version.
    pub version: String,
    /// The process's number.
    pub pid: u32,
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// Unix time in milliseconds.
    pub now_unix_ms: u64,
    /// Whether it drains.
    pub draining: bool,
    /// Whether the console may change anything.
    pub console_write: bool,
    /// Event loops.
    pub threads: usize,
    /// How the cache of the previous process was restored, with `--state`.
    #[serde(default)]
    pub restored: Option<RestoredCache>,
    /// Listen addresses of memcached's protocol, if any.
    pub memcached: Option<String>,
    /// Those of the Redis protocol.
    pub resp: Option<String>,
    /// Those of HTTP.
    pub http: Option<String>,
}

/// How the cache of the previous process was restored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RestoredCache {
    /// Why the cache started empty; none if it was restored.
    pub empty_because: Option<String>,
    /// Whether the previous process was killed instead of stopped.
    pub was_killed: bool,
    /// Items restored.
    pub items: u64,
    /// Items dropped because they may be damaged.
    pub dropped: u64,
    /// Bytes of memory whose items are not checked yet.
    #[serde(default)]
    pub unchecked_bytes: u64,
    /// Milliseconds without a server.
    pub away_ms: u64,
    /// Milliseconds that restoring took.
    pub took_ms: f64,
}

/// Operations of all protocols on keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// Keys asked for.
    pub gets: u64,
    /// Of those, keys found.
    pub hits: u64,
    /// And keys not found.
    pub misses: u64,
    /// Storage commands.
    pub sets: u64,
    /// Deletes.
    pub deletes: u64,
    /// Touches.
    pub touches: u64,
}

/// Misses by their reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Misses {
    /// The key was never stored, or too long ago to be known.
    pub never_stored: u64,
    /// The deadline had passed.
    pub expired: u64,
    /// The item was evicted.
    pub evicted: u64,
    /// The item was deleted or flushed.
    pub deleted: u64,
}

/// A histogram: counts by bin, the last one without a bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Upper bounds, rising.
    pub bounds: Vec<u64>,
    /// Counts of the bins, one more than there are bounds.
    pub counts: Vec<u64>,
}

/// A histogram with its sums.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Requests.
    pub count: u64,
    /// The sum of what they took.
    pub sum: u64,
    /// The bins.
    #[serde(flatten)]
    pub histogram: Histogram,
}

/// Memory by use, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The configured memory.
    pub limit_bytes: u64,
    /// Live items.
    pub live_bytes: u64,
    /// Expired, deleted and overwritten items.
    pub dead_bytes: u64,
    /// Resident free memory; the rest of the limit is [`Memory::unused_bytes`].
    pub free_bytes: u64,
    /// The index.
    pub index_bytes: u64,
    /// Other bookkeeping.
    pub overhead_bytes: u64,
    /// Buffers of connections; up to a second old.
    pub buffer_bytes: u64,
    /// The process, as the system sees it.
    pub rss_bytes: u64,
}

impl Memory {
    /// The unused part of the limit, resident or not.
    #[must_use]
    pub fn unused_bytes(&self) -> u64 {
        let used = self.live_bytes + self.dead_bytes + self.index_bytes + self.overhead_bytes;
        self.limit_bytes.saturating_sub(used)
    }
}

/// The savings and the cost of compression.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compression {
    /// Whether the server compresses values (`compress auto`).
    pub enabled: bool,
    /// Values compressed so far.
    pub values: u64,
    /// Their bytes before.
    pub plain_bytes: u64,
    /// And after.
    pub compressed_bytes: u64,
    /// Reads that had to decompress a value.
    pub reads: u64,
    /// Processor time to compress, decompress and train, in microseconds; an estimate.
    pub cpu_us: u64,
    /// Dictionaries.
    pub dictionaries: u64,
    /// Bytes of memory that the dictionaries take.
    pub dictionary_bytes: u64,
    /// The sampled key prefixes, those that save the most bytes of their sample first.
    pub prefixes: Vec<CompressedPrefix>,
}

/// The values of one database whose keys have a common prefix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompressedPrefix {
    /// The database.
    pub database: u32,
    /// The text before the first `:` or `/`; invalid UTF-8 and invisible characters as `%XX`.
    pub prefix: String,
    /// The same bytes, encoded for a query.
    pub prefix_percent: String,
    /// Whether the values are compressed.
    pub compressed: bool,
    /// Compressed over plain bytes of the last sample, 0 to 1; none if the sample was too small.
    pub ratio: Option<f64>,
}

/// Items and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Items {
    /// Items now; one that expires is no longer counted a quarter of a second later.
    pub now: u64,
    /// Items stored.
    pub stored: u64,
    /// Live items that left because memory was needed.
    pub evicted: u64,
    /// Expired items whose memory was taken back.
    pub expired: u64,
}

/// Items and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amount {
    /// Items.
    pub items: u64,
    /// Bytes with header and key.
    pub bytes: u64,
}

/// The items that expire in one step of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelineStep {
    /// The end of the step, in seconds from now.
    pub until_s: u64,
    /// Items.
    pub items: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Items by the time until they expire; the three spans each begin now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Expiry {
    /// Expired items whose memory is not reclaimed yet.
    pub overdue: Amount,
    /// The next minute by second.
    pub minute: Vec<TimelineStep>,
    /// The next hour by minute.
    pub hour: Vec<TimelineStep>,
    /// The next day by hour.
    pub day: Vec<TimelineStep>,
    /// After that.
    pub later: Amount,
    /// Without a deadline.
    pub never: Amount,
}

/// One memory size of the miss-ratio curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Times the present memory.
    pub factor: f64,
    /// That memory, in bytes.
    pub memory_bytes: u64,
    /// Reads since the start.
    pub gets: u64,
    /// Reads that would have missed.
    pub misses: u64,
    /// Their share, 0 to 1; none without reads.
    pub miss_ratio: Option<f64>,
}

/// A key that is read often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HotKey {
    /// The key, at most 250 bytes; invalid UTF-8 and invisible characters as `%XX`.
    pub key: String,
    /// The same bytes, encoded for a query.
    pub key_percent: String,
    /// Its share of all reads, 0 to 1.
    pub share: f64,
    /// Reads of it in a second.
    pub gets_per_s: f64,
    /// Its database.
    pub database: u32,
}

/// Connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// Open now.
    pub now: ByProtocol<u64>,
    /// Accepted so far.
    pub accepted: u64,
    /// Refused so far.
    pub refused: u64,
}

/// One event loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// The thread's name.
    pub name: String,
    /// Time spent in busy event-loop iterations.
    pub busy_us: u64,
    /// Requests answered.
    pub requests: u64,
    /// Connections served now.
    pub connections: u64,
}

/// Something that happened, or that happened several times in a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// When it happened last.
    pub until_unix_ms: u64,
    /// `started`, `flush`, `config`, `shed`, `slow`, `refused`, `stalled`.
    pub kind: String,
    /// How often.
    pub count: u64,
    /// The version that was started, the setting that was changed.
    pub detail: String,
}

/// One setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Its flag without the dashes.
    pub name: String,
    /// Its value, as an operator would write it.
    pub value: String,
}

/// GET /v1/console/status
#[must_use]
pub fn page(user: Option<&User>, state: &State) -> Page {
    let mut status = Status::of(state);
    if let Some(user) = user {
        status.hide_from(user, state);
    }
    Page::json(&status)
}

impl Status {
    /// The status of now. Locks one shard after the other for a moment.
    #[must_use]
    pub fn of(state: &State) -> Status {
        let facts = Facts::of(state);
        let load = &facts.load;
        Status {
            server: server(&facts),
            requests: load.latency.map(Latencies::count),
            operations: operations(&facts.totals, &facts.engine),
            misses: misses(&facts.engine),
            latency_us: load.latency.map(latency),
            memory: memory(&facts),
            compression: compression(&facts),
            items: Items {
                now: facts.engine.items,
                stored: facts.engine.items_total,
                evicted: facts.engine.evicted,
                expired: facts.engine.expired,
            },
            expiry: expiry(&facts.timeline),
            curve: curve(&facts.curve),
            hot_keys: hot_keys(&facts),
            connections: Connections {
                now: load.connections,
                accepted: facts.totals.connections_total,
                refused: facts.totals.connections_rejected,
            },
            threads: threads(&facts),
            events: events(state),
            reclaim_lag_ms: Histogram {
                bounds: lag_bounds_ms(),
                counts: facts.lag.items.to_vec(),
            },
            settings: settings(state),
        }
    }
}

impl Status {
    /// Removes data that a user may not see: keys of other users, and the settings.
    fn hide_from(&mut self, user: &User, state: &State) {
        let databases = &state.databases;
        let may_see = |database: u32, percent: &str| {
            let key = query::decode(percent);
            databases.count() > database as usize
                && user.may_use_database(database)
                && key.is_some_and(|key| user.may_use(&key))
        };
        let hot_keys = &mut self.hot_keys;
        hot_keys.retain(|hot| may_see(hot.database, &hot.key_percent));
        let prefixes = &mut self.compression.prefixes;
        prefixes.retain(|one| may_see(one.database, &one.prefix_percent));
        if user.role < Role::Admin {
            self.settings.clear();
            hide_settings(&mut self.events);
        }
    }
}

/// Removes the events that reveal settings.
pub(super) fn hide_settings(events: &mut Vec<Event>) {
    events.retain(|event| event.kind != EventKind::Config.name());
}

/// The events, the newest last.
pub(super) fn events(state: &State) -> Vec<Event> {
    let all = state.records.history.events();
    let unix_ms = |at_ms| state.wall.unix_ms(Instant(at_ms));
    let event = |event: &PastEvent| Event {
        unix_ms: unix_ms(event.from_ms),
        until_unix_ms: unix_ms(event.until_ms),
        kind: event.kind.name().to_owned(),
        count: event.count,
        detail: event.detail.to_string(),
    };
    let first = all.len().saturating_sub(EVENTS_MAX);
    all[first..].iter().map(event).collect()
}

fn server(facts: &Facts<'_>) -> Server {
    let settings = &facts.state.settings;
    let address = |all: &[Address]| (!all.is_empty()).then(|| Address::show_all(all));
    Server {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uptime_ms: facts.uptime_ms(),
        now_unix_ms: facts.now_unix_ms(),
        // Relaxed: only shown.
        draining: facts.state.run.is_draining(),
        console_write: settings.console_write,
        threads: settings.threads,
        restored: facts.state.cache.restored().map(|restored| RestoredCache {
            empty_because: restored.empty_because.clone(),
            was_killed: restored.is_restored() && !restored.was_clean_stop,
            items: restored.items,
            dropped: restored.dropped,
            unchecked_bytes: restored.unchecked_bytes,
            away_ms: restored.away_ms,
            took_ms: restored.took_us as f64 / 1e3,
        }),
        memcached: address(&settings.listen.memcached),
        resp: address(&settings.listen.resp),
        http: address(&settings.listen.http),
    }
}

pub(super) fn misses(engine: &Stats) -> Misses {
    Misses {
        never_stored: engine.missed_never_stored,
        expired: engine.missed_expired,
        evicted: engine.missed_evicted,
        deleted: engine.missed_deleted,
    }
}

/// Reads of the engine, as in the miss-ratio curve. They include reads of hashes, lists and sets,
/// which the counters of memcached commands leave out.
pub(super) fn operations(totals: &Totals, engine: &Stats) -> Operations {
    Operations {
        gets: engine.gets,
        hits: engine.gets.saturating_sub(engine.misses),
        misses: engine.misses,
        sets: totals.cmd_set,
        deletes: totals.delete_hits + totals.delete_misses,
        touches: totals.cmd_touch,
    }
}

pub(super) fn latency(latencies: &Latencies) -> Latency {
    Latency {
        count: latencies.count(),
        sum: latencies.sum_us,
        histogram: Histogram {
            bounds: BOUNDS_US.to_vec(),
            counts: latencies.bins.to_vec(),
        },
    }
}

fn memory(facts: &Facts<'_>) -> Memory {
    let engine = &facts.engine;
    Memory {
        limit_bytes: engine.memory_bytes,
        live_bytes: engine.live_bytes,
        dead_bytes: engine.dead_bytes,
        free_bytes: engine.free_bytes,
        index_bytes: engine.index_bytes,
        overhead_bytes: engine.overhead_bytes,
        buffer_bytes: facts.load.buffer_bytes,
        rss_bytes: facts.resident_bytes,
    }
}

fn compression(facts: &Facts<'_>) -> Compression {
    let (engine, state) = (&facts.engine, facts.state);
    let prefixes = prefixes(&state.cache, &state.databases, None).take(PREFIXES_MAX);
    let prefixes = prefixes.map(|one| CompressedPrefix {
        database: one.database,
        prefix: text_of(&one.prefix),
        prefix_percent: query::encode(&one.prefix),
        compressed: one.is_compressed,
        ratio: one.ratio,
    });
    Compression {
        enabled: state.cache.compresses(),
        values: engine.compressed,
        plain_bytes: engine.compressed_from_bytes,
        compressed_bytes: engine.compressed_to_bytes,
        reads: engine.compressed_gets,
        cpu_us: engine.compression_ns / 1_000,
        dictionaries: engine.dictionaries,
        dictionary_bytes: engine.dictionary_bytes,
        prefixes: prefixes.collect(),
    }
}

fn expiry(timeline: &ExpiryTimeline) -> Expiry {
    let amount = |leaving: Leaving| Amount {
        items: leaving.items,
        bytes: leaving.bytes,
    };
    let steps = |steps: &[Leaving], step_s: u64| {
        let ends = (1..).map(|step| step * step_s);
        let step = |(until_s, leaving): (u64, &Leaving)| TimelineStep {
            until_s,
            items: leaving.items,
            bytes: leaving.bytes,
        };
        ends.zip(steps).map(step).collect()
    };
    Expiry {
        overdue: amount(timeline.overdue),
        minute: steps(&timeline.minute, 1),
        hour: steps(&timeline.hour, 60),
        day: steps(&timeline.day, 3_600),
        later: amount(timeline.later),
        never: amount(timeline.never),
    }
}

fn curve(curve: &MissRatioCurve) -> Vec<CurvePoint> {
    let ratios = curve.miss_ratios();
    let points = MissRatioCurve::FACTORS
        .iter()
        .zip(&curve.points)
        .zip(ratios);
    let point = |((&factor, point), ratio): ((&f64, &cellar_engine::CurvePoint), f64)| CurvePoint {
        factor,
        memory_bytes: point.memory_bytes,
        gets: curve.gets,
        misses: point.misses,
        miss_ratio: (curve.gets > 0).then_some(ratio),
    };
    points.map(point).collect()
}

fn hot_keys(facts: &Facts<'_>) -> Vec<HotKey> {
    let databases = &facts.state.databases;
    let shown = facts.hot_keys(HOT_KEYS_MAX).into_iter().filter_map(|hot| {
        let key = &hot.key[..hot.key.len().min(KEY_BYTES_MAX)];
        Some(HotKey {
            // Keys of a database that was flushed belong to none.
            database: databases.database_of(hot.space)?,
            key: text_of(key),
            key_percent: query::encode(key),
            share: hot.share,
            gets_per_s: hot.gets_per_s,
        })
    });
    shown.collect()
}

fn threads(facts: &Facts<'_>) -> Vec<Thread> {
    let thread =
        |(index, load): (usize, &cellar_shared::observe::counters::load::LoadTotals)| Thread {
            name: format!("cellar-{index}"),
            busy_us: load.busy_us,
            requests: load.requests(),
            connections: load.connections.values().sum(),
        };
    facts.loads.iter().enumerate().map(thread).collect()
}

fn settings(state: &State) -> Vec<Setting> {
    let in_effect = state.settings_in_effect();
    let setting = |row: &cellar_config::settings::Row| Setting {
        name: row.name.to_owned(),
        value: row.shown(&in_effect),
    };
    TABLE.iter().map(setting).collect()
}

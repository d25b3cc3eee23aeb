//! History page: what the server did in the last 15 minutes or 24 hours, as columns in JSON.
//!
//! The reply also has the events, and counters of the last minute, so that the console shows rates
//! of the last minute as soon as it opens.
//!
//! Tests: at the end of this file, server/tests/history.rs.

use cellar_config::protocol::ByProtocol;
use cellar_engine::{Instant, Stats};
use cellar_shared::auth::users::Role;
use cellar_shared::observe::history::columns::COLUMNS;
use cellar_shared::observe::history::{Moment, Resolution, Snapshot};
use cellar_shared::state::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::status::{
    Event, Latency, Misses, Operations, events, hide_settings, latency, misses, operations,
};
use super::{Page, PageRequest, query};

/// All of it.
#[derive(Serialize)]
struct HistoryPage {
    /// The process's number.
    pid: u32,
    /// Milliseconds since the start.
    uptime_ms: u64,
    /// Unix time in milliseconds.
    now_unix_ms: u64,
    /// Milliseconds from one row to the next.
    step_ms: u64,
    /// The metrics of the rows, oldest first, by name.
    columns: Box<RawValue>,
    /// Counts of the last minute, oldest first.
    earlier: Vec<Earlier>,
    /// The events, the newest last.
    events: Vec<Event>,
}

/// Counters at a time in the last minute: a part of the status at that time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Earlier {
    /// The process.
    pub server: EarlierServer,
    /// Requests answered, by protocol.
    pub requests: ByProtocol<u64>,
    /// Operations on keys.
    pub operations: Operations,
    /// The causes of misses.
    pub misses: Misses,
    /// Request latencies.
    pub latency_us: ByProtocol<Latency>,
    /// Items stored, evicted and expired.
    pub items: EarlierItems,
    /// Misses with other memory sizes, in the order of the status.
    pub curve: Vec<EarlierCurvePoint>,
    /// The event loops.
    pub threads: Vec<EarlierThread>,
}

/// The process at that moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EarlierServer {
    /// Its number.
    pub pid: u32,
    /// Milliseconds since its start.
    pub uptime_ms: u64,
}

/// Items at that moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EarlierItems {
    /// Items stored.
    pub stored: u64,
    /// Evicted items.
    pub evicted: u64,
    /// Expired items whose memory was reclaimed.
    pub expired: u64,
}

/// One memory size of the miss-ratio curve at that moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EarlierCurvePoint {
    /// Reads.
    pub gets: u64,
    /// Reads that would have missed.
    pub misses: u64,
}

/// An event loop at that moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EarlierThread {
    /// Its name.
    pub name: String,
    /// Time spent in busy event-loop iterations.
    pub busy_us: u64,
    /// Requests answered.
    pub requests: u64,
}

/// GET /v1/console/history
pub(super) fn page(request: &PageRequest<'_>, state: &State) -> Page {
    let resolution = match wanted(request.query) {
        Ok(resolution) => resolution,
        Err(message) => return Page::error(400, "bad_query", message),
    };
    let now = state.cache.now();
    let mut events = events(state);
    if request.user.is_some_and(|user| user.role < Role::Admin) {
        hide_settings(&mut events);
    }
    let unix_ms = |at_ms| state.wall.unix_ms(Instant(at_ms));
    Page::json(&HistoryPage {
        pid: std::process::id(),
        uptime_ms: now.0,
        now_unix_ms: state.wall.unix_ms(now),
        step_ms: resolution.step_ms(),
        columns: columns(&state.records.history.rows(resolution), unix_ms),
        earlier: state
            .records
            .history
            .earlier()
            .iter()
            .map(earlier)
            .collect(),
        events,
    })
}

/// The resolution of time that a query asks for.
fn wanted(query: &str) -> Result<Resolution, &'static str> {
    let mut resolution = Resolution::Seconds;
    for parameter in query::parameters(query) {
        resolution = match parameter {
            ("step", "1s") => Resolution::Seconds,
            ("step", "1m") => Resolution::Minutes,
            ("step", _) => return Err("step is 1s or 1m"),
            _ => return Err("the query has a parameter other than step"),
        }
    }
    Ok(resolution)
}

/// Rows as columns.
fn columns(rows: &[Moment], unix_ms: impl Fn(u64) -> u64) -> Box<RawValue> {
    let mut text = String::from("{\"time_unix_ms\":[");
    let mut digits = itoa::Buffer::new();
    for row in rows {
        text.push_str(digits.format(unix_ms(row.at_ms)));
        text.push(',');
    }
    end_column(&mut text);
    for (place, column) in COLUMNS.iter().enumerate() {
        text.push_str(",\"");
        text.push_str(column.name);
        text.push_str("\":[");
        for row in rows {
            push_figure(&mut text, row.figures.0[place]);
            text.push(',');
        }
        end_column(&mut text);
    }
    text.push('}');
    RawValue::from_string(text).expect("names and numbers make JSON")
}

fn end_column(text: &mut String) {
    if text.ends_with(',') {
        text.pop();
    }
    text.push(']');
}

/// Writes a number with at most four decimal places, which is much faster than the shortest exact
/// form.
fn push_figure(text: &mut String, figure: f32) {
    const SCALE: u64 = 10_000;
    if !figure.is_finite() {
        return text.push_str("null");
    }
    let scaled = (f64::from(figure.max(0.0)) * SCALE as f64).round() as u64;
    let mut digits = itoa::Buffer::new();
    text.push_str(digits.format(scaled / SCALE));
    let rest = scaled % SCALE;
    if rest > 0 {
        let tail = [1_000, 100, 10, 1].map(|place| char::from(b'0' + (rest / place % 10) as u8));
        text.push('.');
        text.extend(tail);
        text.truncate(text.trim_end_matches('0').len());
    }
}

fn earlier(snapshot: &Snapshot) -> Earlier {
    let load = &snapshot.load;
    let threads = snapshot.loops.iter().enumerate();
    Earlier {
        server: EarlierServer {
            pid: std::process::id(),
            uptime_ms: snapshot.at_ms,
        },
        requests: load.latency.map(|one| one.count()),
        operations: operations(&snapshot.totals, &snapshot.engine),
        misses: misses(&snapshot.engine),
        latency_us: load.latency.map(latency),
        items: EarlierItems {
            stored: snapshot.engine.items_total,
            evicted: snapshot.engine.evicted,
            expired: snapshot.engine.expired,
        },
        curve: curve(&snapshot.engine),
        threads: threads
            .map(|(index, one)| EarlierThread {
                name: format!("cellar-{index}"),
                busy_us: one.busy_us,
                requests: one.requests,
            })
            .collect(),
    }
}

/// The curve's counts, in the order of [`cellar_engine::MissRatioCurve::FACTORS`].
fn curve(engine: &Stats) -> Vec<EarlierCurvePoint> {
    let misses = [
        engine.misses_at_quarter,
        engine.misses_at_half,
        engine.misses,
        engine.misses_at_double,
        engine.misses_at_fourfold,
    ];
    let gets = engine.gets;
    misses
        .map(|misses| EarlierCurvePoint { gets, misses })
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_short_as_they_are() {
        for (figure, expected) in [
            (0.0, "0"),
            (f32::NAN, "null"),
            (f32::INFINITY, "null"),
            (7.0, "7"),
            (0.5, "0.5"),
            (0.00006, "0.0001"),
            (99.95, "99.95"),
            (-1.0, "0"),
            (1_073_741_824.0, "1073741824"),
        ] {
            let mut text = String::new();
            push_figure(&mut text, figure);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn rows_become_columns() {
        let none = columns(&[], |at_ms| at_ms);
        assert!(
            none.get()
                .starts_with("{\"time_unix_ms\":[],\"requests\":[]")
        );
        let rows: Vec<Moment> = (1..=3_u64)
            .map(|at_ms| Moment {
                at_ms,
                figures: cellar_shared::observe::history::columns::RowFigures(
                    [at_ms as f32; COLUMNS.len()],
                ),
            })
            .collect();
        let all = columns(&rows, |at_ms| at_ms + 10);
        let start = "{\"time_unix_ms\":[11,12,13],\"requests\":[1,2,3],";
        assert!(all.get().starts_with(start), "{}", all.get());
    }

    #[test]
    fn a_query_names_one_of_two_steps() {
        assert_eq!(wanted(""), Ok(Resolution::Seconds));
        assert_eq!(wanted("step=1s"), Ok(Resolution::Seconds));
        assert_eq!(wanted("step=1m"), Ok(Resolution::Minutes));
        for bad in ["step=", "step=2s", "span=1", "step"] {
            assert!(wanted(bad).is_err(), "{bad}");
        }
    }
}

//! History: metrics of the last 15 minutes and 24 hours, and the events in that time.
//!
//! Once a second a background thread (recorder.rs) takes a [`Snapshot`] of all counters. The
//! difference of two snapshots is a row of metrics ([`columns`]): one for each second of the last
//! 15 minutes, one for each minute of the last 24 hours. Some counters yield events ([`events`]);
//! changes of settings are reported by the code that makes them.
//!
//! Invariant: all of it takes at most [`HISTORY_BYTES_MAX`], however long the server runs. Page:
//! docs/console.md. Tests: at the end of this file, server/tests/history.rs.

pub mod events; // what happened, and when
pub mod columns; // the metrics of a row

use std::collections::VecDeque;
use std::mem::size_of;

use cellar_config::settings::THREADS_MAX;
use cellar_engine::Stats;
use parking_lot::Mutex;

use self::columns::{COLUMNS, Interval, RowFigures};
use self::events::{DETAIL_BYTES_MAX, EVENTS_BYTES_MAX, EventKind, PastEvent, PastEvents};
use crate::observe::counters::Totals;
use crate::observe::counters::load::LoadTotals;

/// Most bytes that the history takes.
pub const HISTORY_BYTES_MAX: usize = 1 << 20;
/// Rows of a second that are kept.
pub const SECONDS_MAX: usize = 15 * 60;
/// Rows of a minute that are kept.
pub const MINUTES_MAX: usize = 24 * 60;
/// Time between two snapshots, in milliseconds.
pub const STEP_MS: u64 = 1_000;

/// Milliseconds from one row of a minute to the next.
const MINUTE_MS: u64 = 60_000;
/// Snapshots kept, for the metrics of the last minute.
const SNAPSHOTS_MAX: usize = 62;
/// Ages of the snapshots that a page begins with, relative to the newest, in seconds. The oldest is
/// less than a minute older, because the newest is a second old itself and the page's own reply
/// comes later still. As the page grows older its minute begins at the next snapshot, so that the
/// minute is never five seconds too short.
const EARLIER_S: [u64; 13] = [58, 53, 48, 43, 38, 33, 28, 23, 18, 13, 8, 2, 1];

const _: () = assert!(
    (SECONDS_MAX + MINUTES_MAX) * size_of::<Moment>()
        + (SNAPSHOTS_MAX + 1) * size_of::<Snapshot>()
        + (SNAPSHOTS_MAX + 1) * THREADS_MAX * size_of::<LoopSnapshot>()
        + EVENTS_BYTES_MAX
        + size_of::<History>()
        <= HISTORY_BYTES_MAX,
    "the history fits"
);

/// All counts at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The engine's moment, in milliseconds.
    pub at_ms: u64,
    /// The event loops' load.
    pub load: LoadTotals,
    /// Each event loop's own.
    pub loops: Vec<LoopSnapshot>,
    /// The counters.
    pub totals: Totals,
    /// The engine's metrics.
    pub engine: Stats,
    /// How often an event loop stalled.
    pub stalls: u64,
}

/// The work of one event loop so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopSnapshot {
    /// Time of iterations with work, in microseconds.
    pub busy_us: u64,
    /// Requests answered.
    pub requests: u64,
}

/// One row: what happened in the time before a moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The engine's moment, in milliseconds.
    pub at_ms: u64,
    /// The metrics, in the order of the table; unknown ones are NaN.
    pub figures: RowFigures,
}

/// The interval of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// One second, for 15 minutes.
    Seconds,
    /// One minute, for 24 hours.
    Minutes,
}

impl Resolution {
    /// Milliseconds from one row to the next.
    #[must_use]
    pub fn step_ms(self) -> u64 {
        match self {
            Resolution::Seconds => STEP_MS,
            Resolution::Minutes => MINUTE_MS,
        }
    }
}

/// The rows and events kept.
#[derive(Debug, Default)]
pub struct History {
    rows: Mutex<Rows>,
    events: Mutex<PastEvents>,
}

#[derive(Debug, Default)]
struct Rows {
    snapshots: VecDeque<Snapshot>,
    seconds: VecDeque<Moment>,
    minutes: VecDeque<Moment>,
    minute_began: Option<Snapshot>,
}

impl History {
    /// Takes what was counted until now.
    pub fn note(&self, snapshot: Snapshot) {
        let mut rows = self.rows.lock();
        if let Some(before) = rows.snapshots.back() {
            self.note_events(&snapshot, before);
        }
        rows.note(snapshot);
    }

    /// Records an event that no counter shows.
    pub fn tell(&self, kind: EventKind, at_ms: u64, detail: &str) {
        let mut end = detail.len().min(DETAIL_BYTES_MAX);
        while !detail.is_char_boundary(end) {
            end -= 1;
        }
        self.events.lock().note(kind, at_ms, 1, &detail[..end]);
    }

    /// The rows, oldest first.
    #[must_use]
    pub fn rows(&self, span: Resolution) -> Vec<Moment> {
        let rows = self.rows.lock();
        let rows = match span {
            Resolution::Seconds => &rows.seconds,
            Resolution::Minutes => &rows.minutes,
        };
        rows.iter().copied().collect()
    }

    /// Some snapshots of the last minute, oldest first, for a page that opens.
    #[must_use]
    pub fn earlier(&self) -> Vec<Snapshot> {
        let rows = self.rows.lock();
        let Some(newest) = rows.snapshots.back() else {
            return Vec::new();
        };
        let mut found: Vec<Snapshot> = Vec::new();
        for seconds in EARLIER_S {
            let oldest_ms = newest.at_ms.saturating_sub(seconds * 1_000);
            let one = rows.snapshots.iter().find(|one| one.at_ms >= oldest_ms);
            let one = one.filter(|one| found.last().is_none_or(|last| last.at_ms < one.at_ms));
            found.extend(one.cloned());
        }
        found
    }

    /// The events, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<PastEvent> {
        self.events.lock().all()
    }

    /// Records the events that counters reveal.
    fn note_events(&self, now: &Snapshot, before: &Snapshot) {
        let counts = |snapshot: &Snapshot| {
            let totals = &snapshot.totals;
            [
                (EventKind::Flush, totals.cmd_flush),
                (EventKind::Shed, totals.connections_memory_closed),
                (EventKind::Slow, totals.connections_slow_closed),
                (EventKind::Refused, totals.connections_rejected),
                (EventKind::Stalled, snapshot.stalls),
            ]
        };
        let mut events = self.events.lock();
        for ((kind, count), (_, earlier)) in counts(now).into_iter().zip(counts(before)) {
            let more = count.saturating_sub(earlier);
            if more > 0 {
                events.note(kind, now.at_ms, more, "");
            }
        }
    }
}

impl Rows {
    fn note(&mut self, snapshot: Snapshot) {
        if let Some(before) = self.snapshots.back() {
            push(&mut self.seconds, between(&snapshot, before), SECONDS_MAX);
        }
        match &self.minute_began {
            Some(before) if snapshot.at_ms.saturating_sub(before.at_ms) < MINUTE_MS => {}
            began => {
                if let Some(before) = began {
                    push(&mut self.minutes, between(&snapshot, before), MINUTES_MAX);
                }
                self.minute_began = Some(snapshot.clone());
            }
        }
        push(&mut self.snapshots, snapshot, SNAPSHOTS_MAX);
    }
}

/// The row between two snapshots.
fn between(now: &Snapshot, before: &Snapshot) -> Moment {
    Moment {
        at_ms: now.at_ms,
        figures: Interval::new(now, before).figures(),
    }
}

/// Appends an entry; removes the first one of `most`. Memory is reserved once.
fn push<T>(ring: &mut VecDeque<T>, last: T, most: usize) {
    if ring.capacity() < most {
        ring.reserve_exact(most - ring.len());
    }
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(last);
}

impl RowFigures {
    /// The row's value of a column, by the column's name; `None` if unknown.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<f32> {
        let place = COLUMNS.iter().position(|column| column.name == name)?;
        Some(self.0[place]).filter(|figure| figure.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(at_ms: u64, requests: u64) -> Snapshot {
        let mut snapshot = Snapshot {
            at_ms,
            ..Snapshot::default()
        };
        snapshot.load.latency.memcached.bins[2] = requests;
        snapshot.engine.gets = requests;
        snapshot.loops = vec![LoopSnapshot {
            busy_us: at_ms * 500,
            requests,
        }];
        snapshot
    }

    #[test]
    fn a_row_tells_of_the_time_between_two_readings() {
        let history = History::default();
        assert!(history.rows(Resolution::Seconds).is_empty() && history.earlier().is_empty());
        history.note(snapshot(500, 10));
        assert!(history.rows(Resolution::Seconds).is_empty());
        history.note(snapshot(1_500, 110));
        history.note(snapshot(3_500, 110));
        let rows = history.rows(Resolution::Seconds);
        let of = |name| {
            rows.iter()
                .map(|row| row.figures.of(name))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("memcached"), [Some(100.0), Some(0.0)]);
        assert_eq!(of("hit_ratio"), [Some(1.0), None]);
        assert_eq!(of("busiest"), [Some(0.5), Some(0.5)]);
        assert_eq!(of("memcached_p50"), [Some(35.0), None]);
        assert_eq!(rows[1].at_ms, 3_500);
    }

    #[test]
    fn old_rows_leave_and_room_is_taken_once() {
        let history = History::default();
        for second in 0..u64::try_from(MINUTES_MAX).unwrap() * 60 + 400 {
            history.note(snapshot(second * 1_000, second * 7));
        }
        let rows = history.rows.lock();
        assert_eq!(rows.seconds.len(), SECONDS_MAX);
        assert_eq!(rows.minutes.len(), MINUTES_MAX);
        assert_eq!(rows.seconds.capacity(), SECONDS_MAX);
        assert_eq!(rows.minutes.capacity(), MINUTES_MAX);
        assert_eq!(rows.snapshots.capacity(), SNAPSHOTS_MAX);
        assert!(
            rows.minutes
                .iter()
                .all(|row| row.figures.of("busiest") == Some(0.5))
        );
        let all_even = rows
            .minutes
            .iter()
            .all(|row| row.figures.of("requests") == Some(7.0));
        assert!(all_even, "a minute's row is the mean of its seconds");
    }

    #[test]
    fn a_page_that_opens_gets_readings_of_the_last_minute() {
        let history = History::default();
        for second in 0..100 {
            history.note(snapshot(second * 1_000, second));
        }
        let at: Vec<u64> = history
            .earlier()
            .iter()
            .map(|one| one.at_ms / 1_000)
            .collect();
        assert_eq!(at, [41, 46, 51, 56, 61, 66, 71, 76, 81, 86, 91, 97, 98]);
    }

    #[test]
    fn counts_tell_what_happened() {
        let history = History::default();
        let flushed = |at_ms, flushes| {
            let mut snapshot = snapshot(at_ms, 0);
            snapshot.totals.cmd_flush = flushes;
            snapshot
        };
        history.note(flushed(0, 5));
        history.note(flushed(1_000, 5));
        assert!(history.events().is_empty(), "what was before is not told");
        history.note(flushed(2_000, 7));
        history.tell(EventKind::Config, 2_500, &"\u{e9}".repeat(DETAIL_BYTES_MAX));
        let events = history.events();
        let told: Vec<_> = events.iter().map(|one| (one.kind, one.count)).collect();
        assert_eq!(told, [(EventKind::Flush, 2), (EventKind::Config, 1)]);
        assert!(events[1].detail.len() <= DETAIL_BYTES_MAX);
    }
}

//! Recorder: updates the history, on a background thread.
//!
//! Once a second it reads all counters. The event loops are not involved; a shard is locked while
//! its sums are read.
//!
//! Tests: tests/history.rs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cellar_shared::observe::counters::load::LoadTotals;
use cellar_shared::observe::history::events::EventKind;
use cellar_shared::observe::history::{LoopSnapshot, STEP_MS, Snapshot};
use cellar_shared::state::State;
use cellar_system::clock::LoopClock;
use cellar_system::ticker::Ticker;

/// Starts the thread.
///
/// # Errors
/// The system's, when it is out of threads.
pub(crate) fn start(state: Arc<State>, clock: LoopClock) -> io::Result<Ticker> {
    let (now, version) = (clock.refresh(), env!("CARGO_PKG_VERSION"));
    state
        .records
        .history
        .tell(EventKind::Started, now.0, version);
    Ticker::start("cellar-recorder", Duration::ZERO, move || {
        let now = clock.refresh();
        state.records.history.note(snapshot(&state, now.0));
        // Rows lie a whole number of steps from the start.
        Duration::from_millis(STEP_MS - clock.us() / 1_000 % STEP_MS)
    })
}

fn snapshot(state: &State, at_ms: u64) -> Snapshot {
    let loads: Vec<LoadTotals> = state
        .statistics
        .loops
        .iter()
        .map(|one| one.load.read())
        .collect();
    let mut load = LoadTotals::default();
    loads.iter().for_each(|one| load.add(one));
    let one = |load: &LoadTotals| LoopSnapshot {
        busy_us: load.busy_us,
        requests: load.requests(),
    };
    Snapshot {
        at_ms,
        load,
        loops: loads.iter().map(one).collect(),
        totals: state.statistics.totals(),
        engine: state.cache.stats(),
        stalls: state
            .statistics
            .loops
            .iter()
            .map(|one| one.pulse.stalls())
            .sum(),
    }
}

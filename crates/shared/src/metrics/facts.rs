//! Facts: all metrics of the server at one moment.

use std::sync::atomic::Ordering;

use cellar_engine::{ExpiryTimeline, HotKey, MissRatioCurve, ReclaimLag, Stats};
use cellar_system::process::{self, Cpu};

use crate::observe::counters::Totals;
use crate::observe::counters::load::LoadTotals;
use crate::state::State;

/// One database that holds something.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseFacts {
    /// Its number.
    pub database: u32,
    /// Its keys; one that expires is no longer counted a quarter of a second later.
    pub keys: u64,
    /// Of those, keys with a deadline.
    pub with_deadline: u64,
}

/// All metrics at one moment, counted since the start.
pub struct Facts<'s> {
    /// The state shared by all event loops.
    pub state: &'s State,
    /// The engine's metrics.
    pub engine: Stats,
    /// The event loops' counters.
    pub totals: Totals,
    /// Each event loop's load.
    pub loads: Vec<LoadTotals>,
    /// The sum of those.
    pub load: LoadTotals,
    /// The estimated miss ratios at other memory sizes.
    pub curve: MissRatioCurve,
    /// For how long expired items held their memory.
    pub lag: ReclaimLag,
    /// Items and bytes by the time until they expire.
    pub timeline: ExpiryTimeline,
    /// Time on the processor.
    pub cpu: Cpu,
    /// Resident memory of the process in bytes; zero if the system does not report it.
    pub resident_bytes: u64,
}

impl<'s> Facts<'s> {
    /// The facts of now. Locks one shard after the other for a moment.
    #[must_use]
    pub fn of(state: &'s State) -> Facts<'s> {
        let loads: Vec<LoadTotals> = state
            .statistics
            .loops
            .iter()
            .map(|one| one.load.read())
            .collect();
        let mut load = LoadTotals::default();
        loads.iter().for_each(|one| load.add(one));
        Facts {
            state,
            engine: state.cache.stats(),
            totals: state.statistics.totals(),
            loads,
            load,
            curve: state.cache.miss_ratio_curve(),
            lag: state.cache.reclaim_lag(),
            timeline: state.cache.expiry_timeline(),
            cpu: process::cpu().unwrap_or_default(),
            resident_bytes: process::resident_bytes().unwrap_or(0),
        }
    }

    /// Open connections.
    #[must_use]
    pub fn connections(&self) -> u64 {
        // Relaxed: only reported.
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Bytes of the cache held by values that are being received or sent.
    #[must_use]
    pub fn transfer_bytes(&self) -> u64 {
        self.state.transfers.bytes()
    }

    /// Bytes that clients have the server hold outside of the cache, and their limit.
    #[must_use]
    pub fn client_memory(&self) -> (u64, u64) {
        let budget = &self.state.budget;
        (budget.bytes() as u64, budget.bytes_max() as u64)
    }

    /// Bytes of items and bookkeeping, as Redis counts them.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let Stats {
            live_bytes,
            dead_bytes,
            index_bytes,
            overhead_bytes,
            ..
        } = self.engine;
        live_bytes + dead_bytes + index_bytes + overhead_bytes
    }

    /// Milliseconds since the start.
    #[must_use]
    pub fn uptime_ms(&self) -> u64 {
        self.state.cache.now().0 - self.state.run.started.0
    }

    /// Unix time in milliseconds.
    #[must_use]
    pub fn now_unix_ms(&self) -> u64 {
        self.state.wall.unix_ms(self.state.cache.now())
    }

    /// The hottest keys, at most `most` of them.
    #[must_use]
    pub fn hot_keys(&self, most: usize) -> Vec<HotKey> {
        self.state.cache.hottest_keys(most)
    }

    /// The databases that hold something, and database 0.
    #[must_use]
    pub fn databases(&self) -> Vec<DatabaseFacts> {
        let databases = &self.state.databases;
        let mut left = self.engine.items;
        let mut found = Vec::new();
        for database in 0..u32::try_from(databases.count()).unwrap_or(u32::MAX) {
            if database > 0 && left == 0 {
                break;
            }
            let held = self.state.cache.space_stats(databases.space(database));
            left = left.saturating_sub(held.items);
            if held.items > 0 || database == 0 {
                found.push(DatabaseFacts {
                    database,
                    keys: held.items,
                    with_deadline: held.with_deadline,
                });
            }
        }
        found
    }
}

/// The bounds of the bins of lags in milliseconds; the last bin has none.
#[must_use]
pub fn lag_bounds_ms() -> Vec<u64> {
    (0..ReclaimLag::BINS)
        .filter_map(ReclaimLag::below_ms)
        .collect()
}

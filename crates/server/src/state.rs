//! State: what all event loops share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use cellar_engine::Cache;

use crate::counters::{Counters, Totals};
use crate::settings::Settings;

/// One daemon's shared state.
pub struct State {
    /// The cache.
    pub cache: Cache,
    /// What the operator chose.
    pub settings: Settings,
    /// One entry per event loop.
    pub counters: Vec<Arc<Counters>>,
    /// Open connections now.
    pub connections: AtomicU64,
    /// Unix time at start, in seconds.
    pub start_unix_s: u64,
    /// Unix time in milliseconds at engine time zero: turns engine instants into wall time.
    pub unix_ms_at_zero: u64,
    /// What `stats` counts from.
    pub stats_zero: Mutex<StatsZero>,
}

/// The counts at the last `stats reset`, or zeros.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatsZero {
    /// The event loops' counters.
    pub totals: Totals,
    /// The engine's counts.
    pub engine: cellar_engine::Stats,
}

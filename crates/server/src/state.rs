//! State: what all event loops share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cellar_engine::Cache;

use crate::client::Clients;
use crate::counters::{Counters, Totals};
use crate::databases::Databases;
use crate::gate::Gates;
use crate::script::Scripts;
use crate::settings::Settings;

/// Share of the cache's memory, as a divisor, that values in transfer may hold before slow clients
/// lose their patience.
const TRANSFER_SHARE: u64 = 4;

/// One daemon's shared state.
pub struct State {
    /// The cache.
    pub cache: Cache,
    /// What the operator chose.
    pub settings: Settings,
    /// One entry per event loop.
    pub counters: Vec<Arc<Counters>>,
    /// The gates of the event loops.
    pub gates: Gates,
    /// Which of the engine's spaces each database is.
    pub databases: Databases,
    /// Clients of the Redis protocol.
    pub clients: Clients,
    /// Scripts of the Redis protocol.
    pub scripts: Scripts,
    /// Open connections now.
    pub connections: AtomicU64,
    /// Bytes of the cache's memory held by values that are being received or sent now.
    pub transfer_bytes: AtomicU64,
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
    /// The miss-ratio curve.
    pub curve: cellar_engine::MissRatioCurve,
}

impl State {
    /// The state of a daemon that starts now, at engine time zero.
    #[must_use]
    pub fn new(cache: Cache, settings: Settings, unix_ms_at_zero: u64) -> State {
        let counters = (0..settings.threads)
            .map(|_| Arc::new(Counters::default()))
            .collect();
        State {
            cache,
            gates: Gates::new(settings.threads),
            databases: Databases::new(settings.databases),
            clients: Clients::default(),
            scripts: Scripts::default(),
            settings,
            counters,
            connections: AtomicU64::new(0),
            transfer_bytes: AtomicU64::new(0),
            start_unix_s: unix_ms_at_zero / 1_000,
            unix_ms_at_zero,
            stats_zero: Mutex::default(),
        }
    }

    /// Notes that a connection's transfers went from `before` to `after` bytes.
    #[inline]
    pub fn note_transfer(&self, before: usize, after: usize) {
        // Relaxed: a sum that orders nothing; wrapping subtraction keeps it exact.
        if after > before {
            self.transfer_bytes
                .fetch_add((after - before) as u64, Ordering::Relaxed);
        } else if before > after {
            self.transfer_bytes
                .fetch_sub((before - after) as u64, Ordering::Relaxed);
        }
    }

    /// Whether values in transfer hold so much memory that slow clients have to go.
    #[must_use]
    pub fn is_short_of_memory(&self) -> bool {
        let memory = self.settings.memory_bytes as u64;
        self.transfer_bytes.load(Ordering::Relaxed) > memory / TRANSFER_SHARE
    }
}

//! Playing a trace: the engine in this process, with the trace's clock.
//!
//! A get that misses is followed by a set of the row's size and TTL. Every hit is checked: its
//! value must be what was stored last, its deadline ahead. If nothing was evicted, no live item may
//! be missing either.

use std::sync::Arc;
use std::time::Duration;

use cellar_engine::{
    Cache, Config, Deadline, DeleteOptions, Error as Refusal, Instant, Key, Maintenance,
    ManualClock, ScanCursor, SetOptions, Stats,
};

use serde::Serialize;
use serde_json::{Value, json};

use super::stamp::Stamps;
use super::trace::{Row, Trace, number};
use crate::footprint::own_rss_bytes;
use crate::measurement::both;
use crate::refused;
use cellar_load::{Error, now_ns, seconds, share};

/// Most steps of background maintenance between two requests: more when nothing happens for long
/// would change nothing.
const STEPS_PER_ROW_MAX: usize = 1000;
/// How often the dead are counted in a run.
const SAMPLES: usize = 1000;
/// Samples count from this part of the requests on if nothing is evicted.
const WARM_UP_PART: usize = 4;
/// Rows ahead of which the index is asked to load.
const ROWS_AHEAD: usize = 16;

/// What happened to requests.
#[derive(Clone, Debug, Default, Serialize)]
struct Played {
    requests: u64,
    sets: u64,
    hits: u64,
    /// All misses.
    misses: u64,
    /// The key was never stored, or its value was refused.
    misses_absent: u64,
    /// The item's time was over.
    misses_expired: u64,
    /// The item left for want of memory.
    misses_evicted: u64,
    /// Stores, of misses and of set rows.
    stores: u64,
    /// Stores that the engine refused because the value is too large.
    refused: u64,
}

struct Player<'t> {
    trace: &'t Trace,
    cache: Cache,
    clock: Arc<ManualClock>,
    stamps: Stamps,
    /// By key: the deadline of what was stored last.
    deadline_ms: Vec<u64>,
    dead: Dead,
    maintenance: Maintenance,
    /// When background maintenance's next step is due, by the trace's clock.
    maintenance_at: Duration,
    played: Played,
    /// This process's memory before the cache was made.
    rss_before_bytes: u64,
}

/// Plays `trace` on a fresh cache of so many bytes; what was found.
/// [`Error::Usage`] if the engine cannot work with them, [`Error::Wrong`] if it served
/// something wrong.
pub(crate) fn play(trace: &Trace, memory_bytes: u64) -> Result<Value, Error> {
    let started_ns = now_ns();
    let mut player = Player::new(trace, memory_bytes)?;
    player.run()?;
    let seconds = seconds(now_ns() - started_ns);
    Ok(both(player.finish()?, json!({"seconds": seconds})))
}

impl<'t> Player<'t> {
    fn new(trace: &'t Trace, memory_bytes: u64) -> Result<Player<'t>, Error> {
        let memory_bytes = usize::try_from(memory_bytes)
            .map_err(|_| Error::Usage("more memory than this machine can address".to_owned()))?;
        // Longer values than the memory are surely refused.
        let stamps = Stamps::new(trace, memory_bytes);
        let deadline_ms = vec![u64::MAX; trace.keys.len()];
        let rss_before_bytes = own_rss_bytes()?;
        let clock = Arc::new(ManualClock::default());
        let cache = Cache::new(Config {
            threads: 1,
            value_bytes_max: Config::VALUE_BYTES_LIMIT,
            seed: Some(1),
            clock: clock.clone(),
            ..Config::with_memory(memory_bytes)
        });
        Ok(Player {
            trace,
            cache: cache.map_err(refused)?,
            clock,
            stamps,
            deadline_ms,
            dead: Dead::default(),
            maintenance: Maintenance::default(),
            maintenance_at: Duration::ZERO,
            played: Played::default(),
            rss_before_bytes,
        })
    }

    fn run(&mut self) -> Result<(), Error> {
        let trace = self.trace;
        let rows_per_sample = trace.rows.len().div_ceil(SAMPLES).max(1);
        for (at, &row) in trace.rows.iter().enumerate() {
            self.clock.set(Instant(row.at_ms));
            self.keep_up(row.at_ms);
            if at % rows_per_sample == 0 {
                let is_warm = at * WARM_UP_PART >= trace.rows.len();
                self.dead.sample(&self.cache.stats(), is_warm);
            }
            if let Some(ahead) = trace.rows.get(at + ROWS_AHEAD) {
                self.cache.hint_read(self.key(ahead.key)?);
            }
            self.request(at, row)?;
        }
        Ok(())
    }

    /// Takes the steps of background maintenance that a server would have taken by now.
    fn keep_up(&mut self, now_ms: u64) {
        let now = Duration::from_millis(now_ms);
        for _ in 0..STEPS_PER_ROW_MAX {
            if self.maintenance_at > now {
                return;
            }
            self.maintenance_at += self.maintenance.step(&self.cache);
        }
        self.maintenance_at = now;
    }

    #[inline]
    fn request(&mut self, at: usize, row: Row) -> Result<(), Error> {
        let key = self.key(row.key)?;
        self.played.requests += 1;
        if row.is_set {
            self.played.sets += 1;
            return self.store(key, at, row);
        }
        let found = self
            .cache
            .get(key, |item| self.stamps.is_last(row.key, item.value));
        let is_live = self.deadline_ms[row.key as usize] > row.at_ms;
        match found {
            Some(true) if is_live => self.played.hits += 1,
            Some(true) => return Err(self.wrong(at, row, "an item was served after its deadline")),
            Some(false) => {
                return Err(self.wrong(at, row, "the value is not what was stored last"));
            }
            None => {
                self.count_miss(row.key, is_live);
                self.store(key, at, row)?;
            }
        }
        Ok(())
    }

    fn key(&self, number: u32) -> Result<Key<'t>, Error> {
        self.cache.key(self.trace.keys.get(number)).map_err(refused)
    }

    fn count_miss(&mut self, key: u32, is_live: bool) {
        let played = &mut self.played;
        played.misses += 1;
        if !self.stamps.is_stored(key) {
            played.misses_absent += 1;
        } else if is_live {
            played.misses_evicted += 1;
        } else {
            played.misses_expired += 1;
        }
    }

    fn store(&mut self, key: Key<'_>, at: usize, row: Row) -> Result<(), Error> {
        let options = SetOptions {
            deadline: match row.ttl_ms {
                0 => Deadline::NEVER,
                ttl_ms => Instant(row.at_ms).plus_ms(ttl_ms),
            },
            ..SetOptions::default()
        };
        self.played.stores += 1;
        self.deadline_ms[row.key as usize] = row.deadline_ms();
        let value = self.stamps.stamp(number(at), row);
        match self.cache.set(key, value, &options) {
            Ok(_) => Ok(()),
            Err(Refusal::TooLarge { .. }) => {
                self.played.refused += 1;
                self.stamps.clear(row.key);
                // What the key held before is out of date.
                let deleted = self.cache.delete(key, &DeleteOptions::default());
                deleted.map(|_| ()).map_err(refused)
            }
            Err(error) => Err(refused(error)),
        }
    }

    fn wrong(&self, at: usize, row: Row, what: &str) -> Error {
        let key = String::from_utf8_lossy(self.trace.keys.get(row.key));
        let (name, at) = (&self.trace.name, at + 1);
        Error::Wrong(format!("{name}, request {at}, key {key:?}: {what}"))
    }

    /// Collects what the cache knows at the end.
    ///
    /// `overhead_bytes_per_item` is what live items take beyond key and value (headers, deadlines,
    /// padding), with the index and all bookkeeping. Dead bytes, unused ends of segments and free
    /// segments are not in it: they do not grow with the number of items.
    fn finish(self) -> Result<Value, Error> {
        let rss_bytes = own_rss_bytes()?.saturating_sub(self.rss_before_bytes);
        let (stats, found) = (self.cache.stats(), self.played);
        if stats.evicted == 0 && found.misses_evicted > 0 {
            return Err(Error::Wrong(format!(
                "{}: {} live items are missing, but none was evicted",
                self.trace.name, found.misses_evicted
            )));
        }
        let (mut items, mut over_payload_bytes) = (0u64, 0u64);
        let mut cursor = Some(ScanCursor::START);
        while let Some(from) = cursor {
            cursor = self.cache.keys(from, |facts| {
                items += 1;
                over_payload_bytes +=
                    (facts.stored_bytes - facts.key.len() - facts.value_bytes) as u64;
            });
        }
        let overhead_bytes = over_payload_bytes + stats.index_bytes + stats.overhead_bytes;
        let [of_memory, of_held] = self.dead.counted();
        let others = json!({
            "miss_ratio": share(found.misses, found.hits + found.misses),
            "dead_at_eviction_max_pct": share(stats.dead_at_eviction_max_ppm, 10_000),
            "dead_mean_pct": mean(&of_memory),
            // The same of what is held instead of all memory.
            "dead_of_held_mean_pct": mean(&of_held),
            "dead_of_held_max_pct": of_held.into_iter().fold(0.0, f64::max),
            "items": stats.items,
            "live_bytes": stats.live_bytes,
            "evicted": stats.evicted,
            "expired": stats.expired,
            "copies_per_store": share(stats.copied, found.stores),
            "memory_bytes": stats.memory_bytes,
            "rss_bytes": rss_bytes,
            "overhead_bytes_per_item": share(overhead_bytes, items.max(1)),
        });
        Ok(both(found, others))
    }
}

/// How much was dead, sampled at equal distances: percent of all memory, and of what is held.
#[derive(Debug, Default)]
struct Dead {
    /// Since the first eviction.
    evicting: [Vec<f64>; 2],
    /// Since a part of the requests.
    warm: [Vec<f64>; 2],
}

impl Dead {
    fn sample(&mut self, stats: &Stats, is_warm: bool) {
        let held_bytes = stats.live_bytes + stats.dead_bytes;
        for (percents, counts) in [
            (&mut self.evicting, stats.evicted > 0),
            (&mut self.warm, is_warm),
        ] {
            for (percents, whole_bytes) in percents.iter_mut().zip([stats.memory_bytes, held_bytes])
            {
                percents.extend(counts.then(|| share(stats.dead_bytes, whole_bytes) * 100.0));
            }
        }
    }

    fn counted(self) -> [Vec<f64>; 2] {
        match self.evicting[0].is_empty() {
            true => self.warm,
            false => self.evicting,
        }
    }
}

fn mean(percents: &[f64]) -> f64 {
    percents.iter().sum::<f64>() / percents.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::trace::Keys;

    const MEMORY_BYTES: u64 = 4 << 20;
    const VALUE_BYTES: u32 = 20;

    /// One key: stored for two seconds, then read at the given moments.
    fn trace(reads_ms: &[u64]) -> Trace {
        let mut keys = Keys::default();
        let key = keys.number(b"k").unwrap();
        let row = |at_ms, is_set| Row::new(at_ms, is_set, key, VALUE_BYTES, 2000);
        let reads = reads_ms.iter().map(|&at_ms| row(at_ms, false));
        Trace {
            name: "test".to_owned(),
            keys,
            rows: std::iter::once(row(0, true)).chain(reads).collect(),
        }
    }

    /// What a replay says if something happens to the cache behind its back after the first row.
    fn error_after(tamper: impl FnOnce(&mut Player<'_>)) -> String {
        let trace = trace(&[1000]);
        let mut player = Player::new(&trace, MEMORY_BYTES).unwrap();
        player.request(0, trace.rows[0]).unwrap();
        tamper(&mut player);
        player.clock.set(Instant(1000));
        let result = player.request(1, trace.rows[1]);
        let result = result.and_then(|()| player.finish().map(|_| ()));
        result.unwrap_err().to_string()
    }

    fn overwrite(player: &Player<'_>, value: &[u8]) {
        let key = player.cache.key(b"k").unwrap();
        let stored = player.cache.set(key, value, &SetOptions::default());
        assert!(stored.is_ok());
    }

    #[test]
    fn an_item_is_served_until_its_deadline_and_not_from_it_on() {
        let played = play(&trace(&[1, 1999, 2000, 3999, 4000]), MEMORY_BYTES).unwrap();
        assert_eq!(played["hits"], 3);
        assert_eq!(played["misses_expired"], 2);
        assert_eq!(played["misses"], 2);
    }

    #[test]
    fn a_foreign_value_fails_the_run() {
        for value in [[7; VALUE_BYTES as usize].as_slice(), b"short", b""] {
            let error = error_after(|player| overwrite(player, value));
            assert!(error.contains("not what was stored last"), "{error}");
            assert!(error.contains("test, request 2, key \"k\""), "{error}");
        }
    }

    #[test]
    fn an_item_served_late_fails_the_run() {
        let error = error_after(|player| player.deadline_ms[0] = 1000);
        assert!(error.contains("after its deadline"), "{error}");
    }

    #[test]
    fn a_live_item_that_is_missing_without_any_eviction_fails_the_run() {
        let error = error_after(|player| player.cache.flush());
        assert!(error.contains("none was evicted"), "{error}");
    }

    #[test]
    fn a_value_that_is_too_large_is_refused_and_ends_the_older_one() {
        let mut trace = trace(&[1, 2]);
        let key = trace.rows[0].key;
        trace.rows[1] = Row::new(1, true, key, 3 << 20, 0);
        let played = play(&trace, MEMORY_BYTES).unwrap();
        for (name, count) in [("refused", 1), ("hits", 0), ("misses_absent", 1)] {
            assert_eq!(played[name], count, "{name}");
        }
    }
}

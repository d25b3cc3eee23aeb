//! A clean stop amid a real trace: behind it as many requests hit as if there had been none.
//!
//! The traces lie beside the project, in ../shared/traces; where they are absent, nothing is
//! checked and the test says so.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;

use cellar_engine::{Cache, Config, ManualClock, StateDir, StateOptions};

#[path = "support/traces.rs"]
#[allow(dead_code, reason = "each test file uses a part of it")]
mod traces;

use traces::{Request, real};

/// How far apart hit ratios may be: the tenth part of a point.
const APART_MAX: f64 = 0.001;
/// How much worse a cache is at least that begins empty, on a trace whose keys come back late.
const LOSS_MIN: f64 = 0.01;
/// Requests right behind the stop, of which a cache that begins empty misses more.
const RIGHT_BEHIND: usize = 20_000;

/// What happens in the middle of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Midst {
    Nothing,
    CleanStop,
    /// A stop after which the cache starts empty.
    Loss,
}

/// The hit ratios behind the middle of a trace: right behind it, and to the end.
struct Behind {
    right_behind: f64,
    to_the_end: f64,
}

fn open(place: &Path, clock: &Arc<ManualClock>, memory_bytes: usize) -> Cache {
    let config = Config {
        // Of the same hash, so that the stop is all in which the runs differ.
        seed: Some(1),
        clock: Arc::<ManualClock>::clone(clock),
        state: Some(StateOptions::of(StateDir::open(place).unwrap())),
        ..Config::with_memory(memory_bytes)
    };
    Cache::new(config).unwrap()
}

fn replay(name: &str, trace: &[Request], memory_bytes: usize, midst: Midst) -> Behind {
    // In memory, and gone with the test.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let place = &folder.path().join("state");
    let clock = Arc::new(ManualClock::starting_at(trace[0].now));
    let mut cache = open(place, &clock, memory_bytes);
    let middle = trace.len() / 2;
    // Of requests that read: right behind the middle, and all behind it.
    let (mut gets, mut hits) = ([0; 2], [0; 2]);
    for (at, request) in trace.iter().enumerate() {
        if at == middle && midst != Midst::Nothing {
            let before = cache.stats();
            assert!(before.evicted > 0, "{name} has evicted");
            cache.checkpoint().unwrap().leave();
            drop(cache);
            if midst == Midst::Loss {
                std::fs::remove_dir_all(place).unwrap();
            }
            cache = open(place, &clock, memory_bytes);
            let restored = cache.restored().unwrap();
            let items = if midst == Midst::Loss {
                0
            } else {
                before.items
            };
            assert_eq!((restored.items, restored.was_walked), (items, false));
        }
        if cache.now() < request.now {
            clock.set(request.now);
            while cache.tick() {}
        }
        let key = cache.key(request.key.as_bytes()).unwrap();
        let is_hit = !request.is_write && cache.get(key, |_| ()).is_some();
        let counts = [(middle..middle + RIGHT_BEHIND).contains(&at), at >= middle];
        for (which, _) in counts.iter().enumerate().filter(|(_, counts)| **counts) {
            gets[which] += u32::from(!request.is_write);
            hits[which] += u32::from(is_hit);
        }
        if !is_hit {
            request.store(&cache);
        }
    }
    cache.audit().unwrap();
    let ratio = |which: usize| f64::from(hits[which]) / f64::from(gets[which]);
    Behind {
        right_behind: ratio(0),
        to_the_end: ratio(1),
    }
}

fn check(name: &str, mib: usize, loss_min: f64) {
    let Some(trace) = real(name) else { return };
    let run = |midst| replay(name, &trace, mib << 20, midst);
    let (whole, stopped, lost) = (run(Midst::Nothing), run(Midst::CleanStop), run(Midst::Loss));
    for (what, of) in [
        ("right behind", (|it| it.right_behind) as fn(&Behind) -> f64),
        ("to the end", |it| it.to_the_end),
    ] {
        let (whole, stopped, lost) = (of(&whole), of(&stopped), of(&lost));
        eprintln!("{name}, {what}: {whole:.4}, stopped {stopped:.4}, begun empty {lost:.4}");
        assert!((whole - stopped).abs() <= APART_MAX, "{name}, {what}");
    }
    // What is compared tells a cache apart that has lost its items.
    let loss = whole.right_behind - lost.right_behind;
    assert!(loss >= loss_min, "{name}: {loss}");
}

#[test]
fn a_stop_amid_a_database_log_costs_no_hits() {
    check("oltp", 4, LOSS_MIN);
}

#[test]
fn a_stop_amid_reads_of_a_workstation_disk_costs_no_hits() {
    check("p3", 16, LOSS_MIN);
}

#[test]
fn a_stop_amid_an_object_mapper_costs_no_hits() {
    check("orm-busy", 1, LOSS_MIN);
}

#[test]
fn a_stop_amid_a_ledger_costs_no_hits() {
    // Its keys come back at once or never, so there is next to nothing to lose.
    check("corda", 4, 0.0);
}

#[test]
fn a_stop_amid_a_web_site_costs_no_hits() {
    check("web12", 1, LOSS_MIN);
}

#[test]
fn a_stop_amid_objects_of_all_sizes_costs_no_hits() {
    check("adapt-size", 16, LOSS_MIN);
}

//! The live miss-ratio curve against full replays of real traces, and of some drawn like Twitter's.
//!
//! The traces lie beside the project, in ../shared/traces; where they are absent, nothing is
//! checked and the test says so.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;
use std::sync::Arc;

use cellar_engine::{Cache, Clock, Config, Instant, ManualClock};

#[path = "support/traces.rs"]
mod traces;

use traces::{Request, folder, parse, real};

/// Replays a trace; returns the cache and the miss ratio.
fn replay(trace: &[Request], memory_bytes: usize, seed: u64) -> (Cache, f64) {
    let clock = Arc::new(ManualClock::starting_at(Instant(1_000)));
    let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let config = Config {
        clock: shared,
        seed: Some(seed),
        ..Config::with_memory(memory_bytes)
    };
    let cache = Cache::new(config).unwrap();
    let (mut gets, mut misses) = (0, 0);
    for request in trace {
        clock.set(request.now);
        let key = cache.key(request.key.as_bytes()).unwrap();
        let is_miss = !request.is_write && {
            gets += 1;
            cache.get(key, |_| ()).is_none()
        };
        misses += u32::from(is_miss);
        if is_miss || request.is_write {
            request.store(&cache);
        }
    }
    (cache, f64::from(misses) / f64::from(gets))
}

/// Compares the curve of a cache of so much memory with real caches of all its sizes.
fn check(name: &str, trace: &[Request], memory_bytes: usize) {
    let (cache, _) = replay(trace, memory_bytes, 1);
    let curve = cache.miss_ratio_curve();
    let estimated = curve.miss_ratios();
    let real = curve
        .points
        .map(|point| replay(trace, point.memory_bytes as usize, 2).1);
    let errors = real
        .iter()
        .zip(&estimated)
        .map(|(real, e)| (real - e).abs());
    let error = errors.sum::<f64>() / 5.0;
    eprintln!("{name}: mean error {error:.4}, real {real:.4?}, estimated {estimated:.4?}");
    assert!(error <= 0.02, "{name}: {error}");
}

fn check_real(name: &str, mib: usize) {
    if let Some(trace) = real(name) {
        check(name, &trace, mib << 20);
    }
}

fn check_drawn(cluster: u32, mib: usize) {
    let Some(folder) = folder() else { return };
    let mut python = Command::new("python3");
    python.arg(folder.join("twitter_like.py"));
    let arguments = [
        cluster.to_string(),
        "200000".into(),
        "80000".into(),
        "12".into(),
    ];
    match python.args(arguments).output() {
        Ok(drawn) => check(
            &format!("cluster {cluster}"),
            &parse(&drawn.stdout[..]),
            mib << 20,
        ),
        Err(error) => eprintln!("skipped: no python3 to draw a trace with: {error}"),
    }
}

#[test]
fn the_curve_of_a_database_log_is_right() {
    check_real("oltp", 4);
}

#[test]
fn the_curve_of_a_workstation_disk_is_right() {
    check_real("p3", 16);
}

#[test]
fn the_curve_of_an_object_mapper_is_right() {
    check_real("orm-busy", 4);
}

#[test]
fn the_curve_of_a_ledger_is_right() {
    check_real("corda", 4);
}

#[test]
fn the_curve_of_a_web_site_is_right() {
    check_real("web12", 4);
}

#[test]
fn the_curve_of_objects_of_all_sizes_is_right() {
    check_real("adapt-size", 16);
}

#[test]
fn the_curve_of_a_cluster_with_many_ttls_is_right() {
    check_drawn(19, 4);
}

#[test]
fn the_curve_of_a_cluster_with_short_ttls_is_right() {
    check_drawn(29, 4);
}

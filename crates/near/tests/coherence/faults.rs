//! Faults: the cache with one rule broken each, to show that the suite notices.
//!
//! A suite that passes a broken cache proves nothing about a whole one.

use cellar_near::fault::Fault;

use crate::servers::{KINDS, Kind};
use crate::subject::Cellar;
use crate::trouble::Trouble;
use crate::{checker, live, moves, scripted};

/// Times that a fault is looked for: whether it shows in one is a matter of chance, and of how
/// busy the machine is.
const LOOKS: usize = 3;

/// Checks that a scenario over the fake server fails.
async fn fails(fault: Fault, scenario: &str) {
    for _ in 0..LOOKS {
        let verdict = scripted::run_named(scenario, &Cellar::broken(fault)).await;
        if verdict.is_err() {
            return;
        }
    }
    panic!("{fault:?} passes: {scenario}");
}

/// Checks that a scenario over a real server fails.
async fn fails_live(fault: Fault, scenario: &str, kind: Kind) {
    for _ in 0..LOOKS {
        let verdict = live::run_named(scenario, &Cellar::broken(fault), kind).await;
        if verdict.is_err() {
            return;
        }
    }
    panic!("{fault:?} passes over {kind:?}: {scenario}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fills_outside_of_the_rules_are_found_by_the_scripts() {
    for scenario in [
        "reply, then push",
        "reply, then null push",
        "every order of all events",
        "push for one key of several",
    ] {
        fails(Fault::UncheckedFills, scenario).await;
    }
}

/// Checks that the checker finds a stale read, while what shows the fault happens.
async fn is_found_by_the_checker(kind: Kind, fault: Fault, troubles: &'static [Trouble]) {
    let mut reports = Vec::new();
    for _ in 0..LOOKS {
        let report = checker::run(&checker::Setting::broken(kind, fault, troubles)).await;
        if !report.stale.is_empty() {
            return;
        }
        reports.push(report);
    }
    panic!("{fault:?} passes the checker over {kind:?}: {reports:?}");
}

/// Checks that the checker finds each rule of a server that tells of changes.
async fn all_are_found_by_the_checker(kind: Kind) {
    is_found_by_the_checker(kind, Fault::UncheckedFills, &[]).await;
    is_found_by_the_checker(kind, Fault::LostPushes, &[]).await;
    is_found_by_the_checker(kind, Fault::DeafToFlush, &[Trouble::Flushed]).await;
    is_found_by_the_checker(kind, Fault::EndlessTrust, &[Trouble::Frozen]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_broken_rule_is_found_by_the_checker_over_redis() {
    all_are_found_by_the_checker(Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_broken_rule_is_found_by_the_checker_over_cellar() {
    all_are_found_by_the_checker(Kind::Cellar).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_broken_rule_is_found_by_the_checker_over_memcached() {
    is_found_by_the_checker(Kind::Memcached, Fault::KeptOnWrite, &[]).await;
    is_found_by_the_checker(Kind::Memcached, Fault::NoLocalTtl, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_moved_slots_that_stay_are_found_by_the_checker() {
    is_found_by_moves(Fault::KeptOnMove).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_some_moved_slots_that_stay_are_found_by_the_checker() {
    is_found_by_moves(Fault::KeptOddSlots).await;
}

/// Checks that the checker over a cluster finds a stale read while nodes come and go.
async fn is_found_by_moves(fault: Fault) {
    let mut reports = Vec::new();
    for _ in 0..LOOKS {
        let setting = moves::MovesSetting::broken(fault);
        let (report, shifts) = moves::run(&setting).await.expect("it needs no etcd");
        if !report.stale.is_empty() {
            return;
        }
        reports.push((report, shifts));
    }
    panic!("{fault:?} passes the checker: {reports:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deafness_to_the_null_push_is_found() {
    fails(Fault::DeafToFlush, "reply, then null push").await;
    fails(Fault::DeafToFlush, "null push while nothing is asked").await;
    for kind in KINDS {
        fails_live(Fault::DeafToFlush, "FLUSHALL", kind).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn belief_in_a_dead_connection_is_found() {
    fails(Fault::EndlessTrust, "connection killed").await;
    fails(Fault::EndlessTrust, "half-open connection").await;
    for kind in KINDS {
        fails_live(Fault::EndlessTrust, "half-open connection", kind).await;
        fails_live(Fault::EndlessTrust, "server restarted", kind).await;
        fails_live(Fault::EndlessTrust, "fail-over to an empty server", kind).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blindness_to_swapped_databases_is_found() {
    fails_live(Fault::BlindToSwaps, "SWAPDB", Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_life_longer_than_the_servers_is_found() {
    fails(
        Fault::NoServerTtl,
        "time to live shorter than the local one",
    )
    .await;
}

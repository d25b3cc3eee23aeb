//! Faults: the cache with one rule broken each, to show that the suite notices.
//!
//! A suite that passes a broken cache proves nothing about a whole one.

use cellar_near::fault::Fault;

use crate::servers::{KINDS, Kind};
use crate::subject::Cellar;
use crate::{checker, live, scripted};

/// Checks that a scenario over the fake server fails.
async fn fails(fault: Fault, scenario: &str) {
    let verdict = scripted::run_named(scenario, &Cellar::broken(fault)).await;
    assert!(verdict.is_err(), "{fault:?} passes: {scenario}");
}

/// Checks that a scenario over a real server fails.
async fn fails_live(fault: Fault, scenario: &str, kind: Kind) {
    let verdict = live::run_named(scenario, &Cellar::broken(fault), kind).await;
    assert!(
        verdict.is_err(),
        "{fault:?} passes over {kind:?}: {scenario}"
    );
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

#[tokio::test(flavor = "multi_thread")]
async fn fills_outside_of_the_rules_are_found_by_the_checker_and_no_others() {
    for kind in KINDS {
        let report = checker::run(&checker::Setting::racing(kind, Fault::UncheckedFills)).await;
        assert!(
            !report.stale.is_empty(),
            "the checker finds nothing: {report:?}"
        );
        let report = checker::run(&checker::Setting::racing(kind, Fault::None)).await;
        assert_eq!(report.stale, Vec::<String>::new(), "{report:?}");
        assert!(
            report.hits > 0 && report.overtaken > 0,
            "nothing was tried: {report:?}"
        );
    }
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
    fails(Fault::EndlessLease, "connection killed").await;
    fails(Fault::EndlessLease, "half-open connection").await;
    for kind in KINDS {
        fails_live(Fault::EndlessLease, "half-open connection", kind).await;
        fails_live(Fault::EndlessLease, "server restarted", kind).await;
        fails_live(Fault::EndlessLease, "fail-over to an empty server", kind).await;
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

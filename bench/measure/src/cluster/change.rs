//! Change: what clients notice when a node comes, goes or dies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use cellar_load::{
    Client, Error, Event, Latencies, Limit, NS_PER_S, Records, Wire, load, nanoseconds, now_ns,
    seconds, sleep_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::ClusterArgs;
use super::fleet::{Etcd, Fleet, gets};
use super::router::{Passed, Router};
use crate::race::beside;

/// Nodes at first.
const NODES: usize = 3;
/// Requests each second to one of the nodes, and the connections they come by.
const RATE_PER_S: f64 = 5_000.0;
const CONNECTIONS: usize = 10;
/// Keys of a dead node that are asked for, and how often.
const PROBES: usize = 200;
const POLL: Duration = Duration::from_millis(5);
/// By then each node has renewed its lease, by a connection that stays.
const RENEWED: Duration = Duration::from_millis(1_200);
/// How long a dead node's keys may be refused.
const DEAD_NS: u64 = 60 * NS_PER_S;

/// What is asked for, key by key.
type ProbedKeys = Vec<Vec<u8>>;

/// What a client that reads through misses while one more node comes to so many.
pub(super) fn misses(
    args: &ClusterArgs,
    count: usize,
    etcd: Option<&Etcd>,
) -> Result<Value, Error> {
    let mut fleet = Fleet::start(&args.recipe()?, count, etcd, args.serving())?;
    let before = fleet.map(&(0..count).collect::<Vec<_>>())?;
    let mut router = Router::to(&fleet, &before, args.records()?)?;
    router.pass()?;
    if etcd.is_none() {
        // It runs, and is on no list.
        fleet.add()?;
    }
    let counts = || etcd.map(Etcd::counts).transpose();
    let earlier = counts()?;
    let started_ns = now_ns();
    let (passed, agreed_ns) = beside(
        |is_over| until_over(&mut router, is_over),
        || -> Result<u64, Error> {
            if etcd.is_some() {
                fleet.add()?;
            }
            fleet.put(count + 1)?;
            fleet.wait(count + 1)?;
            Ok(now_ns() - started_ns)
        },
    );
    let (passed, agreed_ns) = (passed?, agreed_ns?);
    let took = earlier.zip(counts()?);
    if etcd.is_some() {
        sleep(RENEWED);
    }
    let after = fleet.map(&(0..=count).collect::<Vec<_>>())?;
    let records = args.records()?;
    let keys = after.of(&records, count).len();
    let source = fleet.source();
    eprintln!(
        "{} misses for {keys} keys of one more node in {source}",
        passed.misses
    );
    Ok(json!({
        "source": source,
        "nodes": count,
        "keys": records.keys(),
        // What the newcomer keeps of them.
        "keys_of_newcomer": keys,
        "passed": passed,
        "agreed_s": seconds(agreed_ns),
        "etcd": took.map(|(earlier, later)| later.since(earlier)),
        "etcd_connections": etcd.map(Etcd::connections).transpose()?,
    }))
}

/// Passes over all records until the change is over, and one more.
fn until_over(router: &mut Router, is_over: &AtomicBool) -> Result<Passed, Error> {
    let mut all = Passed::default();
    loop {
        // Relaxed: nothing but the flag is passed on.
        let is_last = is_over.load(Ordering::Relaxed);
        all.add(router.pass()?);
        if is_last {
            return Ok(all);
        }
    }
}

/// The tail of requests for what stays where it is, before and while a node comes and goes.
pub(super) fn tails(args: &ClusterArgs) -> Result<Vec<Value>, Error> {
    let records = args.records()?;
    let mut fleet = Fleet::start(&args.recipe()?, NODES, None, args.serving())?;
    let few = fleet.map(&[0, 1, 2])?;
    fleet.add()?;
    let many = fleet.map(&[0, 1, 2, 3])?;
    let stay = |place| {
        let later = many.of(&records, place);
        let is_there = |number: &u32| later.binary_search(number).is_ok();
        let mut own = few.of(&records, place);
        own.retain(is_there);
        own
    };
    let stay: Vec<Vec<u32>> = (0..NODES).map(stay).collect();
    let mut rows = Vec::new();
    for round in 0..args.rounds {
        // One node is asked, another one in each round: more loads would disturb each other here.
        let place = round % NODES;
        for (change, map, count) in [("comes", &few, NODES + 1), ("goes", &many, NODES)] {
            // All nodes are full again of what they keep.
            Router::to(&fleet, map, records)?.pass()?;
            rows.push(tail(args, &fleet, (place, &stay[place]), (change, count))?);
            fleet.wait(count)?;
        }
    }
    Ok(rows)
}

fn tail(
    args: &ClusterArgs,
    fleet: &Fleet<'_>,
    (place, stay): (usize, &[u32]),
    (change, count): (&str, usize),
) -> Result<Value, Error> {
    let window_ns = nanoseconds(args.window)?;
    let limit = Limit::Nanoseconds(2 * window_ns);
    let mut drive = fleet.nodes[place].drive(Wire::Resp, CONNECTIONS, limit);
    drive.rate_per_s = Some(RATE_PER_S);
    let plan = gets(drive, args.records()?, stay, args.cpus.load_cpu);
    let samples = (2.0 * args.window * RATE_PER_S) as usize;
    let changes_ns = now_ns() + window_ns;
    let (asked, (changed_ns, put)) = beside(
        |_| load::run_sampled(&plan, samples),
        || {
            sleep_until(changes_ns);
            (now_ns(), fleet.put(count))
        },
    );
    let (report, samples) = asked?;
    put?;
    let (mut before, mut during) = (Latencies::new(), Latencies::new());
    for sample in samples {
        let is_before = sample.start_ns < changed_ns;
        let latencies = if is_before { &mut before } else { &mut during };
        latencies.record(sample.ns);
    }
    let [before, during] = [before, during].map(|it| it.summary().latency_us_p99_9);
    eprintln!("one {change}: p99.9 {before:.0} us before, {during:.0} us meanwhile");
    Ok(json!({
        "change": change,
        "before_us": before,
        "during_us": during,
        // Requests for keys that stay where they are.
        "failed": report.get.misses + report.errors,
    }))
}

/// When the keys of a node that was killed are served again, by the others.
pub(super) fn deaths(args: &ClusterArgs, etcd: &Etcd) -> Result<Vec<Value>, Error> {
    let mut fleet = Fleet::start(&args.recipe()?, NODES, Some(etcd), args.serving())?;
    let mut rows = Vec::new();
    for round in 0..args.deaths {
        let dead = round % NODES;
        let row = death(args, &mut fleet, dead)?;
        eprintln!("a dead node's keys are served after {} s", row["all_s"]);
        rows.push(row);
        fleet.replace(dead)?;
        fleet.wait(NODES)?;
    }
    Ok(rows)
}

fn death(args: &ClusterArgs, fleet: &mut Fleet<'_>, dead: usize) -> Result<Value, Error> {
    let records = args.records()?;
    let mut own = fleet.map(&[0, 1, 2])?.of(&records, dead);
    own.truncate(PROBES);
    let heirs: Vec<usize> = (0..NODES).filter(|place| *place != dead).collect();
    let map = fleet.map(&heirs)?;
    let mut clients = Vec::new();
    for heir in heirs {
        clients.push((heir, fleet.nodes[heir].client()?));
    }
    let mut keys: ProbedKeys = own.iter().map(|it| key_of(&records, *it)).collect();
    let all = keys.len();
    // It dies at another moment of its lease in each round.
    sleep(Duration::from_millis(u64::from(own[0]) % 1_000));
    fleet.nodes[dead].server.signal(Signal::KILL);
    let died_ns = now_ns();
    let (mut first_s, mut hits) = (None, 0);
    while !keys.is_empty() {
        if now_ns() - died_ns > DEAD_NS {
            return Err(Error::Wrong(format!("{} keys are not served", keys.len())));
        }
        sleep(POLL);
        let mut left = Vec::new();
        for (heir, client) in &mut clients {
            let its = keys.iter().filter(|key| map.owner(key) == *heir);
            let (refused, served): (ProbedKeys, ProbedKeys) =
                partition(client, its.cloned().collect())?;
            if !served.is_empty() {
                first_s.get_or_insert(seconds(now_ns() - died_ns));
            }
            left.extend(refused);
            hits += stored_and_read(client, &served)?;
        }
        keys = left;
    }
    Ok(json!({
        "first_s": first_s,
        "all_s": seconds(now_ns() - died_ns),
        "keys": all,
        // Keys that were read again once they had been stored anew.
        "hits": hits,
    }))
}

/// Keys that are refused, and those that are served.
fn partition(client: &mut Client, keys: ProbedKeys) -> Result<(ProbedKeys, ProbedKeys), Error> {
    keys.iter().for_each(|key| client.get(key));
    let mut is_refused = Vec::new();
    client.exchange(|event, _| {
        is_refused.push(matches!(event, Event::Refused(_)));
        Ok(())
    })?;
    let (refused, served): (Vec<_>, Vec<_>) =
        keys.into_iter().zip(is_refused).partition(|(_, it)| *it);
    let keys = |all: Vec<(Vec<u8>, bool)>| all.into_iter().map(|(key, _)| key).collect();
    Ok((keys(refused), keys(served)))
}

/// How many of these keys are read when they were stored anew.
fn stored_and_read(client: &mut Client, keys: &ProbedKeys) -> Result<usize, Error> {
    for key in keys {
        client.set(key, 0, b"anew");
        client.get(key);
    }
    let mut hits = 0;
    client.exchange(|_, value| {
        hits += usize::from(value == Some(b"anew"));
        Ok(())
    })?;
    Ok(hits)
}

fn key_of(records: &Records, number: u32) -> Vec<u8> {
    let mut key = Vec::new();
    records.push_key(&mut key, number.into());
    key
}

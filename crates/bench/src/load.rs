//! A load: many connections that ask one server for keys, and what came of it.
//!
//! Closed loop: each connection sends a window of `depth` requests in one write, waits for all
//! their replies, and goes on; latency counts from the write. Open loop: requests are due at fixed
//! times whatever the server does; latency counts from the moment a request was due, so a pause of
//! the server shows in every request it delays.
//!
//! Each thread runs its own epoll loop over its share of the connections. Memory is bounded by
//! connections x depth x value length, which is checked before the start.

pub mod plan;
mod source;
mod tally;
mod connection;
mod worker;
pub mod report;
pub mod options;

use std::io::Write;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::client::Client;
use crate::clock::{now_ns, seconds};
use crate::error::Error;
use crate::usage::{CpuTime, cpu_time};
use crate::wire::Event;
pub use plan::{Keys, Limit, Plan};
pub use report::Report;
use tally::Tally;
use worker::Worker;

/// A server that answers nothing for this long has failed.
const STALL_S: u64 = 10;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// What the threads of a load share.
#[derive(Debug, Default)]
struct Shared {
    /// Replies so far, of all threads.
    replies: AtomicU64,
    /// Set when a thread failed and the others should end.
    failed: AtomicBool,
    /// How many samples each thread has to keep, if any.
    samples: Option<usize>,
}

/// One get: when it was sent, or in an open loop due, and how long its reply took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// On the monotonic clock.
    pub start_ns: u64,
    /// From then to the whole reply.
    pub ns: u64,
}

/// Runs a load to its end.
///
/// # Errors
/// [`Error`] if the plan is impossible, the server cannot be reached, closes a connection, stops
/// answering, or answers nonsense. A value that fails verification is counted, not an error.
pub fn run(plan: &Plan) -> Result<Report, Error> {
    Ok(run_with(plan, None)?.0)
}

/// Runs a load to its end and returns every get by itself as well, in no order; `samples` is about
/// how many each thread will make.
///
/// # Errors
/// As [`run`].
pub fn run_sampled(plan: &Plan, samples: usize) -> Result<(Report, Vec<Sample>), Error> {
    let (report, tally) = run_with(plan, Some(samples))?;
    Ok((report, tally.samples.unwrap_or_default()))
}

fn run_with(plan: &Plan, samples: Option<usize>) -> Result<(Report, Tally), Error> {
    plan.check()?;
    let mut connections = connect(plan)?;
    let shared = Shared {
        samples,
        ..Shared::default()
    };
    let start = Barrier::new(plan.threads + 1);
    let (done, results) = channel();
    std::thread::scope(|scope| {
        for thread in 0..plan.threads {
            let left = plan.threads - thread;
            let own = connections.split_off(connections.len() - connections.len() / left);
            let (done, shared, start) = (done.clone(), &shared, &start);
            scope.spawn(move || {
                let worker = Worker::new(plan, thread, own, shared);
                start.wait();
                let result = worker.and_then(Worker::run);
                let failed = result.is_err();
                // The receiver lives as long as this scope. The cause is sent first.
                let _ = done.send(result);
                // Release: whoever sees the flag sends its own result after this one.
                shared.failed.fetch_or(failed, Ordering::Release);
            });
        }
        let cpu_before = plan.server_pid.map(server_cpu).transpose();
        let started_ns = now_ns();
        start.wait();
        let tally = collect(plan, &results, &shared, started_ns)?;
        let cpu_before = cpu_before?;
        let cpu_after = plan.server_pid.map(server_cpu).transpose()?;
        let cpu = cpu_before
            .zip(cpu_after)
            .map(|(before, after)| (after.ns.saturating_sub(before.ns), after.source));
        Ok((Report::new(plan, &tally, cpu), tally))
    })
}

fn server_cpu(pid: u32) -> Result<CpuTime, Error> {
    cpu_time(pid).map_err(|error| {
        Error::system(
            format!("reading the processor time of process {pid}"),
            error,
        )
    })
}

/// Opens all connections and has each answer one request, so that accepting them is over before
/// anything is measured.
fn connect(plan: &Plan) -> Result<Vec<std::os::fd::OwnedFd>, Error> {
    let failed = |error| Error::system(format!("connecting to {}", plan.target), error);
    let mut key = Vec::new();
    plan.records.push_key(&mut key, 0);
    let mut sockets = Vec::with_capacity(plan.connections);
    let databases = plan.databases.clone().cycle();
    for database in databases.take(plan.connections) {
        let mut client = Client::connect(&plan.target, plan.wire, Duration::from_secs(STALL_S))?;
        if database > 0 {
            client.select(database);
        }
        client.get(&key);
        client.exchange(|event| match event {
            Event::Refused(line) => Err(Error::Garbled(String::from_utf8_lossy(line).into_owned())),
            _ => Ok(()),
        })?;
        sockets.push(client.into_stream().into_nonblocking().map_err(failed)?);
    }
    Ok(sockets)
}

/// Waits for all threads, showing progress, and adds up what they did.
fn collect(
    plan: &Plan,
    results: &Receiver<Result<Tally, Error>>,
    shared: &Shared,
    started_ns: u64,
) -> Result<Tally, Error> {
    let mut sum: Option<Tally> = None;
    let mut first_error = None;
    let (mut shown_replies, mut shown_ns) = (0, started_ns);
    let mut left = plan.threads;
    while left > 0 {
        match results.recv_timeout(PROGRESS_INTERVAL) {
            Ok(result) => {
                left -= 1;
                match (result, &mut sum) {
                    (Ok(tally), Some(sum)) => sum.merge(&tally),
                    (Ok(tally), None) => sum = Some(tally),
                    // The others end because of the first; it tells the cause.
                    (Err(error), _) => first_error = first_error.or(Some(error)),
                }
            }
            Err(RecvTimeoutError::Timeout) if plan.progress => {
                let replies = shared.replies.load(Ordering::Relaxed);
                let now = now_ns();
                show_progress(
                    plan,
                    replies,
                    replies - shown_replies,
                    now - shown_ns,
                    now - started_ns,
                );
                (shown_replies, shown_ns) = (replies, now);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if plan.progress {
        eprint!("\r\x1b[K");
    }
    match (first_error, sum) {
        (Some(error), _) => Err(error),
        (None, Some(sum)) => Ok(sum),
        (None, None) => Err(Error::Wrong("no thread of the load has ended".to_owned())),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a display")]
fn show_progress(plan: &Plan, replies: u64, fresh: u64, fresh_ns: u64, elapsed_ns: u64) {
    let share = match plan.limit {
        Limit::Requests(requests) => replies as f64 / requests.max(1) as f64,
        Limit::Nanoseconds(ns) => elapsed_ns as f64 / ns.max(1) as f64,
    };
    eprint!(
        "\r\x1b[K{:6.1} s  {replies:>12} requests  {:>10.0}/s  {:5.1} %",
        seconds(elapsed_ns),
        fresh as f64 / seconds(fresh_ns.max(1)),
        (share * 100.0).min(100.0),
    );
    // A progress line that cannot be shown is no reason to stop.
    let _ = std::io::stderr().flush();
}

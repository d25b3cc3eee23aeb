//! The paced load: one server filled with messages, then asked at a fixed rate.

use rustix::thread::{CpuSet, sched_setaffinity};

use super::board::Board;
use super::clients::{Asks, Clients, DEPTH_MAX, Order, Pace};
use super::found::Found;
use super::http::Method;
use super::message::Messages;
use super::servers::Contender;
use super::{ServerResult, ServiceArgs};
use crate::clock::NS_PER_S;
use crate::error::Error;
use crate::load::Limit;
use crate::process::Server;
use crate::spread::short;

/// Runs the load against a server of its own.
pub(super) fn run(
    args: &ServiceArgs,
    messages: Messages,
    contender: &Contender,
) -> Result<ServerResult, Error> {
    let live = args.live_messages();
    let server = contender.start(args, live)?;
    let mut board = Board::new(args.ttl_s, u64::MAX, 1);
    let found = on_cpu(args.cpus.load_cpu, || {
        load(args, messages, contender, &server, &mut board)
    })?;
    let figures = found.figures();
    eprintln!(
        "{:20} mean {:7.3} ms, p99.9 {:8.3} ms, worst {:8.3} ms",
        contender.name(),
        figures.all.latency_us_mean / 1000.0,
        figures.all.latency_us_p99_9 / 1000.0,
        figures.all.latency_us_max / 1000.0,
    );
    let result = ServerResult {
        server: contender.name().to_owned(),
        version: contender.version.clone(),
        is_floor: !contender.is_cache(),
        memory_mib: if contender.is_cache() {
            args.memory_mib(live)
        } else {
            0
        },
        messages: board.written(),
        rss_bytes: server.rss_bytes()?,
        rss_peak_bytes: server.rss_peak_bytes()?,
        figures,
        worst_us: microseconds(&found.worst_ns),
    };
    server.stop();
    Ok(result)
}

/// Fills the server, then asks it at the rate.
fn load(
    args: &ServiceArgs,
    messages: Messages,
    contender: &Contender,
    server: &Server,
    board: &mut Board,
) -> Result<Found, Error> {
    let ttl_s = contender.told_ttl_s(args);
    let mut clients = Clients::connect(server.address(), args.connections, messages, ttl_s)?;
    let order = Order {
        asks: Asks::Half {
            read_back_share: args.read_back_share,
        },
        pace: Pace::Open {
            rate_per_s: rate(args.rate),
        },
        limit: Limit::Nanoseconds(contender.paced_seconds(args) * NS_PER_S),
        server_pid: server.pid(),
        is_cache: contender.is_cache(),
    };
    if contender.is_cache() {
        fill(&mut clients, order, args.prefill, board)?;
    } else {
        // So that accepting connections is over before anything is measured.
        fill(&mut clients, order, args.connections as u64, board)?;
    }
    eprintln!(
        "{}: {} messages are there; {} s at {} requests/s",
        contender.name(),
        short(rate(board.written())),
        contender.paced_seconds(args),
        short(rate(args.rate)),
    );
    clients.run(order, board)
}

/// Posts so many messages as fast as the server takes them.
pub(super) fn fill(
    clients: &mut Clients,
    order: Order,
    count: u64,
    board: &mut Board,
) -> Result<(), Error> {
    let filled = clients.run(
        Order {
            asks: Asks::Only(Method::Post),
            pace: Pace::Closed { depth: DEPTH_MAX },
            limit: Limit::Requests(count),
            ..order
        },
        board,
    )?;
    match filled.first_refusal {
        Some(first) => Err(Error::Wrong(format!("a message was refused: {first}"))),
        None => Ok(()),
    }
}

/// Does something on a thread that is bound to a processor.
pub(super) fn on_cpu<R: Send>(
    cpu: usize,
    act: impl FnOnce() -> Result<R, Error> + Send,
) -> Result<R, Error> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut cpus = CpuSet::new();
            cpus.set(cpu);
            let bound = sched_setaffinity(None, &cpus);
            bound.map_err(|error| Error::system("binding a thread to a processor", error))?;
            act()
        });
        let panicked = |_| Error::Wrong("the thread of the load panicked".to_owned());
        thread.join().map_err(panicked)?
    })
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
fn rate(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "latencies are below 2^53 ns")]
fn microseconds(ns: &[u64]) -> Vec<f64> {
    ns.iter().map(|&ns| (ns / 1000) as f64).collect()
}

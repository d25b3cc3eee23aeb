//! The paced load: one server filled with messages, then asked at a fixed rate.

use super::asking::{Asks, Order};
use super::board::Board;
use super::found::Found;
use super::message::{Messages, Method};
use super::servers::Contender;
use super::{PacedResult, ServiceArgs};
use crate::spread::short;
use cellar_load::clock::NS_PER_S;
use cellar_load::drive::{Drive, Limit};
use cellar_load::error::Error;
use cellar_load::process::Server;

/// Messages posted in one window while a server is filled.
const FILL_DEPTH: usize = 16;

/// Runs the load against a server of its own.
pub(super) fn run(
    args: &ServiceArgs,
    messages: Messages,
    contender: &Contender,
) -> Result<PacedResult, Error> {
    let live = args.live_messages();
    let server = contender.start(args, live)?;
    let mut board = Board::new(args.ttl_s, u64::MAX, 1);
    let found = load(args, messages, contender, &server, &mut board)?;
    let figures = found.figures();
    eprintln!(
        "{:20} mean {:7.3} ms, p99.9 {:8.3} ms, worst {:8.3} ms",
        contender.name(),
        figures.all.latency_us_mean / 1000.0,
        figures.all.latency_us_p99_9 / 1000.0,
        figures.all.latency_us_max / 1000.0,
    );
    let result = PacedResult {
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
        worst_us: found
            .worst_ns
            .iter()
            .map(|&ns| (ns / 1000) as f64)
            .collect(),
    };
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
    let order = Order {
        asks: Asks::Half {
            read_back_share: args.read_back_share,
        },
        messages,
        ttl_s: contender.told_ttl_s,
        is_cache: contender.is_cache(),
    };
    let limit = Limit::Nanoseconds(contender.paced_seconds(args) * NS_PER_S);
    let drive = Drive {
        rate_per_s: Some(args.rate as f64),
        ..args.drive(server, limit)
    };
    if contender.is_cache() {
        fill(order, &drive, args.prefill, board)?;
    }
    eprintln!(
        "{}: {} messages are there; {} s at {} requests/s",
        contender.name(),
        short(board.written() as f64),
        contender.paced_seconds(args),
        short(args.rate as f64),
    );
    order.run(&drive, board)
}

/// Posts so many messages as fast as the server takes them.
pub(super) fn fill(
    order: Order,
    drive: &Drive,
    count: u64,
    board: &mut Board,
) -> Result<(), Error> {
    let asks = Asks::Only(Method::Post);
    let drive = Drive {
        depth: FILL_DEPTH,
        limit: Limit::Requests(count),
        rate_per_s: None,
        ..drive.clone()
    };
    match (Order { asks, ..order })
        .run(&drive, board)?
        .counts
        .first_refusal
    {
        Some(first) => Err(Error::Wrong(format!("a message was refused: {first}"))),
        None => Ok(()),
    }
}

//! Costs: what a request of each method takes of the server's processor, beside the floor's.
//!
//! All servers run at once on one processor; many short rounds visit every server in turn, the
//! first cache and the floor one right after the other, so that a disturbance of the machine falls
//! on both alike, and who was visited comes to rest before the next one is: what a server does of
//! itself later, as a collector of garbage does, is no cost of another. GET and PUT are about
//! messages that are there, POST brings new ones.

use serde::Serialize;

use super::ServiceArgs;
use super::asking::{Asks, Order};
use super::board::Board;
use super::found::{Counts, Found};
use super::message::{Messages, Method};
use super::paced::fill;
use super::servers::Contender;
use crate::spread::Spread;
use cellar_load::clock::{NS_PER_S, nanoseconds, now_ns};
use cellar_load::drive::Limit;
use cellar_load::error::Error;
use cellar_load::process::Server;

/// Messages that GET and PUT are about.
const MESSAGES: u64 = 100_000;
/// How long a server may take to come to rest after it was filled or visited.
const REST_S_MAX: u64 = 120;
/// How long messages are kept: until nobody asks for them.
const COST_LIFE_S: u64 = 3600;
/// Each cell runs so long before it is measured.
const WARM_UP_NS: u64 = 200_000_000;

/// One method on one server.
#[derive(Debug, Serialize)]
pub(super) struct CostResult {
    pub(super) method: String,
    pub(super) server: String,
    pub(super) is_floor: bool,
    pub(super) server_cpu_us_per_request: Spread,
    /// The same, divided by the floor's of the same round.
    pub(super) ratio_to_floor: Spread,
    pub(super) requests_per_s: Spread,
    pub(super) lost: u64,
    pub(super) wrong: u64,
    pub(super) refused: u64,
}

/// A running server and what was written to it.
struct Stand<'a> {
    args: &'a ServiceArgs,
    contender: &'a Contender,
    messages: Messages,
    server: Server,
    board: Board,
    /// What was found, by method.
    found: [Vec<Found>; Method::ALL.len()],
    counts: [Counts; Method::ALL.len()],
}

/// Measures all methods on all servers.
pub(super) fn measure(
    args: &ServiceArgs,
    messages: Messages,
    contenders: &[Contender],
) -> Result<Vec<CostResult>, Error> {
    if args.cost_rounds == 0 {
        return Ok(Vec::new());
    }
    let ns = nanoseconds(args.cost_seconds)?;
    let mut stands = Vec::new();
    for contender in contenders {
        stands.push(Stand::set_up(args, messages, contender)?);
    }
    for round in 0..args.cost_rounds {
        for (at, method) in Method::ALL.into_iter().enumerate() {
            let answering = |stand: &&mut Stand<'_>| stand.contender.answers(method);
            let mut visits: Vec<_> = stands.iter_mut().filter(answering).collect();
            let first = contenders[0].name();
            visits.sort_by_key(|it| (it.contender.name() != first, it.contender.is_cache()));
            if round % 2 == 1 && visits.len() > 1 {
                visits.swap(0, 1);
            }
            for stand in visits {
                stand.ask(method, at, ns)?;
                stand.rest()?;
            }
        }
        eprintln!("costs: round {} of {}", round + 1, args.cost_rounds);
    }
    Ok(summarize(&stands))
}

impl<'a> Stand<'a> {
    fn set_up(
        args: &'a ServiceArgs,
        messages: Messages,
        contender: &'a Contender,
    ) -> Result<Stand<'a>, Error> {
        let mut stand = Stand {
            args,
            contender,
            messages,
            server: contender.start(args, COST_LIFE_S, args.cost_room)?,
            board: Board::new(COST_LIFE_S, MESSAGES, 2),
            found: Default::default(),
            counts: Default::default(),
        };
        if contender.is_cache() {
            // More than there is room for, also for who needs less for each than it is given memory
            // for, so that nobody pays for memory that is touched for the first time.
            let posts = args.cost_room + args.cost_room / 2;
            let drive = args.drive(&stand.server, Limit::Requests(posts));
            fill(stand.order(Method::Post), drive, &mut stand.board)?;
        }
        stand.rest()?;
        Ok(stand)
    }

    fn order(&self, method: Method) -> Order {
        Order {
            asks: Asks::Only(method),
            messages: self.messages,
            is_cache: self.contender.is_cache(),
        }
    }

    /// Waits until the server has done what it does of itself.
    fn rest(&self) -> Result<(), Error> {
        self.server.rest(now_ns() + REST_S_MAX * NS_PER_S)
    }

    /// Asks with one method, the `at`th, for so long, after a warm-up.
    fn ask(&mut self, method: Method, at: usize, ns: u64) -> Result<(), Error> {
        let order = self.order(method);
        let warm_up = self
            .args
            .drive(&self.server, Limit::Nanoseconds(WARM_UP_NS));
        order.run(&warm_up, &mut self.board, &mut self.counts[at])?;
        let drive = self.args.drive(&self.server, Limit::Nanoseconds(ns));
        let found = order.run(&drive, &mut self.board, &mut self.counts[at])?;
        self.found[at].push(found);
        Ok(())
    }
}

fn summarize(stands: &[Stand<'_>]) -> Vec<CostResult> {
    let mut results = Vec::new();
    for (at, method) in Method::ALL.into_iter().enumerate() {
        let floor = stands
            .iter()
            .find(|stand| stand.contender.answers(method) && !stand.contender.is_cache());
        let floor: Vec<f64> = floor.map_or(Vec::new(), |stand| cpu_us(&stand.found[at]));
        for stand in stands.iter().filter(|it| it.contender.answers(method)) {
            let found = &stand.found[at];
            let own = cpu_us(found);
            let ratios = own.iter().zip(&floor).map(|(own, floor)| own / floor);
            results.push(CostResult {
                method: method.name().to_owned(),
                server: stand.contender.name().to_owned(),
                is_floor: !stand.contender.is_cache(),
                ratio_to_floor: Spread::of(ratios.collect()),
                server_cpu_us_per_request: Spread::of(own),
                requests_per_s: Spread::over(found, Found::requests_per_s),
                lost: stand.counts[at].lost,
                wrong: stand.counts[at].wrong,
                refused: stand.counts[at].refused,
            });
        }
    }
    results
}

fn cpu_us(found: &[Found]) -> Vec<f64> {
    found.iter().map(Found::server_cpu_us_per_request).collect()
}

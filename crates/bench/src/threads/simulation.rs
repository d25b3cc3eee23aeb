//! More processors than there are: a simulation that rests on measured times.
//!
//! Each processor works on one request after the other and never waits for one to come: first the
//! work outside any lock, then one lock after the other. A lock serves in the order of arrival. The
//! times outside and under a lock are drawn from exponential distributions with the measured means:
//! more uneven than real ones, so that locks are found taken rather too often. A lock that was
//! found taken costs its next owner a fixed time more, for lines that come from another processor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

use super::probe::{Access, LockUse, shard_of};
use super::ycsb::YcsbResult;
use super::{ThreadsArgs, ZIPF_EXPONENT};
use cellar_load::popularity::{Picker, Popularity};
use cellar_load::random::Random;

/// What a lock that was found taken costs more: assumed, the same for all designs.
pub(super) const HANDOVER_NS: f64 = 100.0;
/// How long memcached holds the lock of its slabs, and of the list of a class: assumed.
pub(super) const SLABS_NS: f64 = 100.0;
pub(super) const LIST_NS: f64 = 100.0;
/// Shards of Cellar's engine for each thread, rounded up to a power of two.
const SHARDS_PER_THREAD: usize = 4;
/// Locks of memcached's items: so many bits by its number of threads, in its own `thread.c`.
const ITEM_LOCK_BITS: [(usize, u32); 5] = [(2, 10), (3, 11), (4, 12), (10, 13), (20, 14)];
const ITEM_LOCK_BITS_MOST: u32 = 15;

/// Requests of one kind on all numbers of processors by all designs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Scaling {
    /// `insert` or `read`.
    pub(super) operation: String,
    /// Whether requests come over the network; else the engine is called in process.
    pub(super) is_server: bool,
    /// The time of a request outside the lock, and under it.
    pub(super) outside_ns: f64,
    pub(super) held_ns: f64,
    pub(super) lines: Vec<Line>,
}

/// One design.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    pub(super) design: String,
    pub(super) points: Vec<ScalingPoint>,
}

/// One number of processors.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ScalingPoint {
    pub(super) cores: usize,
    pub(super) operations_per_s: f64,
    /// Share of all the processors' time that goes to waiting for locks.
    pub(super) waiting_share: f64,
}

/// How a server guards its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Design {
    Sharded,
    OneLock,
    Memcached,
}

impl Design {
    pub(super) const ALL: [Design; 3] = [Design::Sharded, Design::OneLock, Design::Memcached];

    pub(super) fn name(self) -> &'static str {
        match self {
            Design::Sharded => "Cellar's shards",
            Design::OneLock => "one lock",
            Design::Memcached => "memcached's locks",
        }
    }

    /// The locks that a request passes through, one after the other.
    fn stages(self, cores: usize, operation: Access, held_ns: f64) -> Vec<LockStage> {
        let stage = |locks, held_ns| LockStage { locks, held_ns };
        match (self, operation) {
            (Design::Sharded, _) => {
                let shards = (cores * SHARDS_PER_THREAD).next_power_of_two();
                vec![stage(shards, held_ns)]
            }
            (Design::OneLock, _) => vec![stage(1, held_ns)],
            (Design::Memcached, Access::Read) => vec![stage(item_locks(cores), held_ns)],
            (Design::Memcached, Access::Insert) => vec![
                stage(1, SLABS_NS),
                stage(item_locks(cores), held_ns),
                stage(1, LIST_NS),
            ],
        }
    }
}

fn item_locks(threads: usize) -> usize {
    let bits = ITEM_LOCK_BITS.iter().find(|(most, _)| threads <= *most);
    1 << bits.map_or(ITEM_LOCK_BITS_MOST, |(_, bits)| *bits)
}

/// Locks of one kind: the key decides which one is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockStage {
    pub(super) locks: usize,
    pub(super) held_ns: f64,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) cores: usize,
    pub(super) outside_ns: f64,
    pub(super) stages: Vec<LockStage>,
    pub(super) operations_per_core: usize,
    pub(super) records: u64,
    /// Whether keys are drawn by Zipf's law; else evenly.
    pub(super) is_zipf: bool,
}

/// A processor that arrives at a lock; times in whole picoseconds, so that they have an order.
type Arrival = Reverse<(u64, usize, usize)>;

const PS_PER_NS: f64 = 1000.0;

impl Model {
    /// Runs the model to its end.
    #[expect(clippy::cast_precision_loss, reason = "below 2^53 operations")]
    pub(super) fn run(&self) -> ScalingPoint {
        let popularity = if self.is_zipf {
            Popularity::Zipf(ZIPF_EXPONENT)
        } else {
            Popularity::Uniform
        };
        let picker = Picker::new(popularity, self.records);
        let mut random = Random::seeded(1);
        let mut free_at: Vec<Vec<u64>> = self
            .stages
            .iter()
            .map(|stage| vec![0; stage.locks])
            .collect();
        let mut numbers = vec![0u32; self.cores];
        let mut left = self.cores * self.operations_per_core;
        let (mut done, mut waited, mut end) = (0usize, 0u64, 0u64);
        let mut arrivals: BinaryHeap<Arrival> = (0..self.cores)
            .map(|core| Reverse((draw(&mut random, self.outside_ns), core, 0)))
            .collect();
        while let Some(Reverse((now, core, at))) = arrivals.pop() {
            if at == 0 {
                if left == 0 {
                    // The others end with the processors that are all at work.
                    break;
                }
                left -= 1;
                numbers[core] = u32::try_from(picker.pick(&mut random)).unwrap_or(0);
            }
            let stage = self.stages[at];
            let lock = &mut free_at[at][shard_of(numbers[core], stage.locks)];
            let start = now.max(*lock);
            let handover = if start > now { HANDOVER_NS } else { 0.0 };
            let finish = start + draw(&mut random, stage.held_ns) + ps(handover);
            *lock = finish;
            waited += start - now + ps(handover);
            if at + 1 < self.stages.len() {
                arrivals.push(Reverse((finish, core, at + 1)));
                continue;
            }
            done += 1;
            end = end.max(finish);
            let next = finish + draw(&mut random, self.outside_ns);
            arrivals.push(Reverse((next, core, 0)));
        }
        let end = end.max(1) as f64;
        ScalingPoint {
            cores: self.cores,
            operations_per_s: done as f64 / (end / PS_PER_NS / 1e9),
            waiting_share: waited as f64 / (end * self.cores as f64),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive and far below 2^63"
)]
fn ps(ns: f64) -> u64 {
    (ns * PS_PER_NS) as u64
}

/// A time with this mean, from the exponential distribution.
fn draw(random: &mut Random, mean_ns: f64) -> u64 {
    ps(-(1.0 - random.unit()).ln() * mean_ns)
}

/// All scenes that the measurements suffice for.
pub(super) fn scenes(args: &ThreadsArgs, rows: &[YcsbResult], held: &[LockUse]) -> Vec<Scaling> {
    let mut scenes = Vec::new();
    for operation in Access::ALL {
        let Some(measured) = basis(held, operation) else {
            continue;
        };
        let in_process_ns = measured.operation_ns - measured.held_ns_mean;
        let of_server = server_ns(rows, operation).map(|ns| (true, ns - measured.held_ns_mean));
        for (is_server, outside_ns) in of_server.into_iter().chain([(false, in_process_ns)]) {
            let outside_ns = outside_ns.max(1.0);
            scenes.push(scene(
                args,
                operation,
                is_server,
                outside_ns,
                measured.held_ns_mean,
            ));
        }
    }
    scenes
}

/// The measurement with the most threads, which has the cost of lines that come from another
/// processor in it, on as many shards as the engine would choose for them, if these were measured.
fn basis(held: &[LockUse], operation: Access) -> Option<&LockUse> {
    let of_it = held
        .iter()
        .filter(|held| held.operation == operation.name());
    of_it.max_by_key(|held| {
        let chosen = (held.threads * SHARDS_PER_THREAD).next_power_of_two();
        (held.threads, held.shards == chosen, held.shards)
    })
}

/// The processor time of a request to Cellar with one thread.
fn server_ns(rows: &[YcsbResult], operation: Access) -> Option<f64> {
    let row = rows
        .iter()
        .find(|row| row.server == "cellar" && row.threads == 1)?;
    let us = match operation {
        Access::Insert => &row.server_cpu_us_per_insert,
        Access::Read => &row.server_cpu_us_per_read,
    };
    Some(us.median * 1000.0)
}

fn scene(
    args: &ThreadsArgs,
    operation: Access,
    is_server: bool,
    outside_ns: f64,
    held_ns: f64,
) -> Scaling {
    let line = |design: Design| {
        let points = args.cores.iter().map(|&cores| {
            let model = Model {
                cores,
                outside_ns,
                stages: design.stages(cores, operation, held_ns),
                operations_per_core: args.simulated,
                records: args.records,
                is_zipf: operation == Access::Read,
            };
            model.run()
        });
        Line {
            design: design.name().to_owned(),
            points: points.collect(),
        }
    };
    Scaling {
        operation: operation.name().to_owned(),
        is_server,
        outside_ns,
        held_ns,
        lines: Design::ALL.map(line).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(cores: usize, locks: usize) -> Model {
        Model {
            cores,
            outside_ns: 900.0,
            stages: vec![LockStage {
                locks,
                held_ns: 100.0,
            }],
            operations_per_core: 20_000,
            records: 100_000,
            is_zipf: false,
        }
    }

    #[test]
    fn one_processor_never_waits_and_needs_its_own_time() {
        let point = model(1, 1).run();
        assert!(
            (point.operations_per_s / 1e6 - 1.0).abs() < 0.02,
            "{point:?}"
        );
        assert_eq!(point.waiting_share, 0.0);
    }

    #[test]
    fn one_lock_lets_no_more_through_than_one_after_the_other() {
        let point = model(64, 1).run();
        // Each finds the lock taken and pays the handover too.
        let most = 1e9 / (100.0 + HANDOVER_NS);
        assert!(point.operations_per_s < most * 1.02, "{point:?}");
        assert!(point.operations_per_s > most * 0.95, "{point:?}");
        assert!(point.waiting_share > 0.7, "{point:?}");
    }

    #[test]
    fn more_shards_let_more_through_until_processors_are_all_that_is_missing() {
        let speed = |locks| model(16, locks).run().operations_per_s;
        let speeds = [1, 4, 16, 256].map(speed);
        assert!(speeds.is_sorted(), "{speeds:?}");
        assert!(speeds[3] > 15.5e6 && speeds[3] < 16.2e6, "{speeds:?}");
    }

    #[test]
    fn popular_keys_make_their_shards_busy() {
        let even = model(32, 128);
        let zipf = Model {
            is_zipf: true,
            ..even.clone()
        };
        assert!(zipf.run().waiting_share > even.run().waiting_share);
    }

    #[test]
    fn every_processor_does_its_operations_through_all_locks() {
        let mut model = model(2, 8);
        model.stages.push(LockStage {
            locks: 1,
            held_ns: 1000.0,
        });
        let point = model.run();
        // Two processors and 2000 ns each, half of them under a lock that both need.
        assert!(point.operations_per_s < 1e6, "{point:?}");
        assert!(point.operations_per_s > 0.6e6, "{point:?}");
        assert_eq!(item_locks(2), 1 << 10);
        assert_eq!(item_locks(64), 1 << 15);
    }
}

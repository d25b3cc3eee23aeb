//! Watch: how long single operations take, and where the time of the slow ones went.
//!
//! Every operation's time goes into a histogram. For one slower than [`SLOW_NS`] the kernel is
//! asked at once how much of it the thread ran, how much it waited for a processor that others had
//! (preempted), and how much it was blocked: on a lock, or on the kernel's lock on the address
//! space. The kernel's figures are also read once in a few hundred operations, so that they cover
//! little else than the slow one. What a hypervisor takes away looks like running.

use std::fs::File;
use std::os::unix::fs::FileExt;

use serde::Serialize;

use cellar_load::clock::{now_ns, thread_cpu_ns};
use cellar_load::latency::Latencies;

/// Operations slower than this are looked into.
pub(super) const SLOW_NS: u64 = 100_000;
/// Slow operations that are kept.
const SLOWEST_MAX: usize = 20;

/// The times of one kind of operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    pub(super) latencies: Latencies,
    /// The slowest, the worst first.
    pub(super) slowest: Vec<Slow>,
}

/// A slow operation, and where its time went; the three parts make up the whole.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Slow {
    /// How many operations of its kind came before it.
    pub(super) operation: u64,
    /// The whole.
    pub(super) total_us: f64,
    /// It waited for a processor that others had.
    pub(super) waiting_us: f64,
    /// It slept: on a lock, its own or the kernel's.
    pub(super) blocked_us: f64,
    /// It ran, or the machine below did something else.
    pub(super) running_us: f64,
}

/// What the kernel has told about this thread.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadTimes {
    wall_ns: u64,
    cpu_ns: u64,
    waited_ns: u64,
}

/// Asks the kernel about the calling thread.
#[derive(Debug)]
pub(super) struct Observer {
    schedstat: Option<File>,
    last: ThreadTimes,
}

impl Observer {
    /// Starts; to be called on the thread itself. Without scheduler figures waiting counts as
    /// blocked.
    pub(super) fn start() -> Observer {
        let mut observer = Observer {
            schedstat: File::open("/proc/thread-self/schedstat").ok(),
            last: ThreadTimes::default(),
        };
        observer.refresh();
        observer
    }

    /// Forgets what was before.
    pub(super) fn refresh(&mut self) {
        self.last = self.read();
    }

    fn read(&self) -> ThreadTimes {
        let mut text = [0; 96];
        let read = self
            .schedstat
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok());
        let text = &text[..read.unwrap_or(0)];
        ThreadTimes {
            wall_ns: now_ns(),
            cpu_ns: thread_cpu_ns(),
            waited_ns: waited_ns(text).unwrap_or(0),
        }
    }

    /// Where the time of an operation went that has just ended.
    fn explain(&mut self, operation: u64, ns: u64) -> Slow {
        let (before, now) = (self.last, self.read());
        self.last = now;
        let off = (now.wall_ns - before.wall_ns).saturating_sub(now.cpu_ns - before.cpu_ns);
        let off = off.min(ns);
        let waiting = now.waited_ns.saturating_sub(before.waited_ns).min(off);
        Slow {
            operation,
            total_us: us(ns),
            waiting_us: us(waiting),
            blocked_us: us(off - waiting),
            running_us: us(ns - off),
        }
    }
}

impl Watch {
    /// Records one operation.
    #[inline]
    pub(super) fn record(&mut self, ns: u64, operation: u64, observer: &mut Observer) {
        self.latencies.record(ns);
        if ns >= SLOW_NS {
            let slow = observer.explain(operation, ns);
            self.keep(slow);
        }
    }

    /// Adds what another has recorded.
    pub(super) fn merge(&mut self, other: Watch) {
        self.latencies.merge(&other.latencies);
        other.slowest.into_iter().for_each(|slow| self.keep(slow));
    }

    fn keep(&mut self, slow: Slow) {
        let place = self
            .slowest
            .partition_point(|other| other.total_us >= slow.total_us);
        self.slowest.insert(place, slow);
        self.slowest.truncate(SLOWEST_MAX);
    }

    /// The longest time of a slow operation that was not spent waiting for a processor; the worst
    /// of all if none was slow.
    pub(super) fn worst_without_waiting_us(&self) -> f64 {
        let worst = self.latencies.summary().latency_us_max;
        let kept = self.slowest.iter();
        let kept = kept.map(|slow| slow.total_us - slow.waiting_us);
        // What is not kept was shorter than what is, or not slow at all.
        let least = worst.min(us(SLOW_NS));
        kept.fold(least, f64::max)
    }
}

/// The second figure of a `schedstat`: nanoseconds ready to run but not running.
fn waited_ns(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(total_us: f64, waiting_us: f64) -> Slow {
        Slow {
            operation: 0,
            total_us,
            waiting_us,
            blocked_us: 0.0,
            running_us: total_us - waiting_us,
        }
    }

    #[test]
    fn the_slowest_are_kept_in_order() {
        let mut watch = Watch::default();
        (0..100).for_each(|n| watch.keep(slow(f64::from(n * 37 % 100), 0.0)));
        let kept: Vec<f64> = watch.slowest.iter().map(|slow| slow.total_us).collect();
        let expected: Vec<f64> = (80..100).rev().map(f64::from).collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn an_operation_that_only_waited_for_a_processor_is_not_the_worst() {
        let mut watch = Watch::default();
        watch.latencies.record(4_000_000);
        watch.keep(slow(4000.0, 3900.0));
        watch.keep(slow(300.0, 0.0));
        assert!((watch.worst_without_waiting_us() - 300.0).abs() < 1e-9);
        let mut quick = Watch::default();
        quick.latencies.record(5_000);
        assert!((quick.worst_without_waiting_us() - 5.0).abs() < 0.01);
    }

    #[test]
    fn sleeping_is_told_from_running() {
        let mut observer = Observer::start();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let slow = observer.explain(7, 5_000_000);
        assert!(slow.blocked_us + slow.waiting_us > 2500.0, "{slow:?}");
        let parts = slow.waiting_us + slow.blocked_us + slow.running_us;
        assert!((parts - slow.total_us).abs() < 0.01);
        assert_eq!(waited_ns(b"12 345 6\n"), Some(345));
        assert_eq!(waited_ns(b""), None);
    }
}

//! Watch: how long single operations take, and how much of it they waited for a processor.
//!
//! Every operation's time goes into a histogram. For one slower than [`SLOW_NS`] the kernel is
//! asked at once how long the thread has waited for a processor that others had (preempted). The
//! kernel's figure is also read once in a few hundred operations, so that it covers little else
//! than the slow one. What a hypervisor takes away looks like running.

use std::fs::File;
use std::os::unix::fs::FileExt;

use cellar_load::Latencies;

/// Operations slower than this are looked into.
pub(super) const SLOW_NS: u64 = 100_000;

/// The times of one kind of operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    pub(super) latencies: Latencies,
    longest_ns: u64,
    /// The longest time of a slow operation that was not spent waiting.
    longest_slow_ns: u64,
}

/// Asks the kernel how long the calling thread has waited for a processor.
#[derive(Debug)]
pub(super) struct Observer {
    schedstat: Option<File>,
    waited_ns: u64,
}

impl Observer {
    /// Starts; to be called on the thread itself. Without scheduler figures nothing counts as
    /// waiting.
    pub(super) fn start() -> Observer {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let mut observer = Observer {
            schedstat,
            waited_ns: 0,
        };
        observer.waited_since();
        observer
    }

    /// How long the thread has waited since it was asked for last.
    pub(super) fn waited_since(&mut self) -> u64 {
        let mut text = [0; 96];
        let file = self.schedstat.as_ref();
        let read = file.and_then(|file| file.read_at(&mut text, 0).ok());
        let now_ns = waited_ns(&text[..read.unwrap_or(0)]).unwrap_or(0);
        let before_ns = std::mem::replace(&mut self.waited_ns, now_ns);
        now_ns.saturating_sub(before_ns)
    }
}

impl Watch {
    /// Records one operation.
    #[inline]
    pub(super) fn record(&mut self, ns: u64, observer: &mut Observer) {
        self.latencies.record(ns);
        self.longest_ns = self.longest_ns.max(ns);
        if ns >= SLOW_NS {
            let rest_ns = ns.saturating_sub(observer.waited_since());
            self.longest_slow_ns = self.longest_slow_ns.max(rest_ns);
        }
    }

    /// Adds what another has recorded.
    pub(super) fn merge(&mut self, other: &Watch) {
        self.latencies.merge(&other.latencies);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.longest_slow_ns = self.longest_slow_ns.max(other.longest_slow_ns);
    }

    /// The longest time that was not spent waiting for a processor; what was not slow is not looked
    /// into, and counts up to where slowness begins.
    pub(super) fn worst_without_waiting_us(&self) -> f64 {
        self.longest_slow_ns.max(self.longest_ns.min(SLOW_NS)) as f64 / 1000.0
    }
}

/// The second figure of a `schedstat`: nanoseconds ready to run but not running.
fn waited_ns(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_only_waited_for_a_processor_is_not_the_worst() {
        let mut observer = Observer::start();
        let mut watch = Watch::default();
        watch.record(4_000_000, &mut observer);
        assert!(watch.worst_without_waiting_us() <= 4000.0);
        watch.longest_slow_ns = 300_000;
        assert!((watch.worst_without_waiting_us() - 300.0).abs() < 1e-9);
        let mut quick = Watch::default();
        quick.record(5_000, &mut observer);
        assert!((quick.worst_without_waiting_us() - 5.0).abs() < 0.01);
        quick.merge(&watch);
        assert!((quick.worst_without_waiting_us() - 300.0).abs() < 1e-9);
    }

    #[test]
    fn the_kernel_tells_how_long_a_thread_has_waited() {
        assert_eq!(waited_ns(b"12 345 6\n"), Some(345));
        assert_eq!(waited_ns(b""), None);
    }
}

//! Load: the work of one event loop: its time, its requests, and their latency.
//!
//! The latency of a request is from the moment when the loop learned that its connection was
//! readable until all replies of the iteration were handed to their sockets: one more reading of
//! the clock per iteration. A request that waits beyond its iteration, because its connection sent
//! more than its share, counts from the iteration that serves it; a large value from the iteration
//! that completes it.
//!
//! Tests: at the end of this file, server/tests/status.rs.

use cellar_config::protocol::{ByProtocol, PerProtocol, Protocol};

use super::Counter;

/// Upper bounds of the bins of latencies, in microseconds: 10 us to 10 s. One bin more has no
/// bound.
pub const BOUNDS_US: [u64; 19] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
];

/// The bins with the one that has no bound.
pub const BINS: usize = BOUNDS_US.len() + 1;

/// One event loop's load; only the loop itself writes.
#[derive(Debug, Default)]
pub struct Load {
    latency: PerProtocol<LatencyCounters>,
    busy_us: Counter,
    connections: PerProtocol<Counter>,
    buffer_bytes: Counter,
}

#[derive(Debug, Default)]
struct LatencyCounters {
    bins: [Counter; BINS],
    sum_us: Counter,
}

/// Latencies of one protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Requests in each bin; see [`BOUNDS_US`].
    pub bins: [u64; BINS],
    /// The sum of all, in microseconds.
    pub sum_us: u64,
}

/// A load as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadTotals {
    /// Latencies of each protocol.
    pub latency: ByProtocol<Latencies>,
    /// Time of iterations with work, in microseconds.
    pub busy_us: u64,
    /// Open connections of each protocol.
    pub connections: ByProtocol<u64>,
    /// Bytes of buffers that connections hold: incomplete requests and replies that wait; up to a
    /// second old.
    pub buffer_bytes: u64,
}

impl Load {
    /// Counts an iteration that took `us` and answered `requests` of each protocol.
    #[inline]
    pub fn note_turn(&self, requests: &PerProtocol<u64>, us: u64) {
        self.busy_us.add(us);
        for (histogram, &requests) in self.latency.iter().zip(requests) {
            if requests > 0 {
                let bin = BOUNDS_US.partition_point(|&bound| bound < us);
                histogram.bins[bin].add(requests);
                histogram.sum_us.add(us.wrapping_mul(requests));
            }
        }
    }

    /// Counts a new connection of a protocol.
    pub fn note_opened(&self, protocol: Protocol) {
        self.connections[protocol as usize].add(1);
    }

    /// Counts one that is closed.
    pub fn note_closed(&self, protocol: Protocol) {
        // Wrapping: one less.
        self.connections[protocol as usize].add(u64::MAX);
    }

    /// Records the size of the buffers of all connections.
    pub fn set_buffer_bytes(&self, bytes: u64) {
        self.buffer_bytes.set(bytes);
    }

    /// The counts so far.
    #[must_use]
    pub fn read(&self) -> LoadTotals {
        LoadTotals {
            latency: ByProtocol::from_fn(|protocol| self.latency[protocol as usize].read()),
            busy_us: self.busy_us.read(),
            connections: ByProtocol::from_fn(|protocol| self.connections[protocol as usize].read()),
            buffer_bytes: self.buffer_bytes.read(),
        }
    }
}

impl LatencyCounters {
    fn read(&self) -> Latencies {
        Latencies {
            bins: std::array::from_fn(|bin| self.bins[bin].read()),
            sum_us: self.sum_us.read(),
        }
    }
}

impl Latencies {
    /// Requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Latencies) -> Latencies {
        let counted = |bin: usize| self.bins[bin].saturating_sub(earlier.bins[bin]);
        Latencies {
            bins: std::array::from_fn(counted),
            sum_us: self.sum_us.wrapping_sub(earlier.sum_us),
        }
    }
}

/// The quantile of the requests in the bins, in microseconds; none without requests.
#[must_use]
pub fn quantile_us(bins: &[u64; BINS], share: f64) -> Option<f64> {
    (bins.iter().any(|&count| count > 0)).then(|| quantile(&BOUNDS_US, bins, share))
}

/// The value that this share of all values stays below, interpolated linearly within a bin; values
/// in the last bin count as the last bound.
#[must_use]
pub fn quantile(bounds: &[u64], counts: &[u64], share: f64) -> f64 {
    let all: u64 = counts.iter().sum();
    let (mut left, mut from) = (all as f64 * share, 0.0);
    for (&bound, &count) in bounds.iter().zip(counts) {
        let (bound, count) = (bound as f64, count as f64);
        if left <= count && count > 0.0 {
            return from + (bound - from) * left / count;
        }
        (left, from) = (left - count, bound);
    }
    from
}

impl LoadTotals {
    /// Requests of all protocols.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.latency.values().map(Latencies::count).sum()
    }

    /// Adds another loop's.
    pub fn add(&mut self, other: &LoadTotals) {
        for (protocol, more) in other.latency.iter() {
            let mine = self.latency.of_mut(protocol);
            for (bin, more) in mine.bins.iter_mut().zip(more.bins) {
                *bin += more;
            }
            mine.sum_us = mine.sum_us.wrapping_add(more.sum_us);
        }
        self.busy_us += other.busy_us;
        for (protocol, more) in other.connections.iter() {
            let mine = self.connections.of_mut(protocol);
            *mine = mine.wrapping_add(*more);
        }
        self.buffer_bytes += other.buffer_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_of_a_turn_are_counted_in_the_bin_of_its_time() {
        let load = Load::default();
        load.note_turn(&[3, 0, 1], 10);
        load.note_turn(&[2, 5, 0], 11);
        load.note_turn(&[0, 1, 0], 60_000_000);
        load.note_turn(&[0, 0, 0], 7);
        let read = load.read();
        assert_eq!(read.latency.memcached.bins[..3], [3, 2, 0]);
        assert_eq!(
            (read.latency.resp.bins[1], read.latency.resp.bins[BINS - 1]),
            (5, 1)
        );
        assert_eq!(
            (
                read.latency.memcached.count(),
                read.latency.memcached.sum_us
            ),
            (5, 52)
        );
        assert_eq!((read.busy_us, read.requests()), (60_000_028, 12));
    }

    #[test]
    fn loads_of_several_loops_are_summed() {
        let (one, other) = (Load::default(), Load::default());
        one.note_opened(Protocol::Memcached);
        one.note_opened(Protocol::Resp);
        one.note_closed(Protocol::Memcached);
        other.note_opened(Protocol::Resp);
        other.note_turn(&[1, 0, 0], 30);
        other.set_buffer_bytes(9);
        other.set_buffer_bytes(5);
        let mut sum = one.read();
        sum.add(&other.read());
        let connections: Vec<u64> = sum.connections.values().copied().collect();
        assert_eq!(connections, [0, 2, 0]);
        assert_eq!((sum.latency.memcached.bins[2], sum.buffer_bytes), (1, 5));
    }

    #[test]
    fn bounds_rise() {
        assert!(BOUNDS_US.is_sorted_by(|one, next| one < next));
    }
}

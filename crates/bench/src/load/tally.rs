//! The tally: what one thread, or all together, have done.

use crate::latency::Latencies;
use crate::load::Sample;
use crate::load::source::Kind;

/// What one thread, or all together, have done.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) stored: u64,
    pub(super) not_stored: u64,
    pub(super) gets_refused: u64,
    pub(super) sets_refused: u64,
    pub(super) mismatches: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) first_refusal: Option<String>,
    pub(super) get_latencies: Latencies,
    pub(super) set_latencies: Latencies,
    pub(super) started_ns: u64,
    pub(super) ended_ns: u64,
    /// Processor time of the load generator itself.
    pub(super) own_cpu_ns: u64,
    /// Requests of an open loop that were due but never sent.
    pub(super) unsent: u64,
    /// Every get by itself, if that is wanted.
    pub(super) samples: Option<Vec<Sample>>,
}

impl Tally {
    /// Replies of all kinds.
    pub(super) fn replies(&self) -> u64 {
        self.gets() + self.sets()
    }

    pub(super) fn gets(&self) -> u64 {
        self.hits + self.misses + self.gets_refused
    }

    pub(super) fn sets(&self) -> u64 {
        self.stored + self.not_stored + self.sets_refused
    }

    #[inline]
    pub(super) fn got(&mut self, hit: bool, good: bool, ns: u64) {
        self.hits += u64::from(hit);
        self.misses += u64::from(!hit);
        self.mismatches += u64::from(!good);
        self.get_latencies.record(ns);
    }

    /// Keeps a get by itself, if that is wanted.
    #[inline]
    pub(super) fn keep(&mut self, start_ns: u64, ns: u64) {
        if let Some(samples) = &mut self.samples {
            samples.push(Sample { start_ns, ns });
        }
    }

    #[inline]
    pub(super) fn set(&mut self, stored: bool, ns: u64) {
        self.stored += u64::from(stored);
        self.not_stored += u64::from(!stored);
        self.set_latencies.record(ns);
    }

    pub(super) fn refused(&mut self, kind: Kind, line: &[u8], ns: u64) {
        match kind {
            Kind::Get => {
                self.gets_refused += 1;
                self.get_latencies.record(ns);
            }
            Kind::Set => {
                self.sets_refused += 1;
                self.set_latencies.record(ns);
            }
        }
        if self.first_refusal.is_none() {
            self.first_refusal = Some(String::from_utf8_lossy(line).into_owned());
        }
    }

    /// Adds another thread's work.
    pub(super) fn merge(&mut self, other: &Tally) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.stored += other.stored;
        self.not_stored += other.not_stored;
        self.gets_refused += other.gets_refused;
        self.sets_refused += other.sets_refused;
        self.mismatches += other.mismatches;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.unsent += other.unsent;
        self.own_cpu_ns += other.own_cpu_ns;
        if self.first_refusal.is_none() {
            self.first_refusal.clone_from(&other.first_refusal);
        }
        if let (Some(own), Some(others)) = (&mut self.samples, &other.samples) {
            own.extend_from_slice(others);
        }
        self.get_latencies.merge(&other.get_latencies);
        self.set_latencies.merge(&other.set_latencies);
        self.started_ns = self.started_ns.min(other.started_ns);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
    }
}

//! Rates: events per second, over the last second and a half.
//!
//! An event loop takes a sample of the counters ten times a second; a rate is the difference
//! between the newest sample and the oldest that is kept.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Samples kept.
const SAMPLES: usize = 16;

/// Counts at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// The moment, in milliseconds.
    pub at_ms: u64,
    /// Commands of the Redis protocol so far.
    pub commands: u64,
    /// Bytes received so far.
    pub bytes_read: u64,
    /// Bytes sent so far.
    pub bytes_written: u64,
    /// Iterations of the event loops so far.
    pub cycles: u64,
    /// Microseconds that they had something to do so far.
    pub busy_us: u64,
}

/// Events per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Commands of the Redis protocol.
    pub commands: u64,
    /// Bytes received.
    pub bytes_read: u64,
    /// Bytes sent.
    pub bytes_written: u64,
    /// Iterations of the event loops.
    pub cycles: u64,
    /// Microseconds that they had something to do.
    pub busy_us: u64,
}

/// The samples.
#[derive(Debug, Default)]
pub struct RateSamples(Mutex<VecDeque<Sample>>);

impl RateSamples {
    /// Takes a sample.
    pub fn note(&self, sample: Sample) {
        let mut samples = self.0.lock();
        if samples.len() == SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// The present rates.
    pub fn rates(&self) -> Rates {
        let samples = self.0.lock();
        let (Some(oldest), Some(newest)) = (samples.front(), samples.back()) else {
            return Rates::default();
        };
        let ms = newest.at_ms.saturating_sub(oldest.at_ms).max(1);
        let rate = |of: fn(&Sample) -> u64| {
            of(newest).saturating_sub(of(oldest)).saturating_mul(1_000) / ms
        };
        Rates {
            commands: rate(|sample| sample.commands),
            bytes_read: rate(|sample| sample.bytes_read),
            bytes_written: rate(|sample| sample.bytes_written),
            cycles: rate(|sample| sample.cycles),
            busy_us: rate(|sample| sample.busy_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_taken_over_the_samples_that_are_kept() {
        let pace = RateSamples::default();
        assert_eq!(pace.rates(), Rates::default());
        for step in 0..100 {
            let commands = if step < 50 { 0 } else { (step - 50) * 20 };
            pace.note(Sample {
                at_ms: step * 100,
                commands,
                ..Sample::default()
            });
        }
        assert_eq!(pace.rates().commands, 200);
    }
}

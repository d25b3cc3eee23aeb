//! The source of requests of one thread: which comes next, and when the thread is done.

use crate::clock::{NS_PER_S, now_ns};
use crate::load::plan::{Keys, Limit, Plan};
use crate::popularity::{Picker, Popularity, Scatter};
use crate::random::Random;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reads a value.
    Get,
    /// Stores a value.
    Set,
}

/// A request without its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// What it asks for.
    pub(super) kind: Kind,
    /// The record's number.
    pub(super) number: u64,
}

/// Makes the requests of one thread.
#[derive(Debug)]
pub(super) struct Source<'p> {
    plan: &'p Plan,
    random: Random,
    picker: Picker,
    scatter: Scatter,
    /// The next key and the end of this thread's keys, for [`Keys::Each`].
    each: std::ops::Range<u64>,
    /// Requests this thread may still send.
    left: u64,
    /// Requests made so far.
    pushed: u64,
    /// When this thread stops sending.
    stop_ns: u64,
    version: u32,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'p> Source<'p> {
    /// The source of thread `thread`.
    pub(super) fn new(plan: &'p Plan, thread: usize) -> Source<'p> {
        let keys = plan.records.keys();
        let popularity = match plan.keys {
            Keys::Each => Popularity::Uniform,
            Keys::Drawn(popularity) => popularity,
        };
        let left = requests(plan).map_or(u64::MAX, |requests| {
            let part = part(requests, thread, plan.threads);
            part.end - part.start
        });
        Source {
            plan,
            random: Random::seeded(plan.seed.wrapping_add(thread as u64)),
            picker: Picker::new(popularity, keys),
            scatter: Scatter::new(keys),
            each: part(keys, thread, plan.threads),
            left,
            pushed: 0,
            stop_ns: u64::MAX,
            // Threads count versions from different starts, to tell their values apart.
            version: (thread as u32) << 24,
            key: Vec::with_capacity(plan.records.key_bytes()),
            value: Vec::new(),
        }
    }

    /// Starts the time of a load that ends by time.
    ///
    /// An open loop has a number of requests that are due in its time. A server that falls behind
    /// gets the same time again to answer them.
    pub(super) fn start(&mut self, now_ns: u64) {
        if let Limit::Nanoseconds(ns) = self.plan.limit {
            let ns = if self.plan.rate_per_s.is_some() {
                ns.saturating_mul(2)
            } else {
                ns
            };
            self.stop_ns = now_ns.saturating_add(ns);
        }
    }

    /// Requests made so far.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Requests of an open loop that are still to be made.
    pub(super) fn unsent(&self) -> u64 {
        if self.plan.rate_per_s.is_some() {
            self.left
        } else {
            0
        }
    }

    /// How many of `wanted` requests may be sent at `now_ns`.
    #[inline]
    pub(super) fn allowance(&self, wanted: usize, now_ns: u64) -> usize {
        if now_ns >= self.stop_ns {
            return 0;
        }
        let left = match self.plan.keys {
            Keys::Each => self.left.min(self.each.end - self.each.start),
            Keys::Drawn(_) => self.left,
        };
        usize::try_from(left).map_or(wanted, |left| left.min(wanted))
    }

    /// Whether the thread has sent its last request.
    pub(super) fn is_over(&self) -> bool {
        let now = if self.stop_ns == u64::MAX {
            0
        } else {
            now_ns()
        };
        self.allowance(1, now) == 0
    }

    /// Appends the next request; to be called only within the [`Source::allowance`].
    #[inline]
    pub(super) fn push_next(&mut self, out: &mut Vec<u8>) -> Request {
        self.left -= 1;
        self.pushed += 1;
        let number = match self.plan.keys {
            Keys::Each => {
                self.each.start += 1;
                self.scatter.place(self.each.start - 1)
            }
            Keys::Drawn(_) => self.picker.pick(&mut self.random),
        };
        self.key.clear();
        self.plan.records.push_key(&mut self.key, number);
        if self.is_get() {
            self.plan.wire.push_get(out, &self.key);
            return Request {
                kind: Kind::Get,
                number,
            };
        }
        self.version = self.version.wrapping_add(1);
        self.value.clear();
        self.plan
            .records
            .push_value(&mut self.value, number, self.version);
        let ttl_s = self.plan.ttl.draw_s(&mut self.random);
        self.plan.wire.push_set(out, &self.key, ttl_s, &self.value);
        Request {
            kind: Kind::Set,
            number,
        }
    }

    /// Writes the key of record `number`, for comparing.
    pub(super) fn key_of(&mut self, number: u64) -> &[u8] {
        self.key.clear();
        self.plan.records.push_key(&mut self.key, number);
        &self.key
    }

    #[inline]
    fn is_get(&mut self) -> bool {
        let share = self.plan.get_share;
        share >= 1.0 || (share > 0.0 && self.random.unit() < share)
    }
}

/// How many requests all threads make together; `None` if time alone ends the load.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative"
)]
#[expect(clippy::cast_precision_loss, reason = "below 2^53 ns, 104 days")]
fn requests(plan: &Plan) -> Option<u64> {
    match (plan.limit, plan.rate_per_s) {
        (Limit::Requests(requests), _) => Some(requests),
        (Limit::Nanoseconds(ns), Some(rate)) => Some((ns as f64 / NS_PER_S as f64 * rate) as u64),
        (Limit::Nanoseconds(_), None) => None,
    }
}

/// The `index`-th of `parts` nearly equal parts of the numbers below `whole`.
fn part(whole: u64, index: usize, parts: usize) -> std::ops::Range<u64> {
    let border = |index: usize| {
        // At most `whole`, which fits.
        (u128::from(whole) * index as u128 / parts as u128) as u64
    };
    border(index)..border(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_whole_once() {
        for (whole, parts) in [(10, 3), (2, 5), (0, 2), (u64::MAX, 7)] {
            let mut next = 0;
            for index in 0..parts {
                let part = part(whole, index, parts);
                assert_eq!(part.start, next);
                next = part.end;
            }
            assert_eq!(next, whole);
        }
    }
}

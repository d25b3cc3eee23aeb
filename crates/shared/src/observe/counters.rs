//! Counters: what each event loop counts, one table row a counter.
//!
//! Each thread owns one [`Counters`] and is its only writer, so counting is a plain load and store;
//! readers sum over threads ([`Counters::sum`]).

pub mod load; // request latency in the server, and the load of a loop
pub mod pulse;
pub mod times; // how long commands take, how they fail

use std::sync::atomic::{AtomicU64, Ordering};

use cellar_protocol::resp::Verb;

use self::load::Load;
use self::pulse::Pulse;
use self::times::Times;

/// A count with one writer and any number of readers.
#[derive(Debug, Default)]
// Relaxed: one writer, and a count orders nothing.
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; only the owning thread may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        // Relaxed, and no read-modify-write: one writer, and a count orders nothing.
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// Sets it as a gauge; only the owning thread may call this.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The present count.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One in so many calls of a command is sampled.
const CALLS_PER_SAMPLE: u64 = 64;
/// Spreads samples among calls: an odd number near the golden ratio of 2^64, so that no pattern of
/// a client's requests coincides with the samples.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A counter per command of the Redis protocol, which also selects the sampled calls.
#[derive(Debug)]
pub struct Calls {
    counts: [Counter; Verb::COUNT],
    /// Calls whose spread count is not above this are sampled.
    // Relaxed: a change of it does not wait for its readers.
    bar: AtomicU64,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls {
            counts: std::array::from_fn(|_| Counter::default()),
            bar: AtomicU64::new(u64::MAX / CALLS_PER_SAMPLE),
        }
    }
}

impl Calls {
    /// Counts a call; returns whether it is sampled: timed, and shown to monitors. The first call
    /// of a command is. Only the owning thread may call this.
    #[inline]
    pub fn add(&self, verb: Verb) -> bool {
        let count = &self.counts[verb as usize];
        let before = count.read();
        count.set(before.wrapping_add(1));
        before.wrapping_mul(SPREAD) <= self.bar.load(Ordering::Relaxed)
    }

    /// Takes back the count of a call that runs again. Only the owning thread may call this.
    pub fn take_back(&self, verb: Verb) {
        let count = &self.counts[verb as usize];
        count.set(count.read().wrapping_sub(1));
    }

    /// Samples each call, or one in `CALLS_PER_SAMPLE` again; any thread may call this.
    pub fn look_at_all(&self, all: bool) {
        let bar = if all {
            u64::MAX
        } else {
            u64::MAX / CALLS_PER_SAMPLE
        };
        self.bar.store(bar, Ordering::Relaxed);
    }

    /// The sums of all event loops, by `verb as usize`.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Calls>) -> Vec<u64> {
        let mut sums = vec![0_u64; Verb::COUNT];
        for Calls { counts, .. } in all {
            for (sum, counter) in sums.iter_mut().zip(counts) {
                *sum = sum.wrapping_add(counter.read());
            }
        }
        sums
    }
}

/// One counter in the table.
#[derive(Clone, Copy, Debug)]
pub struct CounterRow {
    /// Its name here.
    pub name: &'static str,
    /// Its name in memcached's `stats`; empty if it is not shown there.
    pub stat: &'static str,
    /// A description of the counter.
    pub help: &'static str,
}

macro_rules! counters {
    ($($name:ident $stat:literal: $help:literal;)*) => {
        /// One event loop's counters.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $(#[doc = $help] pub $name: Counter,)*
            /// How often each command of the Redis protocol was run.
            pub calls: Calls,
            /// How long they took, and how they failed.
            pub times: Times,
            /// Its time, its requests and how long they took.
            pub load: Load,
            /// Whether it is running, and the request that it began last.
            pub pulse: Pulse,
        }

        /// Sums of all event loops' counters.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Totals {
            $(#[doc = $help] pub $name: u64,)*
        }

        impl Totals {
            /// The counts since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Totals) -> Totals {
                Totals { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }

            /// All of them, in table order.
            #[must_use]
            pub fn values(&self) -> Vec<u64> {
                vec![$(self.$name,)*]
            }
        }

        impl Counters {
            /// All counters, in table order.
            pub const TABLE: &'static [CounterRow] =
                &[$(CounterRow { name: stringify!($name), stat: $stat, help: $help },)*];

            /// Sums the counters of all event loops.
            pub fn sum<'a>(all: impl IntoIterator<Item = &'a Counters>) -> Totals {
                let mut totals = Totals::default();
                for one in all {
                    $(totals.$name = totals.$name.wrapping_add(one.$name.read());)*
                }
                totals
            }
        }
    };
}

counters! {
    cmd_get "cmd_get": "Keys requested by read commands.";
    cmd_set "cmd_set": "Storage commands.";
    cmd_flush "cmd_flush": "flush_all commands.";
    cmd_touch "cmd_touch": "Touches: touch, gat and meta T.";
    cmd_meta "cmd_meta": "`me` commands, as memcached counts them.";
    get_hits "get_hits": "Strings that read commands found; cellar_gets_total counts all types.";
    get_misses "get_misses": "Strings that read commands did not find.";
    delete_hits "delete_hits": "Deletes that found an item.";
    delete_misses "delete_misses": "Deletes that found no item.";
    incr_hits "incr_hits": "Increments that found a number.";
    incr_misses "incr_misses": "Increments that found no item.";
    decr_hits "decr_hits": "Decrements that found a number.";
    decr_misses "decr_misses": "Decrements that found no item.";
    cas_hits "cas_hits": "Conditional stores whose version matched.";
    cas_misses "cas_misses": "Conditional stores that found no item.";
    cas_badval "cas_badval": "Conditional stores whose version differed.";
    touch_hits "touch_hits": "Touches that found an item.";
    touch_misses "touch_misses": "Touches that found no item.";
    auth_cmds "auth_cmds": "Login attempts of clients.";
    auth_errors "auth_errors": "Login attempts that failed or were not checked.";
    store_too_large "store_too_large": "Stores refused because the value is over the limit.";
    store_no_memory "store_no_memory":
        "Stores refused because values in transfer used all memory.";
    bytes_read "bytes_read": "Bytes read from clients.";
    bytes_written "bytes_written": "Bytes written to clients.";
    connections_total "total_connections": "Connections accepted.";
    connections_rejected "rejected_connections":
        "Connections refused because of --max-connections.";
    connections_idle_closed "idle_kicks": "Connections closed because they were idle.";
    connections_slow_closed "slow_kicks":
        "Connections closed because the client did not read its replies.";
    connections_memory_closed "memory_kicks":
        "Connections closed because clients together exceeded --client-memory.";
    connections_pipeline_closed "pipeline_kicks":
        "Connections closed because their pipeline did not fit into --client-memory.";
    connections_login_closed "login_kicks":
        "Unauthenticated connections closed after --login-timeout or in favour of other clients.";
    protocol_errors "protocol_errors": "Requests that got an error reply.";
    accept_failures "listen_disabled_num":
        "Times the operating system refused a further connection.";
    output_pauses "":
        "Times the server paused a connection because its client did not read its replies.";
    tls_handshakes "": "Completed TLS handshakes.";
    tls_handshakes_resumed "": "Completed TLS handshakes that resumed a session.";
    tls_handshakes_failed "":
        "Failed TLS handshakes: refused, aborted, too slow, or not TLS.";
    tls_reloads "": "Reloads of certificates and keys.";
    tls_reloads_failed "":
        "Failed reloads of certificates and keys; the old ones stay in use.";
    conn_yields "conn_yields":
        "Times a connection yielded to others because it sent too many requests at once.";
}

/// The counts of reads at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ReadCounts {
    requested: u64,
    hits: u64,
    misses: u64,
}

impl Counters {
    /// The counts of reads; only the loop calls this.
    #[must_use]
    pub fn reads(&self) -> ReadCounts {
        ReadCounts {
            requested: self.cmd_get.read(),
            hits: self.get_hits.read(),
            misses: self.get_misses.read(),
        }
    }

    /// Takes back what was counted since `before`, because it is read again; only the loop calls
    /// this.
    pub fn take_back_reads(&self, before: ReadCounts) {
        self.cmd_get.set(before.requested);
        self.get_hits.set(before.hits);
        self.get_misses.set(before.misses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_one_in_so_many_calls_in_any_rhythm() {
        const CALLS: u64 = 1 << 16;
        for rhythm in [1, 2, 10, 64, 100] {
            let calls = Calls::default();
            assert!(calls.add(Verb::Get), "the first call is looked at");
            let looked_at = (1..CALLS * rhythm).map(|call| (call, calls.add(Verb::Get)));
            let in_step = looked_at
                .filter(|&(call, is)| is && call % rhythm == 0)
                .count() as u64;
            let expected = CALLS / CALLS_PER_SAMPLE;
            assert!(
                in_step.abs_diff(expected) < expected / 20,
                "{in_step} at {rhythm}"
            );
        }
    }

    #[test]
    fn all_calls_are_looked_at_if_that_is_asked_for() {
        let calls = Calls::default();
        calls.look_at_all(true);
        assert!((0..1_000).all(|_| calls.add(Verb::Set)));
        calls.look_at_all(false);
        assert!((0..1_000).filter(|_| calls.add(Verb::Set)).count() < 30);
    }
}

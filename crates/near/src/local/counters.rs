//! Counts of hits and misses, without contention.
//!
//! Each thread has a number, which another thread gets when it ends. The first threads have a cache
//! line of their own in every store's counters, which they change by plain loads and stores. All
//! others share one line. Sums are exact once no thread counts.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts of one thread, or of all threads without a line of their own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct CounterLine {
    // Relaxed: counts order nothing.
    hits: AtomicU64,
    // Relaxed: counts order nothing.
    misses: AtomicU64,
}

/// Hits and misses of one store.
#[derive(Debug)]
pub(super) struct Counters {
    /// Lines of threads by number, and at last the shared one.
    lines: Box<[CounterLine]>,
}

/// Lines for each thread that the machine can run at once.
const LINES_PER_CORE: usize = 4;
const LINES_MIN: usize = 16;

impl Counters {
    pub(super) fn new() -> Counters {
        let owners = (cores() * LINES_PER_CORE).max(LINES_MIN);
        Counters {
            lines: (0..=owners).map(|_| CounterLine::default()).collect(),
        }
    }

    /// Counts one read.
    #[inline]
    pub(super) fn count(&self, is_hit: bool) {
        let shared = self.lines.len() - 1;
        let owner = thread_number();
        let line = &self.lines[owner.min(shared)];
        let counter = if is_hit { &line.hits } else { &line.misses };
        // Relaxed: a count that orders nothing.
        if owner < shared {
            // No other thread writes here.
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Hits and misses so far.
    pub(super) fn sums(&self) -> (u64, u64) {
        let sum = |counter: fn(&CounterLine) -> &AtomicU64| {
            let counts = self.lines.iter().map(counter);
            // Relaxed: counts order nothing.
            counts.map(|count| count.load(Ordering::Relaxed)).sum()
        };
        (sum(|line| &line.hits), sum(|line| &line.misses))
    }
}

/// Threads that the machine runs at once; asked for only once, because the answer is slow.
pub(super) fn cores() -> usize {
    // Relaxed: the number is the same for all threads.
    static CORES: AtomicUsize = AtomicUsize::new(0);
    match CORES.load(Ordering::Relaxed) {
        0 => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            CORES.store(cores, Ordering::Relaxed);
            cores
        }
        cores => cores,
    }
}

/// A thread that has asked for no number yet, or has given it back.
const UNNUMBERED: usize = usize::MAX;

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(UNNUMBERED) };
    static HOLDER: NumberHolder = const { NumberHolder };
}

/// Numbers of ended threads, and the first that was never used.
static FREE: Mutex<(Vec<usize>, usize)> = Mutex::new((Vec::new(), 0));

/// Gives the thread's number back when the thread ends.
struct NumberHolder;

impl Drop for NumberHolder {
    fn drop(&mut self) {
        let number = NUMBER.replace(UNNUMBERED);
        if number != UNNUMBERED {
            // The lock also publishes this thread's writes to its lines.
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            free.0.push(number);
        }
    }
}

#[inline]
fn thread_number() -> usize {
    match NUMBER.get() {
        UNNUMBERED => number_thread(),
        number => number,
    }
}

#[cold]
fn number_thread() -> usize {
    // A thread that is ending has no number any more and shares the last line.
    if HOLDER.try_with(|_| ()).is_err() {
        return UNNUMBERED;
    }
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let number = free.0.pop().unwrap_or_else(|| {
        free.1 += 1;
        free.1 - 1
    });
    NUMBER.set(number);
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_is_lost_however_many_threads_come_and_go() {
        let counters = Counters::new();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..40 {
                    scope.spawn(|| (0..1_000).for_each(|n| counters.count(n % 4 != 0)));
                }
            });
        }
        assert_eq!(counters.sums(), (90_000, 30_000));
    }

    #[test]
    fn threads_that_live_at_the_same_time_have_different_numbers() {
        let (barrier, numbers) = (std::sync::Barrier::new(8), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    numbers.lock().unwrap().push(thread_number());
                    barrier.wait();
                });
            }
        });
        let mut numbers = numbers.into_inner().unwrap();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 8);
    }
}

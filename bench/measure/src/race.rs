//! A race: threads that start together, each on a processor of its own where there are enough; and
//! caches that take turns in it.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ScopedJoinHandle, scope};

use cellar_load::{Error, Picker, Popularity, Random, now_ns, seconds, thread_cpu_ns, usage};

use crate::spread::Spread;

/// What came of rounds in which a cache was asked.
#[derive(Debug, Default)]
pub(crate) struct Speed {
    /// Thread time of one operation, round by round.
    pub(crate) operation_ns: Vec<f64>,
    /// Operations of all threads by the clock on the wall.
    pub(crate) per_wall_s: Vec<f64>,
}

impl Speed {
    /// Operations per second of thread time.
    pub(crate) fn per_cpu_s(&self) -> Spread {
        Spread::over(&self.operation_ns, |ns| 1e9 / ns)
    }
}

/// The numbers that each of so many threads asks for.
pub(crate) fn draws(
    popularity: Popularity,
    numbers: u64,
    threads: usize,
    each: usize,
    seed: u64,
) -> Vec<Vec<u32>> {
    let picker = Picker::new(popularity, numbers);
    let draw = |thread| {
        let mut random = Random::seeded(thread as u64 + seed);
        (0..each).map(|_| picker.pick(&mut random) as u32).collect()
    };
    (0..threads).map(draw).collect()
}

/// Rounds in which all caches take turns, one thread for each of `draws`; `work` is told whether it
/// is the first thread's, and tells with how many it succeeded.
/// [`Error::Wrong`] if a thread panicked, or not all operations succeeded.
pub(crate) fn take_turns<C: Sync>(
    caches: &[C],
    rounds: usize,
    draws: &[Vec<u32>],
    work: impl Fn(&C, &[u32], bool) -> u64 + Sync,
) -> Result<Vec<Speed>, Error> {
    let mut speeds: Vec<Speed> = caches.iter().map(|_| Speed::default()).collect();
    let operations: usize = draws.iter().map(Vec::len).sum();
    for _ in 0..rounds {
        for (cache, speed) in caches.iter().zip(&mut speeds) {
            let raced = race(draws.len(), |thread| {
                work(cache, &draws[thread], thread == 0)
            });
            let found: u64 = raced.results.iter().sum();
            if found != operations as u64 {
                return Err(Error::Wrong(format!(
                    "{found} of {operations} operations were neither misses nor refused"
                )));
            }
            let operations = operations.max(1) as f64;
            speed.operation_ns.push(raced.cpu_ns as f64 / operations);
            speed.per_wall_s.push(operations / seconds(raced.wall_ns));
        }
    }
    Ok(speeds)
}

/// What came of a race.
#[derive(Debug)]
pub(crate) struct Raced<R> {
    /// What each thread gave back.
    pub(crate) results: Vec<R>,
    /// Processor time of all threads together.
    pub(crate) cpu_ns: u64,
    /// From the first one's start to the last one's end.
    pub(crate) wall_ns: u64,
}

/// Does the work on so many threads, each told its number.
pub(crate) fn race<R: Send>(threads: usize, work: impl Fn(usize) -> R + Sync) -> Raced<R> {
    let start = Barrier::new(threads);
    let runs = all_at_once(0..threads, |thread| {
        bind(thread);
        start.wait();
        let (started_ns, cpu_ns) = (now_ns(), thread_cpu_ns());
        let result = work(thread);
        (result, thread_cpu_ns() - cpu_ns, started_ns, now_ns())
    });
    let first_ns = runs.iter().map(|run| run.2).min().unwrap_or(0);
    let last_ns = runs.iter().map(|run| run.3).max().unwrap_or(0);
    Raced {
        cpu_ns: runs.iter().map(|run| run.1).sum(),
        wall_ns: (last_ns - first_ns).max(1),
        results: runs.into_iter().map(|run| run.0).collect(),
    }
}

/// Does the work for all of them, each on a thread of its own; what each gave back.
pub(crate) fn all_at_once<T: Send, R: Send>(
    all: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let work = &work;
    scope(|scope| {
        let threads = all.into_iter().map(|one| scope.spawn(move || work(one)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(joined).collect()
    })
}

/// Does the work while another thread does something beside it, which is told when the work is
/// over.
pub(crate) fn beside<B: Send, W>(
    beside: impl FnOnce(&AtomicBool) -> B + Send,
    work: impl FnOnce() -> W,
) -> (B, W) {
    let is_over = AtomicBool::new(false);
    scope(|scope| {
        let thread = scope.spawn(|| beside(&is_over));
        let worked = work();
        // Relaxed: nothing but the flag is passed on.
        is_over.store(true, Ordering::Relaxed);
        (joined(thread), worked)
    })
}

/// What a thread gave back; its panic is everybody's.
fn joined<R>(thread: ScopedJoinHandle<'_, R>) -> R {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Keeps a thread on one processor, where there are enough; a wish, not a condition.
pub(crate) fn bind(thread: usize) {
    if thread < std::thread::available_parallelism().map_or(1, usize::from) {
        let _ = usage::bind(thread);
    }
}

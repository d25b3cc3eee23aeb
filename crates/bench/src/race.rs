//! A race: threads that start together, each on a processor of its own where there are enough.

use std::sync::Barrier;

use cellar_load::clock::{now_ns, thread_cpu_ns};
use cellar_load::error::Error;
use rustix::thread::{CpuSet, sched_setaffinity};

/// What came of it.
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
///
/// # Errors
/// [`Error::Wrong`] if a thread panicked.
pub(crate) fn race<R: Send>(
    threads: usize,
    work: impl Fn(usize) -> R + Sync,
) -> Result<Raced<R>, Error> {
    let start = Barrier::new(threads);
    let run = |thread| {
        bind(thread);
        start.wait();
        let (started_ns, cpu_ns) = (now_ns(), thread_cpu_ns());
        let result = work(thread);
        (result, thread_cpu_ns() - cpu_ns, started_ns, now_ns())
    };
    let runs = std::thread::scope(|scope| {
        let run = &run;
        let spawned: Vec<_> = (0..threads)
            .map(|it| scope.spawn(move || run(it)))
            .collect();
        let joined = spawned.into_iter().map(|thread| thread.join());
        joined.collect::<Result<Vec<_>, _>>()
    });
    let runs = runs.map_err(|_| Error::Wrong("a thread of the measurement panicked".to_owned()))?;
    let first_ns = runs.iter().map(|run| run.2).min().unwrap_or(0);
    let last_ns = runs.iter().map(|run| run.3).max().unwrap_or(0);
    Ok(Raced {
        cpu_ns: runs.iter().map(|run| run.1).sum(),
        wall_ns: (last_ns - first_ns).max(1),
        results: runs.into_iter().map(|run| run.0).collect(),
    })
}

/// Keeps a thread on one processor, where there are enough; a wish, not a condition.
pub(crate) fn bind(thread: usize) {
    if thread < std::thread::available_parallelism().map_or(1, usize::from) {
        let mut cpus = CpuSet::new();
        cpus.set(thread);
        let _ = sched_setaffinity(None, &cpus);
    }
}

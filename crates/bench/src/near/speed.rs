//! How fast hits are.

use std::sync::Arc;

use serde::Serialize;

use super::NearArgs;
use super::subject::{self, CacheName, Subject, VALUE_BYTES, Value};
use crate::race::race;
use crate::spread::Spread;
use cellar_load::clock::seconds;
use cellar_load::error::Error;
use cellar_load::popularity::{Picker, Popularity};
use cellar_load::random::Random;

/// Room over the entries, so that a cache with uneven shards evicts none of them.
const ROOM_OF: u64 = 4;
/// Rounds before those that count.
const WARM_READS: usize = 200_000;

/// Hits of one cache on a number of threads.
#[derive(Debug, Serialize)]
pub(super) struct Speed {
    pub(super) cache: CacheName,
    pub(super) threads: usize,
    /// Thread time of one hit.
    pub(super) hit_ns: Spread,
    /// Hits of all threads by the clock on the wall.
    pub(super) hits_per_s: Spread,
}

/// All caches on all numbers of threads.
pub(super) fn all(args: &NearArgs) -> Result<Vec<Speed>, Error> {
    let keys = usize::try_from(args.entries).unwrap_or(usize::MAX);
    let values: Vec<Arc<Value>> = (0..keys).map(|_| Arc::new([1; VALUE_BYTES])).collect();
    let caches: Vec<(CacheName, Box<dyn Subject<Value>>)> = subject::ALL
        .map(|name| (name, name.build(args.entries + args.entries / ROOM_OF)))
        .into();
    for (_, cache) in &caches {
        for (key, value) in (0..).zip(&values) {
            cache.insert(key, Arc::clone(value));
        }
        cache.settle();
    }
    let mut speeds = Vec::new();
    for &threads in &args.threads {
        let draws: Vec<Vec<u32>> = (0..threads).map(|thread| draw(args, thread)).collect();
        let mut rounds = vec![(Vec::new(), Vec::new()); caches.len()];
        for (_, cache) in &caches {
            measure(&**cache, &draws, WARM_READS)?;
        }
        for _ in 0..args.rounds {
            for ((_, cache), round) in caches.iter().zip(&mut rounds) {
                let (hit_ns, per_s) = measure(&**cache, &draws, usize::MAX)?;
                round.0.push(hit_ns);
                round.1.push(per_s);
            }
        }
        for ((cache, _), (hit_ns, per_s)) in caches.iter().zip(rounds) {
            speeds.push(Speed {
                cache: *cache,
                threads,
                hit_ns: Spread::of(hit_ns),
                hits_per_s: Spread::of(per_s),
            });
        }
    }
    Ok(speeds)
}

/// The keys that a thread asks for.
fn draw(args: &NearArgs, thread: usize) -> Vec<u32> {
    let picker = Picker::new(Popularity::Zipf(args.zipf), args.entries);
    let mut random = Random::seeded(thread as u64 + 1);
    (0..args.operations)
        .map(|_| picker.pick(&mut random) as u32)
        .collect()
}

/// Nanoseconds of thread time for a hit, and hits per second, with up to `most` reads a thread.
fn measure(
    cache: &dyn Subject<Value>,
    draws: &[Vec<u32>],
    most: usize,
) -> Result<(f64, f64), Error> {
    let keys: Vec<&[u32]> = draws.iter().map(|it| &it[..it.len().min(most)]).collect();
    let work = |thread: usize| cache.reads(keys[thread], |value| value[0] == 1);
    let raced = race(keys.len(), work)?;
    let hits: u64 = raced.results.iter().sum();
    let reads: usize = keys.iter().map(|keys| keys.len()).sum();
    if hits != reads as u64 {
        return Err(Error::Wrong(format!("{hits} of {reads} reads were hits")));
    }
    let hits = hits as f64;
    Ok((
        raced.cpu_ns as f64 / hits.max(1.0),
        hits / seconds(raced.wall_ns),
    ))
}

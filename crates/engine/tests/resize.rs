//! Resize: less and more memory while a cache runs.

use cellar_engine::{Cache, Config, Error};

use crate::support::cache::Timed;

const MEMORY_BYTES: usize = 16 << 20;
const VALUE: [u8; 900] = [7; 900];

fn filled(shards: usize, seed: u64) -> Timed {
    let timed = Timed::with(Config {
        shards: Some(shards),
        seed: Some(seed),
        ..Config::with_memory(MEMORY_BYTES)
    });
    store(&timed, 0..40_000);
    timed
}

fn store(timed: &Timed, numbers: std::ops::Range<u32>) {
    for number in numbers {
        timed.set(&format!("key{number}"), &VALUE, None).unwrap();
    }
}

/// Bytes of memory in use.
fn used(timed: &Timed) -> u64 {
    let stats = timed.cache.stats();
    stats.live_bytes + stats.dead_bytes + stats.free_bytes + stats.index_bytes
}

/// Steps until nothing is left to do; each evicts little.
fn settle(timed: &Timed) -> usize {
    let segment_items = timed.cache.stats().segment_bytes / VALUE.len() as u64 + 1;
    let mut evicted = timed.cache.stats().evicted;
    for steps in 0..10_000 {
        let is_more = timed.cache.tick();
        let stats = timed.cache.stats();
        assert!(
            stats.evicted - evicted <= 8 * segment_items,
            "one step is a stall"
        );
        evicted = stats.evicted;
        timed.clock.advance_ms(2);
        if !is_more {
            return steps;
        }
    }
    panic!("maintenance does not come to rest");
}

#[test]
fn a_cache_shrinks_in_steps_and_grows_again() {
    for (shards, seed) in [
        (1, 0),
        (4, 0),
        (4, 1),
        (4, 2),
        (4, 3),
        (4, 4),
        (4, 5),
        (4, 6),
    ] {
        let timed = filled(shards, seed);
        let segments = timed.cache.stats().segments;
        let full = used(&timed);
        assert!(full > 13 << 20, "{full}");
        timed.cache.set_memory_bytes(MEMORY_BYTES / 2).unwrap();
        assert_eq!(timed.cache.stats().memory_bytes, 8 << 20);
        assert!(settle(&timed) >= 4);
        let half = used(&timed);
        assert!(half <= 8 << 20, "{half}");
        let left = timed.cache.stats().segments;
        assert!(left * 10 < segments * 6, "{left} of {segments} segments");
        timed.cache.audit().unwrap();
        // The bound holds while it is written to.
        store(&timed, 40_000..80_000);
        assert!(used(&timed) <= 8 << 20);
        timed.cache.audit().unwrap();
        timed.cache.set_memory_bytes(MEMORY_BYTES).unwrap();
        settle(&timed);
        store(&timed, 80_000..120_000);
        assert!(used(&timed) > 13 << 20);
        timed.cache.audit().unwrap();
    }
}

#[test]
fn it_shrinks_while_it_is_written_to() {
    let timed = filled(4, 0);
    timed.cache.set_memory_bytes(MEMORY_BYTES / 4).unwrap();
    for round in 0..4_000_u32 {
        store(&timed, 40_000 + 10 * round..40_010 + 10 * round);
        timed.cache.tick();
        timed.clock.advance_ms(1);
    }
    assert!(used(&timed) <= 4 << 20, "{}", used(&timed));
    timed.cache.audit().unwrap();
    assert!(timed.cache.stats().items > 2_000);
}

#[test]
fn an_empty_cache_is_smaller_at_once_and_limits_are_told() {
    let timed = Timed::with(Config {
        shards: Some(2),
        ..Config::with_memory(MEMORY_BYTES)
    });
    let cache = &timed.cache;
    assert_eq!(cache.memory_bytes(), MEMORY_BYTES);
    let min = MEMORY_BYTES / 4;
    assert_eq!(Cache::least_memory_bytes(MEMORY_BYTES), min);
    assert_eq!(
        cache.set_memory_bytes(min - 1),
        Err(Error::MemoryTooSmall {
            bytes: min - 1,
            min
        })
    );
    let max = MEMORY_BYTES;
    assert_eq!(
        cache.set_memory_bytes(max + 1),
        Err(Error::TooLarge {
            bytes: max + 1,
            max
        })
    );
    cache.set_memory_bytes(min).unwrap();
    settle(&timed);
    store(&timed, 0..20_000);
    assert!(used(&timed) <= min as u64);
    assert!(cache.value_bytes_max() <= min / 2);
}

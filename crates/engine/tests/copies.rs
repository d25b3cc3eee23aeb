//! What a single insert costs at most: it never copies more than one segment's bytes, however the
//! cache is used. The counters are read after every insert.

use cellar_engine::{Config, DeleteOptions};

use crate::support::cache::Timed;
use crate::support::random::Random;

const MEMORY_BYTES: usize = 4 << 20;
const SECOND: u64 = 1_000;
/// Reads of recent keys between two inserts: most items are worth keeping when their time comes.
const READS: u64 = 4;
/// Items are stored this many times the memory they fit into.
const ROUNDS: u64 = 8;

/// What is stored.
struct Mix {
    shards: usize,
    value_bytes_max: u64,
    ttl_ms: fn(&mut Random) -> Option<u64>,
    /// Of 100 inserts, those over an item that may be there, with another length.
    overwrites_percent: u64,
    /// Of 100 inserts, those followed by a delete.
    deletes_percent: u64,
}

/// Runs a mix and looks at every single insert.
fn check(mix: &Mix) {
    let timed = Timed::with(Config {
        shards: Some(mix.shards),
        seed: Some(3),
        ..Config::with_memory(MEMORY_BYTES)
    });
    let segment_bytes = timed.cache.stats().segment_bytes;
    let mut random = Random::from_seed(7);
    let inserts = ROUNDS * MEMORY_BYTES as u64 / (30 + mix.value_bytes_max / 2);
    let recent = inserts / ROUNDS / 2;
    let value = vec![b'v'; mix.value_bytes_max as usize];
    let (mut next, mut before, mut most) = (0, 0, 0);
    for number in 0..inserts {
        let recent_key = |random: &mut Random| {
            let back = 1 + random.below(recent);
            format!("key{:08}", next.max(back) - back)
        };
        for _ in 0..READS {
            timed.get(&recent_key(&mut random));
        }
        let is_overwrite = random.below(100) < mix.overwrites_percent;
        let key = if is_overwrite {
            recent_key(&mut random)
        } else {
            format!("key{next:08}")
        };
        let deleted = (random.below(100) < mix.deletes_percent).then(|| recent_key(&mut random));
        next += u64::from(!is_overwrite);
        let bytes = 10 + random.below(mix.value_bytes_max - 10) as usize;
        let ttl_ms = (mix.ttl_ms)(&mut random);
        // Reads may reclaim as well; what they copy does not count here.
        before = timed.cache.stats().copied_bytes.max(before);
        timed.set(&key, &value[..bytes], ttl_ms).unwrap();
        let after = timed.cache.stats().copied_bytes;
        most = most.max(after - before);
        assert!(
            after - before <= segment_bytes,
            "insert {number} copied {} bytes, more than a segment of {segment_bytes}",
            after - before
        );
        before = after;
        if let Some(key) = deleted {
            let key = timed.cache.key(key.as_bytes()).unwrap();
            let _ = timed.cache.delete(key, &DeleteOptions::default());
        }
        timed.clock.advance_ms(random.below(3));
    }
    let stats = timed.cache.stats();
    eprintln!("at most {most} of {segment_bytes} bytes in one insert: {stats:?}");
    assert!(
        stats.evicted > 0 && most > 0,
        "nothing was copied: {stats:?}"
    );
}

fn forever(_: &mut Random) -> Option<u64> {
    None
}

/// From a tenth of a second to a day, in every order.
fn all_ttls(random: &mut Random) -> Option<u64> {
    let number = random.below(40) as i32;
    Some((SECOND as f64 / 10.0 * 1.41_f64.powi(number)) as u64)
}

#[test]
fn an_insert_copies_at_most_a_segment_when_most_items_are_read() {
    check(&Mix {
        shards: 1,
        value_bytes_max: 400,
        ttl_ms: forever,
        overwrites_percent: 0,
        deletes_percent: 0,
    });
}

#[test]
fn an_insert_copies_at_most_a_segment_with_overwrites_deletes_and_forty_ttls() {
    check(&Mix {
        shards: 1,
        value_bytes_max: 600,
        ttl_ms: all_ttls,
        overwrites_percent: 50,
        deletes_percent: 20,
    });
}

#[test]
fn an_insert_copies_at_most_a_segment_with_large_values() {
    check(&Mix {
        shards: 1,
        value_bytes_max: 12_000,
        ttl_ms: all_ttls,
        overwrites_percent: 30,
        deletes_percent: 10,
    });
}

#[test]
fn an_insert_copies_at_most_a_segment_on_four_shards() {
    check(&Mix {
        shards: 4,
        value_bytes_max: 3_000,
        ttl_ms: all_ttls,
        overwrites_percent: 30,
        deletes_percent: 10,
    });
}

//! Tests: each policy on traces short enough to follow by hand.

use super::super::trace::{Keys, Row, Trace};
use super::{Baseline, Tally, simulate};

const VALUE_BYTES: u32 = 9;
/// A key of one byte and its value.
const ITEM_BYTES: u64 = 10;

/// One request for each word: a key of one letter, `=` before it for a set, `/n` behind it for a
/// TTL of n seconds; a number alone moves the clock to that second.
fn trace(words: &str) -> Trace {
    let mut keys = Keys::default();
    let (mut rows, mut at_ms) = (Vec::new(), 0);
    for word in words.split(' ') {
        if let Ok(second) = word.parse::<u64>() {
            at_ms = second * 1000;
            continue;
        }
        let (key, ttl_s) = word.split_once('/').unwrap_or((word, "0"));
        let (key, is_set) = match key.strip_prefix('=') {
            Some(key) => (key, true),
            None => (key, false),
        };
        let key = keys.number(key.as_bytes()).unwrap();
        let ttl_ms = ttl_s.parse::<u64>().unwrap() * 1000;
        rows.push(Row::new(at_ms, is_set, key, VALUE_BYTES, ttl_ms));
    }
    Trace {
        name: "test".to_owned(),
        keys,
        rows,
    }
}

/// Hits and misses with room for `items`.
fn check(baseline: Baseline, items: u64, words: &str, hits: u64, misses: u64) {
    let tally = simulate(baseline, &trace(words), items * ITEM_BYTES, 0);
    assert_eq!(tally, Tally { hits, misses }, "{baseline:?}: {words}");
}

#[test]
fn lru_evicts_what_was_not_used_for_the_longest_time() {
    check(Baseline::Lru, 2, "a b a c a b", 2, 4);
    check(Baseline::Lru, 2, "a b =a c a", 1, 3);
}

#[test]
fn fifo_evicts_what_was_stored_first() {
    check(Baseline::Fifo, 2, "a b a c a b", 1, 5);
    check(Baseline::Fifo, 2, "a b =a c a", 0, 4);
}

#[test]
fn belady_evicts_what_is_read_again_last() {
    // c pushes b out, which is read after a; c itself is never read again and makes room.
    check(Baseline::Belady, 2, "a b c a b", 2, 3);
    check(Baseline::Belady, 1, "a b a b a", 2, 3);
    // b is overwritten before it is read, so it is the one to lose.
    check(Baseline::Belady, 2, "a b c =b a c", 2, 3);
}

#[test]
fn s3fifo_keeps_what_was_used_twice_and_lets_a_scan_pass() {
    // Room for ten: one in the small queue. a is read twice and moves on; the scan spares it.
    let scan = "b c d e f g h i j k l m n o p";
    check(Baseline::S3Fifo, 10, &format!("a a a {scan} a"), 3, 16);
    check(Baseline::Lru, 10, &format!("a a a {scan} a"), 2, 17);
}

#[test]
fn s3fifo_takes_a_ghost_into_the_main_queue() {
    // a is not used and leaves as a ghost when k comes; returning, it outlives the scan.
    let words = "a b c d e f g h i j k a l m n o p q r s t a";
    check(Baseline::S3Fifo, 10, words, 1, 21);
}

#[test]
fn an_expired_item_is_a_miss_from_its_deadline_on() {
    for baseline in [
        Baseline::Lru,
        Baseline::Fifo,
        Baseline::S3Fifo,
        Baseline::Belady,
    ] {
        check(baseline, 4, "a/5 4 a/5", 1, 1);
        check(baseline, 4, "a/5 5 a/5 9 a/5", 1, 2);
        check(baseline, 4, "=a/5 5 a", 0, 1);
    }
}

#[test]
fn belady_does_not_keep_what_expires_before_it_is_read() {
    check(Baseline::Belady, 2, "a/1 b c 5 a b", 1, 4);
    check(Baseline::Belady, 2, "a b c 5 a b", 2, 3);
    check(Baseline::Belady, 2, "a/1 b c 5 b c", 2, 3);
}

#[test]
fn the_dead_hold_memory_until_they_are_met_or_evicted() {
    // a is dead but the oldest: it is what leaves for c. Met, it is stored again as the newest.
    check(Baseline::Lru, 2, "a/1 b 5 c b", 1, 3);
    check(Baseline::Lru, 2, "b a/1 5 c b", 0, 4);
}

#[test]
fn an_item_larger_than_the_memory_is_not_stored_and_ends_the_older_one() {
    let mut trace = trace("a b =a a b");
    trace.rows[2] = Row::new(0, true, trace.rows[2].key, 1_000, 0);
    for baseline in [
        Baseline::Lru,
        Baseline::Fifo,
        Baseline::S3Fifo,
        Baseline::Belady,
    ] {
        let tally = simulate(baseline, &trace, 2 * ITEM_BYTES, 0);
        assert_eq!(tally, Tally { hits: 1, misses: 3 }, "{baseline:?}");
    }
}

#[test]
fn overhead_is_paid_for_every_item() {
    let trace = trace("a b c a b c");
    let simulate = |overhead| simulate(Baseline::Lru, &trace, 3 * ITEM_BYTES, overhead);
    assert_eq!(simulate(0), Tally { hits: 3, misses: 3 });
    assert_eq!(simulate(1), Tally { hits: 0, misses: 6 });
}

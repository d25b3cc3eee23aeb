#!/usr/bin/env bash
# moka 0.12.16 (Rust), a cache with a time to live for each entry (Expiry) and max_capacity.
# One would guess that expired entries make space for new ones, since no read returns them.
# A timer wheel with a step of 1.07 s removes them. Until its next step they count as entries, and admission, which
# has no statistics of the new keys, prefers the expired ones. 100 entries expired 0.1 s ago and 100 others were
# inserted: after run_pending_tasks none of the new ones is there, though no live entry was in their way. With
# time_to_live for the whole cache all 100 stay, and so they do with Expiry if the old ones expired 2.3 s ago.
# For somebody who runs a cache: with many TTLs below a second a full cache misses the values that were just stored.
# Give it capacity to spare.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
trap 'cd /; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v cargo >/dev/null || skip "there is no cargo"
mkdir -p "$T/src"; cd "$T" || exit 77
cat > Cargo.toml <<'C'
[package]
name = "finding"
version = "0.1.0"
edition = "2021"
[dependencies]
moka = { version = "=0.12.16", features = ["sync"] }
[workspace]
C
cat > src/main.rs <<'C'
use std::{thread, time::{Duration, Instant}};
struct Own;
impl moka::Expiry<u32, Option<Duration>> for Own {
    fn expire_after_create(&self, _: &u32, life: &Option<Duration>, _: Instant) -> Option<Duration> { *life }
}
const SHORT: Duration = Duration::from_millis(200);
fn full(cache: &moka::sync::Cache<u32, Option<Duration>>, wait_ms: u64) -> usize {
    (0..100).for_each(|key| cache.insert(key, Some(SHORT)));
    cache.run_pending_tasks();
    thread::sleep(Duration::from_millis(wait_ms));
    cache.run_pending_tasks();
    assert!((0..100).all(|key| !cache.contains_key(&key)), "the old ones have ended");
    (1000..1100).for_each(|key| cache.insert(key, None));
    cache.run_pending_tasks();
    (1000..1100).filter(|key| cache.contains_key(key)).count()
}
fn main() {
    let own = || moka::sync::Cache::builder().max_capacity(100).expire_after(Own).build();
    let all = moka::sync::Cache::builder().max_capacity(100).time_to_live(SHORT).build();
    println!("of 100 new: {} if 100 ended 0.1 s ago, {} if 2.3 s ago, {} with one time for all",
        full(&own(), 300), full(&own(), 2500), full(&all, 300));
}
C
cargo build -q 2>"$T/err" || cargo build -q --offline 2>"$T/err" || skip "moka is not compiled: $(head -1 "$T/err")"
OUT=$(./target/debug/finding 2>"$T/err") || skip "it ends with $(head -1 "$T/err")"
echo "moka 0.12.16: $OUT"
case $OUT in
    "of 100 new: 0 if 100 ended 0.1 s ago, 100 if 2.3 s ago, 100 with one time for all") exit 0 ;;
    *) exit 1 ;;
esac

#!/bin/sh
# Runs every measurement; figures and tables of the day go to bench/results, pages about the engine
# and the service over HTTP to docs/benchmarks.
# With --quick it only shows that each works, and keeps no results.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --package cellar --package cellar-bench
target=${CARGO_TARGET_DIR:-target}/release
bench=$target/cellar-bench
memcached=memcached
command -v memcached >/dev/null || memcached=off

if [ "${1-}" = --quick ]; then
    "$bench" engine --quick
    "$bench" compare --quick --cellar "$target/cellar" --memcached "$memcached"
    "$bench" ycsb --quick --cellar "$target/cellar" --memcached "$memcached"
    bench/service.sh --quick
    exec bench/engine.sh --quick
fi

day=$(date -u +%F)
results=bench/results
mkdir -p "$results"
"$bench" engine --json "$results/engine-$day.json" > "$results/engine-$day.md"
"$bench" compare --cellar "$target/cellar" --memcached "$memcached" \
    --json "$results/compare-$day.json" > "$results/compare-$day.md"
"$bench" ycsb --cellar "$target/cellar" --memcached "$memcached" \
    --json "$results/ycsb-$day.json" > "$results/ycsb-$day.md"
bench/service.sh
bench/engine.sh
cat "$results/engine-$day.md" "$results/compare-$day.md" "$results/ycsb-$day.md"

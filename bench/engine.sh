#!/bin/sh
# Measures what the engine promises: pages with tables and plots go to docs/benchmarks, figures of
# the day to bench/results.
#
# PART="expiry growth" runs these parts alone. QUICK=1, or --quick, shows that each part works and
# keeps nothing. TRACES is the folder of the traces, ../shared/traces unless it is set.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --package cellar --package cellar-bench
target=${CARGO_TARGET_DIR:-target}/release
bench=$target/cellar-bench

all="eviction dead contest expiry growth memory near s1"
parts=${PART:-$all}
traces=${TRACES:-../shared/traces}
quick=${QUICK:-}
case " $* " in *" --quick "*) quick=1 ;; esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM
pages=docs/benchmarks
results=bench/results
if [ -n "$quick" ]; then
    pages=$scratch
    results=$scratch
fi
mkdir -p "$pages" "$results"
day=$(date -u +%F)

# Where a program is, or off.
program() {
    if command -v "$1" >/dev/null; then
        echo "$1"
    else
        echo "$1 is not installed, so it is left out" >&2
        echo off
    fi
}

real_traces() {
    find "$traces" -maxdepth 1 -name '*.csv*' 2>/dev/null | sort
}

# The goals of a page, for a part that prints nothing itself.
goals() {
    sed -n '/^| goal /,/^$/p' "$1"
}

# Misses against LRU on real traces, at shares of their footprint.
eviction() {
    files=$(real_traces)
    if [ -z "$files" ]; then
        echo "no traces in $traces, so this part is left out" >&2
        return
    fi
    # shellcheck disable=SC2086 # one word for each file
    "$bench" replay $files --sizes 1%,5%,10%,25% \
        --baseline lru,fifo,s3fifo,belady --title "Misses on real traces" \
        --page "$pages/eviction.md" --json="$results/eviction-$day.json"
    goals "$pages/eviction.md"
}

# Dead memory when live items leave, on traces with sizes and TTLs as Twitter's clusters had them.
dead() {
    generator=$traces/twitter_like.py
    if [ ! -e "$generator" ]; then
        echo "no $generator, so this part is left out" >&2
        return
    fi
    requests=1000000 sizes=16MiB,64MiB,256MiB,1GiB
    if [ -n "$quick" ]; then
        requests=50000 sizes=16MiB
    fi
    set --
    for pair in "11 19" "22 25" "29 52"; do
        echo "drawing $requests requests of each of the clusters $pair" >&2
        pids=
        for cluster in $pair; do
            file=$scratch/cluster-$cluster.csv
            python3 "$generator" "$cluster" "$requests" 300000 24 > "$file" &
            pids="$pids $!"
            set -- "$@" "$file"
        done
        for pid in $pids; do
            wait "$pid"
        done
    done
    "$bench" replay "$@" --sizes "$sizes" --stretch 10% --resize-overwrites 0.5 \
        --title "Dead memory when live items leave" \
        --page "$pages/dead.md" --json="$results/dead-$day.json"
    goals "$pages/dead.md"
}

# Misses in the same resident memory as memcached's and redis-server's.
contest() {
    files=$(real_traces)
    if [ -z "$files" ]; then
        echo "no traces in $traces, so this part is left out" >&2
        return
    fi
    # shellcheck disable=SC2086 # one word for each file
    "$bench" contest $files --rss 32MiB,64MiB --footprint 256MiB --requests 1000000 \
        ${quick:+--quick} \
        --cellar "$target/cellar" --memcached "$(program memcached)" \
        --redis "$(program redis-server)" \
        --page "$pages/contest.md" --json="$results/contest-$day.json"
    sed -n '/^| trace | limit | cellar/,/^$/p' "$pages/contest.md"
}

# One million items that expire in the same second, against redis-server.
expiry() {
    "$bench" expiry ${quick:+--quick} --cellar "$target/cellar" \
        --redis "$(program redis-server)" \
        --page "$pages/expiry.md" --json "$results/expiry-$day.json"
}

# Inserts into a cache that grows to 20 million items.
growth() {
    "$bench" growth ${quick:+--quick} \
        --page "$pages/growth.md" --json "$results/growth-$day.json"
}

# Resident memory beside --memory in seven scenarios.
memory() {
    "$bench" memory ${quick:+--quick} --cellar "$target/cellar" --memory-mib 256 \
        --memcached "$(program memcached)" --redis "$(program redis-server)" \
        --page "$pages/memory.md" --json "$results/memory-$day.json"
}

# An ad service that reads Redis through better and better caches in its own process.
s1() {
    if ! command -v redis-server >/dev/null; then
        echo "redis-server is not installed, so this part is left out" >&2
        return
    fi
    "$bench" reproduce s1 ${quick:+--quick} --cellar "$target/cellar" \
        --page "$pages/s1.md" --json "$results/s1-$day.json"
}

# The near cache's local store beside quick_cache, moka and LRU, in one process.
near() {
    # shellcheck disable=SC2046 # one word for each file
    "$bench" near ${quick:+--quick} $(real_traces) \
        --page "$pages/near.md" --json "$results/near-$day.json"
}

sentence() {
    case $1 in
        s1) echo "What a near cache brings a service that reads Redis, and who serves stale values." ;;
        eviction) echo "How often Cellar misses, compared with LRU and others in the same bytes." ;;
        dead) echo "How much of the memory is dead when live items have to leave." ;;
        contest) echo "Who misses least in the same resident memory: Cellar, memcached, Redis?" ;;
        expiry) echo "Who holds memory for items whose time is over, and who notices?" ;;
        growth) echo "What growing from empty costs the inserts." ;;
        near) echo "The near cache's local store beside quick_cache, moka and LRU." ;;
        memory) echo "What servers occupy beside the memory they were given." ;;
        service) echo "How long requests take in a cache service over HTTP, against BigCache." ;;
    esac
}

# Lists the pages that exist.
index() {
    {
        printf '# Benchmarks\n\n'
        printf 'What Cellar promises, measured: each page names its command, commit, machine '
        printf 'and date.\n`make bench-engine` writes all of them anew but the last, '
        printf '`make bench-service` that one.\n\n'
        for part in $all service; do
            if [ -e "$pages/$part.md" ]; then
                echo "- [$part]($part.md): $(sentence "$part")"
            fi
        done
    } > "$pages/README.md"
}

number=0
count=$(echo "$parts" | wc -w)
for part in $parts; do
    number=$((number + 1))
    case " $all " in
        *" $part "*) ;;
        *)
            echo "PART=$part: parts are $all" >&2
            exit 2
            ;;
    esac
    printf '== %s of %s: %s\n' "$number" "$count" "$part" >&2
    "$part"
done
index

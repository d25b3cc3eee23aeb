#!/bin/sh
# Builds and runs `cellar-bench compare`: Cellar over its three protocols, memcached, redis-server and
# the echo floors under the same load.
# Arguments go to it: --quick shows in half a minute that it works, and keeps no results.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --package cellar --package cellar-bench
target=${CARGO_TARGET_DIR:-target}/release

set -- --cellar "$target/cellar" "$@"
if ! command -v memcached >/dev/null; then
    echo "memcached is not installed, so the comparison goes without it" >&2
    set -- --memcached off "$@"
fi
if ! command -v redis-server >/dev/null; then
    echo "redis-server is not installed, so the comparison goes without RESP" >&2
    set -- --redis off "$@"
fi
case " $* " in
    *" --quick "* | *" --json "*) ;;
    *) set -- --json "bench/results/compare-$(date -u +%F).json" "$@" ;;
esac
exec "$target/cellar-bench" compare "$@"

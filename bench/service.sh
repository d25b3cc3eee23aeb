#!/bin/sh
# Measures a cache service over HTTP: Cellar, and BigCache behind net/http and fasthttp where go is
# installed. The page goes to docs/benchmarks, figures of the day to bench/results.
# Arguments go to `cellar-bench service`: --quick shows that it works and keeps nothing, and
# `--seconds 2100 --prefill 0` is the load of 35 minutes.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --package cellar --package cellar-bench
mkdir -p "${CARGO_TARGET_DIR:-target}/release"
target=$(cd "${CARGO_TARGET_DIR:-target}/release" && pwd)

bigcache=$target/bigcache-service
if ! command -v go >/dev/null; then
    echo "go is not installed, so BigCache is left out" >&2
    bigcache=off
elif ! (cd bench/peers/bigcache && go build -trimpath -o "$bigcache" .); then
    echo "the service on BigCache cannot be built, so it is left out" >&2
    bigcache=off
fi

set -- --cellar "$target/cellar" --bigcache "$bigcache" "$@"
case " $* " in
    *" --quick "*) ;;
    *)
        mkdir -p docs/benchmarks bench/results
        set -- --page docs/benchmarks/service.md \
            --json "bench/results/service-$(date -u +%F).json" "$@"
        ;;
esac
exec "$target/cellar-bench" service "$@"

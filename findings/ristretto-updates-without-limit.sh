#!/usr/bin/env bash
# ristretto 2.4.2 (Go, github.com/dgraph-io/ristretto/v2).
# One would guess that MaxCost bounds the cost of what the cache holds, whatever the order of its writes, except for
# the few that are still in progress.
# It is checked only for new keys. An update of an existing key changes its cost and evicts nothing: 10 entries of
# cost 10 in a cache of 100 are updated to 1,000 each, all 10 stay, and the cache holds 10,000 for as long as only
# known keys are written. A single value of cost 1,000 that is refused for a new key is accepted for an existing one.
# The next new key, of cost 1, then evicts 10 entries.
# For somebody who runs a cache: a fixed set of keys whose values grow (lists, sessions, aggregates) takes any amount
# of memory, and a metric of evictions shows 0. Delete a key before an update that makes it larger, and watch
# CostAdded less CostEvicted.
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

require github.com/dgraph-io/ristretto/v2 v2.4.2
M
cat > main.go <<'G'
package main

import (
	"fmt"

	"github.com/dgraph-io/ristretto/v2"
)

func main() {
	cache, err := ristretto.NewCache(&ristretto.Config[int, int]{
		NumCounters: 1000, MaxCost: 100, BufferItems: 64, IgnoreInternalCost: true, Metrics: true,
	})
	if err != nil {
		panic(err)
	}
	show := func(when string) {
		cache.Wait()
		held := 0
		for key := range 10 {
			if _, found := cache.Get(key); found {
				held++
			}
		}
		_, fresh := cache.Get(99)
		cost := cache.Metrics.CostAdded() - cache.Metrics.CostEvicted()
		fmt.Printf("%s: %d of 10 entries, key 99 %v, cost %d of 100\n", when, held, fresh, cost)
	}
	put := func(cost int64) {
		for key := range 10 {
			cache.Set(key, key, cost)
		}
	}
	put(10)
	cache.Set(99, 99, 1000)
	show("10 entries of cost 10, then a new one of 1000")
	put(1000)
	show("all 10 updated to cost 1000 each")
	cache.Set(98, 98, 1)
	show("then a new one of cost 1")
}
G
GOFLAGS=-mod=mod go build -o finding . 2>err || skip "go: $(tail -1 err)"
OUT=$(timeout 120 ./finding 2>err) || skip "it ends with $(tail -1 err)"
echo "ristretto 2.4.2"
echo "$OUT"
[ "$OUT" = "10 entries of cost 10, then a new one of 1000: 10 of 10 entries, key 99 false, cost 100 of 100
all 10 updated to cost 1000 each: 10 of 10 entries, key 99 false, cost 10000 of 100
then a new one of cost 1: 0 of 10 entries, key 99 false, cost 1 of 100" ] && exit 0
exit 1

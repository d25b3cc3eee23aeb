#!/usr/bin/env bash
# otter 2.4.0 (Go, github.com/maypok86/otter/v2), an ExpiryCalculator with a TTL for each entry.
# One would guess that a TTL of zero, or below, ends at once: the manual asks for an excessively long duration for
# entries without expiration, and Caffeine, whose interface it has, drops such an entry.
# A duration of zero or less leaves the deadline as it is, and a new entry has none: it stays until it is evicted. An
# update keeps the deadline of the value before it, and SetExpiresAfter does nothing and returns nothing. 1 ns works.
# For somebody who runs a cache: the TTL is often what is left of a deadline (a token, a header of the source). What
# arrives a moment too late is then the only data that never expire, and a hit for every reader. The number of entries
# looks as usual. Return at least 1 ns, or do not store such a value.
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

require github.com/maypok86/otter/v2 v2.4.0
M
cat > main.go <<'G'
package main

import (
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
)

type value struct {
	text string
	ttl  time.Duration
}

func main() {
	cache := otter.Must(&otter.Options[string, value]{
		MaximumSize: 100,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(entry otter.Entry[string, value]) time.Duration {
			return entry.Value.ttl
		}),
	})
	late := time.Now()
	time.Sleep(time.Millisecond)
	cache.Set("one nanosecond", value{"v", 1})
	cache.Set("zero", value{"v", 0})
	cache.Set("too late", value{"v", time.Until(late)})
	cache.Set("updated", value{"old", time.Hour})
	cache.Set("updated", value{"new", 0})
	cache.Set("shortened", value{"v", time.Hour})
	cache.SetExpiresAfter("shortened", time.Until(late))
	time.Sleep(3 * time.Second)
	cache.CleanUp()
	for _, key := range []string{"one nanosecond", "zero", "too late", "updated", "shortened"} {
		entry, found := cache.GetEntry(key)
		switch {
		case !found:
			fmt.Printf("%s: not there\n", key)
		case entry.ExpiresAfter() > 24*time.Hour:
			fmt.Printf("%s: %s, without a deadline\n", key, entry.Value.text)
		default:
			fmt.Printf("%s: %s, expires in %v\n", key, entry.Value.text, entry.ExpiresAfter().Round(time.Hour))
		}
	}
}
G
GOFLAGS=-mod=mod go build -o finding . 2>err || skip "go: $(tail -1 err)"
OUT=$(timeout 120 ./finding 2>err) || skip "it ends with $(tail -1 err)"
echo "otter 2.4.0"
echo "$OUT"
[ "$OUT" = "one nanosecond: not there
zero: v, without a deadline
too late: v, without a deadline
updated: new, expires in 1h0m0s
shortened: v, expires in 1h0m0s" ] && exit 0
exit 1

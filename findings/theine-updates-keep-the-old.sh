#!/usr/bin/env bash
# theine-go 0.6.3 (Go, github.com/Yiling-J/theine-go).
# One would guess that after Set the key has the new value or none, and that Set, which takes no TTL, stores a value
# without one.
# A value whose cost is above the maximum is refused (Set returns false), and the value before it stays and is returned,
# though the caller has just replaced it. Set of a key that SetWithTTL has written keeps that deadline: a value that is
# stored for ever is gone when the TTL of the one before it ends. For a new key both do as one would guess.
# For somebody who runs a cache: a list that grows above the limit is served as it was before, without a sign in the
# metrics, until its TTL ends or for ever. Call Delete where Set returns false, and before Set of a key with a TTL.
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
	"fmt"
	"time"

	theine "github.com/Yiling-J/theine-go"
)

func main() {
	cache, err := theine.NewBuilder[string, string](100).Build()
	if err != nil {
		panic(err)
	}
	show := func(when, key string) {
		cache.Wait()
		value, found := cache.Get(key)
		fmt.Printf("%s: %q, found %v\n", when, value, found)
	}
	cache.Set("list", "short", 5)
	stored := cache.Set("list", "long", 1000)
	show(fmt.Sprintf("update of cost 1000 of 100, Set %v", stored), "list")
	cache.SetWithTTL("timed", "timed", 1, time.Second)
	cache.Set("timed", "untimed", 1)
	cache.Set("new", "untimed", 1)
	show("Set over a TTL of 1 s", "timed")
	time.Sleep(3 * time.Second)
	show("3 s later", "timed")
	show("and a key that had none", "new")
}
G
GOFLAGS=-mod=mod go build -o finding . 2>err || skip "go: $(tail -1 err)"
OUT=$(timeout 120 ./finding 2>err) || skip "it ends with $(tail -1 err)"
echo "theine-go 0.6.3"
echo "$OUT"
[ "$OUT" = 'update of cost 1000 of 100, Set false: "short", found true
Set over a TTL of 1 s: "untimed", found true
3 s later: "", found false
and a key that had none: "untimed", found true' ] && exit 0
exit 1

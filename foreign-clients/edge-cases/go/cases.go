package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// never is the TTL of a value without a deadline.
const never = time.Duration(1<<63 - 1)

// loader makes a value; it may look at the context of the call that started it.
type loader func(context.Context) (string, error)

// cache is what the cases need of a library.
type cache interface {
	get(key int) (string, bool)
	set(key int, value string, ttl time.Duration)
	remove(key int)
	// settle returns when the library has done its maintenance.
	settle()
}

type loading interface {
	load(ctx context.Context, key int, load loader) (string, error)
}

type clearing interface{ clear() }

// limits are the settings of one cache. The weight of a value is its length.
type limits struct {
	entries, weight int
	// ttl is that of all entries, for a library in which entries have none of their own.
	ttl time.Duration
}

type library struct {
	name     string
	open     func(limits) cache
	ownTTLs  bool
	weighted bool
}

type result struct {
	value string
	err   error
}

func (r result) String() string {
	if r.err != nil {
		return "error: " + r.err.Error()
	}
	return r.value
}

func stored(c cache, key int) string {
	c.settle()
	if value, found := c.get(key); found {
		return value
	}
	return "nothing"
}

// duringLoad calls change while a load of key 1 runs, and tells what stays.
func duringLoad(c cache, change func()) string {
	started, release := make(chan struct{}), make(chan struct{})
	callers := make(chan result, 1)
	var count atomic.Int32
	go func() {
		value, err := c.(loading).load(context.Background(), 1, func(context.Context) (string, error) {
			if count.Add(1) > 1 {
				return "loaded anew", nil
			}
			close(started)
			<-release
			return "loaded", nil
		})
		callers <- result{value, err}
	}()
	<-started
	changed := make(chan struct{})
	go func() { change(); close(changed) }()
	waits := ""
	select {
	case <-changed:
	case <-time.After(500 * time.Millisecond):
		waits = "the change waits for the loader; "
	}
	close(release)
	caller := <-callers
	<-changed
	return fmt.Sprintf("%sstays: %s; the loader's caller gets: %s", waits, stored(c, 1), caller)
}

func writeDuringLoad(l library) string {
	c := l.open(limits{entries: 100, ttl: time.Hour})
	if _, loads := c.(loading); !loads {
		return "no loader"
	}
	return duringLoad(c, func() { c.set(1, "written", never) })
}

func removeDuringLoad(l library) string {
	c := l.open(limits{entries: 100, ttl: time.Hour})
	if _, loads := c.(loading); !loads {
		return "no loader"
	}
	return duringLoad(c, func() { c.remove(1) })
}

func clearDuringLoad(l library) string {
	c := l.open(limits{entries: 100, ttl: time.Hour})
	if _, loads := c.(loading); !loads {
		return "no loader"
	}
	all, clears := c.(clearing)
	if !clears {
		return "no clear"
	}
	return duringLoad(c, all.clear)
}

func untimedOverTimed(l library) string {
	if !l.ownTTLs {
		return "one TTL for all"
	}
	c := l.open(limits{entries: 100, ttl: time.Hour})
	c.set(1, "timed", 300*time.Millisecond)
	c.settle()
	c.set(1, "untimed", never)
	time.Sleep(600 * time.Millisecond)
	return "after the old deadline: " + stored(c, 1)
}

// twoCallers has two callers share a load of key 1, cancels one, and tells what both get.
func twoCallers(l library, cancelsFirst bool) string {
	c := l.open(limits{entries: 100, ttl: time.Hour})
	shared, loads := c.(loading)
	if !loads {
		return "no loader"
	}
	var count atomic.Int32
	release := make(chan struct{})
	started := make(chan struct{}, 100)
	load := func(ctx context.Context) (string, error) {
		count.Add(1)
		started <- struct{}{}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-release:
			return "loaded", nil
		}
	}
	call := func(ctx context.Context) chan result {
		done := make(chan result, 1)
		go func() {
			value, err := shared.load(ctx, 1, load)
			done <- result{value, err}
		}()
		return done
	}
	cancelled, cancel := context.WithCancel(context.Background())
	first, second := cancelled, context.Background()
	if !cancelsFirst {
		first, second = second, first
	}
	one := call(first)
	<-started
	two := call(second)
	time.Sleep(200 * time.Millisecond)
	cancel()
	gone, other := one, two
	if !cancelsFirst {
		gone, other = two, one
	}
	early := "at once"
	var left result
	select {
	case left = <-gone:
	case <-time.After(500 * time.Millisecond):
		early = "at the end of the load"
	}
	// A waiting caller that loads anew has begun by now.
	close(release)
	if early != "at once" {
		left = <-gone
	}
	return fmt.Sprintf("the cancelled one returns %s with %s; the other gets: %s; %d loads",
		early, left, <-other, count.Load())
}

func heavierThanLimit(l library) string {
	if !l.weighted {
		return "no weights"
	}
	c := l.open(limits{weight: 100})
	for key := range 9 {
		c.set(key, strings.Repeat("x", 10), never)
	}
	c.settle()
	before := held(c, 0, 9)
	c.set(1, strings.Repeat("y", 1000), never)
	at1, others := stored(c, 1), 0
	if at1 != "nothing" {
		at1 = fmt.Sprintf("a value of %d", len(at1))
	}
	for key := range 9 {
		if _, found := c.get(key); found && key != 1 {
			others++
		}
	}
	return fmt.Sprintf("%d of 9 stored; then at the key: %s; of the other 8: %d", before, at1, others)
}

func held(c cache, from, to int) int {
	count := 0
	for key := from; key < to; key++ {
		if _, found := c.get(key); found {
			count++
		}
	}
	return count
}

// fullOfExpired fills a cache, waits until all has expired, and stores as many other values.
func fullOfExpired(l library, ttl, expiredFor time.Duration, own bool) int {
	c := l.open(limits{entries: 100, ttl: ttl})
	for key := range 100 {
		c.set(key, "old", ttl)
	}
	c.settle()
	time.Sleep(ttl + expiredFor)
	later := ttl
	if own {
		later = never
	}
	for key := 1000; key < 1100; key++ {
		c.set(key, "new", later)
		c.settle()
	}
	return held(c, 1000, 1100)
}

// share tells a count of which only the extremes are the same in each run.
func share(count int) string {
	if count == 0 || count == 100 {
		return fmt.Sprintf("%d of 100", count)
	}
	return fmt.Sprintf("some of 100 (%d)", count)
}

func allExpired(l library) string {
	waits := []time.Duration{100 * time.Millisecond, 2300 * time.Millisecond, 11 * time.Second}
	parts := make([]string, len(waits))
	var all sync.WaitGroup
	for at, wait := range waits {
		all.Go(func() {
			count := 0
			if l.ownTTLs {
				count = fullOfExpired(l, 200*time.Millisecond, wait, true)
			} else {
				// Long enough for the new ones to be counted before they expire.
				count = fullOfExpired(l, 2*time.Second, wait, false)
			}
			told := share(count)
			if at == 0 && count > 0 {
				// Chance decides how many of them a library has removed so soon.
				told = "some or all of 100"
			}
			parts[at] = fmt.Sprintf("expired for %v: %s", wait, told)
		})
	}
	all.Wait()
	return strings.Join(parts, "; ")
}

func moreLoadsThanSpace(l library) string {
	const loads = 32
	c := l.open(limits{entries: 2, ttl: time.Hour})
	shared, can := c.(loading)
	if !can {
		return "no loader"
	}
	var right, count atomic.Int32
	var all sync.WaitGroup
	running := make(chan struct{})
	for key := range loads {
		all.Go(func() {
			expected := fmt.Sprint("v", key)
			value, err := shared.load(context.Background(), key, func(context.Context) (string, error) {
				if count.Add(1) == loads {
					close(running)
				}
				// A library may run one load after the other.
				select {
				case <-running:
				case <-time.After(200 * time.Millisecond):
				}
				return expected, nil
			})
			if err == nil && value == expected {
				right.Add(1)
			}
		})
	}
	all.Wait()
	before := held(c, 0, loads)
	c.settle()
	return fmt.Sprintf("%d right values, %d loads; stay: %d, before maintenance (%d)",
		right.Load(), count.Load(), held(c, 0, loads), before)
}

func clearAndDeadline(l library) string {
	c := l.open(limits{entries: 100, ttl: time.Hour})
	all, clears := c.(clearing)
	if !clears {
		return "no clear"
	}
	c.set(1, "old", 300*time.Millisecond)
	c.settle()
	all.clear()
	c.set(1, "new", never)
	time.Sleep(600 * time.Millisecond)
	return "after the old deadline: " + stored(c, 1)
}

// lifetime stores a value and tells when the last call began that returned it.
func lifetime(l library, ttl time.Duration) string {
	c := l.open(limits{entries: 100, ttl: ttl})
	begin := time.Now()
	c.set(1, "v", ttl)
	stored := time.Now()
	last := time.Duration(-1)
	for {
		c.settle()
		asked := time.Now()
		if _, found := c.get(1); !found {
			break
		}
		last = asked.Sub(stored)
		if asked.Sub(begin) > 3*time.Second {
			return "has no deadline"
		}
	}
	switch {
	case last > ttl:
		return fmt.Sprintf("lives %.1f s", last.Seconds())
	case last < 0 && ttl <= 1:
		return "not returned"
	default:
		return "exact"
	}
}

func shortTTLs(l library) string {
	var parts []string
	for _, ttl := range []time.Duration{0, 1, time.Millisecond, 300 * time.Millisecond} {
		told := outcome(func(l library) string { return lifetime(l, ttl) }, l)
		parts = append(parts, fmt.Sprintf("%v: %s", ttl, told))
	}
	return strings.Join(parts, "; ")
}

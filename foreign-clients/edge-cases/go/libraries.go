package main

import (
	"context"
	"strconv"
	"time"

	theine "github.com/Yiling-J/theine-go"
	"github.com/dgraph-io/ristretto/v2"
	"github.com/maypok86/otter/v2"
	"github.com/viccon/sturdyc"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func (l limits) weightOf(value string) int64 {
	if l.weight > 0 {
		return int64(len(value))
	}
	return 1
}

func (l limits) max() int64 {
	return int64(max(l.entries, l.weight))
}

// timed reports whether a TTL is to be given to the library.
func timed(ttl time.Duration) bool { return ttl != never }

type ristrettoCache struct {
	limits
	inner *ristretto.Cache[int, string]
}

func openRistretto(l limits) cache {
	return ristrettoCache{l, must(ristretto.NewCache(&ristretto.Config[int, string]{
		NumCounters: 10 * l.max(), MaxCost: l.max(), BufferItems: 64, IgnoreInternalCost: true,
	}))}
}

func (c ristrettoCache) get(key int) (string, bool) { return c.inner.Get(key) }
func (c ristrettoCache) set(key int, value string, ttl time.Duration) {
	if timed(ttl) {
		c.inner.SetWithTTL(key, value, c.weightOf(value), ttl)
	} else {
		c.inner.Set(key, value, c.weightOf(value))
	}
}
func (c ristrettoCache) remove(key int) { c.inner.Del(key) }
func (c ristrettoCache) clear()         { c.inner.Clear() }
func (c ristrettoCache) settle()        { c.inner.Wait() }

// living is a value of otter with its own TTL.
type living struct {
	value string
	ttl   time.Duration
}

type otterCache struct{ inner *otter.Cache[int, living] }

func openOtter(l limits) cache {
	options := &otter.Options[int, living]{
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[int, living]) time.Duration {
			return e.Value.ttl
		}),
	}
	if l.weight > 0 {
		options.MaximumWeight = uint64(l.weight)
		options.Weigher = func(_ int, value living) uint32 { return uint32(len(value.value)) }
	} else {
		options.MaximumSize = l.entries
	}
	return otterCache{must(otter.New(options))}
}

func (c otterCache) get(key int) (string, bool) {
	found, ok := c.inner.GetIfPresent(key)
	return found.value, ok
}
func (c otterCache) set(key int, value string, ttl time.Duration) {
	c.inner.Set(key, living{value, ttl})
}
func (c otterCache) remove(key int) { c.inner.Invalidate(key) }
func (c otterCache) clear()         { c.inner.InvalidateAll() }
func (c otterCache) settle()        { c.inner.CleanUp() }
func (c otterCache) load(ctx context.Context, key int, load loader) (string, error) {
	found, err := c.inner.Get(ctx, key, otter.LoaderFunc[int, living](
		func(ctx context.Context, _ int) (living, error) {
			value, err := load(ctx)
			return living{value, never}, err
		}))
	return found.value, err
}

type loaderKey struct{}

type theineCache struct {
	limits
	inner *theine.LoadingCache[int, string]
}

// openTheine gives the loader of a call to the cache's one loader by the context.
func openTheine(l limits) cache {
	return theineCache{l, must(theine.NewBuilder[int, string](l.max()).Loading(
		func(ctx context.Context, _ int) (theine.Loaded[string], error) {
			value, err := ctx.Value(loaderKey{}).(loader)(ctx)
			return theine.Loaded[string]{Value: value, Cost: l.weightOf(value)}, err
		}).Build())}
}

// get reads without loading: the library's own Get of this cache loads.
func (c theineCache) get(key int) (string, bool) {
	none := loader(func(context.Context) (string, error) { return "", context.Canceled })
	value, err := c.load(context.Background(), key, none)
	return value, err == nil
}
func (c theineCache) set(key int, value string, ttl time.Duration) {
	if timed(ttl) {
		c.inner.SetWithTTL(key, value, c.weightOf(value), ttl)
	} else {
		c.inner.Set(key, value, c.weightOf(value))
	}
}
func (c theineCache) remove(key int) { c.inner.Delete(key) }
func (c theineCache) settle()        { c.inner.Wait() }
func (c theineCache) load(ctx context.Context, key int, load loader) (string, error) {
	return c.inner.Get(context.WithValue(ctx, loaderKey{}, load), key)
}

type sturdycCache struct{ inner *sturdyc.Client[string] }

// openSturdyc turns the sweep for expired entries off where it would run all the time.
func openSturdyc(l limits) cache {
	options := []sturdyc.Option{sturdyc.WithLog(&sturdyc.NoopLogger{})}
	if l.ttl < time.Second {
		options = append(options, sturdyc.WithNoContinuousEvictions())
	}
	return sturdycCache{sturdyc.New[string](l.entries, 1, l.ttl, 10, options...)}
}

func (c sturdycCache) get(key int) (string, bool) { return c.inner.Get(strconv.Itoa(key)) }
func (c sturdycCache) set(key int, value string, _ time.Duration) {
	c.inner.Set(strconv.Itoa(key), value)
}
func (c sturdycCache) remove(key int) { c.inner.Delete(strconv.Itoa(key)) }
func (c sturdycCache) settle()        {}
func (c sturdycCache) load(ctx context.Context, key int, load loader) (string, error) {
	return c.inner.GetOrFetch(ctx, strconv.Itoa(key), sturdyc.FetchFn[string](load))
}

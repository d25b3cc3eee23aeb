//go:build !quick

// Caches, locks, limiters, sessions and queues over Redis's protocol.

package main

import (
	"context"
	"net/http"
	"time"

	"github.com/alexedwards/scs/goredisstore"
	"github.com/alexedwards/scs/redisstore"
	"github.com/alexedwards/scs/v2"
	"github.com/boj/redistore"
	"github.com/bsm/redislock"
	rediscache "github.com/go-redis/cache/v9"
	"github.com/go-redis/redis_rate/v10"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/gomodule/redigo/redis"
	"github.com/hibiken/asynq"
	"github.com/ulule/limiter/v3"
	limiterredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

type user struct{ Name string }

var _ = program("go-redis/cache", func() {
	local := rediscache.NewTinyLFU(100, time.Minute)
	c := rediscache.New(&rediscache.Options{Redis: client(), LocalCache: local})
	must(c.Set(&rediscache.Item{Ctx: ctx, Key: "a", Value: &user{"ada"}, TTL: time.Minute}))
	var found user
	must(c.Get(ctx, "a", &found))
	show("get", found, c.Exists(ctx, "a"))
	calls := 0
	for range 2 {
		must(c.Once(&rediscache.Item{Key: "b", Value: &found, Do: func(*rediscache.Item) (any, error) {
			calls++
			return &user{"made"}, nil
		}}))
	}
	show("once", found, calls, c.Delete(ctx, "a"), c.Get(ctx, "a", &found))
})

var _ = program("redsync", func() {
	locks := redsync.New(goredis.NewPool(client()))
	lock := locks.NewMutex("printer", redsync.WithExpiry(5*time.Second))
	must(lock.Lock())
	other := locks.NewMutex("printer", redsync.WithTries(1))
	show("other", other.Lock() != nil, got(lock.Extend()), got(lock.Unlock()), other.Lock() == nil)
})

var _ = program("redislock", func() {
	locks := redislock.New(client())
	lock := got(locks.Obtain(ctx, "printer", 5*time.Second, nil))
	_, err := locks.Obtain(ctx, "printer", 5*time.Second, nil)
	show("other", err, near(got(lock.TTL(ctx)), 5*time.Second))
	show("refresh", lock.Refresh(ctx, 9*time.Second, nil), lock.Release(ctx), lock.Release(ctx))
})

var _ = program("redis_rate", func() {
	limiter := redis_rate.NewLimiter(client())
	for range 5 {
		answer := got(limiter.Allow(ctx, "me", redis_rate.PerHour(3)))
		show("allow", answer.Allowed, answer.Remaining)
	}
	show("reset", limiter.Reset(ctx, "me"))
})

var _ = program("ulule/limiter", func() {
	backend := got(limiterredis.NewStore(client()))
	limit := limiter.New(backend, limiter.Rate{Period: time.Hour, Limit: 3})
	for range 5 {
		answer := got(limit.Get(ctx, "me"))
		show("get", answer.Reached, answer.Remaining)
	}
	show("peek", got(limit.Peek(ctx, "me")).Reached, got(limit.Reset(ctx, "me")).Reached)
})

var _ = program("boj/redistore", func() {
	gorilla(got(redistore.NewRediStore(2, "tcp", address, "", "", []byte("of no value"))))
})

// scsVisits visits an application with sessions of scs.
func scsVisits(backend scs.Store) {
	manager := scs.New()
	manager.Store = backend
	pages := http.NewServeMux()
	pages.HandleFunc("/visit", func(w http.ResponseWriter, r *http.Request) {
		count := manager.GetInt(r.Context(), "visits")
		manager.Put(r.Context(), "visits", count+1)
		_, _ = w.Write([]byte{byte('1' + count)})
	})
	pages.HandleFunc("/leave", func(_ http.ResponseWriter, r *http.Request) {
		must(manager.Destroy(r.Context()))
	})
	visits(manager.LoadAndSave(pages), "/visit", "/visit", "/leave", "/visit")
}

var _ = program("scs redisstore", func() {
	scsVisits(redisstore.New(&redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) }}))
})

var _ = program("scs goredisstore", func() {
	scsVisits(goredisstore.New(client()))
})

var _ = program("asynq", func() {
	options := asynq.RedisClientOpt{Addr: address}
	sent := asynq.NewClient(options)
	info := got(sent.Enqueue(asynq.NewTask("sum", []byte("2+3")), asynq.TaskID("first")))
	show("queued", info.ID, info.State.String())
	done := make(chan string, 1)
	worker := asynq.NewServer(options, asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel})
	must(worker.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		done <- string(task.Payload())
		return nil
	})))
	select {
	case task := <-done:
		show("done", task)
	case <-time.After(10 * time.Second):
		show("done", "never")
	}
	worker.Shutdown()
})
